"""Numbers that come out of ``exp`` with the same bits on every machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["LOSS", "steady_exp"]

Floats = npt.NDArray[np.float64]

_BITS = 24
# A scale that keeps 24 bits is off by at most this factor, either way.
LOSS = 1.0 + 2.0**-23


def steady_exp(x: npt.ArrayLike) -> Floats:
    """e^x rounded to 24 bits: machines disagree about the last bits of ``exp``, not about these.

    >>> float(steady_exp(0.0))
    1.0
    """
    mantissa, exponent = np.frexp(np.exp(np.asarray(x, dtype=np.float64)))
    kept: Floats = np.ldexp(np.round(mantissa * 2.0**_BITS), exponent - _BITS)
    return kept
