"""Shares and means of a stationary Markov chain, from the norm λ of its operator on mean-zero functions.

The bound is over all chains with this norm and all functions with this mean (and this variance). The sum of n
rows has its largest exponential moments for a chain with two states. That chain stays where it is with
probability λ, and is drawn again otherwise. There the growth of the moments solves a quadratic equation, and
so does the best exponent. Every interval here inverts that one bound. ``docs/theory/intervals.md`` has the
proof.

With norm 0 the rows are independent: then a share has the interval :func:`holdfast.intervals.kl`, and a mean
Bennett's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.intervals._interval import Interval, bounds, inside, placed

_LN2 = math.log(2.0)
# A tenth of the error of a mean goes to the bound on the mean square, and half of the rest to each side.
_LN_SQUARE = math.log(10.0)
_LN_SIDE = math.log(20.0 / 9.0)
# Keeps exponentials finite. Any exponent is valid; if a larger one were better, the range ends anyway.
_LARGEST_EXPONENT = 700.0
# Shares below this count as 0.
_NOTHING = 1e-290
_EPS = 2.0**-52
# More than the rounding error of the exponent of a tail, relative to its two terms.
_ROUNDING = 1e-13
# The search for an end stops when it is this close, relative to its distance from the mean.
_NEAR = 1e-10
_PASSES = 8


def chain_share(count: int, rows: int, nats: float, *, norm: float) -> Interval:
    """The relative-entropy interval for a share of a stationary Markov chain, from ``count`` among ``rows``.

    ``norm`` is the norm of the chain's operator on mean-zero functions, λ = 1 −
    :attr:`~holdfast.dependence.MarkovChain.spectral_gap`; a larger number is safe. It is not the second
    eigenvalue, which is smaller for chains that are not reversible. The interval is [0, 1] for no rows.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, half of the error on each side, for a
    query fixed in advance. It lies within the Hoeffding interval of a stationary chain, and equals
    :func:`kl` at norm 0.
    Assumes: the rows are consecutive states of a Markov chain that starts in its stationary law, with an
    operator of at most this norm (not checkable); the share is that of a fixed set of states.
    Reference: Holdfast, ``docs/theory/intervals.md``; the operator is that of Fan, Jiang and Sun 2021.

    Args:
        nats: ln of one over the probability that the interval may miss.

    >>> chain_share(100, 400, 3.0, norm=0.5)
    Interval(low=0.155995, high=0.358325)
    """
    of = "chain_share"
    rows = checks.whole(rows, "rows", at_least=0, at_most=2**53, of=of)
    count = checks.whole(count, "count", at_least=0, at_most=rows, of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    norm = checks.real(norm, "norm", "[0, 1)", of=of)
    if rows == 0:
        return Interval(0.0, 1.0)
    share, rest = count / rows, (rows - count) / rows
    level = rounding.up((nats + _LN2) / rows)
    below, above = _share_below(share, rest, level, norm), _share_below(rest, share, level, norm)
    return placed(0.0, 1.0, (share - below, rest + below), (share + above, rest - above))


def chain_mean(
    mean: float,
    square: float,
    rows: int,
    nats: float,
    *,
    norm: float,
    lo: float = 0.0,
    hi: float = 1.0,
    centre: float,
    share: float = 1.0,
) -> Interval:
    """An interval for a mean of values in [lo, hi] of a stationary Markov chain; the less they vary, the
    narrower it is.

    ``centre`` is a number that was fixed before the rows were seen, best near the mean. ``square`` is the
    average of (x − centre)² over **all** ``rows``. Under a filter, ``mean`` is that of the rows that pass,
    ``share`` is the part of the rows that pass, and in ``square`` a row that does not pass counts as 0. A
    larger ``square`` is safe. ``norm`` is as for :func:`chain_share`.

    Where earlier rows can choose rates, :func:`e_mean` with this norm is narrower: it needs no bound on the
    mean square.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. A tenth
    of the error is that the mean square is above its upper bound, which both sides share; each side of
    Bennett's inequality for chains has 9/20 of it. Two further facts narrow the interval at no error: the
    variance is at most that of the two ends of [lo, hi], and values are at most the distance from an end
    already reached.
    Assumes: the rows are consecutive states of a Markov chain that starts in its stationary law, with an
    operator of at most this norm (not checkable); a value and a filter that look at one row; values that stay
    in [lo, hi] (checked of ``mean`` only).
    Reference: Holdfast, ``docs/theory/intervals.md``; never wider than the Bernstein inequality of Jiang, Sun
    and Fan, arXiv:1805.10721, with the same variance and range.

    Args:
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> chain_mean(0.25, 0.01, 1000, 3.0, norm=0.5, centre=0.25)
    Interval(low=0.220836, high=0.276048)
    """
    of = "chain_mean"
    lo, hi = bounds(lo, hi, of=of)
    centre = inside(centre, "centre", lo, hi, of=of)
    rows = checks.whole(rows, "rows", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    norm = checks.real(norm, "norm", "[0, 1)", of=of)
    share = checks.real(share, "share", "[0, 1]", of=of)
    span = hi - lo
    offset = (centre - lo) / span
    most = max(offset, 1.0 - offset) ** 2
    square = checks.real(square, "square", "[0, inf)", of=of)
    unit_square = square / span / span
    if not unit_square <= share * most * (1.0 + 1e-9):
        expected = f"the mean of (x - centre)**2 over all rows: at most {share * most * span * span!r} here"
        raise InvalidArgument("square", expected, square, of=of)
    if share == 0.0:
        return Interval(lo, hi)
    mean = inside(mean, "mean", lo, hi, of=of)
    to_lo, to_hi = (mean - lo) / span, (hi - mean) / span
    # The mean square is at least the square of the mean.
    unit_square = min(max(unit_square, share * (to_lo - offset) ** 2), most)
    second_moment = _square_above(unit_square, most, rows, nats, norm)
    level = rounding.up((nats + _LN_SIDE) / rows)
    below, above = to_lo, to_hi
    if share == 1.0:
        below, above = _share_below(to_lo, to_hi, level, norm), _share_below(to_hi, to_lo, level, norm)
    for _ in range(_PASSES):
        variance = min(second_moment, _largest_variance(to_lo, to_hi, below, above))
        if share == 1.0:
            apart = max(0.0, to_lo - below - offset - 4.0 * _EPS, offset - to_lo - above - 4.0 * _EPS)
            variance = min(variance, second_moment * (1.0 + 8.0 * _EPS) - apart * apart)
        before = below + above
        below, above = (
            min(below, _radius(variance, to_hi + below, level, norm) / share),
            min(above, _radius(variance, to_lo + above, level, norm) / share),
        )
        if before - below - above <= 1e-6 * before:
            break
    return placed(lo, hi, (to_lo - below, to_hi + below), (to_lo + above, to_hi - above))


def chain_mean_radius(
    spread: float, rows: int, nats: float, *, norm: float, width: float = 1.0, share: float = 1.0
) -> float:
    """What :func:`chain_mean` leads to: its ends are at most this far from the mean.

    ``spread`` is the root of ``square``: about the standard deviation of the values, times the root of
    ``share``, if the centre is well chosen. ``width`` is hi − lo.

    Guarantee: no end of :func:`chain_mean` is farther from ``mean`` than this if ``square`` is at most
    spread², wherever mean and centre lie in the range.
    Assumes: as :func:`chain_mean`.
    Reference: Holdfast, ``docs/theory/intervals.md``.

    Args:
        rows: How many rows there are.
        nats: ln of one over the probability that the interval may miss.
        norm: The operator norm of the chain, below 1.

    >>> round(chain_mean_radius(0.1, 1000, 3.0, norm=0.5), 6)
    0.033841
    """
    of = "chain_mean_radius"
    width = checks.real(width, "width", "(0, inf)", of=of)
    spread = checks.real(spread, "spread", "[0, inf)", of=of)
    rows = checks.whole(rows, "rows", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    norm = checks.real(norm, "norm", "[0, 1)", of=of)
    share = checks.real(share, "share", "(0, 1]", of=of)
    second_moment = _square_above(min(1.0, (spread / width) ** 2), 1.0, rows, nats, norm)
    level = rounding.up((nats + _LN_SIDE) / rows)
    return rounding.up(width * min(1.0, _radius(second_moment, 1.0, level, norm) / share))


def _square_above(square: float, most: float, rows: int, nats: float, norm: float) -> float:
    """An upper bound on the expectation of a square that is at most ``most``, from its mean ``square``."""
    level = rounding.up((nats + _LN_SQUARE) / rows)
    part = square / most
    return rounding.up(most * (part + _share_below(1.0 - part, part, level, norm)))


def _largest_variance(to_lo: float, to_hi: float, below: float, above: float) -> float:
    """The largest p(1 − p) for p from ``to_lo`` − ``below`` to ``to_lo`` + ``above``; to_lo + to_hi = 1."""
    if to_lo + above <= 0.5:
        return rounding.up((to_lo + above) * (to_hi - above))
    if to_hi + below <= 0.5:
        return rounding.up((to_hi + below) * (to_lo - below))
    return 0.25


def _share_below(share: float, rest: float, level: float, norm: float) -> float:
    """How far below ``share`` = 1 − ``rest`` the lower end for the mean of values in [0, 1] is."""
    if share <= 0.0:
        return 0.0
    gap = 1.0 - norm
    guess = math.sqrt(2.0 * level * (1.0 + norm) / gap * share * rest) + level / gap
    return _least_distance(lambda d: _rate(share - d, rest + d, d, rest, norm), level, guess, share)


def _radius(variance: float, largest: float, level: float, norm: float) -> float:
    """How far above 0 the mean of centred values up to ``largest`` may be: Bennett's inequality for chains.

    The worst law is on two points: ``largest`` with probability p, and −variance/largest.
    """
    if not variance > 0.0 or not largest > 0.0:
        return largest
    ratio = variance / largest / largest
    p, q = ratio / (1.0 + ratio), 1.0 / (1.0 + ratio)
    apart = largest * (1.0 + ratio)
    gap = 1.0 - norm
    guess = math.sqrt(2.0 * level * (1.0 + norm) / gap * p * q) + level / gap
    d = _least_distance(lambda d: _rate(p, q, d, q - d, norm), level, guess, q)
    return rounding.up(apart * d)


def _rate(p: float, q: float, d: float, rest: float, norm: float) -> float:
    """A lower bound on −ln P(mean ≥ p + d)/n for values on {0, 1} with mean p = 1 − q; ``rest`` = q − d.

    It is the largest s·d − ln r(s) over the exponents s. With Y = r·exp(sp) − 1 the best s solves a quadratic
    equation in Y. Any s is valid, so rounding errors of the equation do no harm.
    """
    gap = 1.0 - norm
    stay = norm + gap * p
    if rest <= 0.0:
        escape = math.log1p(-gap * q) if q < 0.5 else math.log(max(stay, _NOTHING))
        return -escape * (1.0 - _ROUNDING)
    if p <= _NOTHING:
        return -d * math.log(max(norm, _NOTHING)) * (1.0 - _ROUNDING)
    first, middle, last = stay * rest, gap * p * (rest - d + norm * q), gap * gap * p * d
    root = math.sqrt(middle * middle + 4.0 * first * last)
    # ``first`` can be rounded to zero where the rest is below the least normal number.
    rise = 2.0 * last / (middle + root) if middle > 0.0 else (root - middle) / max(2.0 * first, _NOTHING)
    s = min(math.log1p(rise * (gap + rise) / (gap * p + stay * rise)), _LARGEST_EXPONENT)
    growth = _log_growth(p, q, s, norm)
    return s * d - growth - _ROUNDING * (s * d + growth)


def _log_growth(p: float, q: float, s: float, norm: float) -> float:
    """ln r, rounded up: r^n bounds E exp(s Σ(x_i − p)) for values on {0, 1} with mean p = 1 − q.

    r − 1 = y is the positive root of y² + wy = N, with N written as a sum of terms that are not negative.
    """
    gap = 1.0 - norm
    up, down = math.expm1(q * s), math.expm1(-p * s)
    total = gap * (p * _exp_gap(q * s) + q * _exp_gap(-p * s)) - norm * up * down
    total *= 1.0 + 64.0 * _EPS
    rise, fall = (norm + gap * p) * up, -(norm + gap * q) * down
    w = gap - rise + fall - 8.0 * _EPS * (gap + rise + fall)
    root = math.hypot(w, 2.0 * math.sqrt(total))
    y = 2.0 * total / (w + root) if w > 0.0 else (root - w) / 2.0
    return math.log1p(y * (1.0 + 16.0 * _EPS))


def _exp_gap(x: float) -> float:
    """exp(x) − 1 − x, without the cancellation for small x."""
    if not -0.5 < x < 0.5:
        return math.expm1(x) - x
    series = 1.0
    for k in range(16, 2, -1):
        series = 1.0 + x / k * series
    return 0.5 * x * x * series


def _least_distance(rate: Callable[[float], float], level: float, guess: float, top: float) -> float:
    """A distance up to ``top`` with rate ≥ ``level``, very near the least one; ``top`` if there is none.

    The rate grows with the distance. Its root is nearly linear, so few tries are enough.
    """
    goal = math.sqrt(level)

    def excess(d: float) -> float:
        return math.sqrt(max(rate(d), 0.0)) - goal

    distance = search.least_root(excess, start=guess, most=top, relative=_NEAR)
    return top if distance is None else distance
