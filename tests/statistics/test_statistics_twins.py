"""Sabotaged twins: each is wrong in one place, and the exact check of coverage catches it there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from statistics_laws import AXIS, ONE_CELL, Law, cells_of, misses, on_line, trained_on, truth_of

from holdfast.intervals import Interval
from holdfast.statistics import (
    Correlation,
    Covariance,
    Crossing,
    Evidence,
    Form,
    Mean,
    Ratio,
    RSquared,
    Slope,
    Variance,
)
from holdfast.statistics import _product as product_module
from holdfast.statistics import _statistic as module
from holdfast.statistics._product import lower_end

ERROR, ROWS = 0.05, 400

COIN = on_line((0.0, 0.5), (1.0, 0.5))
OFF_COIN = on_line((0.0, 0.2), (1.0, 0.8))
# One value is a coin and the other does not vary; training means that are off in both.
COIN_FIRST = Law(((0.0, 0.5), (1.0, 0.5)), (0.5, 0.5))
COIN_SECOND = Law(((0.5, 0.0), (0.5, 1.0)), (0.5, 0.5))
OFF_BOTH = Law(((0.0, 0.0), (0.0, 0.5), (1.0, 0.0), (1.0, 0.5)), (0.1, 0.1, 0.4, 0.4))
# The first value is 1 less the second: slope and correlation −1. Training means .5 and .2.
MIRRORED = Law(((1.0, 0.0), (0.0, 1.0)), (0.5, 0.5))
OFF_SECOND = Law(((0.25, 0.0), (0.75, 0.0), (0.25, 0.5), (0.75, 0.5)), (0.3, 0.3, 0.2, 0.2))
# Both training means .9.
OFF_HIGH = Law(((0.5, 1.0), (1.0, 0.5), (1.0, 1.0)), (0.2, 0.2, 0.6))
# The right means, but the first value spreads half as much as it will.
NARROW_FIRST = Law(((0.75, 0.0), (0.25, 1.0)), (0.5, 0.5))


def missed(statistic, law, trained, rows=ROWS, like=None):
    """The exact probability to miss; a twin is held to the truth of the statistic that it is ``like``."""
    like = statistic if like is None else like
    two_values = like.two_values
    known = trained_on([trained], [rows], two_values=two_values)
    truth = truth_of(like, law)
    return sum(misses(statistic, [law], [rows], -math.log(ERROR), known, two_values=two_values, truth=truth))


@pytest.mark.parametrize(
    ("statistic", "law", "trained"),
    [
        (Variance(), COIN, OFF_COIN),
        (Variance(root=True), COIN, OFF_COIN),
        (Covariance(), COIN_FIRST, OFF_BOTH),
        (Slope(), COIN_SECOND, OFF_BOTH),
        (Correlation(), MIRRORED, OFF_HIGH),
        (RSquared(), COIN_FIRST, OFF_BOTH),
    ],
    ids=lambda given: str(given) if not isinstance(given, Law) else "",
)
def test_without_boxes_for_the_means(statistic, law, trained, monkeypatch):
    assert missed(statistic, law, trained) <= ERROR
    monkeypatch.setattr(module, "_distance", lambda *given: 0.0)
    assert missed(statistic, law, trained) > 10 * ERROR


@dataclass(frozen=True)
class BoxProductAlone:
    """A slope widened by the product of both boxes, without the term of its own size."""

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        evidence, end = evidence.around(*module._centre(evidence)), module._each_end(nats, 5)
        main = module._both_sides(evidence, Form.of(module._XZ, module._ZZ), module._main(nats))
        boxes = math.prod(module._distance(evidence, axis, end) for axis in (0, 1))
        box = module._distance(evidence, 1, end)
        variance = evidence.lower(Form.of(module._ZZ, module._ONE), end) - box**2
        return Interval(main.low - boxes / variance, main.high + boxes / variance)


def test_a_slope_with_the_product_of_its_boxes_alone():
    rows = 1_500
    assert missed(Slope(), MIRRORED, OFF_SECOND, rows) <= ERROR
    assert missed(BoxProductAlone(), MIRRORED, OFF_SECOND, rows, like=Slope()) > 5 * ERROR


def test_a_correlation_that_claims_by_the_form_for_positive_ones_alone(monkeypatch):
    """Below zero that form hides how unlike both spreads are."""

    def ungated(evidence, scale, facts, level, *, sign):
        form = Form(sign * np.array([module._XZ]), np.array([module._halves(scale)]))
        return evidence.lower(form, level, offset=facts[0] * facts[1], lowest=-1.0)

    assert missed(Correlation(), MIRRORED, NARROW_FIRST) <= ERROR
    monkeypatch.setattr(module, "_correlation_above", ungated)
    assert missed(Correlation(), MIRRORED, NARROW_FIRST) > 0.99


def test_a_correlation_that_takes_both_spreads_to_be_alike(monkeypatch):
    monkeypatch.setattr(module, "_unlike", lambda *given: 0.0)
    assert missed(Correlation(), MIRRORED, NARROW_FIRST) > 0.99


@dataclass(frozen=True)
class QuotientOfEstimates:
    """The interval of E[u] divided by the rows' own mean of v."""

    def interval(self, evidence: Evidence, nats: float) -> Interval:
        above = Mean().interval(evidence, nats)
        below = evidence.cells.mean[1]
        return Interval(above.low / below, above.high / below)


def test_a_quotient_by_an_estimate():
    law = Law(((0.5, 0.0), (0.5, 1.0)), (0.5, 0.5))
    assert missed(Ratio(), law, law) <= ERROR
    assert missed(QuotientOfEstimates(), law, law, like=Ratio()) > 2 * ERROR


LOW, RATE_SHARE, FEW = 0.26, 0.999, 60


def claims(level):
    """The exact probability that one cell of rows has so much evidence against their own mean."""
    law = on_line((0.0, LOW), (1.0, 1 - LOW))
    mean, chance = 1 - LOW, 0.0
    form, rate = Form.of(module._X, module._ONE), RATE_SHARE / (1 - LOW)
    for zeros in range(FEW + 1):
        cells = cells_of([law], [[zeros, FEW - zeros]], ONE_CELL, two_values=False)
        crossing = Crossing(cells, form)
        found = crossing.log_product(mean, rate) >= level
        if found and crossing.estimate > mean + 1e-3:
            # The search finds what is there.
            assert lower_end(crossing, level, [rate]) > mean * (1 - 2e-3)
        chance += float(stats.binom.pmf(zeros, FEW, LOW)) * found
    return chance


LEVELS = [0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]


def test_a_half_in_place_of_kappa(monkeypatch):
    assert AXIS.low == 0.0
    assert all(claims(level) <= math.exp(-level) for level in LEVELS)
    monkeypatch.setattr(product_module, "kappa", lambda share: np.full_like(share, 0.5))
    assert max(claims(level) * math.exp(level) for level in LEVELS) > 3
