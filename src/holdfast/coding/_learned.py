"""The prior, learned from the account's own outputs: how far statistics are from their guesses.

An output says in which cell around the guess the statistic lies, and in which class around their prediction
the arms of its interval lie. Both are places on a line: 0 is what was expected. Ten hypotheses say that the
error is normal with σ times the predicted deviation. One has a polynomial tail, and one counts how often a
question surprised (:class:`~holdfast.coding.Experience`); these two also have room for an output that is no
place at all. The prior is their mixture. After each output the weights are multiplied by what each hypothesis
gave to it. So a wrong scale is paid for once, and not by every question.

The state is whole numbers, because a book keeps it. Proof: ``docs/theory/code-guard.md``, "The prior".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul

from holdfast.coding._experience import Experience

SCALES = (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 40.0)
_PARTS = (1.0, 1.0, 2.0, 8.0, 4.0, 2.0, 1.0, 1.0, 0.5, 0.5)
_TAIL_WEIGHT = 0.03
COUNTING_WEIGHT = 0.05
"""The first weight of the hypothesis that counts surprises."""

# What the polynomial tail keeps for an output that is no place: a failure, or the whole range.
_ELSEWHERE = 1 / 16
MOST_FOR_FAILURE = -math.log1p(-_ELSEWHERE)
"""The most nats that keeping room for a failure costs any other output."""

_UNIT = 10**9
_SCALED = (1 - _TAIL_WEIGHT - COUNTING_WEIGHT) / sum(_PARTS)
_FIRST = tuple(
    round(_UNIT * weight) for weight in (*(_SCALED * part for part in _PARTS), _TAIL_WEIGHT, COUNTING_WEIGHT)
)
# More than the rounding error of a price.
_ROUNDING = 1e-12


def forgetting(step: int) -> float:
    """How much of the first weights comes back after so many outputs, so that the mixture can change its
    mind."""
    return 0.1 / (100 + step)


def forgetting_price(steps: int) -> float:
    """The most nats that forgetting costs over so many outputs."""
    return 0.1 * math.log1p(steps / 99) + 2e-3


@dataclass(frozen=True)
class Mixture:
    """A prior over the places of a line: whole-number weights of the hypotheses, and what was seen.

    Cells have one half-width, in predicted deviations, which may differ from question to question.

    Guarantee: for every half-width the probabilities of all places and of "elsewhere" sum to at most 1.
    Reference: docs/theory/code-guard.md, "The prior".

    >>> prior = Mixture()
    >>> round(prior.price(0, 1.0), 2), round(prior.price(3, 1.0), 2)
    (0.52, 4.84)
    >>> for _ in range(20):
    ...     prior = prior.after(0, 1.0)
    >>> round(prior.price(0, 1.0), 2)
    0.03
    """

    weights: tuple[int, ...] = _FIRST
    seen: Experience = field(default_factory=Experience)

    def price(self, place: int, half_cell: float) -> float:
        """Nats for a place, on cells of this half-width."""
        return self._price(self._given(place, half_cell))

    def dearest_up_to(self, place: int, half_cell: float) -> float:
        """The dearest of all places up to a distance. From 1 on farther is dearer; 0 can be dearer than 1
        after many surprises."""
        return max(self.price(0, half_cell), self.price(place, half_cell))

    def elsewhere_price(self) -> float:
        """Nats for an output that is no place."""
        return self._price(self._given(None, 1.0))

    def dearest(self, place: int | None, half_cell: float, others: int) -> float:
        """The most that a place, or no place, can cost after so many more outputs, whatever they are."""
        least = min(1.0, forgetting(self._steps + others))
        given = _ELSEWHERES if place is None else _given(abs(place), half_cell)
        return -math.log(least * _share(_FIRST, (*given, 0.0))) + 1e-6

    def after(self, place: int | None, half_cell: float) -> Mixture:
        """What was learned from a place; None is no place."""
        given = self._given(place, half_cell)
        posterior = [weight * probability for weight, probability in zip(self.weights, given, strict=True)]
        forgotten = forgetting(self._steps)
        kept = (1 - forgotten) * _UNIT / math.fsum(posterior)
        weights = (
            math.ceil(kept * weight + forgotten * first)
            for weight, first in zip(posterior, _FIRST, strict=True)
        )
        return Mixture(tuple(weights), self.seen.after(surprise=place != 0))

    @property
    def _steps(self) -> int:
        return self.seen.confirmed + self.seen.surprised

    def _given(self, place: int | None, half_cell: float) -> tuple[float, ...]:
        """What each hypothesis gives to a place, or to no place."""
        if place is None:
            return (*_ELSEWHERES, math.exp(-self.seen.failure_price()))
        counted = self.seen.confirmation_price() if place == 0 else self.seen.surprise_price(abs(place))
        return (*_given(abs(place), half_cell), math.exp(-counted))

    def _price(self, given: Sequence[float]) -> float:
        return -math.log(_share(self.weights, given)) + _ROUNDING


def _share(weights: Sequence[int], given: Sequence[float]) -> float:
    return math.fsum(map(mul, weights, given)) / sum(weights)


_ELSEWHERES = (*(0.0 for _ in SCALES), _ELSEWHERE)


@lru_cache(maxsize=4096)
def _given(distance: int, half_cell: float) -> tuple[float, ...]:
    """What each hypothesis that does not count gives to a place at this distance from 0, on one side."""
    tail = 0.5 if distance == 0 else 1 / (4 * distance * (distance + 1))
    return (*(_normal(distance, half_cell / scale) for scale in SCALES), (1 - _ELSEWHERE) * tail)


def _normal(distance: int, half_cell: float) -> float:
    reach = half_cell / math.sqrt(2)
    if distance == 0:
        return math.erf(reach)
    return (math.erfc((2 * distance - 1) * reach) - math.erfc((2 * distance + 1) * reach)) / 2


@dataclass(frozen=True)
class Claims:
    """How many claims were tested, how many of them were found, and at which rate of false discoveries, in
    millionths (0 before the first)."""

    tested: int = 0
    found: int = 0
    rate_in_millionths: int = 0

    @property
    def rate(self) -> float:
        """The rate that all claims of the account share; 0 before the first."""
        return self.rate_in_millionths / 1e6

    def probability(self, found: bool) -> float:
        """What the next claim is expected to be, by the rule of Krichevsky and Trofimov."""
        before = self.found if found else self.tested - self.found
        return (before + 0.5) / (self.tested + 1)


@dataclass(frozen=True)
class Learned:
    """What an account learned: of the cells of statistics, of the arms of intervals, and of claims."""

    cells: Mixture = field(default_factory=Mixture)
    arms: Mixture = field(default_factory=Mixture)
    claims: Claims = field(default_factory=Claims)

    def after_claim(self, *, found: bool, rate: float) -> Learned:
        """What was learned from a claim that was tested."""
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
    def from_list(cls, kept: Sequence[Sequence[int]]) -> Learned:
        """What a book kept."""
        cells, arms = (Mixture(tuple(state[:-2]), Experience(*state[-2:])) for state in kept[:2])
        return cls(cells, arms, Claims(*kept[2]) if len(kept) > 2 else Claims())
