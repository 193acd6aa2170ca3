"""What published scores could have given away, for those who reused a test set without a guard.

A score printed with d digits is one of 10^d + 1 values, so k scores are one of (10^d + 1)^k sequences. For
each sequence the questions were fixed in advance, and a union bound over all of them holds whatever was
chosen (description length; ``docs/theory/planning.md``, "What published scores leaked": the code guard with a
uniform prior and no guess).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast import checks, rounding
from holdfast.planning._guarded import Code
from holdfast.planning._method import MOST_QUERIES, MOST_ROWS, Setting
from holdfast.planning._reuse import TransferGaussian
from holdfast.records import Record

_SOURCE = "description length, docs/theory/planning.md"
_MOST_DIGITS = 15
_FINEST = 1e15  # cells: as fine as digits go


@dataclass(frozen=True, repr=False)
class Rounding(Record):
    """Scores printed as the middle of one of ``cells`` equal cells, and the half-width that then holds.

    Args:
        half_width: Half the width of the interval.
    """

    cells: int
    half_width: float


@dataclass(frozen=True, repr=False)
class Leak(Record):
    """What ``queries`` scores with ``digits`` digits, each chosen after the ones before, say about the truth.

    ``nats`` is the most that the scores could have revealed about the rows: queries · ln(values). All
    half-widths are at ``confidence`` and at most 1; a half-width of ½ or more says nothing.

    ``score``: every published score is this close to its true value. ``best``: the true value of the
    best score is at most this much below the printed value. ``now``: one more score, chosen after all.
    ``if_fixed``: what would hold if no score had been used to choose another. ``rounded``: what the best
    coarser printing would have given; ``by_digits``: the same for each number of digits. ``with_noise``:
    Gaussian noise on every score, certified (plan's transfer-gaussian). ``with_guard``: a code guard with
    honest guesses from a third of the rows, a forecast (plan's code).

    Args:
        rows: How many rows there are.
        values: How many values a printed score can take.
    """

    queries: int
    digits: int
    rows: int
    confidence: float
    values: int
    nats: float
    score: float
    best: float
    now: float
    if_fixed: float
    rounded: Rounding
    by_digits: dict[int, float]
    with_noise: float
    with_guard: float

    @property
    def vacuous(self) -> bool:
        """Whether the published scores, as they are, say nothing that is certain."""
        return self.score >= 0.5

    def at(self, place: int) -> float:
        """The half-width of the score at this place of the order in which they came, all holding at once.

        Guarantee: √((ln(2k/β) + (place − 1) ln values)/2n) and half a unit of the last digit: earlier scores
        could use less of what leaked.

        Args:
            place: The place, counted from 1.
        """
        place = checks.whole(place, "place", at_most=self.queries, of="Leak.at")
        beta = 1.0 - self.confidence
        nats = math.log(2.0 * self.queries / beta) + (place - 1) * math.log(self.values)
        return _half_width(nats, self.rows, 0.5 / (self.values - 1))


def leak(queries: float, digits: float, rows: float, *, confidence: float = 0.95) -> Leak:
    """How much ``queries`` scores in [0, 1], printed with ``digits`` digits, could have leaked about ``rows``
    rows, which interval still holds, and what rounding or a guard would have given.

    Guarantee: with probability ``confidence``, simultaneously for all scores and however each was chosen from
    the ones before: |printed − true| ≤ 10^−digits/2 + √((ln(2k/β) + (k−1) ln(10^digits + 1))/2n).
    Assumes: independent rows; scores that are means over the rows of values in [0, 1]; nothing else about the
    rows was seen (not checkable).
    Reference: description length (Kraft's inequality and Hoeffding); ``docs/theory/planning.md``.

    >>> leaked = leak(500, 4, 20_000)
    >>> round(leaked.nats), round(leaked.score, 3), leaked.rounded.cells
    (4605, 0.339, 15)
    """
    of = "leak"
    queries = checks.whole(queries, "queries", at_most=MOST_QUERIES, of=of, by=_SOURCE)
    digits = checks.whole(digits, "digits", at_least=0, at_most=_MOST_DIGITS, of=of, by=_SOURCE)
    rows = checks.whole(rows, "rows", at_most=MOST_ROWS, of=of, by=_SOURCE)
    confidence = checks.real(confidence, "confidence", "(0, 1)", of=of)
    beta = 1.0 - confidence
    values = 10**digits + 1
    chosen = (queries - 1) * math.log(values)
    resolution = 0.5 * 10.0**-digits
    fixed = math.log(2.0 * queries / beta)
    setting = Setting(None, beta, None)
    return Leak(
        queries=queries,
        digits=digits,
        rows=rows,
        confidence=confidence,
        values=values,
        nats=queries * math.log(values),
        score=_half_width(fixed + chosen, rows, resolution),
        best=_half_width(fixed - math.log(2.0) + chosen, rows, resolution),
        now=_half_width(math.log(2.0 / beta) + queries * math.log(values), rows, resolution),
        if_fixed=_half_width(fixed, rows, resolution),
        rounded=best_rounding(queries, rows, beta),
        by_digits={
            count: _half_width(fixed + (queries - 1) * math.log(10**count + 1), rows, 0.5 * 10.0**-count)
            for count in range(1, max(digits, 1) + 1)
        },
        with_noise=min(1.0, TransferGaussian(setting).at(rows, queries).error),
        with_guard=min(1.0, Code(setting).at(rows, queries).error),
    )


def best_rounding(queries: int, rows: int, beta: float) -> Rounding:
    """The number of equal cells whose middles, printed as scores, leave the narrowest interval.

    Guarantee: ln(2k) + (k−1) ln L − 2n(τ − 1/2L)² ≤ ln β: all k printed scores are within τ of the truth.
    Assumes: as :func:`leak`.
    Reference: description length.
    """
    cells = np.unique(np.round(np.geomspace(1.0, _FINEST, 6000)).astype(np.int64))
    nats = math.log(2.0 * queries / beta) + (queries - 1) * np.log(cells)
    widths = 0.5 / cells + np.sqrt(nats / (2.0 * rows))
    best = int(cells[int(np.argmin(widths))])
    exact = math.log(2.0 * queries / beta) + (queries - 1) * math.log(best)
    return Rounding(best, _half_width(exact, rows, 0.5 / best))


def _half_width(nats: float, rows: int, resolution: float) -> float:
    """Hoeffding's radius at these nats and what rounding hides; never more than 1."""
    return rounding.probability(resolution + math.sqrt(nats / (2.0 * rows)))
