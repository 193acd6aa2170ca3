"""Dependency graphs and m-dependence: Janson's inequality."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence import _bayesian
from holdfast.dependence._best import TailRow
from holdfast.dependence._colouring import ChromaticNumber, chromatic_number
from holdfast.dependence._cut import best_cut
from holdfast.dependence._edges import Edges, read_graph
from holdfast.dependence._model import (
    LATER,
    Dependence,
    few,
    from_squared_differences,
    row_differences,
    whole_steps,
)
from holdfast.dependence._split import Split, check_split, contiguous, part_size
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.tails import SubGaussian

if TYPE_CHECKING:
    from holdfast.stability import DP, BayesianDP

_JANSON = "Janson 2004, theorem 2.1"


@dataclass(frozen=True, repr=False)
class DependencyGraph(Dependence):
    """Rows joined by an edge wherever they may depend: rows of which no two are joined are independent.

    ``graph`` is a list of pairs of row numbers (with ``n``), a dictionary {row: neighbours}, a square numpy
    or scipy sparse matrix whose non-zero entries are edges, or any object with ``nodes`` and ``edges``. Rows
    are numbered from 0.

    >>> five_cycle = DependencyGraph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], n=5)
    >>> round(five_cycle.chromatic.value, 9), five_cycle.chromatic.method
    (2.5, 'exact')
    """

    graph: Any = field(compare=False)
    n: int = None  # type: ignore[assignment]  # read from the graph where it says how many rows there are
    _content: bytes = field(init=False, repr=False)

    name: ClassVar[str] = "dependency graph"

    def __post_init__(self) -> None:
        n, edges = read_graph(self.graph, self.n)
        edges.setflags(write=False)
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "graph", edges)
        object.__setattr__(self, "_content", edges.tobytes())

    @property
    def edges(self) -> Edges:
        """The edges as pairs of row numbers i < j, sorted."""
        edges: Edges = self.graph
        return edges

    def _content_of_law(self) -> tuple[Any, ...]:
        return self.n, self.edges

    @property
    def _parameters(self) -> tuple[str, ...]:
        degree = int(np.bincount(self.edges.ravel()).max()) if len(self.edges) else 0
        listed = few(self.edges, "", most=24) if len(self.edges) else ""
        return (f"{len(self.edges):,} edges{f' {listed}' if listed else ''}, at most {degree:,} at one row",)

    def _visible(self) -> dict[str, Any]:
        return {"n": self.n, "edges": self.edges.tolist()}

    def __repr__(self) -> str:
        return f"DependencyGraph(n={self.n}, edges={len(self.edges)})"

    @cached_property
    def chromatic(self) -> ChromaticNumber:
        """The fractional chromatic number, or a safe upper bound on it, and which of the two it is."""
        return chromatic_number(self.n, self.edges)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"Rows of which no two are joined by one of the graph's {len(self.edges):,} edges are mutually "
            "independent.",
        )

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        value, method = self.chromatic.value, self.chromatic.method
        spread = (hi - lo) ** 2
        cover = from_squared_differences(value * spread / self.n)
        rows = [TailRow("fractional chromatic number", f"{_JANSON}; χ = {value:.6g} ({method})", cover)]
        if self.chromatic.class_sizes:
            # Janson's proof before its last step, Cauchy–Schwarz: with groups A_j the exponent is −2t²/T²,
            # T = Σ_j √(Σ_{i∈A_j} c_i²), which is smaller where the groups differ much in size.
            total = float(np.sqrt(np.array(self.chromatic.class_sizes, dtype=float)).sum()) / self.n
            groups = from_squared_differences(total * total * spread)
            rows.append(
                TailRow("groups of a colouring", f"{_JANSON}, its proof with the groups' sizes", groups)
            )
        return tuple(rows)

    def split(self, share: Any, rng: Any, beta: Any = 0.05) -> Split:
        """Two parts with no edge between them; the rows that would join them are dropped.

        Proof that the bias is 0: the cut is made from the graph alone, and two groups of rows without an edge
        between them are independent. That is more than ``mean_tail`` assumes (three fair coins, the third the
        sum of the other two, are pairwise independent), so the split states it as an assumption of its own.

        >>> path = DependencyGraph([(i, i + 1) for i in range(99)], n=100)
        >>> parts = path.split(0.5, np.random.default_rng(0))
        >>> parts.dropped, parts.bias
        (1, 0.0)
        """
        share, rng, _ = check_split(share, rng, beta, of="DependencyGraph")
        cut = best_cut(self.n, self.edges, share, rng)
        if cut is None:
            raise InvalidArgument(
                "dependence",
                "a graph that can be cut into two parts with no edge between them; here give the training "
                "part yourself (train=…) or bring a guess with every question",
                repr(self),
                reference="theory 2.2, the training part",
            )
        train, protected = cut
        place = np.cumsum(protected) - 1
        inside = protected[self.edges].all(axis=1)
        rest = DependencyGraph(
            place[self.edges[inside]], n=int(protected.sum()), extra_assumptions=self.extra_assumptions
        )
        joint = (
            "Two groups of rows with no edge of the given graph between them are independent of each other."
        )
        return Split(train, protected, rest, 0.0, (*self.assumptions, joint))


@dataclass(frozen=True, repr=False)
class MDependent(Dependence):
    """``n`` rows in order, where rows more than ``m`` places apart are independent.

    >>> independent, window = MDependent(1000, 0), MDependent(1000, 3)
    >>> round(window.mean_tail(0, 1).radius(0.05) / independent.mean_tail(0, 1).radius(0.05), 6)
    2.0
    """

    n: int
    m: int

    name: ClassVar[str] = "m-dependent rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.whole(self.n, "n", of="MDependent"))
        object.__setattr__(self, "m", checks.whole(self.m, "m", at_least=0, of="MDependent"))

    @property
    def _parameters(self) -> tuple[str, ...]:
        return (f"m = {self.m:,}",)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (f"Groups of rows that stand more than {self.m} places apart in the table are independent.",)

    def log_remembered(self, steps: Any) -> NDArray[np.float64]:
        """ln 1 up to ``m`` steps, ln 0 beyond: groups of rows more than m places apart are independent.

        >>> MDependent(100, 4).log_remembered([0, 4, 5]).tolist()
        [0.0, 0.0, -inf]
        """
        return np.where(whole_steps(steps) <= self.m, 0.0, -np.inf)

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        groups = min(self.m + 1, self.n)
        tail = from_squared_differences(groups * (hi - lo) ** 2 / self.n)
        return (TailRow(f"every {groups}-th row", f"{_JANSON}; χ = {groups} (exact)", tail),)

    def difference_tail(self, differences: Any) -> SubGaussian:
        """The tail of any statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ_k C_k²), for a statistic fixed in advance, C_k the sum of
        the differences of the k-th stretch of max(m, 1) rows and of the m rows after it.
        Assumes: m-dependence and the differences (not checkable from the data).
        Reference: McDiarmid 1989, a stretch at a time; ``docs/theory/dependence.md``.

        >>> round(MDependent(1000, 3).difference_tail(0.001).sigma, 6)
        0.054701
        """
        c = row_differences(differences, self.n, of="MDependent")
        before = np.concatenate([[0.0], np.cumsum(c)])
        first = np.arange(0, self.n, max(self.m, 1))
        reached = before[np.minimum(first + max(self.m, 1) + self.m, self.n)] - before[first]
        slack = 8.0 * self.n * float(np.finfo(float).eps) * before[-1]
        return from_squared_differences(rounding.up(float(((reached + slack) ** 2).sum())))

    @property
    def _stretched(self) -> int:
        """Σ_k s_k², s_k the number of rows in the k-th stretch of max(m, 1) rows and the m rows after it.

        It stands where n stands for independent rows.
        """
        length = max(self.m, 1)
        whole = max(0, (self.n - self.m) // length)
        rest = [min(length + self.m, self.n - first) for first in range(whole * length, self.n, length)]
        return min(self.n**2, whole * (length + self.m) ** 2 + sum(size * size for size in rest))

    def bayesian_dp(self, dp: DP, method: str = "sharp") -> BayesianDP:
        """The Bayesian DP of a pure DP mechanism: the number of rows times its parameter, by any method
        ("sharp", "quilt", "group"); its own parameter where m = 0.

        Guarantee: whoever knows any of the other rows learns no more than this about a row. Known rows in
        between may tie rows together that are far apart, so m does not enter. What is told about all rows
        together is far less (``docs/theory/reusable-holdout.md``).
        Assumes: m-dependence (not checkable from the data).
        Reference: BDP Lemma 2 with the empty quilt.
        """
        return _bayesian.bayesian_dp(self, _bayesian.group_routes(self._tied), dp, method)

    def required_dp(self, bdp: BayesianDP, method: str = "sharp") -> DP:
        """The DP parameter that suffices for ``bdp`` on these rows; methods as in ``bayesian_dp``."""
        return _bayesian.required_dp(self, _bayesian.group_routes(self._tied), bdp, method)

    @property
    def _tied(self) -> int:
        return 1 if self.m == 0 else self.n

    def split(self, share: Any, rng: Any, beta: Any = 0.05) -> Split:
        """The first rows, then ``m`` rows dropped, then the protected rows.

        Proof that the bias is 0: the last training row and the first protected row are m + 1 places apart,
        and groups of rows more than m places apart are independent.

        >>> parts = MDependent(100, 4).split(0.5, np.random.default_rng(0))
        >>> parts.dropped, parts.protected_model
        (4, MDependent(n=48, m=4))
        """
        share, rng, _ = check_split(share, rng, beta, of="MDependent")
        usable = self.n - self.m
        if usable < 2:
            raise NotEnoughRows(self.m + 2, self.n, what="Setting a training part aside")
        size = part_size(share, usable)
        rest = MDependent(usable - size, self.m, extra_assumptions=self.extra_assumptions)
        return Split(*contiguous(size, self.m, self.n), rest, 0.0, self.assumptions)

    def fresh(self, beta: Any = 0.05) -> Split:
        """All rows but the first ``m``, which earlier rows may reach.

        Proof that the bias is 0: any earlier row and any protected row are more than m places apart.

        >>> MDependent(100, 4).fresh().protected_model
        MDependent(n=96, m=4)
        """
        if self.n <= self.m:
            raise NotEnoughRows(self.m + 1, self.n, what="An epoch after another")
        rest = MDependent(self.n - self.m, self.m, extra_assumptions=self.extra_assumptions)
        return Split(*contiguous(0, self.m, self.n), rest, 0.0, (*self.assumptions, LATER))
