"""The shares of a finite list of categories, rounded to a lattice of shares (SIS Theorem 6.14)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record
from holdfast.replicable._arguments import chance
from holdfast.replicable._joint import draw_shares, shares_plan, shares_promise
from holdfast.replicable._least import least_whole
from holdfast.replicable._packing import MOST_DIMENSIONS
from holdfast.replicable._result import Result
from holdfast.replicable._simplex import CELLS, error_tail
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["histogram", "histogram_rows"]

Floats = npt.NDArray[np.float64]

_WIDTHS = 8192
# Up to so many categories the law of the rounding error is computed cell by cell.
_EXACT = 128


@dataclass(frozen=True, repr=False)
class HistogramGrid(Record):
    """A lattice of shares in steps of ``width``."""

    width: float
    rows: int


def _mismatch(rows: int, categories: int, width: float) -> float:
    """P(two samples differ), at most: Σ_{i<j} E|δ_i − δ_j|/(k·width) for δ the difference of their shares."""
    spread = (categories - 1.0) / math.sqrt(categories)
    return spread * math.sqrt(2.0 * (rows + 1.0 / math.pi) / math.pi) / (rows * width)


@lru_cache(maxsize=64)
def _rounding(categories: int) -> tuple[Floats, Floats]:
    """Distances v, in steps of the lattice, and upper bounds on P(rounding error > v)."""
    distances = np.linspace(0.0, categories / 4.0, CELLS + 1)
    if categories <= _EXACT:
        return distances, error_tail(categories)
    # The error is at most max(ΣU⁺, ΣU⁻) for k − 1 uniforms on [−½, ½]: twice Chernoff's bound for one.
    rates = np.geomspace(0.01, 10.0, 200)[:, None] * math.sqrt(_EXACT / categories)
    logs = (categories - 1) * np.log(0.5 + np.expm1(rates / 2.0) / rates) - rates * distances
    return distances, np.minimum(2.0 * np.exp(np.minimum(logs.min(axis=0), 0.0)), 1.0)


def _failure(rows: int, categories: int, width: float, accuracy: float) -> float:
    """P(TV(p̂, p) + rounding > accuracy), at most: McDiarmid for the first, the exact cell for the second."""
    if categories == 2:  # a single share: Hoeffding at every rounding error, integrated over the error
        edges = 2.0 * math.sqrt(rows) * (accuracy + np.array([0.5, -0.5]) * width)
        upper, lower = ndtr(-edges)
        return math.sqrt(2.0 * math.pi / rows) / width * float(lower - upper)
    distances, tail = _rounding(categories)
    room = np.maximum(accuracy - 0.5 * math.sqrt((categories - 1) / rows) - width * distances, 0.0)
    miss = np.exp(-2.0 * rows * room**2)
    return float(miss[0] + (np.diff(miss) * tail[:-1]).sum())


@lru_cache(maxsize=256)
def _grid(categories: int, accuracy: float, rho: float, beta: float) -> HistogramGrid:
    """The width that needs the fewest rows; it depends on the promise alone, never on a sample."""
    unit = 8.0 * accuracy / categories / (_WIDTHS // 4)

    def needed(index: int) -> int:
        found = least_whole(lambda n: _mismatch(n, categories, index * unit) <= rho)
        if found is None:
            raise InvalidArgument("rho", "large enough for some sample below 2⁶² rows", rho, of="histogram")
        return found

    low, high = 0, _WIDTHS
    while high - low > 1:
        middle = (low + high) // 2
        if _failure(needed(middle), categories, middle * unit, accuracy) <= beta:
            low = middle
        else:
            high = middle
    if low == 0:
        raise InvalidArgument("beta", "large enough for some sample below 2⁶² rows", beta, of="histogram")
    return HistogramGrid(low * unit, needed(low))


def round_shares(shares: npt.ArrayLike, width: float, coins: npt.ArrayLike) -> Floats:
    """The nearest point of a shifted lattice of shares that sum to 1; then no share is left negative.

    The lattice is width·(whole numbers with sum 0); ``coins`` are k − 1 uniforms that shift it. Leading axes
    are samples.
    """
    values, shift = np.asarray(shares, dtype=np.float64), np.asarray(coins, dtype=np.float64)
    scaled = values[..., :-1] / width - shift
    scaled = np.concatenate([scaled, -scaled.sum(axis=-1, keepdims=True)], axis=-1)
    whole = np.rint(scaled)
    # Where the whole numbers do not sum to 0, those rounded the farthest the wrong way step back.
    excess = whole.sum(axis=-1, keepdims=True)
    place = np.argsort(np.argsort(scaled - whole, axis=-1, kind="stable"), axis=-1, kind="stable")
    whole += (place >= values.shape[-1] + excess).astype(np.float64) - (place < excess)
    most = (whole[..., :-1] + shift) * width
    last = 1.0 - np.apply_along_axis(math.fsum, -1, most)
    kept = np.maximum(np.concatenate([most, last[..., None]], axis=-1), 0.0)
    settled: Floats = kept / np.apply_along_axis(math.fsum, -1, kept)[..., None]
    return settled


def _parameters(
    categories: int, accuracy: Any, rho: Any, beta: Any, of: str
) -> tuple[int, float, float, float]:
    by = "SIS Theorem 6.14"
    return (
        checks.whole(categories, "categories", at_least=2, at_most=100_000, of=of, by=by),
        checks.real(accuracy, "accuracy", "(0, 1)", of=of, by=by),
        chance(rho, "rho", of=of, by=by),
        chance(beta, "beta", of=of, by=by),
    )


def _listed(categories: Any, of: str) -> Sequence[Any]:
    if isinstance(categories, (int, float, np.number)) and not isinstance(categories, bool):
        return range(checks.whole(categories, "categories", at_least=2, of=of))
    try:
        listed = list(categories)
        if len(set(listed)) == len(listed) >= 2:
            return listed
    except TypeError:
        pass
    raise InvalidArgument("categories", "at least two different values, or how many", categories, of=of)


def _method(method: Any, categories: int, of: str) -> None:
    checks.choice(method, "method", ("lattice", "joint"), of=of)
    if method == "joint" and categories > MOST_DIMENSIONS + 1:
        expected = f"'lattice' beyond {MOST_DIMENSIONS + 1} categories, where a joint draw takes too long"
        raise InvalidArgument("method", expected, method, of=of)


def histogram_rows(
    *, categories: Any, accuracy: float, rho: float, beta: float = 0.05, method: str = "lattice"
) -> int:
    """The rows that :func:`histogram` needs; ``categories`` is the list, or how many.

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold on
    the grids that are searched.
    Assumes: as :func:`histogram`.
    Reference: Holdfast; SIS Theorem 6.14 states O(k² ln(1/ρ)/(α²ρ²)) for the expected distance.

    >>> histogram_rows(categories=4, accuracy=0.1, rho=0.1)
    11784
    """
    of = "histogram_rows"
    promise = _parameters(len(_listed(categories, of)), accuracy, rho, beta, of)
    _method(method, promise[0], of)
    return shares_plan(*promise).rows if method == "joint" else _grid(*promise).rows


def histogram(
    items: Any,
    categories: Any,
    *,
    accuracy: float,
    rho: float,
    tape: Tape,
    beta: float = 0.05,
    best_effort: bool = False,
    method: str = "lattice",
) -> Result:
    """The share of each category, all within ``accuracy`` in total variation, the same on a fresh sample.

    ``method="lattice"`` rounds all shares to a shared lattice. ``"joint"`` is the paper's way: normal noise
    for all shares together, for at most 21 categories, where the lattice needs fewer rows.

    Guarantee: two samples and one tape give different shares with probability at most ``rho``; the total
    variation distance ½Σ|value − truth| exceeds ``accuracy`` with probability at most ``beta``. The
    shares are at least 0 and sum to 1. With more rows than needed both still hold, also when the two
    samples differ in size.
    Assumes: independent rows from one law on ``categories`` (an item outside is refused). Both
    laboratories list the categories in the same order.
    Reference: SIS Theorem 6.14; rounding and constants Holdfast.

    >>> items = np.random.default_rng(1).choice(["a", "b", "c"], size=60_000, p=[0.5, 0.3, 0.2])
    >>> histogram(items, ["a", "b", "c"], accuracy=0.1, rho=0.1, tape=Tape("study-7")).value.round(3).tolist()
    [0.516, 0.28, 0.203]
    """
    of = "histogram"
    tape = tape_argument(tape, of=of)
    listed = _listed(categories, of)
    count, accuracy, rho, beta = _parameters(len(listed), accuracy, rho, beta, of)
    try:
        values = items.tolist() if isinstance(items, np.ndarray) else list(items)
        counted = Counter(values)
    except TypeError:
        raise InvalidArgument("items", "a list of categories", items, of=of) from None
    counts = np.array([counted.pop(category, 0) for category in listed], dtype=np.float64)
    if counted:
        raise InvalidArgument("items", "all in categories", next(iter(counted)), of=of)
    _method(method, count, of)
    if method == "joint":
        return _drawn(counts, tuple(listed), (accuracy, rho, beta), tape, best_effort)
    grid, rows = _grid(count, accuracy, rho, beta), len(values)
    if rows < (1 if best_effort else grid.rows):
        raise NotEnoughRows(grid.rows, rows, what="A histogram with this promise")
    if rows < grid.rows:
        rho = rounding.probability(_mismatch(rows, count, grid.width))
        beta = rounding.probability(_failure(rows, count, grid.width, accuracy))
    shares = round_shares(counts / rows, grid.width, tape.branch("histogram").uniforms(count - 1))
    return Result(
        shares,
        Replicability(rho),
        accuracy,
        beta,
        rows=rows,
        tape=str(tape),
        details={"categories": tuple(listed), "width": grid.width, "needed": grid.rows},
    )


def _drawn(
    counts: Floats,
    listed: tuple[Any, ...],
    promise: tuple[float, float, float],
    tape: Tape,
    best_effort: bool,
) -> Result:
    """The histogram by one joint draw."""
    accuracy, rho, beta = promise
    plan, rows = shares_plan(counts.size, accuracy, rho, beta), int(counts.sum())
    if rows < (1 if best_effort else plan.rows):
        raise NotEnoughRows(plan.rows, rows, what="A histogram with this promise")
    if rows < plan.rows:
        rho, beta = shares_promise(counts.size, plan, accuracy, rows)
    return Result(
        draw_shares(counts / rows, plan.width, tape.branch("histogram").branch("joint")),
        Replicability(rho),
        accuracy,
        beta,
        rows=rows,
        tape=str(tape),
        details={"categories": listed, "method": plan.method, "width": plan.width, "needed": plan.rows},
    )
