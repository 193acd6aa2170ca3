"""Choosing among finitely many models: the same winner on fresh data (SIS Algorithm 10 and Theorem 5.13)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._amplified import Amplified, amplified_choice, amplified_plan
from holdfast.replicable._elementary import Floats
from holdfast.replicable._losses import loss_table
from holdfast.replicable._result import Result
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.replicable._ways import WAYS, Problem, Way, ways_for
from holdfast.stability import Replicability

__all__ = ["choose", "choose_rows"]

_BY = "SIS Theorem 5.13"
_METHODS = ("best", *WAYS, "amplified")


def choose(
    losses: Any,
    *,
    accuracy: Any,
    rho: Any,
    beta: Any,
    tape: Tape,
    realizable: bool = False,
    method: str = "best",
    best_effort: bool = False,
) -> Result:
    """The index of a model whose expected loss is within ``accuracy`` of the best, the same on fresh rows.

    ``losses`` has a row for each observation and a column for each model. "exponential" is the exponential
    mechanism with shared clocks, "threshold" is Algorithm 10, "pair" a shared threshold between two models,
    "amplified" is Theorem 5.13; "best" is whichever of the first three needs fewest rows. With
    ``realizable=True`` one of the models has no loss at all, and far fewer rows suffice.

    Guarantee: two samples of the same size, with the same tape, give different indices with probability at
    most ``rho``; a model worse by more than ``accuracy`` is returned with probability at most ``beta``.
    Assumes: rows drawn independently from one distribution, and models fixed before these rows were seen (not
    checkable); losses in [0, 1] (checked); ``realizable`` as stated (rows that refute it are refused).
    Reference: SIS Algorithm 10, Theorems 5.13 and 5.14; constants and the exponential way are Holdfast's.

    >>> rows = choose_rows(models=3, accuracy=0.2, rho=0.2, beta=0.1)
    >>> losses = np.random.default_rng(0).random((rows, 3)) < [0.5, 0.2, 0.6]
    >>> int(choose(losses, accuracy=0.2, rho=0.2, beta=0.1, tape=Tape("study-7")))
    1
    """
    of = "choose"
    table = loss_table(losses, "losses", of=of, by=_BY)
    rows, models = table.shape
    problem, rho = _problem(models, accuracy, rho, beta, realizable, of=of)
    tape = tape_argument(tape, of=of)
    checks.choice(method, "method", _METHODS, of=of)
    means = table.mean(axis=0, dtype=np.float64)
    if problem.realizable and float(means.min()) > 0.0:
        raise InvalidArgument("losses", "free of loss for one model, as realizable=True says", losses, of=of)
    if method == "amplified":
        return _amplified(table, problem, rho, tape, best_effort=best_effort)
    return choose_by_means(means, rows, problem, rho, tape, method=method, best_effort=best_effort)


def choose_by_means(
    means: Floats, rows: int, problem: Problem, rho: float, tape: Tape, *, method: str, best_effort: bool
) -> Result:
    """The choice from what it depends on: the mean losses and the number of rows."""
    if problem.models == 1:
        return Result(0, Replicability(0.0), problem.accuracy, 0.0, rows, str(tape), {"method": "only one"})
    name, way, needed = _fewest(problem, rho, method)
    if needed is not None and rows >= needed:
        # The width belongs to the promise and not to the rows at hand, so that it is the same everywhere.
        width, promised, failure = _settled_width(way, problem, needed), rho, problem.beta
    elif best_effort:
        name, way, width = _widest_promise(problem, rows, method)
        promised, failure = way.rho(problem, rows, width), way.failure(problem, rows, width)
    else:
        raise NotEnoughRows(_finite(needed, of="choose"), rows, what="This choice")
    details = {"method": name, "models": problem.models, "width": width, "realizable": problem.realizable}
    index = way.pick(problem, means, width, tape)
    return Result(index, Replicability(promised), problem.accuracy, failure, rows, str(tape), details)


def choose_rows(
    *, models: Any, accuracy: Any, rho: Any, beta: Any, realizable: bool = False, method: str = "best"
) -> int:
    """The fewest rows from which :func:`choose` keeps its promise.

    Guarantee: as :func:`choose`.
    Assumes: as :func:`choose`.
    Reference: docs/theory/replicable-learning.md, where each constant is derived.

    >>> choose_rows(models=100, accuracy=0.05, rho=0.1, beta=0.05)
    347767
    >>> choose_rows(models=100, accuracy=0.05, rho=0.1, beta=0.05, realizable=True)
    24923
    """
    of = "choose_rows"
    models = checks.whole(models, "models", at_most=10**9, of=of)
    problem, rho = _problem(models, accuracy, rho, beta, realizable, of=of)
    checks.choice(method, "method", _METHODS, of=of)
    if models == 1:
        return 1
    if method == "amplified":
        return amplified_plan(problem, rho).rows
    return _finite(_fewest(problem, rho, method)[2], of=of)


def _problem(
    models: int, accuracy: Any, rho: Any, beta: Any, realizable: bool, *, of: str
) -> tuple[Problem, float]:
    accuracy = checks.real(accuracy, "accuracy", "(0, 1)", of=of, by=_BY)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=_BY)
    rho = checks.real(rho, "rho", "(0, 1]", of=of, by=_BY)
    if not isinstance(realizable, bool):
        raise InvalidArgument("realizable", "True or False", realizable, of=of)
    return Problem(models, accuracy, beta, realizable), rho


def _candidates(problem: Problem, method: str) -> dict[str, Way]:
    ways = ways_for(problem)
    if method == "best":
        return ways
    if method not in ways:
        raise InvalidArgument("method", f"one for {problem.models} models", method, of="choose")
    return {method: ways[method]}


def _fewest(problem: Problem, rho: float, method: str) -> tuple[str, Way, int | None]:
    sizes = {name: way.rows(problem, rho) for name, way in _candidates(problem, method).items()}
    best = min(sizes, key=lambda name: math.inf if sizes[name] is None else float(sizes[name] or 0))
    return best, WAYS[best], sizes[best]


def _widest_promise(problem: Problem, rows: int, method: str) -> tuple[str, Way, float]:
    """The way that promises most from these rows; where none is accurate, as if there were enough."""
    ways = _candidates(problem, method)
    best = min(ways, key=lambda name: ways[name].rho_at(problem, rows))
    width = ways[best].width(problem, rows)
    return best, ways[best], _settled_width(ways[best], problem, 2**48) if width is None else width


def _settled_width(way: Way, problem: Problem, rows: int) -> float:
    width = way.width(problem, rows)
    if width is None:
        raise InvalidArgument(
            "accuracy", "large enough for 2⁴⁸ rows to suffice", problem.accuracy, of="choose"
        )
    return width


def _finite(rows: int | None, *, of: str) -> int:
    if rows is None:
        raise InvalidArgument("accuracy", "large enough for fewer than 2⁴⁸ rows to suffice", "less", of=of)
    return rows


def _amplified(
    table: npt.NDArray[Any], problem: Problem, rho: float, tape: Tape, *, best_effort: bool
) -> Result:
    plan: Amplified = amplified_plan(problem, rho)
    rows = len(table)
    if rows < plan.rows:
        if best_effort:
            raise InvalidArgument(
                "method", "'best' together with best_effort=True", "amplified", of="choose", reference=_BY
            )
        raise NotEnoughRows(plan.rows, rows, what="This choice")
    index = amplified_choice(table, plan, tape)
    details = {"method": "amplified", **plan.details()}
    return Result(index, Replicability(rho), problem.accuracy, problem.beta, rows, str(tape), details)
