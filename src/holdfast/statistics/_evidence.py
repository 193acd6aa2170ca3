"""One-sided bounds on where a form crosses zero: by bets for independent rows, by the tail of their model for
others.

What a bound may depend on besides the rows is public: the training part chooses how the bets are placed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from holdfast import search
from holdfast.statistics._cells import Cells
from holdfast.statistics._product import Crossing, Form, best_rate, least_radius, lower_end
from holdfast.statistics._units import crossing_of
from holdfast.tails import Tail

# Without training rows an average of bets is used, for standard deviations that halve from half the range.
_UNSEEN_SPREADS = 5
# The crossing may be this many predicted deviations from its place in the training rows.
_REACH = 3.0
# A search by tails stops at this many times the first radius.
_FAR = 1e9


@dataclass(frozen=True)
class Evidence(ABC):
    """The rows of a question, ``cells``, and what the training part predicts them to be, ``trained`` (None
    without one)."""

    cells: Cells
    trained: Cells | None

    @property
    @abstractmethod
    def independent(self) -> bool:
        """Whether the rows themselves are independent, so that one may condition on their groups."""

    @abstractmethod
    def lower(self, form: Form, level: float, *, offset: float = 0.0, lowest: float = -math.inf) -> float:
        """A number below the place where the mean of the form crosses ``offset``, except with probability
        exp(−level).

        Args:
            form: u and v, whose quotient of means is looked for.
            level: The evidence that is needed, in nats.
            lowest: The least value possible.
        """

    def upper(self, form: Form, level: float, *, offset: float = 0.0, highest: float = math.inf) -> float:
        """A number above the place where the mean of the form crosses −``offset``, except with probability
        exp(−level).

        Args:
            form: u and v, whose quotient of means is looked for.
            level: The evidence that is needed, in nats.
            highest: The largest value possible.
        """
        return -self.lower(form.mirrored, level, offset=offset, lowest=-highest)

    def around(self, x: float, z: float = 0.0) -> Evidence:
        """The same evidence with values counted from another centre.

        Args:
            x: The centre of the first value.
            z: The centre of the second value.
        """
        trained = None if self.trained is None else self.trained.around(x, z)
        return self._with(self.cells.around(x, z), trained)

    def only(self, group: int) -> Evidence:
        """The evidence of one group of rows.

        Args:
            group: The number of the group.
        """
        trained = None if self.trained is None else self.trained.only(group)
        return self._with(self.cells.only(group), trained)

    @abstractmethod
    def _with(self, cells: Cells, trained: Cells | None) -> Evidence:
        """Evidence of the same kind about other cells."""


@dataclass(frozen=True)
class Bets(Evidence):
    """Evidence from independent rows, from independent units of rows, or from the states of a stationary
    chain.

    Guarantee: each bound holds with probability ≥ 1 − exp(−level) over the rows.
    Assumes: independent rows, or rows that are independent given their groups, or independent units, or a
    stationary chain of the cells' norm; ``trained`` does not depend on them.
    """

    @property
    def independent(self) -> bool:
        return self.cells.independent

    def lower(self, form: Form, level: float, *, offset: float = 0.0, lowest: float = -math.inf) -> float:
        return lower_end(crossing_of(self.cells, form, offset), level, self._rates(form, level), lowest)

    def _rates(self, form: Form, level: float) -> list[float]:
        """The rates do not depend on the crossing's offset: that may come from the rows, and rates are fixed
        before rows are read."""
        # If rows depend on each other, conditioning is not allowed, not even on how many rows enter.
        rows = max(1.0, self.cells.rows if self.independent else float(self.cells.all_rows))
        norm = self.cells.norm
        seen = None if self.trained is None else crossing_of(self.trained, form)
        if self.trained is None or seen is None or not seen.slope > 0:
            declared = crossing_of(self.cells, form), crossing_of(self.cells, form.mirrored)
            span = max(1e-300, *(-crossing.least(0.0) for crossing in declared))
            spreads = [span / 2**halving for halving in range(1, _UNSEEN_SPREADS + 1)]
            return [best_rate(span, spread**2, rows, level, norm) for spread in spreads]
        at = seen.estimate
        moment = seen.second_moment(at)
        reach = _REACH * math.sqrt(moment * self.trained.variance_factor / self.trained.rows) / seen.slope
        distance = -seen.least(at + reach)
        span = max(distance, -crossing_of(self.trained, form.mirrored).least(-at), 1e-300)
        moment = max(moment, span**2 / (self.trained.rows + 1))
        return [best_rate(max(distance, 1e-9 * span), moment, self.trained.rows, level, norm)]

    def _with(self, cells: Cells, trained: Cells | None) -> Evidence:
        return Bets(cells, trained)


@dataclass(frozen=True)
class Tails(Evidence):
    """Evidence from rows that depend on each other as their model says. ``tail`` is that of the mean over all
    ``rows`` of values in a range; those that do not enter the question count 0.

    Guarantee: each bound holds with probability ≥ 1 − exp(−level) over the rows.
    Assumes: the model.
    """

    tail: Callable[[float, float], Tail]
    rows: int

    @property
    def independent(self) -> bool:
        return False

    def lower(self, form: Form, level: float, *, offset: float = 0.0, lowest: float = -math.inf) -> float:
        crossing = Crossing(self.cells, form, offset)
        middle, axes, centre = crossing.estimate, self.cells.axes, self.cells.centre
        if not math.isfinite(middle):
            return -math.inf

        def excess(radius: float) -> float:
            a = middle - radius
            least = min(0.0, form.least(a, axes, centre) - offset)
            most = max(0.0, -form.mirrored.least(-a, axes, centre) - offset)
            mean = radius * crossing.slope * self.cells.rows / self.rows
            return mean - self.tail(least, most).radius_at(level) if most > least else mean

        # What the radius would be if the range did not change with a.
        start = -excess(0.0) / (crossing.slope * self.cells.rows / self.rows)
        sure = self._sure(form, offset, middle, start)
        most = min(middle - lowest, sure)
        radius = least_radius(excess, start, most)
        # A wider range needs more evidence. A crossing below is excluded only by evidence all the way down to
        # it. The excess is concave, so it is enough to check both ends.
        if radius is None or excess(min(most, _FAR * max(radius, start))) < 0:
            return middle - sure
        return middle - radius

    def _sure(self, form: Form, offset: float, middle: float, start: float) -> float:
        """The largest distance below the estimate at which the declared ranges allow the crossing; infinite
        if they allow any."""

        def excluded(radius: float) -> bool:
            return not form.least(middle - radius, self.cells.axes, self.cells.centre) < offset

        radius = search.least_real(excluded, start=start, most=_FAR * start, relative=1e-6)
        return math.inf if radius is None else radius

    def _with(self, cells: Cells, trained: Cells | None) -> Evidence:
        return Tails(cells, trained, self.tail, self.rows)
