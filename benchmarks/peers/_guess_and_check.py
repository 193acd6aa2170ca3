"""Guess and Check (Rogers, Roth, Smith, Srebro, Thakkar and Woodworth 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from scipy import special

from holdfast.errors import BudgetSpent

_FIRST = math.log(math.pi**2 / 6)


def _weight(index: int) -> float:
    """ln(1/c_j), c_j = 6/(π²(j+1)²)."""
    return _FIRST + 2 * math.log(index + 1)


@dataclass
class GuessAndCheck:
    """Checks guesses on ``rows`` holdout rows; answers from the holdout, rounded, where a guess fails.

    With ``exact`` the check is the Chernoff bound at the end of the guessed interval on the side where the
    holdout's value lies; ``wrong_end`` guards the other end, as a known implementation does.
    """

    rows: int
    beta: float
    exact: bool = False
    wrong_end: bool = False
    asked: int = 0
    failures: int = 0
    paid: float = field(default=0.0)

    def nats(self) -> float:
        """ln(2/β_i) for the next guess."""
        return checking_nats(self.asked + 1, self.failures, self.paid, self.beta)

    def answer(self, guess: float, width: float, holdout: float) -> float:
        """The guess if it holds, else the holdout's value on a grid; its truth is within ``width``."""
        nats = self.nats()
        self.asked += 1
        if abs(guess - holdout) <= width - self._radius(guess, width, holdout, nats):
            return guess
        cell = width - math.sqrt(nats / (2 * self.rows))
        if not cell > 0:
            raise BudgetSpent("No grid is left to answer on.", asked=width, spent=self.failures, left=0)
        self.failures += 1
        self.paid -= math.log(cell)
        return round(holdout / cell) * cell

    def _radius(self, guess: float, width: float, holdout: float, nats: float) -> float:
        if not self.exact:
            return math.sqrt(nats / (2 * self.rows))
        below = (holdout < guess) != self.wrong_end
        end = guess - width if below else guess + width
        return _chernoff(end, nats / self.rows, upward=below)


def _chernoff(end: float, rate: float, *, upward: bool) -> float:
    """The least t with kl(end ± t ‖ end) ≥ rate; from outside [0, 1] nothing can have come."""
    if not 0 < end < 1:
        return 0.0
    mean, room = (end, 1 - end) if upward else (1 - end, end)
    if float(special.rel_entr(1.0, mean)) < rate:
        return math.inf
    low, high = 0.0, room
    for _ in range(60):
        middle = (low + high) / 2
        up = mean + middle
        if special.rel_entr(up, mean) + special.rel_entr(1 - up, 1 - mean) < rate:
            low = middle
        else:
            high = middle
    return high


def checking_nats(place: int, failures: int, paid: float, beta: float) -> float:
    """ln(2/β_i), β_i = β c_{i−1} c_f / (C(i−1, f) Π 1/γ_j)."""
    orders = math.lgamma(place) - math.lgamma(failures + 1) - math.lgamma(place - failures)
    weights = _weight(place - 1) + _weight(failures)
    return math.log(2 / beta) + weights + (orders + paid if failures else 0.0)


def guess_and_check_error(rows: int, queries: int, beta: float, failures: int, honest: float) -> float:
    """The least width, the same for all k questions, with which no one is refused while at most ``failures``
    guesses fail, as late as can be; ``honest`` is how far a guess may lie from the holdout's value and still
    be accepted."""
    allowed = min(failures, queries - 1)
    low, high = honest, 1.0
    if not _lasts(high, rows, queries, beta, allowed, honest):
        return 1.0
    while high - low > 1e-7 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _lasts(middle, rows, queries, beta, allowed, honest) else (middle, high)
    return high


def _lasts(width: float, rows: int, queries: int, beta: float, failures: int, honest: float) -> bool:
    paid = 0.0
    for failed in range(failures + 1):
        nats = checking_nats(queries - failures + failed, failed, paid, beta)
        cell = width - math.sqrt(nats / (2 * rows))
        if cell < honest or not cell > 0:
            return False
        paid -= math.log(cell)
    return True
