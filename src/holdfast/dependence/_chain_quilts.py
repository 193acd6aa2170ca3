"""The blankets and quilts of the rows of a chain, and how much a row influences them, however long the chain
is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._quilts import Array, Quilt, refuse_many
from holdfast.errors import InvalidArgument

_EPS = float(np.finfo(float).eps)
_MOST_NUMBERS = 1 << 22
Rows = NDArray[np.int64]

MOST_STATES = 100
_EVERY, _GROWTH = 128, 1.03
_FARTHEST = 1 << 20
_NEGLIGIBLE = 1e-12
_WORK = 40_000_000
_SMALLEST_LOG = -745.0
_TINY = 1e-290
_LAWS = 1 << 16


def row_number(row: object, n: int, argument: str, *, of: str) -> int:
    """Rows are numbered from 0."""
    return checks.whole(row, argument, at_least=0, at_most=n - 1, of=f"MarkovChain.{of}")


def row_numbers(rows: object, n: int, argument: str, *, of: str) -> list[int]:
    """One row or several, in rising order."""
    listed = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, (str, bytes)) else [rows]
    return sorted(row_number(row, n, argument, of=of) for row in listed)


def chain_quilts(row: int, n: int) -> tuple[Quilt, ...]:
    """The quilts (i−a, i+b), (i−a), (i+b) and the empty one, the smallest nearby set first."""
    refuse_many((row + 1) * (n - row), of="MarkovChain.quilts", most=_MOST_NUMBERS // n)
    sides = [(left, right) for left in range(row - 1, -2, -1) for right in range(row + 1, n + 1)]
    sides.sort(key=lambda pair: (pair[1] - pair[0], -pair[0]))
    return tuple(
        Quilt(
            row,
            tuple(end for end in (left, right) if 0 <= end < n),
            tuple(other for other in range(left + 1, right) if other != row),
            (*range(left), *range(right + 1, n)),
        )
        for left, right in sides
    )


def chain_influence(transition: Array, start: Array, row: int, targets: list[int], given: list[int]) -> float:
    """ln max P[targets | x, known]/P[targets | x', known] over values of the rows, x and x' those of ``row``.

    Given x_i the sides are independent. On each only the nearest row counts: a known one cuts the rest off, a
    target takes the rest with it, up to what the first known row beyond it says about the target itself.
    """
    if set(targets) & set(given) or row in targets or row in given or len(set(targets)) < len(targets):
        raise InvalidArgument(
            "targets", "apart from the row and from what is given", targets, of="MarkovChain.max_influence"
        )
    if not targets:
        return 0.0

    def steps(count: int) -> Array:
        power: Array = np.linalg.matrix_power(transition, count)
        return power

    right = _side(
        row,
        [other for other in targets if other > row],
        [other for other in given if other > row],
        lambda near: steps(near - row),
        lambda near, far: steps(far - near) if far is not None else np.ones((len(start), 1)),
    )
    law = start @ steps(row)

    def before(near: int) -> Array:
        """P[x_near | x_row] up to a factor of x_near alone: P^{row−near}(x_near, x_row) / P[x_row]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(law[:, None] > 0.0, steps(row - near).T / law[:, None], 0.0)

    def beyond(near: int, far: int | None) -> Array:
        if far is None:
            return (start @ steps(near))[:, None]
        return np.where((start @ steps(far))[:, None] > 0.0, steps(near - far), 0.0).T

    left = _side(
        row,
        [other for other in reversed(targets) if other < row],
        [other for other in reversed(given) if other < row],
        before,
        beyond,
    )
    left, right = np.broadcast_arrays(left, right, np.empty((len(law), len(law))))[:2]
    possible = (law > 0.0) & (law[:, None] > 0.0) & (left > -np.inf) & (right > -np.inf)
    spread = float((left[possible] + right[possible]).max(initial=0.0))
    longest = max(abs(other - row) for other in (*targets, *given))
    if spread == 0.0 or math.isinf(spread):
        return spread
    return rounding.up(spread + 16.0 * longest * len(start) * _EPS)


def _side(row: int, targets: list[int], given: list[int], step: Any, beyond: Any) -> Array:
    """ln of the largest ratio for x and x' on one side; −∞ where what is known rules out one of them.

    ``targets`` and ``given`` stand nearest first. With t the nearest target and k the first known row beyond
    it, P[x_t | x, x_k] ∝ step(x, x_t)·beyond(x_t, x_k).
    """
    if not targets and not given:
        return np.zeros((1, 1))
    if not targets or (given and abs(given[0] - row) < abs(targets[0] - row)):
        return _compatible(step(given[0]))
    near = targets[0]
    far = given[0] if given else None
    joint = step(near)[:, :, None] * beyond(near, far)[None]
    total = joint.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(joint) - np.log(total)
    size = len(joint)
    ratios = np.full((size, size), -np.inf)
    for x in range(size):
        for other in range(size):
            both = (total[x, 0] > 0.0) & (total[other, 0] > 0.0)
            top, bottom = logs[x][:, both], logs[other][:, both]
            seen = top > -np.inf
            if seen.any():
                ratios[x, other] = (top[seen] - bottom[seen]).max()
    return ratios


def _compatible(step: Array) -> Array:
    """0 where some value of the known row is possible with both, −∞ elsewhere."""
    reached = (step > 0.0).astype(float)
    result: Array = np.where(reached @ reached.T > 0.0, 0.0, -np.inf)
    return result


@dataclass(frozen=True, eq=False)
class Reach:
    """For each of some distances d and all x, x': ln max_z P^d(x,z)/P^d(x',z), and the same of columns."""

    distances: Rows
    rows: Array
    columns: Array
    powers: Array
    """ln of the powers, an entry that vanished by underflow at ``_SMALLEST_LOG``."""


def _ratios(logs: Array) -> Array:
    """ln max_z M(x,z)/M(x',z) for all x, x', from ln M; infinite where M(x',z) = 0 < M(x,z)."""
    ratios = np.empty((len(logs), len(logs)))
    lost = logs <= _SMALLEST_LOG
    below = np.where(lost, -np.inf, logs)
    for x, line in enumerate(logs):
        with np.errstate(invalid="ignore"):
            ratios[x] = np.where(line > -np.inf, line - below, -np.inf).max(axis=1)
    return ratios


@lru_cache(maxsize=16)
def tabulated_reach(content: bytes, states: int, farthest: int) -> Reach:
    """Tabulate a transition matrix: every distance up to 128, from there on each 3 % farther than the last,
    until a row has no visible influence."""
    transition = np.frombuffer(content).reshape(states, states)
    doubled, patterns = [transition], [transition > 0.0]
    distances, rows, columns, powers = [], [], [], []
    power, pattern, distance = np.eye(states), np.eye(states, dtype=np.bool_), 0
    while distance < farthest:
        target = min(farthest, max(distance + 1, round(distance * _GROWTH) if distance >= _EVERY else 0))
        for bit in range((target - distance).bit_length()):
            if len(doubled) <= bit:
                doubled.append(doubled[-1] @ doubled[-1])
                patterns.append(patterns[-1] @ patterns[-1])
            if (target - distance) >> bit & 1:
                power, pattern = power @ doubled[bit], pattern @ patterns[bit]
        distance = target
        with np.errstate(divide="ignore"):
            logs = np.where(pattern, np.maximum(np.log(power), _SMALLEST_LOG), -np.inf)
        # Sums and products of numbers that are not negative lose a few units in the last place each.
        slack = 8.0 * distance * states * _EPS
        distances.append(distance)
        powers.append(logs)
        rows.append(_ratios(logs) + slack)
        columns.append(_ratios(logs.T) + slack)
        if rows[-1].max() <= _NEGLIGIBLE + 2.0 * slack:
            break
    return Reach(np.array(distances, dtype=np.int64), np.array(rows), np.array(columns), np.array(powers))


@dataclass(frozen=True, eq=False)
class _Group:
    """Rows ``first`` to ``last``, with bounds that hold for each of them: on the left, on the right, on both
    sides."""

    first: int
    last: int
    left: Array
    right: Array
    both: Array


@dataclass(frozen=True, eq=False)
class ChainQuilts:
    """The quilts of ``n`` rows; ``start`` is the law of the first, and ``stationary`` says whether of all.

    With another start the law of x_{i−a} given x_i depends on i. Rows are then taken together in groups that
    grow with i, as the chain forgets its start, and each group has the worst of its rows; up to about a
    hundred rows of a few states every group is one row, and nothing is lost.
    """

    transition: Array
    start: Array
    stationary: bool
    n: int

    @cached_property
    def _reach(self) -> Reach:
        # Rounded up to a power of two, so that chains that differ little in length share one table.
        farthest = self.n - 1 if self.n <= _EVERY else min(_FARTHEST, 1 << (self.n - 1).bit_length())
        return tabulated_reach(self.transition.tobytes(), len(self.transition), max(1, farthest))

    @cached_property
    def _groups(self) -> list[_Group]:
        if self.stationary or self.n == 1:
            odds = _log_odds(self.start[None], self.start[None] > 0.0)[0]
            return [self._group(0, self.n - 1, odds, self._reach.columns)]
        late = int(np.searchsorted(self._reach.distances, _LAWS, side="right")) - 1
        rows = self.n if self.n <= _EVERY else int(self._reach.distances[late])
        laws, possible = self._laws(min(rows, self.n))
        odds = _log_odds(laws, possible)
        most = max(8, _WORK // max(1, odds[0].size * len(self._reach.distances) ** 2))
        starts = _growing(len(laws), min(most, _EVERY))
        worst = np.maximum.reduceat(odds, starts, axis=0)
        groups = []
        for first, last, gap in zip(starts, [*(starts[1:] - 1), len(laws) - 1], worst, strict=True):
            columns = self._possible_columns(possible, int(first)) if first == last else self._reach.columns
            groups.append(self._group(int(first), int(last), gap, columns))
        if len(laws) < self.n:
            groups.append(self._group(len(laws), self.n - 1, self._late_odds(late), self._reach.columns))
        return groups

    def _laws(self, rows: int) -> tuple[Array, NDArray[np.bool_]]:
        """The laws of the first rows, and which values they make possible."""
        steps = self.transition > 0.0
        laws, possible = [self.start], [self.start > 0.0]
        while len(laws) < rows:
            laws.append(laws[-1] @ self.transition)
            possible.append(possible[-1] @ steps)
        return np.array(laws), np.array(possible)

    def _late_odds(self, late: int) -> Array:
        """ln p(x')/p(x), at most, for every row from the T-th on, T = distances[late]: its law is a mixture
        of the rows of P^T."""
        logs = self._reach.powers[late]
        low, high = logs.min(axis=0), logs.max(axis=0)
        low = np.where(low <= _SMALLEST_LOG, -np.inf, low)
        with np.errstate(invalid="ignore"):
            odds: Array = (
                high[None, :] - low[:, None] + 16.0 * int(self._reach.distances[late]) * len(logs) * _EPS
            )
        impossible = high == -np.inf
        odds[impossible] = odds[:, impossible] = -np.inf
        return odds

    def _possible_columns(self, possible: NDArray[np.bool_], row: int) -> Array:
        """As in the table, but over values z that x_{i−a} can have."""
        if possible[: row + 1].all():
            return self._reach.columns
        influences = self._reach.columns.copy()
        for place, distance in enumerate(self._reach.distances):
            if distance <= row:
                logs = np.where(possible[row - distance], self._reach.powers[place].T, -np.inf)
                influences[place] = _ratios(logs) + 8.0 * distance * len(logs) * _EPS
        return influences

    def _group(self, first: int, last: int, odds: Array, columns: Array) -> _Group:
        count = len(self._reach.distances)
        pairs = np.argwhere((odds > -np.inf) & ~np.eye(len(odds), dtype=np.bool_))
        if not len(pairs):
            return _Group(first, last, np.zeros(count), np.zeros(count), np.zeros((count, count)))
        x, other = pairs.T
        # A value that no row reaches at some distance is impossible for every row with a quilt row there.
        reached = columns[:, x, other] > -np.inf
        left = np.where(reached, columns[:, x, other], 0.0) + np.where(reached, odds[x, other], 0.0)
        left = np.maximum(left, 0.0)
        right = np.maximum(self._reach.rows[:, x, other], 0.0)
        if len(pairs) * count * count <= _WORK:
            both = np.zeros((count, count))
            for k in range(len(pairs)):
                np.maximum(both, left[:, k, None] + right[None, :, k], out=both)
        else:
            both = left.max(axis=1)[:, None] + right.max(axis=1)
        return _Group(first, last, left.max(axis=1), right.max(axis=1), both)

    def bayesian_dp(self, epsilon: float, weight: float) -> float:
        """max over rows of min over quilts of (|N|+1)ε + ``weight``·b, the empty one included; rounded up."""
        return rounding.up(max(self._most(group, epsilon, weight) for group in self._groups))

    def required_dp(self, epsilon: float, weight: float) -> float:
        """min over rows of max over quilts of (ε − ``weight``·b)/(|N|+1); rounded down."""
        return rounding.down(min(self._least(group, epsilon, weight) for group in self._groups))

    def _stretches(self, group: _Group) -> tuple[Rows, Rows, Rows, Rows]:
        """The group's rows, taken together where they have the same distances to choose from.

        The first and last row of each stretch, and how many distances fit on its left and on its right. The
        first row has the longest right side, the last row the longest left side.
        """
        distances = self._reach.distances
        edges = np.concatenate([[group.first], distances, self.n - distances])
        firsts = np.unique(edges[(edges >= group.first) & (edges <= group.last)])
        lasts = np.append(firsts[1:] - 1, group.last)
        on_left = np.searchsorted(distances, firsts, side="right")
        on_right = np.searchsorted(distances, self.n - 1 - firsts, side="right")
        return firsts, lasts, on_left, on_right

    def _most(self, group: _Group, epsilon: float, weight: float) -> float:
        """The largest bound over the group's rows."""
        firsts, lasts, on_left, on_right = self._stretches(group)
        reached = self._reach.distances * epsilon
        two = reached[:, None] + reached - epsilon + weight * group.both
        two = np.minimum.accumulate(np.minimum.accumulate(two, axis=0), axis=1)
        left = np.minimum.accumulate(reached + weight * group.left)
        right = np.minimum.accumulate(reached + weight * group.right)
        bound = np.full(len(firsts), self.n * epsilon)
        some = on_left > 0
        bound[some] = np.minimum(bound[some], (self.n - 1 - firsts[some]) * epsilon + left[on_left[some] - 1])
        some = on_right > 0
        bound[some] = np.minimum(bound[some], lasts[some] * epsilon + right[on_right[some] - 1])
        some = (on_left > 0) & (on_right > 0)
        bound[some] = np.minimum(bound[some], two[on_left[some] - 1, on_right[some] - 1])
        return float(bound.max())

    def _least(self, group: _Group, epsilon: float, weight: float) -> float:
        """The smallest parameter over the group's rows."""
        firsts, lasts, on_left, on_right = self._stretches(group)
        distances = self._reach.distances
        two = (epsilon - weight * group.both) / (distances[:, None] + distances - 1.0)
        two = np.maximum.accumulate(np.maximum.accumulate(two, axis=0), axis=1)
        place = np.arange(len(distances))
        left = (epsilon - weight * group.left) / (self.n - 1.0 - firsts[:, None] + distances)
        right = (epsilon - weight * group.right) / (lasts[:, None] + distances)
        left[place >= on_left[:, None]] = -np.inf
        right[place >= on_right[:, None]] = -np.inf
        best = np.maximum(epsilon / self.n, np.maximum(left.max(axis=1), right.max(axis=1)))
        some = (on_left > 0) & (on_right > 0)
        best[some] = np.maximum(best[some], two[on_left[some] - 1, on_right[some] - 1])
        return float(best.min())

    def blanket_influence(self) -> float:
        """The largest influence of a row on its neighbours."""
        if self.n == 1:
            return 0.0
        most = 0.0
        for group in self._groups:
            if group.first == 0:
                most = max(most, float(group.right[0]))
            if group.last == self.n - 1:
                most = max(most, float(group.left[0]))
            if group.first < self.n - 1 and group.last > 0 and self.n > 2:
                most = max(most, float(group.both[0, 0]))
        return rounding.up(most)


def _log_odds(laws: Array, possible: NDArray[np.bool_]) -> Array:
    """ln p(x')/p(x) for all x, x', row by row; −∞ where a row cannot have both values."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(laws)
        # A possible value whose probability underflowed may have any small probability.
        odds = np.where(laws[:, :, None] > _TINY, logs[:, None, :] - logs[:, :, None], np.inf)
    odds += (8.0 * laws.shape[1] * _EPS) * np.arange(1, len(laws) + 1)[:, None, None]
    both: Array = np.where(possible[:, None, :] & possible[:, :, None], odds, -np.inf)
    return both


def _growing(rows: int, most: int) -> Rows:
    """The first rows of at most about ``most`` groups: one by one at first, then longer and longer."""
    if rows <= most:
        return np.arange(rows)
    single = most // 2
    later = np.geomspace(single, rows - 1, most - single).astype(np.int64)
    return np.unique(np.concatenate([np.arange(single), later]))
