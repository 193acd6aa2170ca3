"""Exact privacy profiles of named noise: the δ of k adaptive answers that each move by ``ratio`` widths.

**Gaussian.** The profile is a difference of two normal tails that agree to many digits where it matters. It
is computed as φ(u)·(R(u) − R(v)) with R the Mills ratio. Where the difference would cancel, it is the
integral of −R' > 0.

**Laplace.** ln δ for any k, ratio and ε, with a bound on every numerical error. With X = min(max(x, 0), r)
for x ~ Lap(1), the privacy loss of one answer is r − 2X; with y = (kr − ε)/2

    δ(ε) = E[(1 − exp(−2(y − X_1 − … − X_k)))_+] = (1/2πi) ∫ exp(wy) g(w)^k 2/(w(w+2)) dw,   Re w = c > 0,
    g(w) = E exp(−wX) = 1 − ½(1 − exp(−r(1+w))) w/(1+w).

The integral is taken by the trapezoidal rule through the saddle point, so the relative accuracy is the same
at δ = 0.1 and at δ = 1e-300. Its two errors have closed bounds (Chernoff for the aliases, |g| for the
truncation), which are added to the result. X has atoms at 0 and r, so g does not vanish at high frequency.
Where that would make the integral long, the part of g^k with at most two answers strictly between the atoms
is taken out and added in closed form. X is 0 with probability ½, r with probability e^-r/2, and otherwise has
density e^-x/2 on (0, r). With j such jumps among k steps, let ψ_j(t) = ∫ over (0, r)^j of e^-Σx (1 −
exp(−2(t − Σx)))_+ dx. Then δ is the mean of ψ_j(t) over the number of the other steps at r, which is
binomial.

Why not a discretised loss distribution: the FFT of dp_accounting 0.6 has an absolute error near 1e-12 (ratio
0.01, k = 10⁴, ε = 9 comes out as 5.7e-13 on one grid and as −5.9e-13 on another, where δ = 8.0e-19). It takes
0.15 s, and its relative error of some 1e-7 moves with the grid, so neighbouring arguments can come out in the
wrong order. The integral takes 2 ms and is exact to 1e-8 at every δ. The tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import scipy

from holdfast import checks, rounding
from holdfast.records import Record
from holdfast.stability._composition import Floats, from_log, log_composed_delta_pure, lower_window

_Floats = npt.NDArray[np.float64]

# Beyond this the profile is 0 or 1 in any float format, and its square still is a float.
_FAR = 1e150

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_Complexes = npt.NDArray[np.complex128]

# The largest number of answers for which rounding, which grows like k·4e-16, stays below 1e-5.
MOST = 10**10

# Aliasing and truncation are each kept below e^-22 = 3e-10 of the saddle-point estimate of δ.
_TARGET = 22.0
# Below this, ln(1 − δ) says that δ is 1 in floats.
_CERTAIN = -37.5
# In floats, an answer that moves by more scales than this gives the same result as infinitely many.
_HUGE = 1e100
# Up to this many nodes the integral costs less than the closed form that would shorten it.
_SHORT = 2000
_BLOCK = 1 << 17
_FINE = np.linspace(0.0, 1.0, 32)


@dataclass(frozen=True, repr=False)
class Gaussian(Record):
    """Gaussian noise on every answer; ``ratio`` is how far an answer may move, in standard deviations."""

    ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", checks.real(self.ratio, "ratio", "[0, inf)", of="Gaussian"))


@dataclass(frozen=True, repr=False)
class Laplace(Record):
    """Laplace noise on every answer; ``ratio`` is how far an answer may move, in scales."""

    ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", checks.real(self.ratio, "ratio", "[0, inf)", of="Laplace"))


def gaussian_delta(epsilon: float, ratio: float, k: int = 1) -> float:
    """The exact δ at ``epsilon`` of k adaptive Gaussian answers with shift/sd = ``ratio``.

    Guarantee: δ = Φ(a/2 − ε/a) − e^ε Φ(−a/2 − ε/a), a = ratio·√k, for adaptively chosen shifts of at most
        ``ratio``; relative error below 1e-11 down to 1e-300, rounded up.
    Assumes: fresh independent Gaussian noise on every answer (not checkable).
    Reference: Balle and Wang 2018, theorem 8; Dong, Roth and Su 2022, corollary 3.3 (composition).

    >>> round(gaussian_delta(1.0, 1.0), 9)
    0.126936738
    """
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of="gaussian_delta")
    ratio = checks.real(ratio, "ratio", "[0, inf)", of="gaussian_delta")
    k = checks.whole(k, "k", of="gaussian_delta")
    if ratio == 0.0:
        return 0.0
    # ε/a − a/2 in exact arithmetic up to the last division: at large ratios only the difference counts.
    total = min(ratio * math.sqrt(k), _FAR)
    near = (Fraction(epsilon) - k * Fraction(ratio) ** 2 / 2) / Fraction(total)
    bounded = float(max(-Fraction(_FAR), min(near, Fraction(_FAR))))
    log_delta = float(_log_tail_difference(np.array([bounded]), np.array([total]))[0])
    return rounding.probability(from_log(min(0.0, log_delta + 1e-12 + 2e-15 * abs(min(log_delta, 0.0)))))


def laplace_delta(epsilon: float, ratio: float, k: int = 1) -> float:
    """The δ at ``epsilon`` of k adaptive Laplace answers with shift/scale = ``ratio``.

    Guarantee: an upper bound on the hockey-stick divergence of k-fold (Lap, Lap + ratio), within a relative
        1e-7 for k up to 10⁸, however small it is; exactly zero where ε ≥ k·ratio.
    Assumes: fresh independent Laplace noise on every answer (not checkable).
    Reference: the privacy-loss distribution of Laplace noise, inverted by contour integration
        (``docs/theory``).

    >>> round(laplace_delta(9.0, 0.01, 10_000), 21)
    8.02e-19
    """
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of="laplace_delta")
    ratio = checks.real(ratio, "ratio", "[0, inf)", of="laplace_delta")
    k = checks.whole(k, "k", at_most=MOST, of="laplace_delta")
    if ratio == 0.0:
        return 0.0
    return rounding.probability(from_log(log_delta(k, ratio, epsilon)))


def log_gaussian_delta(epsilon: _Floats, ratio: _Floats) -> _Floats:
    """ln δ of one Gaussian answer, elementwise; ``ratio`` > 0."""
    return _log_tail_difference(epsilon / ratio - ratio / 2.0, ratio)


def _log_tail_difference(near: _Floats, ratio: _Floats) -> _Floats:
    """ln(Φ(−near) − e^ε Φ(−near − ratio)), where e^ε is what makes both densities equal there."""
    near = np.minimum(near, _FAR)
    inner = np.maximum(near, -8.0)
    narrow = ratio < 0.1 * (1.0 + np.abs(inner))
    width = np.where(narrow, ratio, 0.0)
    points = inner[..., None] + 0.5 * width[..., None] * (1.0 + _NODES)
    together = np.log(0.5 * (_mills_descent(points) @ _WEIGHTS)) + np.log(ratio)
    apart = np.log(np.where(narrow, 1.0, _mills(inner) - _mills(inner + ratio)))
    log_value = np.where(narrow, together, apart) - 0.5 * inner * inner - 0.5 * math.log(2.0 * math.pi)
    # Below -8 the second tail is under 1e-14, and the first alone is an upper bound.
    return np.where(near < -8.0, scipy.special.log_ndtr(-near), log_value)


def _mills(x: _Floats) -> _Floats:
    """(1 − Φ(x))/φ(x)."""
    result: _Floats = math.sqrt(math.pi / 2.0) * scipy.special.erfcx(x / math.sqrt(2.0))
    return result


def _mills_descent(x: _Floats) -> _Floats:
    """−R'(x) = 1 − x R(x) > 0; for large x as c R, with R(x) = 1/(x + c(x)) as a continued fraction."""
    large = np.maximum(x, 5.0)
    fraction = large
    for depth in range(60, 1, -1):
        fraction = large + depth / fraction
    return np.where(x < 5.0, 1.0 - x * _mills(x), _mills(large) / fraction)


