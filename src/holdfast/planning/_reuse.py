"""Methods that reuse the rows by privacy: the reusable holdout of BDP Algorithm 1, and, for independent rows,
Gaussian noise with a transfer theorem, by information or by privacy (``docs/theory/transfer.md``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from holdfast import search
from holdfast.dependence import Dependence, HoldoutSettings, reusable_holdout_rows
from holdfast.planning._method import (
    FILTERED,
    MEANS,
    MOST_QUERIES,
    MOST_ROWS,
    CertifiedError,
    Method,
)
from holdfast.planning._noise import parameters_of
from holdfast.stability import TransferError, transfer_error
from holdfast.strategies import transfer_noise
from holdfast.typing import BoundForm

_C = 0.5
_SMALLEST = 1e-6


class ReusableHoldoutMethod(Method):
    """Answers from a training part while the holdout agrees up to a noisy threshold (BDP Theorem 2)."""

    name = "reusable-holdout"
    route: BoundForm = "sharp"

    def reason(self) -> str:
        """Privacy must survive the dependence, and answers must lie in [0, 1]."""
        model = self.setting.model
        if not self.setting.bounded:
            return "The rows are unbounded."
        if model is None or model.has_bayesian_dp:
            return ""
        return "No bound on Bayesian differential privacy is known for this model."

    def _budget(self, queries: int) -> int:
        """The stated surprises; all questions where none were stated, which always suffices."""
        stated = self.setting.surprises
        return queries if stated is None else min(max(1, stated), queries)

    def assumptions(self, rows: int, queries: int) -> tuple[str, ...]:
        """The training part, and how often it may be off."""
        training = "A training part is needed as well, with rows independent of these."
        if self.setting.surprises is None:
            return (*self.setting.assumptions, training)
        often = (
            f"Fewer than {self._budget(queries):,} of the training part's answers are off by half of the "
            "error or more."
        )
        return (*self.setting.assumptions, training, often)

    def _settings(self, queries: int, error: float) -> HoldoutSettings:
        return HoldoutSettings(queries, self._budget(queries), error, self.setting.beta, _C)

    def _keeps(self, model: Dependence, queries: int, error: float) -> bool:
        return self._settings(queries, error).failure(model, of="plan") <= self.setting.beta

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The smallest error that these rows keep, to a millionth."""
        if self.reason():
            return CertifiedError(self.setting.limit, {})
        model = self.setting.rows(rows)
        if not self._keeps(model, queries, 1.0):
            return CertifiedError(1.0, {})
        log_error = search.edge(
            lambda log: self._keeps(model, queries, math.exp(log)),
            0.0,
            math.log(_SMALLEST),
            relative=0.0,
            absolute=1e-6,
        )
        error = math.exp(log_error)
        return CertifiedError(error, self._parameters(queries, error))

    def keeping(self, error: float, rows: int, queries: int) -> CertifiedError:
        """Threshold and noise follow from the error itself."""
        return CertifiedError(error, self._parameters(queries, error))

    def _parameters(self, queries: int, error: float) -> dict[str, float]:
        settings = self._settings(queries, error)
        return {
            "k": queries,
            "budget": settings.budget,
            "threshold": settings.threshold,
            "noise": settings.noise,
            "deviation": settings.deviation,
            "c": _C,
            "beta": self.setting.beta,
        }

    def rows_for(self, error: float, queries: int) -> int | None:
        """BDP Theorem 2."""
        if self.reason():
            return None
        return reusable_holdout_rows(
            queries=queries,
            budget=self._budget(queries),
            error=error,
            beta=self.setting.beta,
            c=_C,
            model=self.setting.model,
            method=self.route,
        )

    def queries_for(self, error: float, rows: int) -> int:
        """The largest number of queries that these rows allow."""
        if self.reason():
            return 0
        model = self.setting.rows(rows)
        most_queries = search.whole_root(
            lambda k: 0.0 if self._keeps(model, k, error) else 2.0,
            1.0,
            start=16,
            growth=1.0,
            most=MOST_QUERIES,
        )
        return most_queries or 0

    def printed(self) -> Method | None:
        """BDP Theorem 2 as printed, corrected; it says nothing about m-dependent rows."""
        model = self.setting.model
        if model is not None and model.bounded and not model.has_printed_dp:
            return None
        return PrintedHoldout(self.setting)


class PrintedHoldout(ReusableHoldoutMethod):
    """BDP Theorem 2 as printed, with (1−c)τ/4 and β/2m substituted in n_#."""

    name = "reusable-holdout (BDP Theorem 2)"
    route: BoundForm = "paper"

    own_assumptions = ("The mean of the rows deviates as if they were independent.",)

    def assumptions(self, rows: int, queries: int) -> tuple[str, ...]:
        """Those of the sharp form, and product concentration."""
        return (*super().assumptions(rows, queries), *self.own_assumptions)

    def _keeps(self, model: Dependence, queries: int, error: float) -> bool:
        needed = reusable_holdout_rows(
            queries=queries,
            budget=self._budget(queries),
            error=error,
            beta=self.setting.beta,
            c=_C,
            model=model,
            method="paper",
        )
        return needed <= model.n

    def printed(self) -> Method | None:
        """It is the printed route itself."""
        return None


@lru_cache(maxsize=4096)
def _error(rows: int, queries: int, beta: float, method: Literal["information", "jung"]) -> TransferError:
    return transfer_error(rows, queries, beta, method=method)


class _Transfer(Method):
    own_assumptions = ("Fresh Gaussian noise on every answer; the number of questions is fixed.",)
    route: Literal["information", "jung"]
    answers = (MEANS, FILTERED)
    noisy = True

    def reason(self) -> str:
        """Both proofs go row by row."""
        return "" if self.setting.independent else "The transfer theorems are for independent rows."

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The least certified error, with its noise and its split of β."""
        if not self.setting.bounded:
            return CertifiedError(math.inf, {})
        transfer = _error(rows, queries, self.setting.beta, self.route)
        return CertifiedError(transfer_noise(transfer).promise(transfer.error), parameters_of(transfer))


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
        rows = search.whole_root(
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
        queries = search.whole_root(
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

    def at(self, rows: int, queries: int) -> CertifiedError:
        """The smaller of the two errors; the costly one is computed only where its estimate comes close."""
        by_information = Information(self.setting).at(rows, queries)
        if self.reason() or _jung_estimate(rows, queries, self.setting.beta) >= min(
            1.0, 1.01 * by_information.error
        ):
            return by_information
        return min(by_information, Jung(self.setting).at(rows, queries), key=lambda promise: promise.error)

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
        rows_by_privacy = Jung(self.setting).rows_for(error, queries)
        return min((count for count in (rows, rows_by_privacy) if count is not None), default=None)

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

    def error(point: NDArray[np.float64]) -> NDArray[np.float64]:
        sd, b1, epsilon = np.exp(point)
        ratio = math.sqrt(queries) / rows / sd
        lost = np.exp(epsilon + special.log_ndtr(-ratio / 2.0 - epsilon / ratio))
        delta = np.maximum(special.ndtr(ratio / 2.0 - epsilon / ratio) - lost, 0.0)
        quantile = -special.ndtri(b1 / (2.0 * queries))
        shares = (np.sqrt(b1) + np.sqrt(2.0 * delta)) ** 2 / beta
        total: NDArray[np.float64] = sd * quantile + np.expm1(epsilon) + shares
        return total

    box = ((middle - 4.0, middle + 4.0), (small - 30.0, small), (-16.0, 1.0))
    place = search.least_in_box(error, box, points=9, rounds=22, shrink=0.55)
    return min(1.0, float(error(np.array(place))))
