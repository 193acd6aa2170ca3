"""Learning a Littlestone class from its table, or from the lists of any learner (SIS Theorem B.1).

The plan says how many rows each way needs: all hypotheses at once, lists of those without a mistake, or lists
from reduction trees, whose size depends on the dimension alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from holdfast import checks, search
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record
from holdfast.replicable._choose import choice_design, choose_rows
from holdfast.replicable._design import Result, way_named
from holdfast.replicable._heavy import list_heavy_hitter, list_heavy_hitter_rows, listed_item
from holdfast.replicable._littlestone import Reduction, Shatter, most_leaves
from holdfast.replicable._rounding import divergence
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.replicable._ways import ChoiceProblem
from holdfast.typing import LittlestoneMethod

__all__ = [
    "LittlestonePlan",
    "LittlestoneWay",
    "Trees",
    "class_argument",
    "consistent_way",
    "learn_littlestone",
    "learn_littlestone_rows",
    "plan_littlestone",
    "tree_way",
]


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

    Args:
        name: The name of the way.
        theorem: Where the number of rows is proved.
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
    """Every way to learn a class of this ``dimension``, the one with the fewest rows first.

    Args:
        hypotheses: How many hypotheses the class has, if this is given.
        accuracy: How far from the truth the result may be.
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        ways: Every way, the one with the fewest rows first.
    """

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
        """The way of this name.

        Args:
            name: The name of a way.
        """
        return way_named(self.ways, name, of="LittlestonePlan.way")

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {**super().to_dict(), "ways": [way.to_dict() for way in self.ways]}


def plan_littlestone(
    classes: npt.ArrayLike | None = None,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    dimension: int | None = None,
    hypotheses: int | None = None,
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

    return search.least_whole(tells, most=2**40)


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

    rows = search.least_whole(holds, most=2**50)
    return None if rows is None else (rows, mistakes(rows))


_BY = "SIS Theorem B.1"
_METHODS = ("best", "choose", "consistent", "trees")
# Rows of the table of mistakes that are made at once, in cells.
_AT_ONCE = 2**24

Whole = npt.NDArray[np.int64]
Hypothesis = TypeVar("Hypothesis", bound=Hashable)


@overload
def learn_littlestone(
    classes: Callable[[Any, Any], Iterable[Hypothesis]],
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    rho: float,
    beta: float,
    tape: Tape,
    accuracy: float | None = None,
    method: LittlestoneMethod = "best",
    list_rows: int | None = None,
    list_size: int | None = None,
    eta: float | None = None,
    bad: float | None = None,
    best_effort: bool = False,
) -> Result[Hypothesis | None]: ...
@overload
def learn_littlestone(
    classes: npt.ArrayLike,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    rho: float,
    beta: float,
    tape: Tape,
    accuracy: float | None = None,
    method: LittlestoneMethod = "best",
    list_rows: int | None = None,
    list_size: int | None = None,
    eta: float | None = None,
    bad: float | None = None,
    best_effort: bool = False,
) -> Result[tuple[int, ...] | None]: ...
def learn_littlestone(
    classes: npt.ArrayLike | Callable[..., Iterable[Hashable]],
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    rho: float,
    beta: float,
    tape: Tape,
    accuracy: float | None = None,
    method: LittlestoneMethod = "best",
    list_rows: int | None = None,
    list_size: int | None = None,
    eta: float | None = None,
    bad: float | None = None,
    best_effort: bool = False,
) -> Result[Any]:
    """A hypothesis that errs on at most ``accuracy`` of the rows, the same on fresh rows.

    ``classes`` is a table of 0 and 1 with a row for each hypothesis and a column for each point; ``x`` are
    numbers of columns, ``y`` their labels. The value is the label of every point, as a tuple; it need not
    be a row of the table. ``method`` is a way of :func:`plan_littlestone`; "best" is the one with the
    fewest rows. ``classes`` may also be a list learner of one's own, ``list_learner(x, y)``, with
    ``list_rows``, ``list_size``, ``eta`` and ``bad`` in place of the accuracy.

    Guarantee: two samples give different hypotheses with probability at most ``rho``; the hypothesis errs
    on more than ``accuracy`` of the rows (for a learner of one's own: is not good, in the sense of ``bad``)
    with probability at most ``beta``.
    Assumes: rows drawn independently; labels of one hypothesis of the class (rows that refute it are
    refused by "choose"). For a learner of one's own: some hypothesis is on the list with probability at
    least ``eta``, and a hypothesis that is not good with probability at most ``bad`` (not checkable);
    ``bad`` < ``eta``/2 and lists of at most ``list_size`` hypotheses (checked).
    Reference: SIS Theorem B.1, by Theorem 6.7; the list learner and the constants:
    docs/theory/littlestone.md.

    Args:
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> points = np.eye(30)  # each hypothesis is 1 at one point
    >>> x = np.random.default_rng(0).integers(0, 30, size=10_000)
    >>> promise = {"accuracy": 0.1, "rho": 0.2, "beta": 0.1}
    >>> hypothesis = learn_littlestone(points, x, x == 7, **promise, tape=Tape("study-7"))
    >>> sum(hypothesis), hypothesis.details["method"]
    (1, 'choose')
    >>> def consistent(x, y):  # thresholds up to 8 that agree with a block
    ...     return [threshold for threshold in range(9) if ((x < threshold) == y).all()]
    >>> setting = dict(list_rows=40, list_size=9, eta=0.9, bad=0.05, rho=0.3, beta=0.1)
    >>> x = np.random.default_rng(0).integers(0, 8, size=learn_littlestone_rows(**setting))
    >>> int(learn_littlestone(consistent, x, x < 5, **setting, tape=Tape("study-7")))
    5
    """
    of = "learn_littlestone"
    tape = tape_argument(tape, of=of)
    points, labels = np.asarray(x), np.asarray(y)
    if points.ndim == 0 or labels.ndim != 1 or len(points) != len(labels):
        raise InvalidArgument("y", "one label for each row of x", y, of=of, reference=_BY)
    if callable(classes):
        own = {"list_rows": list_rows, "list_size": list_size, "eta": eta, "bad": bad}
        return _from_own_lists(classes, points, labels, own, rho, beta, tape, best_effort=best_effort)
    shatter = Shatter(classes, of=of)
    cells = _cells(points, labels, shatter.points, of=of)
    way = _way(classes, accuracy, rho, beta, method)
    assert accuracy is not None  # a way has been found for it
    fewest = 1 if way.name == "choose" else way.list_rows
    if len(cells) < (fewest if best_effort else way.rows):
        raise NotEnoughRows(fewest if best_effort else way.rows, len(cells), what="This learner")
    if way.name == "choose":
        return _chosen(shatter, cells, way, float(accuracy), float(rho), float(beta), tape)
    count = min(way.lists, len(cells) // way.list_rows)
    blocks = cells[: count * way.list_rows].reshape(count, way.list_rows)
    if way.name == "consistent":
        counts = _consistent(shatter, blocks)
    else:
        counts = _by_trees(shatter, blocks, float(accuracy), float(rho), float(beta))
    listed = listed_item(
        counts, count, eta=way.eta, rho=float(rho), beta=float(beta), list_size=way.list_size, tape=tape,
        best_effort=best_effort,
    )  # fmt: skip
    hypothesis: Any = listed.value
    value = None if hypothesis is None else tuple(map(int, hypothesis))
    details = {"method": way.name, "lists": count, "list_rows": way.list_rows, "needed": way.rows}
    return Result(
        value, listed.guarantee, float(accuracy), listed.beta, count * way.list_rows, str(tape), details
    )


def learn_littlestone_rows(
    *,
    rho: float,
    beta: float,
    classes: Any = None,
    accuracy: float | None = None,
    dimension: Any = None,
    hypotheses: Any = None,
    method: LittlestoneMethod = "best",
    list_rows: int | None = None,
    list_size: int | None = None,
    eta: float | None = None,
    bad: float | None = None,
) -> int:
    """The fewest rows from which :func:`learn_littlestone` keeps its promise.

    The class is given as in :func:`plan_littlestone`, or by the numbers of a list learner of one's own:
    then it is lists times rows of a list.

    Guarantee: as :func:`learn_littlestone`.
    Assumes: as :func:`learn_littlestone`.
    Reference: SIS Theorem B.1; constants: docs/theory/littlestone.md.

    >>> learn_littlestone_rows(dimension=1, hypotheses=1000, accuracy=0.1, rho=0.1, beta=0.05)
    27266
    """
    if list_rows is not None:
        lists, rows = _own_lists(list_rows, list_size, eta, bad, rho, beta, of="learn_littlestone_rows")
        return lists * rows
    return _way(classes, accuracy, rho, beta, method, dimension, hypotheses).rows


def _way(
    classes: Any,
    accuracy: Any,
    rho: Any,
    beta: Any,
    method: str,
    dimension: Any = None,
    hypotheses: Any = None,
) -> LittlestoneWay:
    checks.choice(method, "method", _METHODS, of="learn_littlestone")
    plan = plan_littlestone(
        classes, accuracy=accuracy, rho=rho, beta=beta, dimension=dimension, hypotheses=hypotheses
    )
    return plan.best if method == "best" else plan.way(method)


def _cells(points: npt.NDArray[Any], labels: npt.NDArray[Any], count: int, *, of: str) -> Whole:
    """Each row as one number: twice its point, plus its label."""
    expected = f"numbers of points from 0 to {count - 1}"
    if points.ndim != 1 or not bool(np.isin(labels, (0, 1)).all()):
        name, asked = ("x", expected) if points.ndim != 1 else ("y", "labels 0 and 1")
        raise InvalidArgument(name, asked, points if name == "x" else labels, of=of, reference=_BY)
    try:
        whole: Whole = points.astype(np.int64)
        fits = (whole == points) & (whole >= 0) & (whole < count)
    except (TypeError, ValueError):
        fits = np.zeros(1, dtype=bool)
    if not bool(np.all(fits)):
        raise InvalidArgument("x", expected, points, of=of, reference=_BY)
    cells: Whole = 2 * whole + labels.astype(np.int64)
    return cells


def _wrong(shatter: Shatter) -> npt.NDArray[np.float64]:
    """For each cell (a point and its label) and each hypothesis: 1 if that is a mistake."""
    ones = shatter.table.T.astype(np.float64)
    wrong: npt.NDArray[np.float64] = np.stack([ones, 1.0 - ones], axis=1).reshape(-1, len(shatter.table))
    return wrong


def _chosen(
    shatter: Shatter, cells: Whole, way: LittlestoneWay, accuracy: float, rho: float, beta: float, tape: Tape
) -> Result[tuple[int, ...] | None]:
    used = cells[: way.rows]
    mistakes = np.bincount(used, minlength=2 * shatter.points) @ _wrong(shatter)
    if float(mistakes.min()) > 0.0:
        raise InvalidArgument(
            "y", "labels that one hypothesis of the class gives", "others", of="learn_littlestone"
        )
    design = choice_design(ChoiceProblem(len(shatter.table), accuracy, beta, True), rho)
    chosen = design.choose(mistakes / len(used), len(cells), tape, best_effort=True)
    value = tuple(shatter.table[int(chosen)].astype(int).tolist())
    details = {"method": "choose", "lists": 1, "list_rows": len(used), "needed": way.rows}
    return Result(value, chosen.guarantee, accuracy, chosen.beta, len(used), str(tape), details)


def _mistakes(shatter: Shatter, blocks: Whole) -> Iterable[npt.NDArray[np.float64]]:
    """How many mistakes each hypothesis makes on each block, some blocks at a time."""
    wrong = _wrong(shatter)
    at_once = max(1, _AT_ONCE // max(wrong.shape))
    for start in range(0, len(blocks), at_once):
        part = blocks[start : start + at_once]
        counts = np.zeros((len(part), 2 * shatter.points))
        np.add.at(counts, (np.arange(len(part))[:, None], part), 1.0)
        yield counts @ wrong


def _consistent(shatter: Shatter, blocks: Whole) -> dict[Hashable, int]:
    """On how many blocks each hypothesis makes no mistake."""
    without = np.zeros(len(shatter.table), dtype=np.int64)
    for mistakes in _mistakes(shatter, blocks):
        without += (mistakes == 0.0).sum(axis=0)
    names = ("".join("1" if label else "0" for label in row) for row in shatter.table.tolist())
    return {name: int(count) for name, count in zip(names, without, strict=True) if count}


def _by_trees(shatter: Shatter, blocks: Whole, accuracy: float, rho: float, beta: float) -> Counter[Hashable]:
    """On how many lists each hypothesis is that reduction trees lead to."""
    dimension = shatter.dimension(shatter.everything)
    built = tree_way(dimension, len(shatter.table), shatter.points, accuracy, rho, beta)
    assert built is not None  # the plan has this way
    trees, reduction = built[1], Reduction(shatter)
    counts: Counter[Hashable] = Counter()
    for mistakes in _mistakes(shatter, blocks):
        capped = np.minimum(mistakes, trees.mistakes[-1] + 1).astype(np.int32)
        kinds, often = np.unique(capped, axis=0, return_counts=True)
        for kind, times in zip(kinds, often.tolist(), strict=True):
            listed: set[str] = set()
            for most, depth in zip(trees.mistakes, trees.depths, strict=True):
                part = shatter.part_of(kind <= most)
                if part:
                    listed.update(reduction.hypotheses(part, depth, trees.steady))
            counts.update(dict.fromkeys(listed, times))
    return counts


def _from_own_lists(
    list_learner: Callable[[Any, Any], Iterable[Hypothesis]],
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    own: dict[str, Any],
    rho: Any,
    beta: Any,
    tape: Tape,
    *,
    best_effort: bool,
) -> Result[Hypothesis | None]:
    needed, rows = _own_lists(**own, rho=rho, beta=beta, of="learn_littlestone")
    count = min(needed, len(x) // rows)
    if count < (1 if best_effort else needed):
        raise NotEnoughRows((1 if best_effort else needed) * rows, len(x), what="This learner")
    starts = range(0, count * rows, rows)
    lists = [frozenset(list_learner(x[i : i + rows], y[i : i + rows])) for i in starts]
    heavy = list_heavy_hitter(
        lists,
        eta=own["eta"],
        rho=rho,
        beta=beta,
        list_size=own["list_size"],
        tape=tape,
        best_effort=best_effort,
    )
    details = {"method": "own lists", "lists": count, "list_rows": rows}
    return Result(heavy.value, heavy.guarantee, None, heavy.beta, count * rows, str(tape), details)


def _own_lists(
    list_rows: Any, list_size: Any, eta: Any, bad: Any, rho: Any, beta: Any, *, of: str
) -> tuple[int, int]:
    list_rows = checks.whole(list_rows, "list_rows", of=of, by=_BY)
    eta = checks.real(eta, "eta", "(0, 1)", of=of, by=_BY)
    bad = checks.real(bad, "bad", "[0, 0.5)", of=of, by=_BY)
    if not bad < eta / 2.0:
        raise InvalidArgument("bad", "below eta/2", bad, of=of, reference=_BY)
    return list_heavy_hitter_rows(eta=eta, rho=rho, beta=beta, list_size=list_size), list_rows