def log_delta(k: int, ratio: float, epsilon: float) -> float:
    """An upper bound on ln δ(ε) of k-fold (Lap, Lap + ratio), within 1e-7; −inf from k·ratio on."""
    room = k * Fraction(ratio) - Fraction(epsilon)
    if room <= 0:
        return -math.inf
    if k == 1:
        return min(0.0, math.log(max(-math.expm1(-float(min(room / 2, Fraction(_HUGE)))), 5e-324)) + 1e-15)
    # Randomised response is an upper bound too, by a factor of about 1 + k·ratio where that is near 1.
    randomised = log_composed_delta_pure(ratio, k, epsilon)
    if k * ratio < 1e-10:
        return randomised
    y = float(min(room / 2, Fraction(_HUGE)))
    if _log_complement(k, ratio, y) < _CERTAIN:
        return 0.0
    if k == 2:
        return min(randomised, log_few_jumps(k, ratio, room / 2) + 1e-12)
    return min(randomised, _Contour(k, min(ratio, _HUGE), y, epsilon).log_delta(room / 2))


def sketch(k: int, ratio: float) -> tuple[Floats, Floats]:
    """The saddle-point approximation (ε, ln δ) over [0, k·ratio), ε ascending: where to look, not a bound."""
    ratio = min(ratio, _HUGE)
    c = np.logspace(-math.log10(k * ratio), math.log10(1e3 * k * (1.0 + 1.0 / ratio)), 400)
    y = -_moment_slope(k, ratio, c) + 1.0 / c + 1.0 / (c + 2.0)
    curvature = -np.gradient(y, c)
    log_value = c * y + _log_moment(k, ratio, c) + _log_kernel(c) - 0.5 * np.log(2.0 * math.pi * curvature)
    epsilon = k * ratio - 2.0 * y
    inside = epsilon >= 0.0
    return epsilon[inside], np.minimum(log_value[inside], 0.0)


