"""The record, and intervals made of intervals and of tails."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intervals_oracles import TOLERANCE, multinomial

from enumeration import all_counts
from holdfast.errors import InvalidArgument
from holdfast.intervals import (
    Interval,
    difference,
    filtered_from_tail,
    from_tail,
    hoeffding,
    kl,
    of_filtered_mean,
    ratio,
)
from holdfast.tails import BoundedDifferences, Custom, SubGaussian

LN2 = math.log(2.0)


def test_the_record_measures_itself():
    interval = Interval(0.25, 1.0)
    assert interval.width == pytest.approx(0.75)
    assert interval.half_width == pytest.approx(0.375)
    assert interval.middle == 0.625
    assert interval.contains(0.25)
    assert interval.contains(1.0)
    assert not interval.contains(1.5)
    assert not interval.contains(math.nan)
    assert interval.hull(Interval(-1.0, 0.5)) == Interval(-1.0, 1.0)
    assert interval.clip(0.5, 0.75) == Interval(0.5, 0.75)
    assert interval.clip(2.0, 3.0) == Interval(2.0, 2.0)
    assert interval.to_dict() == {"low": 0.25, "high": 1.0}


def test_widths_round_up():
    interval = Interval(0.1, 0.3)
    assert interval.width > 0.3 - 0.1
    assert interval.middle + interval.half_width >= interval.high
    assert interval.middle - interval.half_width <= interval.low


def test_an_unbounded_interval_has_a_middle():
    assert Interval(-math.inf, 3.0).middle == 3.0
    assert Interval(2.0, math.inf).middle == 2.0
    assert Interval(-math.inf, math.inf).middle == 0.0
    assert Interval(-1e308, 1e308).middle == 0.0
    assert Interval(-1e308, 1e308).half_width < math.inf


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 0.0), (math.nan, 1.0), (0.0, math.nan), ("0", 1.0), (0.0, None), (True, 2)]
)
def test_a_wrong_record_is_refused(low, high):
    with pytest.raises(InvalidArgument, match="Interval"):
        Interval(low, high)


ends = st.tuples(st.floats(-10, 10), st.floats(-10, 10)).map(lambda pair: Interval(min(pair), max(pair)))
parts = st.floats(0.0, 1.0)


def at(interval, part):
    return min(interval.high, interval.low + part * (interval.high - interval.low))


@given(ends, ends, parts, parts)
def test_a_difference_holds_every_difference(first, second, a, b):
    assert difference(first, second).contains(at(first, a) - at(second, b))


@given(ends, ends)
def test_a_difference_is_no_wider_than_it_must_be(first, second):
    assert difference(first, second).width <= (first.width + second.width) * (1 + 1e-12) + 1e-12


@given(ends, st.floats(-0.5, 1.0), st.floats(0.0, 1.0), parts, parts)
def test_a_ratio_holds_every_ratio(numerator, low, more, a, b):
    denominator = Interval(low, low + more)
    below = at(denominator, b)
    if below > 0.0 and -3.0 <= at(numerator, a) / below <= 5.0:
        assert ratio(numerator, denominator, lo=-3.0, hi=5.0).contains(at(numerator, a) / below)


@pytest.mark.parametrize(
    ("numerator", "denominator", "low", "high"),
    [
        ((0.1, 0.2), (0.0, 0.25), 0.4, 2.0),
        ((-0.2, -0.1), (-0.3, 0.25), -2.0, -0.4),
        ((-0.1, 0.1), (0.0, 0.5), -2.0, 2.0),
        ((0.0, 0.1), (-0.5, 0.0), -2.0, 2.0),
        ((0.7, 0.9), (0.2, 0.3), 2.0, 2.0),
    ],
)
def test_a_ratio_clips_only_the_end_that_divides_by_zero(numerator, denominator, low, high):
    found = ratio(Interval(*numerator), Interval(*denominator), lo=-2.0, hi=2.0)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-12)


def filtered_miss(make, probabilities, n):
    """The exact miss probability; a row is outside the filter, inside with f = 0, or inside with f = 1."""
    truth = probabilities[2] / (probabilities[1] + probabilities[2])
    total = 0.0
    for count in all_counts(n, 3):
        inside = count[1] + count[2]
        mean = count[2] / inside if inside else None
        total += multinomial(count, probabilities) * (not make(mean, inside, n).contains(truth))
    return total


FILTERS = [(0.5, 0.25, 0.25), (0.8, 0.14, 0.06), (0.95, 0.025, 0.025), (0.1, 0.85, 0.05)]


@pytest.mark.parametrize("probabilities", FILTERS)
def test_a_filtered_mean_is_covered(probabilities):
    for nats in [0.0, 0.3, 1.0, 3.0]:
        for n in (1, 5, 25):
            missed = filtered_miss(
                lambda mean, inside, n, nats=nats: of_filtered_mean(mean, inside, nats), probabilities, n
            )
            assert missed <= math.exp(-nats) * (1 + TOLERANCE)


def test_the_check_rejects_a_filtered_mean_that_counts_all_rows():
    def twin(mean, inside, n):
        return kl(mean, n, 3.0) if inside else Interval(0.0, 1.0)

    assert filtered_miss(twin, FILTERS[1], 25) > math.exp(-3.0)


def from_one_tail(nats, *, divide=True):
    def make(mean, inside, n):
        tail = BoundedDifferences.of_mean(0, 1, n)
        if divide or not inside:
            return filtered_from_tail(mean, inside / n, tail, nats)
        return from_tail(mean, tail, nats)

    return make


@pytest.mark.parametrize("probabilities", FILTERS)
def test_a_filtered_mean_from_one_tail_is_covered(probabilities):
    for nats in [0.0, 0.3, 1.0, 3.0]:
        for n in (1, 5, 25):
            assert filtered_miss(from_one_tail(nats), probabilities, n) <= math.exp(-nats) * (1 + TOLERANCE)


def test_the_check_rejects_a_radius_that_is_not_divided_by_the_share():
    assert filtered_miss(from_one_tail(1.0, divide=False), (0.9, 0.05, 0.05), 25) > math.exp(-1.0)


@pytest.mark.parametrize(("mean", "share"), [(0.25, 0.5), (0.5, 0.1), (0.9, 0.9)])
def test_one_tail_is_narrower_than_a_ratio_of_two_intervals(mean, share):
    tail, nats = BoundedDifferences.of_mean(0, 1, 10**5), 20.0
    apart = ratio(from_tail(mean * share, tail, nats + LN2), from_tail(share, tail, nats + LN2))
    joint = filtered_from_tail(mean, share, tail, nats)
    assert apart.low < joint.low < joint.high < apart.high
    assert joint.half_width == pytest.approx(tail.radius_at(nats) / share, rel=1e-9)


def test_no_rows_under_the_filter_say_nothing():
    assert of_filtered_mean(None, 0, 3.0, lo=-1.0, hi=2.0) == Interval(-1.0, 2.0)
    tail = BoundedDifferences.of_mean(-1, 2, 100)
    assert filtered_from_tail(None, 0.0, tail, 3.0, lo=-1.0, hi=2.0) == Interval(-1.0, 2.0)


def test_from_tail_is_the_radius_around_the_value():
    for nats in (0.0, 3.0, 5000.0, 1e6):
        interval = from_tail(2.0, SubGaussian(0.5), nats)
        radius = SubGaussian(0.5).radius_at(nats)
        assert interval.low == pytest.approx(2.0 - radius, rel=1e-12)
        assert interval.low <= 2.0 - radius
        assert interval.high >= 2.0 + radius
    assert from_tail(2.0, Custom(lambda alpha: 1.0), 3.0) == Interval(-math.inf, math.inf)


def test_from_tail_of_a_bounded_mean_is_hoeffding():
    tail = BoundedDifferences.of_mean(0, 1, 400)
    inner, outer = from_tail(0.25, tail, 3.0), hoeffding(0.25, 400, 3.0)
    assert inner.low == pytest.approx(outer.low, rel=1e-12)
    assert inner.high == pytest.approx(outer.high, rel=1e-12)
