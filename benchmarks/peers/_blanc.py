"""Answers from fresh subsamples: Blanc 2023."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_VOTES = np.unique(np.round(np.geomspace(1, 1e7, 400)))
_SHARES = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7])


def subsampling_error(rows: int, queries: int, beta: float) -> float:
    """Each answer is the mean of Bernoulli votes, each on one fresh row: 4/n nats of mutual information a
    vote.

    The votes cost √(ln(2k/b1)/2m) against the sample; an event of probability e^(−2nt²) without information
    has probability at most b2 with I nats where kl(b2 ‖ e^(−2nt²)) ≥ I. The best m, and b1 + b2 = β.
    """
    return subsampling_choice(rows, queries, beta)[0]


def subsampling_choice(rows: int, queries: int, beta: float) -> tuple[float, int]:
    """The error, and the number of votes that gives it."""
    votes, share = np.meshgrid(_VOTES, _SHARES)
    voting = np.sqrt(np.log(2 * queries / (beta * share)) / (2 * votes))
    information = 4 * votes * queries / rows
    errors = voting + _deviation(rows, beta * (1 - share), information)
    best = np.unravel_index(int(np.argmin(errors)), errors.shape)
    return min(1.0, float(errors[best])), int(votes[best])


def _deviation(rows: int, failure: Floats, information: Floats) -> Floats:
    """t with kl(failure ‖ e^(−2nt²)) ≥ information, from above: b x ≥ I + H(b) where x = 2nt²."""
    entropy = -failure * np.log(failure) - (1 - failure) * np.log1p(-failure)
    result: Floats = np.sqrt((information + entropy) / failure / (2 * rows))
    return result


def votes_of(mean: float, votes: int, rng: np.random.Generator) -> float:
    """One answer: so many fresh rows vote."""
    return float(rng.binomial(votes, mean)) / votes if votes else math.nan
