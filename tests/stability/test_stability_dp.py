"""Differential privacy: composition, groups, subsamples, max-information, against exact enumeration."""

from __future__ import annotations

import itertools
import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binomtest

from enumeration import (
    close,
    data,
    exact_delta,
    exact_epsilon,
    hockey_stick,
    independent,
    information_excess,
    log_binomial,
    random_table,
    randomised_response,
    response_excess,
    small_mechanisms,
    with_leak,
)
from holdfast.errors import InvalidArgument
from holdfast.stability import (
    DP,
    BayesianDP,
    GoodCoins,
    composed_delta,
    exponential_excess,
    private_plan,
    selection_threshold,
)

EPSILONS = st.floats(1e-6, 3.0)
DELTAS = st.floats(-30.0, -2.0).map(lambda exponent: 10.0**exponent)
SLACKS = st.floats(-100.0, -0.1).map(lambda exponent: 10.0**exponent)
HAIR = 1.0 + 1e-9


def test_composition_numbers():
    step = DP(0.1, 1e-8)
    assert step.compose(50, method="basic").to_dict() == pytest.approx({"epsilon": 5.0, "delta": 5e-7})
    advanced = step.compose(50, method="advanced", slack=1e-6)
    assert advanced.epsilon == pytest.approx(4.716922188849839, rel=1e-12)
    assert advanced.delta == pytest.approx(1.5e-6, rel=1e-12)
    by_default = step.compose(50, method="advanced")
    assert by_default == step.compose(50, method="advanced", slack=50 * 1e-8)
    assert by_default.delta == pytest.approx(2 * 50 * 1e-8)
    assert step.compose(50).epsilon == pytest.approx(5.0)
    optimal = step.compose(50, slack=1e-6)
    assert optimal.delta == pytest.approx(-math.expm1(50 * math.log1p(-1e-8) + math.log1p(-1e-6)), rel=1e-12)
    assert composed_delta(DP(0.1), 50, optimal.epsilon) == pytest.approx(1e-6, rel=1e-6)


@given(EPSILONS, st.one_of(st.just(0.0), DELTAS), st.integers(1, 3000), SLACKS)
def test_optimal_beats_advanced_and_basic(epsilon, delta, k, slack):
    step = DP(epsilon, delta)
    optimal = step.compose(k, slack=slack)
    advanced = step.compose(k, slack=slack, method="advanced")
    assert optimal.epsilon <= advanced.epsilon * HAIR
    assert optimal.delta <= advanced.delta * HAIR
    assert optimal.epsilon <= step.compose(k, method="basic").epsilon
    assert step.compose(k).epsilon <= step.compose(k, method="basic").epsilon
    assert step.compose(k).delta <= step.compose(k, method="basic").delta


@given(EPSILONS, DELTAS)
def test_composing_once_changes_nothing(epsilon, delta):
    step = DP(epsilon, delta)
    assert step.compose(1) == step
    assert step.compose(1, method="basic") == step
    assert step.group(1) == step
    assert step.subsample(7, 7) == step
    assert step.compose(1, slack=1e-9).epsilon <= epsilon


