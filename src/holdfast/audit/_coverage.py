"""How often some interval of a guard misses its truth, against any analyst."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.audit._finding import (
    Finding,
    claim_argument,
    confidence_argument,
    name_of,
    rate_finding,
    subject_of,
)
from holdfast.audit._trials import Progress, Running, takes_second
from holdfast.errors import BudgetSpent, InvalidArgument


@dataclass(frozen=True)
class _Session:
    """One trial: how many intervals were asked for, how many missed, whether the guard refused to go on."""

    guard_factory: Callable[[np.random.Generator], Any]
    analyst: Callable[..., Iterable[Any]]
    with_coins: bool

    def __call__(self, number: int, rng: np.random.Generator) -> list[int]:
        world, coins = rng.spawn(2)
        guard = self.guard_factory(world)
        more = (coins,) if self.with_coins else ()
        asked = missed = refused = 0
        try:
            for item in self.analyst(guard, *more):
                asked += 1
                missed += not _holds(item)
        except BudgetSpent:
            refused = 1
        return [asked, missed, refused]


def _holds(item: Any) -> bool:
    """Whether an (interval, truth) pair holds; NaN never does."""
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    try:
        interval, truth = item
        low, high = (interval.low, interval.high) if hasattr(interval, "low") else interval
        return bool(low <= truth <= high)
    except (TypeError, ValueError):
        raise InvalidArgument(
            "analyst", "one that gives pairs of an interval and the truth, or booleans", item, of="coverage"
        ) from None


def coverage(
    guard_factory: Callable[[np.random.Generator], Any],
    analyst: Callable[..., Iterable[Any]],
    trials: Any,
    *,
    failure: Any = 0.05,
    confidence: Any = 0.99,
    name: str | None = None,
    seed: Any = 0,
    workers: Any = 1,
    resume: Any = None,
    progress: Progress = False,
) -> Finding:
    """How often at least one interval of a guard misses its truth when ``analyst`` does the asking.

    ``guard_factory(rng)`` draws fresh rows and puts a guard before them: a ``Guard``, or anything the analyst
    can ask. ``analyst(guard)`` or ``analyst(guard, rng)`` asks what it likes and returns, or yields as it
    goes, a pair (answer, truth) for every answer; an answer has ``low`` and ``high`` or is such a pair, and a
    bare boolean says whether one held. An attack of ``holdfast.audit.attacks`` is such a list. A refusal
    (``BudgetSpent``) ends a trial and misses nothing. ``failure`` is the claimed probability that any
    interval misses.

    Guarantee: with probability ≥ ``confidence`` over the trials, the probability that any interval of a
    session with this analyst misses lies in [low, high]. Another analyst may do worse: only refutation
    carries over to the guard's promise.
    Assumes: truths that are right (not checkable).
    Reference: Clopper and Pearson 1934; theory 2.2 for what is promised.

    >>> from holdfast.intervals import hoeffding
    >>> def plain(rng):
    ...     rows = rng.integers(0, 2, 400)
    ...     return lambda nats: hoeffding(rows.mean(), 400, nats)
    >>> coverage(plain, lambda guard: [(guard(3.0), 0.5)], 500).verdict
    'confirmed'
    >>> coverage(plain, lambda guard: [(guard(0.5), 0.5)], 500).verdict
    'refuted'
    """
    of = "coverage"
    trials = checks.whole(trials, "trials", of=of)
    confidence = confidence_argument(confidence, of=of)
    seed = checks.whole(seed, "seed", at_least=0, of=of)
    claim = claim_argument(failure, "failure", "[0, 1]", of=of)
    about = {"guard_factory": name_of(guard_factory), "analyst": name_of(analyst)}
    running = Running(of, seed, workers, resume, progress)
    session_of = _Session(guard_factory, analyst, takes_second(analyst, "rng"))
    sessions = running.run(session_of, trials, about)
    asked, missed, refused = (sum(session[place] for session in sessions) for place in range(3))
    broken = sum(session[1] > 0 for session in sessions)
    return rate_finding(
        of,
        subject_of(name, guard_factory, analyst),
        "sessions with a miss",
        hits=broken,
        trials=trials,
        confidence=confidence,
        claim=claim,
        statement=f"In {broken:,} of {trials:,} sessions some interval missed its truth: {missed:,} of "
        f"{asked:,} intervals in all. {refused:,} sessions ended with a refusal.",
        assumes=("The truths that the analyst states are right.", "Another analyst may do worse."),
        seed=seed,
        details={"broken": broken, "asked": asked, "missed": missed, "refused": refused},
    )
