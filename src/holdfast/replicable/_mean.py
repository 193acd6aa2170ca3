"""The replicable mean: rounded to a shared grid just wide enough."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._arguments import bounds_argument, chance, enough_rows, values_argument
from holdfast.replicable._deviation import mean_gap
from holdfast.replicable._grid import snap
from holdfast.replicable._least import least_whole
from holdfast.replicable._result import Result
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["mean", "mean_rows", "rounded_failure"]

_BY = "theory 4, randomised rounding"
_FEWEST_CELLS = 2.0**-40


def mean(
    x: Any,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Any = (0.0, 1.0),
    best_effort: bool = False,
) -> Result:
    """The mean of values within ``bounds``, the same number from two samples with probability 1 − ``rho``.

    Guarantee: two samples and one tape give different results with probability at most ρ (over both samples
    and the tape); the result is within ``accuracy`` of the true mean except with probability β. The grid
    depends on the parameters alone, so the samples may differ in size.
    Assumes: independent rows of one distribution within the bounds (the bounds are checked).
    Reference: theory 4, randomised rounding.

    >>> result = mean([0, 1] * 3000, accuracy=0.05, rho=0.1, beta=0.01, tape=Tape("study-7"))
    >>> round(float(result), 6), result.guarantee
    (0.526396, Replicability(rho=0.1))
    """
    of = "mean"
    tape = tape_argument(tape, of=of)
    low, high = bounds_argument(bounds, of=of, by=_BY)
    values = values_argument(x, low, high, of=of, by=_BY)
    part, reached, failed = _promise(accuracy, rho, beta, high - low, of=of)
    needed, width = _plan(part, reached, failed)
    rows = values.size
    if not enough_rows(rows, needed, best_effort=best_effort, what="A mean with this promise"):
        reached = rounding.probability(mean_gap(rows) / width)
        failed = rounded_failure(rows, width, part)
    # The exact sum, so that the order of the rows does not matter.
    share = (math.fsum(values.tolist()) / rows - low) / (high - low)
    rounded = float(snap(share, width, tape.branch("mean").uniforms(1))[0])
    value = low + (high - low) * min(1.0, max(0.0, rounded))
    details = {"width": width * (high - low), "needed": needed}
    return Result(value, Replicability(reached), float(accuracy), failed, rows, str(tape), details)


def mean_rows(*, accuracy: float, rho: float, beta: float, bounds: Any = (0.0, 1.0)) -> int:
    """The rows that :func:`mean` needs.

    Guarantee: the least n for which cells of width w = 1/(ρ√(π(n+¼))) keep the accuracy: with s = 2√n,
    √(2π/n)/w · [Φ(s(τ + w/2)) − Φ(s(τ − w/2))] ≤ β and w/2 < τ, for values scaled to [0, 1].
    Assumes: as :func:`mean`.
    Reference: theory 4, randomised rounding.

    >>> mean_rows(accuracy=0.05, rho=0.1, beta=0.01)
    5847
    """
    of = "sample_size of mean"
    low, high = bounds_argument(bounds, of=of, by=_BY)
    return _plan(*_promise(accuracy, rho, beta, high - low, of=of))[0]


def _promise(accuracy: Any, rho: Any, beta: Any, length: float, *, of: str) -> tuple[float, float, float]:
    """The accuracy as a part of the range, ρ and β."""
    part = checks.real(accuracy, "accuracy", "(0, inf)", of=of, by=_BY) / length
    if not _FEWEST_CELLS <= part < 0.5:
        raise InvalidArgument("accuracy", "less than half the length of the bounds", accuracy, of=of)
    return part, chance(rho, "rho", of=of, by=_BY), chance(beta, "beta", of=of, by=_BY)


@lru_cache(maxsize=256)
def _plan(accuracy: float, rho: float, beta: float) -> tuple[int, float]:
    """The least number of rows, and the width of the cells, which everyone with this promise shares."""

    def width(n: int) -> float:
        return rounding.up(mean_gap(n) / rho)

    needed = least_whole(lambda n: rounded_failure(n, width(n), accuracy) <= beta)
    if needed is None:
        raise InvalidArgument("accuracy", "large enough for 2⁶² rows", accuracy, of="mean", reference=_BY)
    return needed, width(needed)


def rounded_failure(n: float, width: float, accuracy: float) -> float:
    """P(|result − truth| > accuracy): a tail 2e^{−2nt²}, Hoeffding's, averaged over the shared offset."""
    if not width < 2.0 * accuracy:
        return 1.0
    scale = math.sqrt(2.0 * n)
    near, far = scale * (accuracy - 0.5 * width), scale * (accuracy + 0.5 * width)
    between = 0.5 * (math.erfc(near) - math.erfc(far))
    return rounding.probability(math.sqrt(2.0 * math.pi / n) / width * between)
