"""Auditing discoveries: a guard keeps its rate, and one that finds everything is refuted."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast import Guard
from holdfast.audit import coverage
from holdfast.errors import InvalidArgument
from holdfast.guard import Discovery


def coins(rng):
    return Guard({"a": rng.integers(0, 2, 300), "b": rng.integers(0, 2, 300)})


def hunter(guard):
    """Claims what the training part suggests about fair coins; none of it is true."""
    for column in ("a", "b"):
        sign = ">" if np.mean(guard.train[column]) > 0.5 else "<"
        yield guard.discover(f"share({column} = 1) {sign} 0.5", rate=0.2), False
    yield guard.discover("share(a >= 0) > 0.5", rate=0.2), True


def test_a_guard_keeps_its_rate():
    found = coverage(coins, hunter, 25, rate=0.2, seed=3)
    assert not found.refuted
    assert found.details["found"] >= 20  # What is plainly true is found.
    assert found.quantity == "share of false discoveries"


def gullible(rng):
    return lambda claim: Discovery(claim, True, 20.0, 0.05, 0.05, 0.0)


def test_discovering_everything_is_refuted():
    found = coverage(gullible, lambda guard: [(guard("x > 0"), False), (guard("y > 0"), True)], 60, rate=0.2)
    assert found.refuted
    assert found.estimate == pytest.approx(0.5)


def test_a_rate_is_a_probability():
    with pytest.raises(InvalidArgument, match="rate"):
        coverage(gullible, list, 5, rate=2)