@given(
    EPSILONS,
    DELTAS,
    st.integers(1, 500),
    SLACKS,
    st.floats(1.0, 3.0),
    st.sampled_from(["advanced", "optimal"]),
)
def test_composition_is_monotone(epsilon, delta, k, slack, growth, method):
    base = DP(epsilon, delta).compose(k, slack=slack, method=method)
    for larger in (
        DP(epsilon * growth, delta).compose(k, slack=slack, method=method),
        DP(epsilon, min(0.9, delta * growth)).compose(k, slack=slack, method=method),
        DP(epsilon, delta).compose(math.ceil(k * growth), slack=slack, method=method),
    ):
        assert larger.epsilon >= base.epsilon / HAIR
        assert larger.delta >= base.delta / HAIR
    looser = DP(epsilon, delta).compose(k, slack=min(0.99, slack * growth), method=method)
    assert looser.epsilon <= base.epsilon * HAIR


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_enumerated_products_compose_no_worse(k):
    for epsilon, delta in product([0.1, 0.5, 1.5], [0.0, 0.01]):
        truth = 1.0 / (1.0 + math.exp(-epsilon))
        real = np.array([(1 - delta) * truth, (1 - delta) * (1 - truth), delta, 0.0])
        other = np.array([(1 - delta) * (1 - truth), (1 - delta) * truth, 0.0, delta])
        products = [
            np.array([math.prod(pick) for pick in itertools.product(law, repeat=k)]) for law in (real, other)
        ]
        for slack in (0.0, 1e-3, 0.05, 0.3):
            claim = DP(epsilon, delta).compose(k, slack=slack)
            assert hockey_stick(products[0], products[1], claim.epsilon) <= claim.delta + 1e-12
            if slack > 0 and claim.epsilon > 0.01:
                # Randomised response attains it: one per cent less ε is caught.
                assert hockey_stick(products[0], products[1], claim.epsilon * 0.99) > claim.delta
        for method, slack in (("basic", None), ("advanced", 0.05)):
            claim = DP(epsilon, delta).compose(k, slack=slack, method=method)
            assert hockey_stick(products[0], products[1], claim.epsilon) <= claim.delta + 1e-12


@pytest.mark.parametrize("n", [2, 3, 4])
def test_enumerated_groups(n, rng):
    for table in (
        randomised_response(n, 0.7),
        with_leak(randomised_response(n, 0.3), 0.02),
        random_table(rng, n, 3, 0.4),
    ):
        epsilon = 0.3
        delta = exact_delta(table, n, epsilon)
        for size in range(1, n + 1):
            claim = DP(epsilon, delta).group(size)
            apart = (data(n)[:, None, :] != data(n)[None, :, :]).sum(axis=2)
            for i, j in zip(*np.nonzero(apart == size), strict=True):
                assert hockey_stick(table[i], table[j], claim.epsilon) <= claim.delta + 1e-12


def test_group_numbers():
    claim = DP(0.2, 1e-9).group(5)
    with mpmath.workdps(30):
        exact = mpmath.mpf(1e-9) * mpmath.expm1(5 * mpmath.mpf(0.2)) / mpmath.expm1(mpmath.mpf(0.2))
    assert claim.delta == pytest.approx(float(exact), rel=1e-12)
    assert DP(0.0, 1e-3).group(5).delta == pytest.approx(5e-3)
    assert DP(1.0, 1e-9).group(10**6).delta == 1.0
    assert DP(400.0, 1e-200).group(2).delta == pytest.approx(math.exp(400.0) * 1e-200, rel=1e-9)


def _subsampled(table, n, m, *, shuffled=True):
    """The exact table of a mechanism on n rows drawn from m, in random order or in that of the data."""
    index = {tuple(rows): i for i, rows in enumerate(data(n))}
    subsets = list((itertools.permutations if shuffled else itertools.combinations)(range(m), n))
    return np.array([sum(table[index[tuple(rows[list(s)])]] for s in subsets) for rows in data(m)]) / len(
        subsets
    )


@pytest.mark.parametrize(("n", "m"), [(1, 2), (1, 4), (2, 3), (2, 4), (3, 4)])
def test_enumerated_subsampling(n, m, rng):
    for table in (
        randomised_response(n, 1.0),
        with_leak(randomised_response(n, 0.5), 0.05),
        random_table(rng, n, 3, 0.5),
    ):
        outer = _subsampled(table, n, m)
        for epsilon in (0.5, 1.0):
            base = DP(epsilon, exact_delta(table, n, epsilon))
            for method in ("sharp", "paper"):
                claim = base.subsample(n, m, method)
                assert exact_delta(outer, m, claim.epsilon) <= claim.delta + 1e-12
            assert base.subsample(n, m).epsilon <= base.subsample(n, m, "paper").epsilon


def test_subsampling_is_tight_so_a_smaller_epsilon_is_caught():
    outer = _subsampled(randomised_response(1, 1.0), 1, 4)
    claim = DP(1.0).subsample(1, 4)
    assert exact_delta(outer, 4, claim.epsilon * 0.75) > claim.delta + 1e-6


