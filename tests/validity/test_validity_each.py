"""``promise="each"``: each interval holds with its probability under attack; a twin that does not charge
fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import betainc, ndtr

from holdfast.audit.attacks import CountedGuard, CountedShare
from holdfast.coding import Weights

FAILURE = 0.2
ROWS, QUESTIONS = 400, 61


def missed(rng: np.random.Generator, *, charges: bool) -> np.ndarray:
    """Which intervals miss: of fair coins, with guesses at the edge of a cell, so that each answer is a bit;
    and of their majority, each coin with the sign of its answer, whose guess puts the truth outside."""
    coins = rng.integers(0, 2, (ROWS, QUESTIONS), dtype=np.int8)
    guard = CountedGuard(ROWS, failure=FAILURE, charges=charges, weights=Weights("each"))
    signs, misses, cell = np.ones(QUESTIONS), [], 0.0
    for column in range(QUESTIONS):
        asked = CountedShare(protected=int(coins[:, column].sum()), guess=0.5 + cell / 2)
        interval, output = guard.ask(asked)
        misses.append(not interval.contains(0.5))
        signs[column] = 1 if output.cell >= 0 else -1
        cell = guard.cell
    majority = int(((2 * coins.astype(np.int16) - 1) @ signs > 0).sum())
    gained = float(ndtr(math.sqrt(2 * QUESTIONS / (math.pi * ROWS)))) - 1 / math.sqrt(ROWS)
    interval, _ = guard.ask(CountedShare(protected=majority, guess=min(1.0, gained + cell / 2)))
    return np.array([*misses, not interval.contains(0.5)])


def total(runs: int, seed: int, **twin: bool) -> np.ndarray:
    """How often each interval of the session missed."""
    return sum(missed(np.random.default_rng([seed, run]), **twin).astype(int) for run in range(runs))


def chance_of_as_many(misses: int, runs: int) -> float:
    """The probability of at least so many misses if each has exactly the stated probability."""
    return 1.0 if misses == 0 else float(betainc(misses, runs - misses + 1, FAILURE))


def test_each_interval_holds_with_the_stated_probability(seed):
    runs = 40
    misses = total(runs, seed, charges=True)
    # Sixty-two intervals are looked at, so one is allowed to be as bad as one in 62,000 would be.
    assert min(chance_of_as_many(int(count), runs) for count in misses) > 0.001 / len(misses)


def test_a_guard_that_does_not_charge_breaks_the_last_one(seed):
    runs = 40
    misses = total(runs, seed, charges=False)
    assert chance_of_as_many(int(misses[-1]), runs) < 1e-6


def test_each_is_narrower_than_all():
    widths = {}
    for promise in ("all", "each"):
        guard = CountedGuard(5000, 2500, weights=Weights(promise))
        widths[promise] = [
            guard.ask(CountedShare(protected=2500, training=1250))[0].half_width for _ in range(10)
        ]
    assert all(each < every for each, every in zip(widths["each"], widths["all"], strict=True))


@pytest.mark.slow
def test_each_interval_holds_in_1000_runs(seed):
    runs = 1000
    misses = total(runs, seed, charges=True)
    assert min(chance_of_as_many(int(count), runs) for count in misses) > 0.001 / len(misses)
