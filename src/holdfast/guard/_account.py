"""The account: how much of the promise has been used, and at which error probability the next question is
answered.

Question j is answered at failure probability δ_j = β w_j exp(−spent), so that all intervals hold at once with
probability 1 − β however the questions were chosen (theory 2.2). Everything is kept in nats: ln(1/δ_j) grows,
and nothing underflows. Prices are whole micro-nats, rounded up on the running total, so that a book of
integers reproduces the account exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from holdfast.guard._prior import Experience, Surprise
from holdfast.records import Record

MICRO = 1_000_000

# Σ 1/(i ln² i) over i ≥ 2 is 2.109742…; rounded up, so that the weights sum to less than 1.
_WEIGHT_SUM = 2.10975


def weight_nats(step: int) -> float:
    """ln(1/w_j) for the weights w_j = 1/(2.10975 (j+1) ln²(j+1)), which need no number of questions fixed in
    advance."""
    return math.log(step + 1) + 2 * math.log(math.log(step + 1)) + math.log(_WEIGHT_SUM)


@dataclass(frozen=True, repr=False)
class Account(Record):
    """The state of one dataset's account; a new one comes out of every charge.

    ``failure`` is β less what the training split cost, ``steps`` the questions charged so far, ``micro_nats``
    what they cost and ``exact`` the unrounded total.
    """

    failure: float
    steps: int = 0
    micro_nats: int = 0
    exact: float = 0.0
    experience: Experience = field(default_factory=Experience)

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        return self.micro_nats / MICRO

    def nats(self, ahead: int = 1) -> float:
        """ln(1/δ) of the ``ahead``-th coming question, if those before it cost nothing."""
        return -math.log(self.failure) + weight_nats(self.steps + ahead) + self.spent

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
