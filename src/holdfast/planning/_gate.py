"""What a gate can see: power before it is opened.

A candidate is compared with the incumbent on n tasks. With probability q it differs on a task, and its true
gain is g, so it fixes a task with probability (q + g)/2 and breaks one with probability (q − g)/2. Given how
many tasks differ, the sign test needs a least number of fixed ones. So power is a sum over binomials, and
nothing is simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from holdfast import checks, search
from holdfast.coding import MICRO, Account, Experience, Weights
from holdfast.errors import InvalidArgument
from holdfast.intervals import certified_gain, sign_test
from holdfast.records import Record

_RATIO = 4  # tasks fixed for each task broken, by default
_NEAR = 1e-4
_MOST_TASKS = 10_000_000


@dataclass(frozen=True, repr=False)
class GatePower(Record):
    """What one gate can see.

    Guarantee: exact for 0/1 scores on independent tasks, for the last of ``candidates`` candidates if none
    before it was promoted.

    Args:
        tasks: how many tasks the gate has.
        candidates: how many candidates there are; the power is that of the last.
        certified: the smallest observed gain that is promoted, at four tasks fixed for one broken.
        gain: the smallest true gain that is promoted with probability ``power``; infinity where none is.
        power: The probability that a candidate with this gain is promoted.
        differing: the share of tasks on which candidate and incumbent differ; None: 5/3 of the gain, which is
            four tasks fixed for one broken.
        level: the error probability of the last comparison, as ln(1/δ).
    """

    tasks: int
    candidates: int
    certified: float
    gain: float
    power: float
    differing: float | None
    level: float

    @property
    def text(self) -> str:
        """The power in words."""
        start = f"Candidate {self.candidates:,} on {self.tasks:,} tasks: "
        if not math.isfinite(self.gain):
            return f"{start}no gain is seen with probability {self.power:g}. Use more tasks."
        differing = "four tasks are fixed for one broken"
        if self.differing is not None:
            differing = f"{self.differing:.3g} of the tasks differ"
        return (
            f"{start}a true gain of {self.gain:.3g} is seen with probability {self.power:g} if {differing}."
        )

    def __repr__(self) -> str:
        return self.text


def gate_power(
    tasks: int,
    candidates: int,
    *,
    baseline: float,
    confidence: float = 0.95,
    expect: float | None = None,
    promise: Literal["family", "fdr"] = "family",
) -> float:
    """The smallest observed gain for which candidate number ``candidates`` is promoted, if no candidate
    before it was and it fixes four tasks for each one that it breaks; infinity if no gain is enough.

    Guarantee: exact for a :class:`holdfast.Gate` with 0/1 scores.
    Assumes: nothing; it is arithmetic on the gate's own rules.
    Reference: docs/theory/gate.md, "Power".

    Args:
        tasks: how many tasks the gate has.
        candidates: Which candidate it is, from 1: later ones must show more.
        baseline: the incumbent's score, which limits how many tasks can be fixed.
        confidence: the gate's confidence.
        expect: the gate's hint about how many candidates there will be.
        promise: the gate's promise. Before the first promotion both are the same.

    >>> round(gate_power(300, 1, baseline=0.7), 3), round(gate_power(300, 20, baseline=0.7), 3)
    (0.03, 0.09)
    """
    of = "gate_power"
    tasks = checks.whole(tasks, "tasks", of=of)
    baseline = checks.real(baseline, "baseline", "[0, 1]", of=of)
    checks.choice(promise, "promise", ("family", "fdr"), of=of)
    return certified_gain(tasks, _level(candidates, confidence, expect, of), baseline=baseline)


def gate_gain(
    tasks: int,
    candidates: int,
    *,
    differing: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    expect: float | None = None,
    baseline: float = 0.0,
) -> GatePower:
    """The smallest true gain with which candidate number ``candidates`` is promoted, with probability
    ``power``.

    Guarantee: exact for 0/1 scores on independent tasks, if no candidate before it was promoted.
    Assumes: nothing; it is arithmetic on the gate's own rules.
    Reference: docs/theory/gate.md, "Power".

    Args:
        tasks: how many tasks the gate has.
        candidates: Which candidate it is, from 1: later ones must show more.
        differing: the share of tasks on which candidate and incumbent differ. Always think about it: it
            decides the power. None takes four tasks fixed for one broken.
        power: how likely the promotion must be.
        confidence: the gate's confidence.
        expect: the gate's hint about how many candidates there will be.
        baseline: the incumbent's score, for ``certified`` only.

    >>> gate_gain(300, 1, power=0.5)
    Candidate 1 on 300 tasks: a true gain of 0.0262 is seen with probability 0.5 if four tasks are fixed for \
