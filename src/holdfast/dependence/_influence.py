"""Max-influence: by what factor one row can move the law of others (BDP (5) and (6))."""

from __future__ import annotations

import math

import numpy as np

from holdfast import rounding
from holdfast.dependence._factors import Array, log_sum

_EPS = float(np.finfo(float).eps)


def influence(logs: Array, targets: int) -> float:
    """ln max P[targets | a, known] / P[targets | b, known], from the ln of a joint table.

    Axis 0 is the row that moves, the next ``targets`` axes are the rows whose law is compared, the rest are
    known. Only values of the known rows that are possible with both a and b count; infinite where a target
    value is possible with one of them only.
    """
    if targets == 0 or logs.shape[0] < 2:
        return 0.0
    context = log_sum(logs, axis=tuple(range(1, targets + 1)), keepdims=True)
    possible = context > -np.inf
    with np.errstate(invalid="ignore"):
        given = logs - context
    high = np.where(possible, given, -np.inf).max(axis=0)
    low = np.where(possible, given, np.inf).min(axis=0)
    seen = high > -np.inf
    spread = float((high[seen] - low[seen]).max(initial=0.0))
    if spread == 0.0 or math.isinf(spread):
        return spread
    # Each logarithm is off by a few units in the last place of the largest that entered it.
    size = float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0))
    return rounding.up(spread + 16.0 * _EPS * size)


def largest_influence(logs: Array, targets: int) -> float:
    """The largest ``influence`` over all sets of the remaining rows that may be known besides.

    A last state "unknown" on each of those axes, the sum over the others, puts every set and every value of
    it into one table.
    """
    return influence(with_unknown(logs, range(targets + 1, logs.ndim)), targets)


def with_unknown(logs: Array, axes: range) -> Array:
    """The table with one more state on each of ``axes``: the sum over all the others."""
    for axis in axes:
        logs = np.concatenate([logs, log_sum(logs, axis=axis, keepdims=True)], axis=axis)
    return logs
