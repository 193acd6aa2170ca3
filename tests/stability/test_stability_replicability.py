"""Replicability, good coins, distribution shift, correlated sampling, Algorithm 3: exactly and simulated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, multinomial

from holdfast.errors import InvalidArgument
from holdfast.stability import (
    GoodCoins,
    Replicability,
    collision_probability,
    disagreement_bound,
    perfect_plan,
)

PROBABILITIES = st.floats(0.0, 1.0)
HAIR = 1.0 + 1e-12


def _random_algorithm(rng, samples, coins, outputs, strength):
    """A(S; r) for uniform samples and coins: mostly the canonical output of the coins."""
    canonical = rng.integers(outputs, size=coins)
    stray = rng.random((samples, coins)) < strength * rng.random(coins)
    return np.where(stray, rng.integers(outputs, size=(samples, coins)), canonical)


def _laws(algorithm, outputs):
    """For each coin sequence, the law of the output over uniform samples."""
    return np.array([np.bincount(column, minlength=outputs) for column in algorithm.T]) / len(algorithm)


def _rho(laws):
    return float((1.0 - (laws**2).sum(axis=1)).mean())


@pytest.mark.parametrize("strength", [0.05, 0.3, 1.0])
def test_enumerated_good_coins(strength, rng):
    for _ in range(20):
        laws = _laws(_random_algorithm(rng, 30, 40, 5, strength), 5)
        rho = _rho(laws)
        for nu in (0.05, 0.2, 0.5, 0.9):
            for method in ("sharp", "paper"):
                claim = Replicability(rho).good_coins(nu, method=method)
                bad = float((laws.max(axis=1) < 1.0 - claim.eta - 1e-12).mean())
                assert bad <= claim.nu


def test_good_coins_are_exact_for_two_outputs_so_a_smaller_eta_is_caught():
    eta = 0.2
    rho = 1.0 - (1 - eta) ** 2 - eta**2
    claim = Replicability(rho).good_coins(1.0)
    assert claim.eta == pytest.approx(eta, rel=1e-12)
    assert Replicability(rho).good_coins(1.0, method="paper").eta == pytest.approx(rho)


def test_good_coins_numbers():
    assert Replicability(0.01).good_coins(0.1).eta == pytest.approx((1 - math.sqrt(0.8)) / 2, rel=1e-12)
    assert Replicability(0.1).good_coins(0.15).eta == pytest.approx(0.1 / 0.15)
    assert Replicability(0.1).good_coins(0.05).vacuous
    assert Replicability(0.0).good_coins(0.5).eta == 0.0
    assert Replicability(1e-300).good_coins(0.5).eta == pytest.approx(1e-300)


@pytest.mark.parametrize(("eta", "nu"), [(0.0, 0.0), (0.1, 0.05), (0.3, 0.5), (0.01, 0.9)])
def test_good_coins_back_and_its_twin(eta, nu):
    # Bad coins scatter over so many outputs that they never meet; stray runs of good coins too.
    outputs = 4000
    good = np.full(outputs, eta / (outputs - 1))
    good[0] = 1 - eta
    bad = np.full(outputs, 1 / outputs)
    exact = (1 - nu) * (1 - (good**2).sum()) + nu * (1 - (bad**2).sum())
    claim = GoodCoins(eta, nu).replicability().rho
    assert exact <= claim
    assert exact == pytest.approx(claim, rel=1e-3, abs=1e-12)


@given(PROBABILITIES, PROBABILITIES, st.floats(0.0, 0.2))
def test_good_coins_are_monotone_and_sharp_beats_paper(eta, nu, more):
    base = GoodCoins(eta, nu).replicability().rho
    assert base <= GoodCoins(min(1.0, eta + more), nu).replicability().rho * HAIR
    assert base <= GoodCoins(eta, min(1.0, nu + more)).replicability().rho * HAIR
    assert base <= min(1.0, 2 * eta + nu) * HAIR
    if eta <= nu:
        assert base <= GoodCoins(eta, nu).replicability(method="paper").rho * HAIR
    if nu > 0.0:
        forth = Replicability(eta).good_coins(nu)
        assert forth.eta <= Replicability(eta).good_coins(nu, method="paper").eta
        assert forth.eta <= Replicability(min(1.0, eta + more)).good_coins(nu).eta


@pytest.mark.parametrize("strength", [0.05, 0.3, 1.0])
def test_enumerated_perfect_generalisation(strength, rng):
    for _ in range(20):
        algorithm = _random_algorithm(rng, 30, 40, 5, strength)
        rho = _rho(_laws(algorithm, 5))
        by_sample = _laws(algorithm.T, 5)
        apart = np.abs(by_sample - by_sample.mean(axis=0)).sum(axis=1) / 2
        for d in (None, 0.01, 0.2):
            claim = Replicability(rho).perfect_generalization(d)
            assert (claim.epsilon, claim.kind) == (0.0, "two-way")
            assert float((apart > claim.delta + 1e-12).mean()) <= claim.beta


def test_perfect_generalisation_is_tight_so_half_of_it_is_caught():
    # No coins and an output for each of ten samples: every total variation is 0.9, and so is ρ.
    laws = np.eye(10)
    apart = np.abs(laws - laws.mean(axis=0)).sum(axis=1) / 2
    claim = Replicability(1.0 - float((laws.mean(axis=0) ** 2).sum())).perfect_generalization(
        0.9 * (1 - 1e-9)
    )
    assert claim.beta / 2 < float((apart > claim.delta).mean()) <= claim.beta


def _agreement(algorithm, first, second, m):
    """P(A(S1; r) = A(S2; r)) for S1 ~ first^m, S2 ~ second^m; algorithm[r][S] enumerated."""
    laws = [
        np.array([math.prod(law[x] for x in rows) for rows in itertools.product(range(len(law)), repeat=m)])
        for law in (first, second)
    ]
    same = algorithm[:, :, None] == algorithm[:, None, :]
    return float(np.mean([laws[0] @ match @ laws[1] for match in same]))


@pytest.mark.parametrize("m", [1, 2, 3])
def test_enumerated_distribution_shift(m, rng):
    for _ in range(40):
        first, second = rng.dirichlet(np.ones(3), size=2)
        second = 0.7 * first + 0.3 * second
        shift = float(np.abs(first - second).sum() / 2)
        overlap = np.minimum(first, second)
        overlap /= overlap.sum()
        algorithm = _random_algorithm(rng, 3**m, 8, 4, 0.8).T
        exact = _agreement(algorithm, first, second, m)
        on_overlap = 1.0 - _agreement(algorithm, overlap, overlap, m)
        on_first = 1.0 - _agreement(algorithm, first, first, m)
        assert exact >= (1 - shift) ** (2 * m) * (1 - on_overlap) - 1e-12
        assert exact >= Replicability(on_first).under_shift(shift, m, everywhere=False) - 1e-12
        assert exact >= Replicability(max(on_overlap, on_first)).under_shift(shift, m) - 1e-12


def test_shift_numbers_and_a_twin():
    # The sample itself as output, D1 a point, D2 that point with probability 1 − δ: they agree with (1−δ)^m.
    shift, m = 0.1, 5
    exact = (1 - shift) ** m
    assert Replicability(0.0).under_shift(shift, m) <= exact
    assert Replicability(0.0).under_shift(shift, m) == pytest.approx(exact, rel=1e-9)
    assert (1 - shift) ** (m / 2) > exact
    assert Replicability(0.5).under_shift(0.1, 2) == pytest.approx(0.9**4 / 2)
    assert Replicability(0.5).under_shift(0.1, 2, everywhere=False) == pytest.approx(0.31)
    assert Replicability(0.2).under_shift(0.0, 10) == pytest.approx(0.8)
    assert Replicability(0.2).under_shift(1.0, 10) == 0.0
    assert 0.0 <= Replicability(0.0).under_shift(1e-9, 10**12) < 1e-300


@given(PROBABILITIES, PROBABILITIES, st.integers(1, 10**6), st.floats(0.0, 0.2))
def test_shift_is_monotone(rho, shift, m, more):
    base = Replicability(rho).under_shift(shift, m)
    assert 0.0 <= base <= 1.0
    assert Replicability(min(1.0, rho + more)).under_shift(shift, m) <= base * HAIR
    assert Replicability(rho).under_shift(min(1.0, shift + more), m) <= base * HAIR
    assert Replicability(rho).under_shift(shift, 2 * m) <= base * HAIR
    assert Replicability(rho).under_shift(shift, m, everywhere=False) <= base


def _by_definition(p, q):
    total = 0.0
    for j in range(len(p)):
        if p[j] > 0 and q[j] > 0:
            total += 1.0 / sum(max(p[i] / p[j], q[i] / q[j]) for i in range(len(p)))
    return total


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_collision_probability_is_its_formula(size, seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(size, 0.5), size=2)
    p[rng.random(size) < 0.2] = 0.0
    if p.sum() == 0.0:
        return
    p /= p.sum()
    exact = collision_probability(p, q)
    assert exact == pytest.approx(_by_definition(p, q), rel=1e-9, abs=1e-12)
    assert exact == pytest.approx(collision_probability(q, p), rel=1e-9, abs=1e-12)
    d = float(np.abs(p - q).sum() / 2)
    assert 1.0 - exact <= disagreement_bound(min(1.0, d)) + 1e-9
    assert exact <= 1.0 - d + 1e-9
    assert collision_probability(p, p) == pytest.approx(1.0)


def test_collision_probability_by_simulation_and_its_twin(rng):
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    trials = 40_000
    times = rng.exponential(size=(trials, 3))
    met = int((np.argmin(times / p, axis=1) == np.argmin(times / q, axis=1)).sum())
    exact = collision_probability(p, q)
    assert binomtest(met, trials, exact).pvalue > 1e-6
    assert binomtest(met, trials, exact * 0.95).pvalue < 1e-6


def test_the_bound_on_disagreement_is_attained():
    x = 0.25
    assert 1.0 - collision_probability([1 - x, x, 0], [1 - x, 0, x]) == pytest.approx(disagreement_bound(x))
    assert disagreement_bound(0.0) == 0.0
    assert disagreement_bound(1.0) == 1.0


def test_algorithm_3_constants():
    plan = perfect_plan(1.0, 0.01)
    assert (plan.seeds, plan.parts, plan.runs) == (2, 3_267, 6_534)
    assert (plan.guarantee.beta, plan.guarantee.epsilon, plan.guarantee.delta) == pytest.approx(
        (0.02, 1.0, 0.02)
    )
    assert plan.guarantee.kind == "sample"
    assert plan.failure == pytest.approx(0.01 + 1.5e-4)
    assert plan.sensitivity == pytest.approx(math.sqrt(2) * plan.parts * plan.deviation / 2)

    def margin(parts):
        deviation = math.sqrt(math.log(11 / 0.01**2) / parts)
        return deviation * (1 + math.sqrt(0.5) + math.sqrt(2) * math.log(100))

    assert margin(plan.parts) < 0.49 <= margin(plan.parts - 1)
    assert perfect_plan(0.5, 0.01).runs > plan.runs
    assert perfect_plan(1.0, 0.001).runs > plan.runs
    assert perfect_plan(1.0, 0.01, coins=GoodCoins(0.2, 0.01)).runs > plan.runs
    single = perfect_plan(1.0, 0.01, coins=GoodCoins(0.0, 0.0))
    assert single.seeds == 1
    assert single.parts == perfect_plan(0.1, 0.01, coins=GoodCoins(0.0, 0.0)).parts
    assert perfect_plan(1.0, 0.01, failure=1e-4).failure == pytest.approx(2 * 0.01 + 0.01 + 1.5e-4)


@pytest.mark.parametrize("law", [[0.5, 0.3, 0.2], [0.5, 0.5, 0.0], [0.34, 0.33, 0.33], [0.55, 0.25, 0.2]])
def test_algorithm_3_deviations_cover_what_moves(law):
    """Steps 2 and 3 of the proof on all counts of two samples: scores, and majorities that do not stay."""
    parts, nats = 14, 2.0
    reach = math.sqrt(parts * nats)
    every = [c for c in itertools.product(range(parts + 1), repeat=3) if sum(c) == parts]
    chances = np.array([multinomial.pmf(counts, parts, law) for counts in every])
    counts = np.array(every)
    pairs = chances[:, None] * chances[None, :]
    scores = counts.max(axis=1)
    assert pairs[np.abs(scores[:, None] - scores[None, :]) >= reach].sum() <= 2 * math.exp(-nats)
    for width, least in ((reach, None), (reach / 3, 4 * math.exp(-2 * nats))):
        many = counts > parts / 2 + width
        unlikely = np.array(law) <= 0.5
        beyond = chances[(many & unlikely).any(axis=1)].sum()
        lost = pairs[(many[:, None, :] & (counts[None, :, :] <= parts / 2)).any(axis=2)].sum()
        if least is None:
            assert beyond <= 3 * math.exp(-2 * nats)
            assert lost <= math.exp(-nats) + 3 * math.exp(-2 * nats)
        elif law[:2] == [0.5, 0.5]:
            assert lost > least, "a third of the deviation should not be enough"


def test_algorithm_3_is_sample_perfectly_generalising(rng):
    # Two samples, the same coins: scores of all candidates, then the exponential mechanism's exact law.
    epsilon, delta = 1.0, 0.1
    plan = perfect_plan(epsilon, delta)
    frequencies = np.array([0.99, *rng.uniform(0.3, 0.99, plan.seeds - 1)])
    trials, apart = 300, 0
    for _ in range(trials):
        laws = []
        for _ in range(2):
            hits = rng.binomial(plan.parts, frequencies)
            scores = np.maximum(hits, plan.parts - hits)
            weights = np.exp(epsilon * (scores - scores.max()) / (2 * plan.sensitivity))
            candidates = np.where(hits >= plan.parts - hits, 0, 1)
            law = np.zeros((plan.seeds, 2))
            law[np.arange(plan.seeds), candidates] = weights / weights.sum()
            laws.append(law.ravel())
        gap = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in (laws, laws[::-1]))
        apart += gap > 2 * delta
    assert binomtest(apart, trials, min(1.0, 2 * delta), alternative="greater").pvalue > 1e-6


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("rho", lambda: Replicability(1.1)),
        ("rho", lambda: Replicability(math.nan)),
        ("rho", lambda: Replicability("0.1")),
        ("nu", lambda: Replicability(0.1).good_coins(0.0)),
        ("nu", lambda: Replicability(0.1).good_coins(1.1)),
        ("d", lambda: Replicability(0.1).perfect_generalization(0.0)),
        ("total_variation", lambda: Replicability(0.1).under_shift(-0.1, 3)),
        ("m", lambda: Replicability(0.1).under_shift(0.1, 0)),
        ("eta", lambda: GoodCoins(-0.1, 0.1)),
        ("nu", lambda: GoodCoins(0.1, math.inf)),
        ("eta", lambda: GoodCoins(0.2, 0.1).replicability(method="paper")),
        ("total_variation", lambda: disagreement_bound(1.5)),
        ("p", lambda: collision_probability([0.5, 0.4], [0.5, 0.5])),
        ("q", lambda: collision_probability([0.5, 0.5], [1.0])),
        ("q[1]", lambda: collision_probability([0.5, 0.5], [0.5, math.nan])),
        ("epsilon", lambda: perfect_plan(0.0, 0.1)),
        ("delta", lambda: perfect_plan(1.0, 1.0)),
        ("failure", lambda: perfect_plan(1.0, 0.1, failure=0.3)),
        ("coins", lambda: perfect_plan(1.0, 0.1, coins=0.01)),
        ("coins", lambda: perfect_plan(1.0, 0.1, coins=GoodCoins(0.5, 0.1))),
        ("coins", lambda: perfect_plan(1.0, 0.1, coins=GoodCoins(0.1, 1.0))),
    ],
)
def test_bad_arguments_are_named(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert refusal.value.argument == argument


@pytest.mark.parametrize("n", [20, 200, 2000])
def test_a_shift_costs_its_share_of_the_width(n):
    # A share rounded to a shared grid, enumerated over both samples: min(1, |v − v'|/w) is the mismatch.
    from scipy import stats

    rho = 0.1
    width = 1.0 / (rho * math.sqrt(math.pi * (n + 0.25)))
    counts = np.arange(n + 1)
    apart = np.minimum(1.0, np.abs(np.subtract.outer(counts, counts)) / (n * width))
    for p, moved in ((0.5, 0.1), (0.5, 0.5), (0.9, -0.3), (0.1, 0.05)):
        shift = abs(moved) * min(width, 1.0) * 0.9
        q = p + math.copysign(shift, moved)
        if not 0.0 <= q <= 1.0:
            continue
        mismatch = float(stats.binom.pmf(counts, n, p) @ apart @ stats.binom.pmf(counts, n, q))
        assert 1.0 - mismatch >= Replicability(rho).under_shift(shift=shift, width=width)
        if shift > 0.4 * width:
            # A twin that charges half of the shift is caught.
            assert 1.0 - mismatch < Replicability(0.0).under_shift(shift=shift / 2.0, width=width)
    # The overlap of all rows says nothing here; the shift does.
    assert Replicability(rho).under_shift(0.1 * min(width, 1.0), m=2000) < 0.5
    both = Replicability(rho).under_shift(0.05, m=2000, shift=0.05 * width, width=width)
    assert both == Replicability(rho).under_shift(shift=0.05 * width, width=width) > 0.84


def test_a_shift_needs_its_width():
    for bad in ({"shift": 0.1}, {"width": 0.1}, {"m": 10}, {"total_variation": 0.1}, {}):
        with pytest.raises(InvalidArgument, match="given"):
            Replicability(0.1).under_shift(**bad)
