"""What tails of a mean are compared with: the law of the mean, exactly."""

from __future__ import annotations

import math

import numpy as np


def worst_ratio(tail, values, weights, centre=None):
    """The largest P(|value − centre| ≥ t) / exp(−γ(t)), just below each distance t that occurs. The centre is
    the mean, unless it is given."""
    distance = np.abs(values - (weights @ values if centre is None else centre))
    return max(
        float(weights[distance >= t - 1e-12].sum()) / math.exp(-tail.gamma(float(t) * (1 - 1e-9)))
        for t in np.unique(distance)
        if t > 1e-9
    )
