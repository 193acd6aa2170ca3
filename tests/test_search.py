"""The searches find exactly the right place, and what they return was tried and satisfies the condition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import search


def recorded(function):
    tried = {}

    def look(place):
        tried[place] = function(place)
        return tried[place]

    return look, tried


@pytest.mark.parametrize("above", [-3, -1, 0, 1, 7])
def test_the_least_whole_number_is_exact_from_every_start(above):
    for least in range(above + 1, above + 70):
        for start in (None, above + 1, above + 2, above + 16, above + 1000):
            look, tried = recorded(lambda n, least=least: n >= least)
            assert search.least_whole(look, above=above, start=start) == least
            assert min(tried) > above
            assert tried[least]


def test_a_limit_is_tried_and_not_passed():
    for most in range(1, 40):
        for least in range(1, 50):
            look, tried = recorded(lambda n, least=least: n >= least)
            assert search.least_whole(look, most=most) == (least if least <= most else None)
            assert max(tried) <= most
        assert search.least_whole(lambda n: True, start=most + 1, most=most) is None


def test_a_tolerance_saves_calls_and_stays_on_the_safe_side():
    for least in (999, 12_345, 10**9 + 7):
        exact, exact_calls = recorded(lambda n, least=least: n >= least)
        rough, rough_calls = recorded(lambda n, least=least: n >= least)
        assert search.least_whole(exact) == least
        found = search.least_whole(rough, tolerance=1e-2)
        assert least <= found <= least * 1.01 + 1
        assert len(rough_calls) < len(exact_calls)


def test_a_condition_that_changes_its_mind_still_holds_at_the_result():
    """A saw-tooth breaks the belief that is needed for the least number, and not the guarantee."""
    look, tried = recorded(lambda n: n % 3 != 1 and n > 5)
    assert tried[search.least_whole(look)]
    look, tried = recorded(lambda x: math.sin(50.0 * x) > 0.0 or x > 3.0)
    assert tried[search.least_real(look)]


@pytest.mark.parametrize("guess", [None, -5, 0, 1, 37, 99, 100, 1000])
def test_a_whole_edge_is_exact_from_either_side_and_with_any_guess(guess):
    for last in range(0, 100):
        look, tried = recorded(lambda n, last=last: n <= last)
        assert search.whole_edge(look, 0, 100, guess=guess) == last
        assert 0 not in tried
        assert 100 not in tried
        look, _ = recorded(lambda n, last=last: n > last)
        assert search.whole_edge(look, 100, -1, guess=guess) == last + 1


def test_a_good_guess_of_a_whole_edge_saves_calls():
    for off in (-3, -1, 0, 1, 3):
        look, tried = recorded(lambda n: n <= 123_456_789)
        assert search.whole_edge(look, 0, 10**12, guess=123_456_789 + off) == 123_456_789
        assert len(tried) <= 5
    look, tried = recorded(lambda n: n <= 123_456_789)
    assert search.whole_edge(look, 0, 10**12) == 123_456_789
    assert len(tried) <= 40


@given(
    st.floats(0.05, 3.0),
    st.floats(1e-3, 1e3),
    st.integers(1, 10**6),
    st.floats(1e-3, 1e3),
    st.booleans(),
    st.integers(0, 5),
)
def test_a_whole_root_is_the_last_number_that_will_do(power, scale, start, target, rising, steps):
    def value(x):
        smooth = scale * x ** (power if rising else -power)
        return round(smooth, steps) if steps else smooth

    most = 10**6
    place = search.whole_root(value, target, start=start, growth=0.5 if rising else -0.5, most=most)
    will_do = [value(x) <= target for x in (1, most)]
    if rising:
        if not will_do[0]:
            assert place == 0
        else:
            assert value(place) <= target
            assert place == most or value(place + 1) > target
    elif not will_do[1]:
        assert place is None
    else:
        assert value(place) <= target
        assert place == 1 or value(place - 1) > target


def test_whole_roots_of_steps_and_infinities():
    root = search.whole_root
    assert root(lambda x: math.inf if x < 777 else 0.0, 0.5, start=3, growth=-0.5, most=10**9) == 777
    assert root(lambda x: 1.0, 0.5, start=3, growth=-0.5, most=10**9) is None
    assert root(lambda x: 0.0 if x <= 41 else 2.0, 1.0, start=16, growth=1.0, most=10**9) == 41
    assert root(lambda x: 0.0, 1.0, start=16, growth=1.0, most=10**9) == 10**9


@pytest.mark.parametrize("growth", [0.5, -0.5])
def test_a_tolerance_of_a_whole_root_saves_tries_and_keeps_the_promise(growth):
    look, tried = recorded(lambda x: x**growth)
    target = 123456.7**growth
    place = search.whole_root(look, target, start=1, growth=growth, most=10**9, tolerance=1e-2)
    assert tried[place] <= target
    assert place == pytest.approx(123456.7, rel=1e-2)
    assert len(tried) < 15


@pytest.mark.parametrize("target", [1e-300, 1e-9, 0.3, 1.0, 2.0, 1234.5, 1e200])
def test_real_edges_are_found_from_the_safe_side(target):
    for start in (1e-3, 1.0, 1e4):
        least = search.least_real(lambda x: x >= target, start=start)
        assert target <= least <= target * (1 + 2e-12)
        greatest = search.greatest_real(lambda x: x <= target, start=start)
        assert target * (1 - 2e-12) <= greatest <= target


def test_the_ends_of_the_reals():
    assert search.least_real(lambda x: False) is None
    assert search.least_real(lambda x: x >= 10.0, most=9.0) is None
    assert search.least_real(lambda x: x >= 9.0, most=9.0) == 9.0
    assert search.greatest_real(lambda x: True) == math.inf
    assert search.greatest_real(lambda x: False) == 0.0
    assert search.least_real(lambda x: True) == 5e-324


def test_slow_growth_finds_a_condition_that_holds_on_a_short_stretch_only():
    short = (1.0, 1.2)
    assert search.least_real(lambda x: short[0] <= x <= short[1], start=0.35, most=9.0) is None
    place = search.least_real(lambda x: short[0] <= x <= short[1], start=0.3, most=9.0, growth=1.1)
    assert short[0] <= place <= short[0] * (1 + 1e-11)
    assert search.least_real(lambda x: False, start=0.0, most=1.0) is None


def test_an_edge_is_approached_from_either_side_and_stops_between_neighbours():
    assert 0.25 <= search.edge(lambda x: x >= 0.25, 1.0, 0.0) <= 0.25 * (1 + 1e-12)
    assert 0.25 * (1 - 1e-12) <= search.edge(lambda x: x <= 0.25, 0.0, 1.0) <= 0.25
    assert abs(search.edge(lambda x: x >= -2.0, 0.0, -8.0, relative=0.0, absolute=0.01) + 2.0) <= 0.01
    assert search.edge(lambda x: x > 1.0, 2.0, 1.0, relative=0.0) == math.nextafter(1.0, 2.0)
    assert search.edge(lambda x: False, 3.0, 1.0) == 3.0


FUNCTIONS = {
    "line": lambda x: x - 0.3,
    "square": lambda x: x * x - 0.3,
    "flat": lambda x: (x - 0.3) ** 9,
    "steep": lambda x: math.expm1(60 * (x - 0.3)),
    "step": lambda x: 1.0 if x >= 0.3 else -1.0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_root_is_as_near_as_it_must_be_and_never_on_the_wrong_side(name):
    function = FUNCTIONS[name]
    for narrow in (1e-3, 1e-9):
        look, tried = recorded(function)
        place = search.safe_root(look, 1.0, 0.0, function(1.0), function(0.0), narrow=narrow)
        assert tried.get(place, function(place)) >= 0.0
        assert function(place - narrow) < 0.0 or place - narrow <= 0.0
        assert len(tried) <= math.ceil(math.log2(1.0 / narrow)) + 2
        mirrored = search.safe_root(
            lambda x: function(-x), -1.0, 0.0, function(1.0), function(0.0), narrow=narrow
        )
        assert function(-mirrored) >= 0.0
        assert abs(mirrored + place) <= narrow


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("start", [1e-200, 1e-3, 0.29, 0.3, 0.31, 700.0])
def test_the_least_root_is_as_near_as_it_must_be_from_every_start(name, start):
    function = FUNCTIONS[name] if name != "steep" else lambda x: math.expm1(min(60 * (x - 0.3), 700.0))
    least = 0.3**0.5 if name == "square" else 0.3
    look, tried = recorded(function)
    place = search.least_root(look, start=start, most=1e3, relative=1e-9)
    assert tried[place] >= 0.0
    # Near 0.3 the flat function is rounded to zero on a stretch of its own.
    assert least * (1 - 1e-9) <= place <= least * (1 + 1e-8) or function(place * (1 - 1e-8)) < 0.0


def test_a_root_that_is_not_there_and_infinite_values():
    assert search.least_root(lambda x: -1.0, start=1.0, most=100.0, relative=1e-9) is None
    assert search.least_root(lambda x: -1.0, start=1.0, most=math.inf, relative=1e-9) is None
    assert search.least_root(lambda x: -1.0, start=0.0, most=5.0, relative=1e-9) is None
    assert search.least_root(lambda x: x - 9.0, start=1.0, most=9.0, relative=1e-9) == 9.0
    assert search.least_root(lambda x: math.nan, start=1.0, most=9.0, relative=1e-9) is None
    jump = search.least_root(
        lambda x: math.inf if x >= 2.5 else -math.inf, start=1.0, most=9.0, relative=1e-9
    )
    assert 2.5 <= jump <= 2.5 * (1 + 1e-9)
    assert 0.0 <= search.least_root(lambda x: 1.0, start=1.0, most=9.0, relative=1e-9) <= 5e-324


def test_a_smooth_root_takes_far_fewer_calls_than_bisection():
    look, tried = recorded(FUNCTIONS["square"])
    search.safe_root(look, 1.0, 0.0, 0.7, -0.3, narrow=1e-12)
    assert len(tried) <= 10


def test_a_root_search_ends_between_neighbours():
    place = search.safe_root(lambda x: x - 1.5, 2.0, 1.0, 0.5, -0.5, narrow=1e-300)
    assert place == 1.5


@pytest.mark.parametrize("lowest", [0.0, 0.1, 0.5, 0.99, 1.0])
def test_the_lowest_place_of_a_valley(lowest):
    look, tried = recorded(lambda x: abs(x - lowest) ** 1.5)
    place, value = search.least_of_valley(look, 0.0, 1.0, sections=60)
    assert abs(place - lowest) <= 0.618**59
    assert value == min(tried.values()) == tried[place]
    assert len(tried) <= 62


def test_a_second_valley_does_not_make_the_value_wrong():
    look, tried = recorded(lambda x: min((x - 0.2) ** 2, (x - 0.9) ** 2 - 0.01))
    place, value = search.least_of_valley(look, 0.0, 1.0)
    assert value == tried[place] == min(tried.values())


def test_the_least_place_in_a_box_and_at_its_border():
    def valley(at):
        return np.abs(at[0] - 0.7) + (at[1] + 3.0) ** 2 + 0.1 * np.abs(at[0] - 0.7) * np.abs(at[1])

    place = search.least_in_box(valley, ((0.0, 1.0), (-9.0, 4.0)), points=9, rounds=40, shrink=0.6)
    assert place == pytest.approx((0.7, -3.0), abs=1e-6)
    border = search.least_in_box(valley, ((0.8, 1.0), (-9.0, -4.0)), points=9, rounds=40, shrink=0.6)
    assert border == pytest.approx((0.8, -4.0), abs=1e-9)
