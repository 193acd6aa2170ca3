"""The exponential mechanism chooses with exactly its weights."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms_oracles import LEVEL, power
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.mechanisms import _selection, exponential
from holdfast.mechanisms._coins import Coins
from holdfast.stability import exponential_excess


def law(scores, epsilon, sensitivity, factor=2.0):
    weights = np.exp(epsilon * (np.asarray(scores) - max(scores)) / (factor * sensitivity))
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("scores", "epsilon", "sensitivity"),
    [([0.0, 1.0, 2.0], 1.0, 1.0), ([3.0, 3.0], 0.5, 1.0), ([0.0, 0.3, -0.2, 0.9, 0.31], 2.0, 0.25)],
)
def test_choices_have_exactly_their_weights_and_a_wrong_rate_is_caught(scores, epsilon, sensitivity, seed):
    draws = 10_000
    generator = np.random.default_rng(seed)
    counts = np.bincount(
        [exponential(scores, epsilon, sensitivity, simulation=True, seed=generator) for _ in range(draws)],
        minlength=len(scores),
    )
    claimed = law(scores, epsilon, sensitivity)
    assert stats.chisquare(counts, draws * claimed).pvalue > LEVEL
    if len(set(scores)) > 1:
        wrong = law(scores, 1.4 * epsilon, sensitivity)
        assert power(wrong, claimed, draws) > 1 - 1e-6
        assert stats.chisquare(counts, draws * wrong).pvalue < LEVEL


def test_the_law_is_private_and_twice_the_rate_is_not():
    # Every pair of score vectors on a small lattice whose scores differ by at most the sensitivity.
    epsilon, levels = 1.0, (0.0, 1.0, 2.0)
    worst = {2.0: 0.0, 1.0: 0.0}
    for first in itertools.product(levels, repeat=3):
        for second in itertools.product(levels, repeat=3):
            if max(abs(a - b) for a, b in zip(first, second, strict=True)) <= 1.0:
                for factor in worst:
                    ratio = law(first, epsilon, 1.0, factor) / law(second, epsilon, 1.0, factor)
                    worst[factor] = max(worst[factor], float(np.log(ratio).max()))
    assert worst[2.0] <= epsilon * (1 + 1e-12)
    assert worst[1.0] > 1.2 * epsilon


@pytest.mark.parametrize("size", [1, 3, 10, 2**62 + 1])
def test_proposals_are_exactly_uniform(size, monkeypatch):
    # Words in the last, incomplete round of ``size`` are left out; all others count once.
    rounds = 2**64 // size
    words = np.array([0, size - 1, size * rounds - 1, 2**64 - 1], dtype=np.uint64)
    monkeypatch.setattr(Coins, "words", lambda self, count: words[:count])
    expected = [0, size - 1, size - 1] + ([0] if size == 1 else [])
    assert Coins().indices(4, size).tolist() == expected


def test_every_fast_choice_is_the_exact_one(seed, monkeypatch):
    scores = np.random.default_rng(seed).normal(size=50)
    fast = [exponential(scores, 3.0, 1.0, simulation=True, seed=s) for s in range(200)]
    monkeypatch.setattr(_selection, "_DOUBT", 2.0)
    assert [exponential(scores, 3.0, 1.0, simulation=True, seed=s) for s in range(200)] == fast


def test_the_excess_bound_holds_and_its_third_does_not(seed):
    scores, failure, runs = np.zeros(100), 0.1, 2000
    scores[0] = 8.0
    bound = exponential_excess(1.0, 1.0, 100, failure)
    generator = np.random.default_rng(seed)
    excess = [
        scores.max() - scores[exponential(scores, 1.0, 1.0, simulation=True, seed=generator)]
        for _ in range(runs)
    ]
    assert (
        stats.binomtest(int(np.sum(np.array(excess) > bound)), runs, failure, alternative="greater").pvalue
        > 1e-6
    )
    third = int(np.sum(np.array(excess) > bound / 3))
    assert stats.binomtest(third, runs, failure, alternative="greater").pvalue < 1e-6


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8),
    st.floats(1e-9, 1e9),
    st.floats(1e-280, 1e280),
)
def test_any_scores_give_an_index(scores, epsilon, sensitivity):
    assert exponential(scores, epsilon, sensitivity) in range(len(scores))


def test_large_gaps_and_many_candidates():
    assert exponential([-1e300, 1e300], 1e9, 1e-280) == 1
    assert exponential([7.0], 1.0, 1.0) == 0
    many = np.zeros(200_000)
    many[123_456] = 1e6
    assert exponential(many, 1.0, 1.0) == 123_456
    assert type(exponential(many, 1.0, 1.0)) is int


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"scores": []}, "scores"),
        ({"scores": 1.0}, "scores"),
        ({"scores": [[1.0, 2.0]]}, "scores"),
        ({"scores": [0.0, math.nan]}, "scores"),
        ({"scores": [0.0, math.inf]}, "scores"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"sensitivity": math.inf}, "sensitivity"),
        ({"seed": 1}, "seed"),
    ],
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        exponential(**{"scores": [0.0, 1.0], "epsilon": 1.0, "sensitivity": 1.0, **change})
    assert caught.value.argument == named
