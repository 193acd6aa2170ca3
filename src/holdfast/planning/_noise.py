"""The methods that add noise calibrated to concentration: valid for any dependence with a tail."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

from holdfast import rounding
from holdfast.planning._method import Method, Promise
from holdfast.planning._printed import PrintedError, printed_laplace_error
from holdfast.records import Record
from holdfast.stability import TypicalError, typical_gaussian_error, typical_laplace_error
from holdfast.tails import SubGaussian, Tail

_UNIT = SubGaussian(1.0)


def parameters_of(record: Record) -> dict[str, Any]:
    """The numbers of a record that are there, without the error, which the entry shows itself."""
    return {name: value for name, value in record.to_dict().items() if value is not None and name != "error"}


@lru_cache(maxsize=512)
def _unit_gaussian(k: int, beta: float) -> TypicalError:
    return typical_gaussian_error(_UNIT, k, beta)


@lru_cache(maxsize=512)
def _unit_laplace(k: int, beta: float) -> TypicalError:
    return typical_laplace_error(_UNIT, k, beta)


def _scaled(unit: TypicalError, tail: Tail) -> TypicalError:
    """The same promise for another tail: only the ratio of noise to radius enters it."""
    radius = tail.radius_at(-unit.log_nu)
    scale = rounding.up(unit.scale / unit.radius * radius)
    noise = rounding.up(unit.noise / unit.radius * radius)
    return replace(unit, error=rounding.up(radius + noise), radius=radius, scale=scale, noise=noise)


@lru_cache(maxsize=512)
def _unit_printed(k: int, beta: float) -> PrintedError:
    return printed_laplace_error(_UNIT, k, beta)


def _scaled_printed(unit: PrintedError, tail: Tail) -> PrintedError:
    """The printed promise for another tail, with the same stability of every step."""
    radius = tail.radius(2.0 * unit.nu_total)
    scale = rounding.up(tail.radius(unit.nu) / unit.eta)
    noise = rounding.up(scale * math.log(unit.k / unit.b1))
    return replace(unit, error=rounding.up(radius + noise), radius=radius, scale=scale, noise=noise)


class TypicalGaussian(Method):
    """Gaussian noise on every answer (TS Algorithm 3, theory 2.1)."""

    name = "typical-gaussian"
    own_assumptions = ("Fresh Gaussian noise on every answer; the number of questions is fixed.",)
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> Promise:
        """The least certified error, with its radius, noise and split of β."""
        tail, beta = self.setting.tail(rows), self.setting.beta
        if self.setting.normal_like:
            found = _scaled(_unit_gaussian(queries, beta), tail)
        else:
            found = typical_gaussian_error(tail, queries, beta)
        return Promise(found.error, parameters_of(found))


class TypicalLaplace(Method):
    """Laplace noise on every answer (TS Algorithm 2; TS Theorem 6.1 with explicit constants, theory 2.1)."""

    name = "typical-laplace"
    own_assumptions = ("Fresh Laplace noise on every answer; the number of questions is fixed.",)
    tolerance = 1e-3

    def at(self, rows: int, queries: int) -> Promise:
        """The least certified error, with its radius, noise and split of β."""
        tail, beta = self.setting.tail(rows), self.setting.beta
        if self.setting.normal_like:
            found = _scaled(_unit_laplace(queries, beta), tail)
        else:
            found = typical_laplace_error(tail, queries, beta)
        return Promise(found.error, parameters_of(found))

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
