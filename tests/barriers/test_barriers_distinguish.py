"""The adversary: a replicable solver lets it win by Lemma 4.5, the private algorithm does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.examples import thinned
from holdfast.barriers import (
    FactoringSolver,
    PrivateKey,
    PrivateSolver,
    advantage_bound,
    distinguish,
    dp_rand_enc,
    generate_key,
    measure_advantage,
)
from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape

SEVENTY_SEVEN = PrivateKey(7, 11, 6)
TOY = generate_key(18, Tape("toy"))


def measured(key, solver, seed, *, rows=3, trials=1200):
    rng = np.random.default_rng(seed)
    return measure_advantage(
        key, solver, rows=rows, trials=trials, tape=Tape(f"game {seed}"), rng=rng, confidence=1 - 1e-6
    )


def exact_advantage(key: PrivateKey, slip: float, wobble: float) -> float:
    """Against the factoring solver: answers meet by chance too, when ciphertexts coincide."""
    met = 1 / key.class_size
    apart = 1 - met
    differ = apart * wobble * (2 - wobble) - 2 * wobble * (1 - wobble) * met * apart
    return (1 - 2 * slip) * (1 - differ)


@pytest.mark.parametrize(
    ("slip", "wobble"), thinned([(0.0, 0.0), (0.1, 0.0), (0.1, 0.1), (0.0, 0.2), (0.3, 0.5)], 2)
)
def test_the_adversary_wins_by_the_lemma_and_not_by_more(slip, wobble, seed):
    solver = FactoringSolver(TOY.public, slip=slip, wobble=wobble)
    promised = advantage_bound(solver.guarantee.rho, solver.failure)
    assert exact_advantage(TOY, slip, wobble) == pytest.approx(promised, abs=1e-9)
    found = measured(TOY, solver, seed)
    assert found.low <= promised <= found.high
    assert found.high - found.low < 0.3


@pytest.mark.parametrize(("slip", "wobble"), [(0.1, 0.3), (0.25, 0.9)])
def test_small_keys_meet_by_chance_and_the_lemma_still_holds(slip, wobble, seed):
    solver = FactoringSolver(SEVENTY_SEVEN.public, slip=slip, wobble=wobble)
    exact = exact_advantage(SEVENTY_SEVEN, slip, wobble)
    found = measured(SEVENTY_SEVEN, solver, seed)
    assert found.low <= exact <= found.high
    assert exact >= advantage_bound(solver.guarantee.rho, solver.failure)


def test_a_lemma_that_forgets_a_term_is_caught(seed):
    # 1 − β − ρ and 1 − 2β: each promises more than the adversary has.
    solver = FactoringSolver(TOY.public, slip=0.2, wobble=0.3)
    rho, beta = solver.guarantee.rho, solver.failure
    found = measured(TOY, solver, seed)
    assert found.high < 1 - beta - rho
    assert found.high < 1 - 2 * beta


def test_the_solver_is_as_replicable_and_as_wrong_as_it_says(seed):
    rng, runs = np.random.default_rng(seed), 3000
    solver = FactoringSolver(TOY.public, slip=0.15, wobble=0.2)
    differ = wrong = 0
    for run in range(runs):
        tape = Tape(f"pair {seed}").branch(run)
        bit = run % 2
        first, second = (solver([TOY.public.encrypt(bit, rng)], tape) for _ in range(2))
        differ += first != second
        wrong += TOY.decrypt(first) != bit
    for count, claimed in ((differ, solver.guarantee.rho), (wrong, solver.failure)):
        spread = 5 * math.sqrt(claimed * (1 - claimed) / runs)
        assert abs(count / runs - claimed) < spread
        assert spread < 0.3 * claimed


def test_a_solver_with_its_own_coins_gives_the_adversary_nothing(seed):
    own = np.random.default_rng(seed + 1000)
    cheat = FactoringSolver(TOY.public)
    found = measured(TOY, lambda rows, tape: cheat(rows, Tape(int(own.integers(2**62)))), seed)
    assert found.low <= 0.0 <= found.high < 0.1


def test_a_solver_that_ignores_its_rows_gives_the_adversary_nothing(seed):
    found = measured(TOY, lambda rows, tape: TOY.public.encrypt(0, tape), seed, trials=400)
    assert found.value == 0.0


@pytest.mark.parametrize(("epsilon", "rows"), [(0.8, 6), (0.5, 12)])
def test_the_private_algorithm_does_not_help(epsilon, rows, seed):
    solver = PrivateSolver(SEVENTY_SEVEN.public, epsilon=epsilon)
    padding = dp_rand_enc([], SEVENTY_SEVEN.public, epsilon=epsilon, coins=Tape(seed)).padding
    exact = rows / (rows + 2 * padding) / SEVENTY_SEVEN.class_size
    found = measured(SEVENTY_SEVEN, solver, seed, rows=rows)
    assert found.low <= exact <= found.high
    # It is right far more often than not, so a replicable solver as good would give this much:
    beta = padding / (rows + 2 * padding)
    assert found.high < advantage_bound(0.1, beta)


def test_the_private_algorithm_does_not_help_against_a_real_key(seed):
    key = generate_key(256, Tape("real"))
    solver = PrivateSolver(key.public, epsilon=0.8)
    # With rows only, the answers never meet; with padding only, always: in both games alike.
    found = measured(key, solver, seed, rows=6, trials=600)
    assert found.low <= 0.0 <= found.high < 0.25


def test_real_keys_are_not_factored():
    with pytest.raises(InvalidArgument) as caught:
        FactoringSolver(generate_key(64, Tape("real")).public)
    assert caught.value.argument == "key"


def test_both_answers_come_from_one_tape(seed):
    seen = []
    rng = np.random.default_rng(seed)
    guess = distinguish(
        TOY.public.encrypt(1, rng),
        TOY,
        lambda rows, tape: seen.append((len(rows), {TOY.decrypt(c) for c in rows}, tape)) or 1,
        rows=9,
        tape=Tape("one"),
        rng=rng,
    )
    assert guess == 0
    assert seen == [(9, {0}, Tape("one")), (9, {1}, Tape("one"))]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.5))
def test_the_bound_falls_with_both(rho, beta, more):
    bound = advantage_bound(rho, beta)
    assert 0.0 <= bound <= max(0.0, 1 - 2 * beta - rho)
    assert advantage_bound(min(1.0, rho + more), beta) <= bound
    assert advantage_bound(rho, min(1.0, beta + more)) <= bound


def test_the_constants_of_theorem_4_6():
    assert advantage_bound(0.25, 0.125) == pytest.approx(0.5)
    assert advantage_bound(0.9, 0.2) == 0.0


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"ciphertext": 7}, "ciphertext"),
        ({"ciphertext": 2}, "ciphertext"),
        ({"key": 77}, "key"),
        ({"rows": 0}, "rows"),
        ({"tape": "t"}, "tape"),
        ({"rng": 1}, "rng"),
    ],
)
def test_bad_arguments_are_named(change, named):
    given_ = {"ciphertext": 25, "key": SEVENTY_SEVEN, "solver": lambda rows, tape: 1}
    rest = {"rows": 1, "tape": Tape("t"), "rng": np.random.default_rng(0)}
    with pytest.raises(InvalidArgument) as caught:
        distinguish(**{**given_, **rest, **change})
    assert caught.value.argument == named


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: advantage_bound(math.nan, 0.1), "rho"),
        (lambda: advantage_bound(0.1, 1.5), "beta"),
        (lambda: FactoringSolver(SEVENTY_SEVEN, slip=0.6), "slip"),
        (lambda: FactoringSolver(SEVENTY_SEVEN, wobble=-0.1), "wobble"),
        (lambda: PrivateSolver(SEVENTY_SEVEN, epsilon=0.0), "epsilon"),
        (lambda: measured(SEVENTY_SEVEN, lambda rows, tape: 1, 0, trials=0), "trials"),
    ],
)
def test_other_bad_arguments_are_named(make, named):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == named
