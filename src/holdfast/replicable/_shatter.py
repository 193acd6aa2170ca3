"""Which trees a finite class shatters: sets of hypotheses as bits of one whole number."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import InvalidArgument

__all__ = ["Shatter"]


class Shatter:
    """A finite class over finitely many points, and the Littlestone dimension of its parts."""

    def __init__(self, classes: Any, *, of: str) -> None:
        expected = "a table of 0 and 1, a row for each hypothesis and a column for each point"
        try:
            table = np.asarray(classes, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument("classes", expected, classes, of=of) from None
        if table.ndim != 2 or 0 in table.shape or not bool(np.isin(table, (0.0, 1.0)).all()):
            raise InvalidArgument("classes", expected, classes, of=of)
        distinct = np.unique(table.astype(bool), axis=0)
        self.table: npt.NDArray[np.bool_] = distinct
        self.points = distinct.shape[1]
        self.everything = (1 << len(distinct)) - 1
        self._ones = [int("".join("1" if bit else "0" for bit in column), 2) for column in distinct.T]
        self._columns = sorted(set(self._ones))
        self._at_least: dict[int, int] = {}
        self._below: dict[int, int] = {}

    def part_of(self, chosen: npt.NDArray[np.bool_]) -> int:
        """The hypotheses of ``table`` that are marked, as bits."""
        return int("".join("1" if bit else "0" for bit in chosen.tolist()), 2)

    def splits(self, part: int) -> list[tuple[int, int]]:
        """The different ways in which a point divides a part into two, the most even first."""
        kinds = {frozenset((part & column, part & ~column)) for column in self._columns}
        pairs = [tuple(sorted(kind)) for kind in kinds if len(kind) == 2 and 0 not in kind]
        return sorted(((a, b) for a, b in pairs), key=lambda pair: (-min(map(int.bit_count, pair)), pair))

    def split(self, part: int, point: int) -> tuple[int, int]:
        """The hypotheses of ``part`` that label the point 1, and those that label it 0."""
        return part & self._ones[point], part & ~self._ones[point]

    def dimension(self, part: int) -> int:
        """The Littlestone dimension of a part; −1 if it is empty."""
        if not part:
            return -1
        depth = self._at_least.get(part, 0)
        while self._shatters(part, depth + 1):
            depth += 1
        return depth

    def _shatters(self, part: int, depth: int) -> bool:
        """Whether ``part`` shatters a complete tree of this depth."""
        if depth == 0:
            return bool(part)
        # A tree of depth d has 2^d leaves, each with a hypothesis of its own.
        if part.bit_count() < 1 << depth:
            return False
        if self._at_least.get(part, 0) >= depth:
            return True
        if self._below.get(part, depth + 1) <= depth:
            return False
        for column in self._columns:
            ones, zeros = part & column, part & ~column
            smaller, larger = sorted((ones, zeros), key=int.bit_count)
            if self._shatters(smaller, depth - 1) and self._shatters(larger, depth - 1):
                self._at_least[part] = depth
                return True
        self._below[part] = depth
        return False
