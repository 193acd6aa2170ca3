"""Binomial tails in logs: exact where the probability is a comfortable float, a closed upper bound beyond."""

from __future__ import annotations

import math

from holdfast.intervals._divergence import divergence, reach

# Farther out betainc may lose digits, or return 0, to underflow inside (from about 590 nats on).
_EXACT_UP_TO = 460.0


def _slack(n: int, nats: float) -> float:
    """Nats that cover the rounding error of a log tail: measured at most a third of this up to n = 10¹⁵."""
    return 1e-9 + 1e-15 * math.sqrt(n * nats)


def _remainder(k: int) -> float:
    """A lower bound on ln(k! / √(2πk) (k/e)^k), k ≥ 1: the terms of Stirling's series enclose it."""
    return 1.0 / (12.0 * k) - 1.0 / (360.0 * k * k * k)


def _log_mass(k: int, n: int, p: float, w: float) -> float:
    """An upper bound on ln P(Bin(n, p) = k), 0 < k < n, p ≥ k/n, within 0.001 of it."""
    rest = n - k
    u, v = k / n, rest / n
    d = p - u if p <= w else v - w
    shape = 1.0 / (12.0 * n) - _remainder(k) - _remainder(rest) - 0.5 * math.log(math.tau * k * v)
    return shape - n * divergence(u, v, max(d, 0.0), w)


def _log_tail_far(k: int, n: int, p: float, w: float) -> float:
    """An upper bound on ln P(Bin(n, p) ≤ k), k < np: each term is at most r times the one above it."""
    if k == 0:
        return n * math.log1p(-p) if p <= w else n * math.log(w)
    return _log_mass(k, n, p, w) - math.log1p(-k * w / ((n - k + 1) * p))


def _log_tail_exact(k: int, n: int, p: float, w: float) -> float:
    from scipy import special

    value = float(special.betaincc(k + 1, n - k, p) if p <= w else special.betainc(n - k, k + 1, w))
    return math.log(value) if value > 0.0 else -math.inf


def log_tail(k: int, n: int, p: float, w: float, nats: float) -> float:
    """An upper bound on ln P(Bin(n, p) ≤ k), 0 ≤ k < np, w = 1 − p, for comparison with −nats.

    Exact but for rounding, which is covered, up to 460 nats; beyond that high by less than 0.002.
    """
    tail = _log_tail_exact if nats <= _EXACT_UP_TO else _log_tail_far
    return tail(k, n, p, w) + _slack(n, nats)


def upper_share(k: int, n: int, nats: float) -> tuple[float, float]:
    """The p with P(Bin(n, p) ≤ k) = exp(−nats), nats ≥ ln 2, as (p, 1 − p) on the safe side.

    Newton's method on the log tail as a function of −ln(1 − p), from the normal approximation of the signed
    root of the divergence. Inverse incomplete beta functions are not used: they return NaN for k near n and
    small probabilities, and miss by up to 3·10⁻⁶ nats on the unsafe side.
    """
    from scipy import special

    rest = n - k
    if rest == 0:
        return 1.0, 0.0
    if k == 0:
        return reach(0.0, 1.0, nats / n)
    score = float(special.ndtri_exp(-nats))
    p, w = reach((k + 0.5) / n, (rest - 0.5) / n, 0.5 * score * score / n)
    if w == 0.0:
        p, w = reach(k / n, rest / n, nats / n)
    for _ in range(64):
        if w <= 0.0:
            return 1.0, 0.0
        tail = log_tail(k, n, p, w, nats)
        slope = rest * math.exp(_log_mass(k, n, p, w) - tail)
        excess = tail + nats
        step = -w * math.expm1(-excess / slope)
        p += step
        w -= step
        if abs(excess) <= 1e-7:
            break
    return p, w
