"""Replicable quantiles: mismatch and accuracy on honest and hostile laws, domains, and a private twin."""

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
from scipy.optimize import brentq

from contracts.tapes import rigged
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable import Tape, median, quantile, sample_size

PROMISE = {"accuracy": 0.1, "rho": 0.1, "beta": 0.01}
PLACES = 16

# Laws on 16 places. Where half the mass is at each end, every comparison is as close as can be.
LAWS = {
    "uniform": (0.5, np.ones(PLACES)),
    "nothing between": (0.5, [1, *[0] * 14, 1]),
    "a heap at the quantile": (0.3, [2, 1, 1, 8, *[1] * 12]),
    "halves of halves": (0.5, [0.42, *[0.16 * 2.0**-i for i in range(1, 14)], 0.16 * 2.0**-13, 0.42]),
    "the edge": (0.97, [*[1] * 15, 0.3]),
}


def band(q, rows, *, accuracy=0.1, beta=0.01, **_):
    """The thresholds nearest to q ± accuracy that so many rows reach from there as seldom as β allows."""
    limits = [limit for limit in (q - accuracy, q + accuracy) if 0.0 < limit < 1.0]
    needed = math.log(max(1, len(limits)) / beta) / rows
    low, high = 0.0, 1.0
    for limit in limits:
        end = q
        if divergence(q, limit) > needed:
            end = brentq(lambda share, to=limit: divergence(share, to) - needed, limit, q, xtol=1e-16)
        low, high = (end, high) if limit < q else (low, end)
    return low, high


def promised(q, rows, low, high, questions, *, accuracy, **_):
    """How often two samples differ and a result is off, at most, for thresholds in this band."""
    spread = max(p * (1.0 - p) for p in (low, high, min(max(0.5, low), high)))
    most, least = q + accuracy, q - accuracy
    above = math.exp(-rows * divergence(high, most)) if most < 1.0 else 0.0
    below = math.exp(-rows * divergence(low, least)) if least > 0.0 else 0.0
    mismatch = questions * share_gap(rows, spread) / (high - low)
    return min(1.0, mismatch), min(1.0, above + below)


def _searched(counts, thresholds):
    """The search of the statistic, for many samples at once."""
    below = np.cumsum(counts, axis=1) / counts.sum(axis=1, keepdims=True)
    rows = np.arange(len(counts))
    low, high = np.zeros(len(counts), dtype=int), np.full(len(counts), counts.shape[1] - 1)
    for level in range(thresholds.shape[1]):
        middle = (low + high) // 2
        left = below[rows, middle] >= thresholds[:, level]
        moving = low < high
        high = np.where(moving & left, middle, high)
        low = np.where(moving & ~left, middle + 1, low)
    return low


def _simulated(law, rng, tape, *, private=False):
    q, chances = LAWS[law]
    rows = sample_size("quantile", q=q, domain=range(PLACES), **PROMISE)
    low, high = band(q, rows)
    first, second = pairs_of_counts(rng, rows, chances)
    drawn = tape.uniforms(PAIRS * 4).reshape(PAIRS, 4)
    others = tape.branch("private").uniforms(PAIRS * 4).reshape(PAIRS, 4) if private else drawn
    below = np.cumsum(np.asarray(chances, dtype=float)) / np.sum(chances)
    thresholds = [low + (high - low) * coins for coins in (drawn, others)]
    return _searched(first, thresholds[0]), _searched(second, thresholds[1]), below


@pytest.mark.parametrize("law", LAWS)
def test_two_samples_at_the_smallest_size_differ_at_most_as_often_as_promised(law, rng, seed):
    first, second, below = _simulated(law, rng, Tape(seed))
    q = LAWS[law][0]
    assert not_above((first != second).sum(), PAIRS, 0.1)
    if law in ("uniform", "a heap at the quantile", "the edge"):
        assert clearly_below((first != second).sum(), PAIRS, 0.1)
    missed = (below[first] < q - 0.1) | (np.concatenate([[0.0], below])[first] > q + 0.1)
    assert not_above(missed.sum(), PAIRS, 0.01)


@pytest.mark.parametrize("law", ["uniform", "nothing between", "halves of halves"])
def test_private_thresholds_do_not_replicate(law, rng, seed):
    first, second, _ = _simulated(law, rng, Tape(seed), private=True)
    assert clearly_above((first != second).sum(), PAIRS, 0.1)