def test_subsampling_in_the_order_of_the_data_is_not_covered():
    # Randomised response tells rows apart by their place; keeping the order, one new row can move others.
    claim = DP(1.0).subsample(2, 4)
    assert (
        exact_delta(_subsampled(randomised_response(2, 1.0), 2, 4), 4, claim.epsilon) <= claim.delta + 1e-12
    )
    ordered = _subsampled(randomised_response(2, 1.0), 2, 4, shuffled=False)
    assert exact_delta(ordered, 4, claim.epsilon) > 0.01


@given(st.floats(0.0, 2000.0), st.integers(1, 1000), st.integers(0, 10**6))
def test_subsampling_numbers(epsilon, n, more):
    claim = DP(epsilon).subsample(n, n + more)
    with mpmath.workdps(60):
        exact = mpmath.log1p(mpmath.mpf(n) / (n + more) * mpmath.expm1(mpmath.mpf(epsilon)))
        assert exact <= claim.epsilon
        assert claim.epsilon <= exact * (1 + 1e-11) + mpmath.mpf(10) ** -300
    assert claim.epsilon <= epsilon * HAIR
    printed = DP(epsilon).subsample(n, n + more, "paper")
    with mpmath.workdps(60):
        exact = mpmath.mpf(n) / (n + more) * mpmath.expm1(mpmath.mpf(epsilon))
        assert exact <= printed.epsilon
        assert printed.epsilon <= exact * (1 + 1e-9) or exact >= 1e307
    assert printed.vacuous == math.isinf(printed.epsilon)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [0.5, 0.15])
def test_enumerated_pure_max_information(n, p, rng):
    law = independent(n, p)
    for table in small_mechanisms(rng, n):
        epsilon = exact_epsilon(table, n)
        for beta in (0.5, 0.1, 1e-2, 1e-4):
            for method in ("sharp", "paper"):
                claim = DP(epsilon).max_information(n, beta, method=method)
                assert information_excess(law, table, claim.bits) <= beta + 1e-12


@pytest.mark.parametrize("beta", [0.5, 1e-2, 1e-6, 1e-12])
def test_many_rows_of_randomised_response_obey_the_sharp_bound(beta):
    for n, epsilon in product([100, 4000], [0.02, 0.2]):
        assert response_excess(n, epsilon, DP(epsilon).max_information(n, beta).bits) <= beta * HAIR


def test_the_enumeration_catches_sixteenths_for_eighths():
    n, epsilon, beta = 4000, 0.2, 1e-2
    claim = DP(epsilon).max_information(n, beta)
    assert response_excess(n, epsilon, claim.bits) <= beta
    sabotaged = (n * epsilon**2 / 16 + epsilon * math.sqrt(n * math.log(1 / beta) / 2)) / math.log(2)
    assert response_excess(n, epsilon, sabotaged) > beta


def test_the_enumeration_catches_a_smaller_deviation():
    n, epsilon, beta = 4000, 0.02, 1e-12
    sabotaged = (n * epsilon**2 / 8 + epsilon * math.sqrt(n * math.log(1 / beta) / 4)) / math.log(2)
    assert response_excess(n, epsilon, sabotaged) > beta
    assert response_excess(n, epsilon, DP(epsilon).max_information(n, beta).bits) <= beta


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_mutual_information_and_its_twin(epsilon):
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    one_row = math.log(2.0) + truth * math.log(truth) + (1.0 - truth) * math.log(1.0 - truth)
    assert 100 * one_row <= DP(epsilon).mutual_information(100) == BayesianDP(epsilon).mutual_information(100)
    if epsilon == 0.01:
        assert 100 * one_row > DP(epsilon).mutual_information(100) / 2


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("delta", [1e-12, 1e-8, 1e-4])
def test_enumerated_approximate_max_information(n, delta, rng):
    law = independent(n, 0.5)
    for pure in small_mechanisms(rng, n):
        table = with_leak(pure, delta)
        epsilon = exact_epsilon(pure, n)
        for beta in (0.5, 0.1, 1e-3):
            claim = DP(epsilon, delta).max_information(n, beta)
            assert information_excess(law, table, claim.bits) <= beta + 1e-12


