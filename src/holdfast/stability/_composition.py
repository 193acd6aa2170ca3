"""Exact optimal composition of differential privacy (Kairouz, Oh and Viswanath 2015), in log space.

Among all mechanisms with the same (ε, δ), k-fold randomised response that fails outright with probability δ
composes worst. Its hockey-stick divergence is a sum of positive terms over a binomial, so nothing cancels:
the sum is taken over the few √k terms that carry weight, anchored at an exact probability.

At a million trials log-gamma is wrong in the ninth digit of a probability. Loader's saddle-point form (2000)
keeps the error of a log-probability near |log-probability| × 1e-16. The neighbours follow from exact ratios,
outward from there.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding, search

__all__ = ["composed_delta", "log_composed_delta_pure", "optimal_epsilon"]

_SOURCE = "Kairouz–Oh–Viswanath 2015, theorem 3.3"

# Some ten √k numbers are held at once: beyond this they no longer fit in memory.
_MOST = 10**12

# Rounding error of a log-probability: several times the worst that mpmath finds at k = 10⁶.
_LOG_ERROR = 2e-12
_LOG_ERROR_RATE = 1e-14

# exp(-1000) is zero in floats, so longer gaps and steps act like this one, and no product of them overflows.
_FAR = 1000.0

_SMALLEST = sys.float_info.min * sys.float_info.epsilon
Floats = npt.NDArray[np.float64]

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)


class HasEpsilonDelta(Protocol):
    """Anything that carries a differential-privacy guarantee."""

    @property
    def epsilon(self) -> float: ...

    @property
    def delta(self) -> float: ...


def composed_delta(dp: HasEpsilonDelta, k: int, epsilon: float) -> float:
    """The smallest δ for which every k-fold adaptive composition of ``dp`` is (epsilon, δ)-private.

    Guarantee: δ = 1 − (1−δ₁)^k (1 − δ_pure(ε)), attained by randomised response; nine digits for every real ε
        ≥ 0, k up to 10⁶ and δ down to 1e-300, rounded up.
    Assumes: every step is (ε₁, δ₁)-private whatever was answered before (not checkable).
    Reference: Kairouz, Oh and Viswanath 2015, theorem 3.3.

    Args:
        k: How many mechanisms are composed.
        epsilon: The total ε of the composition, at least 0.

    >>> from types import SimpleNamespace
    >>> round(composed_delta(SimpleNamespace(epsilon=0.1, delta=0.0), k=50, epsilon=2.0), 12)
    0.001021380745
    """
    name = "composed_delta"
    step = checks.real(getattr(dp, "epsilon", None), "dp.epsilon", "[0, inf)", of=name, by=_SOURCE)
    failure = checks.real(getattr(dp, "delta", None), "dp.delta", "[0, 1]", of=name, by=_SOURCE)
    k = checks.whole(k, "k", at_most=_MOST, of=name, by=_SOURCE)
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of=name, by=_SOURCE)
    if failure == 1.0:
        return 1.0
    outright = -math.expm1(k * math.log1p(-failure))
    pure = from_log(log_composed_delta_pure(step, k, epsilon))
    return rounding.probability(outright + (1.0 - outright) * pure)


def log_composed_delta_pure(epsilon_step: float, k: int, epsilon: float) -> float:
    """ln δ of k-fold randomised response with ``epsilon_step`` at ``epsilon``; −inf from k · epsilon_step on.

    Guarantee: an upper bound within 2e-12 + 1e-14 |ln δ| of the exact value, however small δ is.
    Assumes: every step is purely ``epsilon_step``-private whatever was answered before (not checkable).
    Reference: Kairouz, Oh and Viswanath 2015, theorem 3.3.

    Args:
        k: How many mechanisms are composed.

    >>> round(log_composed_delta_pure(0.01, 1_000_000, 5000.0), 3)
    -128335.725
    """
    name = "log_composed_delta_pure"
    step = checks.real(epsilon_step, "epsilon_step", "[0, inf)", of=name, by=_SOURCE)
    k = checks.whole(k, "k", at_most=_MOST, of=name, by=_SOURCE)
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of=name, by=_SOURCE)
    # Exact arithmetic: near a point of the loss lattice the distance to it is all that is left of δ.
    lattice = Fraction(step)
    room = k * lattice - Fraction(epsilon)
    if room <= 0:
        return -math.inf
    last = math.ceil(room / (2 * lattice)) - 1
    return min(0.0, _safe(_log_tail(k, step, last, float(min(room - 2 * last * lattice, Fraction(_FAR))))))


def optimal_epsilon(epsilon_step: float, k: int, slack: float) -> float:
    """The smallest total ε at which k pure steps of ``epsilon_step`` have δ ≤ ``slack``.

    Guarantee: the composition is (result, slack)-private; rounded up by at most some 1e-10 of a step.
    Assumes: every step is purely ``epsilon_step``-private whatever was answered before (not checkable).
    Reference: Kairouz, Oh and Viswanath 2015, theorem 3.3, solved for ε on each piece of the loss lattice.

    Args:
        k: How many mechanisms are composed.

    >>> round(optimal_epsilon(0.1, 50, 1e-6), 6)
    3.172903
    """
    name = "optimal_epsilon"
    step = checks.real(epsilon_step, "epsilon_step", "[0, inf)", of=name, by=_SOURCE)
    k = checks.whole(k, "k", at_most=_MOST, of=name, by=_SOURCE)
    slack = checks.real(slack, "slack", "[0, 1]", of=name, by=_SOURCE)
    if step == 0.0 or slack == 1.0:
        return 0.0
    if math.isinf(k * step):
        return math.inf
    total = _product_up(k, step)
    if slack == 0.0:
        return total
    wanted = math.log(slack)
    # At ε = (k − 2m)·step the losses above are those with fewer than m adverse answers; the largest such m:
    too_many = search.least_whole(
        lambda m: _safe(_log_tail(k, step, m - 1, 2.0 * step)) > wanted, start=max(1, k // 2), most=k // 2
    )
    low = k // 2 if too_many is None else too_many - 1
    at_lattice = _safe(_log_tail(k, step, low - 1, 2.0 * step)) if low > 0 else -math.inf
    # Between two points δ(ε − x) = δ(ε) + (1 − e^-x) · (mass above ε under the other input, times e^ε).
    log_scale, index, weight = lower_window(k, low, step)
    slope = log_scale + math.log(float(np.sum(weight * np.exp(-2.0 * min(step, _FAR) * (low - index)))))
    spare = -math.expm1(at_lattice - wanted)
    share = math.exp(min(700.0, wanted - _safe(slope))) * spare
    below = math.inf if share >= 1.0 else -math.log1p(-share) * (1.0 - 1e-12)
    return min(total, rounding.up(max(0.0, (k - 2 * low) * step - min(below, 2.0 * step))))


def from_log(log_value: float) -> float:
    """exp, on the safe side: what is positive but below every float becomes the smallest float, not zero."""
    if log_value == -math.inf:
        return 0.0
    return max(math.exp(log_value), _SMALLEST)


def _product_up(k: int, step: float) -> float:
    product = k * step
    return product if Fraction(product) >= k * Fraction(step) else math.nextafter(product, math.inf)


def _safe(log_value: float) -> float:
    return log_value + _LOG_ERROR + _LOG_ERROR_RATE * abs(log_value) if log_value > -math.inf else log_value


def _log_tail(k: int, step: float, last: int, gap: float) -> float:
    """ln Σ_{i ≤ last} P(I = i) (1 − exp(−gap − 2·step·(last − i))), I the number of adverse answers."""
    log_scale, index, weight = lower_window(k, last, step)
    total = float(np.sum(weight * -np.expm1(-gap - 2.0 * min(step, _FAR) * (last - index))))
    return log_scale + math.log(max(total, _SMALLEST))


class Window(NamedTuple):
    """P(I = i) = exp(log_scale) · weight for i in ``counts``; what is left out is below e^-80 of that."""

    log_scale: float
    counts: Floats
    weight: Floats


def _stirling_error(n: int) -> float:
    """ln n! minus Stirling's formula."""
    if n < 16:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - _HALF_LOG_TAU
    square = float(n) * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square) / n


