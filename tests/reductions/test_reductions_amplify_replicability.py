"""More replicability from some: two runs of the compiled algorithm agree as often as promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reductions_oracles import coin_of, lower_limit

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import Algorithm, amplify_replicability
from holdfast.replicable import Tape
from holdfast.stability import DP, GoodCoins, Replicability

BAD, OFF = 0.1, 0.02


def shaky() -> Algorithm:
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


def test_the_amplified_algorithm_agrees_as_promised_where_the_plain_one_does_not(seed):
    steady = amplify_replicability(shaky(), rho=0.05)
    assert steady.guarantee.rho <= 0.05
    assert lower_limit(mismatches(steady, 120, seed), 120) <= steady.guarantee.rho
    assert lower_limit(mismatches(shaky(), 4000, seed), 4000) > steady.guarantee.rho


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
    steady = amplify_replicability(shaky(), rho=0.05)
    assert lower_limit(mismatches(steady, 30, seed, shared=False), 30) > steady.guarantee.rho


def test_it_is_wrong_no_more_often_than_it_says(seed):
    steady = amplify_replicability(shaky(), rho=0.05)
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
    arguments = {"algorithm": shaky(), "rho": 0.05, **change}
    with pytest.raises(InvalidArgument) as caught:
        amplify_replicability(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named
