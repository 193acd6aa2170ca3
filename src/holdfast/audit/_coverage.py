"""How often some interval of a guard misses its truth, against any analyst; and whether the prior behind the
prices sums to more than one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.audit._finding import (
    Finding,
    Running,
    claim_argument,
    confidence_argument,
    function_name,
    rate_finding,
    subject_of,
    takes_second,
)
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.guard import Discovery
from holdfast.intervals import kl
from holdfast.workers import Progress, Workers


@dataclass(frozen=True)
class _Session:
    """One trial: how many intervals were asked for, how many missed, whether the guard refused to continue,
    how many claims were found, and how many of these are false."""

    guard_factory: Callable[[np.random.Generator], Any]
    analyst: Callable[..., Iterable[Any]]
    with_coins: bool

    def __call__(self, number: int, rng: np.random.Generator) -> list[int]:
        rows_rng, analyst_coins = rng.spawn(2)
        guard = self.guard_factory(rows_rng)
        coins_argument = (analyst_coins,) if self.with_coins else ()
        intervals = misses = refused = discoveries = false = 0
        try:
            for outcome in self.analyst(guard, *coins_argument):
                intervals += 1
                claim = _claim(outcome)
                if claim is None:
                    misses += not _holds(outcome)
                elif claim[0]:
                    discoveries += 1
                    false += not claim[1]
        except BudgetSpent:
            refused = 1
        return [intervals, misses, refused, discoveries, false]


def _claim(outcome: Any) -> tuple[bool, bool] | None:
    """Whether a claim was found and whether it is true; None for an item that is about no claim."""
    if isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[0], Discovery):
        return outcome[0].found, bool(outcome[1])
    return None


def _holds(outcome: Any) -> bool:
    """Whether an (interval, truth) pair holds; NaN never does."""
    if isinstance(outcome, (bool, np.bool_)):
        return bool(outcome)
    try:
        interval, truth = outcome
        low, high = (interval.low, interval.high) if hasattr(interval, "low") else interval
        return bool(low <= truth <= high)
    except (TypeError, ValueError):
        raise InvalidArgument(
            "analyst",
            "a function that gives pairs of an interval and the truth, or booleans",
            outcome,
            of="coverage",
        ) from None


def coverage(
    guard_factory: Callable[[np.random.Generator], Any],
    analyst: Callable[..., Iterable[Any]],
    trials: int,
    *,
    failure: float = 0.05,
    rate: float | None = None,
    confidence: float = 0.99,
    name: str | None = None,
    seed: int = 0,
    workers: Workers = 1,
    resume: str | Path | None = None,
    progress: Progress = False,
) -> Finding:
    """How often at least one interval of a guard misses its truth when ``analyst`` does the asking.

    ``guard_factory(rng)`` draws fresh rows and puts a guard before them: a ``Guard``, or anything the analyst
    can ask. ``analyst(guard)`` or ``analyst(guard, rng)`` asks what it likes and returns, or yields as it
    goes, a pair (answer, truth) for every answer; an answer has ``low`` and ``high`` or is such a pair, and a
    bare boolean says whether one held. An attack of ``holdfast.audit.attacks`` is such a list. A refusal
    (``BudgetSpent``) ends a trial and misses nothing. ``failure`` is the claimed probability that any
    interval misses.

    With ``rate`` it audits discoveries: the analyst gives pairs (discovery, whether its claim is true), and
    the finding is about the expected share of false ones among those found in a session, which ``rate``
    claims to bound.

    Guarantee: with probability ≥ ``confidence`` over the trials, the probability that any interval of a
    session with this analyst misses lies in [low, high]. Another analyst may do worse: only refutation
    carries over to the guard's promise.
    Assumes: truths that are right (not checkable).
    Reference: Clopper and Pearson 1934; ``docs/theory/code-guard.md`` for what is promised.

    Args:
        trials: How many trials to run.
        name: What the finding calls the subject. None takes it from the functions.
        seed: The seed of the trials.
        workers: Who shares the trials (see :mod:`holdfast.workers`). The finding does not depend on it.
        resume: A JSON-lines file that keeps finished trials. They are not run again.
        progress: True for a bar, or a function of (done, total).

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
    claimed_rate = claim_argument(rate, "rate", "[0, 1]", of=of)
    about = {"guard_factory": function_name(guard_factory), "analyst": function_name(analyst)}
    running = Running(of, seed, workers, resume, progress)
    session_of = _Session(guard_factory, analyst, takes_second(analyst, "rng"))
    sessions = running.run(session_of, trials, about)
    if claimed_rate is not None:
        subject = subject_of(name, guard_factory, analyst)
        return _of_discoveries(sessions, subject, claimed_rate, confidence, seed)
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


def _of_discoveries(
    sessions: list[list[int]], subject: str, rate: float, confidence: float, seed: int
) -> Finding:
    """The expected share of false discoveries, by the interval of a mean of values in [0, 1]."""
    trials = len(sessions)
    discoveries, false = (sum(session[place] for session in sessions) for place in (3, 4))
    share = math.fsum(session[4] / session[3] for session in sessions if session[3]) / trials
    limits = kl(share, trials, -math.log1p(-confidence))
    return Finding(
        "coverage",
        subject,
        "share of false discoveries",
        trials,
        share,
        limits.low,
        limits.high,
        confidence,
        rate,
        statement=f"Of {discoveries:,} discoveries in {trials:,} sessions {false:,} were false; on average "
        f"over all sessions the share was {share:.3g}.",
        assumes=("The truths that the analyst states are right.", "Another analyst may do worse."),
        seed=seed,
        details={"found": discoveries, "false": false},
    )


def prior(prices: Iterable[Any], *, name: str = "prices") -> Finding:
    """A lower bound on the sum of the prior behind a question's prices: Σ exp(−price) over different outputs.

    ``prices`` are in nats, one for each output that the question could have; of infinitely many outputs, give
    as many as you like. A guard whose prices sum to more than 1 sells knowledge too cheaply.

    Guarantee: deterministic; the sum over all outputs is at least ``low``. More than 1 contradicts the code
    guard's validity, however long an analyst would need to use it.
    Assumes: that the prices belong to different outputs of one question (not checkable).
    Reference: ``docs/theory/code-guard.md``, Kraft's inequality.

    Args:
        name: What the finding calls the subject. None takes it from the functions.

    >>> import math
    >>> prior([math.log(2)] * 2).verdict
    'not refuted'
    >>> prior([math.log(4 / 3)] * 2).verdict
    'refuted'
    """
    listed = checks.reals(prices, "prices", "[0, inf)", of="prior", by="docs/theory/code-guard.md")
    # Each exponential is within an ulp and fsum rounds once; a fair prior must not be refuted by rounding.
    mass = math.fsum(math.exp(-price) for price in listed) * (1 - 1e-12)
    if not math.isfinite(mass):
        raise InvalidArgument("prices", "numbers whose exponentials can be added", prices, of="prior")
    return Finding(
        "prior",
        name,
        "sum of the prior",
        len(listed),
        mass,
        mass,
        math.inf,
        1.0,
        1.0,
        statement=f"{len(listed):,} outputs have prices that stand for a total probability of {mass:.6g}.",
        assumes=("The prices belong to different outputs of one question.",),
        details={"outputs": len(listed)},
    )
