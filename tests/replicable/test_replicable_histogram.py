"""Shares of categories: cell by cell, exact where it can be, then ten thousand pairs of fresh samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, histogram, sample_size
from holdfast.replicable._histogram import (
    CELLS,
    _design,
    _failure,
    _rounding,
    _sums_of_uniforms,
    error_tail,
    round_shares,
)
from limits import PAIRS, lower_limit, upper_limit

PROMISE = {"accuracy": 0.1, "rho": 0.1, "beta": 0.05}


def _law_of_difference(first: float, second: float, rows: int) -> np.ndarray:
    """The law of X_i − X_j − (X'_i − X'_j) for two multinomial samples, on −2n … 2n, by convolution."""
    rest = 1.0 - first - second
    step = np.convolve([second, rest, first], [first, rest, second])
    law = np.ones(1)
    for _ in range(rows):
        law = np.convolve(law, step)
    return law


@pytest.mark.parametrize(
    "shares", [(0.5, 0.5), (0.25, 0.25), (0.5, 0.0), (0.01, 0.02), (0.9, 0.05), (0.7, 0.3)]
)
def test_two_categories_differ_by_at_most_the_lemma(shares):
    for rows in [1, 2, 7, 40]:
        first, second = shares
        law = _law_of_difference(first, second, rows)
        measured = float(law @ np.abs(np.arange(law.size) - 2 * rows))
        variance = 2.0 * (first + second - (first - second) ** 2)
        assert float(law @ (np.arange(law.size) - 2.0 * rows) ** 2) == pytest.approx(rows * variance)
        assert measured <= math.sqrt(2.0 * variance * (rows + 1.0 / math.pi) / math.pi)
        if variance * rows > 10.0:
            assert measured > 0.95 * math.sqrt(2.0 * variance * rows / math.pi), "five percent less is caught"


@given(st.lists(st.floats(0.001, 1.0), min_size=2, max_size=40))
def test_variances_of_all_pairs_sum_to_at_most_the_bound(weights):
    shares, k = np.array(weights) / sum(weights), len(weights)
    pairs = [2.0 * (p + q - (p - q) ** 2) for i, p in enumerate(shares) for q in shares[:i]]
    assert sum(pairs) <= 2.0 * (k - 1.0) + 1e-9
    assert sum(map(math.sqrt, pairs)) <= (k - 1.0) * math.sqrt(k) + 1e-9


def test_two_points_part_with_the_probability_that_the_facets_say(rng):
    """Σ_{i<j} |δ_i − δ_j|/(k·width) for a small δ: the expected number of facets between the two points."""
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    moved = shares + np.array([0.004, -0.001, -0.001, -0.002])
    coins = rng.uniform(size=(50_000, 3))
    differ = int((round_shares(shares, 0.05, coins) != round_shares(moved, 0.05, coins)).any(axis=1).sum())
    delta = moved - shares
    expected = sum(abs(a - b) for i, a in enumerate(delta) for b in delta[:i]) / (4 * 0.05)
    assert lower_limit(differ, 50_000) <= expected
    assert upper_limit(differ, 50_000) >= 0.9 * expected


@given(st.integers(2, 6), st.integers(0, 10**6))
def test_the_nearest_point_is_the_nearest_and_its_error_is_bounded(categories, seed):
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(categories, 50.0)) * 0.5 + 0.5 / categories
    coins, width = generator.uniform(size=categories - 1), 0.02
    rounded = round_shares(shares, width, coins)
    error = (rounded - shares) / width
    assert np.ptp(error) <= 1.0 + 1e-9, (
        "closer than any neighbour: every two errors differ by at most one step"
    )
    residue = shares[:-1] / width - coins
    residue -= np.rint(residue)
    bound = max(np.maximum(residue, 0.0).sum(), np.maximum(-residue, 0.0).sum())
    assert np.abs(error).sum() / 2.0 <= bound + 1e-9


@pytest.mark.parametrize("categories", [3, 4, 9, 30])
def test_the_law_of_the_rounding_error_is_above_the_true_one_and_close(categories, rng):
    tail = error_tail(categories)
    shares = np.full(categories, 1.0 / categories)
    errors = round_shares(shares, 0.01 / categories, rng.uniform(size=(40_000, categories - 1))) - shares
    distances = 0.5 * np.abs(errors).sum(axis=1) * categories / 0.01
    for share in (0.45, 0.5, 0.55, 0.6, 0.7):
        limit = share * categories / 4.0
        hits = int((distances > limit).sum())
        bound = tail[int(share * CELLS)]
        assert lower_limit(hits, 40_000, 0.99999) <= bound
        nearby = int((distances > 0.97 * limit).sum())
        assert bound <= 1.1 * upper_limit(nearby, 40_000, 0.99999)


def test_sums_of_uniforms_are_exact():
    laws = _sums_of_uniforms(5, 8)
    assert laws[2][8] == pytest.approx(0.5)
    assert laws[3][8] == pytest.approx(1 / 6)
    assert laws[5][16] == pytest.approx((32 - 5) / 120)
    for law in laws[1:]:
        np.testing.assert_allclose(law + law[::-1], 1.0, atol=1e-14)


def test_many_categories_use_a_simpler_law_that_is_above_the_exact_one(rng):
    distances, tail = _rounding(200)
    assert distances.size == tail.size
    errors = rng.uniform(size=(20_000, 200))
    errors[:, 0] = 0.0
    exact = 0.5 * np.abs(errors - errors.mean(axis=1, keepdims=True)).sum(axis=1)
    for limit in (25.0, 27.0):
        assert lower_limit(int((exact > limit).sum()), 20_000) <= np.interp(limit, distances, tail)
    uniforms = rng.uniform(-0.5, 0.5, (20_000, 199))
    worst = np.maximum(np.maximum(uniforms, 0.0).sum(axis=1), np.maximum(-uniforms, 0.0).sum(axis=1))
    for limit in (27.0, 29.0):
        assert lower_limit(int((worst > limit).sum()), 20_000) <= np.interp(limit, distances, tail)


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=12), st.floats(0.01, 0.3), st.integers(0, 10**6))
def test_rounded_shares_are_shares_and_no_farther_than_the_rounding(weights, width, seed):
    shares = (np.array(weights) + 1e-3) / (sum(weights) + 1e-3 * len(weights))
    coins = np.random.default_rng(seed).uniform(size=shares.size - 1)
    rounded = round_shares(shares, width, coins)
    assert rounded.min() >= 0.0
    assert math.fsum(rounded) == pytest.approx(1.0, abs=1e-12)
    residue = shares[:-1] / width - coins
    residue -= np.rint(residue)
    bound = max(np.maximum(residue, 0.0).sum(), np.maximum(-residue, 0.0).sum())
    assert np.abs(rounded - shares).sum() / 2.0 <= width * bound + 1e-9


def _laws(categories: int, width: float) -> dict[str, np.ndarray]:
    even = np.full(categories, 1.0 / categories)  # the law at which the bound is attained
    never = np.append(np.full(categories - 1, 1.0 / (categories - 1)), 0.0)
    skewed = np.append(0.9, np.full(categories - 1, 0.1 / (categories - 1)))
    boundary = np.full(categories, width / 2.0)
    boundary[-1] = 1.0 - boundary[:-1].sum()
    return {"even": even, "one never": never, "skewed": skewed, "boundary": boundary}


@pytest.mark.parametrize(
    ("categories", "accuracy", "rho", "beta"), [(2, 0.05, 0.1, 0.01), (5, 0.1, 0.1, 0.05)]
)
@pytest.mark.parametrize("law", ["even", "one never", "skewed", "boundary"])
def test_ten_thousand_pairs_at_the_smallest_size(categories, accuracy, rho, beta, law, rng):
    design = _design(categories, accuracy, rho, beta)
    truth = _laws(categories, design.width)[law]
    coins = rng.uniform(size=(PAIRS, categories - 1))
    first, second = (
        round_shares(rng.multinomial(design.rows, truth, PAIRS) / design.rows, design.width, coins)
        for _ in range(2)
    )
    differ = int((first != second).any(axis=1).sum())
    assert lower_limit(differ, PAIRS) <= rho
    if law in ("skewed", "boundary"):
        assert upper_limit(differ, PAIRS) <= rho
    far = int((0.5 * np.abs(first - truth).sum(axis=1) > accuracy).sum())
    assert lower_limit(far, PAIRS) <= beta
    if law == "one never" and categories == 2:
        return  # a law without chance: everybody agrees
    private = round_shares(
        rng.multinomial(design.rows, truth, PAIRS) / design.rows, design.width, rng.uniform(size=coins.shape)
    )
    assert lower_limit(int((first != private).any(axis=1).sum()), PAIRS) > rho


def test_half_the_rows_are_caught(rng):
    design = _design(5, 0.1, 0.1, 0.05)
    truth, rows = _laws(5, design.width)["even"], design.rows // 2
    coins = rng.uniform(size=(PAIRS, 4))
    first, second = (
        round_shares(rng.multinomial(rows, truth, PAIRS) / rows, design.width, coins) for _ in range(2)
    )
    assert lower_limit(int((first != second).any(axis=1).sum()), PAIRS) > 0.1


def test_samples_of_different_sizes_agree_too(rng):
    design = _design(5, 0.1, 0.1, 0.05)
    truth = _laws(5, design.width)["even"]
    coins = rng.uniform(size=(PAIRS, 4))
    first, second = (
        round_shares(rng.multinomial(rows, truth, PAIRS) / rows, design.width, coins)
        for rows in (design.rows, 7 * design.rows)
    )
    assert upper_limit(int((first != second).any(axis=1).sum()), PAIRS) <= 0.1


def test_the_function_does_what_the_simulation_does(rng):
    promise = {"accuracy": 0.2, "rho": 0.3, "beta": 0.2}
    rows = sample_size("histogram", categories=["a", "b", "c"], **promise)
    draw = [rng.choice(["a", "b", "c"], size=rows, p=[0.5, 0.3, 0.2]) for _ in range(400)]
    results = [
        [histogram(x, ["a", "b", "c"], tape=Tape(f"pair {i // 2}"), **promise) for x in draw[i : i + 2]]
        for i in range(0, 400, 2)
    ]
    differ = sum(first != second for first, second in results)
    assert lower_limit(differ, 200) <= 0.3
    first = results[0][0]
    assert (first.rows, first.guarantee.rho, first.accuracy, first.beta) == (rows, 0.3, 0.2, 0.2)
    assert first.details["categories"] == ("a", "b", "c")


def test_sizes():
    assert sample_size("histogram", categories=2, accuracy=0.05, rho=0.1, beta=0.01) == 5_856
    sizes = [sample_size("histogram", categories=k, **PROMISE) for k in (3, 4, 10, 20)]
    assert sizes == [4_822, 11_784, 162_074, 1_166_449]


@given(st.floats(0.02, 0.4), st.floats(0.02, 0.4), st.floats(0.01, 0.4), st.integers(2, 12))
def test_a_weaker_promise_never_needs_more_rows(accuracy, rho, beta, categories):
    rows = sample_size("histogram", categories=categories, accuracy=accuracy, rho=rho, beta=beta)
    weaker = {"accuracy": 1.1 * accuracy, "rho": 1.1 * rho, "beta": 1.1 * beta}
    for name, value in weaker.items():
        promise = {"accuracy": accuracy, "rho": rho, "beta": beta, name: value}
        assert sample_size("histogram", categories=categories, **promise) <= rows
    design = _design(categories, accuracy, rho, beta)
    assert _failure(design.rows, categories, design.width, accuracy) <= beta


def test_too_few_rows_and_best_effort():
    items = ["a"] * 500 + ["b"] * 500
    with pytest.raises(NotEnoughRows) as caught:
        histogram(items, ["a", "b"], tape=Tape("t"), **PROMISE)
    assert (caught.value.needed, caught.value.got) == (
        sample_size("histogram", categories=2, **PROMISE),
        1000,
    )
    weaker = histogram(items, ["a", "b"], tape=Tape("t"), best_effort=True, **PROMISE)
    assert 0.1 < weaker.guarantee.rho < 0.2
    assert weaker.rows == 1000
    none = histogram(items[:1], ["a", "b"], tape=Tape("t"), best_effort=True, **PROMISE)
    assert (none.guarantee.rho, none.beta) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("argument", "items", "categories", "change"),
    [
        ("items", ["a", "c"], ["a", "b"], {}),
        ("items", None, ["a", "b"], {}),
        ("items", [["a"], ["b"]], ["a", "b"], {}),
        ("items", [math.nan], [0.0, 1.0], {}),
        ("categories", ["a", "b"], ["a"], {}),
        ("categories", ["a", "b"], ["a", "a"], {}),
        ("categories", ["a", "b"], 5.5, {}),
        ("accuracy", ["a", "b"], ["a", "b"], {"accuracy": math.nan}),
        ("rho", ["a", "b"], ["a", "b"], {"rho": 0.0}),
        ("beta", ["a", "b"], ["a", "b"], {"beta": 1.0}),
        ("tape", ["a", "b"], ["a", "b"], {"tape": "study-7"}),
    ],
)
def test_bad_arguments(argument, items, categories, change):
    with pytest.raises(InvalidArgument) as refused:
        histogram(items, categories, **{"tape": Tape("t"), "best_effort": True, **PROMISE, **change})
    assert refused.value.argument == argument