def test_the_hostile_law_comes_close_to_the_bound(rng, seed):
    first, second, _ = _simulated("nothing between", rng, Tape(seed))
    assert clearly_above((first != second).sum(), PAIRS, 0.08)


@pytest.mark.parametrize("law", LAWS)
def test_the_simulation_is_the_statistic(law, rng):
    q, chances = LAWS[law]
    rows = sample_size("quantile", q=q, domain=range(PLACES), **PROMISE)
    low, high = band(q, rows)
    for i in range(6):
        counts = pairs_of_counts(rng, rows, chances, pairs=1)[0]
        x = np.repeat(np.arange(PLACES), counts[0])
        tape = Tape(i)
        result = quantile(rng.permutation(x), q, domain=range(PLACES), tape=tape, **PROMISE)
        thresholds = low + (high - low) * tape.branch("quantile").uniforms(4)
        assert result == float(_searched(counts, thresholds[None, :])[0])
        assert result == quantile(x, q, bounds=(0, 15), resolution=1, tape=tape, **PROMISE)


def _ways(domain):
    return {
        "listed": {"domain": domain},
        "lattice": {"bounds": (domain[0], domain[-1]), "resolution": domain[1] - domain[0]},
        "floats": {},
    }


@pytest.mark.parametrize("way", ["listed", "lattice", "floats"])
def test_every_domain_finds_the_quantile(way, rng):
    grades = np.arange(41) / 4 - 5
    x = rng.choice(grades, size=4000)
    options = _ways(grades.tolist())[way]
    for q in (0.1, 0.5, 0.9):
        for i in range(5):
            value = float(
                quantile(x, q, accuracy=0.2, rho=0.5, beta=0.1, tape=Tape(i), best_effort=True, **options)
            )
            assert (x <= value).mean() >= q - 0.2
            assert (x < value).mean() <= q + 0.2


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_floats_keep_their_order_and_come_back(values):
    """Each quantile in turn, with thresholds next to it, is each of the values in turn."""
    promise = {"accuracy": 0.001, "rho": 0.5, "beta": 0.5, "tape": rigged(0.5), "best_effort": True}
    found = [quantile(values, (k + 0.5) / len(values), **promise) for k in range(len(values))]
    assert [float(value) for value in found] == sorted(values)
    assert found[0].details["questions"] == 64


def test_the_domain_of_floats_ends_at_the_largest():
    largest = np.finfo(float).max
    for value in (-largest, largest):
        result = quantile([value], 0.5, tape=rigged(0.5), best_effort=True, **PROMISE)
        assert float(result) == value
    # The bits of positive floats count them.
    assert result.details["places"] == 2 * int(largest.view(np.int64)) + 1


def test_with_one_row_and_any_threshold_the_search_finds_that_row():
    for value in (0.0, -0.0, 1.5, -2.25, 1e300, -1e-310):
        result = median([value], accuracy=0.4, rho=0.5, beta=0.5, tape=Tape(1), best_effort=True)
        assert float(result) == value


def test_the_median_is_the_quantile_at_a_half(rng):
    x = rng.normal(size=30_000)
    options = {"bounds": (-4, 4), "resolution": 0.5, "tape": Tape(5), **PROMISE}
    assert median(x, **options) == quantile(x, 0.5, **options)
    assert sample_size("median", bounds=(0, 1), resolution=0.01, **PROMISE) == sample_size(
        "quantile", q=0.5, bounds=(0, 1), resolution=0.01, **PROMISE
    )


def domain_of(questions):
    """A domain that takes so many questions, and its least and its largest value; all floats take 64."""
    if questions == 64:
        return {}, -np.finfo(float).max, np.finfo(float).max
    top = 2.0**questions - 1.0
    return {"bounds": (0, top), "resolution": 1}, 0.0, top


