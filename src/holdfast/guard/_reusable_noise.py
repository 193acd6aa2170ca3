"""The noise of BDP Algorithm 1, exact: threshold, comparison and answer on one grid, and what they reveal.

All three noises are Laplace noise rounded to whole steps of one grid, and the difference and the value they
are added to are rounded to it first. One row moves either by at most ``moved`` steps. A round runs from one
refresh of the threshold to the next: it costs ``moved`` steps on the threshold, twice as many on the
comparison that fires, and once as many on the answer, 9/4 · moved/unit in all for scales of 1, 2 and 4 units.
The unit is the least number of steps for which that is at most 9/(4·noise·n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from holdfast import rounding
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import Noise

# With at least 2⁻³² of the noise for a step, values in [0, 1] are below 2⁵³ steps: floats hold them exactly.
_RESOLUTION = 32
_MOST_UNITS = 2**40


@dataclass(frozen=True)
class SparseNoise:
    """Noise of at least ``scale`` for ``rows`` holdout rows; comparisons have twice, answers 4 times it."""

    scale: float
    rows: int

    @cached_property
    def grid(self) -> float:
        """One step, a power of two that depends on the scale alone."""
        return math.ldexp(1.0, math.frexp(self.scale)[1] - 1 - _RESOLUTION)

    @cached_property
    def moved(self) -> int:
        """By how many steps one row can move a rounded mean."""
        return math.ceil(1 / (self.rows * Fraction(self.grid)))

    @cached_property
    def unit(self) -> int:
        """The scale of the threshold's noise in steps."""
        steps = math.ceil(self.moved * self.rows * Fraction(self.scale))
        if steps > _MOST_UNITS:
            raise InvalidArgument(
                "noise", f"at most 10¹² for all rows together ({self.rows:,} here)", self.scale
            )
        return steps

    def epsilon(self, rounds: int) -> float:
        """The privacy parameter of so many rounds: at most 9/(4·noise·n) for each."""
        return rounding.up(9 * rounds * self.moved / (4 * self.unit))

    def _noise(self, units: int) -> Noise:
        return Noise("laplace", units * self.unit * self.grid, self.grid)

    @cached_property
    def threshold(self) -> Noise:
        """What is added to the threshold, once a round."""
        return self._noise(1)

    @cached_property
    def comparison(self) -> Noise:
        """What is added to each difference of training and holdout."""
        return self._noise(2)

    @cached_property
    def answer(self) -> Noise:
        """What is added to a value that is released."""
        return self._noise(4)

    @property
    def farthest(self) -> float:
        """The largest difference that floats hold in whole steps; what is farther is taken for this."""
        return math.ldexp(self.grid, 52)

    def on_grid(self, value: Fraction) -> float:
        """A number of [−farthest, farthest] rounded to whole steps, without any other error."""
        return math.floor(value / Fraction(self.grid) + Fraction(1, 2)) * self.grid
