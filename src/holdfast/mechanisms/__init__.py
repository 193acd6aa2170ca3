"""Everything that draws randomness about data: exact noise on a grid, typically stable answers, selection.

Noise comes from the operating system and cannot be replayed; seeds exist only in simulations that say so.
Theory: ``docs/theory/mechanisms.md``.
"""

from holdfast.mechanisms._noise import Noise, gaussian, laplace
from holdfast.mechanisms._selection import exponential, select_mode
from holdfast.mechanisms._typical import AdaptiveSession, Release, typical_gaussian, typical_laplace

__all__ = [
    "AdaptiveSession",
    "Noise",
    "Release",
    "exponential",
    "gaussian",
    "laplace",
    "select_mode",
    "typical_gaussian",
    "typical_laplace",
]
