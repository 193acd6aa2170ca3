"""Everyone who is attacked: naive reuse, the published methods, each of our strategies.

Each is known by its promise for all k answers at probability .95 and by a fresh account at a place. The code
guard and the board give each answer an interval of its own instead, and that is what is judged. A method
whose promise says nothing (½ or more) at a place is not attacked there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from peers import (
    PEERS,
    Thresholdout,
    best_rounding,
    honest_distance,
    ladder_choice,
    non_adaptive_error,
    rogers_choice,
    subsampling_choice,
    thresholdout_error,
    thresholdout_parameters,
    thresholdout_width_choice,
)
from sessions import (
    Agreed,
    Checked,
    Climbed,
    Coded,
    Compared,
    Floats,
    InCells,
    OnFreeLadder,
    OnLadder,
    Place,
    Seen,
    Session,
)

from holdfast.coding import Schedule, checked_schedule, grid_schedule
from holdfast.dependence import Independent, MarkovChain
from holdfast.planning import Plan, plan
from holdfast.stability import transfer_error
from holdfast.tails import Tail

BETA = 0.05
NOTHING = 0.5
SURPRISES = 10


@dataclass(frozen=True)
class Method:
    """One answerer: its promise at a place (None where it has no theorem) and a fresh account there."""

    name: str
    certified: Callable[[Place], float | None]
    start: Callable[[Place, np.random.Generator], Session]
    ours: bool = False
    invalid: str = ""
    training: bool = False  # half of the rows are public
    noisy: bool = False
    board: bool = False
    guesses: bool = False  # takes guesses that the attacker brings
    one_by_one: bool = False  # the product's own account, a question at a time
    chains: bool = False  # whether the promise holds on a chain
    intervals: bool = False  # every answer has an interval of its own


def _chosen(choice: Callable[[int, int, float], Any]) -> Callable[[Place], Any]:
    """What a peer's own optimiser chooses at a place, once."""
    return cache(lambda place: choice(place.rows, place.queries, BETA))


_ROUNDING, _ROGERS, _SUBSAMPLING, _LADDER = map(
    _chosen, (best_rounding, rogers_choice, subsampling_choice, ladder_choice)
)
_JUNG = _chosen(lambda rows, queries, beta: transfer_error(rows, queries, beta, method="jung"))


def _means(place: Place, rng: np.random.Generator) -> Session:
    return Session(lambda seen: seen.shares)


def _split(place: Place, rng: np.random.Generator) -> Session:
    """Rows of its own for each question: what they show has nothing to do with any other answer."""
    part = place.rows // place.queries
    return Session(lambda seen: rng.binomial(part, seen.truths) / part)


def _rounded(place: Place, rng: np.random.Generator) -> Session:
    cells = _ROUNDING(place)[1]
    return Session(lambda seen: cells.answers(seen.shares))


def _with_noise(
    size: Callable[[Place], float], law: str = "normal"
) -> Callable[[Place, np.random.Generator], Session]:
    def start(place: Place, rng: np.random.Generator) -> Session:
        scale, draw = size(place), getattr(rng, law)
        return Session(lambda seen: seen.shares + draw(scale=scale, size=len(seen.truths)))

    return start


def _subsampled(place: Place, rng: np.random.Generator) -> Session:
    votes = _SUBSAMPLING(place)[1]
    return Session(lambda seen: rng.binomial(votes, seen.shares) / votes)


def _as_in_the_experiment(place: Place, rng: np.random.Generator) -> Session:
    """T = .04, normal noise of .01 on threshold and answer, no budget."""

    def answers(seen: Seen) -> Floats:
        threshold, noise = rng.normal(scale=0.01, size=(2, len(seen.truths)))
        apart = np.abs(seen.values - seen.guesses) > 0.04 + threshold
        return np.where(apart, seen.values + noise, seen.guesses)

    return Session(answers)


def _budget(place: Place) -> int:
    return min(SURPRISES, place.queries)


def _peer(name: str) -> Callable[[Place], float]:
    chosen_peer = next(peer for peer in PEERS if peer.name == name)
    return cache(
        lambda place: chosen_peer.error(place.rows, place.queries, BETA, min(SURPRISES, place.queries))
    )


_GUESS_AND_CHECK = _peer("Guess and Check")


@cache
def _chain(place: Place) -> MarkovChain:
    """Two states suffice: norm, contraction and so every tail are those of the chain with more."""
    other = (1 - place.stay) / 2
    return MarkovChain([[1 - other, other], [other, 1 - other]], place.rows)


@cache
def _plan(place: Place, half: bool) -> Plan:
    """With ``half``, for the rows that are left beside a training part, and with surprises."""
    terms: dict[str, Any] = {"rows": place.protected if half else place.rows}
    if place.stay:
        terms = {"dependence": _chain(place)}
    surprises = min(SURPRISES, place.queries) if half else 0
    return plan(queries=place.queries, confidence=1 - BETA, surprises=surprises, **terms)


def _planned(place: Place, name: str, half: bool) -> Any:
    return _plan(place, half).method(name)


def _error(name: str, half: bool = False) -> Callable[[Place], float | None]:
    return lambda place: float(_planned(place, name, half).error)


def _parameter(name: str, key: str) -> Callable[[Place], float]:
    return lambda place: float(_planned(place, name, False).parameters[key])


