"""Learning from a probabilistic representation: the tape draws a class, and a choice from it replicates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._choose import ChoiceDesign, choice_design
from holdfast.replicable._design import Result, promise_arguments
from holdfast.replicable._heavy import item_name
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.replicable._ways import ChoiceProblem
from holdfast.stability import Replicability

__all__ = ["hashed_points", "learn_represented", "learn_represented_rows"]

_BY = "SIS 6.4, probabilistic representation"
# Rows whose predictions are made at once, in cells of the table.
_AT_ONCE = 2**24

Predict = Callable[[Any], Any]


@dataclass(frozen=True)
class _Plan:
    """``draws`` classes from the tape, and the choice among all their hypotheses."""

    draws: int
    missed: float
    choice: ChoiceDesign


def learn_represented(
    representation: Callable[[Tape], Predict],
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    size: int,
    miss: float,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    class_error: float = 0.0,
    best_effort: bool = False,
) -> Result[tuple[int, int]]:
    """A hypothesis that errs on at most ``accuracy`` of the rows, from a class that the tape draws.

    ``representation(tape)`` draws a class of at most ``size`` hypotheses and returns its predictions: a
    function from rows ``x`` to a table of 0 and 1, a row for each row and a column for each hypothesis. The
    value is the pair (draw, column). Independent draws are joined until all of them miss with a small part of
    ``beta``; then :func:`choose` takes one hypothesis of all.

    Guarantee: two samples with the same tape give different pairs with probability at most ``rho``; the
    hypothesis errs on more than ``accuracy`` of the rows with probability at most ``beta``.
    Assumes: rows drawn independently; for every law of rows that the labels allow, a drawn class has no
    hypothesis that errs on at most ``class_error`` with probability at most ``miss`` (the representation's
    promise, not checkable).
    Reference: SIS section 6.4, probabilistic representation dimension (Beimel, Nissim and Stemmer 2013);
    constants: docs/theory/littlestone.md.

    >>> x = np.random.default_rng(0).integers(0, 10**6, size=6_000)
    >>> x[::2] = 7
    >>> setting = {"size": 41, "miss": 0.25, "class_error": 0.1, "accuracy": 0.3, "rho": 0.2, "beta": 0.1}
    >>> chosen = learn_represented(hashed_points(40), x, x == 7, **setting, tape=Tape("study-7"))
    >>> draw, column = chosen.value
    >>> predict = hashed_points(40)(Tape("study-7").branch("representation").branch(draw))
    >>> bool(predict([7])[0, column])
    True
    """
    of = "learn_represented"
    tape = tape_argument(tape, of=of)
    plan = _plan(size, miss, class_error, accuracy, rho, beta, of=of)
    if not callable(representation):
        raise InvalidArgument("representation", "a function of a tape", representation, of=of, reference=_BY)
    rows, labels = np.asarray(x), np.asarray(y)
    if rows.ndim == 0 or labels.shape != rows.shape[:1] or not bool(np.isin(labels, (0, 1)).all()):
        raise InvalidArgument("y", "one label, 0 or 1, for each row of x", y, of=of, reference=_BY)
    needed = plan.choice.rows
    if len(rows) < (1 if best_effort else needed):
        raise NotEnoughRows(1 if best_effort else needed, len(rows), what="This learner")
    drawn = [representation(tape.branch("representation").branch(i)) for i in range(plan.draws)]
    means = [_errors(predict, rows[:needed], labels[:needed], size) for predict in drawn]
    # A draw with fewer hypotheses than ``size`` is filled up with ones that always err.
    every = np.ones(plan.draws * int(size))
    for number, part in enumerate(means):
        every[number * int(size) : number * int(size) + part.size] = part
    chosen = plan.choice.choose(every, len(rows), tape, best_effort=True)
    draw, column = divmod(int(chosen), int(size))
    promised = chosen.guarantee.rho + (plan.missed if plan.choice.problem.realizable else 0.0)
    details = {
        "draws": plan.draws,
        "models": sum(part.size for part in means),
        "missed": plan.missed,
        "needed": needed,
    }
    return Result(
        (draw, column),
        Replicability(rounding.probability(promised)) if len(rows) < needed else Replicability(float(rho)),
        float(accuracy),
        rounding.probability(float(chosen.beta or 0.0) + plan.missed) if len(rows) < needed else float(beta),
        min(len(rows), needed),
        str(tape),
        details,
    )


def learn_represented_rows(
    *, size: int, miss: float, accuracy: float, rho: float, beta: float, class_error: float = 0.0
) -> int:
    """The fewest rows from which :func:`learn_represented` keeps its promise.

    Guarantee: the rows of :func:`choose` among draws · ``size`` models, with the accuracy beyond
    ``class_error``; if that is 0, for a perfect model.
    Assumes: as :func:`learn_represented`.
    Reference: docs/theory/littlestone.md.

    >>> learn_represented_rows(size=121, miss=0.42, class_error=0.02, accuracy=0.1, rho=0.1, beta=0.05)
    217935
    """
    return _plan(size, miss, class_error, accuracy, rho, beta, of="learn_represented_rows").choice.rows


def _plan(size: Any, miss: Any, class_error: Any, accuracy: Any, rho: Any, beta: Any, *, of: str) -> _Plan:
    size = checks.whole(size, "size", at_most=10**9, of=of, by=_BY)
    miss = checks.real(miss, "miss", "[0, 1)", of=of, by=_BY)
    accuracy, rho, beta = promise_arguments(accuracy, rho, beta, of=of, by=_BY)
    class_error = checks.real(class_error, "class_error", "[0, 1)", of=of, by=_BY)
    if not class_error < accuracy:
        raise InvalidArgument(
            "class_error", f"below the accuracy {accuracy:g}", class_error, of=of, reference=_BY
        )
    perfect = class_error == 0.0
    spare = min(rho, beta) if perfect else beta
    best: _Plan | None = None
    first = 1 if miss == 0.0 else max(1, math.floor(math.log(spare) / math.log(miss)))
    for draws in range(first, first + 8):
        missed = rounding.up(miss**draws)
        if missed >= spare:
            continue
        problem = ChoiceProblem(draws * size, accuracy - class_error, beta - missed, perfect)
        choice = choice_design(problem, rho - missed if perfect else rho)
        if best is None or choice.rows < best.choice.rows:
            best = _Plan(draws, missed, choice)
    if best is None:
        raise InvalidArgument("miss", "a miss that a few draws make small", miss, of=of, reference=_BY)
    return best


def _errors(predict: Predict, x: npt.NDArray[Any], y: npt.NDArray[Any], size: Any) -> npt.NDArray[Any]:
    """The share of mistakes of each hypothesis of one drawn class."""
    total: npt.NDArray[Any] | None = None
    at_once = max(1, _AT_ONCE // int(size))
    for start in range(0, len(x), at_once):
        table = np.asarray(predict(x[start : start + at_once]))
        labels = y[start : start + at_once].astype(bool)
        fits = table.ndim == 2 and len(table) == len(labels) and 0 < table.shape[1] <= int(size)
        if not fits or (total is not None and total.shape[0] != table.shape[1]):
            expected = (
                f"a class that predicts a table of at most {int(size)} columns, a row for each row of x"
            )
            raise InvalidArgument(
                "representation", expected, table.shape, of="learn_represented", reference=_BY
            )
        wrong = (table.astype(bool) != labels[:, None]).sum(axis=0)
        total = wrong if total is None else total + wrong
    assert total is not None
    shares: npt.NDArray[Any] = total / len(x)
    return shares


def hashed_points(cells: int) -> Callable[[Tape], Predict]:
    """A representation of all functions that mark one item, of any countable set: the items of one cell.

    The tape deals every item to one of ``cells`` cells by its name. The drawn class has a hypothesis for each
    cell, which marks its items, and one that marks nothing: ``cells`` + 1 hypotheses in all.

    Guarantee: for every law and every marked item a drawn class has no hypothesis that errs on at most a with
    probability at most 1/(``cells`` · a): ``size`` = cells + 1, ``miss`` = 1/(cells · ``class_error``).
    Assumes: items are texts, whole numbers or tuples of them.
    Reference: Beimel, Nissim and Stemmer 2013 (point functions); Markov.

    >>> table = hashed_points(4)(Tape("study-7"))([17, 17, "maple"])
    >>> table.shape, bool((table[0] == table[1]).all())
    ((3, 5), True)
    """
    count = checks.whole(cells, "cells", at_most=10**6, of="hashed_points")

    def draw(tape: Tape) -> Predict:
        def predict(x: Any) -> npt.NDArray[np.bool_]:
            items = x.tolist() if isinstance(x, np.ndarray) else list(x)
            names = [item_name(item) for item in items]
            distinct = list(dict.fromkeys(names))
            cell = {
                name: int(word) % count
                for name, word in zip(distinct, tape.named_words(distinct).tolist(), strict=True)
            }
            places = np.fromiter((cell[name] for name in names), dtype=np.int64, count=len(names))
            table: npt.NDArray[np.bool_] = places[:, None] == np.arange(count + 1)
            return table

        return predict

    return draw