def _clamp(ratios, weights, length):
    """Ratios with mean 1, over the last axis, clamped to [m, e^length·m] so that the mean stays 1, and the
    mass t that each side gives up: bisection for the m at which both sides give up as much."""
    low, high = np.zeros(ratios.shape[:-1]), np.ones(ratios.shape[:-1])
    for _ in range(60):
        middle = (low + high) / 2.0
        below = np.maximum(middle[..., None] - ratios, 0.0) @ weights
        above = np.maximum(ratios - math.exp(length) * middle[..., None], 0.0) @ weights
        low, high = np.where(below < above, middle, low), np.where(below < above, high, middle)
    clamped = np.clip(ratios, high[..., None], math.exp(length) * high[..., None])
    return clamped, np.maximum(high[..., None] - ratios, 0.0) @ weights


def _clamped_law(table, n, p, length):
    """The law of data and output in which every likelihood ratio of the proof is clamped, and how far the
    proof says it is from the real one."""
    row = np.array([1.0 - p, p])
    known = [table.reshape((2,) * n + (-1,))]  # P[y | x_1 … x_i], from i = n down to 0
    for _ in range(n):
        known.append(np.tensordot(known[-1], row, axes=(known[-1].ndim - 2, 0)))
    known.reverse()
    law, given_up = known[0].reshape(1, -1), 0.0
    for i in range(n):
        before, after = known[i].reshape(2**i, 1, -1), known[i + 1].reshape(2**i, 2, -1)
        # Where y is impossible given the rows before, the ratio is taken to be 1.
        ratios = np.divide(after, before, out=np.ones_like(after), where=before > 0.0)
        clamped, lost = _clamp(np.moveaxis(ratios, 1, 2), row, length)
        given_up += float(((independent(i, p) if i else np.ones(1))[:, None] * before[:, 0] * lost).sum())
        law = (law[:, None] * row[:, None] * np.moveaxis(clamped, 2, 1)).reshape(2 ** (i + 1), -1)
    return law, given_up


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("p", [0.5, 0.2])
def test_the_clamped_law_is_as_the_proof_says(n, p, rng):
    """A probability with the output's own law, within Σ E t ≤ nδ (length 2ε) or n√δ (length ε) of the real
    one."""
    pure = small_mechanisms(rng, n)
    for table in [*pure, *(with_leak(table, 0.02) for table in pure)]:
        real = independent(n, p)[:, None] * table
        for epsilon in (0.0, 0.05, 0.3, 1.0):
            delta = exact_delta(table, n, epsilon)
            for length, cost in ((2.0 * epsilon, n * delta), (epsilon, n * math.sqrt(delta))):
                law, given_up = _clamped_law(table, n, p, length)
                assert law.sum(axis=0) == pytest.approx(real.sum(axis=0), abs=1e-9)
                assert np.abs(law - real).sum() / 2.0 <= given_up + 1e-9
                assert given_up <= cost + 1e-9


def test_length_epsilon_does_not_give_up_as_little_as_length_two_epsilon():
    """The twin that takes t ≤ d for the short interval: 10 values of one row, for each output two of them
    e^ε times as likely and two e^−ε times. Every pair of values is (ε, δ)-close."""
    epsilon, values = 1.0, 10
    levels = np.ones(values)
    levels[:2], levels[2:4] = math.exp(epsilon), math.exp(-epsilon)
    levels /= levels.mean()
    # One output for each order of the values, all equally likely: a pair of values sees each pair of places.
    pairs = [(i, j) for i in range(values) for j in range(values) if i != j]
    delta = float(np.mean([max(0.0, levels[i] - math.exp(epsilon) * levels[j]) for i, j in pairs]))
    weights = np.full(values, 1.0 / values)
    _, long = _clamp(levels, weights, 2.0 * epsilon)
    _, short = _clamp(levels, weights, epsilon)
    assert long <= delta
    assert 1.2 * delta < short <= math.sqrt(delta)


