"""Gates at the edges: large minimum effects, tiny steps, high confidence, unequal clusters, many tasks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from holdfast import Gate
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.intervals import gain_steps

INCUMBENT = {task: int(task < 210) for task in range(300)}
NOTHING = dict.fromkeys(range(300), 0)


@pytest.mark.parametrize(
    "terms", [{"minimum": 0.97}, {"minimum": 0.999_999}, {"minimum": 1 - 1e-12}, {"confidence": 1 - 1e-12}]
)
def test_a_gate_that_can_show_nothing_says_how_many_tasks_it_needs(terms):
    few = dict.fromkeys(range(30), 0)
    with pytest.raises(NotEnoughRows) as refusal:
        Gate(None, incumbent=few, **terms)
    assert refusal.value.got == 30
    if refusal.value.needed < 1_000:
        for tasks, enough in ((refusal.value.needed - 1, False), (refusal.value.needed, True)):
            ids = dict.fromkeys(range(tasks), 0)
            if enough:
                gate = Gate(None, incumbent=ids, **terms)
                assert gate.submit(dict.fromkeys(range(tasks), 1), name="all").promoted
            else:
                with pytest.raises(NotEnoughRows):
                    Gate(None, incumbent=ids, **terms)


def test_clusters_of_too_unequal_sizes_are_refused_before_anything_is_opened():
    clusters = {task: 0 if task < 290 else task for task in range(300)}
    with pytest.raises(QueryRejected, match="clusters differ too much"):
        Gate(None, incumbent=NOTHING, clusters=clusters)
    gate = Gate(None, incumbent=NOTHING, clusters=clusters, weight="clusters")
    assert gate.submit(dict.fromkeys(range(300), 1), name="all").promoted


def test_the_gain_that_is_needed_counts_the_minimum():
    gate = Gate(None, incumbent=INCUMBENT, minimum=0.05)
    needed = gate.needed_gain(baseline=0.7)
    broken = round(needed * 300 / 3)
    for losses, promoted in ((broken - 1, False), (broken, True)):
        candidate = {task: int(losses <= task < 210 + 4 * losses) for task in range(300)}
        assert Gate(None, incumbent=INCUMBENT, minimum=0.05).submit(candidate, name="c").promoted is promoted
    assert gate.status()["needed_gain"] == gate.needed_gain()


@pytest.mark.parametrize("step", [0.0, 1e-300, 5e-324, -0.1, 1.5, math.nan, "0.1", None])
def test_steps_are_neither_tiny_nor_large(step):
    if step is None:
        assert Gate(None, incumbent=INCUMBENT, step=step).step == 0.02
        return
    with pytest.raises(InvalidArgument, match="step"):
        Gate(None, incumbent=INCUMBENT, step=step)


def test_the_smallest_step_costs_more_and_is_still_right():
    gate = Gate(None, incumbent=INCUMBENT, step=1e-9)
    verdict = gate.submit({task: int(task < 260) for task in range(300)}, name="fine")
    assert verdict.promoted
    assert 0.05 < verdict.margin < 50 / 300
    assert verdict.cost > 2 * math.log(verdict.margin / 1e-9)


@pytest.mark.parametrize("tasks", [6, 50, 99, 100, 101, 250, 300, 999, 1_000, 3_000, 20_000])
def test_the_default_step_is_about_five_tasks(tasks):
    step = Gate(None, incumbent=dict.fromkeys(range(tasks), 0)).step
    assert 5 / tasks <= step * (1 + 1e-9) <= 12.5 / tasks + 1e-9 or step == 1
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - whole) for whole in (1, 2, 5)) < 1e-9


def test_high_confidence():
    gate = Gate(None, incumbent=INCUMBENT, confidence=0.999_999)
    assert not gate.submit({task: int(task < 225) for task in range(300)}, name="a").promoted
    verdict = gate.submit({task: int(task < 260) for task in range(300)}, name="b")
    assert verdict.promoted
    assert "With probability 0.999999 no promotion" in verdict.text
    certain = Gate(None, incumbent=INCUMBENT, confidence=0.999_999_999).submit(
        {task: int(task < 260) for task in range(300)}, name="b"
    )
    assert "With probability 1 " not in certain.text


def test_a_hundred_thousand_tasks(rng):
    scores = (rng.random(10**5) < 0.7).astype(float)
    incumbent = {str(task): score for task, score in enumerate(scores)}
    gate = Gate(None, incumbent=incumbent)
    fixed = np.flatnonzero(scores == 0)[:1_000]
    better = scores.copy()
    better[fixed] = 1
    verdict = gate.submit({str(task): score for task, score in enumerate(better)}, name="better")
    assert verdict.promoted
    steps = gain_steps(better - scores, nats=verdict.level, step=gate.step, binary=True)
    assert verdict.margin == pytest.approx(steps * gate.step)
    assert 0.008 < verdict.margin < 0.01


def test_one_task_is_never_enough():
    with pytest.raises(NotEnoughRows, match="needs at least 6 tasks; the sample has 1"):
        Gate(["only"], incumbent={"only": 0})
