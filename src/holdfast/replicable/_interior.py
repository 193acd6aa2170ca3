"""A point inside the sample, and a learner of threshold functions, on an ordered domain.

Both look at an interval of candidates that shrinks as a count threshold is lowered, and both answer with the
coarsest point of the interval: the one whose place in the domain is divisible by the highest power of two.
Such a point is an ancestor, in the binary tree over the domain, of any point the interval must contain, so
only ⌊log2 |domain|⌋ places can make two samples differ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.replicable._design import Design, Result, chance, least_rows, promise_arguments
from holdfast.replicable._rounding import CountThreshold
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["interior_point", "interior_point_rows", "learn_threshold", "learn_threshold_rows", "tree_rows"]

Whole = npt.NDArray[np.int64]

# How far, in standard deviations, the highest threshold stays below the count that must not be reached.
_MARGINS = tuple(i / 4 for i in range(1, 33))
# No size below this is tried.
_START = 20


@overload
def interior_point(
    x: npt.ArrayLike,
    *,
    domain: int,
    rho: float,
    tape: Tape,
    beta: float | None = None,
    best_effort: bool = False,
) -> Result[int]: ...
@overload
def interior_point(
    x: npt.ArrayLike,
    *,
    domain: npt.ArrayLike,
    rho: float,
    tape: Tape,
    beta: float | None = None,
    best_effort: bool = False,
) -> Result[Any]: ...
def interior_point(
    x: npt.ArrayLike,
    *,
    domain: npt.ArrayLike,
    rho: float,
    tape: Tape,
    beta: float | None = None,
    best_effort: bool = False,
) -> Result[Any]:
    """A point of the domain between the least and the largest row, the same on a fresh sample.

    A random number r of rows is dropped at both ends, and the answer is the coarsest point of what is
    left. Exactly ``interior_point_rows`` rows are read, the first ones, so that samples of different
    sizes agree.

    Guarantee: two samples and one tape give different points with probability at most ``rho``; the point is
    between the least and the largest row always (``beta`` is 0).
    Assumes: independent rows from one law on the domain: 0 … ``domain`` − 1, or the listed points.
    Reference: SIS Definition 6.11; algorithm and constants Holdfast.

    Args:
        x: The rows, each a point of the domain.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> ages = np.random.default_rng(1).integers(30, 60, size=10_000)
    >>> interior_point(ages, domain=128, rho=0.1, tape=Tape("study-7")).value
    31
    """
    of = "interior_point"
    tape = tape_argument(tape, of=of)
    size, points = _domain(domain, of)
    places = _places(x, size, points, of)
    design = _interior_design(domain, rho, beta, of=of)
    kept_design = design.kept_by(
        min(places.size, design.rows), best_effort=best_effort, what="An interior point with this promise"
    )
    rows = kept_design.rows
    dropped = _drawn(design.threshold(rows), tape.branch("interior point"))
    ordered = np.partition(places[:rows], (dropped, rows - 1 - dropped))
    place = coarsest(int(ordered[dropped]), int(ordered[rows - 1 - dropped]))
    return kept_design.result(_point(place, points), tape, {"dropped": dropped, "needed": design.rows})


def interior_point_rows(*, domain: npt.ArrayLike, rho: float, beta: float | None = None) -> int:
    """The rows that :func:`interior_point` needs: about 0.54 (log2 |domain| / rho)².

    Guarantee: the smallest number for which the bound of docs/theory/replicable-estimation.md is at most
    ``rho``.
    Assumes: as :func:`interior_point`; ``beta`` is not used, because the point never leaves the sample.
    Reference: Holdfast.

    >>> interior_point_rows(domain=1000, rho=0.1)
    4765
    """
    return _interior_design(domain, rho, beta, of="interior_point_rows").rows


@dataclass(frozen=True)
class InteriorDesign(Design):
    """How many rows to drop, if a point of the domain has this many ``ancestors``."""

    ancestors: int

    def mismatch(self, rows: int) -> float:
        return _interior_plan(rows, self.ancestors)[0]

    def failure(self, rows: int) -> float:
        return 0.0

    def threshold(self, rows: int) -> CountThreshold | None:
        """What the tape picks the count from; None where the rows allow no promise."""
        return _interior_plan(rows, self.ancestors)[1]


def _interior_design(domain: Any, rho: float, beta: float | None, *, of: str) -> InteriorDesign:
    rho = chance(rho, "rho", of=of, by="SIS Definition 6.11")
    if beta is not None:
        chance(beta, "beta", of=of, by="SIS Definition 6.11")
    ancestors = _levels(domain, of)
    rows = least_rows(lambda n: _interior_plan(n, ancestors)[0] <= rho, "rho", rho, of=of, start=_START)
    return InteriorDesign(None, rho, 0.0, rows, ancestors)


@lru_cache(maxsize=4096)
def _interior_plan(rows: int, ancestors: int) -> tuple[float, CountThreshold | None]:
    """The least ρ that ``rows`` rows allow, with its thresholds."""
    best: tuple[float, CountThreshold | None] = (1.0, None)
    for margin in _MARGINS:
        high = math.floor(rows / 2 - margin * math.sqrt(rows) / 2) - 1
        if high < 0:
            break
        threshold = CountThreshold(rows, 0, high)
        rho = ancestors * threshold.mismatch + 4.0 * threshold.below(0.5)
        if rho < best[0]:
            best = (rounding.probability(rho), threshold)
    return best


def tree_rows(ancestors: int, rho: float) -> int | None:
    """The rows for an interior point, if a point has this many ancestors; None beyond 2⁶²."""
    return search.least_whole(lambda n: _interior_plan(n, ancestors)[0] <= rho, above=_START - 1, most=2**62)


@overload
def learn_threshold(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    domain: int,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    best_effort: bool = False,
) -> Result[int]: ...
@overload
def learn_threshold(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    domain: npt.ArrayLike,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    best_effort: bool = False,
) -> Result[Any]: ...
def learn_threshold(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    domain: npt.ArrayLike,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    best_effort: bool = False,
) -> Result[Any]:
    """The z of a threshold function, 1 where x > z, learned from labelled rows; the same on a fresh sample.

    The candidates are the z that contradict at most r labels, for a random r; the answer is the coarsest
    of them. Exactly ``learn_threshold_rows`` rows are read, the first ones, so that samples of different
    sizes agree.

    Guarantee: two samples and one tape give different z with probability at most ``rho``; the error
    P(1[x > z] ≠ y) exceeds ``accuracy`` with probability at most ``beta``.
    Assumes: independent rows whose labels follow one threshold function with z in the domain (labels
    that no z explains are refused).
    Reference: SIS Theorem 6.12; algorithm and constants Holdfast.

    Args:
        x: The rows, each a point of the domain.
        y: The label of each row.
        domain: How many points it has, from 0; or the points in increasing order.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> dose = np.random.default_rng(1).integers(0, 64, size=20_000)
    >>> promise = {"accuracy": 0.1, "rho": 0.1, "beta": 0.05}
    >>> learn_threshold(dose, dose > 41, domain=64, tape=Tape("study-7"), **promise).value
    47
    """
    of = "learn_threshold"
    tape = tape_argument(tape, of=of)
    size, points = _domain(domain, of)
    places = _places(x, size, points, of)
    labels = np.asarray(y)
    if labels.shape != places.shape or not bool(np.isin(labels, (0, 1)).all()):
        raise InvalidArgument("y", "labels 0 or 1, one for each row", y, of=of)
    design = _threshold_design(domain, accuracy, rho, beta, of=of)
    kept_design = design.kept_by(
        min(places.size, design.rows), best_effort=best_effort, what="A threshold with this promise"
    )
    rows = kept_design.rows
    zeros, ones = (np.sort(places[:rows][labels[:rows] == label]) for label in (0, 1))
    least, most = zeros[-1] if zeros.size else 0, ones[0] - 1 if ones.size else size - 1
    if not least <= most:
        raise InvalidArgument("y", "labels of one threshold function with z in the domain", y, of=of)
    allowed = _drawn(design.threshold(rows), tape.branch("learn threshold"))
    low = int(zeros[-1 - allowed]) if zeros.size > allowed else 0
    high = int(ones[allowed]) - 1 if ones.size > allowed else size - 1
    point = _point(coarsest(low, high), points)
    return kept_design.result(point, tape, {"allowed": allowed, "needed": design.rows})


def learn_threshold_rows(*, domain: npt.ArrayLike, accuracy: float, rho: float, beta: float) -> int:
    """The rows that :func:`learn_threshold` needs: about (log2 |domain| / rho)² / (3 accuracy).

    Guarantee: the smallest number for which both bounds of docs/theory/replicable-estimation.md hold.
    Assumes: as :func:`learn_threshold`.
    Reference: Holdfast; SIS Theorem 6.12 states Õ((log* d)³ ln²(1/β) ln⁴(1/ρ)/(α²ρ²)).

    >>> learn_threshold_rows(domain=1000, accuracy=0.1, rho=0.1, beta=0.05)
    27221
    """
    return _threshold_design(domain, accuracy, rho, beta, of="learn_threshold_rows").rows


@dataclass(frozen=True)
class ThresholdDesign(Design):
    """How many labels to contradict, if a point of the domain has this many ``ancestors``."""

    ancestors: int

    def mismatch(self, rows: int) -> float:
        return self._plan(rows)[0]

    def failure(self, rows: int) -> float:
        if self.threshold(rows) is not None:
            return self.beta
        # Too few rows for any promise: every z that contradicts no label fails this often.
        assert self.accuracy is not None
        return rounding.probability(2.0 * math.exp(rows * math.log1p(-self.accuracy)))

    def threshold(self, rows: int) -> CountThreshold | None:
        """What the tape picks the count from; None where the rows allow no promise."""
        return self._plan(rows)[1]

    def _plan(self, rows: int) -> tuple[float, CountThreshold | None]:
        assert self.accuracy is not None
        return _learning_plan(rows, self.ancestors, self.accuracy, self.beta)


def _threshold_design(domain: Any, accuracy: float, rho: float, beta: float, *, of: str) -> ThresholdDesign:
    accuracy, rho, beta = promise_arguments(accuracy, rho, beta, of=of, by="SIS Theorem 6.12")
    ancestors = _levels(domain, of)

    def enough(n: int) -> bool:
        return _learning_plan(n, ancestors, accuracy, beta)[0] <= rho

    rows = least_rows(enough, "rho", rho, of=of, start=_START)
    return ThresholdDesign(accuracy, rho, beta, rows, ancestors)


@lru_cache(maxsize=4096)
def _learning_plan(
    rows: int, ancestors: int, accuracy: float, beta: float
) -> tuple[float, CountThreshold | None]:
    """The least ρ that ``rows`` rows allow while the learner fails with probability at most ``beta``."""
    best: tuple[float, CountThreshold | None] = (1.0, None)
    for margin in _MARGINS:
        expected = min(accuracy, 0.5) * rows
        high = math.floor(expected - margin * math.sqrt(expected)) - 1
        if high < 0:
            break
        threshold = CountThreshold(rows, 0, high)
        rho = ancestors * threshold.mismatch
        if rho < best[0] and 2.0 * threshold.below(accuracy) <= beta:
            best = (rounding.probability(rho), threshold)
    return best


def coarsest(low: int, high: int) -> int:
    """The place in ``low`` … ``high`` (from 0) whose successor is divisible by the highest power of two."""
    shared = (low ^ (high + 1)).bit_length() - 1
    return (((high + 1) >> shared) << shared) - 1


def _drawn(threshold: CountThreshold | None, tape: Tape) -> int:
    """The count that the tape picks; 0 where the rows allow no promise."""
    return 0 if threshold is None else int(threshold(tape.uniforms(1))[0])


def _domain(domain: Any, of: str) -> tuple[int, npt.NDArray[Any] | None]:
    """How many points the domain has, and the points if they are not 0, 1, 2, …"""
    if isinstance(domain, (int, float, np.number)) and not isinstance(domain, bool):
        return checks.whole(domain, "domain", at_most=2**62, of=of, by="SIS Definition 6.11"), None
    points = np.asarray(domain)
    if points.ndim != 1 or not points.size or not bool((points[1:] > points[:-1]).all()):
        raise InvalidArgument("domain", "a size, or a list of points in increasing order", domain, of=of)
    return points.size, points


def _places(x: Any, size: int, points: npt.NDArray[Any] | None, of: str) -> Whole:
    """The place of each row in the domain, from 0."""
    values = np.asarray(x)
    if values.ndim != 1:
        raise InvalidArgument("x", "a list of points of the domain", x, of=of)
    if points is None:
        with np.errstate(invalid="ignore"):
            places: Whole = values.astype(np.int64)
        inside = (places == values) & (places >= 0) & (places < size)
    else:
        places = np.minimum(np.searchsorted(points, values), size - 1).astype(np.int64)
        inside = points[places] == values
    if not bool(np.all(inside)):
        raise InvalidArgument("x", "points of the domain", x, of=of)
    return places


def _point(place: int, points: npt.NDArray[Any] | None) -> Any:
    return place if points is None else points[place]


def _levels(domain: Any, of: str) -> int:
    """The most ancestors a point of the domain has, itself not counted."""
    return _domain(domain, of)[0].bit_length() - 1
