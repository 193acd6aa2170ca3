"""Independent clusters of rows: families, patients with several visits, sessions of one user."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holdfast import checks
from holdfast.dependence import _bayesian
from holdfast.dependence._best import TailRow
from holdfast.dependence._leakage import worst_leakage
from holdfast.dependence._model import Dependence, few, from_squared_differences, row_differences
from holdfast.dependence._split import Split, all_fresh, check_split
from holdfast.errors import InvalidArgument
from holdfast.records import show
from holdfast.tails import SubGaussian

if TYPE_CHECKING:
    from holdfast.stability import DP, BayesianDP


@dataclass(frozen=True, repr=False)
class Clusters(Dependence):
    """Rows in clusters that are independent of one another, with any dependence inside a cluster.

    ``sizes`` are the clusters' numbers of rows; the rows stand cluster by cluster, in that order: the first
    ``sizes[0]`` rows are the first cluster, and so on.

    >>> Clusters([1] * 400).mean_tail(0, 1).radius(0.05) < Clusters([2] * 200).mean_tail(0, 1).radius(0.05)
    True
    """

    sizes: tuple[int, ...]

    name: ClassVar[str] = "independent clusters"

    def __post_init__(self) -> None:
        sizes = self.sizes
        if isinstance(sizes, (str, bytes)) or not np.iterable(sizes):
            raise InvalidArgument("sizes", "a sequence of whole numbers", sizes, of="Clusters")
        plain = np.asarray(sizes)
        numbers = plain.ndim == 1 and plain.dtype.kind in "iu" and (plain >= 1).all()
        # In a list, a truth value among whole numbers becomes one of them.
        if numbers and (isinstance(sizes, np.ndarray) or {bool, np.bool_}.isdisjoint(map(type, sizes))):
            checked = tuple(plain.tolist())
        else:
            checked = tuple(checks.whole(size, f"sizes[{i}]", of="Clusters") for i, size in enumerate(sizes))
        if not checked:
            raise InvalidArgument("sizes", "at least one cluster", sizes, of="Clusters")
        object.__setattr__(self, "sizes", checked)

    @cached_property
    def n(self) -> int:
        """The number of rows."""
        return sum(self.sizes)

    def _visible(self) -> dict[str, Any]:
        return {"sizes": list(self.sizes)}

    def __repr__(self) -> str:
        shown = ", ".join(map(show, self.sizes[:6])) + (", …" if len(self.sizes) > 6 else "")
        return f"Clusters([{shown}], clusters={len(self.sizes)}, n={self.n})"

    @property
    def _parameters(self) -> tuple[str, ...]:
        words = f"{min(self.sizes):,} to {max(self.sizes):,} rows each"
        return (f"{len(self.sizes):,} clusters of {few(self.sizes, words)}",)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"The rows form {len(self.sizes):,} clusters, one after the other in the table, that are "
            "independent of one another; inside a cluster rows may depend in any way.",
        )

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        shares = (hi - lo) * np.array(self.sizes, dtype=float) / self.n
        tail = from_squared_differences(float(shares @ shares))
        return (TailRow("whole clusters", "McDiarmid 1989, one step a cluster", tail),)

    def difference_tail(self, differences: Any) -> SubGaussian:
        """The tail of a statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ_B (Σ_{i∈B} c_i)²), for a statistic fixed in advance.
        Assumes: independent clusters and the differences (not checkable from the data).
        Reference: McDiarmid 1989, with a cluster as one variable; theory 1.1.
        """
        c = row_differences(differences, self.n, of="Clusters")
        starts = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
        totals = np.add.reduceat(c, starts)
        return from_squared_differences(float(totals @ totals))

    def split(self, share: Any, rng: Any, beta: Any = 0.05) -> Split:
        """Whole clusters taken at random, as many as fit into ``share`` of the rows.

        Proof that the bias is 0: the choice of clusters is made without the data, and for each choice the two
        parts are functions of disjoint sets of independent clusters.

        >>> parts = Clusters([2, 2, 2, 2]).split(0.5, np.random.default_rng(0))
        >>> parts.train.reshape(4, 2).all(axis=1).sum(), parts.protected_model.sizes
        (np.int64(2), (2, 2))
        """
        share, rng, _ = check_split(share, rng, beta, of="Clusters")
        sizes = np.array(self.sizes)
        if len(sizes) < 2:
            raise InvalidArgument(
                "dependence",
                "at least two clusters, or give the training part yourself (train=…)",
                repr(self),
            )
        chosen = np.zeros(len(sizes), dtype=np.bool_)
        room = share * self.n
        for i in rng.permutation(len(sizes)):
            # share < 1 leaves room for a part of the rows only, so at least one cluster stays protected.
            if sizes[i] <= room:
                chosen[i] = True
                room -= sizes[i]
        if not chosen.any():
            chosen[np.argmin(sizes)] = True
        train = np.repeat(chosen, sizes)
        rest = Clusters(tuple(int(size) for size in sizes[~chosen]), extra_assumptions=self.extra_assumptions)
        return Split(train, ~train, rest, 0.0, self.assumptions)

    def fresh(self, beta: Any = 0.05) -> Split:
        """Every row: a cluster belongs to one epoch as a whole.

        >>> Clusters([2, 2]).fresh().assumptions[-1]
        'No cluster has rows in two epochs, and clusters of different epochs are independent.'
        """
        return all_fresh(
            self, "No cluster has rows in two epochs, and clusters of different epochs are independent."
        )

    def leakage(self, mechanism: Any) -> float:
        """The Bayesian DP of one mechanism, exactly: the largest over all laws with these clusters.

        ``mechanism``: as for ``Independent.leakage``.
        Guarantee: the largest change of an output's log-probability between datasets that differ inside one
        cluster, which some law inside the clusters leaks; rounded up.
        Assumes: independent clusters (not checkable from the data).
        Reference: BDP (3) and (4).
        """
        return worst_leakage(mechanism, self.sizes)

    def bayesian_dp(self, dp: DP, method: str = "sharp") -> BayesianDP:
        """The Bayesian DP of a pure DP mechanism: the largest cluster's rows times its parameter, by any
        method ("sharp", "quilt", "group").

        Guarantee: whoever knows any of the other rows learns no more than this about a row.
        Assumes: independent clusters (not checkable from the data).
        Reference: BDP Lemma 2 with the empty quilt.
        """
        return _bayesian.bayesian_dp(self, _bayesian.group_routes(max(self.sizes)), dp, method)

    def required_dp(self, bdp: BayesianDP, method: str = "sharp") -> DP:
        """The DP parameter that suffices for ``bdp`` on these rows; methods as in ``bayesian_dp``."""
        return _bayesian.required_dp(self, _bayesian.group_routes(max(self.sizes)), bdp, method)
