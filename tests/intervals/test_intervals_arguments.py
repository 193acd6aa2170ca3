"""Bad arguments are refused in one voice, by name."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast import intervals
from holdfast.errors import InvalidArgument
from holdfast.intervals import Interval
from holdfast.tails import SubGaussian

TAIL = SubGaussian(1.0)
GOOD = {
    "kl": {"mean": 0.5, "n": 10, "nats": 1.0, "lo": 0.0, "hi": 1.0, "most": 0.75},
    "hoeffding": {"mean": 0.5, "n": 10, "nats": 1.0, "lo": 0.0, "hi": 1.0},
    "clopper_pearson": {"successes": 5, "n": 10, "nats": 1.0, "most": 7},
    "empirical_bernstein": {"mean": 0.5, "variance": 0.1, "n": 10, "nats": 1.0, "lo": 0.0, "hi": 1.0},
    "empirical_bernstein_radius": {"variance": 0.1, "n": 10, "nats": 1.0, "width": 1.0},
    "e_mean": {"mean": 0.5, "variance": 0.1, "n": 10, "nats": 1.0, "lo": 0.0, "hi": 1.0, "rates": (1.0, 1.0)},
    "e_mean_rates": {"guess": 0.5, "variance": 0.1, "n": 10, "nats": 1.0, "lo": 0.0, "hi": 1.0, "reach": 0.1},
    "betting": {"values": [0.0, 0.5, 1.0], "nats": 1.0, "lo": 0.0, "hi": 1.0},
    "quantile_ranks": {"n": 10, "q": 0.5, "nats": 1.0},
    "quantile": {"sorted_values": [1.0, 2.0, 3.0], "q": 0.5, "nats": 1.0},
    "quantile_ranks_from_tail": {"n": 10, "q": 0.5, "tail": TAIL, "nats": 1.0},
    "from_tail": {"value": 1.0, "tail": TAIL, "nats": 1.0},
    "difference": {"first": Interval(0.0, 1.0), "second": Interval(0.0, 1.0)},
    "ratio": {"numerator": Interval(0.0, 1.0), "denominator": Interval(0.5, 1.0), "lo": 0.0, "hi": 1.0},
    "of_filtered_mean": {"mean": 0.5, "count": 10, "nats": 1.0, "lo": 0.0, "hi": 1.0},
    "filtered_from_tail": {"mean": 0.5, "share": 0.5, "tail": TAIL, "nats": 1.0, "lo": 0.0, "hi": 1.0},
}
GOOD |= {
    "sign_test": {"wins": 3, "losses": 1, "nats": 1.0},
    "gain_steps": {"differences": [1.0] * 9, "nats": 1.0, "step": 0.1, "least": 0.0, "sizes": [1.0] * 9},
    "mean_interval": {"values": [0.0, 0.5, 1.0], "nats": 1.0, "lo": 0.0, "hi": 1.0},
    "units_needed": {"nats": 1.0, "least": 0.0},
    "certified_gain": {"tasks": 100, "nats": 1.0, "baseline": 0.5, "ratio": 4, "least": 0.0},
}
GOOD["e_mean"]["norm"] = GOOD["e_mean_rates"]["norm"] = 0.5
GOOD |= {
    "chain_share": {"count": 5, "rows": 10, "nats": 1.0, "norm": 0.5},
    "chain_mean": {"mean": 0.5, "square": 0.1, "rows": 10, "nats": 1.0, "norm": 0.5, "lo": 0.0, "hi": 1.0}
    | {"centre": 0.4, "share": 0.5},
    "chain_mean_radius": {"spread": 0.1, "rows": 10, "nats": 1.0, "norm": 0.5, "width": 1.0},
}
NOT_NUMBERS = [math.nan, math.inf, -math.inf, "1", None, True, 1j, [1.0]]
BAD = {
    "mean": [*NOT_NUMBERS, -0.1, 1.1],
    "n": [*NOT_NUMBERS, -1, 2.5],
    "nats": [*NOT_NUMBERS, -1e-9],
    "lo": [*NOT_NUMBERS, 1.0, 2.0],
    "hi": [*NOT_NUMBERS, 0.0, -1.0],
    "successes": [*NOT_NUMBERS, -1, 11, 0.5],
    "most": [*(bad for bad in NOT_NUMBERS if bad is not None), 0.25, 11],
    "variance": [*NOT_NUMBERS, -0.1],
    "width": [*NOT_NUMBERS, 0.0, -1.0],
    "values": [
        0.5,
        [math.nan],
        [0.0, 1.5],
        [-0.1],
        [math.inf],
        ["0.5"],
        [[0.5]],
        [[0.1], [0.2, 0.3]],
        None,
        [0.5j],
    ],
    "sorted_values": [
        0.5,
        [math.nan],
        [1.0, math.inf],
        [2.0, 1.0],
        ["1"],
        [[1.0]],
        None,
        [1.0, math.nan, 2.0],
    ],
    "q": [*NOT_NUMBERS, 0.0, 1.0, -0.5],
    "tail": [None, 1.0, SubGaussian],
    "value": NOT_NUMBERS,
    "first": [None, (0.0, 1.0), 0.5],
    "second": [None, (0.0, 1.0), 0.5],
    "numerator": [None, (0.0, 1.0), 0.5],
    "denominator": [None, (0.0, 1.0), 0.5],
    "count": [*NOT_NUMBERS, -1, 2.5],
    "share": [*NOT_NUMBERS, -0.1, 1.1],
    "guess": [*NOT_NUMBERS, -0.1, 1.1],
    "reach": [*NOT_NUMBERS, -0.1],
    "wins": [*NOT_NUMBERS, -1, 2.5],
    "losses": [*NOT_NUMBERS, -1, 2.5],
    "differences": [0.5, [], [math.nan] * 9, [2.0] * 9, [math.inf] * 9, ["1"] * 9, [[1.0]], None],
    "sizes": [1.0, [1.0], [0.0] * 9, [-1.0] * 9, [math.nan] * 9, ["1"] * 9],
    "step": [*NOT_NUMBERS, 0.0, 1.5],
    "least": [*NOT_NUMBERS, -0.1, 1.0],
    "tasks": [*NOT_NUMBERS, 0, 2.5],
    "baseline": [*NOT_NUMBERS, -0.1, 1.1],
    "ratio": [*NOT_NUMBERS, 1, 2.5],
    "rates": [None, 1.0, (1.0,), (0.0, 1.0), (1.0, math.nan), ([], 1.0), ("1", 1.0)],
}
BAD |= {
    "rows": [*NOT_NUMBERS, -1, 2.5],
    "norm": [*NOT_NUMBERS, -0.1, 1.0, 1.5],
    "square": [*NOT_NUMBERS, -0.1, 0.181],
    "centre": [*NOT_NUMBERS, -0.1, 1.1],
    "spread": [*NOT_NUMBERS, -0.1],
}
# Bounds out of order are the fault of either; a bound moved past the mean is the mean's fault.
BLAMED = {"lo": {"lo", "hi", "mean", "values", "centre"}, "hi": {"hi", "mean", "values", "centre"}}


def test_every_function_is_listed_here():
    assert {*GOOD, "Interval"} == set(intervals.__all__)


@pytest.mark.parametrize("name", GOOD)
def test_good_arguments_are_taken(name):
    assert getattr(intervals, name)(**GOOD[name]) is not None


def refused(name, arguments):
    """The argument that the refusal names; None where nothing is refused."""
    try:
        getattr(intervals, name)(**arguments)
    except InvalidArgument as refusal:
        return refusal.argument
    return None


@pytest.mark.parametrize("name", GOOD)
def test_bad_arguments_are_refused_by_name(name):
    for argument in GOOD[name]:
        for bad in BAD[argument]:
            named = refused(name, {**GOOD[name], argument: bad})
            assert named in BLAMED.get(argument, {argument}), (argument, bad)


@pytest.mark.parametrize("name", ["kl", "hoeffding", "empirical_bernstein", "empirical_bernstein_radius"])
def test_a_mean_of_no_rows_is_refused(name):
    with pytest.raises(InvalidArgument, match="at least 1"):
        getattr(intervals, name)(**{**GOOD[name], "n": 0})


def test_bounds_too_far_apart_are_refused():
    with pytest.raises(InvalidArgument, match="hi - lo finite"):
        intervals.kl(0.0, 10, 1.0, lo=-1.5e308, hi=1.5e308)


def test_a_long_sequence_is_not_printed_in_the_message():
    with pytest.raises(InvalidArgument) as caught:
        intervals.quantile(np.arange(10**6)[::-1], 0.5, 1.0)
    assert "999999 before 999998" in str(caught.value)
    with pytest.raises(InvalidArgument) as caught:
        intervals.betting(["a"] * 10**5, 1.0)
    assert len(str(caught.value)) < 200
