"""Algorithms ready to be compiled: a private mean, a private choice of a model, replicable heavy hitters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import softmax

from holdfast import checks, replicable, rounding
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import exponential
from holdfast.reductions._algorithm import Algorithm, Floats
from holdfast.replicable import Tape
from holdfast.stability import DP, Replicability

__all__ = ["exponential_choice", "heavy_hitter", "laplace_mean"]

_SPLITS = 400
# Below this a probability cannot be seen; its logarithm must still be a number.
_LEAST = 1e-300


def laplace_mean(
    *, rows: int, epsilon: float, accuracy: float, cells: int, bounds: tuple[float, float] = (0.0, 1.0)
) -> Algorithm:
    """The mean of ``rows`` values with Laplace noise, given as the middle of one of ``cells`` equal cells.

    Values are clipped to ``bounds`` = (low, high) and rounded to 2⁻⁴⁰ of their range (more coarsely beyond
    4,000 rows), so that sums are exact and the order of the rows does not matter. The law of the outcome is
    exact: differences of the Laplace distribution function.

    Guarantee: ε-DP; farther than ``accuracy`` from the mean of the distribution with probability at most
    ``failure``: Hoeffding for the sample, the Laplace tail for the noise, half a cell for the rounding.
    Assumes: for the failure, independent rows within the bounds (not checkable).
    Reference: SIS 2.2 (Dwork, McSherry, Nissim and Smith 2006).

    Args:
        epsilon: The ε of its privacy.

    >>> round(laplace_mean(rows=2000, epsilon=0.1, accuracy=0.1, cells=20).failure, 9)
    0.002868722
    """
    of = "laplace_mean"
    rows = checks.whole(rows, "rows", of=of)
    dp = DP(checks.real(epsilon, "epsilon", "(0, inf)", of=of))
    cells = checks.whole(cells, "cells", of=of)
    low, high = checks.reals(bounds, "bounds", "(-inf, inf)", of=of)
    if not low < high:
        raise InvalidArgument("bounds", "(low, high) with low < high", bounds, of=of)
    scale = 1.0 / (rows * dp.epsilon)
    units = _units(rows)
    reach = checks.real(accuracy, "accuracy", "(0, inf)", of=of) / (high - low) - 0.5 / cells - 0.5 / units
    edges = np.arange(1, cells) / cells
    middles = tuple((low + (high - low) * (np.arange(cells) + 0.5) / cells).tolist())

    def laws(samples: Any) -> Floats:
        values = np.clip(np.asarray(samples, dtype=float), low, high)
        values -= low
        means = _exact_sums(values, units / (high - low)) / (units * rows)
        return _laplace_cells((edges - means[:, None]) / scale)

    def law(values: Any) -> Floats:
        cell_law: Floats = laws(np.asarray(values, dtype=float)[None])[0]
        return cell_law

    return Algorithm(
        lambda values, tape: middles[_draw(law(values))],
        name="laplace mean",
        rows_needed=rows,
        guarantee=dp,
        failure=_split_failure(
            reach, lambda t: 2.0 * np.exp(-2.0 * rows * t * t), lambda t: np.exp(-t / scale)
        ),
        outcomes=middles,
        probabilities=law,
        batch_probabilities=laws,
    )


def exponential_choice(*, models: int, rows: int, epsilon: float, accuracy: float) -> Algorithm:
    """The number of a model whose loss is almost the smallest, chosen by the exponential mechanism.

    Each row holds the losses, in [0, 1], of ``models`` models on one example. Weights are exp(−ε·loss/2).
    Losses are rounded to 2⁻⁴⁰ (more coarsely beyond 4,000 rows), so that sums are exact.

    Guarantee: ε-DP; a model more than ``accuracy`` worse, in expectation, than the best is chosen with
    probability at most ``failure`` = (k − 1) min_t [exp(−n(accuracy − t)²/2) + exp(−εnt/2)].
    Assumes: for the failure, independent rows (not checkable).
    Reference: McSherry and Talwar 2007; SIS Lemma 2.7 and Theorem 6.13.

    Args:
        rows: How many rows it will get.
        epsilon: The ε of its privacy.

    >>> round(exponential_choice(models=5, rows=2000, epsilon=0.1, accuracy=0.2).failure, 9)
    0.000342638
    """
    of = "exponential_choice"
    models = checks.whole(models, "models", of=of)
    rows = checks.whole(rows, "rows", of=of)
    dp = DP(checks.real(epsilon, "epsilon", "(0, inf)", of=of))
    units = _units(rows)
    reach = checks.real(accuracy, "accuracy", "(0, 1]", of=of) - 1.0 / units

    def scores(samples: Any) -> Floats:
        tables = np.asarray(samples, dtype=float)
        if tables.shape[1:] != (rows, models):
            raise InvalidArgument(
                "rows", f"losses of {models} models on {rows} rows", tables.shape[1:], of=of
            )
        return -_exact_sums(np.clip(tables, 0.0, 1.0), units) / units

    def laws(samples: Any) -> Floats:
        weights: Floats = softmax(0.5 * dp.epsilon * scores(samples), axis=1)
        return weights

    missed = _split_failure(
        reach,
        lambda t: np.exp(-0.5 * rows * t * t),
        lambda t: np.exp(-0.5 * dp.epsilon * rows * t),
    )
    return Algorithm(
        lambda losses, tape: exponential(scores([losses])[0], dp.epsilon, 1.0),
        name="exponential choice",
        rows_needed=rows,
        guarantee=dp,
        failure=rounding.probability((models - 1) * missed) if models > 1 else 0.0,
        outcomes=tuple(range(models)),
        probabilities=lambda losses: laws([losses])[0],
        batch_probabilities=laws,
    )


def heavy_hitter(*, threshold: float, rho: float, beta: float, accuracy: float | None = None) -> Algorithm:
    """The items that make up about ``threshold`` of the distribution or more, ready to be made private.

    Guarantee: that of ``replicable.heavy_hitters``: two samples give different tuples with probability at
    most ``rho``, and a tuple misses an item of share threshold + accuracy, or has one below threshold −
    accuracy, with probability at most ``beta``.
    Assumes: independent rows (not checkable).
    Reference: Holdfast, replicability.

    Args:
        accuracy: How far from the threshold a share counts as on its side; half of it by default.

    >>> heavy_hitter(threshold=0.4, rho=0.1, beta=0.01).rows_needed
    3641
    """
    declared: dict[str, Any] = {"threshold": threshold, "rho": rho, "beta": beta, "accuracy": accuracy}

    def run(items: Any, tape: Tape) -> Any:
        return replicable.heavy_hitters(items, tape=tape, **declared)

    return Algorithm(
        run,
        name="heavy hitters",
        rows_needed=replicable.sample_size("heavy_hitters", **declared),
        guarantee=Replicability(rho),
        failure=beta,
    )


def _units(rows: int) -> float:
    """How finely numbers in [0, 1] are rounded, so that the sum of ``rows`` of them is an exact float."""
    return math.ldexp(1.0, max(0, min(40, 52 - rows.bit_length())))


def _exact_sums(samples: Floats, units: float) -> Floats:
    """The sums over the second axis in ``units``, each number rounded; overwrites ``samples``."""
    samples *= units
    totals: Floats = np.rint(samples, out=samples).sum(axis=1)
    return totals


def _laplace_cells(edges: Floats) -> Floats:
    """The probabilities that standard Laplace noise gives to the cells between the edges of each line."""
    beyond = np.full((len(edges), 1), np.inf)
    low, high = np.hstack((-beyond, edges)), np.hstack((edges, beyond))
    # The two sides are mirrored, so that a cell far out is a difference of small numbers on either side.
    right = low >= 0.0
    low, high = np.where(right, -high, low), np.where(right, -low, high)
    inside = -0.5 * np.exp(np.minimum(high, 0.0)) * np.expm1(low - high)
    around = 1.0 - 0.5 * (np.exp(np.minimum(low, 0.0)) + np.exp(-np.maximum(high, 0.0)))
    cells: Floats = np.where(high > 0.0, around, inside)
    return cells


def _draw(law: Floats) -> int:
    """An index with these probabilities, by coins that cannot be replayed."""
    return exponential(np.log(np.maximum(law, _LEAST)), 2.0, 1.0)


def _split_failure(reach: float, first: Any, second: Any) -> float:
    """The smallest first(reach − t) + second(t) over a grid of t in (0, reach): every t is a bound."""
    if not reach > 0.0:
        return 1.0
    t = reach * np.arange(1, _SPLITS) / _SPLITS
    return rounding.probability(float(np.min(first(reach - t) + second(t))))
