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


def samples(parts: int, seeds: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """All counts of ones per seed, and their probabilities."""
    one = stats.binom.pmf(np.arange(parts + 1), parts, p)
    counts = np.array(list(itertools.product(range(parts + 1), repeat=seeds)))
    return counts, one[counts].prod(axis=1)


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
