"""Independent rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holdfast import checks
from holdfast.dependence import _bayesian
from holdfast.dependence._best import TailRow
from holdfast.dependence._leakage import worst_leakage
from holdfast.dependence._model import Dependence, from_squared_differences, row_differences
from holdfast.dependence._split import Split, check_split, part_size
from holdfast.errors import NotEnoughRows
from holdfast.tails import BoundedDifferences, SubGaussian

if TYPE_CHECKING:
    from holdfast.stability import DP, BayesianDP


@dataclass(frozen=True, repr=False)
class Independent(Dependence):
    """``n`` rows that are independent of one another; they need not have the same law.

    >>> Independent(400).mean_tail(0, 1).radius(0.05) == BoundedDifferences(delta=1 / 400, n=400).radius(0.05)
    True
    """

    n: int

    name: ClassVar[str] = "independent rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.whole(self.n, "n", of="Independent"))

    @property
    def _stated(self) -> tuple[str, ...]:
        return ("The rows are independent of one another.",)

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        tail = BoundedDifferences.of_mean(lo, hi, self.n)
        return (TailRow("bounded differences", "McDiarmid 1989", tail),)

    def difference_tail(self, differences: Any) -> SubGaussian:
        """The tail of a statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ c_i²), for a statistic fixed in advance.
        Assumes: independent rows and the differences (not checkable from the data).
        Reference: McDiarmid 1989.
        """
        c = row_differences(differences, self.n, of="Independent")
        return from_squared_differences(float(c @ c))

    def split(self, share: Any, rng: Any, beta: Any = 0.05) -> Split:
        """Rows taken at random.

        Proof that the bias is 0: the choice of rows is made without the data, and for each choice the two
        parts are functions of disjoint sets of independent rows.

        >>> parts = Independent(10).split(0.3, np.random.default_rng(0))
        >>> int(parts.train.sum()), parts.protected_model, parts.bias
        (3, Independent(n=7), 0.0)
        """
        share, rng, _ = check_split(share, rng, beta, of="Independent")
        if self.n < 2:
            raise NotEnoughRows(2, self.n, what="Setting a training part aside")
        size = part_size(share, self.n)
        train = np.zeros(self.n, dtype=np.bool_)
        train[rng.choice(self.n, size=size, replace=False)] = True
        rest = Independent(self.n - size, extra_assumptions=self.extra_assumptions)
        return Split(train, ~train, rest, 0.0, self.assumptions)

    def leakage(self, mechanism: Any) -> float:
        """The Bayesian DP of one mechanism, exactly: on independent rows its differential privacy.

        ``mechanism``: an array of probabilities with an axis for each row and a last one for the outputs, a
        dictionary {dataset: probabilities}, or a ``LaplaceAnswer`` or ``ExponentialChoice`` of an array.
        Guarantee: the largest over all laws of the rows, rounded up.
        Assumes: independent rows (not checkable from the data).
        Reference: BDP (3) and (4).
        """
        return worst_leakage(mechanism, (1,) * self.n)

    def bayesian_dp(self, dp: DP, method: str = "sharp") -> BayesianDP:
        """The Bayesian DP of a pure DP mechanism: its DP, by any method ("sharp", "quilt", "group").

        Guarantee: whoever knows any of the other rows learns no more than this about a row.
        Assumes: independent rows (not checkable from the data).
        Reference: BDP Lemma 2 with the empty quilt.
        """
        return _bayesian.bayesian_dp(self, _bayesian.group_routes(1), dp, method)

    def required_dp(self, bdp: BayesianDP, method: str = "sharp") -> DP:
        """The DP parameter that suffices for ``bdp`` on these rows; methods as in ``bayesian_dp``."""
        return _bayesian.required_dp(self, _bayesian.group_routes(1), bdp, method)
