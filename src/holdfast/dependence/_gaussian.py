"""Jointly Gaussian rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, rounding, search
from holdfast.dependence._model import Dependence, few, from_squared_differences, row_differences
from holdfast.dependence._privacy import Routes, group_routes
from holdfast.errors import InvalidArgument
from holdfast.tails import Normal, SubGaussian, TailReport, TailRow
from holdfast.tails import tail_report as report

if TYPE_CHECKING:
    pass

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class _Block:
    """Rows that are independent of all others; λ is their ``least`` eigenvalue, rounded down, or 0."""

    rows: NDArray[np.int64]
    least: float
    largest: float
    """The largest eigenvalue of the correlations less λ."""
    sizes: NDArray[np.float64]
    """The absolute values of the correlations less λ."""


def _block(rows: NDArray[np.int64], correlations: NDArray[np.float64]) -> _Block:
    part = correlations[np.ix_(rows, rows)]
    np.fill_diagonal(part, 1.0)
    if len(rows) == 1:
        return _Block(rows, 1.0, 0.0, np.zeros((1, 1)))
    values = np.linalg.eigvalsh(part)
    slack = 64.0 * len(rows) * _EPS
    least = max(0.0, float(values[0]) - slack)
    np.fill_diagonal(part, 1.0 - least)
    return _Block(rows, least, float(values[-1]) - least + slack, np.abs(part))


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

    if TYPE_CHECKING:  # anything that is an array of numbers is taken; an array is kept

        def __init__(self, covariance: ArrayLike, *, extra_assumptions: tuple[str, ...] = ()) -> None: ...

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

    def linear_tail(self, weights: ArrayLike) -> Normal:
        """The tail of the linear statistic Σ a_i X_i.

        Guarantee: that of a normal with σ² = aᵀΣa, exactly its variance, rounded to the safe side.
        Assumes: jointly Gaussian rows with this covariance (not checkable from the data).
        Reference: ``docs/theory/dependence.md``, "The tail of a mean".

        Args:
            weights: One number for each row.
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

    @cached_property
    def _blocks(self) -> tuple[_Block, ...]:
        """The independent blocks of rows."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        count, labels = connected_components(csr_array(self.covariance != 0.0), directed=False)
        deviations = np.sqrt(np.diag(self.covariance))
        deviations[deviations == 0.0] = 1.0
        scaled = self.covariance / np.outer(deviations, deviations)
        return tuple(_block(np.flatnonzero(labels == block), scaled) for block in range(count))

    def _reach(self, c: NDArray[np.float64], weight: float) -> float:
        """Σ over blocks of the smaller of (Σ c)² and Σ c² + ``weight`` V/λ, rounded up.

        V = max over |u| ≤ c of uᵀ(R − λ)u is bounded by the largest eigenvalue and by absolute values.
        """
        total = 0.0
        for block in self._blocks:
            here = c[block.rows]
            whole, squares = float(here.sum()) ** 2, float(here @ here)
            if block.least > 0.0:
                spread = min(block.largest * squares, float(here @ block.sizes @ here))
                whole = min(whole, squares + weight * spread / block.least)
            total += whole
        return total * (1.0 + 64.0 * self.n * _EPS)

    def difference_tail(self, differences: ArrayLike) -> SubGaussian:
        """The tail of any statistic that moves by at most ``differences`` when one row takes any other value
        (one number, or one for each row): a share or a clipped mean, say.

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t²/W), for a statistic fixed in advance. W is at most Σ c_i² +
        (2/πλ)(Λ − λ)Σ c_i², with λ and Λ the least and the largest eigenvalue of the correlation matrix.
        Each independent block counts for itself, with at most (Σ c_i)².
        Assumes: jointly Gaussian rows with this covariance, the differences (not checkable from the data).
        Reference: Holdfast, ``docs/theory/dependence.md``, Gaussian rows.

        >>> round(GaussianRows([[1.0, 0.5], [0.5, 1.0]]).difference_tail(0.5).sigma, 6)
        0.5
        """
        c = row_differences(differences, self.n, of="GaussianRows")
        return from_squared_differences(rounding.up(self._reach(c, 2.0 / math.pi)))

    def _revealed(self, epsilon: float) -> float:
        """The W for which an ``epsilon``-DP mechanism reveals at most Wε²/8 + ε√(W ln(1/b)/2) nats about all
        rows together: n where the rows are independent.

        Reference: Holdfast, ``docs/theory/reusable-holdout.md``, Gaussian rows.
        """
        if epsilon == 0.0:
            return float(self.n)
        slope = _steepest(epsilon) / epsilon
        return rounding.up(self._reach(np.ones(self.n), 4.0 * slope * slope))

    def _routes(self) -> Routes:
        return group_routes(max(len(block.rows) for block in self._blocks))

    def joint_epsilon(self, epsilon: float, *, of: str = "joint_epsilon") -> float:
        """By the least and the largest correlations of the rows.

        Reference: ``docs/theory/reusable-holdout.md``, Gaussian rows.
        """
        return rounding.up(epsilon * math.sqrt(self._revealed(epsilon) / self.n))

    def share_tail(self) -> SubGaussian:
        """A bounded function of a Gaussian row is not Gaussian: the bound for any statistic."""
        return self.difference_tail(1.0 / self.n)

    @property
    def bounded(self) -> bool:
        """The rows have no bounds, and the model speaks of their mean."""
        return False

    def mean_tail(self, lo: float | None = None, hi: float | None = None) -> Normal:
        """The tail of the mean of the rows themselves; a transformed or clipped row is not Gaussian.

        Guarantee: that of a normal with σ² = 1ᵀΣ1/n², exactly its variance, rounded to the safe side.
        Assumes: jointly Gaussian rows with this covariance (not checkable from the data).
        Reference: ``docs/theory/dependence.md``, "The tail of a mean".

        Args:
            lo: Not used: None.
            hi: Not used: None.
        """
        self._refuse_bounds(lo, hi)
        return self.linear_tail(np.full(self.n, 1.0 / self.n))

    def mean_tail_report(
        self, lo: float | None = None, hi: float | None = None, nu: float = 0.05
    ) -> TailReport:
        """The one bound that ``mean_tail`` gives, with its radius at ``nu``.

        Args:
            lo: Not used: None.
            hi: Not used: None.
        """
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
                    reference="docs/theory/dependence.md, The tail of a mean",
                )


def _steepest(epsilon: float) -> float:
    """The largest slope of ln E f(t + Z) in t, Z a standard normal, over all f with max f ≤ e^ε min f.

    It is the c with c (1/(e^ε − 1) + P(Z > c)) equal to the density at c. Rounded up.
    """
    rest = 1.0 / math.expm1(min(epsilon, 700.0))

    def beyond(c: float) -> bool:
        density = math.exp(-c * c / 2.0) / math.sqrt(2.0 * math.pi)
        return c * (rest + math.erfc(c / math.sqrt(2.0)) / 2.0) >= density

    slope = search.least_real(beyond)
    return math.inf if slope is None else slope * (1.0 + 1e-9)
