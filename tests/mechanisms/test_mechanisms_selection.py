"""Selection of a frequent item: privacy by enumeration, accuracy with certainty."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mechanisms_oracles import LEVEL, power, rounded_law
from scipy import stats

from contracts.examples import thinned
from enumeration import hockey_stick
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import _selection, select_mode
from holdfast.mechanisms._coins import Coins
from holdfast.mechanisms._selection import noise_steps, truncated_noise
from holdfast.stability import selection_threshold

UNIVERSE = 3


def noise_law(scale: int, bound: int) -> np.ndarray:
    """P(K = k), k = −bound … bound, for rounded Laplace noise conditioned on staying within the bound."""
    law = rounded_law(scale, bound + 1, "laplace")[1:-1]
    return law / law.sum()


def output_law(counts: tuple[int, ...], steps: int, scale: int, bound: int) -> np.ndarray:
    """P(item 0), …, P(nothing), by going through all noisy counts; ties are split evenly."""
    noise = noise_law(scale, bound)
    values = [steps * c + np.arange(-bound, bound + 1) for c in counts if c > 0]
    names = [i for i, c in enumerate(counts) if c > 0]
    grids = np.meshgrid(*values, indexing="ij")
    weight = np.ones(grids[0].shape)
    for axis in range(len(names)):
        weight = weight * noise.reshape([-1 if a == axis else 1 for a in range(len(names))])
    largest = np.max(grids, axis=0)
    winners = [(g == largest) & (largest > bound) for g in grids]
    tied = np.maximum(np.sum(winners, axis=0), 1)
    law = np.zeros(UNIVERSE + 1)
    for name, won in zip(names, winners, strict=True):
        law[name] = (weight * won / tied).sum()
    law[-1] = (weight * (largest <= bound)).sum()
    return law


def worst_delta(epsilon: float, rows: int, steps: int, scale: int, bound: int) -> float:
    """The least δ for which selection is (ε, δ)-DP on ``rows`` items when one is replaced."""
    tables = {
        counts: output_law(counts, steps, scale, bound)
        for counts in itertools.product(range(rows + 1), repeat=UNIVERSE)
        if sum(counts) == rows
    }
    worst = 0.0
    for counts, law in tables.items():
        for lost, gained in itertools.permutations(range(UNIVERSE), 2):
            if counts[lost] > 0:
                other = list(counts)
                other[lost] -= 1
                other[gained] += 1
                worst = max(worst, hockey_stick(law, tables[tuple(other)], epsilon))
    return worst


CASES = [(2.0, 0.1), (1.5, 0.02), (4.0, 0.3)]


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_selection_is_private_by_enumeration(epsilon, delta, steps):
    scale, bound = noise_steps(epsilon, delta, steps)
    for rows in (1, 2, 3, 5, 8):
        assert worst_delta(epsilon, rows, steps, scale, bound) <= delta + 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), [(3.5, 0.1), (4.0, 0.3), (6.0, 0.05), (8.0, 0.01)])
def test_half_a_count_less_noise_breaks_it_for_large_epsilon(epsilon, delta):
    # One row against another: the mass at the edge, δ/2, grows by e^{ε/4} > 2.
    steps = 16
    scale, bound = noise_steps(epsilon, delta, steps)
    assert worst_delta(epsilon, 1, steps, scale, bound) <= delta
    assert worst_delta(epsilon, 1, steps, scale, bound - steps // 2) > delta


@pytest.mark.parametrize(("epsilon", "delta"), [*CASES, (1.0, 0.01), (0.5, 0.2)])
def test_twice_the_delta_would_break_it(epsilon, delta):
    # One row, another row: each item is seen with the mass at the edge of the noise, δ/2 as A is now. So A
    # may shrink by (2/ε) ln 2 at most, whatever the rows; half a count less than that breaks it everywhere.
    steps = 4
    scale, _ = noise_steps(epsilon, delta, steps)
    bound = noise_steps(epsilon, min(2 * delta, 0.999), steps)[1]
    assert worst_delta(epsilon, 1, steps, scale, bound - steps // 2) > delta


def test_a_tie_is_broken_by_a_coin_and_not_by_the_order_of_the_items(seed, monkeypatch):
    # With whole-number noise ties are frequent. The first to occur must win them as often as the last.
    monkeypatch.setattr(_selection, "_STEPS_A_COUNT", 1)
    draws, generator = 4000, np.random.default_rng(seed)
    items = ["first"] * 9 + ["last"] * 9
    found = Counter(select_mode(items, 2.0, 0.1, simulation=True, seed=generator) for _ in range(draws))
    assert stats.binomtest(found["first"], found["first"] + found["last"]).pvalue > LEVEL
    ties = (noise_law(*noise_steps(2.0, 0.1, 1)) ** 2).sum()
    assert stats.binomtest(round(draws * (1 + ties) / 2), draws).pvalue < LEVEL


@pytest.mark.parametrize("counts", thinned([((5, 3, 0),), ((9, 2, 7),), ((3, 3, 3),), ((1, 0, 0),)], 2))
def test_draws_have_the_enumerated_law(counts, seed, monkeypatch):
    steps, epsilon, delta, draws = 4, 2.0, 0.1, 8000
    monkeypatch.setattr(_selection, "_STEPS_A_COUNT", steps)
    items = [name for name, count in zip("abc", counts, strict=True) for _ in range(count)]
    generator = np.random.default_rng(seed)
    found = Counter(select_mode(items, epsilon, delta, simulation=True, seed=generator) for _ in range(draws))
    observed = np.array([found[name] for name in ("a", "b", "c", None)])
    scale, bound = noise_steps(epsilon, delta, steps)
    claimed = output_law(counts, steps, scale, bound)
    possible = claimed > 0
    assert observed[~possible].sum() == 0
    assert stats.chisquare(observed[possible], draws * claimed[possible]).pvalue > LEVEL
    # A sampler with a bound that is one count too small is told apart.
    wrong = output_law(counts, steps, scale, bound - steps)
    assert power(wrong[possible], claimed[possible], draws) > 1 - 1e-6


def test_truncated_noise_has_its_law_and_not_that_of_untruncated_noise(seed):
    scale, bound = 6, 9
    drawn = truncated_noise(100_000, scale, bound, Coins(np.random.default_rng(seed)))
    counts = np.bincount(drawn + bound, minlength=2 * bound + 1)
    assert stats.chisquare(counts, len(drawn) * noise_law(scale, bound)).pvalue > LEVEL
    untruncated = rounded_law(scale, bound + 1, "laplace")[1]
    assert np.abs(drawn).max() == bound
    assert stats.binomtest(int(counts[[0, -1]].sum()), len(drawn), untruncated * 2).pvalue < LEVEL


@given(st.floats(1e-3, 100.0), st.floats(1e-12, 0.9))
def test_scale_and_bound_are_on_the_safe_side_and_close(epsilon, delta):
    steps = 2**20
    scale, bound = noise_steps(epsilon, delta, steps)
    assert scale >= 2 * steps / epsilon
    assert (bound + 0.5) / steps >= selection_threshold(epsilon, delta)
    assert bound / steps <= selection_threshold(epsilon, delta) * (1 + 1e-4) + 2 / steps
    # The mass that one count more uncovers at the edge of the noise is δ/2 at most.
    b, top = scale / steps, (bound + 0.5) / steps
    edge = math.expm1(1 / b) / (2 * math.expm1(top / b)) if top / b < 700 else 0.0
    assert edge <= delta / 2 * (1 + 1e-12)


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=6),
    st.sampled_from([(1.0, 1e-3), (3.0, 1e-6), (0.5, 0.2)]),
)
def test_what_is_returned_is_frequent_with_certainty(counts, parameters):
    threshold = selection_threshold(*parameters) + 2.0**-19
    items = [name for name, count in enumerate(counts) for _ in range(count)]
    found = select_mode(items, *parameters)
    if found is None:
        assert max(counts) <= 2 * threshold
    else:
        assert counts[found] >= max(max(counts) - 2 * threshold, 1)


def test_items_of_every_kind():
    for items, mode in (
        (["a"] * 200 + ["b"], "a"),
        ([(1, 2)] * 200 + [(2, 1)], (1, 2)),
        (np.array([3] * 200 + [4]), 3),
        (iter([True] * 200 + [False]), True),
        ({"x": 1}.keys(), None),
    ):
        assert select_mode(items, 1.0, 1e-6) == mode
    assert select_mode([], 1.0, 1e-6) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"items": "abc"}, "items"),
        ({"items": 3}, "items"),
        ({"items": [[1], [2]]}, "items"),
        ({"items": [None, 1]}, "items"),
        ({"items": [math.nan] * 3}, "items"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"epsilon": 1e-7}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"seed": 1}, "seed"),
    ],
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        select_mode(**{"items": ["a", "b"], "epsilon": 1.0, "delta": 1e-6, **change})
    assert caught.value.argument == named
