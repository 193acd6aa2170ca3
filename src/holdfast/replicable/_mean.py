"""The replicable mean, difference of two means and regression slope: numbers rounded to a shared grid.

The cells of the grid are just wide enough that two samples rarely fall into different ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._design import (
    Design,
    Result,
    bounds_argument,
    least_rows,
    promise_arguments,
    values_argument,
)
from holdfast.replicable._rounding import mean_gap, snap
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["difference", "difference_rows", "mean", "mean_rows", "rounded_failure", "slope", "slope_rows"]


_BY = "docs/theory/replicability.md, the mean"
_FINEST_ACCURACY = 2.0**-40  # as a part of the range
# A slope divides by at least this share of the stated least variance of x.
_CUT = 0.75


def mean(
    x: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Sequence[float] = (0.0, 1.0),
    best_effort: bool = False,
) -> Result[float]:
    """The mean of values within ``bounds``, the same number from two samples with probability 1 − ``rho``.

    Guarantee: two samples and one tape give different results with probability at most ρ (over both samples
    and the tape); the result is within ``accuracy`` of the true mean except with probability β. The grid
    depends on the parameters alone, so the samples may differ in size.
    Assumes: independent rows of one distribution within the bounds (the bounds are checked).
    Reference: docs/theory/replicability.md, "The mean".

    Args:
        x: The rows, one value each.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> result = mean([0, 1] * 3000, accuracy=0.05, rho=0.1, beta=0.01, tape=Tape("study-7"))
    >>> round(float(result), 6), result.guarantee
    (0.526396, Replicability(rho=0.1))
    """
    of = "mean"
    tape = tape_argument(tape, of=of)
    low, high = bounds_argument(bounds, of=of, by=_BY)
    values = values_argument(x, low, high, of=of, by=_BY)
    design = _mean_design(accuracy, rho, beta, high - low, of=of)
    kept_design = design.kept_by(values.size, best_effort=best_effort, what="A mean with this promise")
    # The exact sum, so that the order of the rows does not matter.
    share = (math.fsum(values.tolist()) / kept_design.rows - low) / (high - low)
    rounded = float(snap(share, design.width, tape.branch("mean").uniforms(1))[0])
    value = low + (high - low) * min(1.0, max(0.0, rounded))
    details = {"width": design.width * (high - low), "needed": design.rows}
    return kept_design.result(value, tape, details, accuracy=float(accuracy))


def mean_rows(*, accuracy: float, rho: float, beta: float, bounds: Sequence[float] = (0.0, 1.0)) -> int:
    """The rows that :func:`mean` needs.

    Guarantee: the least n for which cells of width w = 1/(ρ√(π(n+¼))) keep the accuracy: with s = 2√n,
    √(2π/n)/w · [Φ(s(τ + w/2)) − Φ(s(τ − w/2))] ≤ β and w/2 < τ, for values scaled to [0, 1].
    Assumes: as :func:`mean`.
    Reference: docs/theory/replicability.md, "The mean".

    >>> mean_rows(accuracy=0.05, rho=0.1, beta=0.01)
    5847
    """
    of = "sample_size of mean"
    low, high = bounds_argument(bounds, of=of, by=_BY)
    return _mean_design(accuracy, rho, beta, high - low, of=of).rows


def _mean_design(accuracy: float, rho: float, beta: float, length: float, *, of: str) -> GridDesign:
    """The design for values scaled to [0, 1], from a range of this ``length``."""
    accuracy_given, rho, beta = promise_arguments(accuracy, rho, beta, "(0, inf)", of=of, by=_BY)
    part = accuracy_given / length
    if not _FINEST_ACCURACY <= part < 0.5:
        raise InvalidArgument("accuracy", "less than half the length of the bounds", accuracy, of=of)
    return _design(mean_gap, rounded_failure, part, rho, beta, of="mean", start=1)


def difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Sequence[float] = (0.0, 1.0),
    best_effort: bool = False,
) -> Result[float]:
    """The mean of the ``first`` group minus that of the ``second``, the same from two samples.

    Guarantee: two pairs of groups and one tape give different results with probability at most ρ; the result
    is within ``accuracy`` of the difference of the true means except with probability β. ``rows`` of the
    result is the size of the smaller group; groups may differ in size, and from laboratory to laboratory.
    Assumes: independent rows, each group of one distribution within the bounds (the bounds are checked),
    whatever the sizes of the groups are.
    Reference: Holdfast, replicability.

    Args:
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        bounds: The least and the largest value that a row can have.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> treated, control = [1] * 3000 + [0] * 1000, [1] * 2000 + [0] * 2000
    >>> result = difference(treated, control, accuracy=0.1, rho=0.1, beta=0.05, tape=Tape("study-7"))
    >>> round(float(result), 6), result.guarantee
    (0.25303, Replicability(rho=0.1))
    """
    of = "difference"
    tape = tape_argument(tape, of=of)
    low, high = bounds_argument(bounds, of=of, by=_BY)
    groups = [values_argument(group, low, high, of=of, by=_BY) for group in (first, second)]
    design = _difference_design(accuracy, rho, beta, high - low, of=of)
    smaller = min(group.size for group in groups)
    kept_design = design.kept_by(smaller, best_effort=best_effort, what="Each group of this difference")
    # Exact sums, so that the order of the rows does not matter.
    means = [math.fsum(group.tolist()) / group.size for group in groups]
    apart = (means[0] - means[1]) / (high - low)
    rounded = float(snap(apart, design.width, tape.branch("difference").uniforms(1))[0])
    value = (high - low) * min(1.0, max(-1.0, rounded))
    details = {"width": design.width * (high - low), "needed": design.rows}
    return kept_design.result(value, tape, details, accuracy=float(accuracy))


def difference_rows(*, accuracy: float, rho: float, beta: float, bounds: Sequence[float] = (0.0, 1.0)) -> int:
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
    return _difference_design(accuracy, rho, beta, high - low, of=of).rows


def _difference_design(accuracy: float, rho: float, beta: float, length: float, *, of: str) -> GridDesign:
    """The design for values scaled to [0, 1], from a range of this ``length``."""
    accuracy_given, rho, beta = promise_arguments(accuracy, rho, beta, "(0, inf)", of=of, by=_BY)
    part = accuracy_given / length
    if not _FINEST_ACCURACY <= part < 1.0:
        raise InvalidArgument("accuracy", "less than the length of the bounds", accuracy, of=of)
    return _design(_group_gap, _group_failure, part, rho, beta, of="difference", start=2)


def _group_gap(rows: int) -> float:
    """E|D − D'| for two differences of groups of ``rows`` rows: a walk of twice as many steps."""
    return rounding.up(2.0 * mean_gap(2 * rows))


