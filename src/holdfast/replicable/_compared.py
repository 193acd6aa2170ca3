"""Two ways to the same statistic side by side: the one that is built in, and the one that wins for larger
domains.

What nobody can run is here for its rows and its work, so that nobody has to take our word for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from holdfast import checks, rounding
from holdfast.records import Record
from holdfast.replicable._counts import CountThreshold
from holdfast.replicable._gaussian import gaussian_mean_rows
from holdfast.replicable._histogram import histogram_rows
from holdfast.replicable._interior import tree_rows
from holdfast.replicable._joint import known_mean_plan, lattices_tried, noise_for, shares_plan
from holdfast.replicable._least import least_whole
from holdfast.replicable._list_heavy import list_heavy_hitter_rows
from holdfast.replicable._packing import MOST_DIMENSIONS as _MOST

__all__ = ["ComparedWay", "compare_ways", "marginal_ways"]

_STATISTICS = ("histogram", "gaussian_mean", "interior_point", "one_way_marginals")
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
_SPLITS = ((0.4, 0.4), (0.5, 0.3), (0.6, 0.25), (0.5, 0.4), (0.4, 0.3))
_PREFIXES = "Holdfast, after Bun, Nissim, Stemmer and Vadhan 2015"
_MARGINS = (1.0, 2.0, 3.0, 4.0)


@dataclass(frozen=True, repr=False)
class ComparedWay(Record):
    """One way to a statistic: its ``rows``, its ``work`` and whether Holdfast runs it.

    ``work`` is how many shifted lattices or darts are tried on average: 1 where one is enough; beyond 20
    coordinates at least so many, by the densest packing that the theory allows.
    """

    name: str
    rows: int
    work: float
    built_in: bool
    theorem: str


def compare_ways(
    statistic: str,
    *,
    rho: Any,
    beta: Any = 0.05,
    accuracy: Any = None,
    dimension: Any = None,
    bits: Any = None,
) -> tuple[ComparedWay, ...]:
    """The rows and the work of every way to a statistic, fewest rows first.

    ``statistic`` is "histogram", "gaussian_mean" or "one_way_marginals" (with ``accuracy`` and ``dimension``,
    the number of categories, coordinates or columns), or "interior_point" (with ``bits``, the logarithm of
    the size of the domain to base 2).

    Guarantee: each number of rows is enough for ``rho``, ``accuracy`` and ``beta``; ``work`` is a lower
    bound for sampling by packings of balls.
    Assumes: as the statistic.
    Reference: docs/theory/replicable-estimation.md; Kabatiansky and Levenshtein 1978.

    >>> [(way.name, way.rows) for way in compare_ways("interior_point", bits=62, rho=0.1)]
    [('coarsest point', 210679), ('common prefixes', 483834)]
    >>> [way.name for way in compare_ways("one_way_marginals", dimension=30, accuracy=0.1, rho=0.1)]
    ['rounding', 'joint draw', 'droplets']
    """
    of = "compare_ways"
    checks.choice(statistic, "statistic", _STATISTICS, of=of)
    rho = checks.real(rho, "rho", "[0.001, 1)", of=of)
    beta = checks.real(beta, "beta", "[1e-9, 0.5)", of=of)
    if statistic == "interior_point":
        bits = checks.whole(bits, "bits", at_most=10**9, of=of)
        prefixes = _prefix_rows(bits, rho, beta)
        ways = [ComparedWay("common prefixes", prefixes, 1.0, False, _PREFIXES)]
        coarsest = tree_rows(bits, rho)
        if coarsest is not None:
            ways.append(ComparedWay("coarsest point", coarsest, 1.0, bits <= 62, "Holdfast"))
        return tuple(sorted(ways, key=lambda way: way.rows))
    accuracy = checks.real(accuracy, "accuracy", "(0, 1)", of=of)
    least = 2 if statistic == "histogram" else 1
    dimension = checks.whole(dimension, "dimension", at_least=least, at_most=1000, of=of)
    ways = _WAYS[statistic](dimension, accuracy, rho, beta)
    return tuple(sorted(ways, key=lambda way: way.rows))


def _of_shares(k: int, accuracy: float, rho: float, beta: float) -> list[ComparedWay]:
    lattice = histogram_rows(categories=k, accuracy=accuracy, rho=rho, beta=beta)
    joint = shares_plan(k, accuracy, rho, beta).rows
    return [
        ComparedWay("lattice", lattice, 1.0, True, "Holdfast"),
        ComparedWay("joint draw", joint, lattices_tried(k - 1), k <= _MOST + 1, "SIS Theorem 6.14"),
    ]


def _of_mean(d: int, accuracy: float, rho: float, beta: float) -> list[ComparedWay]:
    in_turn = gaussian_mean_rows(accuracy=accuracy, rho=rho, beta=beta, dimension=d)
    grid, joint = (known_mean_plan(d, accuracy, rho, beta, method).rows for method in ("grid", "joint"))
    return [
        ComparedWay("rounding in turn", in_turn, 1.0, True, "Holdfast"),
        ComparedWay("grid, covariance known", grid, 1.0, True, "Holdfast"),
        ComparedWay("joint draw, covariance known", joint, lattices_tried(d), d <= _MOST, "SIS Theorem 6.15"),
    ]


def marginal_ways(d: int, accuracy: float, rho: float, beta: float) -> list[ComparedWay]:
    """The rows of ``barriers.one_way_marginals``: columns of −1 and 1, each mean to within ``accuracy``."""
    reach = math.sqrt(2.0 * math.log(2.0 * d / beta))
    apart = rounding.down(rho / (2.0 - rho))
    noise = noise_for(math.sqrt(2.0 * d), rho)
    roots = {
        "rounding": d / (rho * math.sqrt(math.pi)) + reach,
        "joint draw": reach * math.sqrt(noise * noise + 1.0),
        "droplets": math.pi * math.sqrt(2.0 * d) / (2.0 * apart) + reach,
    }
    rows = {name: math.ceil(rounding.up((root / accuracy) ** 2)) for name, root in roots.items()}
    return [
        ComparedWay("rounding", rows["rounding"], 1.0, True, "Holdfast"),
        ComparedWay("joint draw", rows["joint draw"], lattices_tried(d), d <= _MOST, "SIS section 5"),
        ComparedWay("droplets", rows["droplets"], 2.0 ** min(d, 1000), d <= _MOST, "Kindler and others 2008"),
    ]


@lru_cache(maxsize=64)
def _prefix_rows(bits: int, rho: float, beta: float) -> int:
    """Rows to find a length of common prefix, then a prefix of that length, then one of three points of
    it."""
    best: int | None = None
    ancestors = (bits + 1).bit_length() - 1
    for share in _SHARES:
        for first, second in _SPLITS:
            pairs = _length_pairs(ancestors, share, first * rho)
            if pairs is None:
                continue
            heavy = share - math.sqrt(math.log(6.0 / beta) / (2.0 * pairs))
            if heavy <= 0.0 or (best is not None and 2 * pairs >= best):
                continue
            prefix = list_heavy_hitter_rows(eta=heavy, rho=second * rho, beta=beta / 3.0, list_size=1)
            point = _point_rows(heavy / 4.0, (1.0 - first - second) * rho, beta / 3.0)
            total = 2 * pairs + prefix + point
            best = total if best is None else min(best, total)
    assert best is not None
    return best


def _length_pairs(ancestors: int, share: float, rho: float) -> int | None:
    """Pairs of rows for a length that a part ``share`` of them reaches and a part does not exceed."""

    def enough(pairs: int) -> bool:
        low = math.ceil(share * pairs)
        for margin in _MARGINS:
            high = math.floor(pairs / 2 - margin * math.sqrt(pairs) / 2) - 1
            if high > low:
                threshold = CountThreshold(pairs, low, high)
                if ancestors * threshold.mismatch + 4.0 * threshold.below(0.5) <= rho:
                    return True
        return False

    return least_whole(enough, 20)


def _point_rows(share: float, rho: float, beta: float) -> int:
    """Rows to choose, of three points of which one has ``share`` on both sides, one that has rows on both
    sides."""

    def enough(rows: int) -> bool:
        for margin in _MARGINS:
            high = math.floor(share * rows - margin * math.sqrt(share * rows)) - 1
            if 0 <= high < rows / 2 - 1:
                threshold = CountThreshold(rows, 0, high)
                if 4.0 * threshold.mismatch <= rho and 2.0 * threshold.below(share) <= beta:
                    return True
        return False

    rows = least_whole(enough, 20)
    assert rows is not None
    return rows


_WAYS = {"histogram": _of_shares, "gaussian_mean": _of_mean, "one_way_marginals": marginal_ways}
