"""Questions asked together: all intervals hold at once against an analyst who votes on a batch's answers; two
twins do not."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import betaincinv, ndtr

from holdfast.audit.attacks import CountedGuard, CountedShare

ROWS, QUESTIONS = 1000, 501
RUNS = 8  # If 95 % of runs held, as few as 2 of 8 would with a probability of 4 in ten million.


@cache
def _cell_of_a_batch() -> float:
    """How wide a cell the guard takes here, which is public."""
    guard = CountedGuard(ROWS)
    guard.ask_all([CountedShare(protected=ROWS // 2, guess=0.5)] * QUESTIONS)
    return guard.cell


def vote(rng: np.random.Generator, *, charges: bool = True, after: bool = True) -> bool:
    """Ask about fair coins in one batch, with guesses such that every answer is about one bit; then ask about
    their majority, each coin with the sign of its answer. Returns whether all intervals hold.

    Twins: with ``charges=False`` nobody pays for the batch; with ``after=False`` the majority is counted as
    one more question of the batch, although it was chosen from its answers.
    """
    coins = rng.integers(0, 2, (ROWS, QUESTIONS), dtype=np.int8)
    guard = CountedGuard(ROWS, charges=charges)
    guess = 0.5 + _cell_of_a_batch() / 2  # An edge of the cells lies at one half.
    answers = guard.ask_all([CountedShare(protected=int(count), guess=guess) for count in coins.sum(0)])
    signs = np.array([1 if output.cell >= 0 else -1 for _, output in answers])
    majority = int(((2 * coins.astype(np.int16) - 1) @ signs > 0).sum())
    gained = float(ndtr(math.sqrt(2 * QUESTIONS / (math.pi * ROWS)))) - 1 / math.sqrt(ROWS)
    question = CountedShare(protected=majority, guess=min(1.0, gained + guard.cell / 2))
    if not after:
        guard = CountedGuard(ROWS)
        guard.account = guard.account.for_batch(QUESTIONS + 1)
    last, _ = guard.ask(question)
    return all(interval.contains(0.5) for interval, _ in answers) and last.contains(0.5)


def held(runs: int, seed: int, **twin: bool) -> int:
    return sum(vote(np.random.default_rng([seed, run]), **twin) for run in range(runs))


def test_a_vote_on_the_answers_of_a_batch_breaks_nothing(seed):
    assert held(RUNS, seed) == RUNS


def test_intervals_miss_if_a_batch_is_not_charged(seed):
    assert held(RUNS, seed, charges=False) <= 2


def test_intervals_miss_if_a_later_vote_is_priced_as_part_of_its_batch(seed):
    assert held(RUNS, seed, after=False) <= 2


@pytest.mark.slow
def test_a_vote_on_the_answers_of_a_batch_breaks_nothing_in_500_runs(seed):
    runs = 500
    good = held(runs, seed)
    assert float(betaincinv(good, runs - good + 1, 0.001)) >= 0.95 or good == runs
