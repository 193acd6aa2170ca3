"""How good the best model is, to a shared grid (SIS Algorithm 13)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._elementary import Floats
from holdfast.replicable._grid import round_to_grid
from holdfast.replicable._least import MOST_ROWS, least_whole
from holdfast.replicable._losses import loss_table
from holdfast.replicable._result import Result
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["estimate_opt", "estimate_opt_rows"]

_BY = "SIS Algorithm 13"


def estimate_opt(
    errors_or_losses: Any,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    one_sided: bool = False,
    best_effort: bool = False,
) -> Result:
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

    >>> losses = np.random.default_rng(0).random((4000, 3)) < [0.5, 0.2, 0.6]
    >>> estimate = estimate_opt(losses, accuracy=0.1, rho=0.1, beta=0.05, tape=Tape("study-7"))
    >>> abs(float(estimate) - 0.2) < 0.1
    True
    """
    of = "estimate_opt"
    table = loss_table(errors_or_losses, "errors_or_losses", of=of, by=_BY)
    accuracy, rho, beta = _checked(accuracy, rho, beta, of=of)
    tape = tape_argument(tape, of=of)
    reach = _reach(accuracy, one_sided, of=of)
    needed = _rows(table.shape[1], reach, rho, beta)
    means = table[:needed].mean(axis=0, dtype=np.float64)
    return opt_by_means(
        means, len(table), accuracy, rho, beta, tape, best_effort=best_effort, one_sided=one_sided
    )


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
) -> Result:
    """The estimate from the mean losses of the first rows that the promise needs, or of all if fewer."""
    models, asked = len(means), accuracy
    accuracy = _reach(accuracy, one_sided, of="estimate_opt")
    needed = _rows(models, accuracy, rho, beta)
    # Width and correction belong to the promise, not to the rows at hand: they are the same everywhere.
    width, correction = _width(models, needed, rho), _bias(models, needed) / 2.0
    if rows < needed:
        if not best_effort:
            raise NotEnoughRows(needed, rows, what="This estimate")
        rho = rounding.probability(math.sqrt(2.0 * _variance(models, rows)) / width)
        beta = _failure(models, rows, accuracy, width, correction)
    value = float(round_to_grid(float(means.min()) + correction, width, tape)) + (
        accuracy if one_sided else 0.0
    )
    details = {"models": models, "width": width, "least": float(means.min()), "needed": needed}
    return Result(
        value,
        Replicability(rho),
        asked / 2.0 if one_sided else asked,
        beta,
        min(rows, needed),
        str(tape),
        details,
    )


def estimate_opt_rows(
    *, models: Any, accuracy: float, rho: float, beta: float, one_sided: bool = False
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
    accuracy, rho, beta = _checked(accuracy, rho, beta, of=of)
    return _rows(models, _reach(accuracy, one_sided, of=of), rho, beta)


def _reach(accuracy: float, one_sided: bool, *, of: str) -> float:
    """How far the number before its last shift may lie from OPT; then a quarter is added to be above it."""
    if not isinstance(one_sided, bool):
        raise InvalidArgument("one_sided", "True or False", one_sided, of=of)
    return accuracy / 4.0 if one_sided else accuracy


def _checked(accuracy: Any, rho: Any, beta: Any, *, of: str) -> tuple[float, float, float]:
    return (
        checks.real(accuracy, "accuracy", "(0, 1)", of=of, by=_BY),
        checks.real(rho, "rho", "(0, 1)", of=of, by=_BY),
        checks.real(beta, "beta", "(0, 1)", of=of, by=_BY),
    )


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
def _rows(models: int, accuracy: float, rho: float, beta: float) -> int:
    def failure(rows: int) -> float:
        return _failure(models, rows, accuracy, _width(models, rows, rho), _bias(models, rows) / 2.0)

    rows = least_whole(lambda rows: failure(rows) <= beta, most=MOST_ROWS)
    if rows is None:
        raise InvalidArgument("accuracy", "large enough for fewer than 2⁴⁸ rows", accuracy, of="estimate_opt")
    return rows
