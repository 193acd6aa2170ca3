"""Adaptive composition of typically stable steps: the printed theorems and the sharp one.

All three return (η*, τ*, ν*) in oracle form. Everything exponential is summed in logarithms, so that k = 10⁶,
ν = 1e−300 and a slack of 1e−200 give numbers and not overflow.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast import rounding
from holdfast.errors import InvalidArgument
from holdfast.stability import _composition
from holdfast.stability._notion import exp_up, log

_OF = "TypicalStability.compose"
# The smallest positive float is exp(−745): once an exponent is this large, no positive ν can hold τ* below 1.
_HOPELESS = 3000.0
_MOST_TERMS = 4_000_000


def _expm1(value: float) -> float:
    return math.expm1(value) if value < 709.0 else math.inf


def _printed(
    width: float, drift: float, step_cost: float, divisor: float, nu: float, k: int, slack: float
) -> tuple[float, float, float]:
    """The shape both printed theorems share.

    η_j = width √(2j ln(1/slack)) + j drift, η* = 3 η_k and τ* = ν* = 5 √((k step_cost + ν + ν Σ_{t<k}
    e^{η_t}) / divisor).
    """
    spread = width * math.sqrt(-2.0 * math.log(slack))
    eta = rounding.up(3.0 * (spread * math.sqrt(k) + k * drift))
    inside = log(k) + log(step_cost)
    if nu > 0.0:
        last = spread * math.sqrt(k - 1) + (k - 1) * drift if k > 1 else 0.0
        if not last < _HOPELESS:
            return eta, 1.0, 1.0
        # Beyond so many terms, blocks of them are counted at their last and largest one: an upper bound.
        blocks = min(k - 1, _MOST_TERMS)
        ends = (
            np.arange(1.0, blocks + 1.0)
            if blocks == k - 1
            else np.ceil(np.linspace(0.0, k - 1.0, blocks + 1)[1:])
        )
        grown = (k - 1) / max(blocks, 1) * np.exp(spread * np.sqrt(ends) + ends * drift - last).sum()
        inside = np.logaddexp(inside, log(nu) + np.logaddexp(0.0, last + log(float(grown))))
    tau = exp_up(math.log(5.0), 0.5 * float(inside), -0.5 * math.log(divisor))
    return eta, tau, tau


def compose_pure(eta: float, nu: float, k: int, slack: float) -> tuple[float, float, float]:
    """TS Theorem 4.2, k steps of (η, 0, ν): the printed exponent "ηt" is read as η_t, as its Lemma 4.7 shows.

    Printed for k ≥ 2; k = 1 is the base case of its induction (Lemma 4.5).
    """
    if not eta > 0.0:
        raise InvalidArgument("eta", "a number in (0, inf)", eta, of=_OF, reference="TS Theorem 4.2")
    drift = eta * _expm1(eta) if math.isfinite(eta) else math.inf
    return _printed(eta, drift, slack, eta, nu, k, slack)


def compose_approximate(
    eta: float, tau: float, nu: float, k: int, slack: float
) -> tuple[float, float, float]:
    """TS Theorem 4.8, k steps of (η, τ, ν), for η in (0, 3/2] and τ in (0, η/50]."""
    by = "TS Theorem 4.8"
    if not 0.0 < eta <= 1.5:
        raise InvalidArgument("eta", "a number in (0, 1.5]", eta, of=_OF, reference=by)
    if not 0.0 < tau <= eta / 50.0:
        raise InvalidArgument(
            "tau", f"a number in (0, eta/50] = (0, {eta / 50.0:g}]", tau, of=_OF, reference=by
        )
    tau_hat = 2.0 * tau / -math.expm1(-eta)
    e = math.exp(eta)
    psi = tau * (2.0 * e + 1.0) + tau**2 * (
        1.0 + 2.0 * e**2 / math.expm1(eta) ** 2 * (4.0 * e**2 + 4.0 * e - 3.0 - 2.0 / e + 1.0 / e**2)
    )
    drift = 2.0 * eta * (math.expm1(2.0 * eta) + tau_hat) / (1.0 - tau_hat) + psi
    return _printed(2.0 * eta, drift, tau_hat + slack, 2.0 * eta, nu, k, slack)


def _pure_part(tau: float, k: int, share: float) -> float:
    """What ``share`` leaves for the pure part of k steps (η, τ): 1 − (1 − share)/(1 − τ)^k, rounded down."""
    spent = -k * math.log1p(-tau) if tau > 0.0 else 0.0
    offered = -math.log1p(-share)
    left = offered - spent - 4.0 * np.finfo(float).eps * (offered + spent) if spent else offered
    if not left >= 0.0:
        enough = -2.0 * math.expm1(-spent) * (1.0 + 1e-12)
        advice = (
            f"at least {enough:.6g} for k = {k}" if enough < 1.0 else f"larger than 1, so k = {k} is too many"
        )
        raise InvalidArgument(
            "slack",
            f"{advice}: half of it must cover 1 − (1 − tau)^k",
            2.0 * share,
            of=_OF,
            reference="Holdfast, sharp composition",
        )
    return share if not spent else rounding.down(-math.expm1(-left))


def compose_sharp(eta: float, tau: float, nu: float, k: int, slack: float) -> tuple[float, float, float]:
    """k ≥ 2 steps are (ε, δ_k(ε) + e^ε s, ν + (k−1)ν/s) for every ε and s; here δ_k(ε) = e^ε s = slack/2.

    So τ* = slack. δ_k is the exact composition of (η, τ): 1 − (1 − τ)^k (1 − δ of the pure part), Kairouz, Oh
    and Viswanath. The first step has no history, so its bad data are bad in both worlds and cost ν itself.
    """
    share = slack / 2.0
    epsilon = _composition.optimal_epsilon(eta, k, _pure_part(tau, k, share))
    epsilon = min(epsilon, rounding.up(k * eta))
    later = exp_up(log(k - 1), log(nu), epsilon, math.log(2.0), -math.log(slack))
    return epsilon, slack, rounding.probability(nu + later)
