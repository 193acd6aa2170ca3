"""Build the site of this version beside those of earlier ones: ``python docs/make_site.py [folder]``.

The folder has one site for each version, a list of them for the menu on every page, and a page that leads to
the newest. It is ready to be served as it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_REDIRECT = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={0}/index.html">\n'
)


def version() -> str:
    """The version that pyproject.toml states."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def build(folder: Path) -> None:
    """Build this version strictly into the folder, and list all versions there."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / version())]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    list_versions(folder)


def list_versions(folder: Path) -> None:
    """Write the list of versions, the newest first, and the page that leads to it."""
    built = [path.parent.name for path in folder.glob("*/index.html")]
    names = sorted(built, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    entries = [
        {"version": name, "title": name, "aliases": ["latest"] if name == names[0] else []} for name in names
    ]
    (folder / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    (folder / "index.html").write_text(_REDIRECT.format(names[0]), encoding="utf-8")


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve())