def _group_failure(rows: int, width: float, accuracy: float) -> float:
    return rounded_failure(rows / 2.0, width, accuracy)


def slope(
    y: npt.ArrayLike,
    x: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Sequence[Sequence[float]],
    least_variance: float,
    best_effort: bool = False,
) -> Result[float]:
    """The slope of the best line for ``y`` by ``x``, the same from two samples.

    ``bounds`` is a pair of pairs: those of y, then those of x. ``least_variance`` is the least variance that
    x can have; it is stated, not estimated.

    Guarantee: two samples and one tape give different results with probability at most ρ; the result is
    within ``accuracy`` of cov(x, y)/var(x) except with probability β.
    Assumes: independent rows of one distribution within the bounds (the bounds are checked); the variance of
    x is at least ``least_variance`` (for the accuracy only, not checkable).
    Reference: Holdfast, replicability.

    Args:
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

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
    design = _slope_design(accuracy, rho, beta, variance, unit, of=of)
    kept_design = design.kept_by(xs.size, best_effort=best_effort, what="A slope with this promise")
    (y_low, y_high), (x_low, x_high) = pairs
    fitted = _fitted((ys - y_low) / (y_high - y_low), (xs - x_low) / (x_high - x_low), _CUT * variance)
    rounded = float(snap(fitted, design.width, tape.branch("slope").uniforms(1))[0])
    details = {"width": design.width * unit, "needed": design.rows}
    return kept_design.result(rounded * unit, tape, details, accuracy=float(accuracy))


def slope_rows(
    *, accuracy: float, rho: float, beta: float, bounds: Sequence[Sequence[float]], least_variance: float
) -> int:
    """The rows that :func:`slope` needs.

    Guarantee: as :func:`slope`; docs/theory/replicability.md has the constants.
    Assumes: as :func:`slope`.
    Reference: Holdfast, replicability.

    >>> slope_rows(accuracy=0.5, rho=0.1, beta=0.05, bounds=((0, 1), (0, 1)), least_variance=0.08)
    102862
    """
    of = "sample_size of slope"
    _, variance, unit = _slope_scales(bounds, least_variance, of=of)
    return _slope_design(accuracy, rho, beta, variance, unit, of=of).rows


def _slope_design(
    accuracy: float, rho: float, beta: float, variance: float, unit: float, *, of: str
) -> GridDesign:
    """The design for x and y scaled to [0, 1], where a slope of 1 stands for ``unit``."""
    accuracy_given, rho, beta = promise_arguments(accuracy, rho, beta, "(0, inf)", of=of, by=_BY)
    gap, tail = _slope_gap(variance), _slope_failure(variance)
    return _design(gap, tail, accuracy_given / unit, rho, beta, of="slope", start=2)


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


@dataclass(frozen=True)
class GridDesign(Design):
    """A number rounded to cells of ``width``.

    ``gap(n)`` bounds how far two samples of n rows lie apart in expectation. ``tail(n, width, accuracy)``
    bounds the probability that the rounded number is too far from the truth.
    """

    width: float
    gap: Callable[[int], float]
    tail: Callable[[int, float, float], float]

    def mismatch(self, rows: int) -> float:
        return rounding.probability(self.gap(rows) / self.width)

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        return self.tail(rows, self.width, self.accuracy)


@lru_cache(maxsize=256)
def _design(
    gap: Callable[[int], float],
    tail: Callable[[int, float, float], float],
    accuracy: float,
    rho: float,
    beta: float,
    *,
    of: str,
    start: int,
) -> GridDesign:
    """The least number of rows, from ``start``, and the width of the cells that keep the promise."""

    def width(rows: int) -> float:
        return rounding.up(gap(rows) / rho)

    def enough(rows: int) -> bool:
        return tail(rows, width(rows), accuracy) <= beta

    rows = least_rows(enough, "accuracy", accuracy, of=of, by=_BY, start=start)
    return GridDesign(accuracy, rho, beta, rows, width(rows), gap, tail)


def rounded_failure(n: float, width: float, accuracy: float) -> float:
    """P(|result − truth| > accuracy): a tail 2e^{−2nt²}, Hoeffding's, averaged over the shared offset."""
    if not width < 2.0 * accuracy:
        return 1.0
    scale = math.sqrt(2.0 * n)
    near, far = scale * (accuracy - 0.5 * width), scale * (accuracy + 0.5 * width)
    between = 0.5 * (math.erfc(near) - math.erfc(far))
    return rounding.probability(math.sqrt(2.0 * math.pi / n) / width * between)
