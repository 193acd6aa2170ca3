"""Documents say what the code says: the reference is fresh, examples run, and links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), ROOT / "llms.txt", *(ROOT / "docs").rglob("*.md")]
    if path.name != "LICENSE"
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


def _blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)


def test_the_reference_is_what_the_docstrings_say():
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))["pages"]()
    files = [ROOT / "docs" / "reference.md", *sorted((ROOT / "docs" / "reference").glob("*.md"))]
    written = {str(path.relative_to(ROOT / "docs")): path.read_text(encoding="utf-8") for path in files}
    assert written == made, "run `python docs/make_reference.py`"


def test_the_first_page_of_the_reference_has_the_names_that_people_need():
    made = runpy.run_path(str(ROOT / "docs" / "make_reference.py"))
    names = [name for group in made["FRONT"].values() for name in group]
    assert len(names) == len(set(names))
    assert 35 <= len(names) <= 45
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert len(written.splitlines()) < 140
    assert [name for name in names if f"[`{name}`](" not in written] == []


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_a_page_run_in_order(name, tmp_path, monkeypatch):
    blocks = _blocks(ROOT / name)
    if not blocks:
        pytest.skip("no examples on this page")
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "example"}
    with contextlib.redirect_stdout(io.StringIO()):
        for number, block in enumerate(blocks, start=1):
            exec(compile(block, f"{name}, example {number}", "exec"), space)
    assert len(space) > 1


@pytest.mark.parametrize("name", NAMES)
def test_links_within_the_repository_lead_somewhere(name):
    page = ROOT / name
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [
        t
        for t in targets
        if not t.startswith(("http:", "https:", "mailto:")) and not (page.parent / t).exists()
    ]
    assert missing == []


def test_the_readme_opens_with_the_two_commands():
    opening = (ROOT / "README.md").read_text(encoding="utf-8")[:1500]
    assert opening.index("make demo") < opening.index("make test")
