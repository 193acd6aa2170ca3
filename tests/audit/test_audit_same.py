"""Results are the same when every value in them is, and not otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.audit import replicability
from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape, mean

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=3), inside, max_size=3),
    max_leaves=6,
)


def same(first, second):
    """Whether an audit takes two results for the same: they are those of its only pair of runs."""
    results = iter([first, second])
    found = replicability(lambda rows: next(results), lambda rng: None, 1)
    return found.details["different"] == 0


@given(plain, plain)
def test_two_values_are_the_same_exactly_when_they_are_equal(a, b):
    def normal(value):
        if isinstance(value, float) and math.isnan(value):
            return "NaN"
        if isinstance(value, bool):
            return f"bool {value}"  # True is not 1 here
        if isinstance(value, list):
            return tuple(map(normal, value))
        if isinstance(value, dict):
            return frozenset((name, normal(inside)) for name, inside in value.items())
        return value

    assert same(a, b) == (normal(a) == normal(b) and isinstance(a, dict) == isinstance(b, dict))


@dataclass
class Model:
    weights: tuple
    name: str = "m"


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (np.float64(0.1), 0.1, True),
        (0.1 + 0.2, 0.3, False),
        (np.arange(20), np.arange(20), True),
        (np.arange(20.0), np.nextafter(np.arange(20.0), 99), False),
        (np.arange(20).reshape(4, 5), np.arange(20).reshape(5, 4), False),
        (np.array([1.0, np.nan] * 9), np.array([1.0, np.nan] * 9), True),
        ({"b", "a"}, {"a", "b"}, True),
        (Model((1, 2)), Model((1, 2)), True),
        (Model((1, 2)), Model((1, 3)), False),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 2]}), True),
        (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]}), False),
        (1 + 2j, 1 + 2j, True),
        ("x" * 1000, "x" * 999 + "y", False),
        ([1, [2]], [[1], 2], False),
    ],
)
def test_what_counts_as_the_same(a, b, alike):
    assert same(a, b) is alike


def test_a_result_stands_for_its_value(rng):
    rows = rng.random(900)
    results = [
        mean(part, accuracy=0.2, rho=0.3, beta=0.1, bounds=(0, 1), tape=Tape("same"))
        for part in (rows, rows[1:])
    ]
    assert results[0].rows != results[1].rows
    assert all(same(result, float(result)) for result in results)
    assert not same(results[0], float(results[0]) + 1)


def test_what_cannot_be_compared_is_said():
    with pytest.raises(InvalidArgument, match="result"):
        same(lambda: 0, 0)
