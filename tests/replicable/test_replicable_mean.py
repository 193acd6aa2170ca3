"""The replicable mean: mismatch, accuracy, the exact law of rounding, and a twin with private randomness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replicable_pairs import PAIRS, clearly_above, clearly_below, not_above, pairs_of_counts
from scipy import special, stats

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, mean, sample_size
from holdfast.replicable._mean import _mean_design, rounded_failure
from holdfast.replicable._rounding import band_end, chernoff, divergence, mean_gap, share_gap, snap

PROMISE = {"accuracy": 0.05, "rho": 0.1, "beta": 0.01}

# Values and their probabilities; the fair coin is the worst there is, its mismatch is ρ itself.
LAWS = {
    "fair coin": ([0.0, 1.0], [0.5, 0.5]),
    "eleven grades": (np.linspace(0, 1, 11), np.ones(11)),
    "ties at the middle": ([0.0, 0.5, 1.0], [0.45, 0.1, 0.45]),
    "a rare one": ([0.0, 1.0], [0.99, 0.01]),
}


def _simulated(law, rng, tape, *, private=False):
    values, chances = (np.asarray(part, dtype=float) for part in LAWS[law])
    design = _mean_design(0.05, 0.1, 0.01, 1.0, of="mean")
    needed, width = design.rows, design.width
    first, second = (counts @ values / needed for counts in pairs_of_counts(rng, needed, chances))
    offsets = tape.uniforms(PAIRS)
    others = tape.branch("private").uniforms(PAIRS) if private else offsets
    truth = float(values @ chances / chances.sum())
    return snap(first, width, offsets), snap(second, width, others), truth


@pytest.mark.parametrize("law", LAWS)
def test_two_samples_at_the_smallest_size_differ_at_most_as_often_as_promised(law, rng, seed):
    first, second, truth = _simulated(law, rng, Tape(seed))
    assert not_above((first != second).sum(), PAIRS, 0.1)
    if law in ("eleven grades", "a rare one"):
        assert clearly_below((first != second).sum(), PAIRS, 0.1)
    assert not_above((np.abs(first - truth) > 0.05).sum(), PAIRS, 0.01)
    own, other, _ = _simulated(law, rng, Tape(seed), private=True)
    assert clearly_above((own != other).sum(), PAIRS, 0.1)


def test_the_simulation_is_the_statistic(rng):
    design = _mean_design(0.05, 0.1, 0.01, 1.0, of="mean")
    needed, width = design.rows, design.width
    for i in range(20):
        x = rng.random(needed) < 0.3
        tape = Tape(i)
        result = mean(x, tape=tape, **PROMISE)
        simulated = snap(x.mean(), width, tape.branch("mean").uniforms(1))[0]
        assert result == min(1.0, max(0.0, simulated))
        assert result.rows == needed
        assert result.guarantee.rho == 0.1


def test_given_two_means_the_mismatch_is_their_distance_over_the_width():
    design = _mean_design(0.05, 0.1, 0.01, 1.0, of="mean")
    needed, width = design.rows, design.width
    for share in (0.1, 0.4, 0.9, 1.3):
        first = np.zeros(needed)
        second = np.zeros(needed)
        first[: needed // 2] = 1.0
        second[: needed // 2 + round(share * width * needed)] = 1.0
        apart = (second.mean() - first.mean()) / width
        differ = sum(
            mean(first, tape=tape, **PROMISE) != mean(second, tape=tape, **PROMISE)
            for tape in map(Tape, range(150))
        )
        assert stats.binomtest(differ, 150, min(1.0, apart)).pvalue > 1e-6


def test_the_size_is_the_least_and_below_the_agreed_limit():
    assert sample_size("mean", bounds=(0, 1), **PROMISE) == 5847 <= 5900
    for accuracy, rho, beta in ((0.05, 0.1, 0.01), (0.2, 0.3, 0.1), (0.01, 0.02, 1e-6), (0.4, 0.9, 0.5)):
        n = sample_size("mean", accuracy=accuracy, rho=rho, beta=beta)
        fewer = max(1, n - 1)
        assert rounded_failure(n, mean_gap(n) / rho * (1 + 1e-12), accuracy) <= beta
        assert n == 1 or rounded_failure(fewer, mean_gap(fewer) / rho, accuracy) > beta


@given(n=st.integers(1, 400))
def test_the_fair_coin_lies_as_far_apart_as_the_bound_and_no_further(n):
    exact = math.exp(special.gammaln(n + 0.5) - special.gammaln(n + 1)) / math.sqrt(math.pi)
    assert exact <= mean_gap(n) <= exact * (1.0 + 0.03 / n**2)


@given(n=st.integers(1, 60), p=st.floats(1e-6, 1 - 1e-6))
def test_shares_lie_no_further_apart_than_the_bound(n, p):
    law = stats.binom.pmf(np.arange(n + 1), n, p)
    exact = float(law @ np.abs(np.subtract.outer(np.arange(n + 1), np.arange(n + 1))) @ law) / n
    assert exact <= share_gap(n, p * (1.0 - p)) + 1e-12
    assert p * (1 - p) < 0.2 or exact < 2.0 * share_gap(n, 0.5 * p * (1.0 - p)) * 0.9


@given(n=st.integers(1, 200), truth=st.floats(0.01, 0.99), share=st.floats(0.0, 1.0))
def test_chernoff_bounds_the_binomial_tail(n, truth, share):
    count = share * n
    if share >= truth:
        exact = stats.binom.sf(math.ceil(count - 1e-9) - 1, n, truth)
    else:
        exact = stats.binom.cdf(math.floor(count + 1e-9), n, truth)
    assert exact <= chernoff(n, math.floor(count + 1e-9) / n if share < truth else count / n, truth) + 1e-12
    assert divergence(share, truth) >= 2 * (share - truth) ** 2 - 1e-12


def test_the_end_of_a_band_is_as_near_the_limit_as_the_rows_allow():
    for n, inside, limit in ((1000, 0.5, 0.55), (1000, 0.5, 0.45), (10, 0.5, 0.55)):
        end = band_end(n, inside, limit, 0.01)
        assert chernoff(n, end, limit) <= 0.01 or end == inside
        assert chernoff(n, end + (limit - inside) * 1e-6, limit) > 0.01


def test_bounds_scale_the_grid_and_the_result(rng):
    needed = sample_size("mean", **PROMISE)
    x = rng.random(needed)
    plain = mean(x, tape=Tape(1), **PROMISE)
    scaled = mean(10 + 4 * x, accuracy=0.2, rho=0.1, beta=0.01, bounds=(10, 14), tape=Tape(1))
    assert float(scaled) == pytest.approx(10 + 4 * float(plain), rel=1e-12)
    assert scaled.details["width"] == pytest.approx(4 * plain.details["width"])


def test_the_order_of_the_rows_and_their_number_do_not_matter(rng):
    needed = sample_size("mean", **PROMISE)
    x = rng.random(2 * needed)
    assert mean(x, tape=Tape(3), **PROMISE) == mean(rng.permutation(x), tape=Tape(3), **PROMISE)
    assert mean(np.ones(needed), tape=Tape(3), **PROMISE) == mean(
        np.ones(3 * needed), tape=Tape(3), **PROMISE
    )
    assert float(mean(np.ones(needed), tape=Tape(3), **PROMISE)) <= 1.0


def test_samples_of_different_sizes_differ_no_more_often(rng, seed):
    design = _mean_design(0.05, 0.1, 0.01, 1.0, of="mean")
    needed, width = design.rows, design.width
    offsets = Tape(seed).uniforms(PAIRS)
    first = rng.binomial(needed, 0.5, size=PAIRS) / needed
    second = rng.binomial(4 * needed, 0.5, size=PAIRS) / (4 * needed)
    differ = (snap(first, width, offsets) != snap(second, width, offsets)).sum()
    assert clearly_below(differ, PAIRS, 0.1)


def test_too_few_rows_are_refused_and_a_best_effort_says_what_it_can_promise(rng, seed):
    x = rng.random(1000) < 0.5
    with pytest.raises(NotEnoughRows) as refused:
        mean(x, tape=Tape(1), **PROMISE)
    assert (refused.value.needed, refused.value.got) == (5847, 1000)
    result = mean(x, tape=Tape(1), best_effort=True, **PROMISE)
    assert 0.2 < result.guarantee.rho < 0.3
    assert result.beta > 0.01
    width = _mean_design(0.05, 0.1, 0.01, 1.0, of="mean").width
    first, second = rng.binomial(1000, 0.5, size=(2, PAIRS)) / 1000
    offsets = Tape(seed).uniforms(PAIRS)
    differ = (snap(first, width, offsets) != snap(second, width, offsets)).sum()
    assert stats.binomtest(int(differ), PAIRS, result.guarantee.rho).pvalue > 1e-6
    with pytest.raises(NotEnoughRows):
        mean([], tape=Tape(1), best_effort=True, **PROMISE)


def test_golden_mean_never_changes():
    result = mean([0, 1, 1] * 2000, tape=Tape("study-7"), **PROMISE)
    assert float(result).hex() == "0x1.591130b51da77p-1"
    assert result.tape == "tape:holdfast-1:study-7"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("accuracy", 0.0),
        ("accuracy", 0.5),
        ("accuracy", math.nan),
        ("rho", 0.0),
        ("rho", 1.0),
        ("rho", math.nan),
        ("beta", 0.0),
        ("beta", "x"),
        ("bounds", (1, 0)),
        ("bounds", (0,)),
        ("bounds", (0, math.inf)),
        ("tape", "study-7"),
        ("x", [0.5, math.nan]),
        ("x", [0.5, 1.5]),
        ("x", ["a"]),
        ("x", [[0.5]]),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    given = {"x": [0.5] * 6000, "tape": Tape(1), "bounds": (0, 1), **PROMISE, argument: value}
    with pytest.raises(InvalidArgument, match=f"'{argument}[^']*' argument of mean"):
        mean(given.pop("x"), **given)
