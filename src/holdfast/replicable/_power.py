"""What so many rows can promise: the accuracy of a replicable statistic at a wanted agreement."""

from __future__ import annotations

from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._sizes import sample_size

__all__ = ["power"]

_STEPS = 60


def power(name: str, *, rows: Any, most: Any = 0.49, **parameters: Any) -> float | None:
    """The finest ``accuracy``, up to ``most``, that the named statistic can promise with so many rows.

    ``parameters`` are those of ``sample_size(name, ...)`` without the accuracy.

    Guarantee: ``sample_size`` at this accuracy is at most ``rows``; None where no accuracy up to ``most`` is
    coarse enough.
    Assumes: what the statistic assumes.
    Reference: see each statistic.

    >>> round(power("mean", rows=5000, rho=0.1, beta=0.05), 4)
    0.0485
    """
    rows = checks.whole(rows, "rows", of="power")
    most = checks.real(most, "most", "(0, inf)", of="power")

    def enough(accuracy: float) -> bool:
        try:
            return bool(sample_size(name, accuracy=accuracy, **parameters) <= rows)
        except InvalidArgument as refused:
            if refused.argument != "accuracy":
                raise
            return False

    high: float = most
    if not enough(high):
        return None
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
        if high - low <= 1e-6 * high:
            break
    return high
