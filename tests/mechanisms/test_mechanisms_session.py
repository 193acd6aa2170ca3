"""The k-fold composition mechanism runs k steps, no more, and says what they add up to."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.mechanisms import AdaptiveSession
from holdfast.stability import TwoSampleStability, TypicalStability
from holdfast.tails import SubGaussian

STEP = TypicalStability(0.1, nu=1e-12)
TAIL = SubGaussian(0.02)
DATA = np.linspace(0.0, 1.0, 101)


def session(steps=3, step=STEP, **options):
    return AdaptiveSession(DATA, steps, step, **{"slack": 1e-6, **options})


@pytest.mark.parametrize("method", ["sharp", "paper"])
def test_the_whole_session_has_the_composed_stability(method):
    one = session(7, method=method)
    assert one.stability == STEP.compose(7, slack=1e-6, method=method)
    assert one.step == STEP


def test_it_runs_k_steps_and_refuses_the_next():
    one = session(3)
    for left in (2, 1, 0):
        release = one.ask(np.mean, TAIL)
        assert release.stability == STEP
        assert one.left == left
    ran = []
    with pytest.raises(BudgetSpent, match="All 3 steps") as caught:
        one.ask(lambda data: ran.append(1), TAIL)
    assert ran == []
    assert (caught.value.asked, caught.value.spent, caught.value.left) == (0.1, one.stability.eta, 0.0)
    with pytest.raises(BudgetSpent):
        one.run(lambda data: 0)
    assert (one.taken, one.left) == (3, 0)


def test_a_step_takes_the_noise_that_its_stability_needs():
    pure = session().ask(np.mean, TAIL)
    assert pure.noise.kind == "laplace"
    assert pure.noise.scale == pytest.approx(TAIL.radius(1e-12) / 0.1)
    approximate = session(step=TypicalStability(0.1, 1e-9, 1e-12)).ask(np.mean, TAIL)
    assert approximate.noise.kind == "gaussian"
    assert approximate.stability == TypicalStability(0.1, 1e-9, 1e-12)
    several = session().ask(lambda data: np.quantile(data, [0.1, 0.5, 0.9]), TAIL)
    assert several.value.shape == (3,)


def test_any_algorithm_runs_on_the_data_if_it_is_stable_enough():
    one = session()
    assert one.run(lambda data: data is DATA) is True
    assert one.run(len, TypicalStability(0.05)) == 101
    for weaker in (
        TypicalStability(0.2),
        TypicalStability(0.1, 1e-9),
        TypicalStability(0.1, 0.0, 1e-3),
        TwoSampleStability(0.1),
        0.1,
    ):
        with pytest.raises(InvalidArgument, match="at least as strong"):
            one.run(lambda data: pytest.fail("it ran"), weaker)
    assert one.left == 1


def test_a_step_that_fails_is_a_step_taken():
    one = session()
    with pytest.raises(ZeroDivisionError):
        one.run(lambda data: 1 / 0)
    with pytest.raises(InvalidArgument, match="not shown"):
        one.ask(lambda data: float("nan"), TAIL)
    assert one.left == 1
    with pytest.raises(InvalidArgument, match="tail"):
        one.ask(np.mean, 0.5)
    assert one.left == 1


@pytest.mark.parametrize("step", [TypicalStability(0.1), TypicalStability(0.0, nu=1e-3)])
def test_a_step_that_no_noise_reaches_is_not_taken(step):
    one = session(step=step)
    with pytest.raises(InvalidArgument, match="nu > 0"):
        one.ask(np.mean, TAIL)
    assert one.left == 3
    assert one.run(len) == 101


def test_many_threads_get_k_steps_together():
    one = session(50)
    outcomes = []

    def take() -> None:
        for _ in range(20):
            try:
                outcomes.append(one.run(lambda data: True))
            except BudgetSpent:
                outcomes.append(False)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(outcomes), len(outcomes)) == (50, 160)


def test_a_simulated_session_repeats_and_says_so(seed):
    def values():
        one = session(simulation=True, seed=seed)
        return [one.ask(np.mean, TAIL) for _ in range(3)]

    first, second = values(), values()
    assert [r.value for r in first] == [r.value for r in second]
    assert len({r.value for r in first}) == 3
    assert all(r.simulated for r in first)
    with pytest.raises(InvalidArgument, match="seed"):
        session(seed=seed)
    assert not session().ask(np.mean, TAIL).simulated


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"step": TwoSampleStability(0.1)}, "step"),
        ({"step": 0.1}, "step"),
        ({"slack": 0.0}, "slack"),
        ({"method": "best"}, "method"),
    ],
)
def test_bad_arguments_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        session(**change)
    assert caught.value.argument == named
