"""The reusable holdout (BDP Algorithm 1), and the code guard behind the same interface.

The training part answers until the holdout disagrees. ``CodeHoldout`` answers the same questions with the
code guard, for comparison.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sized
from dataclasses import dataclass
from fractions import Fraction
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import checks, rounding
from holdfast.asking import Failed, read_protected
from holdfast.dependence import Dependence, Independent
from holdfast.engines import SCALE_BITS
from holdfast.errors import BudgetSpent, InvalidArgument, QueryRejected
from holdfast.guard import Answer, Certificate, Guard, Left
from holdfast.holdout._parts import (
    ExpressionOfRows,
    FunctionOfRows,
    HoldoutQuestion,
    Promise,
    SparseNoise,
    TwoParts,
    ValueSums,
)
from holdfast.mechanisms import choose_coins
from holdfast.readings import Moments, Part, Question
from holdfast.stability import DP, BayesianDP

if TYPE_CHECKING:
    from holdfast.queries import Query
    from holdfast.typing import Seed, TableLike

    # A question as a function: it gets all rows of a part, and returns a number for each of them, or one
    # number.
    Function = Callable[[Any], Any]

_NAME, _ALGORITHM = "ReusableHoldout", "BDP Algorithm 1"
_MANY = 1_000_000
_MEANS = "Each value lies in [0, 1] and a mean moves by at most 1/n with one row: sums are exact integers."
_CHECKED = (
    "Threshold, comparison and answer carry exact Laplace noise on one grid; the threshold is drawn again "
    "after every release.",
    "Before the holdout is read, the whole remaining budget counts as spent.",
)
_FUNCTIONS = (
    "Each function gives a row's value from that row alone.",
    "The questions depend on the holdout only through these answers (and on the training part, which is "
    "free to look at). Timing is not protected.",
)


_DECLARED = (
    "Each statistic moves by at most its declared sensitivity when one row takes any other value.",
    "The true value of a statistic is its expectation over holdouts of this many rows.",
)


class ReusableHoldout:
    """Answers questions from a training part as long as the holdout agrees up to a noisy threshold, and from
    the holdout, with noise, at most ``budget`` times.

    Guarantee: all that ever leaves is 9·budget/(4·noise·n)-differentially private in the n holdout rows
    (``privacy``, ``bayesian_privacy``). With probability ``confidence`` the interval of every answer contains
    the expectation of its question, however the questions were chosen. Intervals are narrow before the first
    release and wide after a few: the theorem needs millions of rows (``holdfast.plan`` says how many).
    Assumes: the holdout follows ``dependence`` (independent rows when it is not given) and is independent of
    the training part; a function looks at each row alone. Not checkable; the certificate says so.
    Reference: BDP Algorithm 1 and Theorem 2 after Dwork et al. 2015; intervals: Holdfast,
    ``docs/theory/reusable-holdout.md``.

    ``train`` and ``holdout`` are tables as :class:`Guard` takes them, or arrays and other objects with a
    length, which only functions can read. ``threshold`` and ``noise`` are in units of a mean in [0, 1]; for a
    statistic with a declared sensitivity, in units of n times that. ``budget`` is how often the holdout may
    answer. With ``queries`` the number of questions is fixed, and intervals are slightly narrower. ``seed``
    works only together with ``simulation=True``, for experiments in which nothing is protected.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> train, fresh = rng.normal(size=(2, 50_000, 3))
    >>> holdout = ReusableHoldout(train, fresh, threshold=0.02, noise=0.001, budget=5)
    >>> answer = holdout.ask(lambda rows: rows[:, 0] > 0)
    >>> bool(answer.low < 0.5 < answer.high), answer.confirmed, holdout.left.surprises
    (True, True, 5)
    """

    def __init__(
        self,
        train: TableLike | Sized,
        holdout: TableLike | Sized,
        *,
        threshold: float,
        noise: float,
        budget: int,
        dependence: Dependence | None = None,
        confidence: float = 0.95,
        queries: int | None = None,
        simulation: bool = False,
        seed: Seed = None,
    ) -> None:
        self.threshold = checks.real(threshold, "threshold", "(0, 1]", of=_NAME, by=_ALGORITHM)
        self.noise = checks.real(noise, "noise", "[1e-6, 1]", of=_NAME, by=_ALGORITHM)
        self.budget = checks.whole(budget, "budget", of=_NAME, by=_ALGORITHM)
        self.confidence = checks.real(confidence, "confidence", "(0, 1)", of=_NAME)
        self.queries = None if queries is None else checks.whole(queries, "queries", of=_NAME)
        self._coins = choose_coins(simulation, seed, of=_NAME)
        self._parts = TwoParts(train, holdout, of=_NAME)
        self._model = _model_of(dependence, self.rows)
        self._noise = SparseNoise(self.noise, self.rows)
        self._promise = Promise(
            self._model,
            self._noise,
            self.threshold,
            1 - self.confidence,
            self.queries,
        )
        self._bayesian = BayesianDP(
            self._model.bayesian_epsilon(self._noise.epsilon(self.budget), of="ReusableHoldout")
        )
        self._declared = False
        self._cut = self._fresh_threshold()
        self._asked = 0
        self._released = 0
        self._closed = False
        self._history: list[Answer] = []
        self._answers_by_key: dict[str, Answer] = {}
        self._lock = RLock()

    def ask(self, f: Function | Query | str, *, sensitivity: float | None = None) -> Answer:
        """The mean of ``f`` over the distribution: from the training part if the holdout agrees, else from
        the holdout with noise.

        ``f`` is a function that gets all rows of a part and returns one value in [0, 1] for each, or a share
        or mean as :meth:`Guard.ask` takes it. With ``sensitivity`` Δ it is a function that returns one
        number. The number moves by at most Δ if one of the n holdout rows takes any other value: a sum, a
        clipped variance, the share of the most frequent value. Threshold, noise and intervals are then in
        units of nΔ. The price is the same, and the true value is the statistic's expectation over holdouts of
        n rows. Raises :class:`~holdfast.errors.BudgetSpent` once the holdout has answered ``budget`` times
        (the "⊥" of the algorithm), and :class:`~holdfast.errors.QueryRejected` if ``f`` does not fit the
        training rows, which costs nothing. A function that fails only on the holdout closes it: no price
        covers what that reveals, so nothing may be asked afterwards.
        Guarantee: the interval holds together with all others (see :class:`ReusableHoldout`).
        """
        with self._lock:
            question = self._question(f, sensitivity)
            if question.key is not None and question.key in self._answers_by_key:
                return self._answers_by_key[question.key]
            guess = self._in_training(question)
            self._require(question)
            self._asked, self._closed = self._asked + 1, True  # all that is left, until the outcome is known
            self._declared |= question.one_number
            released = self._compare(question, guess)
            answer = self._answer(question, guess, released)
            self._released += released is not None
            self._closed = False
            self._history.append(answer)
            if question.key is not None:
                self._answers_by_key[question.key] = answer
            return answer

    @property
    def rows(self) -> int:
        """The number of holdout rows."""
        return self._parts.holdout.count

    @property
    def privacy(self) -> DP:
        """What all rounds together reveal about one row of the holdout: at most 9·budget/(4·noise·n)."""
        return DP(self._noise.epsilon(self.budget))

    @property
    def bayesian_privacy(self) -> BayesianDP:
        """What all rounds reveal about one row to somebody who knows others, under the model of
        dependence."""
        return self._bayesian

    @property
    def spent(self) -> float:
        """The privacy parameter, in nats, of the rounds that ended with a release; all of it once closed."""
        return self._noise.epsilon(self.budget if self._closed else self._released)

    @property
    def left(self) -> Left:
        """What is left: nats, and how often the holdout may still answer."""
        releases = 0 if self._closed else self.budget - self._released
        more = _MANY if self.queries is None else self.queries - self._asked
        confirmed = more if releases else 0
        often = "once" if releases == 1 else f"{releases:,} times"
        words = (
            f"the holdout may answer {often} more; answers from the training part are free"
            if confirmed
            else "nothing may be asked any more"
        )
        nats = self._noise.epsilon(releases) if confirmed else 0.0
        return Left(nats, words=words, confirmed=confirmed, surprises=min(releases, confirmed))

    @property
    def history(self) -> tuple[Answer, ...]:
        """Every answer, in order."""
        return tuple(self._history)

    @property
    def certificate(self) -> Certificate:
        """The certificate of all answers together."""
        return self._certificate({"questions": self._asked, "releases": self._released})

    def __repr__(self) -> str:
        return (
            f"ReusableHoldout({self.rows:,} holdout rows, {self._parts.train.count:,} for training; "
            f"{self._asked} questions, {self._released} of {self.budget} releases)"
        )

    def _question(self, f: Any, sensitivity: Any) -> HoldoutQuestion:
        of = "ReusableHoldout.ask"
        try:
            if sensitivity is not None:
                return self._parts.statistic(f, sensitivity, of=of)
            return self._parts.question(f, of=of)
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None

    def _in_training(self, question: HoldoutQuestion) -> Fraction:
        try:
            return self._parts.level_in_training(question)
        except QueryRejected as rejected:
            raise self._with_account(rejected) from None

    def _with_account(self, rejected: QueryRejected) -> QueryRejected:
        rejected.asked, rejected.spent, rejected.left = 0.0, self.spent, float(self.left)
        return rejected

    def _require(self, question: HoldoutQuestion) -> None:
        """Refuse if the budget is spent. Everyone may know that it is spent."""
        if self.left.confirmed > 0:
            return
        if self._closed:
            reason = "a question failed on the holdout, and nothing may be asked after that"
        elif self._released >= self.budget:
            reason = f"the holdout has answered {self.budget:,} times, as often as it may"
        else:
            reason = f"all {self.queries:,} questions have been asked"
        raise BudgetSpent(
            f"{question.text} is not answered: {reason}. Fresh rows are needed.",
            asked=self._noise.epsilon(1),
            spent=self.spent,
            left=0.0,
        )

    def _draw(self, noise: Any, value: float) -> float:
        coins = self._coins
        return float(noise.add(value, simulation=coins.simulated, seed=coins.generator))

    def _fresh_threshold(self) -> float:
        return self._draw(self._noise.threshold, self._noise.on_grid(Fraction(self.threshold)))

    def _compare(self, question: HoldoutQuestion, guess: Fraction) -> float | None:
        """Read the holdout. No other method does. Returns a noisy value if it disagrees, else None.

        For a statistic the value is how far the holdout's value is above the training part's.
        """
        value = self._read(question)
        if question.one_number:
            farthest = Fraction(self._noise.farthest)
            value, guess = min(max(value - guess, -farthest), farthest), Fraction(0)
        difference = self._noise.on_grid(abs(value - guess))
        if not self._draw(self._noise.comparison, difference) > self._cut:
            return None
        self._cut = self._fresh_threshold()
        return self._draw(self._noise.answer, self._noise.on_grid(value))

    def _read(self, question: HoldoutQuestion) -> Fraction:
        level = read_protected(lambda: question.level(self._parts.holdout), Fraction, silent=True)
        if not isinstance(level, Failed):
            return level
        raise QueryRejected(
            f"{question.text} did not give {question.gives}, though it did for the "
            "training rows. That it failed depends on the holdout and cannot be paid for: nothing more is "
            "answered. Earlier answers keep their intervals.",
            asked=self._noise.epsilon(self.budget - self._released),
            spent=self.spent,
            left=0.0,
        )

    def _answer(self, question: HoldoutQuestion, guess: Fraction, released: float | None) -> Answer:
        statistic = question.one_number
        half = self._promise.half_width(
            self._asked, self._released, released=released is not None, statistic=statistic
        )
        if statistic:
            value, low, high = self._of_statistic(question, guess, released, half)
        else:
            value = float(guess) if released is None else min(max(released, 0.0), 1.0)
            centre = value if released is None else released
            low, high = min(max(0.0, centre - half), 1.0), max(min(1.0, centre + half), 0.0)
        numbers = {
            "question": self._asked,
            "releases before": self._released,
            "holdout value within" if statistic else "holdout mean within": (
                self._promise.deviation(self._asked, self._released, statistic=statistic)
                * float(question.unit)
            ),
        }
        return Answer(
            value=value,
            low=low,
            high=high,
            confidence=self.confidence,
            cost=0.0 if released is None else self._noise.epsilon(1),
            query=question.text,
            certificate=self._certificate(numbers),
            guess=float(guess * question.unit),
            confirmed=released is None,
            notes=(
                "The training part's value; the holdout agrees with it up to the threshold."
                if released is None
                else "The holdout's value with noise" + (", clipped to [0, 1]." if not statistic else "."),
            ),
        )

    def _of_statistic(
        self, question: HoldoutQuestion, guess: Fraction, released: float | None, half: float
    ) -> tuple[float, float, float]:
        """Value and interval in the statistic's own units. The interval is unbounded if the holdout may be
        farther away than floats can show."""
        difference = released or 0.0
        value = float((guess + Fraction(difference)) * question.unit)
        if abs(difference) + half >= self._noise.farthest:
            return value, -math.inf, math.inf
        width = float(Fraction(half) * question.unit)
        return value, rounding.down(value - width), rounding.up(value + width)

    def _certificate(self, numbers: dict[str, Any]) -> Certificate:
        tail = self._promise.statistic_tail if self._declared else self._promise.tail
        return Certificate(
            statement=(
                f"With probability {self.confidence:.6g} every interval released from this holdout contains "
                "its true value, however the questions were chosen."
            ),
            theorem="the reusable holdout, BDP Algorithm 1 (docs/theory/reusable-holdout.md)",
            numbers={
                "holdout rows": self.rows,
                "training rows": self._parts.train.count,
                "threshold": self.threshold,
                "noise": self.noise,
                "budget": self.budget,
                "differential privacy of all releases": self.privacy.epsilon,
                "Bayesian differential privacy": self._bayesian.epsilon,
                **({} if isinstance(self._model, Independent) else {"model": self._model.description}),
                **numbers,
            },
            checked=(_MEANS, *_CHECKED),
            assumed=(*self._model.assumptions, *_FUNCTIONS, *(_DECLARED if self._declared else ())),
            interval=f"{type(tail).__name__} tail of the dependence model",
        )


def _model_of(dependence: Dependence | None, rows: int) -> Dependence:
    """The model of the holdout rows, with the training part's independence among its assumptions."""
    model = Independent(rows) if dependence is None else dependence
    if not isinstance(model, Dependence):
        raise InvalidArgument("dependence", "a model from holdfast.dependence, or None", dependence, of=_NAME)
    if model.n != rows:
        raise InvalidArgument("dependence", f"a model of the {rows:,} holdout rows", model, of=_NAME)
    return model.protected_only()


