"""One draw in plain numbers: every decision is the exact one, and the draws have the declared law."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from mechanisms_oracles import LEVEL, cells, p_value, power

from holdfast.mechanisms import _coins
from holdfast.mechanisms._coins import MOST_STEPS, Coins, settle, single_noise

KINDS = ["laplace", "gaussian"]


def coins(seed: int) -> Coins:
    return Coins(np.random.default_rng(seed))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 3, 1000, 2**40 + 12345, MOST_STEPS])
def test_every_fast_decision_is_the_exact_one(kind, steps, seed):
    source, tests = np.random.default_rng(seed), 2 if kind == "gaussian" else 1
    for whole_bits, fraction, *short in zip(
        source.integers(0, 2**31, 1000).tolist(),
        source.integers(0, 2**64, 1000, dtype=np.uint64).tolist(),
        *source.integers(0, 2**32, (tests, 1000)).tolist(),
        strict=True,
    ):
        fast = _coins._proposal(whole_bits, fraction, short, steps, coins(seed))
        assert fast == settle(whole_bits, fraction, short, steps, coins(seed))


@pytest.mark.parametrize("kind", KINDS)
def test_doubtful_first_bits_are_settled(kind):
    whole = [0, 1, 2**31 - 1, round(2**31 / np.e), round(2**31 / np.e**2)]
    fractions = [0, 2**63 - 1, 2**63, 2**64 - 1]
    first_tests = [0, round(2**32 / np.e), round(2**32 / np.e**0.5), 2**32 - 1]
    # On the boundaries of every decision the plain path asks exact arithmetic, and both read the same coins.
    for whole_bits, fraction, test in product(whole, fractions, first_tests):
        tests = [test, test] if kind == "gaussian" else [test]
        fast = _coins._proposal(whole_bits, fraction, tests, 7, coins(0))
        assert fast == settle(whole_bits, fraction, tests, 7, coins(0))


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_declared_law_and_a_scale_wrong_by_10_percent_is_caught(kind, seed):
    source, draws, steps = coins(seed), 40_000, 2**40
    edges, claimed = cells(steps, 1.0, kind)
    drawn = np.array([single_noise(steps, source, gaussian=kind == "gaussian") for _ in range(draws)])
    assert p_value(drawn, edges, claimed) > LEVEL
    for wrong in (0.9, 1.1):
        _, true = cells(steps, wrong, kind)
        assert power(true, claimed, draws) > 1 - 1e-6
        assert p_value(drawn, edges, true) < LEVEL


def test_a_twin_that_never_settles_is_caught(monkeypatch):
    # Without doubt, a proposal on a boundary is decided by its first bits alone, and wrongly.
    whole_bits, fraction, tests = round(2**31 / np.e), 2**63, [round(2**32 / np.e**0.5)]
    monkeypatch.setattr(_coins, "_DOUBT", -1.0)
    monkeypatch.setattr(_coins, "_FLOAT_ERROR", -1.0)
    decided = {_coins._proposal(whole_bits, fraction, tests, 7, coins(seed)) for seed in range(40)}
    exact = {settle(whole_bits, fraction, tests, 7, coins(seed)) for seed in range(40)}
    assert len(decided) == 1
    assert len(exact) > 1
