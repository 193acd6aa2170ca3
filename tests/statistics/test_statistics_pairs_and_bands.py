"""The area under a curve and the band of a distribution: exact coverage by enumeration, with twins."""

from __future__ import annotations

import itertools
import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from statistics_laws import Law, cells_of, on_line, samples_of

from holdfast import intervals
from holdfast.readings import CurveReading
from holdfast.statistics import AUC, Bets

NEGATIVE = on_line((0.0, 0.5), (0.5, 0.3), (1.0, 0.2))
POSITIVE = on_line((0.0, 0.1), (0.5, 0.2), (1.0, 0.7))
SURE = on_line((0.0, 0.02), (1.0, 0.98))
LIKE = on_line((0.0, 0.5), (1.0, 0.5))
ERRORS = (0.5, 0.05, 1e-6)


def area(negative: Law, positive: Law) -> float:
    """How often a positive score is larger, ties counting half, from its definition."""
    return math.fsum(
        p * q * ((x > z) + (x == z) / 2)
        for (x, _), p in zip(positive.points, positive.weights, strict=True)
        for (z, _), q in zip(negative.points, negative.weights, strict=True)
    )


def missed_area(negative: Law, positive: Law, rows: tuple[int, int], interval) -> tuple[float, float]:
    """The exact probabilities that the truth lies below and above an interval of the sample's cells."""
    truth, below, above = area(negative, positive), 0.0, 0.0
    samples = (samples_of(law, count) for law, count in zip((negative, positive), rows, strict=True))
    for (first, some), (second, others) in itertools.product(*samples):
        inside = interval(cells_of((negative, positive), (some, others), two_values=False))
        below += first * second * (truth < inside.low)
        above += first * second * (truth > inside.high)
    return below, above


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(
    ("negative", "positive", "rows"),
    [(NEGATIVE, POSITIVE, (6, 6)), (LIKE, LIKE, (12, 5)), (LIKE, SURE, (4, 20)), (SURE, LIKE, (9, 9))],
)
def test_the_area_under_a_curve_is_covered(negative, positive, rows, error):
    nats = -math.log(error)
    missed = missed_area(negative, positive, rows, lambda cells: AUC().interval(Bets(cells, None), nats))
    assert max(missed) <= error / 2


def test_an_interval_for_as_many_pairs_as_rows_is_caught():
    """With few positive rows their pairs are not independent, however many negative ones there are."""

    def twin(cells):
        return intervals.kl(AUC().estimate(cells), int(cells.rows), -math.log(0.05))

    assert sum(missed_area(LIKE, LIKE, (60, 3), twin)) > 0.05


def band(rows: int, nats: float) -> float:
    """The half-width around a distribution that is just that of the training part."""
    question = SimpleNamespace(trained=(0.5,), shares=lambda part: (rows, (0.5,)))
    return CurveReading(question, nats, None, 1.0).measured(SimpleNamespace(rows=None)).interval.high


def missed_band(weights: tuple[float, ...], rows: int, half: float) -> float:
    """The exact probability that the distribution of a sample leaves the band somewhere."""
    law = Law(tuple((float(place), 0.0) for place in range(len(weights))), weights)
    truth = np.cumsum(weights)
    return math.fsum(
        chance
        for chance, counts in samples_of(law, rows)
        if np.max(np.abs(np.cumsum(counts) / rows - truth)) > half
    )


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.3, 0.4, 0.3), (0.25, 0.25, 0.25, 0.25), (0.02, 0.98)])
def test_the_band_of_a_distribution_holds_everywhere(weights):
    for error, rows in product([0.5, 0.05, 1e-4], [1, 5, 17]):
        assert missed_band(weights, rows, band(rows, -math.log(error))) <= error


def test_a_band_that_is_a_third_too_narrow_is_caught():
    assert missed_band((0.25, 0.25, 0.25, 0.25), 17, 2 / 3 * band(17, -math.log(0.05))) > 0.05
