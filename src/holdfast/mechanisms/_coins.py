"""Where randomness comes from, and exact draws of noise from it.

Coins are the operating system's random bits, or, in simulations that say so, those of a seed. Draws of
Laplace and normal noise are rounded to whole grid steps. Rounding a continuous draw is post-processing, so
the rounded noise keeps every guarantee of the continuous one: the pure ratio, the profile δ(ε), the trade-off
curve under composition. Theorem and proof: ``docs/theory/mechanisms.md``.

Many draws are made a block at a time; for a single draw, array functions cost more than the arithmetic. A
sampler decides almost every comparison from the first bits of its random numbers. For the rest more bits are
drawn, and the exponential is enclosed more tightly, until the answer is certain. So every decision is the one
that infinitely many bits would have given.
"""

from __future__ import annotations

import decimal
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument

Words = npt.NDArray[np.uint64]
# A width of fewer steps than this times 64 uniform bits is formed from 64-bit pieces that cannot overflow.
MOST_STEPS = 2**42 - 1
# Draws beyond this many widths are drawn again (probability below 1e-868). So noise is below 2^53 steps.
FARTHEST = 2000
# Comparisons closer than this are settled exactly. It exceeds 2^-33, half a step of a 32-bit uniform, by far
# more than the error of exp and log in double precision.
_DOUBT = 2.0**-32
_FLOAT_ERROR = 2.0**-40
# This many draws at a time stay in the processor's cache, and long arrays need little memory.
_AT_ONCE = 2**13

_Booleans = npt.NDArray[np.bool_]
_Integers = npt.NDArray[np.int64]
_SHORT = 2**32 - 1
_LOG_31_BITS = 31.0 * math.log(2.0)


class Coins:
    """Independent fair bits: the operating system's, which cannot be replayed, or a generator's."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self.generator = generator

    @property
    def simulated(self) -> bool:
        """Whether the bits come from a seed, and so protect nothing."""
        return self.generator is not None

    def words(self, count: int) -> Words:
        """``count`` words of 64 fair bits."""
        raw = os.urandom(8 * count) if self.generator is None else self.generator.bytes(8 * count)
        return np.frombuffer(raw, dtype=np.uint64)

    def word(self) -> int:
        """64 fair bits as one number."""
        return int(self.words(1)[0])

    def indices(self, count: int, size: int) -> npt.NDArray[np.int64]:
        """At most ``count`` indices, exactly uniform on 0 … size − 1: words in the last, incomplete round of
        ``size`` are left out."""
        words = self.words(count)
        whole_rounds = np.uint64(2**64 // size * size - 1)
        return (words[words <= whole_rounds] % np.uint64(size)).astype(np.int64)


def choose_coins(simulation: bool, seed: Any, *, of: str) -> Coins:
    """The operating system's coins; seeded ones only where the caller says that this is a simulation."""
    if not isinstance(simulation, bool):
        raise InvalidArgument("simulation", "True or False", simulation, of=of)
    if not simulation:
        if seed is not None:
            raise InvalidArgument(
                "seed",
                "left out unless simulation=True: noise that can be replayed protects nothing",
                seed,
                of=of,
            )
        return Coins()
    if isinstance(seed, np.random.Generator):
        return Coins(seed)
    if seed is None:
        raise InvalidArgument("seed", "a whole number or a numpy Generator when simulation=True", seed, of=of)
    return Coins(np.random.default_rng(checks.whole(seed, "seed", at_least=0, of=of)))


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


def rounded_noise(count: int, steps: int, coins: Coins, *, gaussian: bool) -> _Integers:
    """``count`` independent copies of Laplace (or normal) noise of width ``steps``, rounded to whole numbers.

    Guarantee: exactly the law of the nearest whole number to steps·L, L standard Laplace (or standard
    normal), conditioned on |L| < 2000, a condition that moves it by less than 1e-868 in total variation.
    Assumes: fair bits; ``np.exp`` and ``np.log`` within 2^-40 of the truth on [0, 60] (tested).
    Reference: rejection as in Devroye 1986, section II.3, with bits drawn as needed as in Karney 2016.
    """
    rate = 0.48 if gaussian else 0.63
    drawn: list[_Integers] = []
    missing = count
    while True:
        wanted = min(missing, _AT_ONCE)
        drawn.append(_candidates(int(1.02 * wanted / rate) + 12, steps, coins, gaussian)[:wanted])
        missing -= len(drawn[-1])
        if missing == 0:
            return drawn[0] if len(drawn) == 1 else np.concatenate(drawn)


