"""Means of bounded values: by closed formulas, by betting on the rows in their order, and by an e-value.

The e-value is a product of bets that grows if the mean is elsewhere. For a rate λ that is fixed before the
rows are seen, E(a) = Π(1 + λ(x_i − a)) has expectation at most 1 at the true mean and falls in a. So every a
with E(a) ≥ 2/δ lies below the mean, except with probability δ/2. The product is bounded from below by two
sums that any database gives exactly. ``docs/theory/intervals.md`` has the proof.

Rows of a stationary Markov chain have the same interval with smaller factors, (1 + λy)/(1 + νλy) with y = x_i
− a and ν the norm of the chain's operator on mean-zero functions. With ν = 0 they are those of independent
rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.intervals._interval import Interval, around, bounds, inside, numbers, placed

_LN3 = math.log(3.0)

# A bet stakes at most this part of the wealth, so that no single row can ruin it.
_MOST = 0.75
_LN2 = math.log(2.0)
# The search for an end starts near where normal values would have it. If necessary it goes farther out. Then
# it halves between two distances until they hardly differ.
_LEAST = 1e-12
_STEP = 1.1
_NEAR = 1e-7
# More than the rounding error of the few operations that bound the logarithm of the product.
_ROUNDING = 1e-13


def hoeffding(mean: float, n: int, nats: float, *, lo: float = 0.0, hi: float = 1.0) -> Interval:
    """Hoeffding's interval for the mean of ``n`` values in [lo, hi]: mean ± (hi − lo) √((nats + ln 2) / 2n).

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. Its
    width does not depend on the data; :func:`kl` lies within it.
    Assumes: independent values (not checkable) that stay in [lo, hi] (checked of ``mean`` only).
    Reference: Hoeffding 1963, theorem 1, inequality (2.3); a union bound joins the sides.

    Args:
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> hoeffding(0.25, 400, 3.0)
    Interval(low=0.182056, high=0.317944)
    """
    lo, hi = bounds(lo, hi, of="hoeffding")
    mean = inside(mean, "mean", lo, hi, of="hoeffding")
    n = checks.whole(n, "n", of="hoeffding")
    nats = checks.real(nats, "nats", "[0, inf)", of="hoeffding")
    return around(mean, (hi - lo) * math.sqrt((nats + _LN2) / (2.0 * n))).clip(lo, hi)


def empirical_bernstein_radius(variance: float, n: int, nats: float, *, width: float = 1.0) -> float:
    """The half-width of :func:`empirical_bernstein` for ``n`` values in a range of this ``width``.

    Guarantee: with L = nats + ln 3, it is √(2 variance L / n) + width · L (2/√(n(n−1)) + 1/(3n)), which
    increases with ``variance`` and with ``nats``; infinite for n = 1.
    Assumes: as :func:`empirical_bernstein`.
    Reference: Maurer and Pontil 2009, theorem 4, before the last step of its proof, which rounds the bracket
    up to 7/(3(n−1)).

    >>> round(empirical_bernstein_radius(0.01, 1000, 3.0), 6)
    0.018621
    """
    of = "empirical_bernstein_radius"
    variance = checks.real(variance, "variance", "[0, inf)", of=of)
    n = checks.whole(n, "n", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    width = checks.real(width, "width", "(0, inf)", of=of)
    if n == 1:
        return math.inf
    level = nats + _LN3
    linear = width * level * (2.0 / math.sqrt(n * (n - 1.0)) + 1.0 / (3.0 * n))
    return rounding.up(math.sqrt(2.0 * variance * level / n) + linear)


def empirical_bernstein(
    mean: float, variance: float, n: int, nats: float, *, lo: float = 0.0, hi: float = 1.0
) -> Interval:
    """The empirical Bernstein interval for the mean of ``n`` values in [lo, hi] that vary little.

    ``variance`` is the sample variance with divisor n − 1, Σ(x_i − mean)²/(n − 1), in the units of the values
    (not of [0, 1]). A number above it is safe too, because the interval widens with it. With one row there is
    no sample variance, ``variance`` is not used and the interval is [lo, hi].

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance. Three
    events of probability exp(−nats)/3 each: Bennett's inequality fails above, or below, or the standard
    deviation is above its own upper bound; so both sides share the one bound on the variance.
    Assumes: independent values (not checkable) that stay in [lo, hi] (checked of ``mean`` only).
    Reference: Maurer and Pontil 2009, theorems 3, 4 and 10.

    Args:
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> empirical_bernstein(0.25, 0.01, 1000, 3.0)
    Interval(low=0.231379, high=0.268621)
    """
    lo, hi = bounds(lo, hi, of="empirical_bernstein")
    mean = inside(mean, "mean", lo, hi, of="empirical_bernstein")
    return around(mean, empirical_bernstein_radius(variance, n, nats, width=hi - lo)).clip(lo, hi)


def betting(values: ArrayLike, nats: float, *, lo: float = 0.0, hi: float = 1.0) -> Interval:
    """The hedged-capital interval for the mean of ``values`` in [lo, hi]: the means that no bet refutes.

    For each candidate mean m one gambler bets that the rows lie above m, another that they lie below. Before
    row i both stake λ_i = √(2(nats + ln 2)/(n v_i)), v_i the variance of the rows **before** i, and never
    more than ¾ of their wealth. If m is the mean, wealth is a non-negative martingale that starts at 1, so it
    ever reaches 2 exp(nats) with probability ≤ exp(−nats)/2 (Ville); m is dropped where either gambler does.

    The result depends on the order of the rows, which must be fixed in advance (the order of the file, say,
    not one chosen after a look at the values). It always holds the sample mean; it is not monotone in
    ``nats``, because the bets are made for the ``nats`` at hand. The bets are made once, for all rows: a
    later row cannot be added.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, for a query fixed in advance.
    Assumes: rows in a fixed order, each with the same mean given the rows before it, as independent rows of
    one distribution have (not checkable), values in [lo, hi] (checked).
    Reference: Waudby-Smith and Ramdas 2024, theorem 3.

    Args:
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> betting([0.2, 0.3, 0.25, 0.2, 0.3] * 80, 3.0)
    Interval(low=0.243507, high=0.260198)
    """
    lo, hi = bounds(lo, hi, of="betting")
    nats = checks.real(nats, "nats", "[0, inf)", of="betting")
    rows = numbers(values, "values", of="betting").astype(np.float64, copy=False)
    outside = ~((rows >= lo) & (rows <= hi))
    if outside.any():
        raise InvalidArgument("values", f"numbers in [{lo!r}, {hi!r}]", float(rows[outside][0]), of="betting")
    if rows.size == 0:
        return Interval(lo, hi)
    below, above = (rows - lo) / (hi - lo), (hi - rows) / (hi - lo)
    target = nats + _LN2
    stakes = _stakes(below, target)
    low, high = _least(below, stakes, target), _least(above, stakes, target)
    return placed(lo, hi, (low, 1.0 - low), (1.0 - high, high))


def _stakes(rows: NDArray[np.float64], target: float) -> NDArray[np.float64]:
    """λ_i for each row, from the rows before it and one imaginary row at ½ with variance ¼."""
    seen = np.arange(1.0, rows.size + 1.0)
    means = (0.5 + np.cumsum(rows)) / (seen + 1.0)
    variances = (0.25 + np.cumsum((rows - means) ** 2)) / (seen + 1.0)
    variances_before = np.concatenate(([0.25], variances[:-1]))
    return np.sqrt(2.0 * target / (rows.size * variances_before))


def _gains(rows: NDArray[np.float64], stakes: NDArray[np.float64], m: float) -> NDArray[np.float64]:
    """What each row adds to the log wealth of a gambler who bets that the mean is above m."""
    capped = np.minimum(stakes, _MOST / m) if m > 0.0 else stakes
    gains: NDArray[np.float64] = np.log1p(capped * (rows - m))
    return gains


def _peak(rows: NDArray[np.float64], stakes: NDArray[np.float64], m: float) -> float:
    """The largest log wealth on the way, less its rounding error; but for that it does not increase in m."""
    gains = _gains(rows, stakes, m)
    rounding_error = 2.0**-52 * rows.size * (64.0 + float(np.abs(gains).sum()))
    return float(np.cumsum(gains).max()) - rounding_error


def _least(rows: NDArray[np.float64], stakes: NDArray[np.float64], target: float) -> float:
    """The largest m, up to the mean of the rows, whose peak reaches the target; 0 if there is none.

    Every smaller m reaches it too. The returned m always reaches it: the search only decides how near the
    edge it is.
    """
    low, high = 0.0, float(rows.mean())
    above = _peak(rows, stakes, low) - target
    if above < 0.0:
        return 0.0
    below = _peak(rows, stakes, high) - target
    if below >= 0.0:
        return high
    return search.safe_root(
        lambda m: _peak(rows, stakes, m) - target, low, high, above, below, narrow=max(1e-10 * high, 1e-300)
    )


def e_mean(
    mean: float,
    variance: float,
    n: int,
    nats: float,
    *,
    lo: float = 0.0,
    hi: float = 1.0,
    rates: tuple[Any, Any],
    norm: float = 0.0,
) -> Interval:
    """An interval for the mean of ``n`` values in [lo, hi] that follows their variance, each side by itself.

    ``variance`` is the sample variance with divisor n − 1. ``rates`` are the rates of the lower and of the
    upper end, each a number or a sequence of numbers (whose average is used, which is valid too). Rates
    decide the width and never the validity; :func:`e_mean_rates` chooses good ones from earlier rows.

    For rows of a stationary Markov chain, ``norm`` is the norm of its operator on mean-zero functions, as for
    :func:`chain_share`; 0 stands for independent rows. Under a filter give the mean, the variance and the
    number of the rows that pass, also for a chain.

    Guarantee: holds with probability ≥ 1 − exp(−nats) over the sample, half of the error on each side, for a
    query fixed in advance.
    Assumes: values that stay in [lo, hi] (checked of ``mean`` only); rates that do not depend on the sample
    (not checkable). At norm 0: independent values, whose means have this average (not checkable). Above: the
    rows are consecutive states of a Markov chain that starts in its stationary law, with an operator of at
    most this norm, and value and filter look at one row (not checkable).
    Reference: Holdfast, ``docs/theory/intervals.md``; the bets are those of Waudby-Smith and Ramdas 2024 with
    one rate for all rows.

    Args:
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> rates = e_mean_rates(0.25, 0.01, 1000, 3.0)
    >>> e_mean(0.25, 0.01, 1000, 3.0, rates=rates)
    Interval(low=0.240771, high=0.260547)
    >>> e_mean(0.25, 0.01, 1000, 3.0, rates=e_mean_rates(0.25, 0.01, 1000, 3.0, norm=0.5), norm=0.5)
    Interval(low=0.233572, high=0.269429)
    """
    of = "e_mean"
    lo, hi = bounds(lo, hi, of=of)
    mean = inside(mean, "mean", lo, hi, of=of)
    variance = checks.real(variance, "variance", "[0, inf)", of=of)
    n = checks.whole(n, "n", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    if not isinstance(rates, Sequence) or len(rates) != 2:
        raise InvalidArgument("rates", "two: of the lower and of the upper end", rates, of=of)
    lower, upper = (_rates(side, of=of) for side in rates)
    norm = checks.real(norm, "norm", "[0, 1)", of=of)
    squares = (n - 1) * variance
    low = _lower_end(mean, squares, n, nats + _LN2, lo, lower, norm)
    high = -_lower_end(-mean, squares, n, nats + _LN2, -hi, upper, norm)
    return Interval(max(lo, low), min(hi, high))


def e_mean_rates(
    guess: float,
    variance: float,
    n: int,
    nats: float,
    *,
    lo: float = 0.0,
    hi: float = 1.0,
    reach: float = 0.0,
    norm: float = 0.0,
) -> tuple[float, float]:
    """The rates that make :func:`e_mean` narrow if the mean is near ``guess`` and the variance as given, both
    from other rows.

    ``reach`` is how far the mean may reasonably be from the guess. A variance of zero is replaced by that of
    one value in n at the other end of the range. ``norm`` is that of :func:`e_mean`.

    Guarantee: none is needed; any rates are valid.
    Assumes: nothing. The arguments must not come from the sample that :func:`e_mean` is then given.
    Reference: Holdfast, ``docs/theory/intervals.md``.

    Args:
        variance: The variance that is expected, from other rows than those of the interval.
        n: How many rows the sample has, at least 1.
        nats: ln of one over the probability that the interval may miss.
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

    >>> lower, upper = e_mean_rates(0.25, 0.01, 1000, 3.0)
    >>> round(lower, 4), round(upper, 4)
    (0.7493, 0.5884)
    """
    of = "e_mean_rates"
    lo, hi = bounds(lo, hi, of=of)
    guess = inside(guess, "guess", lo, hi, of=of)
    variance = checks.real(variance, "variance", "[0, inf)", of=of)
    n = checks.whole(n, "n", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    reach = checks.real(reach, "reach", "[0, inf)", of=of)
    norm = checks.real(norm, "norm", "[0, 1)", of=of)
    variance = max(variance, (hi - lo) ** 2 / (n + 1.0))
    return (
        _best_rate(guess + reach - lo, variance, n, nats + _LN2, hi - lo, norm),
        _best_rate(hi - (guess - reach), variance, n, nats + _LN2, hi - lo, norm),
    )


def _best_rate(distance: float, variance: float, n: int, level: float, width: float, norm: float) -> float:
    """The rate λ with the least level/(λn) + κ(λ·distance)·λ·variance: about the arm it leads to."""
    distance = max(distance, 1e-9 * width)
    return best_stake(level * distance**2 / (n * variance), norm, relative=1e-6) / distance


def best_stake(target: float, norm: float, *, relative: float) -> float:
    """The v at which the derivative of ``target``/v + v·κ(v) is 0. There v = λ·distance for the best rate λ.
    κ is that of a chain of this ``norm``, and ``relative`` says how near the place is enough.

    Args:
        target: level·distance²/(rows·variance).
        norm: The operator norm of the chain, below 1; 0 for independent rows.
        relative: How near the result is to the place, relative to it.
    """
    return search.edge(
        lambda share: _slope(share) - _slope(norm * share) >= target, 1 - 1e-9, 0.0, relative=relative
    )


def _slope(share: float) -> float:
    """v²κ'(v) + vκ(v) of independent rows: the derivative of v·κ(v), times v²."""
    return share**2 / (1 - share) + math.log1p(-share) + share