def _log_moment(k: int, ratio: float, w: Floats) -> Floats:
    """k ln g(w) for real w ≥ −2; exprel keeps it smooth at w = −1."""
    bounded = min(ratio, _HUGE)
    result: Floats = k * np.log1p(-0.5 * bounded * w * scipy.special.exprel(-bounded * (1.0 + w)))
    return result


def _moment_slope(k: int, ratio: float, w: Floats) -> Floats:
    """The derivative of k ln g(w), w > 0."""
    lost = -np.expm1(-ratio * (1.0 + w))
    descent = 0.5 * (lost / (1.0 + w) + ratio * np.exp(-ratio * (1.0 + w)) * w) / (1.0 + w)
    return -k * descent / (1.0 - 0.5 * lost * w / (1.0 + w))


def _log_kernel(w: Floats) -> Floats:
    return math.log(2.0) - np.log(w) - np.log(w + 2.0)


def _log_complement(k: int, ratio: float, y: float) -> float:
    """An upper bound on ln(1 − δ): min(1, exp(−2(y − S))) ≤ exp(−b(y − S)) for 0 ≤ b ≤ 2."""
    b = 2.0 * np.linspace(1.0, 0.0, 64, endpoint=False) ** 2
    return float(np.min(_log_moment(k, ratio, -b) - b * y))


