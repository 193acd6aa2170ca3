"""A difference of groups and a slope: the same in two laboratories, near the truth, at the smallest size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import Tape, difference, power, sample_size, slope

NATS = math.log(1e5)
UNIT = ((0.0, 1.0), (0.0, 1.0))


def low(count, trials):
    return clopper_pearson(int(count), trials, NATS).low


def stated_gap(result):
    """How far apart two results lie, as a best effort states it: ρ is that distance over the width."""
    assert result.guarantee.rho < 1
    return result.guarantee.rho * result.details["width"]


@pytest.mark.parametrize("rows", [1, 3, 12, 30])
def test_the_gap_of_a_difference_by_enumeration(rows):
    worst = 0.0
    for p in (0.5, 0.3, 0.05):
        for q in (0.5, 0.8):
            laws = [stats.binom.pmf(np.arange(rows + 1), rows, share) for share in (p, q)]
            # The law of the difference of two groups, then E|D − D'|.
            steps = np.convolve(laws[0], laws[1][::-1])
            values = np.arange(-rows, rows + 1) / rows
            worst = max(worst, float(steps @ np.abs(np.subtract.outer(values, values)) @ steps))
    ask = {"accuracy": 0.9, "rho": 1e-3, "beta": 1e-3, "tape": Tape("gap")}
    gap = stated_gap(difference(np.zeros(rows), np.zeros(rows), **ask, best_effort=True))
    assert 0.97 * gap < worst <= gap


def test_two_laboratories_get_the_same_difference(seed):
    rng = np.random.default_rng(seed)
    ask = {"accuracy": 0.2, "rho": 0.2, "beta": 0.1}
    rows = sample_size("difference", **ask)
    trials = 3000
    differ = wrong = narrow = 0
    for number in range(trials):
        # Groups of different sizes, none too small.
        groups = [rng.binomial(1, p, rows + extra) for p in (0.6, 0.45) for extra in (0, 40)]
        tape = Tape(seed).branch(number)
        first = difference(groups[0], groups[2], **ask, tape=tape)
        second = difference(groups[1], groups[3], **ask, tape=tape)
        differ += first != second
        wrong += abs(float(first) - 0.15) > 0.2
        # The twin rounds to cells of a third of the width.
        cell = first.details["width"] / 3.0
        shares = [groups[0].mean() - groups[2].mean(), groups[1].mean() - groups[3].mean()]
        narrow += len({math.floor(share / cell - number / trials) for share in shares}) > 1
    assert low(differ, trials) <= 0.2
    assert low(wrong, trials) <= 0.1
    assert low(narrow, trials) > 0.2


def test_a_difference_refuses_and_does_its_best():
    few, ask = [0.0, 1.0] * 50, {"accuracy": 0.1, "rho": 0.1, "beta": 0.05, "tape": Tape("x")}
    with pytest.raises(NotEnoughRows) as refused:
        difference(few, few, **ask)
    assert refused.value.needed == sample_size("difference", accuracy=0.1, rho=0.1, beta=0.05) == 2350
    result = difference(few, few, **ask, best_effort=True)
    assert 0.1 < result.guarantee.rho <= 1.0
    assert result.rows == 100
    with pytest.raises(InvalidArgument, match="accuracy"):
        difference(few, few, **{**ask, "accuracy": 1.0})
    scaled = difference(
        np.array(few * 30) * 50 + 10, np.full(3000, 10.0), **{**ask, "accuracy": 5.0}, bounds=(10, 60)
    )
    plain = difference(few * 30, np.zeros(3000), **ask)
    assert float(scaled) == pytest.approx(50 * float(plain))


def _line(rng, rows):
    x = rng.random(rows)
    return np.clip(0.2 + 0.5 * x + rng.normal(0.0, 0.1, rows), 0.0, 1.0), x


def test_slopes_of_two_samples_are_as_near_as_computed(seed):
    rng = np.random.default_rng(seed)
    for variance, rows in ((1 / 12, 300), (0.2, 80)):
        gaps = []
        for _ in range(300):
            pairs = [
                (rng.integers(0, 2, rows), rng.integers(0, 2, rows)) if variance > 0.1 else _line(rng, rows)
                for _ in range(2)
            ]
            slopes = [np.cov(x, y)[0, 1] / max(np.var(x, ddof=1), 0.75 * variance) for y, x in pairs]
            gaps.append(abs(slopes[0] - slopes[1]))
        ask = {"accuracy": 5.0, "rho": 1e-3, "beta": 1e-3, "bounds": UNIT, "least_variance": variance}
        stated = stated_gap(slope(*pairs[0], **ask, tape=Tape("gap"), best_effort=True))
        assert np.mean(gaps) <= stated
    # For fair coins the bound is within a factor of six: one that is ten times smaller is caught.
    assert np.mean(gaps) > stated / 10.0


def test_two_laboratories_get_the_same_slope(seed):
    rng = np.random.default_rng(seed)
    ask = {"accuracy": 0.9, "rho": 0.3, "beta": 0.1, "bounds": UNIT, "least_variance": 0.08}
    rows = sample_size("slope", **ask)
    assert rows < 10_000
    trials = 300
    differ = wrong = own = 0
    for number in range(trials):
        tape = Tape(seed).branch(number)
        first, second = (slope(*_line(rng, rows), **ask, tape=tape) for _ in range(2))
        differ += first != second
        wrong += abs(float(first) - 0.5) > 0.9
        own += first != slope(*_line(rng, rows), **ask, tape=tape.branch("own"))
    assert low(differ, trials) <= 0.3
    assert low(wrong, trials) <= 0.1
    # A tape of one's own for each laboratory is the twin.
    assert low(own, trials) > 0.3


def test_a_slope_has_units_and_kind_refusals():
    rng = np.random.default_rng(1)
    ask = {"accuracy": 0.9, "rho": 0.3, "beta": 0.1, "least_variance": 0.08, "tape": Tape("x")}
    y, x = _line(rng, 10_000)
    plain = slope(y, x, **ask, bounds=UNIT)
    scaled = slope(
        100 * y, 10 * x, **{**ask, "accuracy": 9.0, "least_variance": 8.0}, bounds=((0, 100), (0, 10))
    )
    assert float(scaled) == pytest.approx(10 * float(plain))
    with pytest.raises(InvalidArgument, match="two pairs"):
        slope(y, x, **ask, bounds=3)
    with pytest.raises(InvalidArgument, match="least_variance"):
        slope(y, x, **{**ask, "least_variance": 0.3}, bounds=UNIT)
    with pytest.raises(InvalidArgument, match="length of y"):
        slope(y[1:], x, **ask, bounds=UNIT)


def test_power_is_the_other_side_of_the_sample_size():
    for name, terms in (
        ("mean", {}),
        ("difference", {}),
        ("slope", {"bounds": UNIT, "least_variance": 0.08}),
    ):
        rows = 40_000
        accuracy = power(name, rows=rows, most=0.99 if name != "mean" else 0.49, rho=0.1, beta=0.05, **terms)
        assert sample_size(name, accuracy=accuracy, rho=0.1, beta=0.05, **terms) <= rows
        assert sample_size(name, accuracy=0.99 * accuracy, rho=0.1, beta=0.05, **terms) > rows
    assert power("mean", rows=3, rho=0.1, beta=0.05) is None
    with pytest.raises(InvalidArgument, match="rho"):
        power("mean", rows=100, rho=2.0, beta=0.05)
