"""The benchmarks of a checkout: certified and real errors of every strategy and every peer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import holdfast
from holdfast import checks
from holdfast.errors import HoldfastError

_FOLDER = "benchmarks"


def run_benchmarks(
    output: Path, *, work: float = 1e9, workers: int = 2, progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Run the comparison with peers and write numbers, a page of tables and pictures.

    The peers are not part of the installed package, so this runs in a checkout of the repository. Attacks
    that finished before an interruption are not run again.

    Args:
        output: The folder to write. It is made where there is none.
        work: How many entries an attack draws at each place of the grid. 0 leaves attacks out.
        workers: How many processes attack.
        progress: Called with the name of a stage, how much of it is done, and how much there is.

    Returns:
        The ``summary``, the ``findings`` in words, and the names of the ``files`` that were written.
    """
    work = checks.real(work, "work", "[0, inf)", of="holdfast bench")
    workers = checks.whole(workers, "workers", of="holdfast bench")
    report = _load("report")
    output.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = report.run(output, work, workers, progress)
    return results


def _load(name: str) -> ModuleType:
    """Import a module of the benchmarks of this checkout."""
    for root in (Path(holdfast.__file__).resolve().parents[2], Path.cwd()):
        folder = root / _FOLDER
        if (folder / f"{name}.py").is_file():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return importlib.import_module(name)
    raise HoldfastError(
        "The benchmarks are not part of the installed package: clone the repository and run "
        "`holdfast bench` inside it."
    )
