"""Exact Bayesian differential privacy leakage on small tables, by enumeration (BDP (3) and (4))."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast import rounding
from holdfast.dependence._disclosure import read_mechanism, table_shape
from holdfast.dependence._factors import Array, log_sum, refuse_large
from holdfast.dependence._influence import with_unknown
from holdfast.errors import InvalidArgument

_MOST_DATASETS = 1 << 20
_MOST_WORK = 1 << 28
_CHUNK = 1 << 21


def refuse_domain(cards: Sequence[int], *, of: str) -> None:
    """Say before it starts that there are too many datasets."""
    refuse_large(
        math.prod(card + 1 for card in cards),
        "a model with few enough partly known datasets",
        of=of,
        most=_MOST_DATASETS,
    )


def exact_leakage(law: Array, mechanism: Any, *, of: str) -> float:
    """sup ln P[y | x_i, x_K]/P[y | x_i', x_K] over rows i, known rows K, their values and outputs y.

    ``law`` is the ln of the probability of each dataset. A set of outputs is no better than its best single
    one. Every set of known rows is in one table, with a last state "unknown" on each axis.
    """
    likelihoods = read_mechanism(mechanism, law.shape)
    rows = range(law.ndim)
    known = with_unknown(law, rows)
    refuse_large(
        known.size * likelihoods.shape[-1],
        "one with few enough outputs on this model",
        of=of,
        argument="mechanism",
        most=_MOST_WORK,
    )
    step = max(1, _CHUNK // known.size)
    most = max(
        _spread(known, with_unknown(law[..., None] + likelihoods[..., first : first + step], rows))
        for first in range(0, likelihoods.shape[-1], step)
    )
    # A sum of logarithms is off by a few units in the last place of the largest.
    largest = max(float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0)) for logs in (law, likelihoods))
    return rounding.up(most + 8.0 * law.ndim * float(np.finfo(float).eps) * largest)


def _spread(known: Array, joint: Array) -> float:
    with np.errstate(invalid="ignore"):
        given = joint - known[..., None]
    high = np.where(known[..., None] > -np.inf, given, -np.inf)
    low = np.where(known[..., None] > -np.inf, given, np.inf)
    most = 0.0
    for row in range(known.ndim):
        states = slice(0, known.shape[row] - 1)
        place = (slice(None),) * row + (states,)
        top, bottom = high[place].max(axis=row), low[place].min(axis=row)
        seen = top > -np.inf
        most = max(most, float((top[seen] - bottom[seen]).max(initial=0.0)))
    return most


def worst_leakage(mechanism: Any, clusters: Sequence[int]) -> float:
    """The largest leakage over all laws with independent clusters of rows, of the given sizes.

    Inside a cluster any two values may be what x_i and x_i' stand for, and the other clusters may be known:
    the largest ln ratio between datasets that differ inside one cluster.
    """
    cards = table_shape(mechanism)
    if len(cards) != sum(clusters):
        raise InvalidArgument(
            "mechanism", f"one on {sum(clusters)} rows, not {len(cards)}", mechanism, of="leakage"
        )
    likelihoods = read_mechanism(mechanism, cards)
    most = 0.0
    first = 0
    for size in clusters:
        axes = tuple(range(first, first + size))
        top, bottom = likelihoods.max(axis=axes), likelihoods.min(axis=axes)
        seen = top > -np.inf
        most = max(most, float((top[seen] - bottom[seen]).max(initial=0.0)))
        first += size
    return rounding.up(most)


def chain_law(start: Array, transition: Array, n: int) -> Array:
    """ln of the probability of each path of a chain."""
    with np.errstate(divide="ignore"):
        law, step = np.log(start), np.log(transition)
    for _ in range(n - 1):
        law = law[..., None] + step
    normalised: Array = law - log_sum(law, axis=tuple(range(n)))
    return normalised