def _candidates(count: int, steps: int, coins: Coins, gaussian: bool) -> _Integers:
    """The accepted ones of ``count`` proposals, in order.

    A proposal is E = V + W: V the whole part of an exponential variable, and W uniform on [0, 1), accepted
    with probability e^−W; for the normal, E is accepted with probability exp(−(E − 1)²/2). Its sign is fair.
    """
    rows = 3 if gaussian else 2
    fraction = coins.words(count)
    short = coins.words((rows * count + 1) // 2).view(np.uint32)[: rows * count].reshape(rows, count)
    whole_bits, negative = short[0] >> np.uint32(1), (short[0] & np.uint32(1)).astype(bool)
    whole, unsure = _whole_part(whole_bits)
    position = (fraction >> np.uint64(11)) * 2.0**-53
    gap = (short[1] + 0.5) * 2.0**-32 - np.exp(-position)
    worst, closest = gap, np.abs(gap)
    if gaussian:
        from_one = whole + position - 1.0
        gap = (short[2] + 0.5) * 2.0**-32 - np.exp(-0.5 * from_one * from_one)
        worst = np.maximum(worst, np.where(unsure, -1.0, gap))
        closest = np.minimum(closest, np.abs(gap))
    magnitude, crossing = _nearest(steps, fraction)
    magnitude += whole.astype(np.int64) * steps
    accepted = worst < 0.0
    unsettled = (worst <= _DOUBT) & (unsure | crossing | (closest <= _DOUBT))
    for i in np.flatnonzero(unsettled):
        exact = settle(int(whole_bits[i]), int(fraction[i]), [int(u) for u in short[1:, i]], steps, coins)
        accepted[i] = exact is not None
        magnitude[i] = 0 if exact is None else exact
    noise: _Integers = np.where(negative, -magnitude, magnitude)[accepted]
    return noise


def _whole_part(prefix: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.float64], _Booleans]:
    """⌊−ln U⌋ from the first 31 bits of U, and where those bits do not determine it."""
    middle = prefix + 0.5
    value = 31.0 * math.log(2.0) - np.log(middle)
    return np.floor(value), np.abs(value - np.rint(value)) <= 1.0 / middle + _FLOAT_ERROR


def _nearest(steps: int, fraction: Words) -> tuple[_Integers, _Booleans]:
    """steps·W to the nearest whole number from the first 64 bits of W, and where later bits could change it.

    The product has up to 106 bits; it is formed in three pieces.
    """
    by = np.uint64(steps)
    low = by * (fraction & np.uint64(2**22 - 1))
    middle = by * (fraction >> np.uint64(22) & np.uint64(2**21 - 1)) + (low >> np.uint64(22))
    high = by * (fraction >> np.uint64(43)) + (middle >> np.uint64(21))
    rest = (
        (high & np.uint64(2**21 - 1)) << np.uint64(43)
        | (middle & np.uint64(2**21 - 1)) << np.uint64(22)
        | low & np.uint64(2**22 - 1)
    )
    half = np.uint64(2**63)
    whole = (high >> np.uint64(21)) + (rest >> np.uint64(63))
    return whole.astype(np.int64), (rest < half) & (half - np.minimum(rest, half) < by)


def settle(
    whole_bits: int, fraction: int, tests: list[int], steps: int, coins: Coins, *, bits: int = 32
) -> int | None:
    """One proposal in exact arithmetic, from the same first bits: its size, or None if it is rejected.

    ``bits`` is the length of the tests' prefixes; the whole part has one bit less, the fraction twice
    as many.
    """
    uniform = UniformReal(whole_bits, bits - 1, coins)
    whole = 0
    while whole < FARTHEST and uniform.below_exp(Fraction(whole + 1)):
        whole += 1
    if whole == FARTHEST:
        return None
    position = UniformReal(fraction, 2 * bits, coins)
    if not UniformReal(tests[0], bits, coins).below_exp_of(position, lambda w: w):
        return None
    if len(tests) > 1 and not UniformReal(tests[1], bits, coins).below_exp_of(
        position, lambda w: (whole - 1 + w) ** 2 / 2
    ):
        return None
    half = Fraction(1, 2)
    while (nearest := math.floor(steps * position.low + half)) != math.ceil(steps * position.high + half) - 1:
        position.extend()
    return whole * steps + nearest


def single_noise(steps: int, coins: Coins, *, gaussian: bool) -> int:
    """One draw of Laplace (or normal) noise of width ``steps``, rounded to a whole number.

    Guarantee: the law of ``rounded_noise(1, steps, …)``, by the same proposals and the same exact settling of
    close decisions.
    Assumes: fair bits; ``math.exp`` and ``math.log`` within 2^-40 of the truth on [0, 60].
    Reference: see :func:`rounded_noise`.
    """
    while True:
        fraction, first, second = coins.words(3).tolist()
        tests = [first & _SHORT, second & _SHORT] if gaussian else [first & _SHORT]
        size = _proposal(first >> 33, fraction, tests, steps, coins)
        if size is not None:
            return -size if first >> 32 & 1 else size


def _proposal(whole_bits: int, fraction: int, tests: list[int], steps: int, coins: Coins) -> int | None:
    """The size of the proposal with these first bits, or None if it is rejected."""
    middle = whole_bits + 0.5
    exponential = _LOG_31_BITS - math.log(middle)
    whole = math.floor(exponential)
    unsure = abs(exponential - round(exponential)) <= 1.0 / middle + _FLOAT_ERROR
    position = (fraction >> 11) * 2.0**-53
    gaps = [(tests[0] + 0.5) * 2.0**-32 - math.exp(-position)]
    if len(tests) > 1 and not unsure:
        gaps.append((tests[1] + 0.5) * 2.0**-32 - math.exp(-0.5 * (whole + position - 1.0) ** 2))
    if max(gaps) > _DOUBT:
        return None
    product = steps * fraction
    nearest = product + 2**63 >> 64
    crossing = nearest != product + steps - 1 + 2**63 >> 64
    if unsure or crossing or max(gaps) >= -_DOUBT:
        return settle(whole_bits, fraction, tests, steps, coins)
    return whole * steps + nearest