def _compared(
    terms: Callable[[Place], tuple[float, float]],
) -> Callable[[Place, np.random.Generator], Session]:
    """Thresholdout with this threshold and noise; our reusable holdout is the same with a better promise."""
    return lambda place, rng: Compared(place, Thresholdout(*terms(place), _budget(place), rng))


def _reusable(place: Place) -> tuple[float, float]:
    terms = _planned(place, "reusable-holdout", True).parameters
    return terms["threshold"], terms["noise"]


def _thresholdout(place: Place) -> tuple[float, float]:
    error = thresholdout_error(place.protected, place.queries, BETA, _budget(place))
    return thresholdout_parameters(place.queries, error, BETA)


@cache
def _by_widths(place: Place) -> tuple[float, float, float]:
    honest = honest_distance(place.protected, place.queries, BETA, SURPRISES)
    width, scale = thresholdout_width_choice(place.protected, place.queries, BETA, _budget(place), honest)
    return width, honest, scale


def _own(place: Place) -> None:
    """Every answer has an interval of its own."""


def _tail(place: Place, rows: int) -> Tail:
    return (_chain(place) if place.stay else Independent(rows)).mean_tail(0.0, 1.0)


@cache
def _agreed(place: Place) -> Schedule | None:
    """Guesses from half of the rows; on a chain the attacker brings them, and all rows are protected."""
    rows = place.rows if place.stay else place.protected
    return checked_schedule(_tail(place, rows), place.queries, BETA, _budget(place), 1.0)


@cache
def _cells(place: Place) -> Schedule | None:
    return grid_schedule(_tail(place, place.rows), place.queries, BETA)


def _lasts(schedule: Callable[[Place], Schedule | None]) -> Callable[[Place], float | None]:
    def error(place: Place) -> float:
        certificate = schedule(place)
        return 1.0 if certificate is None else certificate.error

    return error


def _coded(place: Place, rng: np.random.Generator) -> Session:
    return Coded(place, BETA, _chain(place).mean_tail(0, 1) if place.stay else None)


METHODS: tuple[Method, ...] = (
    Method(
        "naive reuse",
        lambda place: non_adaptive_error(place.rows, place.queries, BETA),
        _means,
        invalid="for questions fixed in advance only",
    ),
    Method("rounding", lambda place: _ROUNDING(place)[0], _rounded),
    Method(
        "noise, Rogers et al.",
        lambda place: _ROGERS(place)[0],
        _with_noise(lambda place: _ROGERS(place)[1]),
        noisy=True,
    ),
    Method(
        "noise, Jung et al.",
        lambda place: _JUNG(place).error,
        _with_noise(lambda place: _JUNG(place).sd),
        noisy=True,
    ),
    Method(
        "subsampling, Blanc",
        lambda place: _SUBSAMPLING(place)[0],
        _subsampled,
        noisy=True,
    ),
    Method(
        "Guess and Check",
        _GUESS_AND_CHECK,
        lambda place, rng: Checked(place, _GUESS_AND_CHECK(place), BETA),
        training=True,
        guesses=True,
    ),
    Method(
        "Thresholdout",
        lambda place: thresholdout_error(place.protected, place.queries, BETA, _budget(place)),
        _compared(_thresholdout),
        training=True,
        noisy=True,
    ),
    Method(
        "Thresholdout by widths",
        lambda place: _by_widths(place)[0],
        _compared(lambda place: _by_widths(place)[1:]),
        training=True,
        noisy=True,
    ),
    Method(
        "Thresholdout, as in its experiment",
        lambda place: None,
        _as_in_the_experiment,
        invalid="no theorem with these numbers",
        training=True,
        noisy=True,
    ),
    Method(
        "Ladder",
        lambda place: _LADDER(place)[0],
        lambda place, rng: OnLadder(place, _LADDER(place)[1]),
        board=True,
    ),
    Method(
        "parameter-free Ladder",
        lambda place: None,
        lambda place, rng: OnFreeLadder(place),
        invalid="no theorem",
        board=True,
    ),
    Method("split", _error("split"), _split, ours=True),
    Method(
        "transfer-gaussian",
        _error("transfer-gaussian"),
        _with_noise(_parameter("transfer-gaussian", "sd")),
        ours=True,
        noisy=True,
    ),
    Method(
        "typical-gaussian",
        _error("typical-gaussian"),
        _with_noise(_parameter("typical-gaussian", "scale")),
        ours=True,
        noisy=True,
        chains=True,
    ),
    Method(
        "typical-laplace",
        _error("typical-laplace"),
        _with_noise(_parameter("typical-laplace", "scale"), "laplace"),
        ours=True,
        noisy=True,
        chains=True,
    ),
    Method(
        "reusable-holdout",
        _error("reusable-holdout", half=True),
        _compared(_reusable),
        ours=True,
        training=True,
        noisy=True,
    ),
    Method(
        "code",
        _own,
        _coded,
        ours=True,
        training=True,
        guesses=True,
        one_by_one=True,
        chains=True,
        intervals=True,
    ),
    Method(
        "agreed-code",
        _lasts(_agreed),
        lambda place, rng: Agreed(place, _agreed(place), _tail(place, place.protected)),
        ours=True,
        training=True,
        guesses=True,
        chains=True,
    ),
    Method(
        "grid-code",
        _lasts(_cells),
        lambda place, rng: InCells(place, _cells(place)),
        ours=True,
        chains=True,
    ),
    Method(
        "board",
        _own,
        lambda place, rng: Climbed(place, BETA),
        ours=True,
        board=True,
        one_by_one=True,
        intervals=True,
    ),
)
