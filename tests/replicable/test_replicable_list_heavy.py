"""An item that many lists share: mismatch and accuracy, the walk behind the bound, and a private twin."""

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
)
from scipy import stats

from contracts.examples import examples
from contracts.tapes import rigged
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, list_heavy_hitter, sample_size

ETA, SIZE, RHO, BETA = 0.5, 8, 0.1, 0.01
PROMISE = {"eta": ETA, "rho": RHO, "beta": BETA, "list_size": SIZE}


def band(**promise):
    """The least and the largest cutoff that a tape can choose."""
    return [
        list_heavy_hitter([["a"]], tape=rigged(end), best_effort=True, **promise).details["cutoff"]
        for end in (0.0, 1.0)
    ]


def promised(rows, low, high, eta, size, harmonic):
    """How often two samples differ and an item is wrong, at most, for cutoffs in this band.

    ``harmonic`` bounds 1 + 1/2 + … + 1/k from above.
    """
    steps = math.ceil(2.0 * rows * high) + 1
    theta = math.sqrt(2.0 / (math.pi * (steps + 6)))
    leaving = math.sqrt(2.0 * (steps + 1) / math.pi) / (2.0 * rows) * harmonic(math.floor(size / low))
    rare = 2.0 * rows * math.exp(-2.0 * rows * theta * (low - 0.5 / rows))
    joining = math.log(max(1.0, size * max(1.0 / low, rare))) * math.exp(2.0 * theta) / (2.0 * rows * theta)
    mismatch = (leaving + joining) / (high - low) + math.exp(-2.0 * rows * divergence(high, eta))
    light = math.exp(-rows * divergence(low, eta / 2.0)) * size / (eta / 2.0)
    if rows * (low - eta / 2.0) < 1.0:
        light = 1.0
    return min(1.0, mismatch), min(1.0, light + math.exp(-rows * divergence(high, eta)))


def exact_harmonic(count):
    if count > 10**5:  # Euler and Maclaurin, with an error below 1e-21
        return math.log(count) + np.euler_gamma + 0.5 / count - 1.0 / (12.0 * count**2)
    return math.fsum(1.0 / k for k in range(1, count + 1))


def _chains(shares):
    """Nested lists: list k holds items 0 … k, so that item i has the share of all longer lists."""
    steps = -np.diff(np.append(shares, 0.0))
    lists = np.tril(np.ones((len(shares), len(shares))))
    return np.append(steps, 1.0 - shares[0]), np.vstack([lists, np.zeros(len(shares))])


def _blocks(share, items, rng):
    """Random lists of eight items, each list as likely; and one item in half of all lists."""
    lists = np.zeros((400, items))
    for row in lists:
        row[1 + rng.choice(items - 1, size=7, replace=False)] = 1.0
    lists[: int(share * 400), 0] = 1.0
    return np.ones(400), lists


LAWS = {
    "one heavy item": lambda rng: (np.array([0.5, 0.5]), np.array([[1.0], [0.0]])),
    "many ties": lambda rng: (np.array([0.5, 0.5]), np.kron(np.eye(2), np.ones((1, 8)))),
    "a ladder of shares": lambda rng: _chains(np.linspace(0.5, 0.26, 8)),
    "geometric crowds": lambda rng: _chains(np.array([0.5, 0.42, 0.35, 0.35, 0.29, 0.29, 0.29, 0.29])),
    "a crowd just below": lambda rng: _blocks(0.5, 25, rng),
}


def _chosen(law, rng, tape, *, private=False, fewer=1, pairs=PAIRS):
    chances, lists = LAWS[law](rng)
    rows, (low, high) = sample_size("list_heavy_hitter", **PROMISE) // fewer, band(**PROMISE)
    samples = [counts @ lists / rows for counts in pairs_of_counts(rng, rows, chances, pairs)]
    truth = (chances / chances.sum()) @ lists
    found = []
    for sample, coins in zip(samples, (tape, tape.branch("private") if private else tape), strict=True):
        cutoffs = low + (high - low) * coins.uniforms(pairs)[:, None]
        order = coins.branch("order").uniforms(pairs * truth.size).reshape(pairs, truth.size)
        order = np.where(sample >= cutoffs, order, 2.0)
        found.append(np.where(order.min(axis=1) < 2.0, order.argmin(axis=1), -1))
    return *found, truth


