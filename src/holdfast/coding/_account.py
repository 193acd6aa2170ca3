"""The account: how much of the promise is used, and the error probability of the next question.

Question j is answered at failure probability δ_j = β w_j exp(−spent) (``docs/theory/code-guard.md``).
Everything is kept in nats: ln(1/δ_j) grows, and nothing underflows. Prices are whole micro-nats, rounded up
on the running total, so that a book of integers reproduces the account exactly.

Questions that are fixed before any of them is answered are a *batch*. They do not depend on each other's
answers, so none pays for the others: each is answered at δ = β (mean of their weights) exp(−spent before the
batch), and the questions after the batch pay for all of them.

How wide a cell is depends on how many questions are expected. A wide cell makes this interval wider. A narrow
one reveals more, and all later intervals pay for that. The rule assumes that K questions are to come and
makes the last of them narrowest. It decides how narrow answers are, and never whether they are valid.
Measured by ``benchmarks/guard_width.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import numpy as np

from holdfast.coding._learned import Experience, Learned
from holdfast.records import Record

MICRO = 1_000_000
PROMISES = ("all", "each")

# Σ 1/(i ln² i) over i ≥ 2 is 2.1097428…; rounded up, so that the weights sum to 1 − 3.4e-6. The rest pays for
# looks at the rows that are not questions.
_SERIES_SUM = 2.10975
_FOR_LOOKS = 3e-6
_FOR_QUESTIONS = 1 - 3.4e-6
# With a hint, this share of the weight is spread evenly over the expected questions.
_EXPECTED_SHARE = 0.8
_COMING_PER_ASKED = 3.0
_FEW = 10
PRECISE_NATS = 3.0
"""The expected cost of a question that is asked with ``precise=True``."""

_HALF_CELLS = np.geomspace(0.02, 8.0, 120)  # in predicted deviations of the guess's error


@dataclass(frozen=True)
class Weights:
    """How the failure probability β is shared out among the questions of an account.

    ``promise`` "all": all intervals hold at once with probability 1 − β. "each": each interval holds with
    probability 1 − β, and nothing is shared out. ``expect`` is a hint how many questions there will be.

    Guarantee: with "all" the weights of all places sum to at most 1 − 3·10⁻⁶, whatever ``expect`` is; with
    "each" no weight is above that. The rest pays for looks (:func:`look_nats`).
    Reference: docs/theory/code-guard.md, "The weights".

    >>> weights = Weights(expect=20)
    >>> round(weights.nats(1), 2), round(Weights().nats(1), 2)
    (1.98, 0.71)
    """

    promise: str = "all"
    expect: float | None = None

    def weight(self, step: int) -> float:
        """The weight of the question at place ``step``, from 1."""
        if self.promise == "each":
            return _FOR_QUESTIONS
        series = 1 / (_SERIES_SUM * (step + 1) * math.log(step + 1) ** 2)
        if self.expect is None:
            return series
        expected = math.ceil(self.expect)
        head = _EXPECTED_SHARE * _FOR_QUESTIONS / expected if step <= expected else 0.0
        return head + (1 - _EXPECTED_SHARE) * series

    def nats(self, step: int, questions: int = 1) -> float:
        """ln(1/w), where w is the mean weight of the places ``step``, …, ``step + questions − 1``."""
        if questions == 1 or self.promise == "each":
            return -math.log(self.weight(step))
        return _mean_nats(self, step, questions)

    def last_nats(self, asked: int, questions: int) -> float:
        """ln(1/w), where w is the weight that ``asked`` questions leave, divided among the last ``questions``
        questions. Nothing is asked after them."""
        if self.promise == "each":
            return -math.log(_FOR_QUESTIONS)
        used = math.fsum(self.weight(step) for step in range(1, asked + 1))
        return math.log(questions / (_FOR_QUESTIONS - used))


@lru_cache(maxsize=64)
def _mean_nats(weights: Weights, step: int, questions: int) -> float:
    total = math.fsum(weights.weight(place) for place in range(step, step + questions))
    return math.log(questions / total)


def look_nats(number: int) -> float:
    """What the ``number``-th look at the rows costs if its result is "yes". A "no" is free.

    Looks have the weights 3·10⁻⁶/(i(i+1)). Together with those of all questions they sum to less than 1. So
    a "no" has all the weight that it had before (``docs/theory/epochs.md``, "What a refusal says, and what it
    costs").
    """
    return math.log(number * (number + 1) / _FOR_LOOKS)


@dataclass(frozen=True, repr=False)
class Account(Record):
    """The state of one dataset's account; a new one comes out of every charge.

    ``failure`` is β less what the training split cost, ``steps`` the questions charged so far, ``micro_nats``
    what they cost and ``exact`` the unrounded total. ``learned`` is what the prior learned from the outputs
    so far, ``experience`` how many of them were confirmed. ``together`` is how many questions of one batch
    are answered from this state.

    Args:
        weights: How the budget is divided over coming questions.

    >>> account = Account(0.05)
    >>> round(account.nats(), 3)
    3.702
    >>> round(account.after(account.charge(1.5), surprise=True).nats(), 3)
    6.529
    """

    failure: float
    steps: int = 0
    micro_nats: int = 0
    exact: float = 0.0
    experience: Experience = field(default_factory=Experience)
    learned: Learned = field(default_factory=Learned, repr=False)
    weights: Weights = field(default_factory=Weights)
    together: int = 1

    @property
    def spent(self) -> float:
        """Nats spent so far."""
        return self.micro_nats / MICRO

    def nats(self, ahead: int = 1) -> float:
        """ln(1/δ) of the ``ahead``-th coming question, if those before it cost nothing; or of every question
        of a batch that begins there."""
        return -math.log(self.failure) + self.weights.nats(self.steps + ahead, self.together) + self.spent

    def last_nats(self, questions: int) -> float:
        """ln(1/δ) of each of so many questions, if nothing is asked after them.

        Guarantee: as :meth:`for_batch`, with all the weight that is left.
        Assumes: the account is closed before the first of them is read.
        Reference: docs/theory/code-guard.md, on reports.
        """
        return -math.log(self.failure) + self.weights.last_nats(self.steps, questions) + self.spent

    def for_batch(self, questions: int) -> Account:
        """This state, from which a batch of so many questions is answered.

        Guarantee: with δ = exp(−``nats()``) for each of them, the account's promise is kept, if later
        questions count ``questions`` steps and pay for all outputs of the batch.
        Assumes: all of them were fixed before the first was answered.
        Reference: docs/theory/code-guard.md, "Asked together".
        """
        return replace(self, together=questions)

    def charge(self, nats: float) -> int:
        """The price in whole micro-nats that takes the running total to the next whole micro-nat above it.

        Args:
            nats: What a question costs, in nats; at least 0.
        """
        return max(0, math.ceil((self.exact + nats) * MICRO) - self.micro_nats)

    def after(
        self,
        micro_nats: int,
        *,
        surprise: bool,
        exact: float | None = None,
        learned: Learned | None = None,
    ) -> Account:
        """The account once an output with this price has been released.

        Args:
            surprise: Whether the answer was far from its guess.
        """
        total = self.micro_nats + micro_nats
        return replace(
            self,
            steps=self.steps + 1,
            micro_nats=total,
            exact=total / MICRO if exact is None else exact,
            experience=self.experience.after(surprise=surprise),
            learned=self.learned if learned is None else learned,
            together=1,
        )


def cell_entropy(half_cell: float) -> float:
    """Nats that the cell of a normal error reveals on average, on cells of this half-width.

    Args:
        half_cell: Half the width of a cell, in predicted deviations.
    """
    from scipy import special

    far = math.ceil(6 / half_cell) + 1
    places = np.arange(-far, far + 1)
    reached = special.erfc((2 * places - 1) * half_cell / math.sqrt(2)) / 2
    probabilities = -np.diff(np.append(reached, 0.0))
    return float(-np.sum(special.xlogy(probabilities, probabilities)))


@cache
def _entropies() -> np.ndarray:
    """The entropy of each half-cell that is tried. Computed on first use: scipy.special is slow to import."""
    return np.array([cell_entropy(half_cell) for half_cell in _HALF_CELLS])


def training_share(weights: Weights) -> float:
    """The share of the rows to set aside for guesses: a third, or a quarter if few questions are
    expected.

    Args:
        weights: How the budget is divided over coming questions.
    """
    return 1 / 4 if weights.expect is not None and weights.expect <= _FEW else 1 / 3


def after_expected(account: Account, error: float, arm: float, questions: int) -> Account:
    """A forecast of the account after so many more questions with this predicted ``error`` and ``arm``, if
    their guesses are as good as expected.

    Args:
        account: The account when the question is asked; it is not changed.
        questions: How many more questions are to be asked, at least 0.
    """
    start, spent = account.nats(), account.spent
    for asked in range(questions):
        now = replace(account, steps=account.steps + asked, micro_nats=round(spent * MICRO), together=1)
        half_cell = best_half_cell(now, error, arm * math.sqrt(now.nats() / start))
        spent += float(np.interp(half_cell / error, _HALF_CELLS, _entropies()))
    return replace(account, steps=account.steps + questions, micro_nats=round(spent * MICRO))


def coming_questions(asked: int, expect: float | None) -> float:
    """How many questions to assume after the next one. ``asked`` questions came before it.

    Args:
        expect: About how many questions are expected. None: not stated.
    """
    step = asked + 1
    if expect is None:
        return _COMING_PER_ASKED * step
    return max((expect - step) / 1.5, 0.75 * step)


def best_half_cell(account: Account, error: float, arm: float, *, nats: float | None = None) -> float:
    """Half of a cell.

    ``error`` is the predicted deviation of statistic − guess. ``arm`` is the predicted half-width of the
    fixed-query interval at the account's nats. ``nats`` is the average cost that the caller accepts, if that
    is more than the rule would spend.

    Guarantee: none is needed; any cell is valid.
    Reference: docs/theory/code-guard.md, "The cell".

    Args:
        account: The account when the question is asked; it is not changed.
    """
    if nats is not None:
        affordable = int(np.argmax(nats >= _entropies()))
        return float(_HALF_CELLS[affordable]) * error
    coming = coming_questions(account.steps, account.weights.expect)
    level = account.nats()
    growth = max(
        0.0,
        account.weights.nats(account.steps + 1 + math.ceil(coming)) - account.weights.nats(account.steps + 1),
    )
    widths = _HALF_CELLS * error + arm * np.sqrt((level + growth + coming * _entropies()) / level)
    return float(_HALF_CELLS[int(np.argmin(widths))]) * error
