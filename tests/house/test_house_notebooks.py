"""Notebooks run, keep the outputs of a run, and say nothing that no cell shows."""

from __future__ import annotations

import json
import math
import re
import runpy
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
MAKE = runpy.run_path(str(ROOT / "docs" / "make_notebooks.py"))
NAMES = [path.stem for path in MAKE["paths"]()]
STORIES = {
    "explore-a-table",
    "reuse-one-test-set",
    "shake-up",
    "gate-your-agent",
    "panel-data",
    "publish-a-replicable-result",
    "teach-the-reusable-holdout",
}
QUICK = {"explore-a-table", "publish-a-replicable-result"}
MOST_BYTES = 300 * 1024
# Numbers may differ as much on another processor, where sums are taken in another order.
RELATIVE, ABSOLUTE = 0.02, 0.011


def read(name: str) -> nbformat.NotebookNode:
    return MAKE["read"](FOLDER / f"{name}.ipynb")


def prose(notebook: nbformat.NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_every_notebook_is_there_and_listed():
    assert set(NAMES) == STORIES
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"]({name}.ipynb)" in index for name in STORIES)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_tells_a_story_about_data_with_a_licence(name):
    text = prose(read(name))
    assert text.startswith("# ")
    for part in ("**The question.**", "*Data:*", "Licence:", "## Conclusion", "Continue with ["):
        assert part in text, part


def problems(notebook: nbformat.NotebookNode) -> list[str]:
    """What shows that the outputs are not those of one clean run from top to bottom."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    wrong = [] if counts == list(range(1, len(code) + 1)) else [f"cells ran in the order {counts}"]
    outputs = [output for cell in code for output in cell.outputs]
    wrong += ["an error" for output in outputs if output.output_type == "error"]
    wrong += [f"a warning: {output.text}" for output in outputs if output.get("name") == "stderr"]
    return wrong + (
        [] if any("image/png" in output.get("data", {}) for output in outputs) else ["no picture"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_outputs_are_those_of_one_clean_run(name):
    assert problems(read(name)) == []
    assert (FOLDER / f"{name}.ipynb").stat().st_size < MOST_BYTES


def test_an_unclean_run_would_be_caught():
    notebook = deepcopy(read("explore-a-table"))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    code[0].execution_count = 7
    code[1].outputs = [nbformat.v4.new_output("stream", name="stderr", text="careful")]
    assert len(problems(notebook)) == 2


def unexplained(notebook: nbformat.NotebookNode) -> set[str]:
    """Numbers of the text that stand in no cell and in no output."""
    shown = json.dumps([cell for cell in notebook.cells if cell.cell_type == "code"], ensure_ascii=False)
    shown = re.sub(r"(?<=\d)[_,](?=\d)", "", re.sub(r'"image/png": "[^"]*"', "", shown))
    text = re.sub(r"\]\([^)]*\)|\b(?:19|20)\d\d\b|CC BY 4\.0|`[^`]*`", "", prose(notebook))
    numbers = re.findall(r"\d[\d,]*(?:\.\d+)?", text)
    return {
        number
        for number in numbers
        if not re.search(rf"(?<![\d.]){re.escape(number.replace(',', ''))}(?!\d)", shown)
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_the_text_comes_from_a_cell(name):
    assert unexplained(read(name)) == set()


def test_a_number_from_nowhere_would_be_caught():
    notebook = deepcopy(read("explore-a-table"))
    notebook.cells.append(nbformat.v4.new_markdown_cell("It is 12.345 % better, on 20,000 stones."))
    assert unexplained(notebook) == {"12.345"}


@pytest.mark.parametrize("name", NAMES)
def test_links_of_a_notebook_lead_somewhere(name):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose(read(name)))
    assert targets
    assert [target for target in targets if not (FOLDER / target).exists()] == []


def differences(kept: list[str], now: list[str]) -> list[tuple[str, str]]:
    """Outputs that do not say the same: other words, or numbers that no other order of sums explains."""
    if len(kept) != len(now):
        return [(f"{len(kept)} outputs", f"{len(now)} outputs")]
    words, numbers = MAKE["words"], MAKE["numbers"]

    def same(first: str, second: str) -> bool:
        return words(first) == words(second) and all(
            math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
            for a, b in zip(numbers(first), numbers(second), strict=True)
        )

    return [(first, second) for first, second in zip(kept, now, strict=True) if not same(first, second)]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in NAMES]
)
def test_a_notebook_runs_and_prints_what_it_keeps(name, tmp_path):
    command = [sys.executable, str(ROOT / "docs" / "make_notebooks.py"), name, "--to", str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr[-3000:]
    now = MAKE["read"](tmp_path / f"{name}.ipynb")
    assert differences(MAKE["texts"](read(name)), MAKE["texts"](now)) == [], (
        "run `python docs/make_notebooks.py`"
    )


def test_a_stale_output_would_be_caught():
    assert differences(["0.62 in [0.574, 0.661]"], ["0.625 in [0.574, 0.661]"]) == []
    assert differences(["0.62 in [0.574, 0.661]"], ["0.65 in [0.574, 0.661]"])
    assert differences(["as guessed"], ["near the guess"])
    assert differences(["a"], ["a", "b"])
