"""Pages that need nothing beside them: a template of this folder, filled in, in the style they share."""

from __future__ import annotations

from importlib import resources
from string import Template


def filled(template: str, **values: object) -> str:
    """The template with these values in it; they are HTML already."""
    folder = resources.files("holdfast.cli")
    style = folder.joinpath("page.css").read_text(encoding="utf-8").rstrip()
    text = folder.joinpath(template).read_text(encoding="utf-8")
    return Template(text).substitute(values, style=style)
