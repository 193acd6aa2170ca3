"""More replicability from some: two runs of the compiled algorithm agree as often as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reductions_algorithms import shaky
from reductions_oracles import coin_of
from scipy import stats

from contracts.tapes import CountThreshold, rigged
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import Algorithm, amplify_replicability
from holdfast.replicable import Tape, amplify
from holdfast.stability import DP, GoodCoins, Replicability
from limits import lower_limit

BAD, OFF = 0.1, 0.02


def rarely_off() -> Algorithm:
    """Rows are uniform numbers. Bad coins split them in halves; good ones have a canonical output, left on a
    share of the rows. Two runs differ with probability BAD/2 + (1 − BAD)·2·OFF(1 − OFF) = 0.085."""

    def run(rows, tape):
        coin = coin_of(tape)
        if coin < BAD:
            return bool(rows[0] < 0.5)
        return -1.0 if rows[0] < OFF else round(coin, 3)

    return Algorithm(run, rows_needed=1, guarantee=Replicability(0.1), failure=OFF)


def mismatches(algorithm: Algorithm, trials: int, seed: int, shared: bool = True) -> int:
    rng = np.random.default_rng(seed)
    differ = 0
    for number in range(trials):
        tape = Tape(seed).branch(number)
        other = tape if shared else tape.branch("another")
        differ += algorithm(rng.random(algorithm.rows_needed), tape) != algorithm(
            rng.random(algorithm.rows_needed), other
        )
    return differ


def most_dissent(rho: float, target: float, coin: float) -> int:
    """How many runs may differ on the first branch, if the tape's coin is this one. On later branches all
    agree."""
    steady = amplify_replicability(
        Algorithm(
            lambda rows, tape: int(rows[0]) if "amplify 0/" in str(tape) else "refused",
            rows_needed=1,
            guarantee=Replicability(rho),
        ),
        rho=target,
    )
    few, many = 0, (steady.rows_needed - 1) // 2 + 1
    while many - few > 1:
        dissent = (few + many) // 2
        rows = [1] * dissent + [0] * (steady.rows_needed - dissent)
        few, many = (dissent, many) if steady(rows, rigged(coin)) == 0 else (few, dissent)
    return few


def exact_mismatch(runs: int, branches: int, threshold: CountThreshold, bad: float, share: float) -> float:
    """How often two samples differ, at most, over all data of ``runs`` binary rows, ``share`` of them ones.

    Bad coins echo the row, good ones have an output of their own. Given coins and threshold, whether 1 or 0
    is accepted or neither depends on the count of ones. What happens when no branch is accepted counts as a
    difference.
    """
    drawn, times = np.unique(threshold((np.arange(20_000) + 0.5) / 20_000), return_counts=True)
    ones = stats.binom.sf(runs - drawn - 1, runs, share)
    zeros = stats.binom.cdf(drawn, runs, share)
    verdicts = np.stack([ones, zeros, 1.0 - ones - zeros])
    chances = times / times.sum()
    differ = bad * float(chances @ (1.0 - (verdicts**2).sum(axis=0)))
    onwards = bad * float(chances @ verdicts[2] ** 2)
    return differ * sum(onwards**branch for branch in range(branches)) + onwards**branches


@pytest.mark.parametrize(("rho", "target"), [(0.1, 0.02), (0.05, 0.01)])
def test_exact_mismatch_over_all_data_through_counts(rho, target):
    # Two samples of fair rows differ with probability ρ: a half of the bad coins.
    plain = shaky(Replicability(rho), bad=2.0 * rho)
    steady = amplify_replicability(plain, rho=target)
    used = steady.explain().steps[-1].parameters
    plan = amplify(lambda rows, tape: 0, rho=rho, target=target, rows=1)
    assert (plan.runs, plan.branches) == (used["runs"], used["branches"])
    runs, branches = plan.runs, plan.branches
    low, high = (most_dissent(rho, target, coin) for coin in (0.0, 1.0))
    threshold = CountThreshold(runs, low, high)
    assert [most_dissent(rho, target, coin) for coin in (0.3, 0.7)] == [threshold(0.3), threshold(0.7)]
    shares = np.linspace(0.02, 0.98, 97)

    def worst(low: int, high: int) -> float:
        threshold = CountThreshold(runs, low, high)
        return max(exact_mismatch(runs, branches, threshold, 2.0 * rho, p) for p in shares)

    assert worst(low, high) <= steady.guarantee.rho + 1e-9
    # A threshold with half of the room to be drawn from is caught.
    quarter = (high - low) // 4
    assert worst(low + quarter, high - quarter) > target


def test_every_part_is_run_once_with_the_same_coins():
    seen: dict[Tape, list[int]] = {}
    spy = Algorithm(
        lambda rows, tape: seen.setdefault(tape, []).extend(rows), rows_needed=2, guarantee=Replicability(0.1)
    )
    steady = amplify_replicability(spy, rho=0.05)
    steady(list(range(steady.rows_needed)), Tape("x"))
    assert seen
    assert all(rows == list(range(steady.rows_needed)) for rows in seen.values())


def test_private_coins_are_caught(seed):
    steady = amplify_replicability(rarely_off(), rho=0.05)
    assert lower_limit(mismatches(steady, 30, seed, shared=False), 30) > steady.guarantee.rho


def test_it_is_wrong_no_more_often_than_it_says(seed):
    steady = amplify_replicability(rarely_off(), rho=0.05)
    rng = np.random.default_rng(seed)
    wrong = sum(steady(rng.random(steady.rows_needed), Tape(number)) == -1.0 for number in range(60))
    assert lower_limit(wrong, 60) <= steady.failure
    assert OFF <= steady.failure < 0.2


def test_good_coins_are_replicability_too_and_it_explains_itself():
    coins = Algorithm(lambda rows, tape: 1, rows_needed=4, guarantee=GoodCoins(0.01, 0.05))
    steady = amplify_replicability(coins, rho=0.02)
    assert steady.rows_needed % 4 == 0
    path = steady.explain()
    assert "Lemma 2.13" in str(path)
    assert path.factor == steady.rows_needed // 4
    with pytest.raises(NotEnoughRows):
        steady([0, 1, 2])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rho": 0.0}, "rho"),
        ({"rho": math.nan}, "rho"),
        ({"rho": 0.2}, "target"),
        ({"workers": 0}, "workers"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(1.0))}, "algorithm"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": rarely_off(), "rho": 0.05, **change}
    with pytest.raises(InvalidArgument) as caught:
        amplify_replicability(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named