@pytest.mark.parametrize("law", LAWS)
def test_two_samples_at_the_smallest_size_differ_at_most_as_often_as_promised(law, rng, seed):
    first, second, truth = _chosen(law, rng, Tape(seed))
    differ = (first != second).sum()
    assert not_above(differ, PAIRS, RHO)
    assert clearly_below(differ, PAIRS, RHO)
    wrong = (first < 0) | (np.append(truth, 0.0)[first] < ETA / 2.0)
    assert not_above(wrong.sum(), PAIRS, BETA)


@pytest.mark.parametrize("law", ["many ties", "a ladder of shares", "geometric crowds"])
def test_private_coins_do_not_replicate(law, rng, seed):
    first, second, _ = _chosen(law, rng, Tape(seed), private=True)
    assert clearly_above((first != second).sum(), PAIRS, RHO)


def test_the_hostile_law_uses_part_of_the_bound_and_a_thirtieth_of_the_rows_breaks_it(rng, seed):
    first, second, _ = _chosen("a ladder of shares", rng, Tape(seed))
    assert clearly_above((first != second).sum(), PAIRS, 0.15 * RHO)
    first, second, _ = _chosen("a ladder of shares", rng, Tape(seed), fewer=30)
    assert clearly_above((first != second).sum(), PAIRS, RHO)


def _walk(steps):
    """|W| for the simple random walk of ``steps`` steps: places and probabilities."""
    return np.abs(2 * np.arange(steps + 1) - steps), stats.binom.pmf(np.arange(steps + 1), steps, 0.5)


@pytest.mark.parametrize("longest", [9, 10, 57, 58, 400])
def test_the_tail_of_a_walk_falls_as_the_bound_says(longest):
    theta = math.sqrt(2.0 / (math.pi * (longest + 6)))
    for steps in range(1, longest + 1):
        places, chances = _walk(steps)
        for u in range(1, steps + 1):
            assert chances[places >= u].sum() <= math.exp(-theta * (u - 2)) + 1e-12
        assert places @ chances <= math.sqrt(2.0 * (steps + 1) / math.pi)
    places, chances = _walk(longest)
    steep = 1.4 * theta  # a bound this much steeper would be false for long walks
    tails = [chances[places >= u].sum() - math.exp(-steep * (u - 2)) for u in range(1, longest + 1)]
    assert longest < 400 or max(tails) > 0.0


def test_the_simulation_is_the_statistic(rng):
    rows, (low, high) = sample_size("list_heavy_hitter", **PROMISE), band(**PROMISE)
    chances, lists = LAWS["geometric crowds"](rng)
    names = [f"item {i}" for i in range(lists.shape[1])]
    kinds = [[names[i] for i in np.flatnonzero(row)] for row in lists]
    for i in range(4):
        counts = rng.multinomial(rows, chances / chances.sum())
        sample = [kinds[k] for k in rng.permutation(np.repeat(np.arange(len(kinds)), counts))]
        tape = Tape(i)
        result = list_heavy_hitter(sample, tape=tape, **PROMISE)
        own = tape.branch("list_heavy_hitter")
        cutoff = result.details["cutoff"]
        assert cutoff == pytest.approx(low + (high - low) * own.uniforms(1)[0], rel=1e-12)
        able = [name for name, share in zip(names, counts @ lists / rows, strict=True) if share >= cutoff]
        words = own.named_words(f"t{name}" for name in able)
        assert result.value == able[int(np.argmin(words))]
        assert list_heavy_hitter([list(reversed(kind)) for kind in sample], tape=tape, **PROMISE) == result
        assert list_heavy_hitter(sample + [["other"]] * 999, tape=tape, **PROMISE) == result


@examples(20)
@given(
    eta=st.floats(0.01, 0.95), size=st.integers(1, 10**6), rho=st.floats(0.01, 0.5), beta=st.floats(1e-6, 0.5)
)
def test_the_plan_keeps_its_promise_and_harder_promises_need_more_rows(eta, size, rho, beta):
    promise = {"eta": eta, "list_size": size, "rho": rho, "beta": beta}
    rows, (low, high) = sample_size("list_heavy_hitter", **promise), band(**promise)
    assert eta / 2 < low < high < eta
    mismatch, failure = promised(rows, low, high, eta, size, exact_harmonic)
    assert mismatch <= rho * (1 + 1e-6)
    assert failure <= beta * (1 + 1e-6 + 1e-14 * rows)  # a divergence is right to 16 digits

    def needed(**changed):
        return sample_size("list_heavy_hitter", **{**promise, **changed})

    assert needed(list_size=2 * size) >= rows
    assert needed(rho=rho / 2) > rows
    assert needed(beta=beta / 2) >= 0.98 * rows  # the band is the best of a few


