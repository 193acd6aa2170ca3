"""Transfer for independent rows: Gaussian noise, by information or by privacy (theory 6)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special

from holdfast.guard._noise import transfer_noise
from holdfast.planning._boundary import boundary
from holdfast.planning._method import FILTERED, MEANS, MOST_QUERIES, MOST_ROWS, Method, Promise
from holdfast.planning._noise import parameters_of
from holdfast.stability import TransferError, transfer_error


@lru_cache(maxsize=4096)
def _error(rows: int, queries: int, beta: float, method: str) -> TransferError:
    return transfer_error(rows, queries, beta, method=method)


class _Transfer(Method):
    own_assumptions = ("Fresh Gaussian noise on every answer; the number of questions is fixed.",)
    route: str
    answers = (MEANS, FILTERED)
    noisy = True

    def reason(self) -> str:
        """Both proofs go row by row."""
        return "" if self.setting.independent else "The transfer theorems are for independent rows."

    def at(self, rows: int, queries: int) -> Promise:
        """The least certified error, with its noise and its split of β."""
        if not self.setting.bounded:
            return Promise(math.inf, {})
        found = _error(rows, queries, self.setting.beta, self.route)
        return Promise(transfer_noise(found).promise(found.error), parameters_of(found))


class Information(_Transfer):
    """Mutual information k/(8ns²) and an event that is rare without it."""

    name, route = "information", "information"


class Jung(_Transfer):
    """The transfer theorem of Jung et al. 2019 with exact Gaussian accounting.

    The exact search takes a third of a second, so rows and queries are found on an estimate and then checked.
    """

    name, route = "jung", "jung"

    tolerance = 1e-5

    def rows_for(self, error: float, queries: int) -> int | None:
        """The estimate's answer, then as few more rows as make it true."""
        rows = boundary(
            lambda n: _jung_estimate(n, queries, self.setting.beta),
            error,
            start=round(100.0 / error**2),
            growth=-0.5,
            most=MOST_ROWS,
        )
        step = max(1, (rows or 0) // 100_000)
        while rows is not None and self.at(rows, queries).error > error:
            rows, step = rows + step, 2 * step
        return rows

    def queries_for(self, error: float, rows: int) -> int:
        """The estimate's answer, then as few fewer queries as make it true."""
        queries = boundary(
            lambda k: _jung_estimate(rows, k, self.setting.beta),
            error,
            start=16,
            growth=0.5,
            most=MOST_QUERIES,
        )
        step = max(1, (queries or 0) // 100_000)
        while queries and self.at(rows, queries).error > error:
            queries, step = max(0, queries - step), 2 * step
        return queries or 0


class TransferGaussian(_Transfer):
    """The better of the two at every number of rows and queries."""

    name = "transfer-gaussian"

    def at(self, rows: int, queries: int) -> Promise:
        """The smaller of the two errors; the costly one is computed only where its estimate comes close."""
        found = Information(self.setting).at(rows, queries)
        if self.reason() or _jung_estimate(rows, queries, self.setting.beta) >= min(1.0, 1.01 * found.error):
            return found
        return min(found, Jung(self.setting).at(rows, queries), key=lambda promise: promise.error)

    def variants(self) -> tuple[Method, ...]:
        """Both, each by itself, where they hold."""
        return () if self.reason() else (Information(self.setting), Jung(self.setting))

    def printed(self) -> Method | None:
        """Jung et al. 2019; the information bound is Holdfast's."""
        return None if self.reason() else Jung(self.setting)

    def rows_for(self, error: float, queries: int) -> int | None:
        """The fewer of the two; privacy is asked only where it may need fewer."""
        rows = Information(self.setting).rows_for(error, queries)
        if self.reason() or (rows and _jung_estimate(rows, queries, self.setting.beta) > 1.01 * error):
            return rows
        others = Jung(self.setting).rows_for(error, queries)
        return rows if others is None else others if rows is None else min(rows, others)

    def queries_for(self, error: float, rows: int) -> int:
        """The more of the two; privacy is asked only where it may allow more."""
        queries = Information(self.setting).queries_for(error, rows)
        if self.reason() or (queries and _jung_estimate(rows, queries, self.setting.beta) > 1.01 * error):
            return queries
        return max(queries, Jung(self.setting).queries_for(error, rows))


@lru_cache(maxsize=4096)
def _jung_estimate(rows: int, queries: int, beta: float) -> float:
    """The error of ``jung`` by a coarser search with the plain formula for δ: a place, not a promise."""
    middle = math.log(queries) / 4.0 - math.log(rows) / 2.0
    small = math.log(beta)
    low = np.array([middle - 4.0, small - 30.0, -16.0])
    high = np.array([middle + 4.0, small, 1.0])
    centre, half = (low + high) / 2.0, (high - low) / 2.0
    axis = np.linspace(-1.0, 1.0, 9)
    offsets = np.stack(np.meshgrid(axis, axis, axis, indexing="ij")).reshape(3, -1)
    value = math.inf
    for _ in range(22):
        points = np.clip(centre[:, None] + half[:, None] * offsets, low[:, None], high[:, None])
        sd, b1, epsilon = np.exp(points)
        ratio = math.sqrt(queries) / rows / sd
        lost = np.exp(epsilon + special.log_ndtr(-ratio / 2.0 - epsilon / ratio))
        delta = np.maximum(special.ndtr(ratio / 2.0 - epsilon / ratio) - lost, 0.0)
        quantile = -special.ndtri(b1 / (2.0 * queries))
        errors = sd * quantile + np.expm1(epsilon) + (np.sqrt(b1) + np.sqrt(2.0 * delta)) ** 2 / beta
        best = int(np.argmin(errors))
        value = float(errors[best])
        centre, half = points[:, best], half * 0.55
    return min(1.0, value)
