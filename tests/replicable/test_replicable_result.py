"""A result stands for its value and carries its promise; rounding to the shared grid has its exact law."""

from __future__ import annotations

import json
import math
import operator
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.errors import InvalidArgument
from holdfast.replicable import Result, Tape, round_to_grid
from holdfast.stability import Replicability


def _result(value, **details):
    return Result(value, Replicability(0.1), 0.05, 0.01, rows=10, tape=Tape("study-7"), details=details)


def test_a_result_says_in_words_what_is_promised():
    assert str(_result(0.25)) == (
        "0.25 (another sample and this tape give exactly this with probability 0.9 or more; it is within "
        "0.05 of the truth with probability 0.99 or more; 10 rows; tape:holdfast-1:study-7)"
    )
    without = Result("a", Replicability(0.05), None, None, rows=1_000, tape=Tape("x"))
    assert str(without) == (
        "a (another sample and this tape give exactly this with probability 0.95 or more; 1,000 rows; "
        "tape:holdfast-1:x)"
    )


def test_a_result_stands_for_its_value():
    number, index, array, texts = (
        _result(0.25),
        _result(3),
        _result(np.array([1.0, 2.0])),
        _result(["a", "b"]),
    )
    assert float(number) == 0.25
    assert int(index) == 3
    assert [10, 11, 12, 13][operator.index(index)] == 13
    assert np.asarray(array).tolist() == [1.0, 2.0]
    assert np.asarray(number, dtype=np.float32).dtype == np.float32
    assert (len(texts), list(texts), texts[1], "b" in texts) == (2, ["a", "b"], "b", True)
    assert not _result(0.0)
    assert _result(True)


def test_results_are_equal_when_their_values_are_and_hash_alike():
    assert _result(0.25) == _result(0.25, note="other")
    assert _result(0.25) == 0.25
    assert _result(0.25) != np.nextafter(0.25, 1)
    assert _result(np.array([1.0, 2.0])) == _result(np.array([1.0, 2.0]))
    assert _result(np.array([1.0, 2.0])) == [1.0, 2.0]
    assert _result(np.array([1.0, 2.0])) != _result(np.array([1.0, 2.5]))
    assert len({_result(0.25), _result(0.25), _result(np.ones(2)), _result(np.ones(2))}) == 2


def test_a_result_is_frozen_and_travels():
    array = np.array([1.0, 2.0])
    result = _result(array, scores=np.arange(2), gap=np.float64(0.5), count=np.int64(3))
    array[0] = 9.0
    assert result[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        result.value[0] = 2.0
    with pytest.raises(AttributeError):
        result.rows = 11
    assert pickle.loads(pickle.dumps(result)) == result
    told = json.loads(json.dumps(result.to_dict()))
    assert told["value"] == [1.0, 2.0]
    assert told["details"] == {"scores": [0, 1], "gap": 0.5, "count": 3}
    assert told["guarantee"] == {"rho": 0.1}
    assert told["tape"] == "tape:holdfast-1:study-7"
    assert "tape:holdfast-1:study-7" in repr(result)


@given(
    first=st.floats(-50, 50), gap=st.floats(0, 3), width=st.floats(1e-3, 10), steps=st.integers(2000, 2100)
)
def test_two_values_differ_with_probability_gap_over_width(first, gap, width, steps):
    # The midpoints of equal parts of (0, 1): the share of offsets that separate the two is exact to 2 parts.
    offsets = SimpleNamespace(uniforms=lambda size: (np.arange(size) + 0.5) / size)
    centres = [round_to_grid(np.full(steps, value), width, offsets) for value in (first, first + gap * width)]
    differ = centres[0] != centres[1]
    assert abs(differ.mean() - min(1.0, gap)) <= 2.0 / steps


def test_the_rounding_error_is_uniform_whatever_the_value(rng, seed):
    values = rng.standard_normal(20_000) * rng.choice([0.01, 1.0, 30.0], size=20_000)
    errors = round_to_grid(values, 0.7, Tape(seed)) - values
    assert stats.kstest(errors / 0.7 + 0.5, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(errors, values)[0, 1]) < 5 / math.sqrt(20_000)


def test_measured_mismatch_equals_the_law_and_a_private_offset_does_not(seed):
    tape, trials = Tape(seed), 20_000
    first = round_to_grid(np.full(trials, 0.3), 1.0, tape)
    for gap in (0.0, 0.13, 0.5, 0.97, 1.0, 1.7):
        law = min(1.0, gap)
        second = np.full(trials, 0.3 + gap)
        differ = int((first != round_to_grid(second, 1.0, tape)).sum())
        assert stats.binomtest(differ, trials, law).pvalue > 1e-6
        alone = int((first != round_to_grid(second, 1.0, tape.branch("private"))).sum())
        assert law == 1.0 or stats.binomtest(alone, trials, law).pvalue < 1e-6


def test_arrays_have_an_offset_for_each_coordinate_and_one_value_gives_one_bit_pattern():
    tape = Tape("grid")
    values = np.linspace(-3, 3, 12).reshape(3, 4)
    rounded = round_to_grid(values, 0.5, tape)
    assert rounded.shape == (3, 4)
    assert (np.abs(rounded - values) <= 0.25 + 1e-12).all()
    moved = round_to_grid(values + 1e-9, 0.5, tape)
    assert np.array_equal(rounded, moved)
    assert len(set(np.round((rounded / 0.5) % 1, 9).ravel().tolist())) == 12
    assert round_to_grid(0.2, 0.5, tape).shape == ()


@pytest.mark.parametrize("width", [0, -1, math.nan, math.inf, "1"])
def test_a_bad_width_is_refused(width):
    with pytest.raises(InvalidArgument, match="'width'"):
        round_to_grid(0.5, width, Tape("a"))


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_a_value_the_grid_cannot_hold_is_refused(value):
    with pytest.raises(InvalidArgument, match="'values'"):
        round_to_grid(value, 1e-3, Tape("a"))
