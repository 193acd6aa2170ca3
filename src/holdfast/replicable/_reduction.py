"""Trees of questions that lower the Littlestone dimension of a class, and the lists that they lead to.

A tree asks for the label of one point after another; each leaf keeps the hypotheses that gave the answers
on the way. A class is r-irreducible if no tree of depth r lowers the dimension at every leaf. Then the
majority of its dimension, the prediction of the standard optimal algorithm, is the same for every larger
class of that dimension.
"""

from __future__ import annotations

from holdfast.errors import InvalidArgument
from holdfast.replicable._shatter import Shatter

__all__ = ["Reduction", "most_leaves"]

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
