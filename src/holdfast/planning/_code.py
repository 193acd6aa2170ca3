"""The code guard before it starts: how wide its intervals will be (theory 2.2 and 7).

A part of the rows becomes the free training part; the j-th answer is told on cells around the guess, at
−ln β + ln(1/w_j) + (nats spent) nats, where the weights know how many questions are planned. What is spent
depends on what the answers reveal. One of the hypotheses of the guard's prior counts surprises, and prices c
confirmations and f surprises the same in every order; the mixture costs little more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from holdfast import rounding
from holdfast.coding import (
    COUNTING_WEIGHT,
    FAILURE_SHARE,
    MICRO,
    ROOMS,
    Account,
    Weights,
    best_half_cell,
    cell_entropy,
    forgetting_price,
    guess_deviation,
    honest_deviations,
)
from holdfast.records import Record
from holdfast.tails import Tail

Floats = npt.NDArray[np.float64]

# So many questions are gone through one by one; beyond, each of a few stands for those up to the next.
_ONE_BY_ONE = 24
_PLACES = 60
# What the prior costs beyond the entropy of normal errors, until it has learned that they are.
_LEARNING = 1.0
_WIDER = np.exp(np.linspace(0.0, 4.0, 161))


@dataclass(frozen=True, repr=False)
class CodeWidth(Record):
    """How wide the k-th answer of a code guard is, and from what.

    ``error`` = ``half_cell`` + the radius of the fixed-query interval at ``nats``. With stated ``surprises``
    it bounds the half-width of every answer as long as no more questions surprise; without, it is the
    expectation for honest guesses from the training part, ``surprises`` of which are expected to surprise,
    and ``mean`` the average over all k answers.
    """

    k: int
    beta: float
    error: float
    half_cell: float
    nats: float
    surprises: float
    mean: float | None = None


def sequence_price(confirmed: Floats, surprised: Floats) -> Floats:
    """Nats for the pattern of c confirmations and f surprises, in any order: −ln(½·[f = 0] + ½ KT(c, f))."""
    learned = (
        special.gammaln(confirmed + 0.5)
        + special.gammaln(surprised + 0.5)
        - special.gammaln(confirmed + surprised + 1.0)
        - math.log(math.pi)
    )
    never = np.where(surprised == 0, 0.0, -np.inf)
    result: Floats = math.log(2.0) - np.logaddexp(never, learned)
    return result


def place_price(distance: Floats) -> Floats:
    """Nats for how many cells away a surprise lies, one width class."""
    result: Floats = np.log(2.0 * distance * (distance + 1.0)) - math.log1p(-FAILURE_SHARE)
    return result


def promised_width(tail: Tail, k: int, beta: float, surprises: int, *, promise: str = "all") -> CodeWidth:
    """The half-width that no one of k answers exceeds, while at most ``surprises`` of them surprise.

    Guarantee: of the width, for means of values in [0, 1], by the guard's own prices with every surprise as
        far away as the range allows; the intervals hold with probability 1 − ``beta`` in any case. Where room
        for more surprises and a finer grid give a narrower answer, that is taken.
    Assumes: the stated number of surprises. Half a cell is wide enough for k honest guesses to surprise by
        chance no more than max(``beta``, allowed/20) times in expectation, so that nearly all that are
        allowed are left for guesses that are really off.
    Reference: theory 2.2; ``docs/theory/planning.md``.
    """
    most = k - 1
    stated = min(surprises, most)
    rooms = {stated, *(count for count in ROOMS if stated < count <= most)}
    widths = (_width_for(tail, k, beta, room, promise) for room in sorted(rooms))
    return min(widths, key=lambda width: width.error)


def _width_for(tail: Tail, k: int, beta: float, room: int, promise: str) -> CodeWidth:
    """The narrowest k-th answer with room for this many surprises."""
    base = _base(k, k, beta, promise) - math.log(COUNTING_WEIGHT) + forgetting_price(k)
    half_cells = guess_deviation(tail, base) * honest_deviations(k, beta, room) * _WIDER
    nats = base + _dearest(k, room, np.maximum(1.0, np.floor(0.5 / half_cells + 0.5))) + 1.0 / MICRO
    errors = half_cells + np.array([tail.radius_at(value) for value in nats])
    best = int(np.argmin(errors))
    half_cell, dearest = float(half_cells[best]), rounding.up(float(nats[best]))
    error = rounding.up(half_cell + tail.radius_at(dearest))
    return CodeWidth(k, beta, error, half_cell, dearest, float(room))


def _dearest(k: int, room: int, farthest: Floats) -> Floats:
    """The most that k − 1 questions cost with up to ``room`` surprises, each ``farthest`` cells away.

    The price of a pattern is concave in the number f of surprises and grows with each by the price of its
    place, so it is largest at f = room, or where f/(k−1−f) reaches the exponential of that price.
    """
    place = place_price(farthest)
    turn = np.floor((k - 1) * special.expit(place))
    counts = np.stack([np.full_like(place, float(room)), *(turn + shift for shift in (-2, -1, 0, 1, 2))])
    counts = np.concatenate([np.zeros_like(place)[None, :], np.clip(counts, 0.0, float(room))])
    result: Floats = np.max(sequence_price(k - 1.0 - counts, counts) + counts * place, axis=0)
    return result


def expected_width(
    tail: Tail,
    k: int,
    beta: float,
    *,
    rows_a_training_row: float = 1.0,
    promise: str = "all",
    told: bool = True,
) -> CodeWidth:
    """The half-width to be expected of the k-th answer where guesses come from a training part that has one
    row for so many protected ones, and the guard was ``told`` to expect k questions.

    Guarantee: none of the width: a forecast. The intervals keep their ``promise`` in any case.
    Assumes: the statistic less the guess is normal, as when the guess comes from a fresh sample.
    Reference: theory 7; ``docs/theory/planning.md``.
    """
    account = Account(beta, weights=Weights(promise, float(k) if told else None))
    places = np.unique(
        np.concatenate([np.arange(1, min(k, _ONE_BY_ONE) + 1), np.geomspace(1, k, _PLACES).round()])
    ).astype(int)
    spent, widths, last = 0.0, [], (0.0, 0.0)
    for place, following in zip(places, [*places[1:], k + 1], strict=True):
        here = replace(account, steps=int(place) - 1, micro_nats=math.ceil(spent * MICRO))
        nats = here.nats() + (_LEARNING if place > 1 else 0.0)
        radius = tail.radius_at(nats)
        deviation = guess_deviation(tail, nats, rows_a_training_row)
        half_cell = best_half_cell(here, deviation, radius)
        widths.append(half_cell + radius)
        last = half_cell, nats
        spent += (following - place) * cell_entropy(half_cell / deviation)
    return CodeWidth(
        k=k,
        beta=beta,
        error=rounding.up(widths[-1]),
        half_cell=last[0],
        nats=rounding.up(last[1]),
        surprises=float(k * special.erfc(last[0] / (math.sqrt(2.0) * deviation))),
        mean=float(np.average(widths, weights=np.diff([*places, k + 1]))),
    )


def _base(step: int, expect: int, beta: float, promise: str) -> float:
    """ln(1/δ) of the question at this step, before anything is spent."""
    return -math.log(beta) + Weights(promise, float(expect)).nats(step)
