"""The attacks of ``holdfast.audit.attacks`` on counts: what each does to many methods at once, run by run.

In every attack the questions but the last are fixed in advance, so their counts are drawn first; only the
vote at the end looks at rows, which :mod:`coins` keeps in packed words. Every method meets the same rows in a
run. On a chain all that is asked is a function of how often each state was visited.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from coins import Coins
from guarded import Method
from sessions import Floats, Numbers, Place, Seen, Session

from holdfast.audit.attacks import sticky_states

STAY = 0.98
_WEIGHT = 3  # a fingerprint weighs columns from −3 to 3
_TRACED = 2048  # rows that a fingerprint is compared with, of those inside and of fresh ones


@dataclass(frozen=True)
class Met:
    """What a method's answers did in one run: the largest distance from a truth, how far the last answer is
    above its truth (NaN after a refusal), whether an interval of its own missed, and its widest."""

    error: float
    gain: float
    missed: bool = False
    widest: float = math.nan
    told: float = math.nan


Attacker = Callable[[Place, tuple[Method, ...], np.random.Generator], list[Met]]


@dataclass(frozen=True)
class Attack:
    """One attack, what it says of itself, and why a method is not attacked in this way ("": it is)."""

    name: str
    about: str
    run: Attacker
    spares: Callable[[Method], str]
    told: str = ""  # what ``Met.told`` says
    entries: Callable[[int, int], float] = lambda rows, queries: rows * queries
    asked: int = 10**5  # questions at most, over all runs, to whoever answers one by one


def _met(session: Session, answers: Floats, truths: Floats, told: float = math.nan) -> Met:
    distances = np.abs(answers - truths)
    error = float(np.nanmax(distances)) if np.isfinite(distances).any() else 0.0
    return Met(error, float(answers[-1] - truths[-1]), session.missed, session.widest, told)


@dataclass(frozen=True)
class _World:
    """Columns of fair coins on the training part and on the other rows."""

    place: Place
    training: Coins
    others: Coins

    @classmethod
    def toss(cls, place: Place, columns: int, rng: np.random.Generator) -> _World:
        halves = (Coins.toss(columns, rows, rng) for rows in (place.half, place.protected))
        return cls(place, *halves)

    def seen(self, *, on_edge: float | None = None, lines: bool = False) -> Seen:
        """The columns as questions; every truth is ½."""
        counts = self.training.counts, self.others.counts
        return Seen(
            self.place.rows,
            self.place.half,
            *counts,
            np.full(len(counts[0]), 0.5),
            on_edge,
            np.hstack([self.training.words, self.others.words]) if lines else None,
        )

    def vote(self, weights: Numbers, rng: np.random.Generator) -> _World:
        """The world of one column: where the weighted sum of these, as −1 and 1, is positive."""
        return _World(self.place, *(part.vote(weights, rng) for part in (self.training, self.others)))

    def traced(self, weights: Numbers, rng: np.random.Generator) -> float:
        """How much likelier a protected row is called one than a fresh row: the highest scores are called."""
        rows = min(_TRACED, self.place.protected)
        inside = Coins(self.others.words[:, : -(-rows // 64)], rows).scores(weights)
        fresh = Coins.toss(len(weights), rows, rng).scores(weights)
        called = np.sort(np.concatenate([inside, fresh]))[-rows]
        return float(np.mean(inside >= called) - np.mean(fresh >= called))


Weigh = Callable[[Floats, Method, Seen, np.random.Generator], Numbers]


def _vote(weigh: Weigh, *, on_edge: bool = False, lines: bool = False, traced: bool = False) -> Attacker:
    """Ask about every column, weigh them by the answers, and ask about their vote; with ``traced``, also tell
    rows that were asked about from fresh ones."""

    def run(place: Place, methods: tuple[Method, ...], rng: np.random.Generator) -> list[Met]:
        world = _World.toss(place, place.queries - 1, rng)
        below = 0.5 - 0.25 / place.rows  # no share lies between this and ½
        columns = world.seen(on_edge=below if on_edge else None, lines=lines)
        gained = _expected_share(place.queries - 1, place.protected) if on_edge else None
        met = []
        for method in methods:
            session = method.start(place, rng)
            answers = session(columns)
            last, told = np.full(1, np.nan), math.nan
            if np.isfinite(answers).all():
                weights = weigh(answers, method, columns, rng)
                last = session(world.vote(weights, rng).seen(on_edge=gained, lines=lines))
                told = world.traced(weights, rng) if traced else math.nan
            met.append(_met(session, np.append(answers, last), np.full(place.queries, 0.5), told))
        return met

    return run


def _expected_share(columns: int, rows: int) -> float:
    """How often the vote agrees on the rows that chose its signs, less two standard deviations."""
    return (1 + math.erf(math.sqrt(columns / (math.pi * rows)))) / 2 - 1 / math.sqrt(rows)


def _signs(answers: Floats, method: Method, seen: Seen, rng: np.random.Generator) -> Numbers:
    return np.where(answers >= 0.5, 1, -1)


def _good(answers: Floats, method: Method, seen: Seen, rng: np.random.Generator) -> Numbers:
    """What scored above ½; on a board, what raised the standing."""
    if not method.board:
        return np.where(answers > 0.5, 1, 0)
    return np.where(answers > np.concatenate([[0.5], np.maximum.accumulate(answers)[:-1]]), 1, 0)


def _leaning(answers: Floats, method: Method, seen: Seen, rng: np.random.Generator) -> Numbers:
    """Whole weights by how far an answer leans."""
    spread = float(np.std(answers))
    if spread < 1e-12:
        return np.where(answers >= 0.5, 1, -1)
    return np.clip(np.rint((answers - 0.5) / spread * 1.5), -_WEIGHT, _WEIGHT).astype(np.int64)


def _agreeing(answers: Floats, method: Method, seen: Seen, rng: np.random.Generator) -> Numbers:
    """Columns that the attacker's own rows and the answers agree on, both by a standard error.

    The own rows are the public training part; where a method has none, the attacker brings as many.
    """
    own = seen.training if method.training else rng.binomial(seen.half, 0.5, len(answers))
    rows = seen.rows - seen.half if method.training else seen.rows
    mine, answered = 2 * own / seen.half - 1, 2 * answers - 1
    kept = (mine * answered > 0) & (np.abs(mine) >= seen.half**-0.5) & (np.abs(answered) >= rows**-0.5)
    return np.where(kept, np.sign(mine), 0).astype(np.int64)


def _repeats(queries: int) -> int:
    return max(2, math.isqrt(queries - 1) // 2)


def _averaging(place: Place, methods: tuple[Method, ...], rng: np.random.Generator) -> list[Met]:
    """Each column many times over, in other words; the vote of the averages."""
    repeats = _repeats(place.queries)
    world = _World.toss(place, (place.queries - 1) // repeats, rng)
    columns = world.seen()
    asked = Seen(
        place.rows,
        place.half,
        *(np.repeat(counts, repeats) for counts in (columns.training, columns.protected)),
        np.full(len(columns.truths) * repeats, 0.5),
    )
    met = []
    for method in methods:
        session = method.start(place, rng)
        answers = session(asked)
        last = np.full(1, np.nan)
        if np.isfinite(answers).all():
            means = answers.reshape(-1, repeats).mean(axis=1)
            last = session(world.vote(_signs(means, method, columns, rng), rng).seen())
        met.append(_met(session, np.append(answers, last), np.full(len(answers) + 1, 0.5)))
    return met


def _differencing(place: Place, methods: tuple[Method, ...], rng: np.random.Generator) -> list[Met]:
    """Everyone, and everyone but one: does the difference tell whether that one has the secret?"""
    targets = min(place.queries - 1, place.protected)
    training, protected = rng.binomial(place.half, 0.5), rng.binomial(place.protected, 0.5)
    secrets = rng.permutation(np.repeat([1, 0], [protected, place.protected - protected]))[:targets]
    truths = np.full(targets + 1, 0.5)
    seen = Seen(
        place.rows,
        place.half,
        np.full(targets + 1, training),
        protected - np.concatenate([[0], secrets]),
        truths,
    )
    met = []
    for method in methods:
        session = method.start(place, rng)
        answers = session(seen)
        rows = place.protected if method.training else place.rows
        guessed = answers[0] - answers[1:] > 0.5 / rows
        right = float(np.mean(guessed == (secrets == 1))) if np.isfinite(answers).all() else math.nan
        met.append(_met(session, answers, truths, right))
    return met


def _chain(place: Place, methods: tuple[Method, ...], rng: np.random.Generator) -> list[Met]:
    """Every parity of a sticky chain's state, and the vote that its stays suggest."""
    states = place.queries
    first = sticky_states(rng, place.rows, bits=states.bit_length() - 1, stay=place.stay)
    visits = [np.bincount(part, minlength=states) for part in (first[: place.half], first[place.half :])]
    even = [((int(count.sum()) + _walsh(count)) // 2)[1:] for count in visits]
    effective = place.rows * (1 - place.stay) / (1 + place.stay)
    truths = np.full(states - 1, 0.5)
    met = []
    for method in methods:
        session = method.start(place, rng)
        # Whoever takes guesses and knows of the chain is given those that make every answer one bit.
        answers = session(Seen(place.rows, place.half, *even, truths, 0.5 if method.chains else None))
        last, truth = np.full(1, np.nan), 0.5
        if np.isfinite(answers).all():
            turned = np.concatenate([[0], np.where(answers >= 0.5, 1, -1)])
            vote = _walsh(turned) > 0
            truth = float(vote.mean())
            expected = truth + _expected_share(states - 1, max(1, round(effective))) - 0.5
            counts = [np.array([int(count[vote].sum())]) for count in visits]
            edge = expected if method.chains else None
            last = session(Seen(place.rows, place.half, *counts, np.array([truth]), edge))
        met.append(_met(session, np.append(answers, last), np.append(truths, truth)))
    return met


def _walsh(values: Numbers) -> Numbers:
    """Σ over states of value · (−1)^(parity of mask & state), for every mask."""
    sums = np.array(values, dtype=np.int64)
    width = 1
    while width < len(sums):
        pairs = sums.reshape(-1, 2, width)
        sums = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        width *= 2
    return sums


def _no_board(method: Method) -> str:
    return "a board scores predictions and shows only the best: see boosting" if method.board else ""


def _only_means(method: Method) -> str:
    return _no_board(method) or ("" if method.name != "split" else "parts of a chain are not independent")


def _only_guesses(method: Method) -> str:
    return _no_board(method) or ("" if method.guesses else "takes no guesses")


def _only_noise(method: Method) -> str:
    return _no_board(method) or ("" if method.noisy else "has no noise: a question asked again tells nothing")


ATTACKS: tuple[Attack, ...] = (
    Attack(
        "sign",
        "turn each column the way its answer points; ask for the majority",
        _vote(_signs),
        _no_board,
        asked=2 * 10**5,
    ),
    Attack(
        "sign, guesses on the edge",
        "the same with guesses such that every answer is one bit",
        _vote(_signs, on_edge=True),
        _only_guesses,
    ),
    Attack(
        "linear classifier",
        "keep the columns that a public part and the answers agree on; ask for their vote",
        _vote(_agreeing),
        _no_board,
    ),
    Attack(
        "boosting",
        "random predictions; submit the majority of those that did well",
        _vote(_good, lines=True),
        lambda method: "",
    ),
    Attack(
        "averaging",
        "ask for few columns, each many times; turn them by the averages",
        _averaging,
        _only_noise,
        entries=lambda rows, queries: rows * queries / _repeats(queries),
    ),
    Attack(
        "fingerprint",
        "weigh columns by how far their answers lean; ask for the rows that lean the same way",
        _vote(_leaning, traced=True),
        _no_board,
        told="members told from strangers, less those who are not",
    ),
    Attack(
        "differencing",
        "everyone, and everyone but one",
        _differencing,
        _no_board,
        told="secrets told",
        entries=lambda rows, queries: queries,
        asked=25_000,
    ),
    Attack(
        "chain",
        f"a chain that stays with probability {STAY:g}: every parity of its state, and their vote",
        _chain,
        _only_means,
        entries=lambda rows, queries: rows + queries,
        asked=25_000,
    ),
)