@given(
    q=st.floats(0.02, 0.98),
    accuracy=st.floats(0.01, 0.4),
    rho=st.floats(0.01, 0.5),
    beta=st.floats(1e-6, 0.5),
    questions=st.integers(1, 50) | st.just(64),
)
def test_the_plan_keeps_its_promise_and_harder_promises_need_more_rows(q, accuracy, rho, beta, questions):
    promise = {"accuracy": accuracy, "rho": rho, "beta": beta}
    domain, least, largest = domain_of(questions)
    rows = sample_size("quantile", q=q, **domain, **promise)
    low, high = band(q, rows, **promise)
    assert max(0.0, q - accuracy) <= low < high <= min(1.0, q + accuracy)
    mismatch, failure = promised(q, rows, low, high, questions, **promise)
    assert mismatch <= rho * (1 + 1e-6)
    assert failure <= beta * (1 + 1e-6 + 1e-14 * rows)  # a divergence is right to 16 digits
    # The tape's thresholds go from one end to the other: a share just above each reaches it, one below not.
    for end, coin in ((low, 0.0), (high, 1.0)):
        for share in (end - 2e-4, end + 2e-4):
            if 0.0 < share < 1.0:
                few = round(share * 10_000)
                x = np.repeat([least, largest], [few, 10_000 - few])
                found = quantile(x, q, tape=rigged(coin), best_effort=True, **domain, **promise)
                assert float(found) == (least if share > end else largest)
    assert found.details["questions"] == questions
    if questions < 50:
        more = sample_size("quantile", q=q, **domain_of(questions + 1)[0], **promise)
        assert rows <= more
    for weaker in ({"rho": min(0.9, 2 * rho)}, {"beta": min(0.9, 2 * beta)}):
        assert sample_size("quantile", q=q, **domain, **{**promise, **weaker}) <= rows


@given(share=st.floats(0.05, 0.999), q=st.floats(0.02, 0.98))
def test_fewer_rows_promise_what_the_bounds_say_of_them(share, q):
    needed = sample_size("quantile", q=q, domain=range(PLACES), **PROMISE)
    rows = math.ceil(share * needed) - 1
    x = np.arange(rows) % PLACES
    result = quantile(x, q, domain=range(PLACES), tape=Tape(1), best_effort=True, **PROMISE)
    mismatch, failure = promised(q, rows, *band(q, needed), 4, accuracy=0.1)
    assert result.guarantee.rho == pytest.approx(mismatch, rel=1e-6)
    assert result.beta == pytest.approx(failure, rel=1e-6)


def test_too_few_rows_are_refused_and_a_best_effort_says_what_it_can_promise(rng, seed):
    needed = sample_size("quantile", q=0.5, domain=range(PLACES), **PROMISE)
    x = rng.integers(0, PLACES, needed // 4)
    with pytest.raises(NotEnoughRows) as refused:
        quantile(x, 0.5, domain=range(PLACES), tape=Tape(1), **PROMISE)
    assert (refused.value.needed, refused.value.got) == (needed, needed // 4)
    result = quantile(x, 0.5, domain=range(PLACES), tape=Tape(1), best_effort=True, **PROMISE)
    assert 0.19 < result.guarantee.rho < 0.21
    low, high = band(0.5, needed)
    first, second = pairs_of_counts(rng, needed // 4, LAWS["nothing between"][1])
    thresholds = low + (high - low) * Tape(seed).uniforms(PAIRS * 4).reshape(PAIRS, 4)
    differ = _searched(first, thresholds) != _searched(second, thresholds)
    assert not_above(differ.sum(), PAIRS, result.guarantee.rho)
    assert clearly_above(differ.sum(), PAIRS, 0.1)


def test_golden_quantile_never_changes():
    x = np.arange(60_000) % 997 / 10
    result = quantile(
        x, 0.25, bounds=(0, 100), resolution=0.1, tape=Tape("study-7"), best_effort=True, **PROMISE
    )
    assert float(result).hex() == "0x1.6800000000000p+4"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("q", 0.0),
        ("q", 1.0),
        ("q", math.nan),
        ("accuracy", 0.0),
        ("accuracy", 0.5),
        ("rho", 0),
        ("beta", 1),
        ("domain", []),
        ("domain", [2, 1]),
        ("domain", [1, math.nan]),
        ("bounds", (1, 0)),
        ("resolution", 0.1),
        ("resolution", -1),
        ("tape", None),
        ("x", [math.nan]),
        ("x", [math.inf]),
        ("x", "abc"),
    ],
)
def test_bad_arguments_are_refused_by_name(argument, value):
    given = {"x": [1.0] * 10, "q": 0.5, "tape": Tape(1), **PROMISE, argument: value}
    if argument == "bounds":
        given["resolution"] = 0.1
    if argument == "resolution" and value == -1:
        given["bounds"] = (0, 1)
    with pytest.raises(InvalidArgument, match=f"'{argument}[^']*' argument of quantile"):
        quantile(given.pop("x"), given.pop("q"), **given)
