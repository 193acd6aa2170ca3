"""Means drawn uniformly from [−a, a], and the weights that make the fingerprint exact there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from holdfast import rounding

__all__ = ["SignPrior", "sign_priors"]

_CELLS = 4096
_REACHES = 48


@dataclass(frozen=True)
class SignPrior:
    """Means uniform on [−a, a]; a column's weight is w(p) = (a² − p²)/(1 − p²), a² at most.

    Each moment is divided by the power of a that it carries, and is an upper bound: ``spread`` is a√E[w²]/a²,
    ``variance`` E[w²(1−p²)]/a⁴, ``length`` E[w√(1−p²)]/a², ``mean_weight`` E[w]/a².
    """

    reach: float
    spread: float
    variance: float
    length: float
    mean_weight: float

    def required(self, accuracy: float, lost: float) -> float:
        """What is left of the fingerprint, per column and divided by a: 1 − 2α/a − lost."""
        return 1.0 - 2.0 * accuracy / self.reach - lost


@lru_cache(maxsize=256)
def sign_priors(accuracy: float) -> tuple[SignPrior, ...]:
    """Priors worth trying: reaches from 2α, where nothing is required any more, up to 1."""
    if not accuracy < 0.5:
        return (_prior(1.0),)
    return tuple(_prior(float(reach)) for reach in np.geomspace(2.0 * accuracy, 1.0, _REACHES + 1)[1:])


@lru_cache(maxsize=4096)
def _prior(reach: float) -> SignPrior:
    # Every integrand falls as u = p/a grows, so sums over left ends are upper bounds.
    u = np.arange(_CELLS) / _CELLS
    inside, outside = 1.0 - u * u, 1.0 - (reach * u) ** 2
    return SignPrior(
        reach=reach,
        spread=rounding.up(reach * float(np.sqrt(np.mean((inside / outside) ** 2)))),
        variance=rounding.up(float(np.mean(inside * inside / outside))),
        length=rounding.up(float(np.mean(inside / np.sqrt(outside)))),
        mean_weight=rounding.up(float(np.mean(inside / outside))),
    )
