"""The account: how much of the promise has been used, and at which error probability the next question is
answered.

Question j is answered at failure probability δ_j = β w_j exp(−spent), so that all intervals hold at once with
probability 1 − β however the questions were chosen (theory 2.2). Everything is kept in nats: ln(1/δ_j) grows,
and nothing underflows. Prices are whole micro-nats, rounded up on the running total, so that a book of
integers reproduces the account exactly.

Questions that are fixed before any of them is answered are a *batch*. They do not depend on each other's
answers, so none pays for the others: each is answered at δ = β (mean of their weights) exp(−spent before the
batch), and whoever comes after pays for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache

from holdfast.guard._prior import Experience, Surprise
from holdfast.records import Record

MICRO = 1_000_000

# Σ 1/(i ln² i) over i ≥ 2 is 2.1097428…; rounded up, so that the weights sum to 1 − 3.4e-6. What they leave
# pays for looks at the rows that are no questions.
_WEIGHT_SUM = 2.10975
_FOR_LOOKS = 3e-6


def weight_nats(step: int) -> float:
    """ln(1/w_j) for the weights w_j = 1/(2.10975 (j+1) ln²(j+1)), which need no number of questions fixed in
    advance."""
    return math.log(step + 1) + 2 * math.log(math.log(step + 1)) + math.log(_WEIGHT_SUM)


@lru_cache(maxsize=64)
def shared_weight_nats(step: int, questions: int) -> float:
    """ln(1/w) where w is the mean of the weights of places ``step``, …, ``step + questions − 1``."""
    if questions == 1:
        return weight_nats(step)
    total = math.fsum(math.exp(-weight_nats(place)) for place in range(step, step + questions))
    return math.log(questions / total)


def look_nats(number: int) -> float:
    """What the ``number``-th look at the rows costs where it says "yes"; where it says "no" it is free.

    Looks have the weights 3·10⁻⁶/(i(i+1)), which together with those of all questions sum to less than 1, so
    a "no" has all the weight that it had before (``docs/theory/epochs.md``, "What a refusal costs").
    """
    return math.log(number * (number + 1) / _FOR_LOOKS)


@dataclass(frozen=True, repr=False)
class Account(Record):
    """The state of one dataset's account; a new one comes out of every charge.

    ``failure`` is β less what the training split cost, ``steps`` the questions charged so far, ``micro_nats``
    what they cost and ``exact`` the unrounded total. ``together`` is how many questions of one batch are
    answered from this state.
    """

    failure: float
    steps: int = 0
    micro_nats: int = 0
    exact: float = 0.0
    experience: Experience = field(default_factory=Experience)
    together: int = 1

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        return self.micro_nats / MICRO

    def nats(self, ahead: int = 1) -> float:
        """ln(1/δ) of the ``ahead``-th coming question, if those before it cost nothing; of every question of
        a batch that begins there."""
        shared = shared_weight_nats(self.steps + ahead, self.together)
        return -math.log(self.failure) + shared + self.spent

    def for_batch(self, questions: int) -> Account:
        """This state, from which a batch of so many questions is answered.

        Guarantee: with δ = exp(−``nats()``) for each of them, all intervals of the account hold at once with
        probability 1 − β, if whoever comes after counts ``questions`` steps and pays for all their outputs.
        Assumes: all of them were fixed before the first was answered.
        Reference: docs/theory/code-guard.md, "Asked together".
        """
        return replace(self, together=questions)

    def extremes(self) -> tuple[Account, Account]:
        """The two states in which an output of this batch can be dearest: a surprise is, if all others were
        confirmed; a confirmation is, if all others surprised."""
        others, seen = self.together - 1, self.experience
        calm = replace(seen, confirmed=seen.confirmed + others)
        stormy = replace(seen, surprised=seen.surprised + others)
        return replace(self, experience=calm), replace(self, experience=stormy)

    def price(self, output: Surprise | None) -> float:
        """Nats for an output of the next question; None is the confirmation."""
        if output is None:
            return self.experience.confirmation_price()
        return self.experience.surprise_price(output)

    def charge(self, nats: float) -> int:
        """The price in whole micro-nats that takes the running total to the next whole micro-nat above it."""
        return max(0, math.ceil((self.exact + nats) * MICRO) - self.micro_nats)

    def after(self, micro_nats: int, *, surprise: bool, exact: float | None = None) -> Account:
        """The account once an output with this price has been released."""
        total = self.micro_nats + micro_nats
        return Account(
            failure=self.failure,
            steps=self.steps + 1,
            micro_nats=total,
            exact=total / MICRO if exact is None else exact,
            experience=self.experience.after(surprise=surprise),
        )
