"""One reading for every statistic: what is released contains the interval of a query fixed in advance."""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Guard
from holdfast.coding import ArmClasses
from holdfast.dependence import Clusters
from holdfast.engines import unsealed
from holdfast.errors import NotEnoughRows

QUESTIONS = (
    "share(flag)",
    "share(flag, where = group = 1)",
    "share(flag, where = group = 7, guess = 0.5)",
    "mean(x, 0, 10)",
    "mean(x, 0, 10, guess = 9)",
    "mean(x, -5, 1000)",
    "mean(x, 0, 10, where = group = 1)",
    "mean(x, 0, 10, where = group = 2, guess = 0)",
    "quantile(x, 0.5)",
    "quantile(x, 0.2, where = group = 1)",
)
LAWS = {
    "uniform": lambda rng, n: rng.uniform(0, 10, n),
    "long tail": lambda rng, n: np.minimum(rng.lognormal(0, 1.5, n), 10),
    "two points": lambda rng, n: rng.choice([0.0, 10.0], n, p=[0.97, 0.03]),
    "constant": lambda rng, n: np.full(n, 10.0),
    "few values": lambda rng, n: rng.integers(0, 3, n).astype(float),
}


def drawn(law, rows, seed):
    rng = np.random.default_rng(seed)
    flag, group = rng.random(rows) < rng.uniform(0, 1), rng.integers(0, 3, rows)
    return {"x": LAWS[law](rng, rows), "flag": flag, "group": group}


@cache
def guard_on(law, other, rows, seed, dependent):
    """A guard whose protected rows follow one law and whose training rows another."""
    data, train = drawn(law, rows, seed), drawn(other, rows // 2, seed + 1)
    model = Clusters([2] * (rows // 2)) if dependent else None
    return Guard(data, train=train, dependence=model)


def released_and_measured(guard, text):
    """The interval that would be released now, and the one for a query fixed in advance."""
    prepared = guard._strategy.prepare(guard._questions.read(text), guard._session.account)
    part = guard._setup.protected
    with unsealed():
        output, measured = prepared.reading.output(part, prepared.grid), prepared.reading.measured(part)
    return output, prepared.interval(output), measured


def too_short(guard, text):
    """Whether an end of the fixed-query interval sticks out of what is released."""
    _, interval, measured = released_and_measured(guard, text)
    if measured is None:
        return False
    inside = measured.interval
    slack = 1e-9 * (1 + abs(inside.low) + abs(inside.high))
    low, high = (
        max(inside.low, guard._questions.read(text).low),
        min(inside.high, guard._questions.read(text).high),
    )
    return interval.low > low + slack or interval.high < high - slack


WORLDS = st.tuples(
    st.sampled_from(sorted(LAWS)),
    st.sampled_from(sorted(LAWS)),
    st.sampled_from([40, 400, 3000]),
    st.integers(0, 3),
    st.booleans(),
)


@settings(max_examples=30)
@given(WORLDS, st.sampled_from(QUESTIONS))
def test_what_is_released_contains_the_fixed_query_interval(world, text):
    with suppress(NotEnoughRows):  # A quantile of few rows is refused beforehand.
        assert not too_short(guard_on(*world), text)


def test_a_class_that_is_one_too_short_is_caught(monkeypatch):
    real = ArmClasses.least
    monkeypatch.setattr(ArmClasses, "least", lambda self, stretch: real(self, stretch) - 1)
    worlds = [("long tail", "uniform", 3000, seed, False) for seed in range(4)]
    assert any(too_short(guard_on(*world), text) for world in worlds for text in QUESTIONS[1:])


def test_a_filter_that_nothing_passes_is_the_whole_range():
    guard = guard_on("uniform", "uniform", 400, 0, False)
    output, interval, measured = released_and_measured(guard, "share(flag, where = group = 7, guess = 0.5)")
    assert output.whole
    assert measured is None
    assert (interval.low, interval.high) == (0, 1)


@pytest.mark.parametrize(("text", "most"), [("mean(x, 0, 10)", 1.5), ("share(flag, where = group = 1)", 1.2)])
def test_the_released_interval_is_little_wider_than_the_measured_one(text, most):
    guard = guard_on("uniform", "uniform", 3000, 0, False)
    _, interval, measured = released_and_measured(guard, text)
    assert interval.half_width < most * measured.interval.half_width + guard.cost_preview(text).cell