def _rates(side: Any, *, of: str) -> tuple[float, ...]:
    listed = list(side) if isinstance(side, Sequence) else [side]
    if not listed:
        raise InvalidArgument("rates", "at least one rate for each end", side, of=of)
    return tuple(checks.real(rate, "rates", "(0, inf)", of=of) for rate in listed)


def _kappa(share: float, norm: float) -> float:
    """κ(v), rounded up: the least number with ln(1 + y) − ln(1 + νy) ≥ (1 − ν)y − κ(v)y² for all y ≥ −v.

    It is the integral of s/(1 − sv) over s from the norm ν to 1.
    """
    if share < 1e-3:
        square = norm * norm
        series = (1 + norm) * (0.5 + share**2 / 4 * (1 + square)) + share / 3 * (1 + norm + square)
        return (1 - norm) * (series + share**3 / 2 * (1 + norm) ** 2) * (1 + _ROUNDING)
    part = (1 - norm) * share
    return (math.log1p(part / (1 - share)) - part) / share**2 * (1 + 1e-9)


def _lower_end(
    mean: float, squares: float, n: int, level: float, lo: float, rates: tuple[float, ...], norm: float
) -> float:
    """The largest a that the search finds with ln E(a) ≥ ``level``; ``squares`` is Σ(x_i − mean)². Every a
    with ln E(a) ≥ ``level`` is a valid lower end. A larger one only makes the interval narrower."""
    reach = mean - lo

    def suffices(radius: float) -> bool:
        return _log_product(radius, reach, squares, n, rates, norm) >= level

    usual = math.sqrt(2 * level * squares * (1 + norm) / (1 - norm)) / n
    radius = search.least_real(
        suffices, start=max(usual, reach * _LEAST), most=reach, growth=_STEP, relative=_NEAR
    )
    return lo if radius is None else rounding.down(mean - radius)


def _log_product(
    radius: float, reach: float, squares: float, n: int, rates: tuple[float, ...], norm: float
) -> float:
    """A lower bound on ln E(mean − radius), of the average of the products of all rates; ``reach`` is mean −
    lo."""
    logs = [_log_product_at(rate, radius, reach, squares, n, norm) for rate in rates]
    largest = max(logs)
    if len(logs) == 1 or largest == -math.inf:
        return largest
    average = math.fsum(math.exp(log - largest) for log in logs) / len(logs)
    return largest + math.log(average) - _ROUNDING


def _log_product_at(rate: float, radius: float, reach: float, squares: float, n: int, norm: float) -> float:
    share = rate * (reach - radius)
    if not share < 1 - 1e-9:
        return -math.inf
    gain = n * (1 - norm) * rate * radius
    cost = _kappa(max(share, 0.0), norm) * rate**2 * (squares + n * radius**2)
    return gain - cost - _ROUNDING * (gain + cost)
