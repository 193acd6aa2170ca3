"""Run the notebooks and write their outputs into them: ``python docs/make_notebooks.py [name ...]``.

A notebook keeps the outputs of its last run. ``tests/house/test_house_notebooks.py`` runs it again and
compares. What differs from run to run and says nothing (times, ids, the version of Python) is not written.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent / "notebooks"
SECONDS = 120  # for one cell on a busy machine; a notebook takes far less
_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def paths() -> list[Path]:
    """All notebooks, in the order of their names."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> NotebookNode:
    """A notebook as it is in the tree."""
    return nbformat.read(path, as_version=4)


def run(path: Path) -> NotebookNode:
    """The notebook with the outputs of a run in an empty folder. Raises what a cell raises."""
    notebook = read(path)
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=place)
        client.execute(env=environment)
    return plain(notebook)


def plain(notebook: NotebookNode) -> NotebookNode:
    """The notebook without anything that another run would write differently."""
    notebook.metadata = {
        "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
        "language_info": {"name": "python"},
    }
    for place, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{place:02}"
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
        for output in cell.get("outputs", ()):
            output.pop("metadata", None)
            if output.output_type in ("display_data", "execute_result"):
                output.metadata = {}
                if "image/png" in output.data:
                    output.data.pop("text/plain", None)
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs of a cell, with what was printed in several pieces as one."""
    joined: list[NotebookNode] = []
    for output in outputs:
        if (
            joined
            and output.output_type == joined[-1].output_type == "stream"
            and output.name == joined[-1].name
        ):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def texts(notebook: NotebookNode) -> list[str]:
    """What the cells printed or showed as text, in order. Pictures and HTML are left out."""
    kept = []
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            shown = output.get("text") or data.get("text/markdown") or data.get("text/plain", "")
            if shown:
                kept.append(shown)
    return kept


def words(text: str) -> list[str]:
    """A text without its numbers, and with one space between words."""
    return _NUMBER.sub("0", text).split()


def numbers(text: str) -> list[float]:
    """The numbers of a text, in order."""
    return [float(number.replace(",", "").replace("−", "-")) for number in _NUMBER.findall(text)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Run notebooks and keep their outputs.")
    parser.add_argument("names", nargs="*", help="which notebooks; all, if none is named")
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder to write to")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JUPYTER_RUNTIME_DIR"] = folder
        for path in paths():
            if not options.names or path.stem in options.names:
                written = options.to / path.name
                nbformat.write(run(path), written)
                print(f"{path.name}: {written.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
