"""Noise calibrated to concentration: the certified error of k adaptive answers on any rows
(``docs/theory/adaptive-validity.md``).

Every query, fixed in advance, misses the radius α with probability ν at most. With fresh noise on every
answer the chance that any of k adaptive queries misses it is at most T(kν), T the trade-off curve of k − 1
answers that move by α: the last answer's own noise cannot have helped to choose a query. With b1 for the
noise and T(kν) ≤ b2, b1 + b2 = β, all answers are within α + (quantile of the largest noise) of the truth.

Every point of the searches below is a valid promise; they decide only how small its error is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.stability._profiles import laplace_delta
from holdfast.tails import Tail
from holdfast.typing import NoiseKind

Floats = npt.NDArray[np.float64]

_SOURCE = "docs/theory/adaptive-validity.md"
_MOST_QUERIES = 10**9
_EXACT = 1e-12  # relative, taken off budgets so that recomputation in other arithmetic agrees


@dataclass(frozen=True, repr=False)
class TypicalError(Record):
    """The certified error of ``k`` adaptive answers, with every number needed to check the promise again.

    ``error`` = ``radius`` + ``noise``. A fixed query misses ``radius`` with probability exp(``log_nu``) at
    most, and ``b2`` ≥ T(k·ν) for k − 1 answers with noise of ``scale`` (Gaussian: the standard deviation)
    that move by ``radius``; none of k noises exceeds ``noise`` except with probability ``b1``; ``b1`` +
    ``b2`` ≤ ``beta``. Laplace: T is bounded by exp(``epsilon``)·k·ν + δ, δ the composed one at ``epsilon``.

    Args:
        kind: "laplace" or "gaussian".
    """

    kind: NoiseKind
    k: int
    beta: float
    error: float
    radius: float
    scale: float
    noise: float
    log_nu: float
    b1: float
    b2: float
    epsilon: float | None = None


def typical_gaussian_error(tail: Tail, k: int, beta: float) -> TypicalError:
    """The least certified error of k adaptive queries with this tail, answered with Gaussian noise.

    Guarantee: with probability 1 − ``beta`` over rows, noise and the analyst's coins, every answer is within
        ``error`` of its query's expectation; the radius, the noise and the split of ``beta`` are optimised.
    Assumes: every query, fixed in advance, has ``tail``; the analyst's coins and prior knowledge are
        independent of the rows (not checkable). The rows may depend on one another.
    Reference: Holdfast, ``docs/theory/adaptive-validity.md``; T(p) = Φ(Φ⁻¹(p) + √(k−1)·radius/scale).

    Args:
        k: How many queries are answered.

    >>> from holdfast.tails import SubGaussian
    >>> round(typical_gaussian_error(SubGaussian(1.0), 10, 0.05).error, 2)
    21.73
    """
    tail, k, beta = _checked(tail, k, beta, of="typical_gaussian_error")
    if k == 1:
        return _without_noise(tail, beta, "gaussian")

    def scale_per_radius(nats: Floats, b2: Floats) -> Floats:
        room = scipy.special.ndtri(b2) - scipy.special.ndtri_exp(math.log(k) - nats)
        return np.where(room > 0.0, math.sqrt(k - 1) / np.where(room > 0.0, room, 1.0), np.inf)

    def error(nats: Floats, share: Floats, radius: Floats) -> Floats:
        noise = scale_per_radius(nats, beta * (1.0 - share)) * _gaussian_quantile(beta * share, k)
        result: Floats = radius * (1.0 + noise)
        return result

    nats, share = _search(error, tail, k, beta)
    b1 = rounding.down(beta * share)
    b2 = (beta - b1) * (1.0 - _EXACT)
    radius = tail.radius_at(nats)
    scale = rounding.up(radius * float(scale_per_radius(np.array(nats), np.array(b2)))) * (1.0 + _EXACT)
    noise = rounding.up(scale * float(_gaussian_quantile(np.array(b1), k)))
    return TypicalError("gaussian", k, beta, rounding.up(radius + noise), radius, scale, noise, -nats, b1, b2)


def typical_laplace_error(tail: Tail, k: int, beta: float) -> TypicalError:
    """The least certified error of k adaptive queries with this tail, answered with Laplace noise.

    Guarantee: as for :func:`typical_gaussian_error`; TS Theorem 6.1 with explicit constants.
    Assumes: as there.
    Reference: TS Theorem 6.1; Holdfast, ``docs/theory/adaptive-validity.md``: T(p) ≤ e^ε p + δ(ε), δ the
    exact composition of k − 1
        Laplace answers that each move by the radius.

    Args:
        tail: The tail of every query.
        k: How many queries are answered.
        beta: β in [0, 1]: the probability with which the bound may fail.

    >>> from holdfast.tails import SubGaussian
    >>> round(typical_laplace_error(SubGaussian(1.0), 10, 0.05).error, 1)
    21.1
    """
    tail, k, beta = _checked(tail, k, beta, of="typical_laplace_error")
    if k == 1:
        return _without_noise(tail, beta, "laplace")
    ratio, share, jump, delta_share = _laplace_place(tail, k, beta)
    b1 = rounding.down(beta * share)
    b2 = (beta - b1) * (1.0 - _EXACT)
    epsilon = _epsilon(b2 * delta_share, ratio, k - 1, jump)
    # The part of b2 that δ does not use is for e^ε·k·ν.
    left = b2 - (laplace_delta(epsilon, ratio, k - 1) if epsilon < (k - 1) * ratio else 0.0)
    nats = rounding.up(epsilon + math.log(k) - math.log(left) + _EXACT)
    radius = tail.radius_at(nats)
    scale = rounding.up(radius / ratio)
    noise = rounding.up(scale * float(_laplace_quantile(np.array(b1), k)))
    return TypicalError(
        "laplace", k, beta, rounding.up(radius + noise), radius, scale, noise, -nats, b1, b2, epsilon
    )


def _checked(tail: Any, k: Any, beta: Any, *, of: str) -> tuple[Tail, int, float]:
    if not isinstance(tail, Tail):
        raise InvalidArgument("tail", "a tail from holdfast.tails", tail, of=of, reference=_SOURCE)
    k = checks.whole(k, "k", at_most=_MOST_QUERIES, of=of, by=_SOURCE)
    return tail, k, checks.real(beta, "beta", "[1e-200, 1)", of=of, by=_SOURCE)


def _without_noise(tail: Tail, beta: float, kind: NoiseKind) -> TypicalError:
    """One query is fixed in advance, so its own tail is the whole error."""
    nats = rounding.up(-math.log(beta))
    radius = tail.radius_at(nats)
    return TypicalError(kind, 1, beta, radius, radius, 0.0, 0.0, -nats, 0.0, beta)


def _largest_of(failure: Floats, k: int) -> Floats:
    """How likely each of k independent noises may be to be large, so that one of them is with probability
    ``failure``."""
    result: Floats = -np.expm1(np.log1p(-failure) / k)
    return result


def _gaussian_quantile(failure: Floats, k: int) -> Floats:
    """The size that no one of k standard Gaussians exceeds except with probability ``failure``."""
    result: Floats = -scipy.special.ndtri(_largest_of(failure, k) / 2.0)
    return result


def _laplace_quantile(failure: Floats, k: int) -> Floats:
    """The size that no one of k Laplace variables of scale 1 exceeds except with probability ``failure``."""
    result: Floats = -np.log(_largest_of(failure, k))
    return result


def _most_log_nats(k: int) -> float:
    """The upper end of searches. The best shift of a Laplace answer is at most some ten scales, at ten nats
    each."""
    return max(13.0, math.log(50.0 * k))


def _search(error: Any, tail: Tail, k: int, beta: float) -> tuple[float, float]:
    """The nats and the share of β for the noise with the least error, by grids that close in.

    The radius is read off the tail once a row of the grid, so that any tail can be used.
    """
    base = math.log(k) - math.log(beta)
    centre, half = np.array([3.0, 0.0]), np.array([9.0, 12.0])
    axis = np.linspace(-1.0, 1.0, 31)
    for _ in range(16):
        nats = base + np.exp(np.clip(centre[0] + half[0] * axis, -6.0, _most_log_nats(k)))
        odds = np.clip(centre[1] + half[1] * axis, -12.0, 12.0)
        radius = np.array([tail.radius_at(value) for value in nats])
        with np.errstate(invalid="ignore", over="ignore"):
            values = error(nats[:, None], scipy.special.expit(odds)[None, :], radius[:, None])
        row, column = np.unravel_index(int(np.nanargmin(values)), values.shape)
        best = float(nats[row]), float(scipy.special.expit(odds[column]))
        centre = np.array([math.log(nats[row] - base), odds[column]])
        half = half * 0.45
    return best


def _loss_moments(ratio: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the privacy loss of one Laplace answer that moves by ``ratio`` scales.

    The loss is r − 2X, X = min(max(x, 0), r) for x ~ Lap(1) around 0; E X = (1 − e^-r)/2 and E X² = 1 − (1 +
    r) e^-r.
    """
    lasting = np.exp(-ratio)
    first = -np.expm1(-ratio) / 2.0
    second = 1.0 - (1.0 + ratio) * lasting
    return ratio - 2.0 * first, np.maximum(4.0 * (second - first * first), 1e-300)