class _Contour:
    """The trapezoidal rule through the saddle point of exp(wy) g(w)^k 2/(w(w+2)), with its error bounds."""

    def __init__(self, k: int, ratio: float, y: float, epsilon: float) -> None:
        self.k, self.ratio, self.y, self.epsilon = k, ratio, y, epsilon
        self.c = _root(self._slope, 1.0 / y)
        point = np.array(self.c)
        self.log_moment = float(_log_moment(k, ratio, point))
        self.log_height = self.c * y + self.log_moment
        below, above = self._slope(self.c * np.array([0.9999, 1.0001]))
        curvature = (above - below) / (0.0002 * self.c)
        estimate = self.log_height + float(_log_kernel(point)) - 0.5 * math.log(2.0 * math.pi * curvature)
        self.log_estimate = min(0.0, estimate)

    def _slope(self, c: Floats) -> Floats:
        """The derivative of the logarithm of the integrand along the real line, increasing in c."""
        return self.y + _moment_slope(self.k, self.ratio, c) - 1.0 / c - 1.0 / (c + 2.0)

    def _period(self) -> float:
        """The rule sums F(y + nP) e^-cnP, where F = δ ≤ e^ty g(t)^k: other tilts t bound all but n = 0."""
        spare = _TARGET - self.log_estimate
        lower = self.c * np.linspace(0.0, 1.0, 100, endpoint=False)
        upward = (_log_moment(self.k, self.ratio, lower) + lower * self.y + spare) / (self.c - lower)
        higher = self.c * (1.0 + np.logspace(-2.0, 3.0, 100))
        downward = (_log_moment(self.k, self.ratio, higher) + higher * self.y + spare) / (higher - self.c)
        # F vanishes below zero, so a period of y needs no bound downwards.
        return max(float(np.min(upward)), min(float(np.min(downward)), self.y))

    def _cutoff(self, jumps: int) -> float:
        """The frequency f beyond which the integrand, less terms of fewer ``jumps``, integrates to nothing.

        There |atoms| ≤ A and |rest| ≤ A/f with A = ½(1 + exp(−r(1+c))), so the integral is at most
        (2/π) exp(cy) C(k, j) A^k (1 + 1/f)^{k−j} / ((j+1) f^{j+1}).
        """
        atoms = math.log(0.5) + math.log1p(math.exp(-self.ratio * (1.0 + self.c)))
        constant = (
            self.c * self.y
            + math.log(2.0 * math.comb(self.k, jumps) / (math.pi * (jumps + 1)))
            + self.k * atoms
        )

        def shortfall(frequency: Floats) -> Floats:
            spread = (self.k - jumps) * np.log1p(1.0 / frequency)
            result: Floats = self.log_estimate - _TARGET - constant - spread + (jumps + 1) * np.log(frequency)
            return result

        return _root(shortfall, 1.0)

    def log_delta(self, y: Fraction) -> float:
        spacing = 2.0 * math.pi / self._period()
        jumps, cutoff = 0, self._cutoff(0)
        if cutoff > _SHORT * spacing:
            jumps, cutoff = min((jumps, cutoff), (3, self._cutoff(3)), key=lambda choice: choice[1])
        count = math.ceil(cutoff / spacing) + 1
        total = size = 0.0
        for start in range(0, count, _BLOCK):
            steps = np.arange(start, min(start + _BLOCK, count), dtype=np.float64)
            frequency = spacing * steps
            values = self._integrand(frequency[self._matters(frequency)], jumps)
            if start == 0:
                values[0] *= 0.5
            total += float(np.sum(values.real))
            size += float(np.sum(np.abs(values)))
        neglected = 3.0 * math.exp(self.log_estimate - _TARGET - self.log_height)
        rounding = (1e-14 + 4e-16 * self.k) * size
        integral = (total + rounding) * spacing / math.pi + neglected
        log_integral = self.log_height + math.log(integral) if integral > 0.0 else -math.inf
        if not jumps:
            return log_integral
        return float(np.logaddexp(log_integral, log_few_jumps(self.k, self.ratio, y) + 1e-12))

    def _matters(self, frequency: Floats) -> npt.NDArray[np.bool_]:
        """Where |g|^k, or a part of it, can exceed e^-40 of what is neglected: near multiples of 2π/ratio."""
        lasting = math.exp(-self.ratio * (1.0 + self.c))
        atoms = np.sqrt(np.maximum(1.0 + lasting**2 + 2.0 * lasting * np.cos(self.ratio * frequency), 0.0))
        rest = (1.0 + lasting) / np.hypot(frequency, 1.0 + self.c)
        floor = self.log_moment + self.log_estimate - self.log_height - _TARGET - 40.0
        matters: npt.NDArray[np.bool_] = self.k * np.log(0.5 * (atoms + rest)) > floor
        matters[0] |= frequency[0] == 0.0
        return matters

    def _integrand(self, frequency: Floats, jumps: int) -> _Complexes:
        w = self.c + 1j * frequency
        lost = -np.expm1(-self.ratio * (1.0 + w))
        atoms = -0.5 * lost
        rest = 0.5 * lost / (1.0 + w)
        # For small ratios the phases of exp(wy) and g^k nearly cancel: half a ratio a step moves from one to
        # the other.
        balanced = self.ratio <= 1.0
        turn = np.exp(0.5j * self.ratio * frequency) if balanced else np.ones_like(w)
        outer = 1j * frequency * (-0.5 * self.epsilon if balanced else self.y) - self.log_moment
        values = np.exp(self.k * _log_one_plus(atoms + rest, turn) + outer)
        if jumps:
            a, b = (1.0 + atoms) * turn, rest * turn
            polynomial = a * a + self.k * a * b + 0.5 * self.k * (self.k - 1.0) * b * b
            values -= np.exp((self.k - 2) * _log_one_plus(atoms, turn) + outer) * polynomial
        return np.asarray(values * 2.0 / (w * (w + 2.0)), dtype=np.complex128)


