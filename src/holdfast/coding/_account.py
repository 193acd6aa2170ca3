"""The account: what was spent, what its outputs taught it, and the error probability of the next question.

Question j is answered at failure probability δ_j = β w_j exp(−spent) (``docs/theory/code-guard.md``).
Everything is kept in nats: ln(1/δ_j) grows, and nothing underflows. Prices are whole micro-nats, rounded up
on the running total, so that a book of integers reproduces the account exactly.

Questions that are fixed before any of them is answered are a *batch*. They do not depend on each other's
answers, so none pays for the others: each is answered at δ = β (mean of their weights) exp(−spent before the
batch), and the questions after the batch pay for all of them.

The account's own earlier outputs say what to expect of the next one. :class:`Learned` predicts how far
statistics are from their guesses. An output says in which cell around the guess the statistic lies, and in
which class around their prediction the arms of its interval lie. Both are places on a line: 0 is what was
expected. Ten hypotheses say that the error is normal with σ times the predicted deviation. One has a
polynomial tail, and one counts how often a question surprised (:class:`Experience`); these two also have room
for an output without a place on the line. The prior is their mixture. After each output the weights are
multiplied by the probability that each hypothesis gave to it. So a wrong scale is paid for once, and not by
every question. The state is whole numbers, because a book keeps it.
Proof: ``docs/theory/code-guard.md``, "The prior".

:class:`Experience` counts how often a question surprised so far. Whether the next one surprises is predicted
by an even mixture of "never" and the Krichevsky–Trofimov rule, so k confirmations cost at most ln 2 nats in
all. How large a surprise is follows a fixed tail, about 2 ln(distance) nats. It does not depend on the width
of cells, and does well where surprises are rare: on a ladder, and under a promised error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul

from holdfast.records import Record
from holdfast.typing import PromiseKind

MICRO = 1_000_000
PROMISES = ("all", "each")

# Σ 1/(i ln² i) over i ≥ 2 is 2.1097428…; rounded up, so that the weights sum to 1 − 3.4e-6. The rest pays for
# looks at the rows that are not questions.
_SERIES_SUM = 2.10975
_FOR_LOOKS = 3e-6
_FOR_QUESTIONS = 1 - 3.4e-6
# With a hint, this share of the weight is spread evenly over the expected questions.
_EXPECTED_SHARE = 0.8
_FEW = 10

# The share of the surprise branch that pays for a question that failed after it read the rows.
FAILURE_SHARE = 1 / 64
SCALES = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 40.0)
_PARTS = (1.0, 1.0, 2.0, 8.0, 4.0, 2.0, 1.0, 1.0, 0.5, 0.5)
_TAIL_WEIGHT = 0.03
COUNTING_WEIGHT = 0.05
"""The first weight of the hypothesis that counts surprises."""

# The share of the polynomial tail for outputs without a place on the line: a failure, or the whole range.
_ELSEWHERE = 1 / 16
MOST_FOR_FAILURE = -math.log1p(-_ELSEWHERE)
"""The most nats that the room for a failure adds to the price of any other output."""

_UNIT = 10**9
_SCALED = (1 - _TAIL_WEIGHT - COUNTING_WEIGHT) / sum(_PARTS)
_FIRST = tuple(
    round(_UNIT * weight) for weight in (*(_SCALED * part for part in _PARTS), _TAIL_WEIGHT, COUNTING_WEIGHT)
)
# More than the rounding error of a price.
_ROUNDING = 1e-12


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

    promise: PromiseKind = "all"
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


def training_share(weights: Weights) -> float:
    """The share of the rows to set aside for guesses: a third, or a quarter if few questions are
    expected.

    Args:
        weights: How the failure probability is shared out among the questions.
    """
    return 1 / 4 if weights.expect is not None and weights.expect <= _FEW else 1 / 3


@dataclass(frozen=True, repr=False)
class Experience(Record):
    """How many past questions were confirmed and how many surprised, and the prior that learns only from
    these numbers.

    Args:
        confirmed: How many guesses were confirmed.
        surprised: How many guesses were off.

    >>> round(Experience(confirmed=9).confirmation_price(), 4)
    0.0079
    """

    confirmed: int = 0
    surprised: int = 0

    def after(self, *, surprise: bool) -> Experience:
        """The experience one question later.

        Args:
            surprise: Whether the answer was far from its guess.
        """
        return Experience(self.confirmed + (not surprise), self.surprised + surprise)

    def surprise_probability(self) -> float:
        """The prior probability that the next question surprises.

        While nothing has surprised yet, M(c confirmations) = ½ + ½ KT(c) with KT(c) = Γ(c+½)/(Γ(c+1)√π), and
        the next question surprises with probability ½ KT(c) · ½/(c+1) / M(c). After the first surprise
        "never" is refuted and the Krichevsky–Trofimov rule (f + ½)/(c + f + 1) remains.
        """
        if self.surprised:
            return (self.surprised + 0.5) / (self.confirmed + self.surprised + 1)
        kt = self._all_confirmed()
        return kt / (1 + kt) * 0.5 / (self.confirmed + 1)

    def _all_confirmed(self) -> float:
        """KT(confirmed): how likely the Krichevsky–Trofimov rule makes it that nothing surprised so far."""
        log_ratio = math.lgamma(self.confirmed + 0.5) - math.lgamma(self.confirmed + 1)
        return math.exp(log_ratio) / math.sqrt(math.pi)

    def confirmation_price(self) -> float:
        """Nats paid when the next question is confirmed."""
        return -math.log1p(-self.surprise_probability())

    def calm_price(self) -> float:
        """Nats that the confirmations so far cost in all, if nothing surprised: −ln(½ + ½ KT(confirmed))."""
        return -math.log(0.5 + 0.5 * self._all_confirmed())

    def surprise_price(self, distance: int) -> float:
        """Nats paid when the next question surprises at this distance.

        Args:
            distance: The distance from the guess, in cells.
        """
        share = (1 - FAILURE_SHARE) / (2 * distance * (distance + 1))
        return -math.log(self.surprise_probability() * share)

    def failure_price(self) -> float:
        """Nats paid when the next question cannot be read."""
        return -math.log(self.surprise_probability() * FAILURE_SHARE)


def forgetting(step: int) -> float:
    """How much of the first weights is restored after so many outputs, so that the mixture can change its
    mind."""
    return 0.1 / (100 + step)


def forgetting_price(steps: int) -> float:
    """The most nats that forgetting costs over so many outputs.

    Args:
        steps: How many outputs there are.
    """
    return 0.1 * math.log1p(steps / 99) + 2e-3


@dataclass(frozen=True)
class Mixture:
    """A prior over the places of a line: whole-number weights of the hypotheses, and what was seen.

    Cells have one half-width, in predicted deviations, which may differ from question to question.

    Guarantee: for every half-width the probabilities of all places and of "elsewhere" sum to at most 1.
    Reference: docs/theory/code-guard.md, "The prior".

    Args:
        weights: Whole-number weights of the hypotheses.
        seen: How many outputs were in the cell of the guess, and how many elsewhere.

    >>> prior = Mixture()
    >>> round(prior.price(0, 1.0), 2), round(prior.price(3, 1.0), 2)
    (0.52, 4.75)
    >>> for _ in range(20):
    ...     prior = prior.after(0, 1.0)
    >>> round(prior.price(0, 1.0), 2)
    0.02
    """

    weights: tuple[int, ...] = _FIRST
    seen: Experience = field(default_factory=Experience)

    def price(self, place: int, half_cell: float) -> float:
        """Nats for a place, on cells of this half-width.

        Args:
            place: The cell of the answer, counted from the guess.
            half_cell: Half the width of a cell, in predicted deviations.
        """
        return self._price(self._probabilities(place, half_cell))

    def highest_price_up_to(self, place: int, half_cell: float) -> float:
        """The highest price of all places up to a distance. From 1 on, farther places cost more. Place 0 can
        cost more than 1 after many surprises.

        Args:
            place: The cell of the answer, counted from the guess.
            half_cell: Half the width of a cell, in predicted deviations.
        """
        return max(self.price(0, half_cell), self.price(place, half_cell))

    def elsewhere_price(self) -> float:
        """Nats for an output without a place on the line."""
        return self._price(self._probabilities(None, 1.0))

    def highest_price(self, place: int | None, half_cell: float, others: int) -> float:
        """The most that any output can cost after so many more outputs, whatever they are.

        Args:
            place: The place, counted from the guess. None for an output without one.
            half_cell: Half the width of a cell, in predicted deviations.
            others: How many other outputs are recorded before this one.
        """
        least = min(1.0, forgetting(self._steps + others))
        probabilities = _ELSEWHERES if place is None else _on_the_line(abs(place), half_cell)
        return -math.log(least * _share(_FIRST, (*probabilities, 0.0))) + 1e-6

    def after(self, place: int | None, half_cell: float) -> Mixture:
        """The prior after a place was seen; None stands for an output without a place.

        Args:
            place: The place, counted from the guess. None for an output without one.
            half_cell: Half the width of a cell, in predicted deviations.
        """
        probabilities = self._probabilities(place, half_cell)
        posterior = [
            weight * probability for weight, probability in zip(self.weights, probabilities, strict=True)
        ]
        forgotten = forgetting(self._steps)
        scale = (1 - forgotten) * _UNIT / math.fsum(posterior)
        weights = (
            math.ceil(scale * weight + forgotten * first_weight)
            for weight, first_weight in zip(posterior, _FIRST, strict=True)
        )
        return Mixture(tuple(weights), self.seen.after(surprise=place != 0))

    @property
    def _steps(self) -> int:
        return self.seen.confirmed + self.seen.surprised

    def _probabilities(self, place: int | None, half_cell: float) -> tuple[float, ...]:
        """The probability that each hypothesis gives to a place, or to no place."""
        if place is None:
            return (*_ELSEWHERES, math.exp(-self.seen.failure_price()))
        counted = self.seen.confirmation_price() if place == 0 else self.seen.surprise_price(abs(place))
        return (*_on_the_line(abs(place), half_cell), math.exp(-counted))

    def _price(self, probabilities: Sequence[float]) -> float:
        return -math.log(_share(self.weights, probabilities)) + _ROUNDING


def _share(weights: Sequence[int], probabilities: Sequence[float]) -> float:
    return math.fsum(map(mul, weights, probabilities)) / sum(weights)


_ELSEWHERES = (*(0.0 for _ in SCALES), _ELSEWHERE)


@lru_cache(maxsize=4096)
def _on_the_line(distance: int, half_cell: float) -> tuple[float, ...]:
    """The probability that each hypothesis except the counting one gives to a place at this distance from 0,
    on one side."""
    tail = 0.5 if distance == 0 else 1 / (4 * distance * (distance + 1))
    return (*(_normal(distance, half_cell / scale) for scale in SCALES), (1 - _ELSEWHERE) * tail)


def _normal(distance: int, half_cell: float) -> float:
    reach = half_cell / math.sqrt(2)
    if distance == 0:
        return math.erf(reach)
    return (math.erfc((2 * distance - 1) * reach) - math.erfc((2 * distance + 1) * reach)) / 2


@dataclass(frozen=True)
class Claims:
    """How many claims were tested, and how many of them were found. Also their rate of false discoveries, in
    millionths (0 before the first claim).

    Args:
        tested: How many claims were tested.
        found: How many of them were found.
        rate_in_millionths: The rate of false discoveries, in millionths.
    """

    tested: int = 0
    found: int = 0
    rate_in_millionths: int = 0

    @property
    def rate(self) -> float:
        """The rate that all claims of the account share; 0 before the first claim."""
        return self.rate_in_millionths / 1e6

    def probability(self, found: bool) -> float:
        """The probability that the next claim is ``found``, or not, by the rule of Krichevsky and Trofimov.

        Args:
            found: Whether the next claim is found.
        """
        such_claims = self.found if found else self.tested - self.found
        return (such_claims + 0.5) / (self.tested + 1)


@dataclass(frozen=True)
class Learned:
    """What an account learned: of the cells of statistics, of the arms of intervals, and of claims.

    Args:
        cells: The prior over the cells of answers.
        arms: The prior over the classes of arms, which say how wide intervals are.
        claims: How many claims were tested and found.
    """

    cells: Mixture = field(default_factory=Mixture)
    arms: Mixture = field(default_factory=Mixture)
    claims: Claims = field(default_factory=Claims)

    def after_claim(self, *, found: bool, rate: float) -> Learned:
        """The prior after a claim was tested.

        Args:
            found: Whether the claim was found.
            rate: The rate of false discoveries.
        """
        claims = Claims(self.claims.tested + 1, self.claims.found + found, round(rate * 1e6))
        return replace(self, claims=claims)

    def to_list(self) -> list[list[int]]:
        """The state as a book keeps it: for each mixture the weights, then what was seen; then the claims, if
        there were any."""
        mixtures = [
            [*mixture.weights, mixture.seen.confirmed, mixture.seen.surprised]
            for mixture in (self.cells, self.arms)
        ]
        claims = self.claims
        listed = [[claims.tested, claims.found, claims.rate_in_millionths]] if claims.tested else []
        return mixtures + listed

    @classmethod
    def from_list(cls, listed: Sequence[Sequence[int]]) -> Learned:
        """The state that :meth:`to_list` wrote, from what a book kept.

        Args:
            listed: What :meth:`to_list` returned.
        """
        cells, arms = (Mixture(tuple(state[:-2]), Experience(*state[-2:])) for state in listed[:2])
        return cls(cells, arms, Claims(*listed[2]) if len(listed) > 2 else Claims())


@dataclass(frozen=True, repr=False)
class Account(Record):
    """The state of one dataset's account; a new one comes out of every charge.

    ``failure`` is β less what the training split cost, ``steps`` the questions charged so far, ``micro_nats``
    what they cost and ``exact`` the unrounded total. ``learned`` is what the prior learned from the outputs
    so far, ``experience`` how many of them were confirmed. ``together`` is how many questions of one batch
    are answered from this state.

    Args:
        weights: How the failure probability is shared out among the questions.

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
        Reference: docs/theory/code-guard.md, "The report".
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
