"""The printed route to TS Theorem 6.1: composition by TS 4.2, transfer by TS 3.4, noise by TS 5.2.

It is kept beside the sharp result so that the gain is visible. Two printed slips are mended: Theorem 3.4 is
proved for the two-sample form, so the composed oracle form is converted first; and its conditions η < 1 and ν
< 1/10 are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast import rounding
from holdfast.records import Record
from holdfast.tails import Tail

_SAFE = 1e-9  # relative, so that the printed formulas, evaluated step by step, stay within the budget


@dataclass(frozen=True, repr=False)
class PrintedError(Record):
    """The error that the printed theorems certify for k answers by TS Algorithm 2.

    Every answer is (``eta``, 0, ``nu``)-typically stable with Laplace noise of ``scale`` = radius(nu)/eta;
    TS 4.2 with slack ``slack`` makes k of them (``eta_total``, ``nu_total``, ``nu_total``); a query chosen by
    them misses ``radius`` with probability ``b2`` (TS 3.4, two-sample form), the noise ``noise`` with
    probability ``b1`` (TS 5.2).
    """

    k: int
    beta: float
    error: float
    radius: float
    scale: float
    noise: float
    eta: float
    nu: float
    slack: float
    eta_total: float
    nu_total: float
    b1: float
    b2: float


def printed_laplace_error(tail: Tail, k: int, beta: float) -> PrintedError:
    """The least error that TS 4.2, 3.4 and 5.2 certify together, for checked arguments.

    Guarantee: with probability 1 − ``beta`` all k answers are within ``error``. The worst answer is read off
        the transcript by one who knows the distribution, so Theorem 3.4 is needed once and not k times.
    Assumes: as for ``typical_laplace_error``.
    Reference: TS Theorems 4.2 (k = 1: Lemma 4.5), 3.4, 5.1, 5.2 and 6.1.
    """
    best, half = 0.0, 6.0
    found = _at(tail, k, beta, 0.5)
    for _ in range(6):
        for odds in best + half * np.linspace(-1.0, 1.0, 7):
            here = _at(tail, k, beta, 1.0 / (1.0 + math.exp(-odds)))
            if here.error < found.error:
                found, best = here, float(odds)
        half *= 0.4
    return found


def _at(tail: Tail, k: int, beta: float, share: float) -> PrintedError:
    """The promise with ``share`` of ``beta`` for the noise.

    The composed η is as large as Theorem 3.4 allows, ½ before it doubles in two-sample form: the noise is
    some thousand times the radius, so that nothing else counts.
    """
    eta_total = 0.5 * (1.0 - 1e-6)
    b1 = rounding.down(beta * share)
    b2 = beta - b1
    grown = math.exp(eta_total)
    factor = 2.0 * (grown * grown + 5.0) + 1.0 + grown
    nu_total = min(b2 / factor, 0.05) * (1.0 - _SAFE)
    # Half of what the square root of Theorem 4.2 may hold goes to k·slack, half to ν(1 + Σ e^{η_t}).
    inside = (nu_total / 5.0) ** 2 / (2.0 * k) * (1.0 - _SAFE)
    budget = eta_total / 3.0
    eta = budget / math.sqrt(2.0 * k * 30.0)
    for _ in range(60):
        eta = budget / (math.sqrt(-2.0 * k * math.log(eta * inside)) + k * math.expm1(eta))
    eta *= 1.0 - _SAFE
    slack = eta * inside
    nu = slack / math.exp(budget)
    radius = tail.radius(2.0 * nu_total)
    scale = rounding.up(tail.radius(nu) / eta)
    noise = rounding.up(scale * math.log(k / b1))
    return PrintedError(
        k=k,
        beta=beta,
        error=rounding.up(radius + noise),
        radius=radius,
        scale=scale,
        noise=noise,
        eta=eta,
        nu=nu,
        slack=slack,
        eta_total=eta_total,
        nu_total=nu_total,
        b1=b1,
        b2=b2,
    )
