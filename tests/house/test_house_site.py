"""The site builds without a warning, needs no other server, and has every page of the documentation."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link, anchor or name is an error. With --quiet it would not be."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder


def test_every_page_is_on_the_site_and_can_be_searched(site):
    pages = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 50
    for page in pages:
        built = page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html")
        assert (site / built).is_file(), page
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    searched = {entry["location"].partition("#")[0] for entry in entries}
    assert {"glossary.html", "guides/ask.html", "theory/code-guard.html", "api.html"} <= searched


def test_notebooks_are_pages_with_their_pictures(site):
    notebooks = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
    assert len(notebooks) >= 7
    for notebook in notebooks:
        text = (site / "notebooks" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert (site / "notebooks" / notebook.name).is_file()
        assert f'href="{notebook.name}"' in text
        assert (site / "notebooks" / f"{notebook.stem}-1.png").is_file()
        assert f'src="{notebook.stem}-1.png"' in text
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    assert any(entry["location"].startswith("notebooks/shake-up.html") for entry in entries)


def test_readers_need_no_other_server(site):
    """Whoever reads about protected data should not tell third parties which page it was."""
    loaded = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?(https?:[^"'\s>]+)""")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert [url for url in loaded.findall(text) if "canonical" not in url] == [], page


def test_docstrings_are_on_the_site(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    assert 'id="holdfast.guard.Guard"' in text
    assert "cost_preview" in text


def test_light_and_dark_are_offered(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'data-md-color-scheme="slate"' in text
    assert 'data-md-color-scheme="default"' in text


def test_every_version_keeps_its_site_and_the_newest_comes_first(tmp_path):
    for name in ("0.2.0", "0.10.0", "0.9.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("a site", encoding="utf-8")
    make = runpy.run_path(str(ROOT / "docs" / "make_site.py"))
    make["list_versions"](tmp_path)
    entries = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [entry["version"] for entry in entries] == ["0.10.0", "0.9.1", "0.2.0"]
    assert [entry["aliases"] for entry in entries] == [["latest"], [], []]
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.fullmatch(r"\d+\.\d+\.\d+", make["version"]())


def test_a_broken_link_would_be_caught(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A page\n\n[gone](gone.md)\n", encoding="utf-8")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = settings[settings.index("validation:") : settings.index("nav:\n  - Start")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\nplugins: []\n{validation}", encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert finished.returncode != 0
    assert "gone.md" in finished.stderr


def test_links_out_of_the_site_become_text_only_where_they_lead_to_a_file():
    step = runpy.run_path(str(ROOT / "docs" / "site_links.py"))["inside"]
    page = ROOT / "docs" / "claims.md"
    text = "[a test](../tests/conftest.py), [a page](faq.md#why), [gone](../gone.py), [site](https://example.org)"
    assert step(text, page) == "a test, [a page](faq.md#why), [gone](../gone.py), [site](https://example.org)"
    text = "[a story](notebooks/shake-up.ipynb), [gone](notebooks/gone.ipynb)"
    assert step(text, page) == "[a story](notebooks/shake-up.md), [gone](notebooks/gone.ipynb)"
