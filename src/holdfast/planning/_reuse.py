"""The reusable holdout of BDP Algorithm 1, as a method of the planner."""

from __future__ import annotations

from holdfast.dependence import Dependence, MDependent
from holdfast.dependence._holdout import (
    HoldoutSettings,
    has_bayesian_dp,
    reusable_holdout_rows,
)
from holdfast.planning._boundary import boundary
from holdfast.planning._method import MOST_QUERIES, Method, Promise

_C = 0.5
_SMALLEST = 1e-6


class ReusableHoldout(Method):
    """Answers from a training part while the holdout agrees up to a noisy threshold (BDP Theorem 2)."""

    name = "reusable-holdout"
    route = "sharp"

    def reason(self) -> str:
        """Privacy must survive the dependence, and answers must lie in [0, 1]."""
        model = self.setting.model
        if not self.setting.bounded:
            return "The rows are unbounded."
        if model is None or has_bayesian_dp(model):
            return ""
        return "No bound on Bayesian differential privacy is known for this model."

    def _budget(self, queries: int) -> int:
        """The stated surprises; all questions where none were stated, which always suffices."""
        stated = self.setting.surprises
        return queries if stated is None else min(max(1, stated), queries)

    def assumptions(self, rows: int, queries: int) -> tuple[str, ...]:
        """The training part, and how often it may be off."""
        training = "A training part, independent of these rows, comes on top of them."
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

    def at(self, rows: int, queries: int) -> Promise:
        """The smallest error that these rows keep, to a millionth."""
        if self.reason():
            return Promise(self.setting.limit, {})
        model = self.setting.rows(rows)
        if not self._keeps(model, queries, 1.0):
            return Promise(1.0, {})
        low, high = _SMALLEST, 1.0
        while high - low > 1e-6 * high:
            middle = (low * high) ** 0.5
            if self._keeps(model, queries, middle):
                high = middle
            else:
                low = middle
        return Promise(high, self._parameters(queries, high))

    def keeping(self, error: float, rows: int, queries: int) -> Promise:
        """Threshold and noise follow from the error itself."""
        return Promise(error, self._parameters(queries, error))

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
        found = boundary(
            lambda k: 0.0 if self._keeps(model, k, error) else 2.0,
            1.0,
            start=16,
            growth=1.0,
            most=MOST_QUERIES,
        )
        return found or 0

    def printed(self) -> Method | None:
        """BDP Theorem 2 as printed, corrected; it says nothing about m-dependent rows."""
        return None if isinstance(self.setting.model, MDependent) else PrintedHoldout(self.setting)


class PrintedHoldout(ReusableHoldout):
    """BDP Theorem 2 as printed, with (1−c)τ/4 and β/2m substituted in n_#."""

    name = "reusable-holdout (BDP Theorem 2)"
    route = "paper"

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
