"""The shares of a finite list of categories, rounded to a lattice of shares (SIS Theorem 6.14)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, ndtr

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.replicable._correlated import MOST_DIMENSIONS
from holdfast.replicable._design import Design, Result, least_rows, promise_arguments
from holdfast.replicable._joint import draw_shares, shares_design
from holdfast.replicable._tape import Floats, Tape, tape_argument

__all__ = ["CELLS", "error_tail", "histogram", "histogram_rows"]

_WIDTHS = 8192
# Up to this many categories the law of the rounding error is computed cell by cell.
_EXACT = 128


def histogram(
    items: Iterable[Hashable],
    categories: Iterable[Hashable] | int,
    *,
    accuracy: float,
    rho: float,
    tape: Tape,
    beta: float = 0.05,
    best_effort: bool = False,
    method: Literal["lattice", "joint"] = "lattice",
) -> Result[Floats]:
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

    Args:
        items: The items, one for each row: texts, numbers or tuples of them.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.
        method: "lattice" or "joint".

    >>> items = np.random.default_rng(1).choice(["a", "b", "c"], size=60_000, p=[0.5, 0.3, 0.2])
    >>> histogram(items, ["a", "b", "c"], accuracy=0.1, rho=0.1, tape=Tape("study-7")).value.round(3).tolist()
    [0.516, 0.28, 0.203]
    """
    of = "histogram"
    tape = tape_argument(tape, of=of)
    listed = _listed(categories, of)
    parameters = _parameters(len(listed), accuracy, rho, beta, of)
    try:
        values = items.tolist() if isinstance(items, np.ndarray) else list(items)
        counted = Counter(values)
    except TypeError:
        raise InvalidArgument("items", "a list of categories", items, of=of) from None
    counts = np.array([counted.pop(category, 0) for category in listed], dtype=np.float64)
    if counted:
        raise InvalidArgument("items", "all in categories", next(iter(counted)), of=of)
    _method(method, len(listed), of)
    if method == "joint":
        drawn = shares_design(*parameters)
        kept_design = drawn.kept_by(
            len(values), best_effort=best_effort, what="A histogram with this promise"
        )
        coins = tape.branch("histogram").branch("joint")
        details = {"categories": tuple(listed), "method": method, "width": drawn.width, "needed": drawn.rows}
        return kept_design.result(draw_shares(counts / kept_design.rows, drawn.width, coins), tape, details)
    design = _design(*parameters)
    kept_design = design.kept_by(len(values), best_effort=best_effort, what="A histogram with this promise")
    uniforms = tape.branch("histogram").uniforms(design.categories - 1)
    shares = round_shares(counts / kept_design.rows, design.width, uniforms)
    details = {"categories": tuple(listed), "width": design.width, "needed": design.rows}
    return kept_design.result(shares, tape, details)


def histogram_rows(
    *,
    categories: Iterable[Hashable] | int,
    accuracy: float,
    rho: float,
    beta: float = 0.05,
    method: Literal["lattice", "joint"] = "lattice",
) -> int:
    """The rows that :func:`histogram` needs; ``categories`` is the list, or how many.

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold on
    the grids that are searched.
    Assumes: as :func:`histogram`.
    Reference: Holdfast; SIS Theorem 6.14 states O(k² ln(1/ρ)/(α²ρ²)) for the expected distance.

    Args:
        method: "lattice" or "joint".

    >>> histogram_rows(categories=4, accuracy=0.1, rho=0.1)
    11784
    """
    of = "histogram_rows"
    promise = _parameters(len(_listed(categories, of)), accuracy, rho, beta, of)
    _method(method, promise[0], of)
    return shares_design(*promise).rows if method == "joint" else _design(*promise).rows


def _method(method: str, categories: int, of: str) -> None:
    checks.choice(method, "method", ("lattice", "joint"), of=of)
    if method == "joint" and categories > MOST_DIMENSIONS + 1:
        expected = f"'lattice' beyond {MOST_DIMENSIONS + 1} categories, where a joint draw takes too long"
        raise InvalidArgument("method", expected, method, of=of)


