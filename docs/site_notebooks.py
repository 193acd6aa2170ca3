"""A step of the site's build: every notebook becomes a page, with the outputs that it keeps.

``notebooks/x.ipynb`` becomes ``notebooks/x.md`` for MkDocs, and its pictures become files beside it. The
notebook itself stays on the site too, to be downloaded.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parent


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Called by MkDocs once it knows all files."""
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        text, pictures = page(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by file name."""
    pieces: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            pieces.append(cell.source)
            continue
        pieces.append(_fenced(cell.source, "python"))
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                pieces.append(f"![What the cell above draws]({name})")
            elif "text/markdown" in data:
                pieces.append(data["text/markdown"])
            elif "text/html" in data:
                pieces.append(f'<div class="notebook-table">\n{_plain_table(data["text/html"])}\n</div>')
            else:
                pieces.append(_fenced(output.get("text") or data.get("text/plain", ""), "text"))
    title, *rest = pieces[0].split("\n", 1)
    download = f'<a href="{path.name}" download>Download this notebook</a> and run it on your machine.'
    return "\n\n".join([title, download, *rest, *pieces[1:]]) + "\n", pictures


def _fenced(text: str, kind: str) -> str:
    return f"```{kind}\n{text.rstrip()}\n```"


def _plain_table(html: str) -> str:
    """The table without the style that pandas gives it, so that it looks like other tables of the site, and
    without empty lines, which end HTML in Markdown."""
    _, style, after = html.partition("</style>")
    table = re.sub(r"<(table|tr)\b[^>]*>", r"<\1>", after if style else html)
    lines = table.removesuffix("</div>").splitlines()
    return "\n".join(line.strip() for line in lines if line.strip() and line.strip() != "<div>")
