"""Prices of promotions: they sum to at most 1 whatever happened before."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from holdfast.coding import Account, Experience, PromotionAlphabet

MOST = 10**6


def total(prices):
    """Σ exp(−price) over "not shown", a failure and the first steps, with the exact tail of the others."""
    steps = math.fsum(math.exp(-prices.price(number)) for number in range(2_000))
    # Σ over i ≥ k of 1/((i + 1)(i + 2)) is 1/(k + 1).
    rest = math.exp(-prices.price(2_000)) * 2_001 * 2_002 / 2_001
    return math.exp(-prices.price(None)) + math.exp(-prices.failure_price) + steps + rest


def history(rng, length):
    """A random experience: most candidates are not promoted."""
    experience, promoted = Experience(), rng.choice([0.0, 0.02, 0.5])
    for _ in range(length):
        experience = experience.after(surprise=bool(rng.random() < promoted))
    return experience


def test_prices_sum_to_one_after_any_history(rng):
    for length in (0, 1, 2, 5, 20, 100, 1_000):
        for _ in range(10):
            assert total(PromotionAlphabet(MOST, history(rng, length))) == pytest.approx(1.0, abs=1e-9)


def test_a_prior_that_sums_to_more_than_one_is_caught():
    """The twins: a failure that is not paid from the branch of promotions, and a slower tail."""

    @dataclass(frozen=True)
    class FailureOnTop(PromotionAlphabet):
        def price(self, steps):
            if steps is None:
                return super().price(None)
            return -math.log(self.experience.surprise_probability() / ((steps + 1) * (steps + 2)))

    @dataclass(frozen=True)
    class SlowTail(PromotionAlphabet):
        def price(self, steps):
            return super().price(steps) - (0.0 if steps is None else 0.01)

    for twin in (FailureOnTop, SlowTail):
        assert total(twin(MOST, Experience())) > 1.001


def test_not_shown_costs_at_most_ln_2_in_all():
    experience, paid = Experience(), 0.0
    for number in range(3_000):
        assert experience.calm_price() == pytest.approx(paid, abs=1e-9)
        paid += PromotionAlphabet(50, experience).price(None)
        experience = experience.after(surprise=False)
        assert paid < math.log(2)
        assert number + 1 == experience.confirmed
    assert paid > 0.68
    assert experience.calm_price() == pytest.approx(paid, abs=1e-9)
    assert Experience(confirmed=10**9).calm_price() < math.log(2)


def test_whole_sequences_have_probabilities_that_sum_to_one():
    """Kraft over three submissions, with steps taken together: Σ Π exp(−price) ≤ 1."""

    def below(experience, depth):
        if depth == 0:
            return 1.0
        prices = PromotionAlphabet(MOST, experience)
        calm = math.exp(-prices.price(None))
        return calm * below(experience.after(surprise=False), depth - 1) + (1 - calm) * below(
            experience.after(surprise=True), depth - 1
        )

    for depth in range(1, 9):
        assert below(Experience(), depth) == pytest.approx(1.0, abs=1e-12)


def test_the_worst_price_is_the_worst(rng):
    for _ in range(20):
        prices = PromotionAlphabet(int(rng.integers(1, 1_000)), history(rng, 30))
        every = [prices.price(None), prices.failure_price]
        every += [prices.price(steps) for steps in range(prices.most_steps + 1)]
        assert prices.worst_price == max(every)


def test_more_steps_cost_more_and_a_promotion_less_after_promotions():
    calm, busy = Experience(confirmed=20), Experience(confirmed=18, surprised=2)
    prices = [PromotionAlphabet(50, calm).price(steps) for steps in range(51)]
    assert (np.diff(prices) > 0).all()
    assert PromotionAlphabet(50, busy).price(0) < prices[0] - 3
    assert prices[9] - prices[0] == pytest.approx(math.log(10 * 11 / 2))


def test_rounded_charges_never_fall_below_the_prices(rng):
    account, exact = Account(0.05), 0.0
    for _ in range(500):
        prices = PromotionAlphabet(50, account.experience)
        steps = None if rng.random() < 0.9 else int(rng.integers(0, 50))
        price = prices.price(steps)
        exact += price
        account = account.after(account.charge(price), surprise=steps is not None, exact=exact)
        assert exact <= account.spent + 1e-12
        assert account.spent < exact + 2e-6
