"""Replicable statistics and learning: two laboratories with the same tape and different samples get exactly
the same result."""

from __future__ import annotations

import importlib
from typing import Any

# Where each public name lives. Names are imported on first use: a mean does not wait for scikit-learn.
_HOME = {
    "ReplicableClassifier": "_classifier",
    "ReplicableSearchCV": "_search",
    "Result": "_result",
    "StandardOptimal": "_littlestone",
    "Tape": "_tape",
    "agnostic": "_agnostic",
    "amplify": "_amplify",
    "choose": "_choose",
    "correlated_choice": "_correlated",
    "correlated_laplace": "_continuous",
    "correlated_log_choice": "_correlated",
    "correlated_name": "_correlated",
    "correlated_normal": "_continuous",
    "estimate_opt": "_opt",
    "gaussian_mean": "_gaussian",
    "heavy_hitters": "_heavy",
    "histogram": "_histogram",
    "identity_test": "_identity",
    "interior_point": "_interior",
    "learn_littlestone": "_littlestone",
    "learn_threshold": "_interior",
    "least_eigenvalue": "_eigenvalue",
    "list_heavy_hitter": "_list_heavy",
    "littlestone_dimension": "_littlestone",
    "mean": "_mean",
    "median": "_quantile",
    "quantile": "_quantile",
    "sample_size": "_sizes",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'holdfast.replicable' has no attribute {name!r}")
    return getattr(importlib.import_module(f"holdfast.replicable.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
