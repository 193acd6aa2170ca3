"""The methods that add noise calibrated to concentration: valid for any dependence with a tail."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from holdfast import rounding
from holdfast.guard._noise import typical_noise, typical_plan
from holdfast.planning._method import CUSTOM, FILTERED, MEANS, Method, Promise, Setting
from holdfast.planning._printed import PrintedError, printed_laplace_error
from holdfast.records import Record
from holdfast.tails import SubGaussian, Tail

_UNIT = SubGaussian(1.0)


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


def _typical(kind: str, setting: Setting, rows: int, queries: int) -> Promise:
    """The least certified error, as the guard keeps it."""
    tail = setting.tail(rows)
    plan = typical_plan(kind, tail, queries, setting.beta)
    noise = typical_noise(plan, tail)
    # A statistic of unbounded rows is not scaled to integers.
    error = noise.promise(plan.error) if setting.bounded else max(noise.error, plan.error)
    return Promise(error, parameters_of(plan))


class TypicalGaussian(Method):
    """Gaussian noise on every answer (TS Algorithm 3, theory 2.1)."""

    name = "typical-gaussian"
    answers = (MEANS, FILTERED, CUSTOM)
    noisy = True
    own_assumptions = ("Fresh Gaussian noise on every answer; the number of questions is fixed.",)
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> Promise:
        """The least certified error, with its radius, noise and split of β."""
        return _typical("gaussian", self.setting, rows, queries)


class TypicalLaplace(Method):
    """Laplace noise on every answer (TS Algorithm 2; TS Theorem 6.1 with explicit constants, theory 2.1)."""

    name = "typical-laplace"
    answers = (MEANS, FILTERED, CUSTOM)
    noisy = True
    own_assumptions = ("Fresh Laplace noise on every answer; the number of questions is fixed.",)
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> Promise:
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

    def at(self, rows: int, queries: int) -> Promise:
        """The least error that the printed theorems certify."""
        tail, beta = self.setting.tail(rows), self.setting.beta
        if self.setting.normal_like:
            found = _scaled_printed(_unit_printed(queries, beta), tail)
        else:
            found = printed_laplace_error(tail, queries, beta)
        return Promise(found.error, parameters_of(found))
