"""Jointly Gaussian rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._best import TailReport, TailRow, report
from holdfast.dependence._model import Dependence, few
from holdfast.errors import InvalidArgument
from holdfast.tails import Normal


@dataclass(frozen=True, repr=False)
class GaussianRows(Dependence):
    """One number a row, all of them jointly Gaussian with the given ``covariance`` matrix.

    The rows are unbounded, so the tail is that of the mean of the rows themselves.

    >>> round(GaussianRows([[1.0, 0.5], [0.5, 1.0]]).mean_tail().sigma, 6)
    0.866025
    """

    covariance: NDArray[np.float64] = field(compare=False)
    _content: bytes = field(init=False, repr=False)

    name: ClassVar[str] = "Gaussian rows"

    def __post_init__(self) -> None:
        try:
            matrix = np.array(self.covariance, dtype=float)
        except (TypeError, ValueError):
            matrix = np.empty(0)
        if (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or not matrix.size
            or not np.isfinite(matrix).all()
        ):
            raise InvalidArgument(
                "covariance", "a square matrix of finite numbers", self.covariance, of="GaussianRows"
            )
        scale = float(np.abs(np.diag(matrix)).max())
        if not scale > 0.0 or not np.abs(matrix - matrix.T).max() <= 1e-9 * scale:
            raise InvalidArgument("covariance", "symmetric and not zero", self.covariance, of="GaussianRows")
        matrix = (matrix + matrix.T) / 2.0
        try:
            np.linalg.cholesky(matrix + 1e-9 * scale * np.eye(len(matrix)))
        except np.linalg.LinAlgError:
            raise InvalidArgument(
                "covariance",
                "positive semidefinite (no combination of rows has negative variance)",
                self.covariance,
                of="GaussianRows",
            ) from None
        matrix.setflags(write=False)
        object.__setattr__(self, "covariance", matrix)
        object.__setattr__(self, "_content", matrix.tobytes())

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.covariance)

    def _visible(self) -> dict[str, Any]:
        return {"n": self.n, "sd_of_mean": self.mean_tail().sigma}

    def _content_of_law(self) -> tuple[Any, ...]:
        return (self.covariance,)

    @property
    def _parameters(self) -> tuple[str, ...]:
        words = few(self.covariance, f"{self.n:,}×{self.n:,} numbers")
        return (f"covariance {words}", f"standard deviation of the mean {self.mean_tail().sigma:.6g}")

    @property
    def _stated(self) -> tuple[str, ...]:
        return ("The rows are jointly Gaussian with the given covariance matrix.",)

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        tail = self.linear_tail(np.full(self.n, 1.0 / self.n))
        return (TailRow("linear statistic", "exactly normal, variance aᵀΣa", tail),)

    def linear_tail(self, weights: Any) -> Normal:
        """The tail of the linear statistic Σ a_i X_i.

        Guarantee: that of a normal with σ² = aᵀΣa, exactly its variance, rounded to the safe side.
        Assumes: jointly Gaussian rows with this covariance (not checkable from the data).
        Reference: theory 1.1.
        """
        a = np.array(checks.reals(weights, "weights", "(-inf, inf)", of="GaussianRows.linear_tail"))
        if len(a) != self.n or not np.abs(a).max() > 0.0:
            raise InvalidArgument(
                "weights",
                f"{self.n} numbers, one for each row and not all zero",
                weights,
                of="GaussianRows.linear_tail",
            )
        # A sum of n² products may lose that many units in the last place of its largest terms.
        slack = (
            4.0 * self.n * float(np.finfo(float).eps) * float(np.abs(a) @ np.abs(self.covariance) @ np.abs(a))
        )
        variance = max(0.0, float(a @ self.covariance @ a)) + slack
        return Normal(rounding.up(float(np.sqrt(variance))))

    def mean_tail(self, lo: Any = None, hi: Any = None) -> Normal:
        """The tail of the mean of the rows themselves; a transformed or clipped row is not Gaussian.

        Guarantee: that of a normal with σ² = 1ᵀΣ1/n², exactly its variance, rounded to the safe side.
        Assumes: jointly Gaussian rows with this covariance (not checkable from the data).
        Reference: theory 1.1.
        """
        self._refuse_bounds(lo, hi)
        return self.linear_tail(np.full(self.n, 1.0 / self.n))

    def mean_tail_report(self, lo: Any = None, hi: Any = None, nu: Any = 0.05) -> TailReport:
        """The one bound that ``mean_tail`` gives, with its radius at ``nu``."""
        self._refuse_bounds(lo, hi)
        return report(self.name, self._rows(0.0, 0.0), nu)

    def _refuse_bounds(self, lo: Any, hi: Any) -> None:
        for argument, value in (("lo", lo), ("hi", hi)):
            if value is not None:
                raise InvalidArgument(
                    argument,
                    "left out: Gaussian rows are unbounded and the model speaks of the mean of the "
                    "rows themselves; for the mean of a bounded function of a row choose another model",
                    value,
                    of="GaussianRows.mean_tail",
                    reference="theory 1.1",
                )
