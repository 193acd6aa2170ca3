"""Littlestone dimension and the standard optimal algorithm on finite classes."""

from __future__ import annotations

from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._shatter import Shatter

__all__ = ["StandardOptimal", "littlestone_dimension"]


def littlestone_dimension(classes: Any) -> int:
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

    >>> import numpy as np
    >>> learner = StandardOptimal(np.tri(9, 8, -1))
    >>> for point in (3, 5, 4):
    ...     _ = learner.update(point, int(point < 4))
    >>> learner.mistakes <= learner.dimension, learner.hypothesis()
    (True, (1, 1, 1, 1, 0, 0, 0, 0))
    """

    def __init__(self, classes: Any) -> None:
        self._shatter = Shatter(classes, of="StandardOptimal")
        self._left = self._shatter.everything
        self.dimension = self._shatter.dimension(self._left)
        self.mistakes = 0

    def predict(self, point: int) -> int:
        """The label, 0 or 1, after which the remaining class has the larger Littlestone dimension."""
        ones, zeros = self._shatter.split(self._left, self._checked(point))
        if not ones or not zeros:
            return int(bool(ones))
        return int(self._shatter.dimension(ones) > self._shatter.dimension(zeros))

    def update(self, point: int, label: int) -> bool:
        """Learn the true label of a point; True if the prediction was wrong."""
        label = checks.whole(label, "label", at_least=0, at_most=1, of="StandardOptimal.update")
        wrong = self.predict(point) != label
        ones, zeros = self._shatter.split(self._left, point)
        if not (ones if label else zeros):
            raise InvalidArgument(
                "label", "one that a remaining hypothesis gives", label, of="StandardOptimal"
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
