"""The search for a crossing finds it, whatever monotone function it is given."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning._method import boundary


@given(
    st.floats(0.05, 3.0),
    st.floats(1e-3, 1e3),
    st.integers(1, 10**6),
    st.floats(1e-3, 1e3),
    st.booleans(),
    st.integers(0, 5),
)
def test_it_is_the_last_good_number(power, scale, start, target, rising, steps):
    def value(x):
        smooth = scale * x ** (power if rising else -power)
        return round(smooth, steps) if steps else smooth

    most = 10**6
    found = boundary(value, target, start=start, growth=0.5 if rising else -0.5, most=most)
    good = [value(x) <= target for x in (1, most)]
    if rising:
        if not good[0]:
            assert found == 0
        else:
            assert value(found) <= target
            assert found == most or value(found + 1) > target
    elif not good[1]:
        assert found is None
    else:
        assert value(found) <= target
        assert found == 1 or value(found - 1) > target


def test_flat_ends_and_infinities():
    assert boundary(lambda x: math.inf if x < 777 else 0.0, 0.5, start=3, growth=-0.5, most=10**9) == 777
    assert boundary(lambda x: 1.0, 0.5, start=3, growth=-0.5, most=10**9) is None
    assert boundary(lambda x: 0.0 if x <= 41 else 2.0, 1.0, start=16, growth=1.0, most=10**9) == 41
    assert boundary(lambda x: 0.0, 1.0, start=16, growth=1.0, most=10**9) == 10**9


@pytest.mark.parametrize("growth", [0.5, -0.5])
def test_a_tolerance_saves_tries_and_keeps_the_promise(growth):
    tries = []

    def value(x):
        tries.append(x)
        return x**growth

    target = 123456.7**growth
    found = boundary(value, target, start=1, growth=growth, most=10**9, tolerance=1e-2)
    assert value(found) <= target
    assert found == pytest.approx(123456.7, rel=1e-2)
    assert len(tries) < 15
