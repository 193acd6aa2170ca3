"""Replicable heavy hitters: mismatch and accuracy on honest and hostile laws, names, and a private twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replicable_pairs import (
    PAIRS,
    clearly_above,
    clearly_below,
    divergence,
    not_above,
    pairs_of_counts,
    share_gap,
)

from contracts.tapes import rigged
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, heavy_hitters, list_heavy_hitter, sample_size

PROMISE = {"threshold": 0.2, "rho": 0.1, "beta": 0.01}

# Shares at the threshold 0.2, whose band is about [0.11, 0.29]; the rest falls on light items.
LAWS = {
    "one heavy": [0.5] + [0.01] * 50,
    "ties in the band": [0.2] * 5,
    "spread over the band": [0.12, 0.15, 0.17, 0.19, 0.21, 0.16],
    "light ones at the edge": [0.1] * 10,
    "a zipf": 1.0 / np.arange(1, 200),
}


def band(**promise):
    """The least and the largest cutoff that a tape can choose."""
    return [
        heavy_hitters(["a"], tape=rigged(end), best_effort=True, **promise).details["cutoff"]
        for end in (0.0, 1.0)
    ]


def _lists(law, rng, tape, *, private=False, fewer=1):
    chances = np.asarray(LAWS[law], dtype=float)
    chances = chances / chances.sum()
    rows, (low, high) = sample_size("heavy_hitters", **PROMISE) // fewer, band(**PROMISE)
    first, second = (counts / rows for counts in pairs_of_counts(rng, rows, chances))
    cutoffs = low + (high - low) * tape.uniforms(PAIRS)[:, None]
    others = low + (high - low) * tape.branch("private").uniforms(PAIRS)[:, None]
    return first >= cutoffs, second >= (others if private else cutoffs), chances


@pytest.mark.parametrize("law", LAWS)
def test_two_samples_at_the_smallest_size_differ_at_most_as_often_as_promised(law, rng, seed):
    first, second, chances = _lists(law, rng, Tape(seed))
    differ = (first != second).any(axis=1).sum()
    assert not_above(differ, PAIRS, 0.1)
    assert clearly_below(differ, PAIRS, 0.1)  # the bound takes no law at once at its worst
    wrong = (first & (chances < 0.1)).any(axis=1) | (~first & (chances >= 0.3)).any(axis=1)
    assert not_above(wrong.sum(), PAIRS, 0.01)


@pytest.mark.parametrize("law", ["ties in the band", "spread over the band"])
def test_private_cutoffs_do_not_replicate(law, rng, seed):
    first, second, _ = _lists(law, rng, Tape(seed), private=True)
    assert clearly_above((first != second).any(axis=1).sum(), PAIRS, 0.1)


def test_the_hostile_law_uses_a_good_part_of_the_bound_and_a_quarter_of_the_rows_breaks_it(rng, seed):
    first, second, _ = _lists("spread over the band", rng, Tape(seed))
    assert clearly_above((first != second).any(axis=1).sum(), PAIRS, 0.05)
    first, second, _ = _lists("spread over the band", rng, Tape(seed), fewer=4)
    assert clearly_above((first != second).any(axis=1).sum(), PAIRS, 0.1)


def test_the_simulation_is_the_statistic(rng):
    rows, (low, high) = sample_size("heavy_hitters", **PROMISE), band(**PROMISE)
    for i in range(10):
        tape = Tape(i)
        counts = rng.multinomial(rows, [0.12, 0.15, 0.17, 0.19, 0.21, 0.16])
        items = np.repeat([f"item {k}" for k in range(6)], counts)
        result = heavy_hitters(rng.permutation(items), tape=tape, **PROMISE)
        cutoff = result.details["cutoff"]
        drawn = tape.branch("heavy_hitters").uniforms(1)[0]
        assert cutoff == pytest.approx(low + (high - low) * drawn, rel=1e-12)
        assert list(result) == [f"item {k}" for k in range(6) if counts[k] / rows >= cutoff]


def promised(rows, low, high, threshold, accuracy):
    """How often two samples differ and how often a list is wrong, at most, for cutoffs in this band."""
    lightest, heaviest = threshold - accuracy, threshold + accuracy
    failure = math.exp(-rows * divergence(low, lightest)) / lightest
    if heaviest < 1.0:
        failure += math.exp(-rows * divergence(high, heaviest)) / heaviest
    if rows * (low - lightest) < 1.0:
        failure = 1.0
    return min(1.0, share_gap(rows, low * (1.0 - low)) / low / (high - low)), min(1.0, failure)


@given(
    threshold=st.floats(0.01, 0.9),
    share=st.floats(0.1, 0.9),
    rho=st.floats(0.01, 0.5),
    beta=st.floats(1e-6, 0.5),
)
def test_the_plan_keeps_its_promise_and_harder_promises_need_more_rows(threshold, share, rho, beta):
    promise = {"threshold": threshold, "accuracy": share * threshold, "rho": rho, "beta": beta}
    rows, (low, high) = sample_size("heavy_hitters", **promise), band(**promise)
    mismatch, failure = promised(rows, low, high, threshold, share * threshold)
    assert mismatch <= rho * (1 + 1e-6)
    assert failure <= beta * (1 + 1e-6 + 1e-14 * rows)  # a divergence is right to 16 digits
    assert threshold * (1 - share) <= low < high <= min(1.0, threshold * (1 + share) * (1 + 1e-15))
    assert sample_size("heavy_hitters", **{**promise, "rho": rho / 2}) >= rows
    assert sample_size("heavy_hitters", **{**promise, "beta": beta / 2}) >= rows - 1


@given(rows=st.integers(1, 3000))
def test_fewer_rows_promise_what_the_bounds_say_of_them(rows):
    result = heavy_hitters(["a"] * rows, tape=Tape(1), best_effort=True, **PROMISE)
    mismatch, failure = promised(rows, *band(**PROMISE), 0.2, 0.1)
    assert (result.guarantee.rho, result.beta) == (
        pytest.approx(mismatch, rel=1e-9),
        pytest.approx(failure, rel=1e-9),
    )


def test_items_may_be_texts_numbers_or_tuples_and_come_sorted():
    promise = {"threshold": 0.2, "rho": 0.4, "beta": 0.2, "accuracy": 0.19, "tape": Tape(2)}
    items = [3, "b", 10, "a", (1, "x")] * 400
    assert heavy_hitters(items, **promise) == (3, 10, "a", "b", (1, "x"))
    assert heavy_hitters(np.array([1.0, 2.0] * 1000), **promise) == (1, 2)
    assert heavy_hitters(np.array(["u", "v"] * 1000), **promise) == ("u", "v")
    assert heavy_hitters([1, 1.0, True, np.int64(1)] * 500, **promise) == (1,)


def assert_counted_apart_or_together(item, other):
    """Different items count apart; equal ones count as one, with one place in the tape's order of names."""
    found = heavy_hitters([item] * 5 + [other] * 5, tape=rigged(0.0), best_effort=True, **PROMISE)
    assert len(found) == 1 + (item != other)
    if item == other:
        ask = {"eta": 0.9, "rho": 0.5, "beta": 0.5, "best_effort": True}
        for i in range(5):
            first, second = (
                list_heavy_hitter([[form, "x", "y", "z"]], tape=Tape(i), **ask) for form in (item, other)
            )
            assert first == second