one broken.
    """
    of = "gate_gain"
    tasks = checks.whole(tasks, "tasks", at_most=_MOST_TASKS, of=of)
    power = checks.real(power, "power", "(0, 1)", of=of)
    baseline = checks.real(baseline, "baseline", "[0, 1]", of=of)
    if differing is not None:
        differing = checks.real(differing, "differing", "(0, 1]", of=of)
    level = _level(candidates, confidence, expect, of)
    gain = _least_gain(tasks, level, power, differing)
    certified = certified_gain(tasks, level, baseline=baseline)
    return GatePower(tasks, int(candidates), certified, gain, power, differing, level)


def gate_tasks(
    gain: float,
    candidates: int,
    *,
    differing: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    expect: float | None = None,
) -> int:
    """How many tasks a gate needs so that candidate number ``candidates``, with this true gain, is promoted
    with probability ``power``.

    Guarantee: with this number of tasks the power is reached. It is the least such number up to the small
    steps that the power of an exact test makes.
    Assumes: nothing; it is arithmetic on the gate's own rules.
    Reference: docs/theory/gate.md, "Power".

    Args:
        gain: the true gain to be seen.
        candidates: Which candidate it is, from 1: later ones must show more.
        differing: the share of tasks on which candidate and incumbent differ; None: 5/3 of the gain.
        power: how likely the promotion must be.
        confidence: the gate's confidence.
        expect: the gate's hint about how many candidates there will be.

    >>> gate_tasks(0.05, 1) < gate_tasks(0.05, 20) < gate_tasks(0.05, 20, differing=0.2)
    True
    """
    of = "gate_tasks"
    gain = checks.real(gain, "gain", "(0, 1)", of=of)
    power = checks.real(power, "power", "(0, 1)", of=of)
    if differing is not None:
        differing = checks.real(differing, "differing", "(0, 1]", of=of)
    share = _differing(gain, differing)
    if share < gain:
        raise InvalidArgument("differing", "at least the gain", differing, of=of)
    level = _level(candidates, confidence, expect, of)
    tasks = search.least_whole(
        lambda tasks: _power(tasks, level, gain, share) >= power, start=16, most=_MOST_TASKS
    )
    if tasks is None:
        raise InvalidArgument("gain", f"large enough for {_MOST_TASKS:,} tasks", gain, of=of)
    return tasks


def _level(candidates: Any, confidence: Any, expect: Any, of: str) -> float:
    """ln(1/δ) of the last of so many candidates, after as many verdicts "not shown" as there are others."""
    candidates = checks.whole(candidates, "candidates", of=of)
    confidence = checks.real(confidence, "confidence", "(0, 1)", of=of)
    expect = None if expect is None else checks.real(expect, "expect", "[1, 1e9]", of=of)
    spent = math.ceil(Experience(confirmed=candidates - 1).calm_price() * MICRO)
    account = Account(1 - confidence, steps=candidates - 1, micro_nats=spent, weights=Weights(expect=expect))
    return account.nats()


def _differing(gain: float, differing: float | None) -> float:
    """The share of tasks that differ. By default four are fixed for each that is broken."""
    return min(1.0, gain * (_RATIO + 1) / (_RATIO - 1)) if differing is None else differing


def _least_gain(tasks: int, level: float, power: float, differing: float | None) -> float:
    most = 1.0 if differing is None else differing
    if _power(tasks, level, most, _differing(most, differing)) < power:
        return math.inf
    return search.edge(
        lambda gain: _power(tasks, level, gain, _differing(gain, differing)) >= power,
        most,
        0.0,
        relative=_NEAR,
    )


def _power(tasks: int, level: float, gain: float, differing: float) -> float:
    """The probability that a candidate with this true gain is promoted."""
    mean, deviation = tasks * differing, math.sqrt(tasks * differing * (1 - differing))
    low, high = max(0, math.floor(mean - 9 * deviation - 9)), min(tasks, math.ceil(mean + 9 * deviation + 9))
    counts = np.arange(low, high + 1)
    fixed = min(1.0, (differing + gain) / (2 * differing))
    needed = _needed_wins(low, high, level)
    chance = stats.binom.sf(needed - 1, counts, fixed)
    return float(np.sum(stats.binom.pmf(counts, tasks, differing) * chance))


@lru_cache(maxsize=64)
def _needed_wins(low: int, high: int, level: float) -> NDArray[np.int64]:
    """The least number of fixed tasks that is promoted, for each number of tasks that differ."""
    needed = []
    wins = 0
    for differing in range(low, high + 1):
        wins = max(wins, (differing + 1) // 2)
        # One more task that differs needs at most one more win, and never fewer wins.
        while wins <= differing and not sign_test(wins, differing - wins, level):
            wins += 1
        needed.append(wins)
    return np.array(needed, dtype=np.int64)