def _deviance(count: int, mean: float) -> float:
    """count · ln(count/mean) + mean − count, without cancellation where the two are close."""
    excess = count - mean
    if abs(excess) >= 0.1 * (count + mean):
        return count * math.log(count / mean) - excess
    ratio = excess / (count + mean)
    total = excess * ratio
    term = 2.0 * count * ratio
    for odd in range(3, 2000, 2):
        term *= ratio * ratio
        increment = term / odd
        if total + increment == total:
            break
        total += increment
    return total


def log_probability(trials: int, i: int, log_odds: float) -> float:
    """ln P(I = i) for I ~ Binomial(trials, 1/(1 + exp(log_odds))), log_odds ≥ 0."""
    against = math.exp(-log_odds)
    if i == 0:
        return -trials * math.log1p(against)
    if i == trials:
        return -trials * (log_odds + math.log1p(against))
    if against == 0.0:
        # The mean underflows; the binomial coefficient is then the smaller part of the logarithm.
        return math.lgamma(trials + 1.0) - math.lgamma(i + 1.0) - math.lgamma(trials - i + 1.0) - i * log_odds
    mean = trials * against / (1.0 + against)
    return (
        _stirling_error(trials)
        - _stirling_error(i)
        - _stirling_error(trials - i)
        - _deviance(i, mean)
        - _deviance(trials - i, trials / (1.0 + against))
        - 0.5 * math.log(i * ((trials - i) / trials))
        - _HALF_LOG_TAU
    )


def lower_window(trials: int, last: int, log_odds: float) -> Window:
    """The part of Binomial(trials, 1/(1 + exp(log_odds))) on {0, …, last} that carries weight.

    Ratios of neighbours change by at least 4/(trials + 1) a step: 7√trials steps beyond the peak cost e^-98.
    """
    mode = math.floor((trials + 1) * math.exp(-log_odds) / (1.0 + math.exp(-log_odds)))
    peak = min(last, mode)
    reach = 20 + math.ceil(7.0 * math.sqrt(trials))
    low = max(0, peak - reach)
    high = min(last, peak + reach)
    index = np.arange(low, high + 1, dtype=np.float64)
    # Beyond a thousand every weight but the peak's is zero in floats; the cap keeps the sums finite.
    step = np.log((trials - index[:-1]) / (index[:-1] + 1.0)) - min(log_odds, 1000.0)
    below = -np.cumsum(step[: peak - low][::-1])[::-1]
    above = np.cumsum(step[peak - low :])
    weight = np.exp(np.concatenate((below, np.zeros(1), above)))
    return Window(log_probability(trials, peak, log_odds), index, weight)
