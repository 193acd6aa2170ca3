"""Discoveries under attack: the expected share of false ones stays below the rate, and a twin that does not
pay for what earlier answers revealed is caught."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from holdfast import Guard, intervals
from holdfast.audit.attacks import CountedShare
from holdfast.coding import Account, Claims, Learned
from holdfast.strategies import ClaimQuestion, CodeStrategy

RATE = 0.2
ROWS, COLUMNS = 400, 101


def sign_hunter(rng: np.random.Generator, *, pays: bool) -> float:
    """The sign attack on a fair table: turn each column the way its answer points, then claim that the
    majority of all of them is right more often than not. Returns the share of false discoveries, which is 0
    or 1. Without paying, the level of the claim forgets what the answers revealed."""
    rows = rng.random((ROWS, COLUMNS)) < 0.5
    account = Account(0.05)
    votes = np.zeros(ROWS)
    for column in range(COLUMNS):
        # One bit for each column: whether more than half of the rows have it, at ln 2 nats.
        more = rows[:, column].sum() > ROWS / 2
        votes += np.where(rows[:, column] == more, 1, -1)
        account = account.after(account.charge(math.log(2)), surprise=False)
    claim = ClaimQuestion.of(CountedShare(protected=int(np.count_nonzero(votes > 0))), ">", 0.5, RATE)
    strategy = CodeStrategy(ROWS, None, None, None, None)
    level = strategy.prepare(claim, account if pays else replace(account, micro_nats=0)).level
    # On fresh rows an odd number of fair votes is positive half of the time.
    interval = intervals.clopper_pearson(int(np.count_nonzero(votes > 0)), ROWS, level - math.log(2))
    return float(interval.low > 0.5)


def _worse_than_the_rate(shares: list[float]) -> float:
    """The probability of so large a mean of shares in [0, 1], if its expectation were the rate."""
    trials, mean = len(shares), float(np.mean(shares))
    if mean <= RATE:
        return 1.0
    rest = (1 - mean) * math.log((1 - mean) / (1 - RATE)) if mean < 1 else 0.0
    return math.exp(-trials * (mean * math.log(mean / RATE) + rest))


def test_few_discoveries_are_false_under_the_sign_attack_and_a_twin_is_caught():
    rng = np.random.default_rng(20)
    paying = [sign_hunter(rng, pays=True) for _ in range(1_000)]
    assert _worse_than_the_rate(paying) > 1e-3
    forgetting = [sign_hunter(rng, pays=False) for _ in range(200)]
    assert _worse_than_the_rate(forgetting) < 1e-6


def test_discoveries_use_e_values_and_one_over_p_is_not_one():
    """Exact, for a share of half: the evidence of a false claim is 1 at most in expectation. One over the
    p-value, which finds the same claims, is more than that."""
    rows, level = 60, -math.log(0.02)
    counts = np.arange(rows + 1)
    chances = stats.binom.pmf(counts, rows, 0.5)
    lows = [intervals.clopper_pearson(int(count), rows, level - math.log(2)).low for count in counts]
    counted = math.exp(level) * math.fsum(chances[np.array(lows) > 0.5])
    assert 0.2 < counted <= 1
    assert math.fsum(chances / stats.binom.sf(counts - 1, rows, 0.5)) > 3


def hunt_correlations(seed: int) -> float:
    """An analyst who hunts correlations in pure noise, through the guard itself: looks at the training part
    for the pairs that go together best, and claims each of them. Every discovery is false."""
    rng = np.random.default_rng(seed)
    values = rng.random((600, 6))
    guard = Guard({f"c{place}": values[:, place] for place in range(6)})
    train = np.column_stack([guard.train[f"c{place}"] for place in range(6)])
    together = np.corrcoef(train.T)
    pairs = sorted(((abs(together[i, j]), i, j) for i in range(6) for j in range(i)), reverse=True)
    for _, i, j in pairs[:3]:
        sign, number = (">", 0) if together[i, j] > 0 else ("<", 0)
        if guard.discover(f"correlation(c{i}, c{j}, 0, 1, 0, 1) {sign} {number}", rate=RATE):
            return 1.0
    return 0.0


def test_a_hunter_of_correlations_finds_few_in_noise():
    shares = [hunt_correlations(seed) for seed in range(12)]
    assert _worse_than_the_rate(shares) > 1e-3


@pytest.mark.slow
def test_a_hunter_of_correlations_finds_few_in_noise_in_many_runs():
    shares = [hunt_correlations(seed) for seed in range(1_000)]
    assert _worse_than_the_rate(shares) > 1e-3


def test_the_price_of_both_bits_is_a_prior_whatever_was_found():
    learned = Learned()
    rng = np.random.default_rng(3)
    for _ in range(50):
        both = [0.999 * learned.claims.probability(found) for found in (True, False)]
        assert math.fsum([*both, 0.001]) == pytest.approx(1.0)
        learned = learned.after_claim(found=bool(rng.random() < 0.3), rate=RATE)
    assert learned.claims.tested == 50
    assert learned.claims.rate == RATE
    assert isinstance(learned.claims, Claims)
