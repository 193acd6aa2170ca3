"""Small mechanisms, exactly: laws of the data, tables of output probabilities, divergences by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np


def all_counts(n: int, cells: int) -> Iterator[tuple[int, ...]]:
    """All ways to spread n rows over the cells."""
    if cells == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in all_counts(n - first, cells - 1):
            yield (first, *rest)


def data(n: int) -> np.ndarray:
    """All data of n binary rows, one a line."""
    return np.array(list(itertools.product((0, 1), repeat=n)))


def independent(n: int, p: float) -> np.ndarray:
    """The law of n independent rows, each 1 with probability p."""
    ones = data(n).sum(axis=1)
    return p**ones * (1.0 - p) ** (n - ones)


def neighbours(n: int) -> list[tuple[int, int]]:
    """Index pairs of data that differ in one row."""
    return [(i, i ^ (1 << bit)) for i in range(2**n) for bit in range(n)]


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> np.ndarray:
    """Σ max(0, p − e^ε q) over the last axis: the smallest additive term at this ε."""
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum(axis=-1)


def close(p: np.ndarray, q: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """Whether p and q are (ε, δ)-indistinguishable, both ways (with a hair's breadth for rounding)."""
    return np.maximum(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)) <= delta + 1e-12


def exact_epsilon(table: np.ndarray, n: int) -> float:
    """The exact ε of a table without zeros."""
    return max(float(np.abs(np.log(table[i] / table[j])).max()) for i, j in neighbours(n))


def exact_delta(table: np.ndarray, n: int, epsilon: float) -> float:
    """The exact δ of a table at this ε."""
    return max(float(hockey_stick(table[i], table[j], epsilon)) for i, j in neighbours(n))


def randomised_response(n: int, epsilon: float) -> np.ndarray:
    """Every row is reported, truthfully with probability e^ε/(1 + e^ε)."""
    flips = (data(n)[:, None, :] != data(n)[None, :, :]).sum(axis=2)
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return truth ** (n - flips) * (1.0 - truth) ** flips


def noisy_count(n: int, epsilon: float) -> np.ndarray:
    """The number of ones with two-sided geometric noise, clamped to 0 … n: n + 1 outcomes."""
    a = math.exp(-epsilon)
    shifts = np.arange(-300, 301)
    weights = (1.0 - a) / (1.0 + a) * a ** np.abs(shifts)
    table = np.zeros((2**n, n + 1))
    for line, ones in enumerate(data(n).sum(axis=1)):
        np.add.at(table[line], np.clip(ones + shifts, 0, n), weights)
    return table / table.sum(axis=1, keepdims=True)


def random_table(rng: np.random.Generator, n: int, outputs: int, strength: float) -> np.ndarray:
    """Any table without zeros: output probabilities proportional to exp(strength · normal)."""
    weights = np.exp(strength * rng.standard_normal((2**n, outputs)))
    return weights / weights.sum(axis=1, keepdims=True)


def with_leak(table: np.ndarray, delta: float) -> np.ndarray:
    """With probability δ the mechanism prints the data instead."""
    return np.hstack([(1.0 - delta) * table, delta * np.eye(len(table))])


def small_mechanisms(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    """A mixed bag of tables on n binary rows."""
    return [
        randomised_response(n, 0.1),
        randomised_response(n, 1.0),
        randomised_response(n, 3.0),
        noisy_count(n, 0.3),
        noisy_count(n, 2.0),
        random_table(rng, n, 2, 0.3),
        random_table(rng, n, 4, 1.0),
        random_table(rng, n, 8, 0.05),
    ]


def information_excess(law: np.ndarray, table: np.ndarray, bits: float) -> float:
    """The smallest β with which the joint law has max-information ``bits``."""
    output = law @ table
    return float(law @ hockey_stick(table, output[None, :], bits * math.log(2.0)))


def log_binomial(n: int, p: float) -> np.ndarray:
    """Logarithms of the binomial probabilities 0..n."""
    from scipy.stats import binom

    return binom.logpmf(np.arange(n + 1), n, p)


def response_excess(n: int, epsilon: float, bits: float) -> float:
    """``information_excess`` of randomised response on n fair coins, through the number of truthful rows."""
    joint = log_binomial(n, 1.0 / (1.0 + math.exp(-epsilon)))
    apart = log_binomial(n, 0.5)
    return float(
        np.maximum(np.exp(joint) - np.exp(np.minimum(bits * math.log(2.0) + apart, 700.0)), 0.0).sum()
    )
