"""Correlated sampling without a last outcome: the law, the agreement, and where it stops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from replicable_pairs import clearly_above, not_above
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape, correlated_choice, correlated_countable
from holdfast.stability import collision_probability


def geometric(ratio):
    return lambda i: (1.0 - ratio) * ratio**i


def both_sides(centre, scale):
    """Discrete Laplace noise about a count, its outcomes 0, −1, 1, −2, 2, … numbered from 0."""

    def law(i):
        value = np.where(i % 2 == 1, -(i + 1) // 2, i // 2)
        return math.tanh(0.5 / scale) * np.exp(-np.abs(value - centre) / scale)

    return law


def test_the_outcome_is_the_least_arrival_of_a_longer_look():
    """Against the finite sampler on 4,096 outcomes, which holds all of the law but 10⁻¹⁷⁸."""
    chances = geometric(0.9)(np.arange(4096.0))
    for i in range(300):
        tape = Tape("longer").branch(i)
        assert correlated_countable(geometric(0.9), tape) == correlated_choice(chances / chances.sum(), tape)


def test_outcomes_have_the_law():
    drawn = np.array([correlated_countable(geometric(0.6), Tape("law").branch(i)) for i in range(1500)])
    observed = np.bincount(np.minimum(drawn, 8), minlength=9)
    expected = 1500 * np.append(geometric(0.6)(np.arange(8.0)), 0.6**8)
    assert stats.chisquare(observed, expected).pvalue > 1e-4


@pytest.mark.parametrize("centres", [(0, 1), (3, 4), (10, 7)])
def test_two_sides_agree_as_often_as_the_laws_allow(centres):
    """The exact collision probability over 400 outcomes; 2d/(1 + d) bounds what is left."""
    laws = [both_sides(centre, 4.0) for centre in centres]
    p, q = (law(np.arange(401)) for law in laws)
    same = collision_probability(p / p.sum(), q / q.sum())
    distance = 0.5 * float(np.abs(p - q).sum())
    assert 1.0 - same <= 2.0 * distance / (1.0 + distance) + 1e-9
    runs = 500
    agree = 0
    for i in range(runs):
        first, second = (correlated_countable(law, Tape("sides").branch(i)) for law in laws)
        agree += first == second
    assert abs(agree / runs - same) < 4.0 * math.sqrt(0.25 / runs)


def test_private_coins_agree_too_rarely():
    law = both_sides(3, 4.0)
    runs = 400
    differ = sum(
        correlated_countable(law, Tape("one").branch(i)) != correlated_countable(law, Tape("two").branch(i))
        for i in range(runs)
    )
    assert clearly_above(differ, runs, 0.5)


def test_a_look_that_stops_too_early_has_another_law():
    """The twin keeps the first 64 outcomes of a law whose half lies beyond: the tail must be looked at."""

    def late(i):
        return np.where(i < 64, 0.5 / 64.0, np.where(i < 128, 0.5 / 64.0, 0.0))

    drawn = [correlated_countable(late, Tape("late").branch(i)) for i in range(400)]
    beyond = sum(outcome >= 64 for outcome in drawn)
    assert not_above(beyond, 400, 0.5)
    assert not_above(400 - beyond, 400, 0.5)
    early = [int(np.argmin(Tape("late").branch(i).exponentials(64))) for i in range(400)]
    assert sum(a != b for a, b in zip(drawn, early, strict=True)) > 100


@pytest.mark.parametrize(
    "law",
    [
        lambda i: np.ones(i.size),
        lambda i: np.full(i.size, -0.1),
        lambda i: np.full(i.size, math.nan),
        lambda i: np.ones(3),
        lambda i: "half",
    ],
)
def test_bad_probabilities_are_refused(law):
    with pytest.raises(InvalidArgument, match="law"):
        correlated_countable(law, Tape("study-7"))


def test_a_law_with_mass_at_no_outcome_is_refused(monkeypatch):
    monkeypatch.setattr("holdfast.replicable._correlated._MOST", 2**10)
    with pytest.raises(InvalidArgument, match="beyond"):
        correlated_countable(lambda i: np.zeros(i.size), Tape("study-7"))


def test_a_long_tail_is_looked_at_in_pieces():
    """1/(i+1)(i+2) has half a millionth beyond two million outcomes: found without one huge array."""
    sizes = []

    def law(i):
        sizes.append(i.size)
        return 1.0 / ((i + 1.0) * (i + 2.0))

    chosen = correlated_countable(law, Tape("study-7"), tolerance=1e-6)
    assert chosen == correlated_countable(law, Tape("study-7"), tolerance=1e-3)
    assert max(sizes) <= 2**20 < sum(sizes)
