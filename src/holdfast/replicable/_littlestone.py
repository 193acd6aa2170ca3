"""Littlestone dimension, the standard optimal algorithm and reduction trees, on finite classes.

A tree asks for the label of one point after another; each leaf keeps the hypotheses that gave the answers
on the way. A class is r-irreducible if no tree of depth r lowers the dimension at every leaf. Then the
majority of its dimension, the prediction of the standard optimal algorithm, is the same for every larger
class of that dimension.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument

__all__ = ["Reduction", "Shatter", "StandardOptimal", "littlestone_dimension", "most_leaves"]


def littlestone_dimension(classes: npt.ArrayLike) -> int:
    """The depth of the deepest complete tree that a class shatters: the mistakes an adversary can force.

    ``classes`` is a table of 0 and 1 with a row for each hypothesis and a column for each point.

    Guarantee: exact. The time can grow exponentially with the class; thresholds on a thousand points take
    seconds.
    Assumes: at least one hypothesis, labels 0 and 1 (checked).
    Reference: Littlestone 1988.

    >>> littlestone_dimension([[0, 0], [0, 1], [1, 0], [1, 1]])
    2
    >>> import numpy as np
    >>> littlestone_dimension(np.tri(9, 8, -1))  # thresholds on eight points
    3
    """
    shatter = Shatter(classes, of="littlestone_dimension")
    return shatter.dimension(shatter.everything)


class StandardOptimal:
    """Predicts the label that keeps the harder half of the class: no learner makes fewer mistakes at worst.

    Guarantee: on labels of any hypothesis of the class, in any order, at most ``dimension`` mistakes.
    Assumes: the labels agree with some hypothesis (a label that none gives is refused).
    Reference: Littlestone 1988.

    Args:
        classes: A table of 0 and 1, a row for each hypothesis and a column for each point.

    >>> import numpy as np
    >>> learner = StandardOptimal(np.tri(9, 8, -1))
    >>> for point in (3, 5, 4):
    ...     _ = learner.update(point, int(point < 4))
    >>> learner.mistakes <= learner.dimension, learner.hypothesis()
    (True, (1, 1, 1, 1, 0, 0, 0, 0))
    """

    def __init__(self, classes: npt.ArrayLike) -> None:
        self._shatter = Shatter(classes, of="StandardOptimal")
        self._left = self._shatter.everything
        self.dimension = self._shatter.dimension(self._left)
        self.mistakes = 0

    def predict(self, point: int) -> int:
        """The label, 0 or 1, after which the remaining class has the larger Littlestone dimension.

        Args:
            point: The number of a column of the table.
        """
        ones, zeros = self._shatter.split(self._left, self._checked(point))
        if not ones or not zeros:
            return int(bool(ones))
        return int(self._shatter.dimension(ones) > self._shatter.dimension(zeros))

    def update(self, point: int, label: int) -> bool:
        """Learn the true label of a point; True if the prediction was wrong.

        Args:
            point: The number of a column of the table.
            label: Its true label, 0 or 1.
        """
        label = checks.whole(label, "label", at_least=0, at_most=1, of="StandardOptimal.update")
        wrong = self.predict(point) != label
        ones, zeros = self._shatter.split(self._left, point)
        if not (ones if label else zeros):
            raise InvalidArgument(
                "label", "a label that a remaining hypothesis gives", label, of="StandardOptimal"
            )
        self._left = ones if label else zeros
        self.mistakes += wrong
        return wrong

    def hypothesis(self) -> tuple[int, ...]:
        """What it would predict for every point now; not always a hypothesis of the class."""
        return tuple(self.predict(point) for point in range(self._shatter.points))

    def _checked(self, point: int) -> int:
        return checks.whole(
            point, "point", at_least=0, at_most=self._shatter.points - 1, of="StandardOptimal"
        )


class Shatter:
    """A finite class over finitely many points, and the Littlestone dimension of its parts."""

    def __init__(self, classes: npt.ArrayLike, *, of: str) -> None:
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


# A class whose trees need more looks than this is too large to be searched.
_MOST_LOOKS = 2_000_000


def most_leaves(depth: int, dimension: int) -> int:
    """C(depth, 0) + … + C(depth, dimension): no tree divides a class of this dimension into more leaves."""
    total, term = 0, 1
    for chosen in range(min(depth, dimension) + 1):
        total += term
        term = term * (depth - chosen) // (chosen + 1)
    return total


class Reduction:
    """The trees of one finite class, with everything learned about them remembered."""

    def __init__(self, shatter: Shatter) -> None:
        self.shatter = shatter
        self._needs: dict[tuple[int, int], int] = {}
        self._does: dict[tuple[int, int], int] = {}
        self._dimensions: dict[int, int] = {}
        self._lists: dict[tuple[int, int, int], tuple[str, ...]] = {}
        self._looks = 0

    def dimension(self, part: int) -> int:
        """The Littlestone dimension of a part, remembered."""
        dimension = self._dimensions.get(part)
        if dimension is None:
            dimension = self._dimensions[part] = self.shatter.dimension(part)
        return dimension

    def reducible(self, part: int, target: int, depth: int) -> bool:
        """Whether a tree of this depth leaves at most dimension ``target`` at every leaf."""
        dimension = self.dimension(part)
        if dimension <= target:
            return True
        # One question leaves a side of dimension at least one less, and singletons need a leaf each.
        if depth < dimension - target or target < 0:
            return False
        if target == 0 and part.bit_count() > most_leaves(depth, dimension):
            return False
        key = (part, target)
        if self._does.get(key, depth + 1) <= depth:
            return True
        if self._needs.get(key, 0) > depth:
            return False
        self._looks += 1
        if self._looks > _MOST_LOOKS:
            raise InvalidArgument(
                "classes", "a class whose trees can be searched; use method='choose' for this one",
                f"{part.bit_count()} hypotheses", of="learn_littlestone",
            )  # fmt: skip
        splits = self.shatter.splits(part)
        works = len(splits) <= depth or any(
            self.reducible(first, target, depth - 1) and self.reducible(second, target, depth - 1)
            for first, second in splits
        )
        if works:
            self._does[key] = min(depth, self._does.get(key, depth))
        else:
            self._needs[key] = max(depth + 1, self._needs.get(key, 0))
        return works

    def irreducible(self, part: int, depth: int) -> bool:
        """Whether no tree of this depth lowers the dimension of the part at every leaf."""
        return not self.reducible(part, self.dimension(part) - 1, depth)

    def reached(self, part: int, depth: int) -> int:
        """The least dimension that a tree of this depth leaves at its worst leaf."""
        target = max(0, self.dimension(part) - depth)
        while not self.reducible(part, target, depth):
            target += 1
        return target

    def leaves(self, part: int, target: int, depth: int) -> list[int]:
        """The leaves of a tree of this depth that leaves at most dimension ``target`` everywhere."""
        if self.dimension(part) <= target:
            return [part]
        splits = self.shatter.splits(part)
        if len(splits) <= depth:
            first, second = splits[0]
        else:
            first, second = next(
                pair for pair in splits if all(self.reducible(side, target, depth - 1) for side in pair)
            )
        return self.leaves(first, target, depth - 1) + self.leaves(second, target, depth - 1)

    def majority(self, part: int) -> str:
        """The label of each point that keeps the larger dimension: "0" and "1", a character for a point."""
        labels = []
        for point in range(self.shatter.points):
            ones, zeros = self.shatter.split(part, point)
            labels.append("1" if self.dimension(ones) > self.dimension(zeros) else "0")
        return "".join(labels)

    def hypotheses(self, part: int, depth: int, steady: int) -> tuple[str, ...]:
        """The majorities at the leaves of an optimal tree that are as hard as any and
        ``steady``-irreducible."""
        key = (part, depth, steady)
        if key not in self._lists:
            target = self.reached(part, depth)
            kept = [
                leaf
                for leaf in self.leaves(part, target, depth)
                if self.dimension(leaf) == target and self.irreducible(leaf, steady)
            ]
            self._lists[key] = tuple(dict.fromkeys(map(self.majority, kept)))
        return self._lists[key]
