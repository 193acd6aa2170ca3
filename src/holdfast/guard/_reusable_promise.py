"""How far an answer of the reusable holdout may be off: half-widths that hold together, fixed in advance.

Round r begins after the r-th release. Within a round all answers are training values, so its questions are a
function of the first r rounds alone, and only what those revealed is paid for: nothing in round 0. Each round
has the share β/((r+1)(r+2)) of what may fail: half for the means of the holdout, a quarter each for the
comparisons and for the released answer. Proof: ``docs/theory/reusable-holdout.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from holdfast import rounding
from holdfast.coding import Weights
from holdfast.dependence import Dependence
from holdfast.guard._reusable_noise import SparseNoise
from holdfast.guard._reusable_parts import RESOLUTION
from holdfast.stability import BayesianDP
from holdfast.tails import Tail

_LN2 = math.log(2.0)
# Of a round's share: what max-information may fail. Each is valid; the best counts.
_PARTS = (0.5, 0.25, 0.1, 0.03, 0.01, 1e-3)


@dataclass(frozen=True)
class Promise:
    """Half-widths for one holdout; ``queries`` is the number of questions if it is fixed, else None."""

    model: Dependence
    noise: SparseNoise
    cut: float
    failure: float
    queries: int | None
    _chosen: dict[int, float] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def tail(self) -> Tail:
        """How far a mean that was fixed in advance is from its expectation."""
        return self.model.share_tail()

    @cached_property
    def statistic_tail(self) -> Tail:
        """How far any statistic is that one row moves by at most 1/n."""
        return self.model.statistic_tail()

    def step_nats(self, step: int) -> float:
        """ln(1/w) of the weight of a question among all that may come."""
        return Weights().nats(step) if self.queries is None else math.log(self.queries)

    def _round_nats(self, releases: int) -> float:
        return math.log((releases + 1) * (releases + 2)) - math.log(self.failure)

    def deviation(self, step: int, releases: int, *, statistic: bool = False) -> float:
        """How far the holdout's value may be from its expectation."""
        if releases not in self._chosen:
            self._chosen[releases] = self._chosen_nats(releases)
        nats = self._chosen[releases] + self.step_nats(step)
        if statistic:
            return self.statistic_tail.radius_at(nats)
        return self.tail.radius_at(nats) + RESOLUTION

    def _chosen_nats(self, releases: int) -> float:
        """Nats of a question of this round besides its weight: its share, and what the rounds before told."""
        share = self._round_nats(releases) + _LN2
        if releases == 0:
            return share
        told = BayesianDP(self.told(releases))
        best = min(
            told.max_information(self.model.n, part * math.exp(-share)).bits * _LN2 - math.log1p(-part)
            for part in _PARTS
        )
        return rounding.up(share + best)

    def told(self, rounds: int) -> float:
        """What so many rounds tell about all rows together, as a Bayesian privacy parameter."""
        return self.model.joint_epsilon(self.noise.epsilon(rounds), of="ReusableHoldout")

    def kept(self, step: int, releases: int) -> float:
        """How far a training value that was let through may be from the holdout's mean.

        Threshold noise less comparison noise exceeds z with probability below ⅔ exp(−z/2σ).
        """
        nats = self._round_nats(releases) + math.log(8 / 3) + self.step_nats(step)
        comparison = self.noise.comparison
        return self.cut + comparison.scale * max(0.0, nats) + 2 * comparison.grid

    def noisy(self, releases: int) -> float:
        """How far a released value may be from the holdout's mean."""
        answer = self.noise.answer
        return answer.scale * (self._round_nats(releases) + math.log(4)) + answer.grid

    def half_width(self, step: int, releases: int, *, released: bool, statistic: bool = False) -> float:
        """How far an answer may be from the expectation of its question, in the question's units."""
        inside = self.noisy(releases) if released else self.kept(step, releases)
        return rounding.up(inside + self.deviation(step, releases, statistic=statistic))
