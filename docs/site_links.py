"""A step of the site's build: links out of ``docs/`` become text, links to notebooks lead to pages.

Pages name tests, results and source files of the repository, and readers on the site have no repository. A
link to a file that does not exist is left as it is, so that the strict build fails on it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs for every page before it is rendered."""
    return inside(markdown, DOCS / page.file.src_path)


def inside(markdown: str, path: Path) -> str:
    """The text of the page at ``path`` with links to files outside of the site as plain text."""

    def replace(link: re.Match[str]) -> str:
        target = (path.parent / link[2]).resolve()
        if target.suffix == ".ipynb" and target.exists():  # site_notebooks.py makes the page
            return f"[{link[1]}]({link[2].removesuffix('.ipynb')}.md{link[3] or ''})"
        on_site = target.is_relative_to(DOCS) and target.suffix not in {".py", ".toml", ".json", ".csv"}
        return link[0] if ":" in link[2] or on_site or not target.exists() else link[1]

    return _LINK.sub(replace, markdown)
