"""Where a result was measured, and how it is kept."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import Any

import holdfast

RESULTS = Path(__file__).parent / "results"


def describe() -> dict[str, Any]:
    """The machine and the versions that matter for a number."""
    packages = ("numpy", "scipy", "duckdb", "ibis-framework")
    return {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "holdfast": holdfast.__version__,
        **{name: importlib.metadata.version(name) for name in packages},
    }


def keep(name: str, result: dict[str, Any]) -> None:
    """Write a result beside the others and print it."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"machine": describe(), **result}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(text)