@given(
    st.lists(st.floats(-6.0, 6.0), min_size=2, max_size=6),
    st.lists(st.floats(0.01, 1.0), min_size=6, max_size=6),
    st.floats(0.0, 3.0),
)
def test_what_a_clamp_gives_up_against_pairs(logs, weights, epsilon):
    """t ≤ d at length 2ε and t² ≤ d at length ε, d = E(f − e^ε f')₊ for two independent draws."""
    weights = np.array(weights[: len(logs)]) / sum(weights[: len(logs)])
    ratios = np.exp(logs) / (weights @ np.exp(logs))
    d = float(weights @ np.maximum(ratios[:, None] - math.exp(epsilon) * ratios[None, :], 0.0) @ weights)
    assert _clamp(ratios, weights, 2.0 * epsilon)[1] <= d + 1e-9
    assert _clamp(ratios, weights, epsilon)[1] ** 2 <= d + 1e-9


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("p", [0.5, 0.3])
def test_enumerated_approximate_max_information_at_any_epsilon(n, p, rng):
    law = independent(n, p)
    checked = 0
    for table in small_mechanisms(rng, n):
        for epsilon in np.linspace(0.0, exact_epsilon(table, n), 12):
            delta = exact_delta(table, n, epsilon)
            for share in (1e-6, 1e-3, 0.1, 0.5):
                for spent in (n * delta, n * math.sqrt(delta)):
                    beta = spent + share * (1.0 - spent)
                    if delta > 0.0 and 0.0 < beta < 1.0:
                        claim = DP(epsilon, delta).max_information(n, beta)
                        assert information_excess(law, table, claim.bits) <= beta + 1e-12
                        checked += 1
    assert checked > 100


def test_the_enumeration_catches_half_of_delta():
    """Each of n rows, with ten values, is printed with probability δ: the joint law is nearly nδ away."""
    n, delta, values = 3, 0.01, 10
    excess = 1.0 - (1.0 - delta) ** n  # what is printed, against a fresh row: at most 1/10 as likely
    apart = excess - sum(
        math.comb(n, k) * delta**k * (1.0 - delta) ** (n - k) * values**-k for k in range(1, n + 1)
    )
    bits = DP(0.0, delta).max_information(n, n * delta * (1.0 + 1e-9)).bits
    assert bits == 0.0
    assert n * delta / 2.0 < apart <= n * delta


def test_the_enumeration_catches_a_bound_that_forgets_delta():
    n, delta = 4, 1e-3
    table = with_leak(randomised_response(n, 0.01), delta)
    beta = delta / 2
    forgetful = DP(0.01).max_information(n, beta)
    assert information_excess(independent(n, 0.5), table, forgetful.bits) > beta
    with pytest.raises(InvalidArgument, match="beta"):
        DP(0.01, delta).max_information(n, beta)


@given(st.floats(-6.0, 0.7), st.floats(-40.0, -4.0), st.integers(1, 10**9), st.floats(-9.0, -1e-3))
def test_approximate_max_information_is_the_better_of_its_two_forms(exponent, delta_exponent, n, share):
    epsilon, delta = 10.0**exponent, 10.0**delta_exponent
    beta = n * delta + 10.0**share * (1.0 - n * delta)
    assume(n * delta < 1.0 and beta < 1.0 - 1e-9)
    with mpmath.workdps(60):
        forms = [
            n * mpmath.mpf(length) ** 2 / 8 + length * mpmath.sqrt(n * -mpmath.log(beta - spent) / 2)
            for length, spent in (
                (2 * mpmath.mpf(epsilon), n * mpmath.mpf(delta)),
                (mpmath.mpf(epsilon), n * mpmath.sqrt(mpmath.mpf(delta))),
            )
            if beta > spent
        ]
        exact = min(forms) / mpmath.log(2)
        claim = DP(epsilon, delta).max_information(n, beta).bits
        assert exact <= claim <= exact * (1 + mpmath.mpf("1e-9"))


