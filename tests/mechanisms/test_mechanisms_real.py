"""Comparisons with exponentials are exact, however close they are."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.mechanisms._coins import Coins, UniformReal, exp_bounds

exponents = st.fractions(min_value=0, max_value=3000, max_denominator=2**60)


class Scripted(Coins):
    """Coins that show given words, one after another."""

    def __init__(self, *script: int) -> None:
        super().__init__()
        self.script = list(script)

    def word(self) -> int:
        return self.script.pop(0)


@given(exponents, st.sampled_from([31, 64, 128, 256]))
def test_the_bounds_enclose_the_exponential_and_are_tight(exponent, bits):
    low, high = exp_bounds(exponent, bits)
    with mpmath.workdps(400):
        exact = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator <= exact
        assert exact <= mpmath.mpf(high.numerator) / high.denominator
    assert high - low <= Fraction(1, 1 << bits)


def test_the_exponential_of_zero_is_one():
    assert exp_bounds(Fraction(0), 64) == (1, 1)
    assert UniformReal(2**64 - 1, 64, Scripted()).below_exp(Fraction(0))


@pytest.mark.parametrize("exponent", [Fraction(1), Fraction(1, 3), Fraction(17, 2), Fraction(1, 2**40)])
@pytest.mark.parametrize("known", [3, 31, 64])
def test_a_comparison_continues_until_the_bits_differ(exponent, known):
    # The first 192 bits of e^-z, then one more or one less: only the last 64 bits decide.
    with mpmath.workdps(200):
        power = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
        digits = int(mpmath.floor(power * mpmath.mpf(2) ** (known + 192)))
    for offset, below in ((-1, True), (1, False)):
        text = digits + offset
        words = [text >> 128 & 2**64 - 1, text >> 64 & 2**64 - 1, text & 2**64 - 1]
        coins = Scripted(*words)
        assert UniformReal(text >> 192, known, coins).below_exp(exponent) is below
        assert coins.script == []


def test_a_number_that_is_clearly_above_a_vanishing_chance_draws_no_bits():
    assert not UniformReal(1, 64, Scripted()).below_exp(Fraction(10) ** 300)
    # A prefix of zeros is not yet above it.
    assert not UniformReal(0, 64, Scripted(0, 5)).below_exp(Fraction(10) ** 300)


@pytest.mark.parametrize("bits", [0, 1, 5])
def test_bits_drawn_on_the_way_have_the_right_chance(bits, seed):
    # Nothing is known at the start, both sides are random: P(U < e^-W) = 1 − 1/e.
    coins = Coins(np.random.default_rng(seed))
    hits = sum(
        UniformReal(coins.word() >> (64 - bits), bits, coins).below_exp_of(
            UniformReal(coins.word() >> (64 - bits), bits, coins), lambda w: w
        )
        for _ in range(3000)
    )
    truth = 1 - math.exp(-1)
    assert stats.binomtest(hits, 3000, truth).pvalue > 1e-6
    assert stats.binomtest(hits, 3000, truth * 0.85).pvalue < 1e-6