def _laplace_place(tail: Tail, k: int, beta: float) -> tuple[float, float, float, float]:
    """Where the least error is if the privacy loss were normal: ratio, share of β for the noise, ε there, and
    share of the rest for δ. The promise is computed afterwards, exactly."""
    base = math.log(k) - math.log(beta)
    grid = base + np.exp(np.linspace(-6.0, _most_log_nats(k), 160))
    log_radius = np.log(np.array([tail.radius_at(value) for value in grid]))
    log_grid = np.log(grid)

    def parts(point: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        ratio, (share, delta_share) = np.exp(point[0]), scipy.special.expit(point[1:])
        mean, variance = _loss_moments(ratio)
        quantile = scipy.special.ndtri(beta * (1.0 - share) * delta_share)
        epsilon = (k - 1) * mean - np.sqrt((k - 1) * variance) * quantile
        return ratio, share, np.clip(epsilon, 0.0, (k - 1) * ratio), delta_share

    def error(point: Floats) -> Floats:
        ratio, share, epsilon, delta_share = parts(point)
        nats = epsilon + math.log(k) - np.log(beta * (1.0 - share) * (1.0 - delta_share))
        radius = np.exp(np.interp(np.log(nats), log_grid, log_radius))
        # The radius is not computed beyond the grid: errors there are never the least.
        radius = np.where(nats <= grid[-1], radius, np.inf)
        total: Floats = radius * (1.0 + _laplace_quantile(beta * share, k) / ratio)
        return total

    box = ((-25.0, 5.0), (-9.0, 9.0), (-5.0, 9.0))
    place = search.least_in_box(error, box, points=13, rounds=14, shrink=0.5)
    ratio, share, epsilon, delta_share = (float(part) for part in parts(np.array(place)))
    return ratio, share, epsilon, delta_share


def _epsilon(delta: float, ratio: float, k: int, guess: float) -> float:
    """The smallest ε, to 1e-5 of a deviation and on the safe side, at which δ of k answers is ≤ ``delta``."""
    most = k * ratio
    # The largest loss has probability 2^-k. Below that, ε must be ``most``, or close to it.
    if delta <= 0.5**k:
        return most
    spread = math.sqrt(k * float(_loss_moments(np.array(ratio))[1]))

    def excess(epsilon: float) -> float:
        return math.log(max(laplace_delta(epsilon, ratio, k), 1e-320)) - math.log(delta)

    low = high = min(guess, most)
    at_low = at_high = excess(high)
    step = 0.02 * spread + 1e-9 * most
    while at_high > 0.0 and high < most:
        low, at_low, high = high, at_high, min(most, high + step)
        at_high, step = excess(high), 4.0 * step
    while at_low <= 0.0 and low > 0.0:
        high, at_high, low = low, at_low, max(0.0, low - step)
        at_low, step = excess(low), 4.0 * step
    if at_low <= 0.0:
        return low
    return search.safe_root(
        lambda epsilon: -excess(epsilon), high, low, -at_high, -at_low, narrow=1e-5 * spread
    )