@given(
    st.lists(
        st.text(max_size=3) | st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=4
    )
)
def test_different_items_are_counted_apart_and_equal_ones_together(items):
    item = tuple(items)
    for other in (item[:-1], (*item, ""), tuple(map(str, items)), tuple(reversed(items)), (item,)):
        assert_counted_apart_or_together(item, other)
    if items:
        forwards, backwards = (
            heavy_hitters(order, tape=rigged(0.0), best_effort=True, **PROMISE)
            for order in (items, items[::-1])
        )
        assert forwards == backwards


@pytest.mark.parametrize(
    ("item", "other"),
    [
        (("a", "b"), ("atb",)),
        (("a", 1), ("ai1",)),
        ((1, ("a",)), (1, "a")),
        ((1, "a"), (1.0, "a")),
        (1, True),
        (1, np.int64(1)),
        (-0.0, 0),
        ("1", 1),
    ],
)
def test_items_that_are_easily_confused(item, other):
    assert_counted_apart_or_together(item, other)


def test_golden_heavy_hitters_never_change():
    result = heavy_hitters([i % 7 % 4 for i in range(35_000)], tape=Tape("study-7"), **PROMISE)
    assert (result.value, result.details["cutoff"].hex()) == ((0, 1, 2, 3), "0x1.19a8cdbd3541dp-3")


def test_too_few_rows_are_refused_and_a_best_effort_says_what_it_can_promise():
    needed = sample_size("heavy_hitters", **PROMISE)
    items = ["a", "b"] * (needed // 8)
    with pytest.raises(NotEnoughRows) as refused:
        heavy_hitters(items, tape=Tape(1), **PROMISE)
    assert refused.value.needed == needed
    result = heavy_hitters(items, tape=Tape(1), best_effort=True, **PROMISE)
    assert result == ("a", "b")
    assert 0.19 < result.guarantee.rho < 0.21
    assert result.beta > 0.01


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("threshold", 0.0),
        ("threshold", 1.0),
        ("threshold", math.nan),
        ("accuracy", 0.2),
        ("accuracy", 0.0),
        ("rho", 0.0),
        ("beta", math.nan),
        ("tape", "study-7"),
        ("items", "abc"),
        ("items", 3),
        ("items", [["a"]]),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    given = {"items": ["a"] * 10, "tape": Tape(1), **PROMISE, argument: value}
    with pytest.raises(InvalidArgument, match=f"'{argument}' argument of heavy_hitters"):
        heavy_hitters(given.pop("items"), **given)


def test_an_item_without_a_name_is_refused():
    for bad in (math.nan, math.inf, b"bytes", frozenset()):
        with pytest.raises(InvalidArgument, match="'items'"):
            heavy_hitters([bad] * 10, tape=Tape(1), **PROMISE)
