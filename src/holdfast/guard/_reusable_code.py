"""The code guard behind the interface of the reusable holdout, so that both can face the same analyst."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.dependence import Dependence
from holdfast.engines import SCALE_BITS
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.guard._answer import Answer, Left
from holdfast.guard._certificate import Certificate
from holdfast.guard._guard import Guard
from holdfast.guard._question import Moments, Part, Question
from holdfast.guard._reusable_parts import Expression, FunctionOfRows, Sums, TwoParts

_NAME = "CodeHoldout"


@dataclass(frozen=True, kw_only=True)
class FunctionQuestion(Question):
    """The mean of a function with values in [0, 1]; what it is on the training rows is known already."""

    function: FunctionOfRows
    parts: TwoParts
    training: Sums

    @classmethod
    def of(cls, function: FunctionOfRows, parts: TwoParts) -> FunctionQuestion:
        """The question, with a key of its own: two functions are never known to be the same."""
        return cls(
            key=secrets.token_hex(16),
            text=function.text,
            low=0.0,
            high=1.0,
            guess=None,
            kind="mean",
            resolution=2.0**-SCALE_BITS,
            function=function,
            parts=parts,
            training=parts.in_training(function),
        )

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        sums = self.training if part.training else self.function.sums(self.parts.holdout)
        return Moments.from_integers(
            sums.rows, sums.total, sums.squares if squares else None, sums.scale, self.low, self.high
        )

    @property
    def record(self) -> Any:
        return self.text


class CodeHoldout:
    """The code guard with the interface of :class:`ReusableHoldout`: the training value is the guess, and
    only a surprise costs.

    Guarantee: with probability ``confidence`` the interval of every answer contains the expectation of its
    question, however the questions were chosen (``docs/theory/code-guard.md``). No noise, no budget to fix in
    advance; with ``error`` no interval is wider than that on either side, and questions that would need one
    are refused with :class:`~holdfast.errors.BudgetSpent`.
    Assumes: the holdout follows ``dependence`` (independent rows when it is not given) and is independent of
    the training part; a function looks at each row alone. Not checkable; the certificate says so.
    Reference: Holdfast, theory 2.2.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> train, fresh = rng.normal(size=(2, 50_000, 3))
    >>> holdout = CodeHoldout(train, fresh)
    >>> answer = holdout.ask(lambda rows: rows[:, 0] > 0)
    >>> bool(answer.low < 0.5 < answer.high), answer.half_width < 0.03
    (True, True)
    """

    def __init__(
        self,
        train: Any,
        holdout: Any,
        *,
        confidence: float = 0.95,
        error: float | None = None,
        dependence: Dependence | None = None,
    ) -> None:
        self._parts = TwoParts(train, holdout, of=_NAME)
        if dependence is not None and not isinstance(dependence, Dependence):
            raise InvalidArgument(
                "dependence", "a model from holdfast.dependence, or None", dependence, of=_NAME
            )
        self._guard = Guard(
            _table(self._parts.holdout.rows, holdout),
            train=_table(self._parts.train.rows, train),
            confidence=confidence,
            error=error,
            dependence=dependence,
        )

    def ask(self, f: Any) -> Answer:
        """The mean of ``f`` over the distribution, with its interval; ``f`` as for
        :meth:`ReusableHoldout.ask`.

        Guarantee: the interval holds together with all others (see :class:`CodeHoldout`). A function that
        fails on the holdout is charged as an output of its own.
        """
        try:
            question = self._parts.question(f, of="CodeHoldout.ask")
            if isinstance(question, Expression):
                return self._guard.ask(question.checked.query)
            asked = FunctionQuestion.of(question, self._parts)
        except QueryRejected as rejected:
            rejected.asked, rejected.spent, rejected.left = 0.0, self.spent, float(self.left)
            raise
        return self._guard._answer(asked)

    @property
    def rows(self) -> int:
        """The number of holdout rows."""
        return self._guard.rows

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        return self._guard.spent

    @property
    def left(self) -> Left:
        """What is left of the promise: a number of nats, and the same in words."""
        return self._guard.left

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer, in order."""
        return self._guard.history

    @property
    def certificate(self) -> Certificate:
        """What all answers together rest on."""
        return self._guard.certificate

    def __repr__(self) -> str:
        return f"CodeHoldout({self._guard!r})"


def _table(rows: Any, data: Any) -> Any:
    """The table itself, or, where only functions can read the rows, their numbers in its place."""
    return {"row": np.arange(len(data))} if rows is None else data
