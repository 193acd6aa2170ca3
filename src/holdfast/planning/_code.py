"""The code guard before it starts: how wide its intervals will be (theory 2.2 and 7).

Half of the rows become the free training part; the j-th answer is printed on a grid of cells of width 2h
around the guess, at −ln β + ln(1/w_j) + (nats spent) nats. What is spent depends on how many answers
surprise: the guard's prior prices c confirmations and f surprises the same in every order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from holdfast import rounding
from holdfast.guard._account import MICRO, weight_nats
from holdfast.guard._prior import FAILURE_SHARE
from holdfast.guard._stages import ROOMS, guess_deviation, honest_deviations
from holdfast.records import Record
from holdfast.tails import Tail

Floats = npt.NDArray[np.float64]

_CELLS = np.linspace(0.3, 10.0, 98)  # half-cells that are tried, in deviations of a guess's error
_MOST_EXPECTED = 200.0
_TERMS = 500
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


def promised_width(tail: Tail, k: int, beta: float, surprises: int) -> CodeWidth:
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
    return min((_width_for(tail, k, beta, room) for room in sorted(rooms)), key=lambda width: width.error)


def _width_for(tail: Tail, k: int, beta: float, room: int) -> CodeWidth:
    """The narrowest k-th answer with room for this many surprises."""
    base = _base(k, beta)
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


def expected_width(tail: Tail, k: int, beta: float) -> CodeWidth:
    """The half-width to be expected of the k-th answer where guesses come from a training part of equal size.

    Guarantee: none of the width: a forecast. The intervals hold with probability 1 − ``beta`` in any case.
    Assumes: the statistic less the guess is normal with √2 times the deviation of the statistic, as when the
        guess comes from a fresh sample; the grid with the narrowest last answer.
    Reference: theory 7; ``docs/theory/planning.md``.
    """
    base = _base(k, beta)
    deviation = guess_deviation(tail, base)
    outside = special.erfc(_CELLS / math.sqrt(2.0))
    tried = _CELLS[k * outside <= max(_MOST_EXPECTED, k * outside[-1])]
    last = [_expected(tail, k, base, cell, deviation) for cell in tried]
    cell = float(tried[int(np.argmin(last))])
    places = np.unique(np.round(np.geomspace(1, k, 24)).astype(int))
    widths = [_expected(tail, int(j), _base(int(j), beta), cell, deviation) for j in places]
    # Each sampled place stands for those up to half-way to its neighbours.
    edges = np.concatenate(([0.5], (places[1:] + places[:-1]) / 2.0, [k + 0.5]))
    half_cell = cell * deviation
    price = _expected_price(k, cell)
    return CodeWidth(
        k=k,
        beta=beta,
        error=rounding.up(float(np.min(last))),
        half_cell=half_cell,
        nats=rounding.up(base + price),
        surprises=float(k * special.erfc(cell / math.sqrt(2.0))),
        mean=float(np.average(widths, weights=np.diff(edges))),
    )


def _base(step: int, beta: float) -> float:
    """ln(1/δ) of the question at this step, before anything is spent."""
    return -math.log(beta) + weight_nats(step)


def _expected(tail: Tail, step: int, base: float, cell: float, deviation: float) -> float:
    """Half a cell and the radius at the expected nats: at least the expected radius, as radii are concave."""
    return cell * deviation + tail.radius_at(base + _expected_price(step, cell))


@lru_cache(maxsize=1 << 15)
def _expected_price(step: int, cell: float) -> float:
    """The nats that step − 1 questions are expected to have cost with half a cell of this many deviations."""
    outside = float(special.erfc(cell / math.sqrt(2.0)))
    asked = float(step - 1)
    counts = np.arange(min(step - 1, _TERMS) + 1, dtype=np.float64)
    log_chance = (
        special.gammaln(asked + 1.0)
        - special.gammaln(counts + 1.0)
        - special.gammaln(asked - counts + 1.0)
        + special.xlogy(counts, outside)
        + special.xlog1py(asked - counts, -outside)
    )
    pattern = float(np.exp(log_chance) @ sequence_price(asked - counts, counts))
    distance = np.arange(1.0, 40.0)
    reached = special.erfc((2.0 * distance - 1.0) * cell / math.sqrt(2.0))
    here = reached - special.erfc((2.0 * distance + 1.0) * cell / math.sqrt(2.0))
    return pattern + asked * float(here @ place_price(distance))
