"""Littlestone dimension and the standard optimal algorithm on finite classes; learning from lists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.replicable._list_heavy import list_heavy_hitter, list_heavy_hitter_rows
from holdfast.replicable._result import Result
from holdfast.replicable._shatter import Shatter
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["StandardOptimal", "learn_littlestone", "learn_littlestone_rows", "littlestone_dimension"]

_BY = "SIS Theorem B.1"


def littlestone_dimension(classes: Any) -> int:
    """The depth of the deepest complete tree that a class shatters: the mistakes an adversary can force.

    ``classes`` is a table of 0 and 1 with a row for each hypothesis and a column for each point.

    Guarantee: exact. The time can grow exponentially with the class; thresholds on a thousand points take
    seconds.
    Assumes: at least one hypothesis, labels 0 and 1 (checked).
    Reference: Littlestone 1988.

    >>> littlestone_dimension([[0, 0], [0, 1], [1, 0], [1, 1]])
    2
    >>> littlestone_dimension(np.tri(9, 8, -1))  # thresholds on eight points
    3
    """
    shatter = Shatter(classes, of="littlestone_dimension")
    return shatter.dimension(shatter.everything)


class StandardOptimal:
    """Predicts the label that keeps the harder half of the class: no learner makes fewer mistakes at worst.

    Guarantee: on labels of any hypothesis of the class, in any order, at most ``dimension`` mistakes.
    Assumes: the labels agree with some hypothesis (a label that none gives is refused).
    Reference: Littlestone 1988.

    >>> learner = StandardOptimal(np.tri(9, 8, -1))
    >>> for point in (3, 5, 4):
    ...     _ = learner.update(point, int(point < 4))
    >>> learner.mistakes <= learner.dimension, learner.hypothesis()
    (True, (1, 1, 1, 1, 0, 0, 0, 0))
    """

    def __init__(self, classes: Any) -> None:
        self._shatter = Shatter(classes, of="StandardOptimal")
        self._left = self._shatter.everything
        self.dimension = self._shatter.dimension(self._left)
        self.mistakes = 0

    def predict(self, point: int) -> int:
        """The label, 0 or 1, after which the remaining class has the larger Littlestone dimension."""
        ones, zeros = self._shatter.split(self._left, self._checked(point))
        if not ones or not zeros:
            return int(bool(ones))
        return int(self._shatter.dimension(ones) > self._shatter.dimension(zeros))

    def update(self, point: int, label: int) -> bool:
        """Learn the true label of a point; True if the prediction was wrong."""
        label = checks.whole(label, "label", at_least=0, at_most=1, of="StandardOptimal.update")
        wrong = self.predict(point) != label
        ones, zeros = self._shatter.split(self._left, point)
        if not (ones if label else zeros):
            raise InvalidArgument(
                "label", "one that a remaining hypothesis gives", label, of="StandardOptimal"
            )
        self._left = ones if label else zeros
        self.mistakes += wrong
        return wrong

    def hypothesis(self) -> tuple[int, ...]:
        """What it would predict for every point now; not always a hypothesis of the class."""
        return tuple(self.predict(point) for point in range(self._shatter.points))

    def _checked(self, point: int) -> int:
        return checks.whole(
            point, "point", at_least=0, at_most=self._shatter.points - 1, of="StandardOptimal"
        )


def learn_littlestone(
    list_learner: Callable[[Any, Any], Iterable[Hashable]],
    x: Any,
    y: Any,
    *,
    list_rows: Any,
    list_size: Any,
    eta: Any,
    bad: Any,
    rho: Any,
    beta: Any,
    tape: Tape,
    best_effort: bool = False,
) -> Result:
    """A hypothesis from the lists of a learner that sees a block of rows at a time, the same on fresh rows.

    ``list_learner(x, y)`` returns a list of hypotheses from ``list_rows`` rows. Theorem B.1 uses the learner
    of Ghazi, Kumar and Manurangsi, with ``eta`` of order 1/d; any list learner serves.

    Guarantee: two samples give different hypotheses with probability at most ``rho``; the hypothesis is good,
    in the sense of ``bad``, except with probability at most ``beta``.
    Assumes: rows drawn independently; some hypothesis is on the list with probability at least ``eta``, and a
    list holds any that is not good with probability at most ``bad`` (the list learner's promise, not
    checkable); ``bad`` < ``eta``/2 and lists of at most ``list_size`` hypotheses (checked).
    Reference: SIS Theorem B.1, by Theorem 6.7.

    >>> def consistent(x, y):  # thresholds up to 8 that agree with a block
    ...     return [threshold for threshold in range(9) if ((x < threshold) == y).all()]
    >>> setting = dict(list_rows=40, list_size=9, eta=0.9, bad=0.05, rho=0.3, beta=0.1)
    >>> x = np.random.default_rng(0).integers(0, 8, size=learn_littlestone_rows(**setting))
    >>> int(learn_littlestone(consistent, x, x < 5, **setting, tape=Tape("study-7")))
    5
    """
    of = "learn_littlestone"
    needed, list_rows = _lists(list_rows, list_size, eta, bad, rho, beta, of=of)
    tape = tape_argument(tape, of=of)
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim == 0 or y.ndim != 1 or len(x) != len(y):
        raise InvalidArgument("y", "one label for each row of x", y, of=of, reference=_BY)
    count = min(needed, len(x) // list_rows)
    if count < (1 if best_effort else needed):
        raise NotEnoughRows((1 if best_effort else needed) * list_rows, len(x), what="This learner")
    starts = range(0, count * list_rows, list_rows)
    lists = [frozenset(list_learner(x[i : i + list_rows], y[i : i + list_rows])) for i in starts]
    found = list_heavy_hitter(
        lists, eta=eta, rho=rho, beta=beta, list_size=list_size, tape=tape, best_effort=best_effort
    )
    details = {"lists": count, "list_rows": list_rows}
    return Result(found.value, found.guarantee, None, found.beta, count * list_rows, str(tape), details)


def learn_littlestone_rows(*, list_rows: Any, list_size: Any, eta: Any, bad: Any, rho: Any, beta: Any) -> int:
    """The fewest rows from which :func:`learn_littlestone` keeps its promise: lists times rows of a list.

    Guarantee: as :func:`learn_littlestone`.
    Assumes: as :func:`learn_littlestone`.
    Reference: SIS Theorem B.1.
    """
    lists, rows = _lists(list_rows, list_size, eta, bad, rho, beta, of="learn_littlestone_rows")
    return lists * rows


def _lists(
    list_rows: Any, list_size: Any, eta: Any, bad: Any, rho: Any, beta: Any, *, of: str
) -> tuple[int, int]:
    list_rows = checks.whole(list_rows, "list_rows", of=of, by=_BY)
    eta = checks.real(eta, "eta", "(0, 1)", of=of, by=_BY)
    bad = checks.real(bad, "bad", "[0, 0.5)", of=of, by=_BY)
    if not bad < eta / 2.0:
        raise InvalidArgument("bad", "below eta/2", bad, of=of, reference=_BY)
    return list_heavy_hitter_rows(eta=eta, rho=rho, beta=beta, list_size=list_size), list_rows
