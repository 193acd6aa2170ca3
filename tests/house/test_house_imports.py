"""A question flows down once, and imports point that way only."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"

# The rooms in the order a question passes them, and what each may import from; the ground floor (errors,
# checks, …) is open to all. A new room gets its line here.
_CALCULUS = {"tails", "stability", "dependence", "intervals"}
_CODING = _CALCULUS | {"coding", "statistics"}
_ASKING = _CODING | {"engines", "queries", "ledger", "mechanisms", "guard"}
MAY_IMPORT = {
    "tails": set(),
    "stability": {"tails"},
    "dependence": {"tails", "stability"},
    "intervals": {"tails"},
    "mechanisms": {"tails", "stability"},
    "engines": set(),
    "queries": {"engines"},
    "ledger": set(),
    "results": set(),
    "coding": {"tails"},
    "statistics": {"tails", "intervals"},
    "guard": _ASKING - {"guard"},
    "planning": _CODING | {"guard"},
    "replicable": _CALCULUS | {"mechanisms"},
    "reductions": _CALCULUS | {"mechanisms", "replicable"},
    "barriers": _CALCULUS | {"mechanisms", "replicable"},
    "audit": _ASKING | {"planning", "replicable"},
    "lab": _ASKING | {"audit", "barriers", "replicable"},
    "server": _ASKING | {"planning", "results"},
    "cli": _ASKING | {"planning", "audit", "lab", "replicable", "results", "server"},
}
GROUND_FLOOR = {
    "errors",
    "checks",
    "distribution",
    "isolated",
    "lazy",
    "records",
    "rounding",
    "search",
    "spans",
    "typing",
    "workers",
}


def _imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({f"{node.module}.{alias.name}" for alias in node.names} | {node.module})
    return {name for name in names if name.split(".")[0] == "holdfast"}


def _rooms(names: set[str]) -> set[str]:
    return {name.split(".")[1] for name in names if name.count(".")}


def _violations(path: Path, room: str) -> set[str]:
    known = set(MAY_IMPORT) | GROUND_FLOOR
    return (_rooms(_imported_modules(path)) & known) - MAY_IMPORT[room] - GROUND_FLOOR - {room}


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_from_rooms_below_it(room):
    files = sorted((SOURCE / room).rglob("*.py"))
    assert files, f"the room {room} is empty"
    wrong = {str(path.relative_to(SOURCE)): found for path in files if (found := _violations(path, room))}
    assert wrong == {}


def test_every_room_has_its_place_in_the_order():
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms == set(MAY_IMPORT)


def test_the_check_would_catch_an_upward_import(tmp_path):
    culprit = tmp_path / "culprit.py"
    culprit.write_text("from holdfast.guard import Guard\nimport holdfast.cli\n", encoding="utf-8")
    assert _violations(culprit, "stability") == {"guard", "cli"}


def _loaded_by(statement: str) -> set[str]:
    script = f"import sys; {statement}; print(' '.join(sys.modules))"
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(finished.stdout.split())


def test_importing_holdfast_imports_nothing_heavy():
    loaded = _loaded_by("import holdfast, holdfast.stability, holdfast.tails")
    heavy = {
        "dp_accounting",
        "opendp",
        "duckdb",
        "ibis",
        "sklearn",
        "mlflow",
        "optuna",
        "pandas",
        "matplotlib",
        "scipy.stats",
        "sqlglot",
    }
    assert heavy & loaded == set()


def test_importing_the_guard_leaves_slow_modules_for_their_first_use():
    """Two thirds of the time that `from holdfast import Guard` took went into these."""
    slow = {
        "holdfast.dependence._chain",
        "holdfast.dependence._network",
        "holdfast.planning",
        "holdfast.server",
        "holdfast.stability",
        "scipy",
        "scipy.special",
        "scipy.stats",
        "numpy.f2py",
        "numpy.testing",
        "joblib",
        "ibis",
        "duckdb",
        "pandas",
    }
    assert slow & _loaded_by("from holdfast import Guard") == set()
    assert "scipy.special" in _loaded_by("from holdfast import Guard; import scipy.special")
