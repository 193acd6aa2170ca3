"""What a gate can see, before it is opened: the table of the theory page, and a simulated gate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from holdfast import Gate
from holdfast.errors import InvalidArgument
from holdfast.intervals import sign_test
from holdfast.planning import gate_gain, gate_power, gate_tasks

TASKS = (100, 300, 1_000)


@pytest.mark.parametrize(
    ("candidate", "expect", "gains"),
    [
        (1, None, (0.09, 0.03, 0.009)),
        (20, None, (math.inf, 0.09, 0.027)),
        (20, 20, (0.18, 0.06, 0.018)),
    ],
)
def test_the_smallest_observed_gains_of_the_theory_page(candidate, expect, gains):
    for promise in ("family", "fdr"):
        computed = [
            gate_power(tasks, candidate, baseline=0.7, expect=expect, promise=promise) for tasks in TASKS
        ]
        assert computed == pytest.approx(gains)


@pytest.mark.parametrize(("power", "gains"), [(0.5, (0.078, 0.026, 0.008)), (0.8, (0.138, 0.046, 0.014))])
def test_the_true_gains_of_the_theory_page(power, gains):
    assert [round(gate_gain(tasks, 1, power=power).gain, 3) for tasks in TASKS] == list(gains)


@pytest.mark.parametrize(("differing", "power"), [(0.06, 0.59), (0.1, 0.22)])
def test_the_share_of_tasks_that_differ_decides(differing, power):
    plan = gate_gain(300, 50, differing=differing, expect=50)
    assert exact_power(300, plan.level, 0.05, differing) == pytest.approx(power, abs=0.005)
    # And the other way round: a gain of .05 is what this power needs.
    reached = exact_power(300, plan.level, 0.05, differing)
    assert gate_gain(300, 50, differing=differing, expect=50, power=reached).gain == pytest.approx(
        0.05, rel=1e-3
    )


def exact_power(tasks, level, gain, differing):
    """A sum over all numbers of wins and losses, without binomial tails."""
    fixed, broken = (differing + gain) / 2, (differing - gain) / 2
    total = 0.0
    for wins in range(tasks + 1):
        first = stats.binom.pmf(wins, tasks, fixed)
        if first < 1e-13:
            continue
        most = -1  # the largest number of losses that is still promoted
        while most < wins and most < tasks - wins and sign_test(wins, most + 1, level):
            most += 1
        if most >= 0:
            total += first * stats.binom.cdf(most, tasks - wins, broken / (1 - fixed))
    return total


@pytest.mark.parametrize(("tasks", "candidate", "expect"), [(60, 1, None), (60, 4, 5), (150, 8, None)])
def test_the_level_is_that_of_a_real_gate(tasks, candidate, expect):
    incumbent = dict.fromkeys(range(tasks), 0)
    gate = Gate(None, incumbent=incumbent, expect=expect)
    for number in range(candidate - 1):
        assert not gate.submit(incumbent, name=f"c{number}").promoted
    assert gate.needed_gain(0.5) == gate_power(tasks, candidate, baseline=0.5, expect=expect)
    needed = gate_power(tasks, candidate, baseline=0.0, expect=expect)
    broken = round(needed * tasks / 3)
    solved = {task: int(task < 4 * broken) for task in range(tasks)}
    started = {task: int(4 * broken <= task < 5 * broken) for task in range(tasks)}
    again = Gate(None, incumbent=started, expect=expect)
    for number in range(candidate - 1):
        again.submit(started, name=f"c{number}")
    verdict = again.submit(solved, name="last")
    assert verdict.promoted
    assert verdict.level == pytest.approx(gate_gain(tasks, candidate, expect=expect).level, abs=2e-6)


def test_power_is_what_a_simulated_gate_reaches(rng):
    """The first candidate on 60 tasks, by the real gate: within the exact binomial limits."""
    tasks, gain, differing, runs = 60, 0.2, 0.3, 150
    plan = gate_gain(tasks, 1, differing=differing)
    expected = exact_power(tasks, plan.level, gain, differing)
    promoted = 0
    for _ in range(runs):
        kinds = rng.choice(3, size=tasks, p=[(differing + gain) / 2, (differing - gain) / 2, 1 - differing])
        incumbent = dict(enumerate((kinds == 1).astype(int).tolist()))
        candidate = dict(enumerate((kinds == 0).astype(int).tolist()))
        promoted += Gate(None, incumbent=incumbent, scores="binary").submit(candidate, name="c").promoted
    assert stats.binom.cdf(promoted, runs, expected) > 1e-5
    assert stats.binom.sf(promoted - 1, runs, expected) > 1e-5
    assert 0.3 < expected < 0.95


def test_tasks_and_gain_are_inverse():
    for gain, candidate, differing, power in itertools.product((0.03, 0.1), (1, 20), (None, 0.2), (0.5, 0.8)):
        tasks = gate_tasks(gain, candidate, differing=differing, power=power)
        plan = gate_gain(tasks, candidate, differing=differing, power=power)
        assert plan.gain <= gain * 1.001
        # A tenth fewer tasks are not enough: power makes small steps, and those are smaller.
        fewer = gate_gain(int(0.9 * tasks), candidate, differing=differing, power=power)
        assert fewer.gain > gain


def test_more_of_everything():
    assert gate_tasks(0.05, 1) < gate_tasks(0.05, 20, expect=20) < gate_tasks(0.05, 20)
    assert gate_tasks(0.05, 1) < gate_tasks(0.05, 1, power=0.95)
    assert gate_tasks(0.05, 1) < gate_tasks(0.05, 1, confidence=0.999)
    assert gate_tasks(0.05, 1, differing=0.1) < gate_tasks(0.05, 1, differing=0.5)
    gains = [gate_gain(tasks, 1).gain for tasks in (50, 100, 400, 2_000, 20_000)]
    assert (np.diff(gains) < 0).all()


def test_words():
    plan = gate_gain(300, 50, differing=0.1, expect=50)
    assert plan.text == repr(plan)
    assert "Candidate 50 on 300 tasks: a true gain of 0.07" in plan.text
    assert "if 0.1 of the tasks differ" in plan.text
    hopeless = gate_gain(10, 100)
    assert math.isinf(hopeless.gain)
    assert "no gain is seen with probability 0.8. Use more tasks." in hopeless.text
    assert plan.to_dict()["candidates"] == 50


BAD = [
    (lambda: gate_power(0, 1, baseline=0.7), "tasks"),
    (lambda: gate_power(100, 0, baseline=0.7), "candidates"),
    (lambda: gate_power(100, 1.5, baseline=0.7), "candidates"),
    (lambda: gate_power(100, 1, baseline=1.1), "baseline"),
    (lambda: gate_power(100, 1, baseline=math.nan), "baseline"),
    (lambda: gate_power(100, 1, baseline=0.7, confidence=1), "confidence"),
    (lambda: gate_power(100, 1, baseline=0.7, expect=0), "expect"),
    (lambda: gate_power(100, 1, baseline=0.7, promise="each"), "promise"),
    (lambda: gate_gain(10**8, 1), "tasks"),
    (lambda: gate_gain(100, 1, power=1), "power"),
    (lambda: gate_gain(100, 1, power=0), "power"),
    (lambda: gate_gain(100, 1, differing=0), "differing"),
    (lambda: gate_gain(100, 1, differing=1.1), "differing"),
    (lambda: gate_tasks(0, 1), "gain"),
    (lambda: gate_tasks(1, 1), "gain"),
    (lambda: gate_tasks(0.2, 1, differing=0.1), "differing"),
    (lambda: gate_tasks(1e-7, 1), "gain"),
    (lambda: gate_tasks(0.1, "1"), "candidates"),
]


@pytest.mark.parametrize(("call", "argument"), BAD)
def test_bad_input(call, argument):
    with pytest.raises(InvalidArgument, match=f"'{argument}'"):
        call()
