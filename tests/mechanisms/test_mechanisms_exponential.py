"""The exponential mechanism chooses with exactly its weights."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms_oracles import LEVEL, power
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.mechanisms import choose_coins, exponential
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


class Scripted(np.random.Generator):
    """A generator of given words of 64 bits, one after another, and of no others."""

    def __init__(self, words):
        super().__init__(np.random.PCG64(0))
        self.script = list(words)

    def bytes(self, length):
        words, self.script = self.script[: length // 8], self.script[length // 8 :]
        assert 8 * len(words) == length
        return b"".join(word.to_bytes(8, "little") for word in words)


@pytest.mark.parametrize("size", [1, 3, 10, 2**62 + 1])
def test_proposals_are_exactly_uniform(size):
    # Words in the last, incomplete round of ``size`` are left out; all others count once.
    rounds = 2**64 // size
    words = Scripted([0, size - 1, size * rounds - 1, 2**64 - 1])
    expected = [0, size - 1, size - 1] + ([0] if size == 1 else [])
    assert choose_coins(True, words, of="test").indices(4, size).tolist() == expected


def exact_choice(scores, epsilon, coins):
    """The first proposal that is accepted, each compared with its exponential in 60 digits."""
    with mpmath.workdps(60):
        chances = [mpmath.exp(epsilon * (mpmath.mpf(score) - max(scores)) / 2) for score in scores]
        while True:
            proposed = coins.indices(len(scores) + 8, len(scores)).tolist()
            for index, prefix in zip(proposed, coins.words(len(proposed)).tolist(), strict=True):
                accepted, surely = (mpmath.ldexp(p, -64) < chances[index] for p in (prefix, prefix + 1))
                assert accepted == surely  # A later bit matters once in 2⁶⁴ words.
                if accepted:
                    return index


def test_every_fast_choice_is_the_exact_one(seed):
    scores = np.random.default_rng(seed).normal(size=50).tolist()
    for number in range(200):
        exact = exact_choice(scores, 3.0, choose_coins(True, number, of="test"))
        assert exponential(scores, 3.0, 1.0, simulation=True, seed=number) == exact


@pytest.mark.parametrize("exponent", [1.0, 1 / 3, 8.5, 2.0**-40])
def test_a_choice_whose_first_bits_are_in_doubt_is_settled_by_the_last_one(exponent):
    """A proposal is accepted with probability e^-z, whose first 256 bits are drawn, then one more or less."""
    with mpmath.workdps(200):
        power = mpmath.exp(-mpmath.mpf(exponent))
        digits = int(mpmath.floor(power * mpmath.mpf(2) ** 256))
    for offset, chosen in ((-1, 1), (1, 0)):
        bits = digits + offset
        words = [bits >> shift & 2**64 - 1 for shift in (192, 128, 64, 0)]
        # The worse score is proposed once, and then the best one, which is always accepted.
        script = Scripted([1, *[0] * 9, words[0], *[0] * 9, *words[1:]])
        assert exponential([0.0, -exponent], 2.0, 1.0, simulation=True, seed=script) == chosen
        assert script.script == []


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
