"""How much of a promised error is left, in nats and in words, and how wide an answer would be now.

Also what a model of the rows says about means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast import search
from holdfast.answers import Left
from holdfast.coding import Account
from holdfast.dependence import Dependence
from holdfast.errors import QueryRejected
from holdfast.intervals import clopper_pearson
from holdfast.readings import Moments, Part, Question, StatisticQuestion
from holdfast.tails import SubGaussian, Tail

_MANY = 1_000_000
_MOST_COUNTED = 10_000
_SOON = 100  # questions
_USUAL = 5.0  # nats
_FAR_ENOUGH = 10_000  # steps after which a series is assumed to have forgotten its past


def _nats_within(error: float, rows: int, tail: Tail | None) -> float:
    """The most nats at which a share near one half, among ``rows`` rows, still has an interval within
    ±``error``; by a ``tail`` if rows depend on each other."""
    if error <= 0:
        return 0.0
    if tail is not None:
        return tail.gamma(error)

    def fits(nats: float) -> bool:
        return clopper_pearson(rows // 2, rows, nats).half_width <= error

    # Hoeffding's exponent; the exact interval is only slightly narrower.
    high = 2.0 * rows * error**2 + 1.0
    while fits(high) and high < 1e12:
        high *= 2
    return search.edge(fits, 0.0, high, relative=0.0, absolute=high * 2.0**-49.5)


@dataclass(frozen=True)
class Capacity:
    """The ``nats`` at which a share near one half reaches the promised ``error``. No question is wider.

    At ``comfortable`` nats there is still room for a half-cell of one deviation of a guess from the training
    part, so that two in three such guesses are confirmed.
    """

    error: float
    nats: float
    comfortable: float

    @classmethod
    def of(cls, error: float, rows: int, tail: Tail | None) -> Capacity:
        """The capacity of ``rows`` protected rows, by the ``tail`` of a share of them if they depend on each
        other (None: independent)."""
        room = math.sqrt(0.5 / rows)
        return cls(error, _nats_within(error, rows, tail), _nats_within(error - room, rows, tail))

    def left(self, account: Account) -> float:
        """Nats left before the next share near one half breaks the promise."""
        return max(0.0, self.nats - account.nats())

    def _surprises(self, account: Account) -> int:
        """How many surprises of one cell fit. Each is a little cheaper than the last, as the prior learns."""
        count, prior, spent = 0, account.learned.cells, 0.0
        while count < _MOST_COUNTED and account.nats(ahead=count + 1) + spent <= self.nats:
            spent += prior.price(1, 1.0)
            prior = prior.after(1, 1.0)
            count += 1
        return count if count < _MOST_COUNTED else _MANY

    def describe(self, account: Account, question: Question, half_width: float, never: str = "") -> Left:
        """What is left, with how many confirmed guesses or surprises it buys. ``half_width`` is what the
        widest ``question`` would get now, infinite if it would be refused. If it would have been refused as
        the first question too, ``never`` says why."""
        total = self.left(Account(account.failure, weights=account.weights))
        if math.isinf(half_width):
            refused = (
                f"{question.text} would be refused now: its interval would be wider than ±{self.error:g}"
            )
            return Left(0.0, words=never or refused, confirmed=0, surprises=0, total=total)
        surprises = self._surprises(account)
        confirmed = max(surprises, _most(lambda count: account.nats(ahead=count) <= self.comfortable))
        bought = f"{_count(confirmed)} confirmed guesses or {_count(surprises)} surprises"
        return Left(
            self.left(account),
            words=f"about {bought} more at ±{self.error:g}",
            confirmed=confirmed,
            surprises=surprises,
            total=total,
            share_half_width=_of_a_share(question, half_width),
        )


def describe_unlimited(
    question: Question, half_width: float, half_width_after: Callable[[int], float]
) -> Left:
    """What is left of an account without a promised error: how wide the widest ``question`` would be now, and
    after more questions."""
    return Left(
        math.inf,
        words=(
            f"{question.text} asked now gets about ±{half_width:.2g}; after {_SOON} more that match their "
            f"guess, about ±{half_width_after(_SOON):.2g}. No maximum width was set, so no question is "
            "refused."
        ),
        confirmed=_MANY,
        surprises=_MANY,
        share_half_width=_of_a_share(question, half_width),
        after=half_width_after if question.kind == "share" else None,
    )


@dataclass(frozen=True, kw_only=True)
class EvenShare(Question):
    """A share that is true of every second training row: no share has a wider interval. Reads no rows."""

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        return Moments(part.rows.count, 0.5, math.nan, 0.5)

    @property
    def record(self) -> str:
        return self.text


def widest_question(model: Dependence | None, *, guessed: bool) -> Question:
    """The widest question that the model of the rows answers, to be prepared and never asked: a share near
    one half, or the mean of the rows. ``guessed`` says whether its guess comes from the training part."""
    if model is not None and not model.bounded:
        return StatisticQuestion(
            key="",
            text="The mean of the rows",
            low=-math.inf,
            high=math.inf,
            guess=0.0,
            kind="custom",
            function=lambda rows: 0.0,
            tail=model.mean_tail(),
        )
    guess = None if guessed else 0.5
    return EvenShare(key="", text="A share", low=0.0, high=1.0, guess=guess, kind="share")


def forecast_tail(model: Dependence, units: Sequence[int]) -> Tail:
    """About how the widest question about dependent rows varies. It is used only to forecast a width. We
    assume that a series has as much memory as the model allows, and as many rows as a layout keeps."""
    if not model.bounded:
        return model.mean_tail()
    norm = model.operator_norm
    if norm is not None:
        return SubGaussian(0.5 * math.sqrt((1 + norm) / (1 - norm) / model.n))
    steps = np.arange(1, _FAR_ENOUGH + 1)
    logs = model.log_remembered(steps)
    certain = model.mean_tail(0.0, 1.0)
    if logs is None or not units:
        return certain
    remembered = 2 * float(np.exp(logs).sum())
    likely = SubGaussian(0.5 * math.sqrt((1 + remembered) / units[len(units) // 2]))
    return min(certain, likely, key=lambda tail: tail.radius_at(_USUAL))


def _of_a_share(question: Question, half_width: float) -> float:
    return half_width if question.kind == "share" else math.nan


def _most(fits: Callable[[int], bool]) -> int:
    """The largest count up to a million that fits. If a count fits, smaller ones fit too."""
    return search.whole_edge(fits, 0, _MANY + 1)


def _count(number: int) -> str:
    return "a million or more" if number >= _MANY else f"{number:,}"


def tail_of_bounded_mean(model: Dependence, low: float, high: float) -> Tail:
    """The tail of a mean of values in [low, high]. Refused, without data, if the model has none."""
    if not model.bounded:
        raise QueryRejected(
            f"{model.name} say how the mean of the rows themselves varies, and nothing about shares, "
            "quantiles and clipped values. Use strategy='code', 'typical-gaussian' or 'typical-laplace' and "
            "ask with guard.custom(lambda rows: rows['x'].mean(), tail=model.mean_tail()), or give another "
            "model."
        )
    return model.mean_tail(low, high)
