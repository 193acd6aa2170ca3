"""Holdfast: ask one dataset as many questions as you like, each depending on the last, and still believe the
answers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names, for type checkers and editors
    from holdfast import (
        admin,
        audit,
        barriers,
        client,
        dependence,
        engines,
        errors,
        guard,
        inspect,
        intervals,
        lab,
        ledger,
        mechanisms,
        mlflow,
        optuna,
        planning,
        queries,
        reductions,
        replicable,
        results,
        server,
        sklearn,
        stability,
        statistics,
        tails,
    )
    from holdfast.errors import BudgetSpent, QueryRejected
    from holdfast.guard import Answer, Certificate, Gate, Guard, Preview, ReusableHoldout, Verdict
    from holdfast.planning import gate_gain, gate_power, gate_tasks, plan
    from holdfast.queries import Query

__version__ = "0.1.0"

# Where each public name lives that is not a module. Names are imported on first use, so `import holdfast` is
# fast, and a part that is not used never has to be installed.
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
    "gate_gain": "holdfast.planning",
    "gate_power": "holdfast.planning",
    "gate_tasks": "holdfast.planning",
    "plan": "holdfast.planning",
}

__all__ = [
    "Answer",
    "BudgetSpent",
    "Certificate",
    "Gate",
    "Guard",
    "Preview",
    "Query",
    "QueryRejected",
    "ReusableHoldout",
    "Verdict",
    "__version__",
    "admin",
    "audit",
    "barriers",
    "client",
    "dependence",
    "engines",
    "errors",
    "gate_gain",
    "gate_power",
    "gate_tasks",
    "guard",
    "inspect",
    "intervals",
    "lab",
    "ledger",
    "mechanisms",
    "mlflow",
    "optuna",
    "plan",
    "planning",
    "queries",
    "reductions",
    "replicable",
    "results",
    "server",
    "sklearn",
    "stability",
    "statistics",
    "tails",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        if name not in _HOME:
            return importlib.import_module(f"holdfast.{name}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
