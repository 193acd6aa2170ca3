"""How much of a promised error is left, in nats and in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.dependence import Dependence, GaussianRows
from holdfast.guard._account import Account
from holdfast.guard._answer import Left
from holdfast.guard._model_tails import widest_tail
from holdfast.guard._prior import Surprise
from holdfast.intervals import clopper_pearson

_MANY = 1_000_000


def _nats_within(error: float, rows: int, model: Dependence | None) -> float:
    """The most nats at which a share near one half, among ``rows`` rows, still has an interval within
    ±``error``."""
    if error <= 0:
        return 0.0
    if model is not None:
        return widest_tail(model).gamma(error)
    low, high = (
        0.0,
        2.0 * rows * error**2 + 1.0,
    )  # Hoeffding's exponent; the exact interval is narrower by little
    while clopper_pearson(rows // 2, rows, high).half_width <= error and high < 1e12:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        if clopper_pearson(rows // 2, rows, middle).half_width <= error:
            low = middle
        else:
            high = middle
    return low


@dataclass(frozen=True)
class Capacity:
    """The ``nats`` at which a share near one half, the widest question there is, reaches the promised
    ``error``.

    At ``comfortable`` nats there is still room for a half-cell of one deviation of a guess from the training
    part, so that two in three such guesses are confirmed.
    """

    error: float
    nats: float
    comfortable: float

    @classmethod
    def of(cls, error: float, rows: int, model: Dependence | None) -> Capacity:
        """The capacity of ``rows`` protected rows under a model of dependence (None: independent)."""
        room = math.sqrt(0.5 / rows)
        return cls(error, _nats_within(error, rows, model), _nats_within(error - room, rows, model))

    def left(self, account: Account) -> float:
        """Nats left before the next share near one half breaks the promise."""
        return max(0.0, self.nats - account.nats())

    def _surprises(self, account: Account) -> int:
        """How many surprises of one cell fit, each a little cheaper than the last as the prior learns."""
        count, experience, spent = 0, account.experience, 0.0
        while count < _MANY and account.nats(ahead=count + 1) + spent <= self.nats:
            spent += experience.surprise_price(Surprise(cell=1))
            experience = experience.after(surprise=True)
            count += 1
        return count

    def describe(self, account: Account) -> Left:
        """The same with how many confirmed guesses or surprises it buys."""
        surprises = self._surprises(account)
        confirmed = max(surprises, _most(lambda count: account.nats(ahead=count) <= self.comfortable))
        bought = f"{_count(confirmed)} confirmed guesses or {_count(surprises)} surprises"
        words = f"about {bought} more at ±{self.error:g}"
        return Left(self.left(account), words=words, confirmed=confirmed, surprises=surprises)


def describe_unlimited(account: Account, rows: int, model: Dependence | None) -> Left:
    """What the account says when no error was promised: how wide intervals are now, and later."""
    bounded = not isinstance(model, GaussianRows)

    def half_width(ahead: int) -> float:
        nats = account.nats(ahead)
        if model is not None:
            radius = widest_tail(model).radius_at(nats)
            return min(0.5, radius) if bounded else radius
        return clopper_pearson(rows // 2, rows, nats).half_width

    asked = "a share" if bounded else "the mean of the rows"
    words = (
        f"no error was promised, so nothing is refused; {asked} now comes with ±{half_width(1):.3g} and half "
        f"a cell, after 100 confirmed guesses more with ±{half_width(101):.3g}"
    )
    return Left(math.inf, words=words, confirmed=_MANY, surprises=_MANY)


def _most(fits: Callable[[int], bool]) -> int:
    """The largest count up to a million that fits, given that fewer always fit."""
    low, high = 0, _MANY
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def _count(number: int) -> str:
    return "a million or more" if number >= _MANY else f"{number:,}"
