"""Linear equations over GF(2): rows are whole numbers, one bit for each unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.barriers._circuits import Strings

__all__ = ["AffineSpace", "solve", "toeplitz_rows"]


@dataclass(frozen=True)
class AffineSpace:
    """All ``point`` + sums of ``basis``; the equations that cut it out have one pivot each.

    ``equations`` are (row, right side) in reduced form: the pivot of a row occurs in no other row.
    """

    point: int
    basis: tuple[int, ...]
    equations: tuple[tuple[int, int], ...]

    def strings(self, most: int) -> Strings:
        """The members, or ``most`` + 1 of them where there are more.

        >>> solve([0b011], [1], 3).strings(10).tolist()
        [1, 2, 5, 6]
        """
        members = np.array([self.point], dtype=np.uint64)
        for vector in self.basis:
            if len(members) > most:
                break
            members = np.concatenate((members, members ^ np.uint64(vector)))
        return np.sort(members[: most + 1])


def solve(rows: Sequence[int], sides: Sequence[int], unknowns: int) -> AffineSpace | None:
    """All solutions of row·x = side, modulo 2; None where there are none.

    >>> solve([0b11, 0b01], [1, 1], 2).point
    1
    >>> solve([0b11, 0b11], [1, 0], 2) is None
    True
    """
    side_bit = 1 << unknowns
    pivots: list[tuple[int, int]] = []
    for row, side in zip(rows, sides, strict=True):
        equation = row | (side_bit if side else 0)
        for pivot, earlier in pivots:
            if equation & pivot:
                equation ^= earlier
        left = equation & (side_bit - 1)
        if left == 0:
            if equation:
                return None
            continue
        pivot = left & -left
        pivots = [(p, e ^ equation if e & pivot else e) for p, e in pivots]
        pivots.append((pivot, equation))
    point = sum(pivot for pivot, equation in pivots if equation & side_bit)
    determined = sum(pivot for pivot, _ in pivots)
    basis = []
    for place in range(unknowns):
        free = 1 << place
        if not determined & free:
            basis.append(free | sum(pivot for pivot, equation in pivots if equation & free))
    equations = tuple((equation & (side_bit - 1), int(bool(equation & side_bit))) for _, equation in pivots)
    return AffineSpace(point, tuple(basis), equations)


def toeplitz_rows(seed: int, inputs: int, outputs: int) -> tuple[int, ...]:
    """The rows of the Toeplitz matrix of a seed with inputs + outputs − 1 bits.

    >>> toeplitz_rows(0b1101, 3, 2)
    (5, 6)
    """
    mask = (1 << inputs) - 1
    return tuple(seed >> place & mask for place in range(outputs))
