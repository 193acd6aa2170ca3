"""The replicable mean: rounded to a shared grid just wide enough."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._design import (
    Result,
    bounds_argument,
    chance,
    enough_rows,
    least_whole,
    values_argument,
)
from holdfast.replicable._rounding import mean_gap, snap
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["difference", "difference_rows", "mean", "mean_rows", "rounded_failure", "slope", "slope_rows"]


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


# The variance of x below which a slope divides by this share of the stated one in its place.
_CUT = 0.75


def difference(
    first: Any,
    second: Any,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Any = (0.0, 1.0),
    best_effort: bool = False,
) -> Result:
    """The mean of the ``first`` group minus that of the ``second``, the same from two samples.

    Guarantee: two pairs of groups and one tape give different results with probability at most ρ; the result
    is within ``accuracy`` of the difference of the true means except with probability β. ``rows`` of the
    result is the size of the smaller group; groups may differ in size, and from laboratory to laboratory.
    Assumes: independent rows, each group of one distribution within the bounds (the bounds are checked),
    whatever the sizes of the groups are.
    Reference: Holdfast, replicability.

    >>> treated, control = [1] * 3000 + [0] * 1000, [1] * 2000 + [0] * 2000
    >>> result = difference(treated, control, accuracy=0.1, rho=0.1, beta=0.05, tape=Tape("study-7"))
    >>> round(float(result), 6), result.guarantee
    (0.25303, Replicability(rho=0.1))
    """
    of = "difference"
    tape = tape_argument(tape, of=of)
    low, high = bounds_argument(bounds, of=of, by=_BY)
    groups = [values_argument(group, low, high, of=of, by=_BY) for group in (first, second)]
    part, rho, beta = _difference_promise(accuracy, rho, beta, high - low, of=of)
    needed, width = _contrast_plan(_group_gap, _group_failure, part, rho, beta)
    rows = min(group.size for group in groups)
    if not enough_rows(rows, needed, best_effort=best_effort, what="Each group of this difference"):
        rho = rounding.probability(_group_gap(rows) / width)
        beta = _group_failure(rows, width, part)
    # Exact sums, so that the order of the rows does not matter.
    means = [math.fsum(group.tolist()) / group.size for group in groups]
    rounded = float(
        snap((means[0] - means[1]) / (high - low), width, tape.branch("difference").uniforms(1))[0]
    )
    value = (high - low) * min(1.0, max(-1.0, rounded))
    details = {"width": width * (high - low), "needed": needed}
    return Result(value, Replicability(rho), float(accuracy), beta, rows, str(tape), details)


def difference_rows(*, accuracy: float, rho: float, beta: float, bounds: Any = (0.0, 1.0)) -> int:
    """The rows that each group of :func:`difference` needs.

    Guarantee: the least m for which cells of width 2/(ρ√(π(2m + ¼))) keep the accuracy against a tail
    2e^{−mt²}.
    Assumes: as :func:`difference`.
    Reference: Holdfast, replicability.

    >>> difference_rows(accuracy=0.1, rho=0.1, beta=0.05)
    2350
    """
    of = "sample_size of difference"
    low, high = bounds_argument(bounds, of=of, by=_BY)
    return _contrast_plan(
        _group_gap, _group_failure, *_difference_promise(accuracy, rho, beta, high - low, of=of)
    )[0]


def slope(
    y: Any,
    x: Any,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Any,
    least_variance: Any,
    best_effort: bool = False,
) -> Result:
    """The slope of the best line for ``y`` by ``x``, the same from two samples.

    ``bounds`` is a pair of pairs: those of y, then those of x. ``least_variance`` is the least variance that
    x can have; it is stated, not estimated.

    Guarantee: two samples and one tape give different results with probability at most ρ; the result is
    within ``accuracy`` of cov(x, y)/var(x) except with probability β.
    Assumes: independent rows of one distribution within the bounds (the bounds are checked); the variance of
    x is at least ``least_variance`` (for the accuracy only, not checkable).
    Reference: Holdfast, replicability.

    >>> x = np.arange(200_000) % 101 / 100
    >>> result = slope(0.5 * x, x, accuracy=0.5, rho=0.1, beta=0.05, tape=Tape("study-7"),
    ...     bounds=((0, 1), (0, 1)), least_variance=0.08)
    >>> abs(float(result) - 0.5) < 0.5, result.guarantee
    (True, Replicability(rho=0.1))
    """
    of = "slope"
    tape = tape_argument(tape, of=of)
    pairs, variance, unit = _slope_scales(bounds, least_variance, of=of)
    ys, xs = (values_argument(v, *pair, of=of, by=_BY) for v, pair in zip((y, x), pairs, strict=True))
    if ys.size != xs.size:
        raise InvalidArgument("x", f"of the length of y, {ys.size}", xs.size, of=of)
    part = checks.real(accuracy, "accuracy", "(0, inf)", of=of, by=_BY) / unit
    rho, beta = chance(rho, "rho", of=of, by=_BY), chance(beta, "beta", of=of, by=_BY)
    gap, failure = _slope_gap(variance), _slope_failure(variance)
    needed, width = _slope_plan(variance, part, rho, beta)
    if not enough_rows(xs.size, needed, best_effort=best_effort, what="A slope with this promise"):
        rho = rounding.probability(gap(xs.size) / width)
        beta = failure(xs.size, width, part)
    (y_low, y_high), (x_low, x_high) = pairs
    fitted = _fitted((ys - y_low) / (y_high - y_low), (xs - x_low) / (x_high - x_low), _CUT * variance)
    rounded = float(snap(fitted, width, tape.branch("slope").uniforms(1))[0])
    details = {"width": width * unit, "needed": needed}
    return Result(rounded * unit, Replicability(rho), float(accuracy), beta, xs.size, str(tape), details)


def slope_rows(*, accuracy: float, rho: float, beta: float, bounds: Any, least_variance: Any) -> int:
    """The rows that :func:`slope` needs.

    Guarantee: as :func:`slope`; docs/theory/replicability.md has the constants.
    Assumes: as :func:`slope`.
    Reference: Holdfast, replicability.

    >>> slope_rows(accuracy=0.5, rho=0.1, beta=0.05, bounds=((0, 1), (0, 1)), least_variance=0.08)
    102862
    """
    of = "sample_size of slope"
    _, variance, unit = _slope_scales(bounds, least_variance, of=of)
    part = checks.real(accuracy, "accuracy", "(0, inf)", of=of, by=_BY) / unit
    return _slope_plan(
        variance, part, chance(rho, "rho", of=of, by=_BY), chance(beta, "beta", of=of, by=_BY)
    )[0]


def _group_gap(rows: int) -> float:
    """E|D − D'| for two differences of groups of so many rows: a walk of twice as many steps."""
    return rounding.up(2.0 * mean_gap(2 * rows))


