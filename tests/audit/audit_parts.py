"""Functions that other processes can import."""

from __future__ import annotations

import numpy as np


def coin_rows(rng):
    return rng.integers(0, 2, 50)


def rounded_mean(rows, tape):
    """A mean rounded to a grid of width 0.5 with a shared offset."""
    offset = float(tape.uniforms(1)[0])
    return float(np.floor(rows.mean() / 0.5 + offset))


def noisy_zero(rng):
    return rng.laplace()


def noisy_one(rng):
    return 1 + rng.laplace()


def plain_interval(rng):
    mean = rng.integers(0, 2, 100).mean()
    return mean - 0.1, mean + 0.1


def asks_once(guard):
    return [(guard, 0.5)]


def sign_of_mean(rows):
    return bool(rows.mean() > 0)
