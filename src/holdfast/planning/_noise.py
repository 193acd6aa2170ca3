"""Methods that add noise calibrated to concentration, valid for any dependence with a tail; and the methods
without noise or prices: splitting the rows, and pretending that nothing was adaptive.

The printed route to TS Theorem 6.1 (composition by TS 4.2, transfer by TS 3.4, noise by TS 5.2) is kept
beside the sharp result so that the gain is visible. Two printed errors are corrected: Theorem 3.4 is proved
for the two-sample form, so the composed oracle form is converted first; and its conditions η < 1 and ν < 1/10
are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from holdfast import rounding, search
from holdfast.planning._method import (
    CUSTOM,
    FILTERED,
    KINDS,
    MEANS,
    QUANTILES,
    CertifiedError,
    Method,
    Setting,
)
from holdfast.records import Record
from holdfast.stability import split_error
from holdfast.strategies import promised_with, typical_noise, typical_plan
from holdfast.tails import SubGaussian, Tail

_UNIT = SubGaussian(1.0)
_SAFE = 1e-9  # relative, so that the printed formulas, evaluated step by step, stay within the budget


def parameters_of(record: Record) -> dict[str, Any]:
    """The numbers of a record that are there, without the error, which the entry shows itself."""
    return {name: value for name, value in record.to_dict().items() if value is not None and name != "error"}


@lru_cache(maxsize=512)
def _unit_printed(k: int, beta: float) -> PrintedError:
    return printed_laplace_error(_UNIT, k, beta)


def _scaled_printed(unit: PrintedError, tail: Tail) -> PrintedError:
    """The printed promise for another tail, with the same stability of every step."""
    radius = tail.radius(2.0 * unit.nu_total)
    scale = rounding.up(tail.radius(unit.nu) / unit.eta)
    noise = rounding.up(scale * math.log(unit.k / unit.b1))
    return replace(unit, error=rounding.up(radius + noise), radius=radius, scale=scale, noise=noise)


def _typical(kind: str, setting: Setting, rows: int, queries: int) -> CertifiedError:
    """The least certified error, as the guard keeps it."""
    tail = setting.tail(rows)
    plan = typical_plan(kind, tail, queries, setting.beta)
    noise = typical_noise(plan, tail)
    # A statistic of unbounded rows is not scaled to integers.
    error = noise.promise(plan.error) if setting.bounded else max(noise.error, plan.error)
    return CertifiedError(error, parameters_of(plan))


class TypicalGaussian(Method):
    """Gaussian noise on every answer (TS Algorithm 3; ``docs/theory/adaptive-validity.md``)."""

    name = "typical-gaussian"
    answers = (MEANS, FILTERED, CUSTOM)
    noisy = True
    own_assumptions = ("Fresh Gaussian noise on every answer; the number of questions is fixed.",)
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The least certified error, with its radius, noise and split of β."""
        return _typical("gaussian", self.setting, rows, queries)


class TypicalLaplace(Method):
    """Laplace noise on every answer (TS Algorithm 2; TS Theorem 6.1 with explicit constants)."""

    name = "typical-laplace"
    answers = (MEANS, FILTERED, CUSTOM)
    noisy = True
    own_assumptions = ("Fresh Laplace noise on every answer; the number of questions is fixed.",)
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The least certified error, with its radius, noise and split of β."""
        return _typical("laplace", self.setting, rows, queries)

    def printed(self) -> Method:
        """TS 4.2, 3.4 and 5.2 one after the other."""
        return PrintedLaplace(self.setting)


class PrintedLaplace(Method):
    """TS Theorem 6.1 by the printed theorems."""

    name = "typical-laplace (TS 4.2, 3.4, 5.2)"
    own_assumptions = TypicalLaplace.own_assumptions
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The least error that the printed theorems certify."""
        tail, beta = self.setting.tail(rows), self.setting.beta
        if self.setting.normal_like:
            printed = _scaled_printed(_unit_printed(queries, beta), tail)
        else:
            printed = printed_laplace_error(tail, queries, beta)
        return CertifiedError(printed.error, parameters_of(printed))


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

    Guarantee: with probability 1 − ``beta`` all k answers are within ``error``. Somebody who knows the
    distribution can pick the worst answer from the transcript, so Theorem 3.4 is needed once and not k times.
    Assumes: as for ``typical_laplace_error``.
    Reference: TS Theorems 4.2 (k = 1: Lemma 4.5), 3.4, 5.1, 5.2 and 6.1.
    """

    def at_odds(odds: float) -> PrintedError:
        return _at(tail, k, beta, 1.0 / (1.0 + math.exp(-odds)))

    odds, _ = search.least_of_valley(lambda odds: at_odds(odds).error, -10.0, 10.0, sections=40)
    return at_odds(odds)


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


class SplitMethod(Method):
    """Fresh rows for every question: n // k of them, Hoeffding at β/k (``docs/theory/transfer.md``,
    "Splitting")."""

    name = "split"
    own_assumptions = ("Every question gets rows of its own.",)
    answers = (MEANS, FILTERED, QUANTILES)

    def reason(self) -> str:
        """Parts of dependent rows are not independent of one another."""
        if self.setting.independent:
            return ""
        return "Parts of dependent rows are not independent of one another."

    def at(self, rows: int, queries: int) -> CertifiedError:
        """√(ln(2k/β)/(2⌊n/k⌋)), and what scaling values to integers adds."""
        if not self.setting.bounded:
            return CertifiedError(math.inf, {})
        error = rounding.probability(promised_with(split_error(rows, queries, self.setting.beta)))
        return CertifiedError(
            error, {"k": queries, "beta": self.setting.beta, "rows_per_query": rows // queries}
        )

    def rows_for(self, error: float, queries: int) -> int | None:
        """k times the rows that one question needs."""
        room = error - promised_with(0.0)
        if not room > 0.0:
            return None
        nats = math.log(2.0 * queries) - math.log(self.setting.beta)
        rows_each = max(1, math.floor(nats / (2.0 * room * room)))
        # Rounding can make it a little too small, and never by half.
        rows_each = search.whole_edge(
            lambda rows_each: self.at(rows_each * queries, queries).error <= error,
            2 * rows_each + 1,
            rows_each - 1,
            guess=rows_each,
        )
        return rows_each * queries


class Naive(Method):
    """The radius of a question fixed in advance, at β/k: what reuse is often believed to give."""

    name = "naive"
    own_assumptions = ("All questions were chosen before any answer was seen.",)
    answers = KINDS

    def reason(self) -> str:
        """Never valid for adaptive questions."""
        return "Holds only for questions that were all chosen beforehand."

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The tail's radius at β/k."""
        nats = rounding.up(math.log(queries) - math.log(self.setting.beta))
        return CertifiedError(self.setting.tail(rows).radius_at(nats), {"k": queries, "log_nu": -nats})
