"""The ways to choose among models by their mean losses: how wide, how stable and how accurate each is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.replicable._correlated import correlated_log_choice
from holdfast.replicable._delayed import (
    delayed_choice,
    delayed_failure,
    delayed_rho,
    delayed_scale,
)
from holdfast.replicable._elementary import Floats
from holdfast.replicable._least import MOST_ROWS, least_whole
from holdfast.replicable._pair import pair_choice, pair_failure, pair_rho, pair_width
from holdfast.replicable._softmin import softmin_failure, softmin_rho, softmin_scale
from holdfast.replicable._tape import Tape
from holdfast.replicable._threshold import (
    threshold_choice,
    threshold_failure,
    threshold_rho,
    threshold_width,
)

__all__ = ["ONLY_ONE", "WAYS", "Problem", "Way", "ways_for"]


@dataclass(frozen=True)
class Problem:
    """What is asked of a choice, apart from its data."""

    models: int
    accuracy: float
    beta: float
    realizable: bool


@dataclass(frozen=True)
class Way:
    """One way to choose; ``width`` is the reach of its randomness, in units of the mean loss."""

    width: Callable[[Problem, int], float | None]
    rho: Callable[[Problem, int, float], float]
    failure: Callable[[Problem, int, float], float]
    pick: Callable[[Problem, Floats, float, Tape], int]

    def rho_at(self, problem: Problem, rows: int) -> float:
        """What can be promised from so many rows when accuracy comes first; 1 if accuracy cannot be had."""
        width = self.width(problem, rows)
        return 1.0 if width is None else self.rho(problem, rows, width)

    def rows(self, problem: Problem, rho: float) -> int | None:
        """The fewest rows for which accuracy and ``rho`` both hold."""
        return least_whole(lambda rows: self.rho_at(problem, rows) <= rho, most=MOST_ROWS)


def _softmin_pick(problem: Problem, means: Floats, width: float, tape: Tape) -> int:
    return correlated_log_choice(-means / width, tape.branch("clocks"))


WAYS = {
    "exponential": Way(
        lambda p, rows: softmin_scale(p.models, rows, p.accuracy, p.beta, realizable=p.realizable),
        lambda p, rows, width: softmin_rho(p.models, rows, width, realizable=p.realizable),
        lambda p, rows, width: softmin_failure(p.models, rows, p.accuracy, width, realizable=p.realizable),
        _softmin_pick,
    ),
    "delayed": Way(
        lambda p, rows: delayed_scale(p.models, rows, p.accuracy, p.beta),
        lambda p, rows, width: delayed_rho(p.models, rows, width),
        lambda p, rows, width: delayed_failure(p.models, rows, p.accuracy, width),
        lambda p, means, width, tape: delayed_choice(means, width, tape),
    ),
    "threshold": Way(
        lambda p, rows: threshold_width(p.models, rows, p.accuracy, p.beta, realizable=p.realizable),
        lambda p, rows, width: threshold_rho(p.models, rows, width, realizable=p.realizable),
        lambda p, rows, width: threshold_failure(p.models, rows, p.accuracy, width, realizable=p.realizable),
        lambda p, means, width, tape: threshold_choice(means, width, tape, realizable=p.realizable),
    ),
    "pair": Way(
        lambda p, rows: pair_width(rows, p.accuracy, p.beta),
        lambda p, rows, width: pair_rho(rows, width),
        lambda p, rows, width: pair_failure(rows, p.accuracy, width),
        lambda p, means, width, tape: pair_choice(means, width, tape),
    ),
}


ONLY_ONE = Way(
    lambda p, rows: 1.0,
    lambda p, rows, width: 0.0,
    lambda p, rows, width: 0.0,
    lambda p, means, width, tape: 0,
)


def ways_for(problem: Problem) -> dict[str, Way]:
    """The ways that apply: the pair rule is for two models and does not use that one is perfect."""
    return {name: way for name, way in WAYS.items() if name != "pair" or problem.models == 2}
