"""Small laws, every sample of them, and the exact probability that an interval misses the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from enumeration import all_counts
from holdfast.statistics import (
    NO_AXIS,
    Axis,
    Bets,
    Cells,
    Contrast,
    Correlation,
    Covariance,
    Evidence,
    Lift,
    Mean,
    Ratio,
    RSquared,
    Slope,
    Steps,
    Variance,
    WeightedMean,
)

UNITS = 2**24
AXIS = Axis(0.0, 1.0, UNITS)
# Cells along each value: one for each value that these laws have, or one for all rows.
FINE, ONE_CELL = 64, 1

ONE_VALUE = [Mean(), Variance(), Variance(root=True)]
GROUPS = [Contrast(), Contrast((0.5, 0.5)), Lift()]
TWO_VALUES = [Ratio(), WeightedMean(), Covariance(), Slope(), Correlation(), RSquared()]


@dataclass(frozen=True)
class Law:
    """Rows that are one of a few points (x, z), with these probabilities."""

    points: tuple[tuple[float, float], ...]
    weights: tuple[float, ...]

    def mean(self, of: Any) -> float:
        """The mean of a function of x and z."""
        return math.fsum(weight * of(*point) for point, weight in zip(self.points, self.weights, strict=True))


def on_line(*points: tuple[float, float]) -> Law:
    """A law of x alone: pairs of a value and its probability."""
    return Law(tuple((x, 0.0) for x, _ in points), tuple(weight for _, weight in points))


def truth_of(statistic: Any, *laws: Law) -> float:
    """The statistic of the laws of the groups, from its definition."""
    law = laws[0]
    x, z = law.mean(lambda x, z: x), law.mean(lambda x, z: z)
    spread_x = law.mean(lambda p, q: (p - x) ** 2)
    spread_z = law.mean(lambda p, q: (q - z) ** 2)
    together = law.mean(lambda p, q: (p - x) * (q - z))
    means = [group.mean(lambda x, z: x) for group in laws]
    match statistic:
        case Mean():
            return x
        case Ratio():
            return x / z
        case WeightedMean():
            return law.mean(lambda x, z: x * z) / z
        case Contrast():
            return math.fsum(weight * mean for weight, mean in zip(statistic.weights, means, strict=True))
        case Lift():
            return means[0] / means[1] - 1
        case Variance():
            return math.sqrt(spread_x) if statistic.root else spread_x
        case Covariance():
            return together
        case Slope():
            return together / spread_z
        case Correlation():
            return together / math.sqrt(spread_x * spread_z)
        case RSquared():
            return 1 - law.mean(lambda y, p: (y - p) ** 2) / spread_x
    raise TypeError(statistic)


def samples_of(law: Law, rows: int) -> list[tuple[float, tuple[int, ...]]]:
    """Every sample up to order, as counts, with its probability."""
    logs = np.log(law.weights)
    every = list(all_counts(rows, len(law.weights)))
    counts = np.array(every)
    chances = np.exp(gammaln(rows + 1) - gammaln(counts + 1).sum(axis=1) + counts @ logs)
    assert math.isclose(chances.sum(), 1.0, rel_tol=1e-9)
    return list(zip(chances.tolist(), every, strict=True))


def cells_of(
    laws: Sequence[Law], counts: Sequence[Sequence[int]], steps: int = FINE, *, two_values: bool
) -> Cells:
    """The cells of a sample: for each group how often each of its points was drawn."""
    rows = [
        (point, group)
        for group, (law, times) in enumerate(zip(laws, counts, strict=True))
        for point, often in zip(law.points, times, strict=True)
        for _ in range(int(often))
    ]
    x, z = (np.array([round(point[at] * UNITS) for point, _ in rows], dtype=np.int64) for at in (0, 1))
    group = np.array([group for _, group in rows], dtype=np.int64)
    axes = (AXIS, AXIS if two_values else NO_AXIS)
    return Cells.of_values(
        axes, (Steps.over(AXIS, steps), Steps.over(axes[1], steps)), x, z if two_values else None, group
    )


def trained_on(
    laws: Sequence[Law], rows: Sequence[int], steps: int = FINE, *, two_values: bool, count: int = 200
) -> Cells:
    """What a training part with the laws' own frequencies predicts of so many rows in each group."""
    counts = [[round(count * weight) for weight in law.weights] for law in laws]
    return cells_of(laws, counts, steps, two_values=two_values).times(sum(rows) / (count * len(laws)))


def misses(
    statistic: Any,
    laws: Sequence[Law],
    rows: Sequence[int],
    nats: float,
    trained: Cells | None,
    *,
    steps: int = FINE,
    two_values: bool = False,
    truth: float | None = None,
    evidence: Any = Bets,
) -> tuple[float, float]:
    """The exact probabilities that the lower end is above the truth, and that the upper end is below it.

    ``rows`` are those of each group; groups are independent given their sizes.
    """
    truth = truth_of(statistic, *laws) if truth is None else truth
    # The points are rounded to units, and so is the truth.
    slack = 1e-6 * max(1.0, abs(truth))
    every = itertools.product(*(samples_of(law, count) for law, count in zip(laws, rows, strict=True)))
    drawn = sorted(((math.prod(chance for chance, _ in one), one) for one in every), reverse=True)
    # The least likely samples, a thousandth of the error together, count as missed on both sides.
    above = below = left = 1e-3 * math.exp(-nats)
    while drawn and drawn[-1][0] <= left:
        left -= drawn.pop()[0]
    for chance, groups in drawn:
        cells = cells_of(laws, [counts for _, counts in groups], steps, two_values=two_values)
        read: Evidence = evidence(cells, trained)
        found = statistic.interval(read, nats)
        above += chance * (found.low > truth + slack)
        below += chance * (found.high < truth - slack)
    return above, below
