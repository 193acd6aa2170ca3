"""Uniform real numbers whose bits are drawn when a comparison needs them.

A vector sampler decides almost every comparison from the first bits of its random numbers. The rest come
here: more bits are drawn, and the exponential is enclosed more tightly, until the answer is certain. So
every decision is the one that infinitely many bits would have given.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction

from holdfast.mechanisms._coins import Coins


class UniformReal:
    """A uniform number in [0, 1) of which the first ``bits`` bits are known: ``prefix``/2^bits and above."""

    def __init__(self, prefix: int, bits: int, coins: Coins) -> None:
        self.prefix, self.bits, self._coins = prefix, bits, coins

    @property
    def low(self) -> Fraction:
        """The least value the known bits allow."""
        return Fraction(self.prefix, 1 << self.bits)

    @property
    def high(self) -> Fraction:
        """The value that all allowed ones stay below."""
        return Fraction(self.prefix + 1, 1 << self.bits)

    def extend(self) -> None:
        """Draw 64 more bits."""
        self.prefix = self.prefix << 64 | self._coins.word()
        self.bits += 64

    def below_exp(self, exponent: Fraction) -> bool:
        """Whether this number is below exp(−exponent), for exponent ≥ 0."""
        return self._below(lambda: (exponent, exponent))

    def below_exp_of(self, other: UniformReal, exponent: Callable[[Fraction], Fraction]) -> bool:
        """Whether it is below exp(−exponent(other)), for a function that is monotone on [0, 1]."""

        def bounds() -> tuple[Fraction, Fraction]:
            other.extend()
            ends = sorted((exponent(other.low), exponent(other.high)))
            return ends[0], ends[1]

        return self._below(bounds)

    def _below(self, exponents: Callable[[], tuple[Fraction, Fraction]]) -> bool:
        while True:
            least, most = exponents()
            if self.high <= exp_bounds(most, self.bits)[0]:
                return True
            if self.low >= exp_bounds(least, self.bits)[1]:
                return False
            self.extend()


def exp_bounds(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Two numbers that enclose exp(−exponent), exponent ≥ 0, about 2^−bits apart or closer.

    The decimal module rounds quotients and exponentials correctly, so the relative error is at most
    (exponent + 1) units in the last digit; the enclosure takes a hundred times that.
    """
    if exponent == 0:
        return Fraction(1), Fraction(1)
    if exponent > 2 * bits:
        return Fraction(0), Fraction(1, 1 << (2 * bits))
    digits = bits // 3 + 20
    context = decimal.Context(prec=digits, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    quotient = context.divide(decimal.Decimal(exponent.numerator), decimal.Decimal(exponent.denominator))
    # copy_negate, because a minus sign would round to the precision of the surrounding program.
    value = Fraction(context.exp(quotient.copy_negate()))
    slip = value * (math.ceil(exponent) + 1) / 10 ** (digits - 3)
    return value - slip, value + slip
