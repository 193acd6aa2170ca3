"""Exact one-sided limits for a probability that a simulation measured."""

from __future__ import annotations

from scipy.special import betaincinv

# How many pairs of samples a simulation of a replicable statistic draws.
PAIRS = 10_000


def lower_limit(hits: int, trials: int, confidence: float = 0.999) -> float:
    """Clopper and Pearson's lower limit for a probability."""
    return float(betaincinv(hits, trials - hits + 1, 1.0 - confidence)) if hits else 0.0


def upper_limit(hits: int, trials: int, confidence: float = 0.999) -> float:
    """Clopper and Pearson's upper limit for a probability."""
    return float(betaincinv(hits + 1, trials - hits, confidence)) if hits < trials else 1.0