def _explicit_constants(epsilon, delta, n, beta):
    """The form that both clamps replace, with s and d scanned over a wide grid, t solved for."""
    best = math.inf
    for s in np.geomspace(1e-12, 30.0, 400):
        b = delta * (math.exp(s) + math.exp(-epsilon)) / math.expm1(s)
        d = np.geomspace(1e-14, 0.999, 600)
        left = beta - n * b * (1 + 1 / d)
        d, left = d[left > 0], left[left > 0]
        if d.size:
            t = np.sqrt(-2 * np.log(left))
            a = epsilon + s
            best = min(best, float((n * (a * a / 2 - np.log1p(-d)) + t * a * math.sqrt(n)).min()))
    return best / math.log(2)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n", "beta", "bits", "before"),
    [
        (0.001, 1e-12, 10**6, 0.05, 4.2527, 2793),
        (0.1, 1e-12, 100, 0.01, 2.3700, 4.8),
        (0.5, 1e-6, 50, 0.1, 8.497, 19.0),
        (0.01, 1e-9, 100_000, 0.2, 15.4, 2500),
    ],
)
def test_the_clamps_are_tighter_than_what_they_replace(epsilon, delta, n, beta, bits, before):
    claim = DP(epsilon, delta).max_information(n, beta).bits
    assert claim == pytest.approx(bits, rel=1e-2)
    assert _explicit_constants(epsilon, delta, n, beta) == pytest.approx(before, rel=0.5)
    assert claim < _explicit_constants(epsilon, delta, n, beta)


@given(
    st.floats(1e-4, 1.0),
    st.floats(-30.0, -10.0),
    st.integers(1, 10**6),
    st.floats(-4.0, -0.4),
    st.floats(1.0, 3.0),
)
def test_max_information_is_monotone(epsilon, exponent, n, beta_exponent, growth):
    beta, delta = 10.0**beta_exponent, 10.0**exponent
    for small in (0.0, delta):
        base = DP(epsilon, small).max_information(n, beta).bits
        assert DP(epsilon * growth, small).max_information(n, beta).bits >= base / HAIR
        assert DP(epsilon, small).max_information(math.ceil(n * growth), beta).bits >= base / HAIR
        assert DP(epsilon, small).max_information(n, min(0.99, beta * growth)).bits <= base * HAIR
    larger = DP(epsilon, delta * growth).max_information(n, beta).bits
    assert larger >= DP(epsilon, delta).max_information(n, beta).bits / HAIR
    assert (
        DP(epsilon).max_information(n, beta).bits <= DP(epsilon).max_information(n, beta, method="paper").bits
    )
    assert DP(epsilon).max_information(n, beta).bits <= DP(epsilon, delta).max_information(n, beta).bits


def test_sis_lemma_with_the_callers_constants():
    claim = DP(0.1, 1e-12).max_information(100, 0.1, method="sis", c=2.0, C=3.0)
    root = math.sqrt(1e-12 / 0.1)
    t = math.sqrt(-2 * math.log(0.1 - 2.0 * 100 * root))
    assert claim.bits == pytest.approx(100 * 3.0 * (0.01 + root) + 6 * t * 0.1 * 10, rel=1e-12)


def _correlated_law(rng, n):
    law = rng.dirichlet(np.full(2**n, 2.0)) + 0.02
    return law / law.sum()


def _leakage(law, table, n):
    """The exact Bayesian DP of a table: every row, every set of known rows, all values."""
    rows, worst = data(n), 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for known in itertools.combinations(others, size):
                for values in itertools.product((0, 1), repeat=size):
                    fits = (
                        (rows[:, list(known)] == np.array(values)).all(axis=1)
                        if size
                        else np.ones(2**n, bool)
                    )
                    laws = []
                    for value in (0, 1):
                        chosen = fits & (rows[:, i] == value)
                        laws.append(law[chosen] @ table[chosen] / law[chosen].sum())
                    worst = max(worst, float(np.abs(np.log(laws[0] / laws[1])).max()))
    return worst


