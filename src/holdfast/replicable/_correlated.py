"""Correlated sampling: two sides with close laws and shared coins mostly choose the same.

The laws are finite lists, named weights, countable outcomes, or normal and Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._rounding import snap
from holdfast.replicable._tape import Floats, Tape, logarithm, tape_argument, to_exponentials

__all__ = [
    "MOST_DIMENSIONS",
    "correlated_choice",
    "correlated_countable",
    "correlated_laplace",
    "correlated_log_choice",
    "correlated_name",
    "correlated_normal",
    "density",
    "point_in_ball",
]


_BY = "docs/theory/replicability.md, correlated sampling"
# Far above the rounding error of a quotient and of the logarithm, so no possible minimum is sorted out.
_SLACK = 1.0 + 2.0**-40
_LOG_SLACK = 2.0**-20
_AT_ONCE = 2**16
# With up to this many outcomes the exponentials are cached: a vote chooses again and again with the same
# coins.
_FEW = 1024


@lru_cache(maxsize=64)
def _exponentials(tape: Tape, count: int) -> Floats:
    drawn = tape.exponentials(count)
    drawn.flags.writeable = False
    return drawn


def _vector(values: Any, argument: str, expected: str, *, of: str) -> Floats:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(argument, expected, values, of=of, reference=_BY) from None
    if vector.ndim != 1 or vector.size == 0:
        raise InvalidArgument(argument, expected, values, of=of, reference=_BY)
    return vector


def correlated_choice(probabilities: npt.ArrayLike, tape: Tape) -> int:
    """An outcome drawn from ``probabilities``, the same on two sides as often as their laws allow.

    Guarantee: the index is the argmin of E_i/p_i with the tape's exponentials E_i, so it has law p to within
    2⁻⁵² of probability. Two sides with laws p and q choose the same with probability
    ``stability.collision_probability(p, q)`` ≥ (1 − d)/(1 + d), d their total variation.
    Assumes: both sides list the outcomes in the same order; non-negative, of sum 1 (checked to 1e-9).
    Reference: SIS 2.5 (Holenstein 2009); shared exponentials as in
    docs/theory/replicability.md, "Correlated sampling".

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> correlated_choice([0.2, 0.5, 0.3], Tape("study-7"))
    2
    """
    of, expected = "correlated_choice", "a sequence of probabilities that sum to 1"
    tape = tape_argument(tape, of=of)
    chances = _vector(probabilities, "probabilities", expected, of=of)
    if not (float(chances.min()) >= 0.0 and abs(float(chances.sum()) - 1.0) <= 1e-9):
        raise InvalidArgument("probabilities", expected, probabilities, of=of, reference=_BY)
    if chances.size <= _FEW:
        with np.errstate(divide="ignore", over="ignore"):
            return int(np.argmin(_exponentials(tape, chances.size) / chances))
    quantiles = tape.exponential_quantiles(chances.size)
    with np.errstate(divide="ignore", over="ignore"):
        # E is at least its quantile, so few outcomes can be the minimum. Only these need a logarithm.
        at_least = quantiles / chances
        best = int(np.argmin(at_least))
        limit = _SLACK * float(to_exponentials(quantiles[best : best + 1])[0]) / chances[best]
        candidates = np.flatnonzero(at_least <= limit)
        arrivals = to_exponentials(quantiles[candidates]) / chances[candidates]
    return int(candidates[np.argmin(arrivals)])


def correlated_log_choice(log_weights: npt.ArrayLike, tape: Tape) -> int:
    """An outcome drawn with probabilities in proportion to exp(``log_weights``), from shared coins.

    Guarantee: the index is the argmin of ln E_i − ln w_i, which is that of :func:`correlated_choice` for the
    normalised weights; nothing overflows, whatever their size.
    Assumes: the same order on both sides; numbers below +∞, −∞ for weight zero, at least one finite.
    Reference: SIS 2.5; shared exponentials as in
    docs/theory/replicability.md, "Correlated sampling".

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> correlated_log_choice([-5000.0, -4999.0, -5001.0], Tape("study-7"))
    1
    """
    of, expected = "correlated_log_choice", "a sequence of numbers, −inf for weight zero, not all of them"
    tape = tape_argument(tape, of=of)
    weights = _vector(log_weights, "log_weights", expected, of=of)
    largest = float(weights.max())
    if not (np.isfinite(largest) and not np.isnan(weights).any()):
        raise InvalidArgument("log_weights", expected, log_weights, of=of, reference=_BY)
    weights = weights - largest
    quantiles = tape.exponential_quantiles(weights.size)
    # numpy's logarithm, which differs between machines, only finds the candidates. The logarithm that is the
    # same everywhere decides among them.
    rough = np.log(-np.log1p(-quantiles)) - weights
    candidates = np.flatnonzero(rough <= float(rough.min()) + _LOG_SLACK)
    arrivals = logarithm(to_exponentials(quantiles[candidates])) - weights[candidates]
    return int(candidates[np.argmin(arrivals)])


def correlated_name(weights: Mapping[str, float] | Iterable[tuple[str, float]], tape: Tape) -> str:
    """A name drawn with probabilities in proportion to ``weights``; the order of the names does not matter.

    Guarantee: each name's exponential comes from the name alone. Two sides may list their outcomes in any
    order, or know only those of positive weight. They choose the same name with probability
    ``stability.collision_probability`` of the two laws. Pairs may come as a stream.
    Assumes: distinct names; finite non-negative weights, one of them positive (checked).
    Reference: SIS 2.5; shared exponentials as in
    docs/theory/replicability.md, "Correlated sampling".

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> correlated_name({"maple": 0.5, "oak": 0.3, "ash": 0.2}, Tape("study-7"))
    'oak'
    >>> correlated_name([("ash", 2), ("oak", 3), ("maple", 5)], Tape("study-7"))
    'oak'
    """
    of = "correlated_name"
    tape = tape_argument(tape, of=of)
    pairs = weights.items() if isinstance(weights, Mapping) else weights
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidArgument("weights", "a mapping from names to weights, or pairs", weights, of=of)
    best: tuple[float, str] | None = None
    for names, sizes in _blocks(iter(pairs), of=of):
        positive = np.flatnonzero(sizes > 0.0)
        if positive.size == 0:
            continue
        chosen = [names[i] for i in positive]
        arrivals = tape.named_exponentials(chosen) / sizes[positive]
        least = float(arrivals.min())
        first = min(chosen[i] for i in np.flatnonzero(arrivals == least))
        best = (least, first) if best is None else min(best, (least, first))
    if best is None:
        raise InvalidArgument("weights", "at least one name of positive weight", weights, of=of)
    return best[1]


def _blocks(pairs: Iterator[Any], *, of: str) -> Iterator[tuple[list[str], Floats]]:
    """The stream in blocks of names and weights, each checked."""
    seen: set[str] = set()
    while block := list(islice(pairs, _AT_ONCE)):
        try:
            names = [name for name, _ in block]
            sizes = np.array([weight for _, weight in block], dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument(
                "weights", "pairs of a name and a weight", block[:3], of=of, reference=_BY
            ) from None
        names_before = len(seen)
        seen.update(names)
        if len(seen) != names_before + len(names):
            raise InvalidArgument("weights", "without a name given twice", block[:3], of=of, reference=_BY)
        if not np.all((sizes >= 0.0) & (sizes < np.inf)):
            raise InvalidArgument(
                "weights", "non-negative finite weights", sizes.tolist(), of=of, reference=_BY
            )
        yield names, sizes


_BY_COUNTABLE = "SIS Corollary 1.4"
_FIRST, _MOST = 2**6, 2**28
# Outcomes looked at together, so that a law with a long tail costs time and not memory.
_MOST_TOGETHER = 2**20


def correlated_countable(
    law: Callable[[npt.NDArray[np.int64]], Any], tape: Tape, *, tolerance: float = 1e-9
) -> int:
    """An outcome 0, 1, 2, … drawn from ``law``, the same on two sides as often as their laws allow.

    ``law`` takes an array of outcomes and returns their probabilities. The outcomes are looked at in turn
    until none of the rest can arrive first, except with probability ``tolerance``.

    Guarantee: the outcome is the argmin of E_i/p_i over all i, with the tape's exponentials, except with
    probability at most ``tolerance``. So its law is p to within ``tolerance``, and two sides with laws at
    total variation d differ with probability at most 2d/(1 + d) + 2 ``tolerance``.
    Assumes: both sides number the outcomes alike; probabilities of sum 1, of which all but ``tolerance`` is
    within the first 2²⁸ outcomes (a law that ends too late is refused).
    Reference: SIS Corollary 1.4 (Kalavasis, Karbasi, Moran and Velegkas 2023); shared exponentials as in
    docs/theory/replicability.md, "Correlated sampling".

    >>> correlated_countable(lambda i: 0.5 ** (i + 1.0), Tape("study-7"))
    2
    """
    of, expected = "correlated_countable", "a function from outcomes to probabilities that sum to 1"
    tape = tape_argument(tape, of=of)
    tolerance = checks.real(tolerance, "tolerance", "[1e-12, 0.1]", of=of, by=_BY_COUNTABLE)
    best, arrival = -1, np.inf
    start, stop, total = 0, _FIRST, 0.0
    while True:
        outcomes = np.arange(start, stop, dtype=np.int64)
        try:
            chances = np.asarray(law(outcomes), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument("law", expected, law, of=of, reference=_BY_COUNTABLE) from None
        if chances.shape != outcomes.shape or not bool(((chances >= 0.0) & (chances <= 1.0)).all()):
            raise InvalidArgument("law", expected, chances, of=of, reference=_BY_COUNTABLE)
        total += float(chances.sum())
        if total > 1.0 + 1e-9:
            raise InvalidArgument("law", expected, f"a sum of {total:.12g}", of=of, reference=_BY_COUNTABLE)
        with np.errstate(divide="ignore"):
            arrivals = tape.exponentials(outcomes.size, start=start) / chances
        first = int(np.argmin(arrivals))
        if float(arrivals[first]) < arrival:
            best, arrival = start + first, float(arrivals[first])
        # The least of all later arrivals is exponential with rate 1 − total.
        if arrival * max(0.0, 1.0 - total) <= tolerance:
            return best
        if stop >= _MOST:
            asked = "a law with all but the tolerance in its first 2²⁸ outcomes"
            raise InvalidArgument("law", asked, f"{1.0 - total:.3g} beyond", of=of, reference=_BY_COUNTABLE)
        start, stop = stop, min(2 * stop, stop + _MOST_TOGETHER)


# Up to here boxes meet at least as often as ellipsoids; see docs/theory/replicability.md.
_MOST_BOXED = 7


def correlated_normal(mean: npt.ArrayLike, sd: npt.ArrayLike, tape: Tape) -> Floats:
    """A draw from N(``mean``, ``sd``²) that two sides with close means share, bit for bit.

    Guarantee: the law of the draw is N(mean, diag sd²) to within the 53 bits of the uniforms. Two sides whose
    laws are at total variation T get the same point with probability at least (1 − T)/(1 + T), and exactly
    1 − T in one dimension.
    Assumes: at most 20 dimensions; both sides use the same ``sd`` (a number, or one for each coordinate).
    Reference: Holdfast; it replaces the Poisson functional representation (Li and El Gamal 2018) by layers.

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> correlated_normal([1.0, 2.0], 0.5, Tape("study-7")).round(4).tolist()
    [0.9102, 1.2376]
    >>> correlated_normal([1.01, 1.99], 0.5, Tape("study-7")).round(4).tolist()
    [0.9102, 1.2376]
    """
    centre, spread, tape = _arguments(mean, sd, tape, "mean", "sd", of="correlated_normal")
    drawn = spread.ravel() * _standard_normal((centre / spread).ravel(), tape)
    return drawn.reshape(centre.shape)


def correlated_laplace(location: npt.ArrayLike, scale: npt.ArrayLike, tape: Tape) -> Floats:
    """A draw of independent Laplace noise about ``location`` that two sides with close locations share.

    Guarantee: the law of the draw is the product of Laplace(location_i, scale_i) to within the 53 bits of the
    uniforms. In up to seven dimensions two sides get the same point with probability exactly Π (1 − T_i), T_i
    the total variation in coordinate i; beyond, at least E (1 − T)/(1 + T), T that of the normals of which
    Laplace noise is a mixture.
    Assumes: at most 20 dimensions; both sides use the same ``scale`` (a number, or one for each coordinate).
    Reference: Holdfast, layers.

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> correlated_laplace([1.0, 2.0], 0.5, Tape("study-7")).round(4).tolist()
    [1.2758, 2.6117]
    """
    of = "correlated_laplace"
    centre, spread, tape = _arguments(location, scale, tape, "location", "scale", of=of)
    d = centre.size
    if d <= _MOST_BOXED:
        # The level sets of the density are intervals of half-width Gamma(2).
        exponentials = tape.branch("layers").exponentials(2 * d).reshape(2, d)
        widths = 2.0 * spread.ravel() * (exponentials[0] + exponentials[1])
        return snap(centre.ravel(), widths, tape.branch("offsets").uniforms(d)).reshape(centre.shape)
    # Laplace noise is normal noise whose variance is exponential of mean 2 scale².
    sd = spread.ravel() * np.sqrt(2.0 * tape.branch("variances").exponentials(d))
    return (sd * _standard_normal(centre.ravel() / sd, tape)).reshape(centre.shape)


def _standard_normal(centre: Floats, tape: Tape) -> Floats:
    """N(centre, 1): uniform in a ball whose squared radius, shared, is chi-squared with d + 2 degrees."""
    d = centre.size
    radius = math.sqrt(math.fsum(z * z for z in tape.branch("layers").normals(d + 2).tolist()))
    if d == 1:
        return snap(centre, 2.0 * radius, tape.branch("offsets").uniforms(1))
    unit = radius / math.sqrt(RADIUS_SQUARED)
    return unit * point_in_ball(centre / unit, tape.branch("offsets"))


def _arguments(
    centre: Any, spread: Any, tape: Any, centre_name: str, spread_name: str, *, of: str
) -> tuple[Floats, Floats, Tape]:
    tape = tape_argument(tape, of=of)
    numbers: list[Floats] = []
    for value, name in ((centre, centre_name), (spread, spread_name)):
        try:
            numbers.append(np.asarray(value, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidArgument(name, "a number or a vector", value, of=of, reference=_BY) from None
    middle, width = numbers
    if not (middle.ndim <= 1 and np.isfinite(middle).all()):
        raise InvalidArgument(centre_name, "a finite number or vector", centre, of=of, reference=_BY)
    checks.whole(middle.size, f"dimension of {centre_name}", at_most=MOST_DIMENSIONS, of=of, by=_BY)
    if width.shape not in ((), middle.shape) or not ((width > 0.0) & (width < np.inf)).all():
        expected = f"a positive number, or one for each coordinate of {centre_name}"
        raise InvalidArgument(spread_name, expected, spread, of=of, reference=_BY)
    width = np.broadcast_to(width, middle.shape)
    if not (np.abs(middle) < 2.0**30 * width).all():
        raise InvalidArgument(centre_name, f"below 2³⁰ times {spread_name}", centre, of=of, reference=_BY)
    return middle, width, tape


# Uniform points in a ball of R^d come from shared coins: the first of many shifted lattices that hits the
# ball. The lattice is L = {x in Z^d : x mod 2 in C, Σ x ≡ 0 mod 4}, where C is the greedy binary code of
# length d and distance 8 (the beginning of the Golay code). Its points are at least √8 apart, so a ball of
# radius √2 holds at most one of them, and holds one in a share V_d √2^d/2^(d−k+1) of all shifts (k the
# dimension of C): .62 at d = 4, .25 at d = 8, .015 at d = 16 and .0032 at d = 20, close to the densest
# lattices known.
MOST_DIMENSIONS = 20
RADIUS_SQUARED = 2.0
_BASIS = (0xFF, 0xF0F, 0x3333, 0x5555, 0x9669, 0x30356, 0x50563, 0x9063A)
_BALL_SLACK = 2.0**-20
_SHIFTS_AT_ONCE = 64


@cache
def _code(d: int) -> Floats:
    """The codewords of length ``d``, one a row."""
    words = [0]
    for vector in _BASIS:
        if vector < 2**d:
            words += [word ^ vector for word in words]
    return np.array([[word >> i & 1 for i in range(d)] for word in words], dtype=np.float64)


def density(d: int) -> float:
    """The share of shifts of the lattice that put a point into a given ball of radius √2."""
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * RADIUS_SQUARED ** (d / 2)
    return float(volume * len(_code(d)) / 2.0 ** (d + 1))


def point_in_ball(centre: Floats, tape: Tape) -> Floats:
    """A point uniform in the ball of radius √2 about ``centre``.

    Guarantee: two sides whose balls A and B share the tape get the same point, bit for bit, with probability
    at least |A∩B|/|A∪B|; it takes 1/``density(d)`` shifts on average.
    Assumes: 2 ≤ d ≤ 20 and |centre| < 2³⁵, so that the machine's rounding is far below the radius.
    Reference: Holdfast; rejection-sampled dithering after Ling and Li 2023.
    """
    d = centre.size
    at_once = min(_SHIFTS_AT_ONCE, math.ceil(2.0 / density(d)))
    begin = 0
    while True:
        shifts = 4.0 * tape.uniforms(at_once * d, start=begin * d).reshape(at_once, d)
        hit = _first_hit(centre, shifts)
        if hit is not None:
            point, shift = hit
            return point + shift
        begin += at_once


def _first_hit(centre: Floats, shifts: Floats) -> tuple[Floats, Floats] | None:
    targets = centre - shifts
    code = _code(centre.size)
    # Where a codeword has 0 the nearest even number is |e| away, where it has 1 the nearest odd one 1 − |e|.
    away = np.abs(targets - 2.0 * np.round(0.5 * targets))
    rough = (away * away).sum(axis=1)[:, None] + (1.0 - 2.0 * away) @ code.T
    for i, j in np.argwhere(rough <= RADIUS_SQUARED + _BALL_SLACK):
        point = _nearest(targets[i], code[j])
        gap = targets[i] - point
        if float((gap * gap).sum()) < RADIUS_SQUARED:
            return point, shifts[i]
    return None


def _nearest(target: Floats, word: Floats) -> Floats:
    """The point of L nearest to ``target`` among those that are ``word`` modulo 2."""
    point: Floats = word + 2.0 * np.round(0.5 * (target - word))
    if float(point.sum()) % 4.0 != 0.0:
        # The sum is even; moving the least certain coordinate to its other neighbour mends it at least cost.
        gap = target - point
        worst = int(np.argmax(np.abs(gap)))
        point[worst] += math.copysign(2.0, gap[worst])
    return point
