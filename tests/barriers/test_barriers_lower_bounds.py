"""Lower bounds on rows: every step of the proofs by enumeration, laws, and algorithms that meet them."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from holdfast.barriers import (
    one_way_marginals_bound,
    one_way_marginals_rows,
    sign_one_way_marginals_bound,
    sign_one_way_marginals_rows,
)
from holdfast.barriers._lower_bounds import drift, sign_priors
from holdfast.errors import InvalidArgument
from holdfast.stability import DP, PerfectGeneralization, Replicability, gaussian_delta

BOUNDS = [one_way_marginals_bound, sign_one_way_marginals_bound]
# Legendre nodes integrate polynomials in the means exactly: the enumerations below have degree at most 20.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)


def tables(rows, d):
    return np.array(list(product((-1, 1), repeat=rows * d))).reshape(-1, rows, d)


def random_algorithm(rows, d, seed, coins=3):
    """For every coin a map from tables to a handful of vectors, mostly to one of them."""
    rng = np.random.default_rng(seed)
    vectors = rng.uniform(-1.0, 1.0, size=(4, d))
    choice = np.where(rng.random((coins, 2 ** (rows * d))) < 0.8, rng.integers(0, 4, size=(coins, 1)), 0)
    choice = np.where(rng.random(choice.shape) < 0.15, rng.integers(0, 4, size=choice.shape), choice)
    return vectors, choice


def worlds(rows, d):
    """Means at the nodes with their weights, and the probability of every table under them."""
    every = tables(rows, d)
    for at in product(range(len(NODES)), repeat=d):
        means = NODES[list(at)]
        weight = float(np.prod(WEIGHTS[list(at)])) / 2**d
        yield means, weight, every, np.prod((1.0 + every * means) / 2.0, axis=(1, 2))


def two_runs(vectors, choice, rows, d):
    """For each world and coin: chances of each vector, and E[⟨rows − mean, v − p⟩; output v]."""
    for means, weight, every, chances in worlds(rows, d):
        away = (every - means).sum(axis=1)
        for coin in choice:
            chance = np.array([chances[coin == v].sum() for v in range(len(vectors))])
            lean = np.array(
                [
                    (chances[coin == v] * (away[coin == v] @ (vectors[v] - means))).sum()
                    for v in range(len(vectors))
                ]
            )
            yield means, weight / len(choice), chance, lean


@pytest.mark.parametrize(("rows", "d"), [(1, 1), (3, 1), (5, 1), (2, 2)])
def test_the_fingerprint_of_two_agreeing_runs_is_as_derived(rows, d, seed):
    """B: run twice with the same coins; the common output, or one more row if they differ."""
    for shift in range(4):
        vectors, choice = random_algorithm(rows, d, 10 * seed + shift)
        fingerprint = accuracy = 0.0
        for means, weight, chance, lean in two_runs(vectors, choice, rows, d):
            differ = 1.0 - (chance**2).sum()
            fingerprint += weight * (2.0 * chance @ lean + differ * (1.0 - means**2).sum())
            accuracy += weight * 2.0 * (chance**2 @ (vectors @ means) + differ * (means**2).sum())
        assert fingerprint == pytest.approx(accuracy, abs=1e-12)


@pytest.mark.parametrize(("rows", "d"), [(1, 1), (4, 1), (2, 2)])
def test_no_output_leans_more_than_its_probability_allows(rows, d, seed):
    vectors, choice = random_algorithm(rows, d, seed)
    for means, _, chance, lean in two_runs(vectors, choice, rows, d):
        for v, p, e in zip(vectors, chance, lean, strict=True):
            rare = min(p, 1.0 - p)
            allowed = drift(rare) if rare > 1e-15 else 0.0
            assert e <= math.sqrt(rows) * float(np.linalg.norm(v - means)) * allowed + 1e-12


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 1e-4])
def test_the_drift_is_nearly_attained_and_four_fifths_of_it_are_broken(share):
    """The mean of 4000 fair signs, and the event that it is among the largest: exact binomial sums."""
    n = 4000
    mass = np.exp(
        special.gammaln(n + 1)
        - special.gammaln(np.arange(n + 1) + 1)
        - special.gammaln(n - np.arange(n + 1) + 1)
        - n * math.log(2.0)
    )
    first = int(np.argmax(np.cumsum(mass[::-1]) >= share))
    event = slice(n - first, n + 1)
    probability = float(mass[event].sum())
    lean = float((mass[event] * (2.0 * np.arange(n + 1)[event] - n)).sum()) / math.sqrt(n)
    assert lean <= drift(min(probability, 1.0 - probability))
    assert lean > (0.65 if share == 0.5 else 0.8) * drift(min(probability, 1.0 - probability))


def test_the_drift_is_concave_so_that_averages_obey_it():
    x = np.linspace(1e-4, 1.0 - 1e-4, 4001)
    values = np.array([drift(min(p, 1.0 - p)) for p in x])
    assert (np.diff(values, 2) <= 1e-12).all()


def test_moments_of_the_fresh_statistic():
    """1.3 = E(1+|p|)²(1−p²), 7/3 = E(1+|p|)², 11/12 = E(1+|p|)(1−p²), π/4 + 1/3 = E(1+|p|)√(1−p²)."""
    p = (np.arange(2_000_000) + 0.5) / 2_000_000
    assert np.mean((1 + p) ** 2 * (1 - p**2)) == pytest.approx(1.3, abs=1e-9)
    assert np.mean((1 + p) ** 2) == pytest.approx(7.0 / 3.0, abs=1e-9)
    assert np.mean((1 + p) * (1 - p**2)) == pytest.approx(11.0 / 12.0, abs=1e-9)
    assert np.mean((1 + p) * np.sqrt(1 - p**2)) == pytest.approx(math.pi / 4 + 1 / 3, abs=1e-8)


def test_moments_of_the_priors_are_upper_bounds_and_close():
    for prior in sign_priors(0.05):
        u = (np.arange(100_000) + 0.5) / 100_000
        inside, outside = 1 - u * u, 1 - (prior.reach * u) ** 2
        exact = {
            "spread": prior.reach * math.sqrt(np.mean((inside / outside) ** 2)),
            "variance": np.mean(inside**2 / outside),
            "length": np.mean(inside / np.sqrt(outside)),
            "mean_weight": np.mean(inside / outside),
        }
        for name, value in exact.items():
            assert value - 1e-9 <= getattr(prior, name) <= value * 1.001


@pytest.mark.parametrize("reach", [1.0, 0.5, 0.1])
def test_the_weighted_identity_holds_on_every_range(reach, seed):
    """E[w(p) f(x) Σ(x − p)] = 2E[p f(x)] for p uniform on [−a, a], w = (a² − p²)/(1 − p²)."""
    rng = np.random.default_rng(seed)
    rows = 4
    f = rng.uniform(-1.0, 1.0, size=2**rows)
    every = tables(rows, 1)[:, :, 0]
    left = right = 0.0
    for node, weight in zip(NODES * reach, WEIGHTS / 2.0, strict=True):
        chances = np.prod((1.0 + every * node) / 2.0, axis=1)
        w = (reach**2 - node**2) / (1.0 - node**2)
        left += weight * w * float((chances * f * (every - node).sum(axis=1)).sum())
        right += weight * 2.0 * node * float((chances * f).sum())
    assert left == pytest.approx(right, abs=1e-12)


def exact_rounding(n, width, alpha):
    """Worst mismatch and worst inaccuracy over means, for the mean of n signs rounded to a shared grid."""
    k = np.arange(n + 1)
    values = 2.0 * k / n - 1.0
    apart = np.minimum(1.0, np.abs(values[:, None] - values[None, :]) / width)
    worst_mismatch = worst_miss = 0.0
    for p in np.linspace(-1.0, 1.0, 41):
        q = (1.0 + p) / 2.0
        mass = special.bdtr(k, n, q) - np.where(k > 0, special.bdtr(np.maximum(k - 1, 0), n, q), 0.0)
        worst_mismatch = max(worst_mismatch, float(mass @ apart @ mass))
        # Error = (value − p) + uniform on ±width/2.
        centre = values - p
        hit = np.minimum(centre + width / 2, alpha) - np.maximum(centre - width / 2, -alpha)
        worst_miss = max(worst_miss, 1.0 - float(mass @ np.clip(hit / width, 0.0, 1.0)))
    return worst_mismatch, worst_miss


@pytest.mark.parametrize(("n", "width", "alpha"), [(400, 0.3, 0.25), (2000, 0.15, 0.1), (1500, 0.1, 0.1)])
def test_one_column_the_bound_is_below_what_rounding_needs_and_not_far(n, width, alpha):
    rho, beta = exact_rounding(n, width, alpha)
    bound = one_way_marginals_bound(1, accuracy=alpha, beta=beta, stability=Replicability(rho))
    assert n / 150 < bound <= n


@given(
    st.integers(1, 5000),
    st.floats(0.02, 0.4),
    st.floats(1e-4, 0.1),
    st.floats(0.01, 0.5),
    st.sampled_from(["rounding", "droplets"]),
)
def test_no_algorithm_of_ours_reads_fewer_rows_than_the_bound(d, accuracy, beta, strength, method):
    promise = {"accuracy": accuracy, "beta": beta}
    for stability in (Replicability(strength), DP(2 * strength, 1e-6)):
        for rows, bound in (
            (one_way_marginals_rows, one_way_marginals_bound),
            (sign_one_way_marginals_rows, sign_one_way_marginals_bound),
        ):
            assert bound(d, stability=stability, **promise) <= rows(
                d, stability=stability, method=method, **promise
            )


def test_a_perfectly_generalising_algorithm_reads_more_rows_than_the_bound():
    """Gaussian noise of sd s: except with probability b, ‖mean − p‖ ≤ r: the simulator N(p, s²) is close."""
    d, alpha, beta, b = 2000, 0.2, 0.01, 1e-9
    bounds = []
    for n in (10**6, 10**7, 10**8):
        sd = math.sqrt(alpha**2 / (2.0 * math.log(2 * d / beta)) - 1.0 / n)
        radius = math.sqrt(d / n) + math.sqrt(2.0 * math.log(1.0 / b) / n)
        stability = PerfectGeneralization(b, 1.0, gaussian_delta(1.0, radius / sd))
        bounds.append(one_way_marginals_bound(d, accuracy=alpha, beta=beta, stability=stability))
        assert bounds[-1] <= n
    assert bounds[-1] > d


def test_perfect_generalisation_of_any_kind_needs_rows_in_proportion_to_columns():
    for kind, least in (("two-way", 5.0), ("sample", 10.0), ("one-way", 0.2)):
        for d in (100, 10**4):
            n = one_way_marginals_bound(
                d, accuracy=0.01, beta=0.01, stability=PerfectGeneralization(1e-9, 1.0, 1e-9, kind=kind)
            )
            assert n >= least * d


@given(
    st.integers(1, 10**6),
    st.floats(0.01, 0.45),
    st.floats(0.0, 0.2),
    st.floats(1e-4, 0.5),
    st.sampled_from(BOUNDS),
)
def test_laws(d, accuracy, beta, strength, bound):
    """More columns need more rows; a weaker promise needs no more."""
    for stability, weaker in (
        (Replicability(strength), Replicability(min(1.0, 1.2 * strength))),
        (DP(strength, 1e-9), DP(1.2 * strength, 1e-8)),
        (PerfectGeneralization(1e-9, strength, 1e-9), PerfectGeneralization(1e-8, 1.2 * strength, 1e-8)),
    ):
        rows = bound(d, accuracy=accuracy, beta=beta, stability=stability)
        assert bound(2 * d, accuracy=accuracy, beta=beta, stability=stability) >= rows
        assert bound(d, accuracy=accuracy, beta=beta, stability=weaker) <= rows
        assert bound(d, accuracy=min(1.0, 1.1 * accuracy), beta=beta, stability=stability) <= rows
        assert bound(d, accuracy=accuracy, beta=beta + 0.01, stability=stability) <= rows


def test_growth_is_linear_for_replicability_and_by_the_root_for_privacy():
    for bound in BOUNDS:
        replicable = [
            bound(d, accuracy=0.1, beta=0.01, stability=Replicability(0.01)) for d in (10**4, 4 * 10**4)
        ]
        private = [bound(d, accuracy=0.1, beta=0.01, stability=DP(0.1, 0.0)) for d in (10**4, 4 * 10**4)]
        assert replicable[1] / replicable[0] == pytest.approx(4.0, rel=1e-3)
        assert private[1] / private[0] == pytest.approx(2.0, rel=1e-2)


def test_accuracy_and_rho_enter_as_for_one_replicable_mean():
    """d/(α²ρ² ln(1/ρ)) up to a constant, as small as α and ρ may be."""
    for bound, beta in ((one_way_marginals_bound, 0.0), (sign_one_way_marginals_bound, 0.0)):
        scaled = [
            bound(100, accuracy=a, beta=beta, stability=Replicability(r))
            * (a * r) ** 2
            * math.log(1 / r)
            / 100
            for a in (0.01, 0.001)
            for r in (0.01, 0.001)
        ]
        assert max(scaled) / min(scaled) < 1.2


def test_the_printed_chain_is_solved_exactly():
    """c·d ≤ 2e^{2}√(dn) + 2dn(β + δ) of the sample form, the smallest n."""
    d, stability = 10**7, PerfectGeneralization(1e-9, 1.0, 1e-9)
    sample = stability.sample()
    for bound, c in ((one_way_marginals_bound, 0.1), (sign_one_way_marginals_bound, 0.35)):
        n = bound(d, accuracy=0.01, beta=0.01, stability=stability, method="paper")

        def allowed(rows, d=d, sample=sample):
            both = 2 * math.exp(sample.epsilon) * math.sqrt(d * rows)
            return both + 2 * d * rows * (sample.beta + sample.delta)

        assert allowed(n) >= c * d > allowed(n - 1)


def test_sis_12_prints_eight_where_lemma_3_5_gives_more():
    """With (1/m³, 1, 1/m³) the slack of (12) is 2(3 + e)d/m² = 11.4d/m²; printed: 8d/m²."""
    m = 50.0
    sample = PerfectGeneralization(m**-3, 1.0, m**-3).sample()
    slack = 2.0 * m * (sample.beta + sample.delta) * m**2
    assert slack == pytest.approx(2.0 * (3.0 + math.e), rel=1e-4)
    assert slack > 8.0


def test_the_papers_route_for_replicable_algorithms_is_valid_and_far_weaker():
    for bound, accuracy, beta, rho in (
        (one_way_marginals_bound, 0.01, 0.001, 1e-4),
        (sign_one_way_marginals_bound, 0.02, 0.002, 5e-4),
    ):
        paper = bound(10**12, accuracy=accuracy, beta=beta, stability=Replicability(rho), method="paper")
        sharp = bound(10**12, accuracy=accuracy, beta=beta, stability=Replicability(rho))
        assert 10**3 < paper < sharp / 10**6


@pytest.mark.parametrize("bound", BOUNDS)
def test_where_nothing_is_proved_the_bound_is_zero(bound):
    assert bound(100, accuracy=0.9, beta=0.9, stability=Replicability(0.9)) == 0
    assert bound(100, accuracy=0.9, beta=0.9, stability=DP(1.0, 1e-6)) == 0


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("d", {"d": 0}),
        ("accuracy", {"accuracy": float("nan")}),
        ("beta", {"beta": -0.1}),
        ("rho", {"stability": Replicability(0.0)}),
        ("stability", {"stability": 0.1}),
        ("stability", {"stability": DP(0.0)}),
        ("stability", {"stability": DP(1.0), "method": "paper"}),
        ("accuracy", {"accuracy": 0.3, "method": "paper", "stability": PerfectGeneralization(0, 1, 0)}),
        ("method", {"method": "best"}),
    ],
)
def test_bad_arguments(bound, argument, changed):
    arguments = {"d": 10, "accuracy": 0.01, "beta": 0.01, "stability": Replicability(0.1)}
    with pytest.raises(InvalidArgument) as caught:
        bound(**{**arguments, **changed})
    assert caught.value.argument == argument


def test_theorem_5_5_needs_no_logarithm_of_d_and_no_constant_from_three_rows_on():
    """(1/m³, 1, 1/m³) with m rows: refuted for every m from 3 to d, without "assume m is at least log d"."""
    d = 10**6
    for m in (3, 4, 10, 100, 10**4, 10**6):
        stability = PerfectGeneralization(m**-3.0, 1.0, m**-3.0)
        assert one_way_marginals_bound(d, accuracy=0.01, beta=0.01, stability=stability) > m
    two = PerfectGeneralization(0.125, 1.0, 0.125)
    assert one_way_marginals_bound(d, accuracy=0.01, beta=0.01, stability=two) <= 2
