"""Holdfast: ask one dataset as many questions as you like, each depending on the last, and still believe the
answers."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Where each public name lives. Names are imported on first use, so `import holdfast` stays fast and a part
# that is not used never has to be installed.
_HOME = {
    "Answer": "holdfast.guard",
    "BudgetSpent": "holdfast.errors",
    "Certificate": "holdfast.guard",
    "Gate": "holdfast.guard",
    "Guard": "holdfast.guard",
    "Preview": "holdfast.guard",
    "Query": "holdfast.queries",
    "QueryRejected": "holdfast.errors",
    "ReusableHoldout": "holdfast.guard",
    "Verdict": "holdfast.guard",
    "admin": "holdfast.admin",
    "audit": "holdfast.audit",
    "barriers": "holdfast.barriers",
    "client": "holdfast.client",
    "dependence": "holdfast.dependence",
    "engines": "holdfast.engines",
    "errors": "holdfast.errors",
    "figures": "holdfast.figures",
    "gate_gain": "holdfast.planning",
    "gate_power": "holdfast.planning",
    "gate_tasks": "holdfast.planning",
    "guard": "holdfast.guard",
    "inspect": "holdfast.inspect",
    "intervals": "holdfast.intervals",
    "ledger": "holdfast.ledger",
    "mechanisms": "holdfast.mechanisms",
    "mlflow": "holdfast.mlflow",
    "optuna": "holdfast.optuna",
    "plan": "holdfast.planning",
    "planning": "holdfast.planning",
    "queries": "holdfast.queries",
    "reductions": "holdfast.reductions",
    "replicable": "holdfast.replicable",
    "results": "holdfast.results",
    "server": "holdfast.server",
    "sklearn": "holdfast.sklearn",
    "stability": "holdfast.stability",
    "statistics": "holdfast.statistics",
    "tails": "holdfast.tails",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    home = _HOME[name]
    module = importlib.import_module(home)
    return module if home == f"holdfast.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