@pytest.mark.parametrize("n", [2, 3])
def test_enumerated_bayesian_max_information_under_correlation(n, rng):
    for table in small_mechanisms(rng, n):
        law = _correlated_law(rng, n)
        claim = BayesianDP(_leakage(law, table, n))
        for beta in (0.5, 0.05, 1e-3):
            for method in ("sharp", "paper"):
                bits = claim.max_information(n, beta, method=method).bits
                assert information_excess(law, table, bits) <= beta + 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_enumerated_perfect_generalisation(n, rng):
    law = independent(n, 0.4)
    for table in small_mechanisms(rng, n):
        outcomes = table.shape[1]
        simulator = law @ table
        for beta in (0.5, 0.1, 0.01):
            for method in ("sharp", "paper"):
                claim = DP(exact_epsilon(table, n)).perfect_generalization(n, beta, outcomes, method=method)
                far = law @ (1.0 - close(table, simulator[None, :], claim.epsilon, 0.0))
                assert far <= claim.beta


def test_perfect_generalisation_of_many_rows_and_its_twin():
    # Two outcomes, ln P[1 | x] = ε·(ones) − 60: as sensitive as ε-DP allows, by the number of ones.
    n, epsilon, beta = 200, 0.05, 0.05
    counts = np.exp(log_binomial(n, 0.5))
    chance = np.exp(epsilon * np.arange(n + 1) - 60.0)
    table = np.column_stack([1.0 - chance, chance])
    simulator = counts @ table
    claim = DP(epsilon).perfect_generalization(n, beta, 2)

    def far(limit):
        return counts @ (np.abs(np.log(table / simulator)).max(axis=1) > limit)

    assert far(claim.epsilon) <= beta
    assert far(claim.epsilon / 2) > beta


def test_perfect_generalisation_takes_the_smaller_form():
    paper = DP(5.0).perfect_generalization(100, 0.01, 4, method="paper")
    assert DP(5.0).perfect_generalization(100, 0.01, 4) == paper
    assert (
        DP(0.1).perfect_generalization(100, 0.01, 4).epsilon
        < 0.6 * DP(0.1).perfect_generalization(100, 0.01, 4, method="paper").epsilon
    )


def _select(rng, outputs, epsilon, threshold):
    """Private selection with truncated Laplace noise: the item, or −1."""
    items, counts = np.unique(outputs, return_counts=True)
    reach = -np.expm1(-threshold * epsilon / 2.0)
    size = -2.0 / epsilon * np.log1p(-rng.random(items.size) * reach)
    noisy = counts + np.where(rng.random(items.size) < 0.5, size, -size)
    best = int(np.argmax(noisy))
    return int(items[best]) if noisy[best] > threshold else -1


def test_algorithm_1_fails_no_more_often_than_planned(rng):
    # A good seed gives its own output except with probability η; all else is different each time.
    eta, nu = 0.1, 0.1
    plan = private_plan(1.0, 1e-3, coins=GoodCoins(eta, nu), beta=0.2)
    trials, failures = 1500, 0
    for _ in range(trials):
        outputs = []
        for seed in range(plan.seeds):
            if rng.random() < nu:
                outputs.append(rng.integers(10**6, 2 * 10**6, plan.parts))
            else:
                stray = rng.random(plan.parts) < eta
                outputs.append(np.where(stray, rng.integers(10**6, 2 * 10**6, plan.parts), seed))
        chosen = _select(rng, np.concatenate(outputs), 1.0, plan.threshold)
        failures += not 0 <= chosen < plan.seeds
    assert binomtest(failures, trials, plan.failure, alternative="greater").pvalue > 1e-6
    # Half the parts: the same simulation notices.
    too_few = plan.parts // 2
    failures = 0
    for _ in range(trials):
        outputs = np.where(rng.random(too_few) < eta, rng.integers(10**6, 2 * 10**6, too_few), 0)
        failures += _select(rng, outputs, 1.0, plan.threshold) != 0
    assert binomtest(failures, trials, plan.failure, alternative="greater").pvalue < 1e-6


