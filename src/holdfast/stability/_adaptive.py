"""Adaptive validity: how far adaptivity can raise the probability of a rare event, and martingale bounds.

T is the trade-off curve of k answers whose noise may have been moved by ``ratio``: T(p) is the largest
probability that an event of probability p in the ideal world, where answers are true means plus noise, can
have in the real one (``docs/theory/adaptive-validity.md``). Below it are Hoeffding's lemma, Azuma–Hoeffding
with a range for every step, and their example, the Pólya urn (L5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._composition import Floats, from_log
from holdfast.stability._profiles import MOST, Gaussian, Laplace, log_delta, sketch
from holdfast.typing import BoundForm

_SOURCE = "docs/theory/adaptive-validity.md"

# One Laplace answer that moves by this many scales already makes the smallest float certain: 1 − e^-r/4p.
_CERTAIN = 800.0
_AZUMA = "Azuma–Hoeffding, L5 theorem 1"


def adaptive_failure(k: int, nu: float, noise: Gaussian | Laplace, *, event: float = 0.0) -> float:
    """The chance that any of k adaptive queries misses the radius that each, if fixed, misses with ``nu``.

    Guarantee: P(E or some |q_j(X) − μ_j| > α) ≤ T(P_ideal(E) + kν), with T the trade-off curve of k answers
        with ``noise``, over the data, the noise and the analyst's coins; ``event`` is P_ideal(E). Gaussian:
        exact. Laplace: the exact curve to 1e-7, rounded up.
    Assumes: ``noise.ratio`` = α divided by the noise's sd or scale; fresh symmetric noise on every answer;
        the analyst's coins and prior knowledge independent of the data (not checkable).
    Reference: Holdfast; proof in ``docs/theory/adaptive-validity.md``.

    Args:
        k: How many queries are answered.

    >>> round(adaptive_failure(100, 1e-20, Gaussian(0.5)), 12)
    8.5881582e-05
    """
    name = "adaptive_failure"
    if not isinstance(noise, (Gaussian, Laplace)):
        raise InvalidArgument("noise", "Gaussian(ratio) or Laplace(ratio)", noise, of=name, reference=_SOURCE)
    most = MOST if isinstance(noise, Laplace) else None
    k = checks.whole(k, "k", at_most=most, of=name, by=_SOURCE)
    nu = checks.real(nu, "nu", "[0, 1]", of=name, by=_SOURCE)
    event = checks.real(event, "event", "[0, 1]", of=name, by=_SOURCE)
    ideal = rounding.up(event + k * nu)
    if ideal >= 1.0:
        return 1.0
    if ideal == 0.0 or noise.ratio == 0.0:
        return ideal
    raised = (
        _gaussian(ideal, k, noise.ratio) if isinstance(noise, Gaussian) else _laplace(ideal, k, noise.ratio)
    )
    return max(ideal, rounding.probability(raised))


def _gaussian(ideal: float, k: int, ratio: float) -> float:
    """Φ(Φ⁻¹(p) + √k·ratio)."""
    score = float(scipy.special.ndtri_exp(math.log(ideal)))
    moved = score + math.sqrt(k) * ratio
    log_value = float(scipy.special.log_ndtr(moved))
    # A relative error of 1e-15 in either score, seen through the slope of ln Φ.
    return from_log(min(0.0, log_value + 4e-15 * (1.0 + abs(score)) * (1.0 + max(0.0, -moved))))


def _laplace(ideal: float, k: int, ratio: float) -> float:
    if k == 1:
        return _laplace_once(ideal, ratio)
    if k * ratio < 1e-10:
        return ideal * math.exp(k * ratio)
    if ratio > _CERTAIN:
        return 1.0
    return from_log(_LaplaceCurve(k, ratio, ideal).minimum())


def _laplace_once(ideal: float, ratio: float) -> float:
    """The trade-off curve of one Laplace answer, in its three pieces."""
    if ideal <= 0.5 * math.exp(-ratio):
        return ideal * math.exp(ratio)
    if ideal <= 0.5:
        return 1.0 - math.exp(-ratio) / (4.0 * ideal)
    return 1.0 - math.exp(-ratio) * (1.0 - ideal)


class _LaplaceCurve:
    """ln T(p) = min over real ε of ln(e^ε p + δ(ε)); every ε gives a bound, so the search cannot break it."""

    def __init__(self, k: int, ratio: float, ideal: float) -> None:
        self.k, self.ratio, self.ideal = k, ratio, ideal
        self.log_ideal = math.log(ideal)
        self.best = min(0.0, self.log_ideal + k * ratio)

    def _log_bound(self, epsilon: Floats, log_delta_at: Floats) -> Floats:
        """ln(e^ε p + δ(ε)), given ln δ(|ε|); below zero, δ(ε) = 1 − e^ε + e^ε δ(−ε)."""
        left = np.minimum(epsilon, 0.0)
        backward = -np.expm1(left) + np.exp(left) * (self.ideal + np.exp(log_delta_at))
        return np.where(epsilon < 0.0, np.log(backward), np.logaddexp(epsilon + self.log_ideal, log_delta_at))

    def _try(self, epsilon: float) -> float:
        exact = np.array(log_delta(self.k, self.ratio, abs(epsilon)))
        bound = float(self._log_bound(np.array(epsilon), exact))
        self.best = min(self.best, bound)
        return bound

    def minimum(self) -> float:
        from scipy.optimize import minimize_scalar

        epsilon, estimate = sketch(self.k, self.ratio)
        epsilon = np.concatenate((-epsilon[::-1], epsilon))
        start = int(np.argmin(self._log_bound(epsilon, np.concatenate((estimate[::-1], estimate)))))
        first, last = (self._descend(epsilon, start, direction) for direction in (-1, 1))
        low, high = float(epsilon[first]), float(epsilon[last])
        minimize_scalar(
            self._try, bounds=(low, high), method="bounded", options={"xatol": 1e-7 * (high - low)}
        )
        return self.best

    def _descend(self, epsilon: Floats, start: int, direction: int) -> int:
        """The first point, in strides that double, where the bound no longer falls: one end of a bracket."""
        here, value, stride = start, self._try(float(epsilon[start])), 2
        while 0 <= (there := here + direction * stride) < len(epsilon):
            bound = self._try(float(epsilon[there]))
            if bound > value:
                return there
            here, value, stride = there, bound, 2 * stride
        return 0 if direction < 0 else len(epsilon) - 1


def azuma(t: float, steps: Iterable[float]) -> float:
    """How likely it is, at most, that a martingale with increments of at most ``steps`` in size rises by
    ``t``.

    Guarantee: P(Σ X_i ≥ t) ≤ exp(−t² / (2 Σ a_i²)) where |X_i| ≤ a_i and E[X_i | past] ≤ 0; one-sided.
    Assumes: the sizes a_i are fixed in advance (not checkable).
    Reference: L5 theorem 1 with per-step bounds (Azuma 1967; Hoeffding 1963).

    >>> round(azuma(3.0, [1.0, 1.0, 1.0, 1.0]), 6)
    0.324652
    """
    t = checks.real(t, "t", "[0, inf)", of="azuma", by=_AZUMA)
    return _gaussian_tail(t, checks.reals(steps, "steps", "[0, inf)", of="azuma", by=_AZUMA))


def azuma_intervals(t: float, lengths: Iterable[float]) -> float:
    """Azuma–Hoeffding where the i-th increment, given the past, lies in an interval of ``lengths[i]``.

    Guarantee: P(Σ X_i ≥ t) ≤ exp(−2t² / Σ c_i²) where E[X_i | past] ≤ 0; the interval may depend on the past,
        its length may not. With c_i = 2a_i it is :func:`azuma`.
    Assumes: the lengths are fixed in advance (not checkable).
    Reference: L5 theorem 1 with Hoeffding's lemma for intervals (McDiarmid 1989).

    Args:
        t: How far above its start.

    >>> round(azuma_intervals(3.0, [1.0, 1.0, 1.0, 1.0]), 6)
    0.011109
    """
    t = checks.real(t, "t", "[0, inf)", of="azuma_intervals", by=_AZUMA)
    lengths = checks.reals(lengths, "lengths", "[0, inf)", of="azuma_intervals", by=_AZUMA)
    return _gaussian_tail(t, [length / 2.0 for length in lengths])


def azuma_with_drift(total: float, k: int, bound: float, drift: float = 0.0) -> float:
    """How likely it is, at most, that k increments within ``bound``, each with conditional mean at most
    ``drift``, sum to ``total`` or more.

    Guarantee: P(Σ X_i ≥ kμ + z√k a) ≤ e^{−z²/2}, here solved for z; 1 where the total does not exceed the
        drift. For independent increments this is Hoeffding's bound (L5 theorem 0).
    Assumes: |X_i| ≤ a and E[X_i | past] ≤ μ (not checkable).
    Reference: L5 theorems 0 and 1.

    Args:
        k: How many increments are summed.

    >>> round(azuma_with_drift(30.0, k=100, bound=1.0, drift=0.1), 6)
    0.135335
    """
    name = "azuma_with_drift"
    total = checks.real(total, "total", "(-inf, inf)", of=name, by=_AZUMA)
    k = checks.whole(k, "k", of=name, by=_AZUMA)
    bound = checks.real(bound, "bound", "(0, inf)", of=name, by=_AZUMA)
    drift = checks.real(drift, "drift", "(-inf, inf)", of=name, by=_AZUMA)
    if not -bound <= drift:
        raise InvalidArgument("drift", f"at least -bound = {-bound}", drift, of=name, reference=_AZUMA)
    excess = rounding.down(total - k * drift)
    return _gaussian_tail(max(0.0, excess), [math.sqrt(k) * bound])


def hoeffding_lemma(rate: float, low: float, high: float, mean: float, *, known: str = "exactly") -> float:
    """An upper bound on ln E exp(rate · X), for X in [low, high]: rate · mean + rate² (high − low)² / 8.

    Guarantee: an upper bound on ln E exp(λX). ``known="exactly"``: E X = mean, every λ. ``known="above"``:
        only E X ≤ mean is known, and then λ must not be negative.
    Assumes: P(low ≤ X ≤ high) = 1 (not checkable).
    Reference: L5 theorem 2, which prints E X ≤ μ for every real λ; X = −1 with μ = 1, λ = −1 breaks it.

    Args:
        rate: λ, any number; with ``known="above"`` not negative.
        low: The least value of X.
        high: The largest value of X.

    >>> round(hoeffding_lemma(2.0, -1.0, 1.0, 0.0), 6)
    2.0
    """
    name = "hoeffding_lemma"
    source = "Hoeffding's lemma, L5 theorem 2"
    checks.choice(known, "known", ("exactly", "above"), of=name)
    rate = checks.real(rate, "rate", "(-inf, inf)" if known == "exactly" else "[0, inf)", of=name, by=source)
    low = checks.real(low, "low", "(-inf, inf)", of=name, by=source)
    high = checks.real(high, "high", "(-inf, inf)", of=name, by=source)
    mean = checks.real(mean, "mean", "(-inf, inf)", of=name, by=source)
    if not low <= high:
        raise InvalidArgument("high", f"at least low = {low}", high, of=name, reference=source)
    if not (low <= mean and (mean <= high or known == "above")):
        raise InvalidArgument("mean", f"in [{low}, {high}]", mean, of=name, reference=source)
    spread = rate * (high - low)
    return rounding.up(rate * min(mean, high) + spread * spread / 8.0)


def expected_loss(epsilon: float, *, method: BoundForm = "sharp") -> float:
    """The mean privacy loss of one purely ``epsilon``-private step.

    Guarantee: E[ln(P(Y)/Q(Y))] ≤ ε tanh(ε/2) (``sharp``, attained by randomised response) ≤ 2ε² (``paper``).
    Assumes: the step is ε-private (not checkable).
    Reference: L5 claim 4; sharp: the loss lies in [−ε, ε] with E e^-loss = 1, extreme at the two ends.

    Args:
        method: "sharp" for the best constants, "paper" for those printed.

    >>> round(expected_loss(0.1), 9), round(expected_loss(0.1, method="paper"), 9)
    (0.004995837, 0.02)
    """
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of="expected_loss", by="L5 claim 4")
    method = checks.choice(method, "method", ("sharp", "paper"), of="expected_loss")
    return rounding.up(epsilon * math.tanh(epsilon / 2.0) if method == "sharp" else 2.0 * epsilon * epsilon)


def polya_variance(red: int, blue: int, draws: int) -> float:
    """The variance of the number of red draws from a Pólya urn, which gains a ball of each drawn colour.

    Guarantee: Var S_k = pq k(N + k)/(N + 1), N = red + blue, p = red/N, q = blue/N; exact, not a bound.
    Assumes: nothing else.
    Reference: the moments of the beta-binomial law. L5 remarks that S_k stays within √k + k/N of its mean;
        the standard deviation is of the order √(k + k²/N), which is larger once k exceeds N.

    Args:
        red: How many red balls there are at first.
        blue: How many blue balls there are at first.
        draws: How many balls are drawn.

    >>> polya_variance(1, 1, 10)
    10.0
    """
    red, blue, draws = _urn(red, blue, draws, of="polya_variance")
    balls = red + blue
    variance: float = red * blue * draws * (balls + draws) / (balls * balls * (balls + 1))
    return variance


def polya_lengths(red: int, blue: int, draws: int) -> list[float]:
    """The lengths (N + k)/(N + ℓ), ℓ = 1..k, of the increments of F_ℓ = E[red draws of k | the first ℓ].

    Guarantee: given the past, F_ℓ takes two values this far apart; exact.
    Assumes: nothing else.
    Reference: L5, the urn without k ≪ N; there each increment is bounded by 2 + k/N in size.

    Args:
        red: How many red balls there are at first.
        blue: How many blue balls there are at first.
        draws: How many balls are drawn.

    >>> polya_lengths(1, 1, 2)
    [1.3333333333333333, 1.0]
    """
    red, blue, draws = _urn(red, blue, draws, of="polya_lengths")
    balls = red + blue
    return [(balls + draws) / (balls + step) for step in range(1, draws + 1)]


def polya_tail(t: float, red: int, blue: int, draws: int) -> float:
    """The chance that a Pólya urn shows ``t`` or more red draws above the mean: Azuma on its own martingale.

    Guarantee: P(S_k − kp ≥ t) ≤ exp(−2t² / Σ ((N+k)/(N+ℓ))²).
    Assumes: nothing else.
    Reference: L5, the urn, with a length for every step instead of the largest for all.

    Args:
        red: How many red balls there are at first.
        blue: How many blue balls there are at first.
        draws: How many balls are drawn.

    >>> round(polya_tail(20.0, 50, 50, 100), 6)
    0.017772
    """
    return azuma_intervals(t, polya_lengths(red, blue, draws))


def _urn(red: Any, blue: Any, draws: Any, *, of: str) -> tuple[int, int, int]:
    return (
        checks.whole(red, "red", of=of),
        checks.whole(blue, "blue", of=of),
        checks.whole(draws, "draws", of=of),
    )


def _gaussian_tail(t: float, steps: list[float]) -> float:
    """exp(−t²/(2 Σ a²)); increments that cannot move make any t > 0 impossible."""
    if t == 0.0:
        return 1.0
    width = math.hypot(*steps)
    if width == 0.0:
        return 0.0
    score = min(t / width, 1e150) if math.isfinite(width) else 0.0
    return rounding.probability(from_log(-0.5 * score * score))
