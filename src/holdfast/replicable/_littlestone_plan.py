"""How many rows a Littlestone class needs, by every way: all hypotheses at once, lists of those without a
mistake, and lists from reduction trees, whose size depends on the dimension alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._choose import choose_rows
from holdfast.replicable._deviation import divergence
from holdfast.replicable._least import least_whole
from holdfast.replicable._list_heavy import list_heavy_hitter_rows
from holdfast.replicable._reduction import most_leaves
from holdfast.replicable._shatter import Shatter

__all__ = [
    "LittlestonePlan",
    "LittlestoneWay",
    "Trees",
    "class_argument",
    "consistent_way",
    "plan_littlestone",
    "tree_way",
]

_BY = "SIS Theorem B.1"
_OURS = "Holdfast, docs/theory/littlestone.md"
_MOST_DIMENSIONS = 16
_MOST_ROWS = 2**60
# Shares of the accuracy that the hypotheses of a list may err, and chances that a block misleads, that are
# tried.
_PARTS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_MISLED = (0.3, 0.2, 0.1, 0.05, 0.02)
_CUTS = np.linspace(0.0, 1.0, 66)[1:-1]


@dataclass(frozen=True, repr=False)
class LittlestoneWay(Record):
    """One way to learn the class: ``rows`` in all, in ``lists`` blocks of ``list_rows`` rows.

    A list has at most ``list_size`` hypotheses; some hypothesis is on it with probability at least ``eta``,
    and one that errs on more than the accuracy with probability at most ``bad``.
    """

    name: str
    rows: int
    lists: int
    list_rows: int
    list_size: int
    eta: float
    bad: float
    theorem: str


@dataclass(frozen=True, repr=False)
class LittlestonePlan(Record):
    """Every way to learn a class of this ``dimension``, the one with the fewest rows first."""

    dimension: int
    hypotheses: int | None
    accuracy: float
    rho: float
    beta: float
    ways: tuple[LittlestoneWay, ...]

    @property
    def best(self) -> LittlestoneWay:
        """The way with the fewest rows."""
        return self.ways[0]

    def way(self, name: str) -> LittlestoneWay:
        """The way of this name."""
        for way in self.ways:
            if way.name == name:
                return way
        names = " or ".join(way.name for way in self.ways)
        raise InvalidArgument("name", names, name, of="LittlestonePlan.way")

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {**super().to_dict(), "ways": [way.to_dict() for way in self.ways]}


def plan_littlestone(
    classes: Any = None,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    dimension: Any = None,
    hypotheses: Any = None,
) -> LittlestonePlan:
    """The rows that :func:`learn_littlestone` needs, by every way.

    The class is a table ``classes`` of 0 and 1, or only its Littlestone ``dimension`` and, if it is finite,
    the number of its ``hypotheses``. "choose": all hypotheses compete at once. "consistent": each block
    lists the hypotheses without a mistake. "trees": each block lists what reduction trees lead to; the size
    of a list depends on the dimension and the accuracy alone, so this way serves infinite classes too.

    Guarantee: each size is enough for ``rho``, ``accuracy`` and ``beta`` as :func:`learn_littlestone` says.
    Assumes: as :func:`learn_littlestone`.
    Reference: SIS Theorem B.1; the list learner and every constant: docs/theory/littlestone.md.

    >>> plan = plan_littlestone(dimension=1, hypotheses=10**6, accuracy=0.1, rho=0.1, beta=0.05)
    >>> [(way.name, way.rows) for way in plan.ways]
    [('choose', 109257), ('consistent', 1319220), ('trees', 108754860)]
    """
    of = "plan_littlestone"
    accuracy = checks.real(accuracy, "accuracy", "[1e-6, 1)", of=of, by=_BY)
    rho = checks.real(rho, "rho", "[1e-6, 1)", of=of, by=_BY)
    beta = checks.real(beta, "beta", "[1e-12, 1)", of=of, by=_BY)
    dimension, hypotheses, points = class_argument(classes, dimension, hypotheses, of=of)
    ways = []
    if hypotheses is not None:
        rows = choose_rows(models=hypotheses, accuracy=accuracy, rho=rho, beta=beta, realizable=True)
        ways.append(LittlestoneWay("choose", rows, 1, rows, hypotheses, 1.0, 0.0, "SIS Theorem 5.13"))
        ways.append(consistent_way(hypotheses, accuracy, rho, beta))
    trees = tree_way(dimension, hypotheses, points, accuracy, rho, beta)
    if trees is not None:
        ways.append(trees[0])
    if not ways:
        raise InvalidArgument("dimension", "small enough for fewer than 2⁶⁰ rows", dimension, of=of)
    ordered = tuple(sorted(ways, key=lambda way: way.rows))
    return LittlestonePlan(dimension, hypotheses, accuracy, rho, beta, ordered)


def class_argument(
    classes: Any, dimension: Any, hypotheses: Any, *, of: str
) -> tuple[int, int | None, int | None]:
    """The dimension of the class, and how many hypotheses and points it has if that is known."""
    if classes is not None:
        if dimension is not None or hypotheses is not None:
            raise InvalidArgument("classes", "None where dimension or hypotheses is given", classes, of=of)
        shatter = Shatter(classes, of=of)
        return shatter.dimension(shatter.everything), len(shatter.table), shatter.points
    dimension = checks.whole(dimension, "dimension", at_least=0, at_most=_MOST_DIMENSIONS, of=of, by=_BY)
    if hypotheses is not None:
        hypotheses = checks.whole(hypotheses, "hypotheses", at_most=2**900, of=of, by=_BY)
        if hypotheses < 2**dimension:
            raise InvalidArgument(
                "hypotheses", f"at least 2^{dimension}, as dimension {dimension} needs", hypotheses, of=of
            )
    return dimension, hypotheses, None


def consistent_way(hypotheses: int, accuracy: float, rho: float, beta: float) -> LittlestoneWay:
    """Blocks that list every hypothesis without a mistake: the truth always, a bad one on less than half."""
    eta, bad = 1.0 - 1e-9, 0.49
    block = math.ceil(math.log(bad) / math.log1p(-accuracy))
    lists = list_heavy_hitter_rows(eta=eta, rho=rho, beta=beta, list_size=hypotheses)
    return LittlestoneWay("consistent", lists * block, lists, block, hypotheses, eta, bad, _OURS)


@dataclass(frozen=True)
class Trees:
    """What both laboratories fix: the most mistakes of each level, the depths of its trees, and the
    steadiness."""

    mistakes: tuple[int, ...]
    depths: tuple[int, ...]
    steady: int


@lru_cache(maxsize=256)
def tree_way(
    dimension: int, hypotheses: int | None, points: int | None, accuracy: float, rho: float, beta: float
) -> tuple[LittlestoneWay, Trees] | None:
    """The best lists from reduction trees; None beyond 2⁶⁰ rows."""
    best: tuple[LittlestoneWay, Trees] | None = None
    for part in _PARTS:
        errs = part * accuracy
        steady = _steady(dimension, hypotheses, errs, accuracy)
        if steady is None:
            continue
        steady = min(steady, points or steady)
        depths = tuple((2 ** (dimension - level) - 1) * steady for level in range(dimension + 1))
        leaves = (most_leaves(min(depth, points or depth), dimension) for depth in depths)
        size = sum(min(count, hypotheses or count) for count in leaves)
        for misled in _MISLED:
            levels = _levels(dimension, hypotheses, errs, misled)
            if levels is None or not misled < (1.0 - misled) / 2.0:
                continue
            block, mistakes = levels
            lists = list_heavy_hitter_rows(eta=1.0 - misled, rho=rho, beta=beta, list_size=size)
            if lists * block > _MOST_ROWS or (best is not None and lists * block >= best[0].rows):
                continue
            theorem = "Holdfast, after Ghazi, Golowich, Kumar and Manurangsi 2021"
            way = LittlestoneWay("trees", lists * block, lists, block, size, 1.0 - misled, misled, theorem)
            best = way, Trees(mistakes, depths, steady)
    return best


def _log_growth(rows: int, dimension: int) -> float:
    """ln of the most labellings of ``rows`` rows by a class of this dimension (Sauer)."""
    chosen = np.arange(min(dimension, rows) + 1.0)
    terms = gammaln(rows + 1.0) - gammaln(chosen + 1.0) - gammaln(rows - chosen + 1.0)
    return float(np.logaddexp.reduce(terms)) * (1.0 + 1e-12)


def _log_some_above(rows: int, dimension: int, hypotheses: int | None, truth: float, cut: float) -> float:
    """ln P(some hypothesis that errs on at most ``truth`` has a share of mistakes above ``cut``), at most."""
    if truth == 0.0:
        return -math.inf
    by_growth = math.log(4.0) + _log_growth(2 * rows, dimension) - rows * (cut - truth) ** 2 / (4.0 * cut)
    if hypotheses is None:
        return by_growth
    return min(by_growth, math.log(hypotheses) - rows * divergence(cut, truth))


def _log_some_below(rows: int, dimension: int, hypotheses: int | None, truth: float, cut: float) -> float:
    """ln P(some hypothesis that errs on more than ``truth`` has a share of at most ``cut``), at most."""
    by_growth = math.log(4.0) + _log_growth(2 * rows, dimension) - rows * (truth - cut) ** 2 / (4.0 * truth)
    if hypotheses is None:
        return by_growth
    return min(by_growth, math.log(hypotheses) - rows * divergence(cut, truth))


def _steady(dimension: int, hypotheses: int | None, errs: float, accuracy: float) -> int | None:
    """The least r for which a function that agrees on any r points with members that err on at most
    ``errs`` errs on at most ``accuracy``: some r points of the law must tell the two apart."""

    def tells(rows: int) -> bool:
        for cut in (math.sqrt(errs) + _CUTS * (math.sqrt(accuracy) - math.sqrt(errs))) ** 2:
            above = math.exp(min(0.0, _log_some_above(rows, dimension, hypotheses, errs, float(cut))))
            if above + math.exp(-rows * divergence(float(cut), accuracy)) < 1.0 - 1e-9:
                return True
        return False

    return least_whole(tells, most=2**40)


def _levels(
    dimension: int, hypotheses: int | None, errs: float, misled: float
) -> tuple[int, tuple[int, ...]] | None:
    """The rows of a block, and the most mistakes on it of each level, so that each level holds with 1 −
    ``misled``.

    Level k keeps every hypothesis with at most ``mistakes[k]`` mistakes. The roots of the errors are
    equally spaced, except that the first level, hypotheses without a mistake, needs less.
    """
    step = math.sqrt(errs) / (2.0 * dimension + math.sqrt(2.0))
    edges = [0.0] + [(math.sqrt(2.0) + 2.0 * level) * step for level in range(dimension + 1)]
    cuts = [0.0] + [(math.sqrt(2.0) + 2.0 * level - 1.0) * step for level in range(1, dimension + 1)]

    def mistakes(rows: int) -> tuple[int, ...]:
        return tuple(math.floor(cut * cut * rows) for cut in cuts)

    def holds(rows: int) -> bool:
        for level, most in enumerate(mistakes(rows)):
            low, high = edges[level] ** 2, edges[level + 1] ** 2
            above, below = (most + 1) / rows, most / rows
            if not (low == 0.0 or above > low) or not below < high:
                return False
            miss = sum(
                math.exp(min(0.0, log))
                for log in (
                    _log_some_above(rows, dimension, hypotheses, low, above),
                    _log_some_below(rows, dimension, hypotheses, high, below),
                )
            )
            if miss > misled:
                return False
        return True

    rows = least_whole(holds, most=2**50)
    return None if rows is None else (rows, mistakes(rows))
