"""Everything that draws randomness about data: exact noise on a grid, typically stable answers, selection.

Noise comes from the operating system and cannot be replayed; seeds exist only in simulations that say so.
Theory: ``docs/theory/mechanisms.md``.

Names that are imported ``as`` themselves are for other packages of Holdfast.
"""

from holdfast.mechanisms._coins import choose_coins as choose_coins
from holdfast.mechanisms._noise import Noise, gaussian, laplace
from holdfast.mechanisms._selection import exponential, select_mode
from holdfast.mechanisms._typical import AdaptiveSession, Release, typical_gaussian, typical_laplace
from holdfast.mechanisms._typical import widest_ratio as widest_ratio

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
