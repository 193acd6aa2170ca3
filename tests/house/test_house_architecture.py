"""The architecture page has every package, and every file that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "holdfast"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_package_has_a_paragraph():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    paragraphs = {
        name
        for line in PAGE.splitlines()
        if line.startswith("**")
        for name in re.findall(r"`(\w+)`", line.partition(".**")[0])
    }
    assert paragraphs == packages


def test_every_file_that_is_named_exists():
    named = set(re.findall(r"`([\w/]+\.(?:py|md))`", PAGE))
    assert len(named) > 10
    missing = {name for name in named if not any((place / name).is_file() for place in (SOURCE, ROOT))}
    assert missing == set()


def test_the_page_is_found():
    assert "docs/architecture.md" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "architecture.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
