"""What every compiler keeps to: four things to read, a path, and a result that nobody's effort changes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import rich.progress
from reductions_algorithms import response, shaky
from reductions_learner import agnostic, learner

from holdfast import reductions
from holdfast.errors import NotEnoughRows
from holdfast.reductions import Algorithm
from holdfast.replicable import Tape
from holdfast.stability import DP, GoodCoins, Path, PerfectGeneralization, Replicability


def bits(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(0, 2, size)


@dataclass(frozen=True)
class Case:
    """A compiler with an algorithm to compile, what comes out, and rows to run that on."""

    compile: Callable[..., Algorithm]
    gives: type
    theorem: str
    rows: Callable[[np.random.Generator, int], Any] = bits


PERFECT = PerfectGeneralization(0.0, math.log1p(0.6), 0.0, kind="one-way")
CASES = {
    "replicable_to_dp": Case(
        lambda **effort: reductions.replicable_to_dp(
            shaky(GoodCoins(0.0, 0.1)), epsilon=1.0, delta=0.01, simulation=True, **effort
        ),
        DP,
        "Theorem 3.1",
    ),
    "dp_to_replicable": Case(
        lambda **effort: reductions.dp_to_replicable(response(1.0), rho=0.1, **effort),
        Replicability,
        "Algorithm 2",
    ),
    "dp_to_replicable, subsets": Case(
        lambda **effort: reductions.dp_to_replicable(response(1.0), rho=0.2, sampling="subsample", **effort),
        Replicability,
        "Algorithm 2",
    ),
    "perfect_to_replicable": Case(
        lambda: reductions.perfect_to_replicable(response(0.3, PERFECT)), Replicability, "Theorem 3.17"
    ),
    "replicable_to_perfect": Case(
        lambda **effort: reductions.replicable_to_perfect(
            shaky(GoodCoins(0.0, 0.1)), epsilon=8.0, delta=0.3, simulation=True, **effort
        ),
        PerfectGeneralization,
        "Theorem 3.19",
    ),
    "item_to_user_level": Case(
        lambda **effort: reductions.item_to_user_level(
            response(0.3), rows_a_user=20, epsilon=0.5, simulation=True, **effort
        ),
        DP,
        "Theorem 6.1",
        lambda rng, size: list(rng.integers(0, 2, (size, 20))),
    ),
    "amplify_delta": Case(
        lambda **effort: reductions.amplify_delta(
            response(1.0, DP(1.0, 0.05)), epsilon=0.5, beta=0.6, simulation=True, **effort
        ),
        DP,
        "Theorem 6.2",
    ),
    "amplify_generalization": Case(
        lambda **effort: reductions.amplify_generalization(
            response(0.6, PerfectGeneralization(0.0, 1e-6, 0.0, kind="one-way")),
            epsilon=50.0,
            delta=0.9,
            method="seeds",
            simulation=True,
            **effort,
        ),
        PerfectGeneralization,
        "Theorem 6.3",
    ),
    "amplify_replicability": Case(
        lambda **effort: reductions.amplify_replicability(shaky(Replicability(0.1)), rho=0.05, **effort),
        Replicability,
        "Lemma 2.13",
    ),
    "private_agnostic": Case(
        lambda **effort: agnostic(learner(400, 0.05, 0.03), epsilon=1.0, beta=0.45, **effort),
        DP,
        "Theorem 6.5",
        lambda rng, size: rng.integers(0, 2, (size, 2)),
    ),
}


def test_no_compiler_is_forgotten():
    others = {"Algorithm", "dp_replicability", "replicability_budget", "noise_replicability"}
    # It takes a function and its noise, and gives numbers: its own tests have what is asked here.
    others |= {"noise_to_replicable"}
    instances = {"exponential_choice", "heavy_hitter", "laplace_mean"}
    assert {name.partition(",")[0] for name in CASES} == set(reductions.__all__) - others - instances


@pytest.mark.parametrize("name", CASES)
def test_it_says_what_it_promises_and_why(name):
    case = CASES[name]
    compiled = case.compile()
    assert type(compiled.guarantee) is case.gives
    assert not compiled.guarantee.vacuous
    assert isinstance(compiled.rows_needed, int)
    assert 0.0 <= compiled.failure < 0.65
    path = compiled.explain()
    assert isinstance(path, Path)
    assert path.result == compiled.guarantee
    assert path.rows == compiled.rows_needed
    assert case.theorem in str(path)
    assert all(step.conditions for step in path.steps[:1])
    rows = case.rows(np.random.default_rng(0), compiled.rows_needed)
    assert compiled(rows, Tape("x")) in compiled.outcomes
    with pytest.raises(NotEnoughRows):
        compiled(rows[1:], Tape("x"))


@pytest.mark.parametrize("name", [name for name in CASES if name != "perfect_to_replicable"])
def test_neither_workers_nor_progress_change_the_result(name):
    # The one that is left out has one part.
    case, told = CASES[name], []
    tapes = [Tape(f"{name} {number}") for number in range(6)]
    alone = case.compile()
    rows = case.rows(np.random.default_rng(0), alone.rows_needed)
    found = [alone(rows, tape) for tape in tapes]
    assert len(set(found)) > 1
    with ThreadPoolExecutor(3) as pool:
        shared = case.compile(workers=pool, progress=lambda done, total: told.append((done, total)))
        assert [shared(rows, tape) for tape in tapes[:4]] == found[:4]
    assert all(0 <= done <= total for done, total in told)
    assert sum(done == total for done, total in told) >= 4
    assert told[-1][0] == told[-1][1] > 1


@pytest.mark.parametrize("name", ["dp_to_replicable", "amplify_delta"])
def test_processes_change_nothing_either(name):
    case, tapes = CASES[name], [Tape(number) for number in range(4)]
    alone, shared = case.compile(), case.compile(workers=2)
    rows = case.rows(np.random.default_rng(0), alone.rows_needed)
    assert [shared(rows, tape) for tape in tapes] == [alone(rows, tape) for tape in tapes]


def test_a_progress_bar_is_drawn_on_request(monkeypatch):
    drawn = []
    add = rich.progress.Progress.add_task
    monkeypatch.setattr(
        rich.progress.Progress,
        "add_task",
        lambda bar, label, **more: drawn.append((label, more["total"])) or add(bar, label, **more),
    )
    watched = CASES["dp_to_replicable"].compile(progress=True)
    watched(bits(np.random.default_rng(0), watched.rows_needed), Tape("x"))
    # One job for each different part: 0 and 1.
    assert drawn == [("laws", 2)]


@pytest.mark.parametrize(
    "name",
    ["replicable_to_dp", "dp_to_replicable", "amplify_delta", "item_to_user_level", "private_agnostic"],
)
def test_pure_privacy_with_explicit_constants_is_the_default(name):
    """No constant that SIS leaves open, and no δ, needs to be named."""
    given = inspect.signature(getattr(reductions, name)).parameters
    needed = {key for key, value in given.items() if value.default is inspect.Parameter.empty}
    assert not needed & {"c", "C", "delta"}
    assert given["method"].default == "sharp" if "method" in given else given["delta"].default == 0.0


def test_the_pure_path_goes_from_end_to_end():
    there = reductions.dp_to_replicable(response(1.0), rho=0.1)
    back = reductions.replicable_to_dp(there, epsilon=1.0)
    users = reductions.item_to_user_level(response(1.0), rows_a_user=100, epsilon=1.0)
    again = reductions.amplify_delta(response(1.0, DP(1.0, 0.05)), epsilon=1.0)
    for compiled in (back, users, again):
        assert compiled.guarantee == DP(1.0)
        said = str(compiled.explain())
        assert "Lemma 3.11" not in said
        assert "Holdfast" in said