def _parameters(
    categories: int, accuracy: float, rho: float, beta: float, of: str
) -> tuple[int, float, float, float]:
    by = "SIS Theorem 6.14"
    count = checks.whole(categories, "categories", at_least=2, at_most=100_000, of=of, by=by)
    return count, *promise_arguments(accuracy, rho, beta, of=of, by=by)


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


@dataclass(frozen=True)
class HistogramDesign(Design):
    """A lattice of the shares of ``categories`` categories, in steps of ``width``."""

    categories: int
    width: float

    def mismatch(self, rows: int) -> float:
        return rounding.probability(_mismatch(rows, self.categories, self.width))

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        return rounding.probability(_failure(rows, self.categories, self.width, self.accuracy))


@lru_cache(maxsize=256)
def _design(categories: int, accuracy: float, rho: float, beta: float) -> HistogramDesign:
    """The width that needs the fewest rows; it depends on the promise alone, never on a sample."""
    unit = 8.0 * accuracy / categories / (_WIDTHS // 4)

    def needed(index: int) -> int:
        return least_rows(lambda n: _mismatch(n, categories, index * unit) <= rho, "rho", rho, of="histogram")

    def accurate(index: int) -> bool:
        return _failure(needed(index), categories, index * unit, accuracy) <= beta

    widest = search.whole_edge(accurate, 0, _WIDTHS)
    if widest == 0:
        raise InvalidArgument("beta", "large enough for some sample below 2⁶² rows", beta, of="histogram")
    return HistogramDesign(accuracy, rho, beta, needed(widest), categories, widest * unit)


def _mismatch(rows: int, categories: int, width: float) -> float:
    """P(two samples differ), at most: Σ_{i<j} E|δ_i − δ_j|/(k·width) for δ the difference of their shares."""
    spread = (categories - 1.0) / math.sqrt(categories)
    return spread * math.sqrt(2.0 * (rows + 1.0 / math.pi) / math.pi) / (rows * width)


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


@lru_cache(maxsize=64)
def _rounding(categories: int) -> tuple[Floats, Floats]:
    """Distances v, in steps of the lattice, and upper bounds on P(rounding error > v)."""
    distances = np.linspace(0.0, categories / 4.0, CELLS + 1)
    if categories <= _EXACT:
        return distances, error_tail(categories)
    # The error is at most max(ΣU⁺, ΣU⁻) for k − 1 uniforms on [−½, ½]: twice Chernoff's bound for one of
    # them.
    rates = np.geomspace(0.01, 10.0, 200)[:, None] * math.sqrt(_EXACT / categories)
    logs = (categories - 1) * np.log(0.5 + np.expm1(rates / 2.0) / rates) - rates * distances
    return distances, np.minimum(2.0 * np.exp(np.minimum(logs.min(axis=0), 0.0)), 1.0)


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


# How far, in total variation, the nearest point of a randomly shifted lattice of shares is. In steps of the
# lattice the error is a − ā for a = (0, V_1, …, V_{k−1}) with independent uniform V: the cell is {Σe = 0,
# |e_i − e_j| ≤ 1}, and e − min e has uniform coordinates except for the least, which is 0.
CELLS = 4096
_SLICE = 1 / 256
_POINTS = 3000
_NEGLIGIBLE = 1e-12
_FIRST = 2


def _sums_of_uniforms(most: int, points: int) -> list[Floats]:
    """P(U_1 + … + U_m ≤ i/points) for m = 0 … most and i = 0 … m·points.

    The density of the sum is a B-spline; its recursion adds positive terms only, so it loses no digits.
    """
    laws = [np.ones(1), np.arange(points + 1) / points]
    spline = np.ones(points)  # of order 1, on [0, 1)
    for order in range(2, most + 2):
        x = np.arange(order * points) / points
        rising, falling = np.zeros(x.size), np.zeros(x.size)
        rising[: spline.size] = spline
        falling[points:] = spline
        spline = (x * rising + (order - x) * falling) / (order - 1)
        if order > 2:
            shifts = spline.reshape(order, points)
            summed = np.minimum(np.cumsum(shifts, axis=0).ravel()[: (order - 1) * points], 1.0)
            laws.append(np.append(summed, 1.0))
    return laws


def _choose(count: int, chosen: int, chance: float) -> float:
    """The binomial probability, 0 < chance < 1."""
    log = float(gammaln(count + 1) - gammaln(chosen + 1) - gammaln(count - chosen + 1))
    return math.exp(log + chosen * math.log(chance) + (count - chosen) * math.log1p(-chance))


def _at(law: Floats, index: npt.NDArray[np.int64]) -> Floats:
    """The cumulative law at lattice points, 0 below the first and 1 above the last."""
    cumulative: Floats = np.where(index < 0, 0.0, law[np.clip(index, 0, law.size - 1)])
    return cumulative


@lru_cache(maxsize=64)
def error_tail(categories: int) -> Floats:
    """P(½Σ|a_j − ā| > i·k/(4N)) for i = 0 … N, at most; N is ``CELLS``. Below 2/5 of N the bound is 1.

    For ā between c and c' the distance is at most Σ(a_j − c)⁺. Given how many V exceed c, their sum and the
    sum of the others are independent sums of uniforms, so slice by slice one convolution remains.
    """
    points = -(-_POINTS // categories)
    laws = _sums_of_uniforms(categories - 1, points)
    mass = np.zeros(CELLS + 1)
    for number in range(1, math.ceil((categories - 1) / categories / _SLICE)):
        low, high = number * _SLICE, (number + 1) * _SLICE
        least_sum, most_sum = (math.floor(categories * end * points) for end in (low, high))
        within, before = _at(laws[-1], np.array([most_sum + 1, least_sum]))
        if within < _NEGLIGIBLE or 1.0 - before < _NEGLIGIBLE:
            mass[-1] += _NEGLIGIBLE
        else:
            mass += _slice(categories, laws, points, low, high)
    beyond = np.cumsum(mass[::-1])[::-1]
    tail: Floats = np.minimum(np.append(beyond[1:], 0.0), 1.0)
    tail[: _FIRST * CELLS // 5] = 1.0
    return tail


def _slice(categories: int, laws: list[Floats], points: int, low: float, high: float) -> Floats:
    """Masses of the cells of Σ(a_j − low)⁺ on low < ā ≤ high, at most; only cells from 2/5 of N count."""
    mass = np.zeros(CELLS + 1)
    step = categories / 4.0 / CELLS
    first = math.floor(_FIRST / 5 * categories / 4.0 / (1.0 - low) * points) - 1
    for above in range(1, categories):
        chance = _choose(categories - 1, above, 1.0 - low)
        last = laws[above].size - 1
        if chance < _NEGLIGIBLE or first >= last:
            mass[-1] += chance if first < last else 0.0
            continue
        cells = np.arange(first, last)
        below = laws[categories - 1 - above]
        reach = (categories * high - above * low) / low * points
        start = (categories - above) * points
        ratio = (1.0 - low) / low
        highest = np.ceil(reach - ratio * cells).astype(np.int64)
        # The lower edge belongs to the slice before; only a sum without terms has an atom there.
        lowest = np.floor(start - ratio * (cells + 1)).astype(np.int64) - (below.size == 1)
        part = chance * np.diff(laws[above][first:]) * (_at(below, highest) - _at(below, lowest))
        place = np.minimum(np.ceil((1.0 - low) / points / step * (cells + 1)).astype(np.int64), CELLS)
        mass += np.bincount(place, weights=part, minlength=CELLS + 1)
    return mass
