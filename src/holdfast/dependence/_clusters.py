"""Independent rows, and independent clusters of rows: families, patients with several visits, sessions of one
user.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks
from holdfast.dependence._model import (
    Dependence,
    PlannedSplit,
    Split,
    all_fresh,
    check_split,
    few,
    from_squared_differences,
    part_size,
    row_differences,
)
from holdfast.dependence._privacy import MechanismLike, Routes, group_routes, worst_leakage
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import show
from holdfast.tails import BoundedDifferences, SubGaussian, TailRow

if TYPE_CHECKING:
    pass


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

    def difference_tail(self, differences: ArrayLike) -> SubGaussian:
        """The tail of a statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ c_i²), for a statistic fixed in advance.
        Assumes: independent rows and the differences (not checkable from the data).
        Reference: McDiarmid 1989.
        """
        c = row_differences(differences, self.n, of="Independent")
        return from_squared_differences(float(c @ c))

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Rows taken at random.

        Proof that the bias is 0: the choice of rows is made without the data, and for each choice the two
        parts are functions of disjoint sets of independent rows.

        Args:
            rng: The source of random numbers.

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

    def leakage(self, mechanism: MechanismLike) -> float:
        """The Bayesian DP of one mechanism, exactly: on independent rows its differential privacy.

        ``mechanism``: an array of probabilities with an axis for each row and a last one for the outputs, a
        dictionary {dataset: probabilities}, or a ``LaplaceAnswer`` or ``ExponentialChoice`` of an array.
        Guarantee: the largest over all laws of the rows, rounded up.
        Assumes: independent rows (not checkable from the data).
        Reference: BDP (3) and (4).
        """
        return worst_leakage(mechanism, (1,) * self.n)

    @property
    def exact_search(self) -> bool:
        """Every bound has a closed form."""
        return True

    def scaled_to(self, n: int, *, of: str = "scaled_to") -> Independent:
        """``n`` independent rows."""
        return self if n == self.n else replace(self, n=n)

    def statistic_tail(self) -> SubGaussian:
        """2 exp(−2nt²)."""
        return from_squared_differences(1.0 / self.n)

    def planned_split(self, share: float, beta: float) -> PlannedSplit:
        """Any rows can be set aside, so only their number matters.

        Args:
            share: The share of the rows for training.
            beta: The error probability of the whole account. Only models whose parts are not exactly
                independent use some of it.
        """
        return _independent_parts(self, share)

    _printed_route: ClassVar[str] = "group"

    def _routes(self) -> Routes:
        return group_routes(1)

    def blanket_influence(self, *, of: str = "blanket_influence") -> float:
        """No row influences another one."""
        return 0.0


@dataclass(frozen=True, repr=False)
class Clusters(Dependence):
    """Rows in clusters that are independent of one another, with any dependence inside a cluster.

    Name the ``column`` that says which cluster a row belongs to: the order of the rows does not matter then,
    and any engine can be used. Or give ``sizes``, the clusters' numbers of rows: the rows stand cluster by
    cluster then, the first ``sizes[0]`` rows are the first cluster, and so on.

    The clusters' sizes are taken as given: answers are about the rows of clusters of these sizes.

    >>> Clusters([1] * 400).mean_tail(0, 1).radius(0.05) < Clusters([2] * 200).mean_tail(0, 1).radius(0.05)
    True
    >>> Clusters(column="person")
    Clusters(column='person')
    """

    sizes: tuple[int, ...] | None = None
    column: str | None = field(default=None, kw_only=True)

    name: ClassVar[str] = "independent clusters"

    if TYPE_CHECKING:  # any sequence of sizes is taken; a tuple of them is kept

        def __init__(
            self,
            sizes: Sequence[int] | NDArray[np.integer[Any]] | None = None,
            *,
            column: str | None = None,
            extra_assumptions: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise InvalidArgument("column", "the name of a column", self.column, of="Clusters")
        if self.sizes is not None:
            object.__setattr__(self, "sizes", _checked_sizes(self.sizes))
        elif self.column is None:
            raise InvalidArgument(
                "column",
                "the name of the column that says which cluster a row belongs to (or give sizes)",
                None,
                of="Clusters",
            )

    @cached_property
    def n(self) -> int:
        """The number of rows; None for a column before its table is read."""
        return None if self.sizes is None else sum(self.sizes)  # type: ignore[return-value]

    @property
    def most(self) -> int:
        """The most rows that a cluster has."""
        return max(self.cluster_sizes)

    @property
    def cluster_sizes(self) -> tuple[int, ...]:
        """The sizes of the clusters. Refused if a column names the clusters and no table was read yet."""
        if self.sizes is None:
            raise InvalidArgument(
                "dependence",
                f"a model of a table that was read: give it to Guard, which reads the column {self.column!r}",
                repr(self),
                of="Clusters",
            )
        return self.sizes

    def with_sizes(self, sizes: Iterable[int]) -> Clusters:
        """The same clusters once the column that names them has been read: their ``sizes``, in any order."""
        return replace(self, sizes=tuple(sorted(sizes)))

    def _content_of_law(self) -> tuple[Any, ...]:
        return (self.sizes,) if self.column is None else (self.sizes, self.column)

    def _visible(self) -> dict[str, Any]:
        sizes = {} if self.sizes is None else {"sizes": list(self.sizes)}
        return sizes if self.column is None else {**sizes, "column": self.column}

    def __repr__(self) -> str:
        parts = [] if self.column is None else [f"column={self.column!r}"]
        if self.column is None:
            shown = ", ".join(map(show, self.cluster_sizes[:6])) + (
                ", …" if len(self.cluster_sizes) > 6 else ""
            )
            parts.append(f"[{shown}]")
        parts += [] if self.sizes is None else [f"clusters={len(self.sizes)}", f"n={self.n}"]
        return f"Clusters({', '.join(parts)})"

    @property
    def _parameters(self) -> tuple[str, ...]:
        sizes = self.cluster_sizes
        words = f"{min(sizes):,} to {max(sizes):,} rows each"
        by = "" if self.column is None else f" by {self.column!r}"
        return (f"{len(sizes):,} clusters{by} of {few(sizes, words)}",)

    @property
    def _stated(self) -> tuple[str, ...]:
        where = (
            "one after the other in the table"
            if self.column is None
            else f"named by the column {self.column!r}"
        )
        count = "" if self.sizes is None or self.column is not None else f"{len(self.sizes):,} "
        return (
            f"The rows form {count}clusters, {where}, that are independent of one another; inside a cluster "
            "rows may depend in any way.",
            "The number of rows of each cluster is public and taken as given.",
        )

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        shares = (hi - lo) * np.array(self.cluster_sizes, dtype=float) / self.n
        tail = from_squared_differences(float(shares @ shares))
        return (TailRow("whole clusters", "McDiarmid 1989, one step a cluster", tail),)

    def difference_tail(self, differences: ArrayLike) -> SubGaussian:
        """The tail of a statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ_B (Σ_{i∈B} c_i)²), for a statistic fixed in advance.
        Assumes: independent clusters and the differences (not checkable from the data).
        Reference: McDiarmid 1989, with a cluster as one variable; ``docs/theory/dependence.md``, "The tail of
        a mean".
        """
        c = row_differences(differences, self.n, of="Clusters")
        starts = np.concatenate(([0], np.cumsum(self.cluster_sizes)[:-1]))
        totals = np.add.reduceat(c, starts)
        return from_squared_differences(float(totals @ totals))

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """Whole clusters taken at random, as many as fit into ``share`` of the rows.

        Proof that the bias is 0: the choice of clusters is made without the data, and for each choice the two
        parts are functions of disjoint sets of independent clusters.

        Args:
            rng: The source of random numbers.

        >>> parts = Clusters([2, 2, 2, 2]).split(0.5, np.random.default_rng(0))
        >>> parts.train.reshape(4, 2).all(axis=1).sum(), parts.protected_model.sizes
        (np.int64(2), (2, 2))
        """
        check_split(share, rng, beta, of="Clusters")
        if self.column is not None:
            raise InvalidArgument(
                "dependence",
                "clusters that stand one after the other: those that a column names are split by its values "
                "(split_by_codes)",
                repr(self),
            )
        return self.split_by_codes(
            np.repeat(np.arange(len(self.cluster_sizes)), self.cluster_sizes), share, rng
        )

    def split_by_codes(self, codes: NDArray[np.int64], share: float, rng: np.random.Generator) -> Split:
        """The same where ``codes`` says which cluster each row belongs to, by numbers from 0.

        Args:
            share: The share of the rows for training.
            rng: The source of random numbers.
        """
        share, rng, _ = check_split(share, rng, 0.05, of="Clusters")
        sizes = np.bincount(codes)
        if len(sizes) < 2:
            raise InvalidArgument(
                "dependence",
                "at least two clusters, or give the training part yourself (train=…)",
                repr(self),
            )
        chosen = np.zeros(len(sizes), dtype=np.bool_)
        room = share * len(codes)
        for i in rng.permutation(len(sizes)):
            # The training part gets fewer than all rows, so at least one cluster stays protected.
            if sizes[i] <= room:
                chosen[i] = True
                room -= sizes[i]
        if not chosen.any():
            chosen[np.argmin(sizes)] = True
        train = chosen[codes]
        left = sizes[~chosen].tolist()
        rest = replace(self, sizes=tuple(left)) if self.column is None else self.with_sizes(left)
        return Split(train, ~train, rest, 0.0, self.assumptions)

    def fresh(self, beta: float = 0.05) -> Split:
        """Every row: a cluster belongs to one epoch as a whole.

        >>> Clusters([2, 2]).fresh().assumptions[-1]
        'No cluster has rows in two epochs, and clusters of different epochs are independent.'
        """
        return all_fresh(
            self, "No cluster has rows in two epochs, and clusters of different epochs are independent."
        )

    def leakage(self, mechanism: MechanismLike) -> float:
        """The Bayesian DP of one mechanism, exactly: the largest over all laws with these clusters.

        ``mechanism``: as for ``Independent.leakage``.
        Guarantee: the largest change of an output's log-probability between datasets that differ inside one
        cluster, which some law inside the clusters leaks; rounded up.
        Assumes: independent clusters (not checkable from the data).
        Reference: BDP (3) and (4).
        """
        return worst_leakage(mechanism, self.cluster_sizes)

    def scaled_to(self, n: int, *, of: str = "scaled_to") -> Dependence:
        """``n`` rows in clusters whose sizes have the same proportions."""
        if n == self.n:
            return self
        square = sum(size * size for size in self.cluster_sizes) / self.n
        return SimilarClusters(n, self.most, square, extra_assumptions=self.extra_assumptions)

    _printed_route: ClassVar[str] = "group"

    def _routes(self) -> Routes:
        return group_routes(self.most)


@dataclass(frozen=True, repr=False)
class SimilarClusters(Dependence):
    """``n`` rows in independent clusters like given ones, for planning.

    No cluster has more rows than ``largest``, and the sum of the squares of their sizes is ``square`` times
    ``n``.
    """

    n: int
    largest: int
    square: float

    name: ClassVar[str] = "independent clusters"

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"The rows form independent clusters of at most {self.largest:,} rows, in sizes like the given "
            "ones; inside a cluster rows may depend in any way.",
        )

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        tail = from_squared_differences(self.square * (hi - lo) ** 2 / self.n)
        return (TailRow("whole clusters", "McDiarmid 1989, one step a cluster", tail),)

    def scaled_to(self, n: int, *, of: str = "scaled_to") -> SimilarClusters:
        """``n`` rows in clusters of the same proportions."""
        return self if n == self.n else replace(self, n=n)

    def statistic_tail(self) -> SubGaussian:
        """McDiarmid's bound with a cluster as one step."""
        return from_squared_differences(self.square / self.n)

    def planned_split(self, share: float, beta: float) -> PlannedSplit:
        """Whole clusters, up to the size of one."""
        return _independent_parts(self, share)

    _printed_route: ClassVar[str] = "group"

    def _routes(self) -> Routes:
        return group_routes(self.largest)


def _independent_parts(model: Independent | SimilarClusters, share: float) -> PlannedSplit:
    if model.n < 2:
        raise NotEnoughRows(2, model.n, what="Setting a training part aside")
    training = part_size(share, model.n)
    return PlannedSplit(training, model.scaled_to(model.n - training), 0.0)


def _checked_sizes(sizes: Any) -> tuple[int, ...]:
    if isinstance(sizes, (str, bytes)) or not np.iterable(sizes):
        raise InvalidArgument(
            "sizes",
            "a sequence of whole numbers; for the name of a column write Clusters(column=…)",
            sizes,
            of="Clusters",
        )
    plain = np.asarray(sizes)
    numbers = plain.ndim == 1 and plain.dtype.kind in "iu" and (plain >= 1).all()
    # numpy would silently turn a bool in a list of whole numbers into a number.
    if numbers and (isinstance(sizes, np.ndarray) or {bool, np.bool_}.isdisjoint(map(type, sizes))):
        checked = tuple(plain.tolist())
    else:
        checked = tuple(checks.whole(size, f"sizes[{i}]", of="Clusters") for i, size in enumerate(sizes))
    if not checked:
        raise InvalidArgument("sizes", "at least one cluster", sizes, of="Clusters")
    return checked
