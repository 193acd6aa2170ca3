"""One door to every sample size: the rows a replicable statistic needs, with explicit constants."""

from __future__ import annotations

import importlib

from holdfast import checks, errors

__all__ = ["sample_size"]

# Each statistic's module has a function ``<name>_rows`` that takes the statistic's own parameters.
_MODULES = {
    "agnostic": "_agnostic",
    "choose": "_choose",
    "difference": "_contrast",
    "estimate_opt": "_opt",
    "gaussian_mean": "_gaussian",
    "heavy_hitters": "_heavy",
    "histogram": "_histogram",
    "identity_test": "_identity",
    "interior_point": "_interior",
    "learn_littlestone": "_learn_littlestone",
    "learn_represented": "_represented",
    "learn_threshold": "_interior",
    "least_eigenvalue": "_eigenvalue",
    "list_heavy_hitter": "_list_heavy",
    "mean": "_mean",
    "median": "_quantile",
    "quantile": "_quantile",
    "slope": "_contrast",
}


def sample_size(name: str, **parameters: object) -> int:
    """The smallest number of rows for which the named statistic keeps its promise.

    Guarantee: with at least this many rows the statistic, given the same parameters, is replicable and
    accurate as it says; with fewer it raises ``NotEnoughRows``. Each size and its constants are derived in
    ``docs/theory/replicability.md`` and the pages it leads to.

    Assumes: what the statistic assumes, for independent rows.

    Reference: see each statistic.

    >>> sample_size("mean", accuracy=0.05, rho=0.1, beta=0.01, bounds=(0, 1))
    5847
    """
    checks.choice(name, "name", tuple(_MODULES), of="sample_size")
    rows = getattr(importlib.import_module(f"holdfast.replicable.{_MODULES[name]}"), f"{name}_rows")
    try:
        return int(rows(**parameters))
    except TypeError as mistake:
        if f"{name}_rows()" not in str(mistake):
            raise
        raise errors.InvalidArgument(
            "parameters", f"those of {name} ({mistake})", parameters, of="sample_size"
        ) from None
