"""Exact draws of Laplace and normal noise, rounded to whole grid steps, a block at a time.

Rounding a continuous draw is post-processing, so the rounded noise keeps every guarantee of the continuous
one: the pure ratio, the profile δ(ε), the trade-off curve under composition. Theorem and proof:
``docs/theory/mechanisms.md``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from holdfast.mechanisms._coins import Coins, Words
from holdfast.mechanisms._real import UniformReal

# A width of fewer steps than this times 64 uniform bits is formed from 64-bit pieces that cannot overflow.
MOST_STEPS = 2**42 - 1
# Draws beyond so many widths are drawn again (probability below 1e-868): noise then is less than 2^53 steps.
FARTHEST = 2000
# Comparisons closer than this are settled exactly. It exceeds 2^-33, half a step of a 32-bit uniform, by far
# more than the error of exp and log in double precision.
_DOUBT = 2.0**-32
_FLOAT_ERROR = 2.0**-40
# So many draws at a time stay in the processor's cache, and long arrays need little memory.
_AT_ONCE = 2**13

_Booleans = npt.NDArray[np.bool_]
_Integers = npt.NDArray[np.int64]


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
