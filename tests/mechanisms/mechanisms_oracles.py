"""Exact laws of rounded noise, and tests of draws against them that show their power."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import special, stats

LEVEL = 1e-6


def upper_tail(x: np.ndarray, kind: str) -> np.ndarray:
    """P(N > x) for standard noise."""
    if kind == "gaussian":
        return special.ndtr(-x)
    return np.where(x >= 0, 0.5 * np.exp(-np.abs(x)), 1.0 - 0.5 * np.exp(-np.abs(x)))


def rounded_law(width: float, reach: int, kind: str) -> np.ndarray:
    """P(K = k), k = −reach … reach, for K = standard noise times ``width``, rounded; the ends take the rest.

    Each side is a difference of small tails, so that no digits are lost far out.
    """
    tails = upper_tail((np.arange(reach + 1) - 0.5) / width, kind)
    tails[0] = 1.0
    positive = np.append(tails[1:-1] - tails[2:], tails[-1]) if reach > 0 else np.empty(0)
    middle = 1.0 - 2.0 * tails[1] if kind == "gaussian" else -math.expm1(-0.5 / width)
    return np.concatenate((positive[::-1], [middle], positive))


def shifted(law: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The law and its copy moved by ``steps``, on a common range."""
    return np.pad(law, (0, steps)), np.pad(law, (steps, 0))


def cells(steps: int, scale: float, kind: str, count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Edges k + ½ between about ``count`` cells of equal probability, and the exact cell probabilities."""
    levels = np.arange(1, count) / count
    inverse = special.ndtri(levels) if kind == "gaussian" else stats.laplace.ppf(levels)
    edges = np.unique(np.floor(inverse * steps)) + 0.5
    outer = upper_tail(np.concatenate(([-np.inf], edges / (steps * scale), [np.inf])), kind)
    return edges, outer[:-1] - outer[1:]


def p_value(drawn: np.ndarray, edges: np.ndarray, probabilities: np.ndarray) -> float:
    """Pearson's test of whole numbers against exact cell probabilities."""
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=len(probabilities))
    expected = len(drawn) * probabilities
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), len(probabilities) - 1))


def power(true: np.ndarray, claimed: np.ndarray, draws: int, level: float = LEVEL) -> float:
    """The chance that Pearson's test at ``level`` rejects ``claimed`` when the cells have ``true``."""
    freedom = len(claimed) - 1
    excess = draws * float(((true - claimed) ** 2 / claimed).sum())
    return float(stats.ncx2.sf(stats.chi2.isf(level, freedom), freedom, excess))


def on_grid(value: float, grid: float) -> bool:
    return (Fraction(value) / Fraction(grid)).denominator == 1