def test_the_size_grows_with_the_logarithm_of_the_list():
    sizes = [
        sample_size("list_heavy_hitter", eta=0.1, rho=0.1, beta=0.01, list_size=10**k)
        for k in range(0, 10, 3)
    ]
    roots = np.sqrt(sizes)
    assert np.allclose(np.diff(roots), np.diff(roots)[0], rtol=0.1)


@examples(20)
@given(share=st.floats(0.4, 0.999), size=st.integers(1, 2000), eta=st.floats(0.3, 0.95))
def test_fewer_lists_promise_what_the_bounds_say_of_them(share, size, eta):
    """The harmonic number is bounded from above, by a tenth too much at most."""
    promise = {"eta": eta, "list_size": size, "rho": 0.5, "beta": 0.5}
    lists = math.ceil(share * sample_size("list_heavy_hitter", **promise)) - 1
    result = list_heavy_hitter([["a"]] * lists, tape=Tape(1), best_effort=True, **promise)
    ends = (*band(**promise), eta, size)
    exact, failure = promised(lists, *ends, exact_harmonic)
    most, _ = promised(lists, *ends, lambda count: exact_harmonic(count) + 0.1)
    assert exact * (1 - 1e-12) <= result.guarantee.rho <= most
    assert result.beta == pytest.approx(failure, rel=1e-9)


def test_too_few_lists_are_refused_and_a_best_effort_says_what_it_can_promise():
    needed = sample_size("list_heavy_hitter", **PROMISE)
    lists = [["a", "b"], ["a"]] * (needed // 8)
    with pytest.raises(NotEnoughRows) as refused:
        list_heavy_hitter(lists, tape=Tape(1), **PROMISE)
    assert refused.value.needed == needed
    result = list_heavy_hitter(lists, tape=Tape(1), best_effort=True, **PROMISE)
    assert result.value in ("a", "b")
    assert 0.15 < result.guarantee.rho < 0.3


def test_lists_of_ordinary_length_need_no_bound():
    # The band and the size follow from the promise alone: what the lists look like must not move the cutoff.
    ask = {"eta": 0.5, "rho": 0.1, "beta": 0.01}
    needed = sample_size("list_heavy_hitter", **ask)
    assert needed == sample_size("list_heavy_hitter", **ask, list_size=32)
    short = list_heavy_hitter([["a"]] * needed, tape=Tape("s"), **ask)
    for longest in (2, 7, 32):
        lists = [["a", *range(longest - 1)]] + [["a"]] * (needed - 1)
        found = list_heavy_hitter(lists, tape=Tape("s"), **ask)
        assert (found.value, found.details) == ("a", short.details)
    with pytest.raises(InvalidArgument, match="agree on beforehand, and a list here has 33 items") as refusal:
        list_heavy_hitter([["a", *range(32)]] * needed, tape=Tape("s"), **ask)
    assert refusal.value.argument == "list_size"


def test_golden_items_never_change():
    needed = sample_size("list_heavy_hitter", **PROMISE)
    lists = [["ash", "oak", 7], ["oak", 7, "elm"]] * needed
    assert [list_heavy_hitter(lists, tape=Tape(i), **PROMISE).value for i in range(8)] == [
        "elm",
        "oak",
        "elm",
        "oak",
        "oak",
        "ash",
        7,
        7,
    ]


def test_no_common_item_gives_none():
    needed = sample_size("list_heavy_hitter", **PROMISE)
    assert list_heavy_hitter([[i] for i in range(needed)], tape=Tape(1), **PROMISE).value is None


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("eta", 0.0),
        ("eta", 1.0),
        ("rho", math.nan),
        ("beta", 2),
        ("list_size", 0),
        ("list_size", 1),
        ("tape", 7),
        ("lists", "abc"),
        ("lists", 7),
        ("lists", ["ab"]),
        ("lists", [3]),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    given = {"lists": [["a", "b"]] * 10, "tape": Tape(1), **PROMISE, argument: value}
    with pytest.raises(InvalidArgument, match=f"'{argument}' argument of list_heavy_hitter"):
        list_heavy_hitter(given.pop("lists"), **given)