_CODE_NAME = "CodeHoldout"


@dataclass(frozen=True, kw_only=True)
class FunctionQuestion(Question):
    """The mean of a function with values in [0, 1]. Its value on the training rows is known already."""

    function: FunctionOfRows
    parts: TwoParts
    training: ValueSums

    @classmethod
    def of(cls, function: FunctionOfRows, parts: TwoParts) -> FunctionQuestion:
        """The question, with a key of its own: nobody can tell whether two functions are the same."""
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
            training=parts.sums_in_training(function),
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
    question, however the questions were chosen (``docs/theory/code-guard.md``). It needs no noise and no
    budget that is fixed in advance. With ``error`` no interval is wider than that on either side, and
    questions that would need a wider one are refused with :class:`~holdfast.errors.BudgetSpent`.
    Assumes: the holdout follows ``dependence`` (independent rows when it is not given) and is independent of
    the training part; a function looks at each row alone. Not checkable; the certificate says so.
    Reference: docs/theory/code-guard.md, "The theorem".

    ``train`` and ``holdout`` are those of :class:`ReusableHoldout`.

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
        train: TableLike | Sized,
        holdout: TableLike | Sized,
        *,
        confidence: float = 0.95,
        error: float | None = None,
        dependence: Dependence | None = None,
    ) -> None:
        self._parts = TwoParts(train, holdout, of=_CODE_NAME)
        if dependence is not None and not isinstance(dependence, Dependence):
            raise InvalidArgument(
                "dependence", "a model from holdfast.dependence, or None", dependence, of=_CODE_NAME
            )
        self._guard = Guard(
            _table(self._parts.holdout.rows, holdout),
            train=_table(self._parts.train.rows, train),
            confidence=confidence,
            error=error,
            dependence=dependence,
        )

    def ask(self, f: Function | Query | str) -> Answer:
        """The mean of ``f`` over the distribution, with its interval; ``f`` as for
        :meth:`ReusableHoldout.ask`.

        Guarantee: the interval holds together with all others (see :class:`CodeHoldout`). A function that
        fails on the holdout is charged as an output of its own.
        """
        try:
            question = self._parts.question(f, of="CodeHoldout.ask")
            if isinstance(question, ExpressionOfRows):
                return self._guard.ask(question.checked.query)
            function_question = FunctionQuestion.of(question, self._parts)
        except QueryRejected as rejected:
            rejected.asked, rejected.spent, rejected.left = 0.0, self.spent, float(self.left)
            raise
        return self._guard.ask(function_question)

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
        """The certificate of all answers together."""
        return self._guard.certificate

    def __repr__(self) -> str:
        return f"CodeHoldout({self._guard!r})"


def _table(rows: Any, data: Any) -> Any:
    """The table itself. If only functions can read the rows, their numbers take its place."""
    return {"row": np.arange(len(data))} if rows is None else data
