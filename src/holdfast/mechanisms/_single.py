"""One exact draw in plain numbers: for a single draw, array functions cost more than the arithmetic."""

from __future__ import annotations

import math

from holdfast.mechanisms import _rounded
from holdfast.mechanisms._coins import Coins

_SHORT = 2**32 - 1
_LOG_31_BITS = 31.0 * math.log(2.0)


def single_noise(steps: int, coins: Coins, *, gaussian: bool) -> int:
    """One draw of Laplace (or normal) noise of width ``steps``, rounded to a whole number.

    Guarantee: the law of ``rounded_noise(1, steps, …)``, by the same proposals and the same exact settling of
    close decisions.
    Assumes: fair bits; ``math.exp`` and ``math.log`` within 2^-40 of the truth on [0, 60].
    Reference: see :func:`holdfast.mechanisms._rounded.rounded_noise`.
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
    unsure = abs(exponential - round(exponential)) <= 1.0 / middle + _rounded._FLOAT_ERROR
    position = (fraction >> 11) * 2.0**-53
    gaps = [(tests[0] + 0.5) * 2.0**-32 - math.exp(-position)]
    if len(tests) > 1 and not unsure:
        gaps.append((tests[1] + 0.5) * 2.0**-32 - math.exp(-0.5 * (whole + position - 1.0) ** 2))
    if max(gaps) > _rounded._DOUBT:
        return None
    product = steps * fraction
    nearest = product + 2**63 >> 64
    crossing = nearest != product + steps - 1 + 2**63 >> 64
    if unsure or crossing or max(gaps) >= -_rounded._DOUBT:
        return _rounded.settle(whole_bits, fraction, tests, steps, coins)
    return whole * steps + nearest