def _group_failure(rows: int, width: float, accuracy: float) -> float:
    return rounded_failure(rows / 2.0, width, accuracy)


def _difference_promise(
    accuracy: Any, rho: Any, beta: Any, length: float, *, of: str
) -> tuple[float, float, float]:
    part = checks.real(accuracy, "accuracy", "(0, inf)", of=of, by=_BY) / length
    if not 2.0**-40 <= part < 1.0:
        raise InvalidArgument("accuracy", "less than the length of the bounds", accuracy, of=of)
    return part, chance(rho, "rho", of=of, by=_BY), chance(beta, "beta", of=of, by=_BY)


@lru_cache(maxsize=256)
def _contrast_plan(
    gap: Callable[[int], float],
    failure: Callable[[int, float, float], float],
    accuracy: float,
    rho: float,
    beta: float,
) -> tuple[int, float]:
    """The least number of rows, and the width of the cells, which everyone with this promise shares."""

    def width(rows: int) -> float:
        return rounding.up(gap(rows) / rho)

    needed = least_whole(lambda rows: failure(rows, width(rows), accuracy) <= beta, 2)
    if needed is None:
        raise InvalidArgument(
            "accuracy", "large enough for 2⁶² rows", accuracy, of="a contrast", reference=_BY
        )
    return needed, width(needed)


def _slope_scales(
    bounds: Any, least_variance: Any, *, of: str
) -> tuple[list[tuple[float, float]], float, float]:
    """The two pairs of bounds, the least variance of x scaled to [0, 1], and the unit of the slope."""
    try:
        y_bounds, x_bounds = bounds
    except (TypeError, ValueError):
        raise InvalidArgument("bounds", "two pairs: those of y, then those of x", bounds, of=of) from None
    pairs = [bounds_argument(pair, of=of, by=_BY) for pair in (y_bounds, x_bounds)]
    y_length, x_length = (high - low for low, high in pairs)
    variance = checks.real(least_variance, "least_variance", "(0, inf)", of=of) / x_length**2
    if not 1e-6 <= variance <= 0.25:
        expected = f"between {1e-6 * x_length**2:g} and {x_length**2 / 4:g}, the most within the bounds of x"
        raise InvalidArgument("least_variance", expected, least_variance, of=of)
    return pairs, variance, y_length / x_length


def _slope_plan(variance: float, accuracy: float, rho: float, beta: float) -> tuple[int, float]:
    return _contrast_plan(_slope_gap(variance), _slope_failure(variance), accuracy, rho, beta)


@lru_cache(maxsize=64)
def _slope_gap(variance: float) -> Callable[[int], float]:
    """E|b − b'|: C/max(V, cut) moves by at most (|C − C'| + B|V − V'|)/cut, |b| ≤ B."""
    cut = _CUT * variance

    def gap(rows: int) -> float:
        if rows < 2:
            return math.inf
        steepest = 0.5 * math.sqrt(rows / (rows - 1.0)) / math.sqrt(cut)
        return rounding.up((1.0 + steepest / 2.0) * mean_gap(rows // 2) / cut)

    return gap


@lru_cache(maxsize=64)
def _slope_failure(variance: float) -> Callable[[int, float, float], float]:
    """The tail of (C − bV)/cut by Hoeffding over pairs of rows, and how likely V is below the cut."""
    cut = _CUT * variance
    reach = 1.0 + 0.25 / math.sqrt(variance)

    def failure(rows: int, width: float, accuracy: float) -> float:
        pairs = rows // 2
        flat = math.exp(-8.0 * pairs * (variance - cut) ** 2)
        if not width < 2.0 * accuracy:
            return 1.0
        return rounding.probability(rounded_failure(pairs * (cut / reach) ** 2, width, accuracy) + flat)

    return failure


def _fitted(y: Any, x: Any, cut: float) -> float:
    """The slope of values in [0, 1], by exactly rounded sums; a variance below the cut counts as the cut."""
    rows = x.size
    x_mean, y_mean = (math.fsum(v.tolist()) / rows for v in (x, y))
    covariance = math.fsum(((x - x_mean) * (y - y_mean)).tolist()) / (rows - 1)
    variance = math.fsum(np.square(x - x_mean).tolist()) / (rows - 1)
    return float(covariance / max(variance, cut))
