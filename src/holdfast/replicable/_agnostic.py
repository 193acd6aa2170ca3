"""From learning with a perfect hypothesis to learning without one (SIS Algorithm 12 and Theorem 6.9)."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._design import Result, promise_arguments
from holdfast.replicable._heavy import list_heavy_hitter, list_heavy_hitter_rows
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["agnostic", "agnostic_rows"]

_BY = "SIS Theorem 6.9"
# The share of lists whose labelled rows may mislead.
_MISLED = 0.02

Labels = npt.NDArray[Any]
Hypothesis = TypeVar("Hypothesis", bound=Hashable)


def agnostic(
    learner: Callable[[Any, Labels, Tape], Hypothesis],
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    labelings: Callable[[Any], npt.ArrayLike],
    predict: Callable[[Hypothesis, Any], npt.ArrayLike],
    learner_rows: int,
    most_labelings: int,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    learner_rho: float = 0.1,
    learner_beta: float = 0.01,
    best_effort: bool = False,
) -> Result[Hypothesis | None]:
    """A hypothesis almost as good as the best of the class, from a learner that needs a perfect one.

    ``learner(x, labels, tape)`` returns a hypothesis (a text, a number or a tuple) from ``learner_rows``
    rows; ``labelings(x)`` gives every labelling of these rows by the class, one a row of an array, at most
    ``most_labelings``; ``predict(hypothesis, x)`` labels rows. The learner is tried on all labellings.
    Hypotheses that do badly on labelled rows are dropped, and one that many blocks keep is returned.

    Guarantee: two samples give different hypotheses with probability at most ``rho``; the error exceeds the
    least of the class by more than ``accuracy`` with probability at most ``beta``.
    Assumes: rows drawn independently; the learner returns members of the class and, on labels of any one of
    them, is ``learner_rho``-replicable and wrong on more than a share ``accuracy``/4 of the rows with
    probability at most ``learner_beta`` (not checkable).
    Reference: SIS Algorithm 12, Theorem 6.9; the constants are Holdfast's.

    Args:
        y: The label of each row.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> def smallest(x, labels, tape):  # the least threshold that agrees with the labels: below it is 1
    ...     return max((int(value) + 1 for value, label in zip(x, labels, strict=True) if label), default=0)
    >>> def all_thresholds(x):
    ...     return np.unique(x < np.arange(4)[:, None], axis=0)
    >>> setting = dict(learner_rows=24, most_labelings=4, accuracy=0.4, rho=0.4, beta=0.3)
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(0, 3, size=agnostic_rows(**setting))
    >>> y = (x < 2) ^ (rng.random(x.size) < 0.05)
    >>> found = agnostic(smallest, x, y, labelings=all_thresholds, predict=lambda t, x: x < t,
    ...                  tape=Tape("study-7"), **setting)
    >>> int(found)
    2
    """
    of = "agnostic"
    plan = _plan(learner_rows, most_labelings, accuracy, rho, beta, learner_rho, learner_beta, of=of)
    tape = tape_argument(tape, of=of)
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim == 0 or y.ndim != 1 or len(x) != len(y):
        raise InvalidArgument("y", "one label for each row of x", y, of=of, reference=_BY)
    count = min(plan.lists, len(x) // plan.list_rows)
    if count < (1 if best_effort else plan.lists):
        raise NotEnoughRows(plan.list_rows if best_effort else plan.rows, len(x), what="This learner")
    strings = [tape.branch("strings").branch(i) for i in range(plan.strings)]
    lists = []
    for start in range(0, count * plan.list_rows, plan.list_rows):
        cut, stop = start + plan.learner_rows, start + plan.list_rows
        tried = _tried(learner, labelings, x[start:cut], strings, plan)
        lists.append(_kept(tried, predict, x[cut:stop], y[cut:stop], plan.margin))
    heavy = list_heavy_hitter(
        lists,
        eta=plan.eta,
        rho=plan.list_rho,
        beta=plan.list_beta,
        list_size=plan.list_size,
        tape=tape.branch("lists"),
        best_effort=best_effort,
    )
    promised, failure = plan.rho, plan.beta
    if count < plan.lists:
        promised = rounding.probability(heavy.guarantee.rho + plan.spare)
        failure = rounding.probability(float(heavy.beta or 0.0) + plan.spare)
    details = {"lists": count, "list_rows": plan.list_rows, "strings": plan.strings, "eta": plan.eta}
    rows = count * plan.list_rows
    return Result(heavy.value, Replicability(promised), plan.accuracy, failure, rows, str(tape), details)


def agnostic_rows(
    *,
    learner_rows: int,
    most_labelings: int,
    accuracy: float,
    rho: float,
    beta: float,
    learner_rho: float = 0.1,
    learner_beta: float = 0.01,
) -> int:
    """The fewest rows from which :func:`agnostic` keeps its promise.

    Guarantee: as :func:`agnostic`.
    Assumes: as :func:`agnostic`.
    Reference: docs/theory/replicable-learning.md.
    """
    of = "agnostic_rows"
    return _plan(learner_rows, most_labelings, accuracy, rho, beta, learner_rho, learner_beta, of=of).rows


@dataclass(frozen=True)
class _Plan:
    accuracy: float
    rho: float
    beta: float
    spare: float
    learner_rows: int
    most_labelings: int
    strings: int
    eta: float
    margin: float
    list_rows: int
    lists: int
    list_size: int
    list_rho: float
    list_beta: float

    @property
    def rows(self) -> int:
        return self.lists * self.list_rows


def _plan(
    learner_rows: Any,
    most_labelings: Any,
    accuracy: Any,
    rho: Any,
    beta: Any,
    learner_rho: Any,
    learner_beta: Any,
    *,
    of: str,
) -> _Plan:
    learner_rows = checks.whole(learner_rows, "learner_rows", of=of, by=_BY)
    most_labelings = checks.whole(most_labelings, "most_labelings", at_most=2**40, of=of, by=_BY)
    accuracy, rho, beta = promise_arguments(accuracy, rho, beta, of=of, by=_BY)
    learner_rho = checks.real(learner_rho, "learner_rho", "(0, 0.4]", of=of, by=_BY)
    learner_beta = checks.real(learner_beta, "learner_beta", "[0, 1)", of=of, by=_BY)
    heavy = 1.0 - 2.0 * learner_rho
    eta = heavy - _MISLED
    wrong = eta / 2.0 - _MISLED - 1e-9
    if not 4.0 * learner_beta <= wrong:
        raise InvalidArgument(
            "learner_beta", f"at most {wrong / 4.0:.3g}", learner_beta, of=of, reference=_BY
        )
    # Half the strings have a heavy hypothesis, and all but a share learner_beta/wrong err on few blocks.
    unlucky = 0.5 + learner_beta / wrong
    spare = min(rho, beta) / 10.0
    strings = math.ceil(math.log(spare) / math.log(unlucky))
    list_size = strings * most_labelings
    labelled = math.ceil(32.0 * math.log(2.0 * list_size / _MISLED) / accuracy**2)
    list_rho, list_beta = rho - spare, beta - spare
    lists = list_heavy_hitter_rows(eta=eta, rho=list_rho, beta=list_beta, list_size=list_size)
    return _Plan(
        accuracy,
        rho,
        beta,
        spare,
        learner_rows,
        most_labelings,
        strings,
        eta,
        accuracy / 2.0,
        learner_rows + labelled,
        lists,
        list_size,
        list_rho,
        list_beta,
    )


def _tried(
    learner: Callable[[Any, Labels, Tape], Any],
    labelings: Callable[[Any], Any],
    x: Any,
    strings: list[Tape],
    plan: _Plan,
) -> list[Any]:
    """What the learner makes of every labelling with every string, each hypothesis once."""
    every = np.asarray(labelings(x))
    if every.ndim != 2 or every.shape[1] != len(x) or not 0 < len(every) <= plan.most_labelings:
        expected = f"a function that gives 1 to {plan.most_labelings} labellings, one a row"
        raise InvalidArgument("labelings", expected, every.shape, of="agnostic", reference=_BY)
    return list(dict.fromkeys(learner(x, labels, string) for string in strings for labels in every))


def _kept(
    hypotheses: list[Any], predict: Callable[[Any, Any], Any], x: Any, y: Labels, margin: float
) -> list[Any]:
    errors = [float(np.mean(np.asarray(predict(hypothesis, x)) != y)) for hypothesis in hypotheses]
    least = min(errors)
    return [h for h, error in zip(hypotheses, errors, strict=True) if error <= least + margin]
