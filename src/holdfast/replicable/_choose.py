"""Choosing among finitely many models: the same winner on fresh data (SIS Algorithm 10 and Theorem 5.13)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
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
from holdfast.replicable._ways import ONLY_ONE, WAYS, Problem, Way, ways_for
from holdfast.stability import Replicability

__all__ = ["choose", "choose_rows"]

_BY = "SIS Theorem 5.13"
_METHODS = ("best", *WAYS, "amplified")


def choose(
    losses: Any,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    realizable: bool = False,
    method: str = "best",
    best_effort: bool = False,
) -> Result:
    """The index of a model whose expected loss is within ``accuracy`` of the best, the same on fresh rows.

    ``losses`` has a row for each observation and a column for each model. "exponential" is the exponential
    mechanism with shared clocks, "delayed" the same with clocks that all start a little late, "threshold"
    Algorithm 10, "pair" a shared threshold between two models, "amplified" Theorem 5.13; "best" is whichever
    of the first four needs fewest rows. With ``realizable=True`` one of the models has no loss at all, and
    far fewer rows suffice.

    Guarantee: two samples with the same tape give different indices with probability at most ``rho``; a model
    worse by more than ``accuracy`` is returned with probability at most ``beta``. The first ``sample_size``
    rows are used, so the samples may differ in size; with ``best_effort=True`` and fewer rows, they may not.
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
    problem, rho = _problem(table.shape[1], accuracy, rho, beta, realizable, of=of)
    tape = tape_argument(tape, of=of)
    checks.choice(method, "method", _METHODS, of=of)
    if method == "amplified":
        return _amplified(table, problem, rho, tape, best_effort=best_effort)
    promise = promise_of(problem, rho, method)
    means = table[: promise.needed].mean(axis=0, dtype=np.float64)
    if problem.realizable and float(means.min()) > 0.0:
        raise InvalidArgument("losses", "free of loss for one model, as realizable=True says", losses, of=of)
    return promise.choose(means, len(table), tape, best_effort=best_effort)


@dataclass(frozen=True)
class Promise:
    """What both laboratories fix before they look: the way, its width, and how many rows it uses."""

    problem: Problem
    rho: float
    name: str
    way: Way
    needed: int
    width: float

    def choose(self, means: Floats, rows: int, tape: Tape, *, best_effort: bool) -> Result:
        """The choice from the mean losses of the first ``needed`` rows, or of all if there are fewer."""
        promised, failure = self.rho, self.problem.beta
        if rows < self.needed:
            if not best_effort:
                raise NotEnoughRows(self.needed, rows, what="This choice")
            promised = self.way.rho(self.problem, rows, self.width)
            failure = self.way.failure(self.problem, rows, self.width)
        return Result(
            self.way.pick(self.problem, means, self.width, tape),
            Replicability(promised),
            self.problem.accuracy,
            failure,
            min(rows, self.needed),
            str(tape),
            {
                "method": self.name,
                "models": self.problem.models,
                "realizable": self.problem.realizable,
                "width": self.width,
                "needed": self.needed,
            },
        )


@lru_cache(maxsize=256)
def promise_of(problem: Problem, rho: float, method: str = "best") -> Promise:
    """The way that needs the fewest rows, or the one that is named, at its smallest size."""
    if problem.models == 1:
        return Promise(replace(problem, beta=0.0), 0.0, "only one", ONLY_ONE, 1, 1.0)
    ways = ways_for(problem)
    if method != "best" and method not in ways:
        raise InvalidArgument("method", f"one for {problem.models} models", method, of="choose")
    sizes = {name: ways[name].rows(problem, rho) for name in ways if method in ("best", name)}
    known = {name: rows for name, rows in sizes.items() if rows is not None}
    if not known:
        raise InvalidArgument(
            "accuracy", "large enough for fewer than 2⁴⁸ rows to suffice", problem.accuracy, of="choose"
        )
    best = min(known, key=lambda name: known[name])
    width = ways[best].width(problem, known[best])
    if width is None:
        raise InvalidArgument("accuracy", "one that can be had", problem.accuracy, of="choose")
    return Promise(problem, rho, best, ways[best], known[best], width)


def choose_rows(
    *, models: Any, accuracy: float, rho: float, beta: float, realizable: bool = False, method: str = "best"
) -> int:
    """The fewest rows from which :func:`choose` keeps its promise.

    Guarantee: as :func:`choose`.
    Assumes: as :func:`choose`.
    Reference: docs/theory/replicable-learning.md, where each constant is derived.

    >>> choose_rows(models=100, accuracy=0.05, rho=0.1, beta=0.05)
    336577
    >>> choose_rows(models=100, accuracy=0.05, rho=0.1, beta=0.05, realizable=True)
    24923
    """
    of = "choose_rows"
    models = checks.whole(models, "models", at_most=2**900, of=of)
    problem, rho = _problem(models, accuracy, rho, beta, realizable, of=of)
    checks.choice(method, "method", _METHODS, of=of)
    if method == "amplified":
        return amplified_plan(problem, rho).rows
    return promise_of(problem, rho, method).needed


def _problem(
    models: int, accuracy: Any, rho: Any, beta: Any, realizable: bool, *, of: str
) -> tuple[Problem, float]:
    accuracy = checks.real(accuracy, "accuracy", "(0, 1)", of=of, by=_BY)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=_BY)
    rho = checks.real(rho, "rho", "(0, 1)", of=of, by=_BY)
    if not isinstance(realizable, bool):
        raise InvalidArgument("realizable", "True or False", realizable, of=of)
    return Problem(models, accuracy, beta, realizable), rho


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
