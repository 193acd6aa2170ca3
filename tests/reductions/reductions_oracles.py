"""Small domains, exactly: all data of a few binary rows, laws of outputs, mismatch and privacy."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
from scipy import stats

from holdfast.replicable import Tape
from holdfast.stability import collision_probability

SHARES = (0.5, 0.3, 0.1, 0.9)
LEVEL = 1e-6


@lru_cache(maxsize=1024)
def coin_of(tape: Tape) -> float:
    """The tape's first uniform number: many runs ask one tape for it."""
    return float(tape.uniforms(1)[0])


def data(n: int) -> np.ndarray:
    """All data of n binary rows, one a line."""
    return np.array(list(itertools.product((0, 1), repeat=n)))


def chance(n: int, p: float) -> np.ndarray:
    """The probability of each line of ``data`` when every row is 1 with probability p."""
    ones = data(n).sum(axis=1)
    return p**ones * (1.0 - p) ** (n - ones)


def neighbours(n: int) -> list[tuple[int, int]]:
    """Index pairs of data that differ in one row."""
    return [(i, i ^ (1 << bit)) for i in range(2**n) for bit in range(n)]


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The least δ with p ≤ e^ε q + δ on every event."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def exact_epsilon(table: np.ndarray, n: int) -> float:
    """The ε of a table of output probabilities without zeros, one line a dataset."""
    return max(float(np.abs(np.log(table[i] / table[j])).max()) for i, j in neighbours(n))


def exact_delta(table: np.ndarray, n: int, epsilon: float) -> float:
    """The δ of a table at this ε."""
    return max(hockey_stick(table[i], table[j], epsilon) for i, j in neighbours(n))


MEASURES = {
    "mismatch": lambda p, q: 1.0 - collision_probability(p, q),
    "variation": lambda p, q: 0.5 * float(np.abs(p - q).sum()),
}


@lru_cache(maxsize=256)
def _between(raw: bytes, width: int, measure: str) -> tuple[np.ndarray, np.ndarray]:
    """Which distinct line each line of a table is, and the measure between all distinct lines."""
    table = np.frombuffer(raw).reshape(-1, width)
    lines, place = np.unique(table, axis=0, return_inverse=True)
    matrix = np.zeros((len(lines), len(lines)))
    for i, j in itertools.combinations(range(len(lines)), 2):
        matrix[i, j] = matrix[j, i] = MEASURES[measure](lines[i], lines[j])
    return place.ravel(), matrix


def _mean(law: np.ndarray, table: np.ndarray, measure: str) -> float:
    place, matrix = _between(np.ascontiguousarray(table).tobytes(), table.shape[1], measure)
    weights = np.bincount(place, weights=law, minlength=len(matrix))
    return float(weights @ matrix @ weights)


def mean_mismatch(law: np.ndarray, table: np.ndarray) -> float:
    """How often shared coins disagree on two independent samples, exactly."""
    return _mean(law, table, "mismatch")


def mean_variation(law: np.ndarray, table: np.ndarray) -> float:
    """Expected total variation between the output laws on two independent samples."""
    return _mean(law, table, "variation")


def randomised_response(n: int, epsilon: float) -> np.ndarray:
    """Every row is reported, truthfully with probability e^ε/(1 + e^ε): 2^n outcomes."""
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


def with_leak(table: np.ndarray, delta: float) -> np.ndarray:
    """With probability δ the data are printed instead."""
    return np.hstack([(1.0 - delta) * table, delta * np.eye(len(table))])


def truncated_cdf(z: np.ndarray, scale: float, bound: float) -> np.ndarray:
    """The distribution function of Laplace noise of this scale conditioned on [−bound, bound]."""
    whole = -math.expm1(-bound / scale)
    inside = np.clip(z, -bound, bound)
    half = 0.5 * (np.exp(-np.abs(inside) / scale) - math.exp(-bound / scale)) / whole
    return np.where(inside < 0.0, half, 1.0 - half)


def selection_law(counts: tuple[int, ...], scale: float, bound: float) -> np.ndarray:
    """P(nothing), then P(item i): counts with truncated noise, those at most ``bound`` dropped, largest wins.

    Gauss–Legendre between the kinks of the integrand, where it is smooth.
    """
    present = [i for i, count in enumerate(counts) if count > 0]
    law = np.zeros(len(counts) + 1)
    law[0] = math.prod(float(truncated_cdf(np.array(bound - counts[i]), scale, bound)) for i in present)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    whole = -math.expm1(-bound / scale)
    kinks = sorted({bound, *(counts[i] + side for i in present for side in (-bound, 0.0, bound))})
    for low, high in itertools.pairwise(kinks):
        if low < bound:
            continue
        z = low + (nodes + 1.0) * (high - low) / 2.0
        for i in present:
            density = np.exp(-np.abs(z - counts[i]) / scale) / (2.0 * scale * whole)
            density[np.abs(z - counts[i]) > bound] = 0.0
            for j in present:
                if j != i:
                    density = density * truncated_cdf(z - counts[j], scale, bound)
            law[1 + i] += float(density @ weights) * (high - low) / 2.0
    return law


def vote_law(counts, epsilon: float, held: float | None) -> np.ndarray:
    """P(item i), and P(nobody) last unless outcomes are listed, from the weights of the theory page."""
    votes = np.asarray(counts, dtype=float)
    weights = np.exp(epsilon * votes / 2.0)
    if held is not None:
        weights = np.append(weights - 1.0, math.exp(epsilon * held / 2.0) * math.expm1(epsilon / 2.0))
    return weights / weights.sum()


def upper_limit(hits: int, trials: int, level: float = 1e-3) -> float:
    """Clopper–Pearson upper limit of a share."""
    return 1.0 if hits == trials else float(stats.beta.isf(level, hits + 1, trials - hits))


def lower_limit(hits: int, trials: int, level: float = 1e-3) -> float:
    """Clopper–Pearson lower limit of a share."""
    return 0.0 if hits == 0 else float(stats.beta.ppf(level, hits, trials - hits + 1))
