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
# What a guard is made of, in the order of its imports.
_ROOMS = {"answers", "readings", "scoring", "strategies", "asking", "guard"}
_ASKING = _CODING | {"engines", "queries", "ledger", "mechanisms"} | _ROOMS
_GUARDED = _ASKING | {"gates", "boards", "holdout"}
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
    "answers": {"intervals", "queries", "ledger"},
    "readings": _ASKING - _ROOMS | {"answers"},
    "scoring": _ASKING - _ROOMS | {"answers", "readings"},
    "strategies": _ASKING - _ROOMS | {"answers", "readings"},
    "asking": _ASKING - _ROOMS | {"answers", "readings", "strategies"},
    "guard": _ASKING - {"guard"},
    "gates": _ASKING,
    "boards": _ASKING,
    "holdout": _ASKING,
    "planning": _CODING | {"guard", "strategies"},
    "replicable": _CALCULUS | {"mechanisms"},
    "reductions": _CALCULUS | {"mechanisms", "replicable"},
    "barriers": _CALCULUS | {"mechanisms", "replicable"},
    "audit": _GUARDED | {"planning", "replicable"},
    "lab": _GUARDED | {"audit", "barriers", "replicable"},
    "client": _GUARDED | {"results"},
    "registry": _GUARDED | {"results"},
    "server": _GUARDED | {"planning", "registry", "results", "client"},
    "cli": _GUARDED | {"planning", "audit", "lab", "replicable", "results", "client", "server"},
}
# Public names that moved to rooms above stay where users import them from: this file offers them lazily.
OFFERS = {"guard/__init__.py": {"gates", "boards", "holdout"}}
GROUND_FLOOR = {
    "errors",
    "checks",
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
    names = {str(path.relative_to(SOURCE)): path for path in files}
    wrong = {name: _violations(path, room) - OFFERS.get(name, set()) for name, path in names.items()}
    assert {name: rooms for name, rooms in wrong.items() if rooms} == {}


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
        "sqlglot",
        "duckdb",
        "pandas",
        "polars",
        "pyarrow",
        "click",
        "rich",
        "holdfast.lab",
    }
    assert slow & _loaded_by("from holdfast import Guard") == set()
    assert "scipy.special" in _loaded_by("from holdfast import Guard; import scipy.special")


def test_opening_a_guard_leaves_the_compiler_of_questions_for_the_first_question():
    """To load ibis takes as long as to open a table of 100,000 rows."""
    opened = "import pandas; from holdfast import Guard; g = Guard(pandas.DataFrame({'x': range(100)}))"
    compilers = {"ibis", "sqlglot"}
    assert compilers & _loaded_by(opened) == set()
    assert compilers <= _loaded_by(f"{opened}; g.share('x > 1')")