def test_algorithm_1_plans():
    plan = private_plan(1.0, 1e-6)
    assert plan.failure <= 0.05
    assert plan.runs == plan.seeds * plan.parts
    assert plan.guarantee == DP(1.0, 1e-6)
    assert plan.threshold == selection_threshold(1.0, 1e-6)
    assert plan.votes > 2 * plan.threshold
    assert private_plan(0.1, 1e-6).runs > plan.runs
    assert private_plan(1.0, 1e-9).runs > plan.runs
    assert private_plan(1.0, 1e-6, beta=1e-6).runs > plan.runs
    assert private_plan(1.0, 1e-6, failure=1e-3).runs >= plan.runs
    assert private_plan(1.0, 1e-6, coins=GoodCoins(0.0, 0.0)).runs == math.floor(2 * plan.threshold) + 1
    with pytest.raises(InvalidArgument, match="failure"):
        private_plan(1.0, 1e-6, failure=0.3)
    with pytest.raises(InvalidArgument, match="coins"):
        private_plan(1.0, 1e-6, coins=GoodCoins(0.5, 0.1))


def test_selection_and_exponential_numbers():
    assert selection_threshold(1.0, 1e-6) == pytest.approx(
        2 * math.log(1 + math.expm1(0.5) / 1e-6), rel=1e-12
    )
    assert selection_threshold(599.0, 1e-300) == pytest.approx(
        2 / 599 * (299.5 + 300 * math.log(10)), rel=1e-9
    )
    assert selection_threshold(1e-9, 0.1) == pytest.approx(2e9 * math.log1p(5e-10 / 0.1), rel=1e-6)
    assert selection_threshold(5000.0, 1e-300) == pytest.approx(
        2 / 5000 * (2500 + 300 * math.log(10)), rel=1e-9
    )
    assert exponential_excess(0.5, 2.0, 100, 0.01) == pytest.approx(
        2 * 2 * (2 * math.log(100)) / 0.5, rel=1e-12
    )


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("epsilon", lambda: DP(-1.0)),
        ("epsilon", lambda: DP(math.nan)),
        ("epsilon", lambda: BayesianDP(math.inf)),
        ("delta", lambda: DP(1.0, 1.0)),
        ("delta", lambda: DP(1.0, "no")),
        ("k", lambda: DP(1.0).compose(0)),
        ("slack", lambda: DP(1.0).compose(2, method="advanced")),
        ("slack", lambda: DP(1.0, 0.5).compose(2, method="advanced")),
        ("slack", lambda: DP(1.0).compose(2, method="basic", slack=0.1)),
        ("slack", lambda: DP(1.0).compose(2, slack=1.0)),
        ("method", lambda: DP(1.0).compose(2, method="best")),
        ("size", lambda: DP(1.0).group(0)),
        ("n", lambda: DP(1.0).subsample(5, 4)),
        ("n", lambda: DP(1.0).max_information(0, 0.1)),
        ("beta", lambda: DP(1.0).max_information(10, 0.0)),
        ("beta", lambda: BayesianDP(1.0).max_information(10, 1.0)),
        ("delta", lambda: DP(1.0, 1e-6).max_information(10, 0.1, method="paper")),
        ("delta", lambda: DP(1.0, 0.1).max_information(10, 0.9)),
        ("beta", lambda: DP(1.0, 1e-4).max_information(10, 1e-3)),
        ("c", lambda: DP(0.1, 1e-12).max_information(10, 0.1, method="sis", C=1.0)),
        ("C", lambda: DP(0.1, 1e-12).max_information(10, 0.1, method="sis", c=1.0)),
        ("C", lambda: DP(0.1, 1e-12).max_information(10, 0.1, C=1.0)),
        ("epsilon", lambda: DP(0.6, 1e-12).max_information(10, 0.1, method="sis", c=1.0, C=1.0)),
        ("delta", lambda: DP(0.1, 1e-2).max_information(10, 0.1, method="sis", c=1.0, C=1.0)),
        ("beta", lambda: DP(0.1, 1e-3).max_information(10, 0.1, method="sis", c=1.0, C=1.0)),
        ("delta", lambda: DP(0.1, 1e-3).perfect_generalization(10, 0.1, 4)),
        ("outcomes", lambda: DP(0.1).perfect_generalization(10, 0.1, 0)),
        ("delta", lambda: selection_threshold(1.0, 0.0)),
        ("failure", lambda: exponential_excess(1.0, 1.0, 10, 0.0)),
    ],
)
def test_bad_arguments_are_named(argument, make):
    with pytest.raises(InvalidArgument) as refusal:
        make()
    assert refusal.value.argument == argument
