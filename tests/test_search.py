"""The searches find exactly the right place, and what they return was tried and satisfies the condition."""

from __future__ import annotations

import doctest
import math

import pytest

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


def test_a_smooth_root_takes_far_fewer_calls_than_bisection():
    look, tried = recorded(FUNCTIONS["square"])
    search.safe_root(look, 1.0, 0.0, 0.7, -0.3, narrow=1e-12)
    assert len(tried) <= 25


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


def test_examples_run():
    assert doctest.testmod(search).failed == 0