def _log_one_plus(z: _Complexes, turn: _Complexes) -> _Complexes:
    """ln((1 + z)·turn), |turn| = 1, with an accurate real part, which numpy's complex log1p does not have."""
    growth = np.maximum(2.0 * z.real + z.real**2 + z.imag**2, -1.0 + 1e-16)
    value = (1.0 + z) * turn
    angle = np.arctan2(value.imag, value.real)
    return np.asarray(0.5 * np.log1p(growth) + 1j * angle, dtype=np.complex128)


def _root(increasing: Callable[[Floats], Floats], start: float) -> float:
    """A root of an increasing function within 4^±60 of ``start``, from the side where it is not negative."""
    points: Floats = start * np.exp2(np.arange(-120.0, 121.0, 2.0))
    for _ in range(4):
        above = max(1, int(np.argmax(increasing(points) >= 0.0)))
        points = points[above - 1] * (points[above] / points[above - 1]) ** _FINE
    return float(points[-1])


def log_few_jumps(k: int, ratio: float, y: Fraction) -> float:
    """ln of the part of δ with at most two jumps, for k ≥ 2 and y > 0."""
    # Exact arithmetic, as the distance from y to the lattice of atoms may be all that is left.
    last = min(k, math.ceil(y / Fraction(ratio)) - 1)
    rest = float(y - last * Fraction(ratio))
    parts = []
    for jumps, mean in enumerate((_no_jump, _one_jump, _two_jumps)):
        steps = k - jumps
        log_scale, index, weight = lower_window(steps, min(last, steps), ratio)
        total = float(np.sum(weight * mean(rest + ratio * (last - index), ratio)))
        choices = math.log(math.comb(k, jumps)) - k * math.log(2.0)
        parts.append(
            choices + steps * math.log1p(math.exp(-ratio)) + log_scale + math.log(max(total, 1e-320))
        )
    return float(np.logaddexp.reduce(parts))


def _no_jump(space: Floats, ratio: float) -> Floats:
    return -np.expm1(-2.0 * space)


def _one_jump(space: Floats, ratio: float) -> Floats:
    beyond = math.expm1(-ratio) * np.expm1(-np.maximum(2.0 * space - ratio, 0.0))
    return np.where(space < ratio, np.expm1(-space) ** 2, beyond)


def _two_jumps(space: Floats, ratio: float) -> Floats:
    inside = _two_free(space) - 2.0 * math.exp(-ratio) * _two_free(np.maximum(space - ratio, 0.0))
    beyond = -(math.expm1(-ratio) ** 2) * np.expm1(-2.0 * np.maximum(space - ratio, 0.0))
    return np.where(space < 2.0 * ratio, inside, beyond)


def _two_free(space: Floats) -> Floats:
    """ψ_2 where r does not bind: 2 e^-t (sinh t − t), by its series where the difference cancels."""
    small = np.minimum(space, 1.0)
    series = np.zeros_like(small)
    for order in range(9, 0, -1):
        series = (1.0 + series) * small * small / (2 * order * (2 * order + 1))
    exact = -np.expm1(-2.0 * space) - 2.0 * space * np.exp(-space)
    return np.where(space < 1.0, 2.0 * np.exp(-small) * small * series, exact)
