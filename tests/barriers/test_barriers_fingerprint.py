"""The fingerprinting lemma as an exact identity, the measured statistics beside it, and tracing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.barriers import exact_fingerprint, fingerprint
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import widest_ratio

SIZES = [(1, 1), (2, 1), (5, 1), (1, 3), (2, 2), (3, 2), (2, 3)]


def lookup(rows, d, seed):
    """A deterministic estimator that is nothing but random fractions, one vector for each table."""
    rng = np.random.default_rng(seed)
    outputs = rng.integers(-40, 41, size=(2 ** (rows * d), d))
    powers = 2 ** np.arange(rows * d)

    def estimator(sample):
        return [Fraction(int(value), 32) for value in outputs[int(((sample.ravel() + 1) // 2) @ powers)]]

    return estimator


def column_means(sample):
    return [Fraction(int(total), len(sample)) for total in sample.sum(axis=0)]


@pytest.mark.parametrize(("rows", "d"), SIZES)
def test_the_lemma_is_an_identity_for_any_estimator(rows, d, seed):
    for shift in range(10):
        found = exact_fingerprint(lookup(rows, d, 100 * seed + shift), rows=rows, d=d)
        assert found.correlation == found.expected
        assert found.correlation == Fraction(d, 3) + found.size - found.error


def test_sis_theorem_5_11_drops_the_factor_two_of_its_own_lemma(seed):
    """Printed: E[A p] = E[A Σ(x − p)]. By enumeration the right side is twice the left."""
    found = exact_fingerprint(column_means, rows=4, d=1)
    mean_product = found.expected / 2
    assert mean_product == Fraction(1, 3)
    assert found.correlation == 2 * mean_product


@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_sis_lemma_5_4_holds_with_two_thirds_and_the_mean_attains_it(rows, seed):
    mean = exact_fingerprint(column_means, rows=rows, d=1)
    assert mean.correlation + 2 * mean.distance == Fraction(2, 3)
    for shift in range(20):
        other = exact_fingerprint(lookup(rows, 1, 1000 * seed + shift), rows=rows, d=1)
        assert other.correlation + 2 * other.distance >= Fraction(2, 3)


@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_the_weight_of_the_distance_cannot_be_smaller_than_2n_over_n_plus_2(rows):
    """With that weight the mean is still the best; with a hundredth less, 0 for a pure column wins."""

    def careless(sample):
        return [m if abs(m) < 1 else Fraction(0) for m in column_means(sample)]

    least = Fraction(2 * rows, rows + 2)
    found = exact_fingerprint(careless, rows=rows, d=1)
    assert found.correlation + least * found.distance == Fraction(2, 3)
    assert found.correlation + (least - Fraction(1, 100)) * found.distance < Fraction(2, 3)


def test_the_printed_fresh_statistic_of_the_sketch_has_the_law_of_z():
    """SIS 5.1.1 prints Z' = Σ A(S') Σ (S' − p): fresh rows in both places, so its mean is not 0 but E Z."""
    both_fresh = exact_fingerprint(column_means, rows=3, d=2).correlation
    assert both_fresh == Fraction(4, 3)


@pytest.mark.parametrize(
    "estimator",
    [
        lambda s: s.mean(axis=1),
        lambda s: np.sign(s.sum(axis=1) + 0.5),
        lambda s: s[:, 0, :],
        lambda s: np.zeros((s.shape[0], s.shape[2])),
    ],
    ids=["means", "signs", "first row", "nothing"],
)
def test_measured_statistics_meet_the_exact_ones(estimator, seed):
    rows, d = 4, 3
    exact = exact_fingerprint(lambda s: estimator(s[None].astype(float))[0], rows=rows, d=d)
    found = fingerprint(estimator, rows=rows, d=d, trials=20_000, seed=seed, batch=True)
    for name, value in (("correlation", exact.correlation), ("fresh", 0), ("identity", 0)):
        low, high = found.interval(0.99999, of=name)
        assert low <= value <= high
    spread = float(exact.fresh_variance) ** 0.5
    assert found.fresh_statistic.std() == pytest.approx(spread, rel=0.06, abs=1e-12)
    assert found.error == pytest.approx(float(exact.error), rel=0.03)
    assert found.size == pytest.approx(float(exact.size), rel=0.03)


def test_an_estimator_that_looks_at_the_means_is_caught_by_the_identity(seed):
    """The twin breaks the assumption: it returns the means of its own trial, which lean towards no row."""
    means = np.random.default_rng(seed).uniform(-1.0, 1.0, size=(2000, 5))
    cheat = fingerprint(lambda s: means, rows=6, d=5, trials=2000, seed=seed, batch=True)
    low, high = cheat.interval(0.9999, of="identity")
    assert not low <= 0.0 <= high


def test_one_sample_at_a_time_is_the_same_statistic(seed):
    found = fingerprint(lambda s: s.mean(axis=0), rows=10, d=30, trials=1000, seed=seed)
    low, high = found.interval(0.9999)
    assert low <= 20.0 <= high


def noisy_means(sd, seed):
    rng = np.random.default_rng(seed + 1)
    return lambda s: np.clip(s.mean(axis=0) + sd * rng.standard_normal(s.shape[1]), -1.0, 1.0)


def test_noise_that_is_too_small_is_traced_and_enough_noise_is_not(seed):
    rows, d, epsilon, delta = 64, 1024, 1.0, 1e-5
    enough = 2.0 * np.sqrt(d) / (rows * widest_ratio(epsilon, delta))
    honest = fingerprint(noisy_means(enough, seed), rows=rows, d=d, trials=600, seed=seed)
    twin = fingerprint(noisy_means(enough / 25.0, seed), rows=rows, d=d, trials=600, seed=seed)
    assert honest.traced(delta, confidence=0.9999) <= epsilon
    assert twin.traced(delta, confidence=0.9999) > epsilon


def test_the_column_means_are_traced_when_columns_outnumber_rows(seed):
    plain = fingerprint(lambda s: s.mean(axis=1), rows=20, d=400, trials=1000, seed=seed, batch=True)
    few = fingerprint(lambda s: s.mean(axis=1), rows=400, d=2, trials=1000, seed=seed, batch=True)
    assert plain.traced(confidence=0.9999) > 2.0
    assert few.traced(confidence=0.9999) < 1.0


def test_a_score_without_information_traces_nothing(seed):
    rng = np.random.default_rng(seed)
    blind = fingerprint(
        lambda s: rng.uniform(-1, 1, size=(s.shape[0], s.shape[2])),
        rows=5,
        d=40,
        trials=2000,
        seed=seed,
        batch=True,
    )
    assert blind.traced(confidence=0.999) == 0.0


@given(st.integers(1, 4), st.integers(1, 2), st.integers(0, 10**6))
def test_the_exact_identity_over_random_tables(rows, d, seed):
    found = exact_fingerprint(lookup(rows, d, seed), rows=rows, d=d)
    assert found.correlation == Fraction(d, 3) + found.size - found.error


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("rows", {"rows": 0}),
        ("d", {"d": 2.5}),
        ("trials", {"trials": 1}),
        ("seed", {"seed": -1}),
        ("estimator", {"estimator": lambda s: [0.0]}),
        ("estimator", {"estimator": lambda s: [float("nan")] * 3}),
    ],
)
def test_bad_arguments(argument, changed):
    given_arguments = {"estimator": lambda s: s.mean(axis=0), "rows": 4, "d": 3, "trials": 10, "seed": 0}
    with pytest.raises(InvalidArgument) as caught:
        fingerprint(**{**given_arguments, **changed})
    assert caught.value.argument == argument


def test_too_many_tables_are_refused():
    with pytest.raises(InvalidArgument, match="'d'"):
        exact_fingerprint(column_means, rows=7, d=3)
