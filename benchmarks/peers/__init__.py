"""What a user could pick instead of Holdfast, each from its published rule in code of our own.

``PEERS`` has the error that each one's theorem certifies for k adaptive means on n independent rows. A peer
that needs guesses takes them from half of the rows (Guess and Check from a third, where that is better), as
our guards do, and is asked for the same stated number of surprises; ``about`` says where a promise is a
smaller one, ``invalid`` where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from scipy import special

from holdfast.dependence import reusable_holdout_rows
from peers._blanc import subsampling_choice, subsampling_error
from peers._experiment import SIZES, experiment
from peers._gaussian import bassily_error, jung_error, most_queries, rogers_choice, rogers_error
from peers._guess_and_check import GuessAndCheck, guess_and_check_error
from peers._kontorovich import chain_error, correlated_error, two_state_dependence
from peers._ladder import Ladder, ParameterFreeLadder, boosting, ladder_choice, ladder_error
from peers._plain import naive_answers, non_adaptive_error, splitting_error
from peers._rounding import (
    Rounding,
    best_rounding,
    evidence_error,
    evidence_nats,
    most_rounded_queries,
    rounding_error,
)
from peers._thresholdout import (
    Thresholdout,
    thresholdout_error,
    thresholdout_parameters,
    thresholdout_rows,
    thresholdout_width,
    thresholdout_width_choice,
)

__all__ = [
    "PEERS",
    "SIZES",
    "GuessAndCheck",
    "Ladder",
    "ParameterFreeLadder",
    "Peer",
    "Rounding",
    "Thresholdout",
    "bassily_error",
    "best_rounding",
    "boosting",
    "chain_error",
    "correlated_error",
    "evidence_error",
    "evidence_nats",
    "experiment",
    "guess_and_check_error",
    "honest_distance",
    "jung_error",
    "ladder_choice",
    "ladder_error",
    "most_queries",
    "most_rounded_queries",
    "naive_answers",
    "non_adaptive_error",
    "published_holdout_error",
    "rogers_choice",
    "rogers_error",
    "rounding_error",
    "splitting_error",
    "subsampling_choice",
    "subsampling_error",
    "thresholdout_error",
    "thresholdout_parameters",
    "thresholdout_rows",
    "thresholdout_width",
    "thresholdout_width_choice",
    "two_state_dependence",
]


@dataclass(frozen=True)
class Peer:
    """One method and the error it certifies: ``error(rows, queries, beta, surprises)``."""

    name: str
    source: str
    error: Callable[[int, int, float, int], float]
    guesses: bool = False
    about: str = ""
    invalid: str = ""

    @property
    def comparable(self) -> bool:
        """Whether its promise is the one of the grid: all k answers, adaptive questions."""
        return not self.about and not self.invalid


def honest_distance(
    rows: int, queries: int, beta: float, surprises: int, training: int | None = None
) -> float:
    """How far guesses from so many training rows (None: as many as of the holdout) may lie from the holdout's
    value, so that by chance no more than max(β, surprises/20) of them are farther: our planner's rule."""
    by_chance = max(beta, 0.05 * surprises) / queries
    deviation = math.sqrt(1 / rows + 1 / (training or rows)) / 2
    return float(-special.ndtri(min(0.5, by_chance / 2))) * deviation


def published_holdout_error(rows: int, queries: int, beta: float, budget: int) -> float:
    """BDP Theorem 2 as printed (corrected), c = ½: the least error for so many holdout rows."""

    def enough(error: float) -> bool:
        needed = reusable_holdout_rows(
            queries=queries, budget=budget, error=error, beta=beta, c=0.5, method="paper"
        )
        return needed <= rows

    low, high = 1e-6, 1.0
    if not enough(1.0 - 1e-9):
        return 1.0
    while high - low > 1e-7 * high:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


_ROOMS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 100, 200)


def _budget(queries: int, surprises: int) -> int:
    return min(max(1, surprises), queries)


def _guess_and_check(rows: int, queries: int, beta: float, surprises: int) -> float:
    """Where room for more failures and a nearer guess give less, or a smaller training part, that is taken,
    as our planner does."""
    stated = min(surprises, queries - 1)
    rooms = sorted({stated, *(room for room in _ROOMS if stated < room < queries)})
    widths = []
    for training in (rows // 2, round(rows / 3)):
        holdout = rows - training
        for room in rooms:
            honest = honest_distance(holdout, queries, beta, room, training)
            widths.append(guess_and_check_error(holdout, queries, beta, room, honest))
    return min(widths)


def _thresholdout_width(rows: int, queries: int, beta: float, surprises: int) -> float:
    holdout = rows - rows // 2
    honest = honest_distance(holdout, queries, beta, surprises)
    return thresholdout_width(holdout, queries, beta, _budget(queries, surprises), honest)


PEERS = (
    Peer(
        "naive reuse",
        "means over all rows",
        lambda n, k, beta, _: non_adaptive_error(n, k, beta),
        invalid="holds only for questions fixed in advance",
    ),
    Peer("splitting", "Hoeffding 1963", lambda n, k, beta, _: splitting_error(n, k, beta)),
    Peer("rounding", "description length", lambda n, k, beta, _: rounding_error(n, k, beta)),
    Peer("EvidenceOS", "2026, a uniform code", lambda n, k, beta, _: evidence_error(n, k, beta)),
    Peer("noise, Rogers et al.", "Theorem 2.1, 2020", lambda n, k, beta, _: rogers_error(n, k, beta)),
    Peer("noise, Jung et al.", "Theorem 3.5, 2019", lambda n, k, beta, _: jung_error(n, k, beta)),
    Peer("noise, Bassily et al.", "2016", lambda n, k, beta, _: bassily_error(n, k, beta)),
    Peer("subsampling, Blanc", "2023", lambda n, k, beta, _: subsampling_error(n, k, beta)),
    Peer(
        "Guess and Check",
        "Rogers et al. 2020",
        _guess_and_check,
        guesses=True,
    ),
    Peer(
        "Thresholdout",
        "Dwork et al. 2015, Theorem 25",
        lambda n, k, beta, s: thresholdout_error(n - n // 2, k, beta, _budget(k, s)),
        guesses=True,
    ),
    Peer("Thresholdout by widths", "Rogers et al. 2020, B.9", _thresholdout_width, guesses=True),
    Peer(
        "reusable holdout",
        "BDP Theorem 2 as printed, corrected",
        lambda n, k, beta, s: published_holdout_error(n - n // 2, k, beta, _budget(k, s)),
        guesses=True,
    ),
    Peer(
        "Ladder",
        "Blum and Hardt 2015",
        lambda n, k, beta, _: ladder_error(n, k, beta),
        about="only the best score so far",
    ),
    Peer(
        "parameter-free Ladder",
        "Blum and Hardt 2015",
        lambda n, k, beta, _: 1.0,
        about="only the best score so far",
        invalid="has no theorem",
    ),
)
