"""An adaptive analyst on a chain: all intervals of one guard hold at once with the chain's tail, and with the
tail for independent rows they do not.

A row is a state of five bits. With probability λ the chain stays, else it draws new bits, so λ is its
operator norm exactly. The analyst asks how often each parity of the bits is odd, with guesses on a cell's
edge, so that every answer is one bit; turns each parity the way its answer points, and asks how often their
vote is positive: the state's own share of the rows chose the vote.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binomtest

from holdfast import Guard
from holdfast.audit.attacks import CountedGuard, CountedShare
from holdfast.dependence import MarkovChain
from holdfast.errors import DependenceWarning

CHAINS = [(0.0, 10_000), (0.5, 10_000), (0.9, 10_000), (0.99, 100_000)]
BITS = 5
RUNS, ALL_RUNS = 300, 2_000


@cache
def parities(bits):
    """A line for each parity, a column for each state: ±1."""
    state = np.arange(2**bits)
    odd = [np.bitwise_count(state & mask).astype(int) % 2 for mask in range(1, 2**bits)]
    return 1 - 2 * np.array(odd)


def chain(correlation, n, states):
    """Stay with probability ``correlation``, else draw a new state."""
    return MarkovChain(correlation * np.eye(states) + (1 - correlation) / states, n)


@cache
def chain_tail(correlation, n, states):
    return chain(correlation, n, states).mean_tail(0, 1)


def state_counts(rng, correlation, n, states):
    """How many rows are in each state: whole stays at a time."""
    starts = np.flatnonzero(rng.random(n, dtype=np.float32) >= correlation)
    starts = np.concatenate(([0], starts[starts > 0]))
    lengths = np.diff(np.append(starts, n))
    return np.bincount(rng.integers(0, states, len(starts)), weights=lengths, minlength=states)


def attack(rng, correlation, n, *, tail, bits=BITS, charges=True):
    """Whether all intervals held. Shares are read by ``tail`` (None: as of independent rows)."""
    signs = parities(bits)
    counts = state_counts(rng, correlation, n, 2**bits)
    guard = CountedGuard(n, charges=charges, tail=tail)
    turned = np.ones(len(signs), dtype=int)
    for place, sign in enumerate(signs):
        share = CountedShare(
            protected=int(counts[sign > 0].sum()), guess=0.5 + (guard.cell / 2 if place else 0.0)
        )
        interval, output = guard.ask(share)
        if not interval.contains(0.5):
            return False
        turned[place] = 1 if output.cell >= 0 else -1
    vote = turned @ signs > 0
    effective = n * (1 - correlation) / (1 + correlation)
    gained = float(ndtr(math.sqrt(2 * len(signs) / (math.pi * effective)))) - 0.5 / math.sqrt(effective)
    last = CountedShare(
        protected=int(counts[vote].sum()), guess=min(1.0, vote.mean() - 0.5 + gained + guard.cell / 2)
    )
    return guard.ask(last)[0].contains(float(vote.mean()))


def held(runs, seed, *arguments, **options):
    return sum(attack(np.random.default_rng([seed, run]), *arguments, **options) for run in range(runs))


def limits(successes, runs):
    return binomtest(successes, runs).proportion_ci(0.998, method="exact")


def test_the_simulated_chain_is_the_stated_one(rng):
    """Its shares have the variance ¼ (1 + λ)/((1 − λ) n) of a chain with this norm."""
    signs = parities(BITS)
    shares = np.array([signs @ state_counts(rng, 0.9, 10_000, 2**BITS) for _ in range(200)]) / 10_000
    assert shares.var() == pytest.approx(19 / 10_000, rel=0.1)
    assert chain(0.9, 100, 2**BITS).spectral_gap == pytest.approx(0.1)


@pytest.mark.parametrize(("correlation", "n"), CHAINS[2:])
def test_all_intervals_hold_with_the_chains_tail(seed, correlation, n):
    tail = chain_tail(correlation, n, 2**BITS)
    assert limits(held(RUNS, seed, correlation, n, tail=tail), RUNS).low >= 0.94


def test_with_the_tail_for_independent_rows_they_do_not(seed):
    assert limits(held(RUNS, seed, 0.9, 10_000, tail=None), RUNS).high < 0.5


def test_a_twin_that_never_pays_misses_even_with_the_chains_tail(seed):
    tail = chain_tail(0.9, 10_000, 256)
    assert held(20, seed, 0.9, 10_000, tail=tail, bits=8, charges=False) <= 10
    assert held(5, seed, 0.9, 10_000, tail=tail, bits=8) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("correlation", "n"), CHAINS)
def test_all_intervals_hold_with_the_chains_tail_in_2000_runs(seed, correlation, n):
    tail = chain_tail(correlation, n, 2**BITS)
    assert limits(held(ALL_RUNS, seed, correlation, n, tail=tail), ALL_RUNS).low >= 0.95


@pytest.mark.slow
def test_with_the_tail_for_independent_rows_they_do_not_in_2000_runs(seed):
    assert limits(held(ALL_RUNS, seed, 0.9, 10_000, tail=None), ALL_RUNS).high < 0.5


def parity_guard(rng, correlation, n, dependence):
    """A real guard on a table of states, asked for every parity of three bits and for the vote it suggests:
    whether all intervals held."""
    stay = np.concatenate(([0.0], rng.random(n - 1))) < correlation
    stay[0] = False
    states = rng.integers(0, 8, n)[np.maximum.accumulate(np.where(stay, 0, np.arange(n)))]
    guard = Guard({"state": states}, dependence=dependence)
    signs, turned = parities(3), []
    for sign in signs:
        inside = ", ".join(map(str, np.flatnonzero(sign > 0)))
        answer = guard.share(f"state in ({inside})")
        if not answer.low <= 0.5 <= answer.high:
            return False
        turned.append(1 if answer.value >= 0.5 else -1)
    vote = np.array(turned) @ signs > 0
    if not vote.any():
        return True
    answer = guard.share(f"state in ({', '.join(map(str, np.flatnonzero(vote)))})")
    return bool(answer.low <= vote.mean() <= answer.high)


@pytest.mark.parametrize("runs", [8, pytest.param(12, marks=pytest.mark.slow)])
def test_a_guard_on_a_table_holds_with_its_chain_and_not_without(seed, runs):
    n = 10_000
    rngs = [np.random.default_rng([seed, run]) for run in range(runs)]
    assert all(parity_guard(rng, 0.9, n, chain(0.9, n, 8)) for rng in rngs)
    slow = chain(0.99, n, 8)
    with pytest.warns(DependenceWarning, match="This guard assumes independent rows"):
        without = sum(parity_guard(rng, 0.99, n, None) for rng in rngs)
    assert without <= runs // 2
    assert all(parity_guard(rng, 0.99, n, slow) for rng in rngs[: runs // 3])
    assert slow.contraction == pytest.approx(0.99)
