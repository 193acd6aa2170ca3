"""Logarithm, sine and cosine from correctly rounded operations only.

The C libraries of two machines may differ in the last bit of ``log``, and a last bit is enough to make two
laboratories disagree. IEEE 754 fixes the bits of +, −, ×, ÷ and √, and ``frexp`` is exact; so a formula that
uses nothing else, one array operation at a time, has the same bits everywhere. Every function here is within
3 units in the last place of the true value, which the tests check against mpmath.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# ln 2 in two parts: the first ends in 25 zero bits, so that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42ffp-1")
_LN2_LOW = float.fromhex("-0x1.718432a1b0e26p-35")
_ATANH = [1.0 / (2 * j + 1) for j in range(13)]
_SINE = [(-1.0) ** j / math.factorial(2 * j + 1) for j in range(10)]
_COSINE = [(-1.0) ** j / math.factorial(2 * j) for j in range(10)]
_QUARTER_PI = float.fromhex("0x1.921fb54442d18p-1")
_AT_ONCE = 2**14  # numbers that stay in the fast memory of a core while the formula passes over them
_ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")


def _polynomial(coefficients: list[float], x: Floats) -> Floats:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        np.multiply(total, x, out=total)
        np.add(total, coefficient, out=total)
    return total


def logarithm(x: Floats) -> Floats:
    """ln x for positive normal numbers, by 2 artanh((m−1)/(m+1)) for the mantissa m in [√½, √2)."""
    result = np.empty_like(x)
    for begin in range(0, x.size, _AT_ONCE):
        result[begin : begin + _AT_ONCE] = _logarithm(x[begin : begin + _AT_ONCE])
    return result


def _logarithm(x: Floats) -> Floats:
    mantissa, exponent = np.frexp(x)
    small = mantissa < _ROOT_HALF
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    power = (exponent - small).astype(np.float64)
    above = mantissa - 1.0  # exact
    slope = above / (mantissa + 1.0)
    # 2 artanh(s) = f − s(f − 2s²(1/3 + s²/5 + …)): the leading term is exact, so cancellation costs nothing.
    square = slope * slope
    rest = 2.0 * (square * _polynomial(_ATANH[1:], square))
    fine = slope * (above - rest)
    return power * _LN2_HIGH + (above - (fine - power * _LN2_LOW))


def sine_and_cosine_of_turn(turn: Floats) -> tuple[Floats, Floats]:
    """(sin 2πt, cos 2πt) for t in [0, 1), reduced exactly to an eighth of a turn."""
    eighths = 8.0 * turn  # exact, as is everything up to the angle
    octant = np.floor(eighths)
    fraction = eighths - octant
    octant = octant.astype(np.int64)
    odd = (octant & 1).astype(bool)
    angle = np.where(odd, 1.0 - fraction, fraction) * _QUARTER_PI
    square = angle * angle
    sine = angle * _polynomial(_SINE, square)
    cosine = _polynomial(_COSINE, square)
    swapped = ((octant + 1) & 2).astype(bool)
    sine, cosine = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    sine = np.where(octant >= 4, -sine, sine)
    cosine = np.where((octant >= 2) & (octant < 6), -cosine, cosine)
    return sine, cosine
