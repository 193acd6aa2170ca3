"""Choosing among finitely many models, and how good the best one is: the same on fresh data.

The choice is SIS Algorithm 10 and Theorem 5.13, the least loss SIS Algorithm 13. Theorem 5.13 amplifies: for
each shared string in turn, every block of rows chooses a model, and the first string on which one model has
more than a shared threshold of the blocks settles the choice. The proofs are in
``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._design import MOST_ROWS, Design, Result, least_rows, promise_arguments
from holdfast.replicable._rounding import round_to_grid
from holdfast.replicable._tape import Floats, Tape, tape_argument
from holdfast.replicable._ways import ONLY_ONE, WAYS, ChoiceProblem, Way, ways_for
from holdfast.stability import Replicability
from holdfast.typing import ChoiceMethod

__all__ = [
    "AmplifiedChoice",
    "amplified_choice",
    "amplified_plan",
    "choose",
    "choose_rows",
    "estimate_opt",
    "estimate_opt_rows",
    "loss_table",
]


_BY = "SIS Theorem 5.13"
_METHODS = ("best", *WAYS, "amplified")


def choose(
    losses: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    realizable: bool = False,
    method: ChoiceMethod = "best",
    best_effort: bool = False,
) -> Result[int]:
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

    Args:
        tape: The shared coins; both laboratories use the same.
        method: "best", or one of the ways.

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
    design = choice_design(problem, rho, method)
    means = table[: design.rows].mean(axis=0, dtype=np.float64)
    if problem.realizable and float(means.min()) > 0.0:
        raise InvalidArgument("losses", "free of loss for one model, as realizable=True says", losses, of=of)
    return design.choose(means, len(table), tape, best_effort=best_effort)


@dataclass(frozen=True)
class ChoiceDesign(Design):
    """The ``way`` of choosing, called ``name``, and its ``width``, for a ``problem``."""

    problem: ChoiceProblem
    name: str
    way: Way
    width: float

    def mismatch(self, rows: int) -> float:
        return self.way.rho(self.problem, rows, self.width)

    def failure(self, rows: int) -> float:
        return self.way.failure(self.problem, rows, self.width)

    def choose(self, means: Floats, rows: int, tape: Tape, *, best_effort: bool) -> Result[int]:
        """The choice from the mean losses of the first ``self.rows`` of ``rows`` rows, or of all if fewer."""
        kept_design = self.kept_by(min(rows, self.rows), best_effort=best_effort, what="This choice")
        details = {
            "method": self.name,
            "models": self.problem.models,
            "realizable": self.problem.realizable,
            "width": self.width,
            "needed": self.rows,
        }
        return kept_design.result(self.way.pick(self.problem, means, self.width, tape), tape, details)


@lru_cache(maxsize=256)
def choice_design(problem: ChoiceProblem, rho: float, method: ChoiceMethod = "best") -> ChoiceDesign:
    """The way that needs the fewest rows, or the one that is named, at its smallest size."""
    accuracy, beta = problem.accuracy, problem.beta
    if problem.models == 1:
        certain = replace(problem, beta=0.0)
        return ChoiceDesign(accuracy, 0.0, 0.0, 1, certain, "only one", ONLY_ONE, 1.0)
    ways = ways_for(problem)
    if method != "best" and method not in ways:
        raise InvalidArgument("method", f"a method for {problem.models} models", method, of="choose")
    sizes = {name: ways[name].rows(problem, rho) for name in ways if method in ("best", name)}
    possible = {name: rows for name, rows in sizes.items() if rows is not None}
    if not possible:
        raise InvalidArgument(
            "accuracy", "large enough for fewer than 2⁴⁸ rows to suffice", accuracy, of="choose"
        )
    best = min(possible, key=lambda name: possible[name])
    width = ways[best].width(problem, possible[best])
    if width is None:
        raise InvalidArgument("accuracy", "an accuracy that can be reached", accuracy, of="choose")
    return ChoiceDesign(accuracy, rho, beta, possible[best], problem, best, ways[best], width)


def choose_rows(
    *,
    models: int,
    accuracy: float,
    rho: float,
    beta: float,
    realizable: bool = False,
    method: ChoiceMethod = "best",
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
    return choice_design(problem, rho, method).rows


def _problem(
    models: int, accuracy: float, rho: float, beta: float, realizable: bool, *, of: str
) -> tuple[ChoiceProblem, float]:
    accuracy, rho, beta = promise_arguments(accuracy, rho, beta, of=of, by=_BY)
    if not isinstance(realizable, bool):
        raise InvalidArgument("realizable", "True or False", realizable, of=of)
    return ChoiceProblem(models, accuracy, beta, realizable), rho


def _amplified(
    table: npt.NDArray[Any], problem: ChoiceProblem, rho: float, tape: Tape, *, best_effort: bool
) -> Result[int]:
    plan: AmplifiedChoice = amplified_plan(problem, rho)
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


_STRINGS = 64
_BASES = (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.32)


@dataclass(frozen=True)
class AmplifiedChoice:
    """How many blocks of how many rows, and the choice that each of them makes."""

    blocks: int
    block_rows: int
    base_rho: float
    base: ChoiceProblem
    way: Way
    name: str

    @property
    def rows(self) -> int:
        """The rows of all blocks."""
        return self.blocks * self.block_rows

    def details(self) -> dict[str, Any]:
        """What a result says about it."""
        return {
            "blocks": self.blocks,
            "block_rows": self.block_rows,
            "base": self.name,
            "base_rho": self.base_rho,
        }


@lru_cache(maxsize=256)
def amplified_plan(problem: ChoiceProblem, rho: float) -> AmplifiedChoice:
    """The blocks with the fewest rows in all, over a grid of base replicabilities."""
    spare = min(rho, problem.beta) / 20.0
    plans = []
    for base_rho in _BASES:
        blocks = _blocks(base_rho, rho, spare)
        if blocks is None:
            continue
        rejected = _rejected(base_rho, blocks, spare)
        base = replace(problem, beta=(problem.beta - 2.0 * spare) * (1.0 - rejected))
        for name, way in ways_for(base).items():
            block_rows = way.rows(base, base_rho)
            if block_rows is not None:
                plans.append(AmplifiedChoice(blocks, block_rows, base_rho, base, way, name))
    if not plans:
        raise InvalidArgument(
            "accuracy", "large enough for fewer than 2⁴⁸ rows", problem.accuracy, of="choose"
        )
    return min(plans, key=lambda plan: plan.rows)


def _rejected(base_rho: float, blocks: int, spare: float) -> float:
    """How many strings settle nothing, on all but a fraction ``spare`` of the samples (McDiarmid)."""
    return 2.0 * base_rho + math.sqrt(2.0 * math.log(1.0 / spare) / blocks)


def _blocks(base_rho: float, rho: float, spare: float) -> int | None:
    """The fewest blocks with 2√(2ρ₀/t)/(1 − λ) + ε + λ⁶⁴ ≤ ρ."""

    def differ(blocks: int) -> float:
        rejected = _rejected(base_rho, blocks, spare)
        if rejected >= 1.0:
            return 1.0
        exhausted = rejected**_STRINGS
        if exhausted > spare:
            return 1.0
        return 2.0 * math.sqrt(2.0 * base_rho / blocks) / (1.0 - rejected) + spare + exhausted

    return search.least_whole(lambda blocks: differ(blocks) <= rho, most=MOST_ROWS)


def amplified_choice(table: npt.NDArray[Any], plan: AmplifiedChoice, tape: Tape) -> int:
    """The model that most blocks choose, by the first string that settles it."""
    used = table[: plan.rows].reshape(plan.blocks, plan.block_rows, -1)
    return amplified_by_means(used.mean(axis=1, dtype=np.float64), plan, tape)


def amplified_by_means(means: Floats, plan: AmplifiedChoice, tape: Tape) -> int:
    """The same from the mean losses of each block."""
    width = plan.way.width(plan.base, plan.block_rows)
    if width is None:
        raise InvalidArgument("plan", "a plan whose blocks are large enough", plan, of="choose")
    thresholds = 0.5 + 0.5 * tape.branch("majority").uniforms(_STRINGS)
    for string in range(_STRINGS):
        coins = tape.branch("string").branch(string)
        votes = np.bincount([plan.way.pick(plan.base, block, width, coins) for block in means])
        if float(votes.max()) > thresholds[string] * plan.blocks:
            return int(votes.argmax())
    return plan.way.pick(plan.base, means[0], width, tape.branch("last"))


_BY_OPT = "SIS Algorithm 13"


def estimate_opt(
    errors_or_losses: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    one_sided: bool = False,
    best_effort: bool = False,
) -> Result[float]:
    """The least expected loss of any model, to within ``accuracy``, the same on fresh rows.

    ``errors_or_losses`` has a row for each observation and a column for each model. With ``one_sided`` the
    number is what Algorithm 13 prints: at least the least expected loss, OPT, and at most OPT +
    ``accuracy``/2.

    Guarantee: two samples with the same tape give different numbers with probability at most ``rho``; the
    number is farther than ``accuracy`` from the least expected loss (with ``one_sided``: outside [OPT, OPT +
    ``accuracy``/2]) with probability at most ``beta``. The first ``sample_size`` rows are used, so the
    samples may differ in size.
    Assumes: rows drawn independently, models fixed before these rows were seen (not checkable); losses in
    [0, 1] (checked).
    Reference: SIS Algorithm 13, Lemma A.1; the variance of the least mean and the constants are Holdfast's.

    Args:
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> losses = np.random.default_rng(0).random((4000, 3)) < [0.5, 0.2, 0.6]
    >>> estimate = estimate_opt(losses, accuracy=0.1, rho=0.1, beta=0.05, tape=Tape("study-7"))
    >>> abs(float(estimate) - 0.2) < 0.1
    True
    """
    of = "estimate_opt"
    table = loss_table(errors_or_losses, "errors_or_losses", of=of, by=_BY_OPT)
    promise = promise_arguments(accuracy, rho, beta, of=of, by=_BY_OPT)
    tape = tape_argument(tape, of=of)
    needed = _opt_design(table.shape[1], *promise, one_sided=one_sided, of=of).rows
    means = table[:needed].mean(axis=0, dtype=np.float64)
    return opt_by_means(means, len(table), *promise, tape, best_effort=best_effort, one_sided=one_sided)


def opt_by_means(
    means: Floats,
    rows: int,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    *,
    best_effort: bool,
    one_sided: bool = False,
) -> Result[float]:
    """The estimate from the mean losses of the first rows that the promise needs, or of all if fewer."""
    design = _opt_design(len(means), accuracy, rho, beta, one_sided=one_sided, of="estimate_opt")
    kept_design = design.kept_by(min(rows, design.rows), best_effort=best_effort, what="This estimate")
    least = float(means.min())
    value = float(round_to_grid(least + design.correction, design.width, tape))
    details = {"models": len(means), "width": design.width, "least": least, "needed": design.rows}
    if one_sided:
        return kept_design.result(value + design.reach, tape, details, accuracy=accuracy / 2.0)
    return kept_design.result(value, tape, details)


@dataclass(frozen=True)
class OptDesign(Design):
    """A grid of ``width`` for the least mean of ``models`` losses, which a ``correction`` is added to first.

    The sum may lie ``reach`` from the least expected loss. All of this belongs to the promise, not to the
    rows at hand: it is the same everywhere.
    """

    models: int
    reach: float
    width: float
    correction: float

    def mismatch(self, rows: int) -> float:
        return rounding.probability(math.sqrt(2.0 * _variance(self.models, rows)) / self.width)

    def failure(self, rows: int) -> float:
        return _failure(self.models, rows, self.reach, self.width, self.correction)


def estimate_opt_rows(
    *, models: int, accuracy: float, rho: float, beta: float, one_sided: bool = False
) -> int:
    """The fewest rows from which :func:`estimate_opt` keeps its promise.

    Guarantee: as :func:`estimate_opt`.
    Assumes: as :func:`estimate_opt`.
    Reference: docs/theory/replicable-learning.md.

    >>> estimate_opt_rows(models=100, accuracy=0.05, rho=0.1, beta=0.05)
    8435
    >>> estimate_opt_rows(models=100, accuracy=0.05, rho=0.1, beta=0.05, one_sided=True)
    129728
    """
    of = "estimate_opt_rows"
    models = checks.whole(models, "models", at_most=10**9, of=of)
    promise = promise_arguments(accuracy, rho, beta, of=of, by=_BY_OPT)
    return _opt_design(models, *promise, one_sided=one_sided, of=of).rows


def _opt_design(
    models: int, accuracy: float, rho: float, beta: float, *, one_sided: bool, of: str
) -> OptDesign:
    if not isinstance(one_sided, bool):
        raise InvalidArgument("one_sided", "True or False", one_sided, of=of)
    # For a number that is at least OPT, OPT is first found to within a quarter of the accuracy. Then the
    # quarter is added.
    reach = accuracy / 4.0 if one_sided else accuracy
    rows = _opt_rows(models, reach, rho, beta)
    width, correction = _width(models, rows, rho), _bias(models, rows) / 2.0
    return OptDesign(accuracy, rho, beta, rows, models, reach, width, correction)


def _bias(models: int, rows: int) -> float:
    """How far the mean of the least mean loss may lie below the least expected loss."""
    return math.sqrt(math.log(models) / (2.0 * rows))


def _variance(models: int, rows: int) -> float:
    """Of the least mean loss, at most, by Efron and Stein."""
    overfitting = math.sqrt(math.log(models + 1) / (2.0 * rows)) if models > 1 else 0.0
    return (0.25 + overfitting) / rows


def _width(models: int, rows: int, rho: float) -> float:
    """√(2 variance)/ρ, rounded up to 24 bits: machines disagree about the last bits of a logarithm."""
    mantissa, exponent = math.frexp(math.sqrt(2.0 * _variance(models, rows)) / rho)
    return math.ldexp(math.ceil(mantissa * 2.0**24), exponent - 24)


def _failure(models: int, rows: int, accuracy: float, width: float, correction: float) -> float:
    """The tail of the least mean averaged over the rounding error, by McDiarmid or by the variance."""
    reach = accuracy - max(correction, _bias(models, rows) - correction)
    if reach <= 0.0:
        return 1.0
    beyond, spare = max(0.0, 1.0 - 2.0 * reach / width), max(0.0, reach - width / 2.0)
    scaled = 2.0 * math.sqrt(rows)
    tail = float(ndtr(-scaled * spare) - ndtr(-scaled * (reach + width / 2.0)))
    tail *= math.sqrt(2.0 * math.pi / rows)
    by_variance = math.sqrt(_variance(models, rows) + spare**2) - spare
    return rounding.probability(beyond + min(tail, by_variance) / width)


@lru_cache(maxsize=256)
def _opt_rows(models: int, accuracy: float, rho: float, beta: float) -> int:
    def enough(rows: int) -> bool:
        width, correction = _width(models, rows, rho), _bias(models, rows) / 2.0
        return _failure(models, rows, accuracy, width, correction) <= beta

    return least_rows(enough, "accuracy", accuracy, of="estimate_opt", most=MOST_ROWS)


def loss_table(losses: Any, argument: str, *, of: str, by: str) -> npt.NDArray[Any]:
    """The losses as an array of rows by models, each checked to lie in [0, 1]; errors stay True and False."""
    expected = "a table of losses in [0, 1], one row an observation and one column a model"
    table = np.asarray(losses)
    if table.dtype.kind not in "biuf":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument(argument, expected, losses, of=of, reference=by) from None
    if table.ndim != 2 or 0 in table.shape or not (table.min() >= 0 and table.max() <= 1):
        raise InvalidArgument(argument, expected, losses, of=of, reference=by)
    return table
