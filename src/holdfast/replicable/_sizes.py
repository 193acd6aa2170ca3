"""How many rows a replicable statistic needs, and what a number of rows can promise.

``sample_size`` and ``power`` are for one statistic, ``plan_several`` for several means of the same rows.
``compare_ways`` shows the way that is built in beside one that wins for larger domains, so that everybody can
compare them.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Unpack

import numpy as np
from scipy.special import ndtri

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._correlated import MOST_DIMENSIONS as _MOST
from holdfast.replicable._design import way_named
from holdfast.replicable._gaussian import gaussian_mean_rows
from holdfast.replicable._heavy import list_heavy_hitter_rows
from holdfast.replicable._histogram import histogram_rows
from holdfast.replicable._interior import tree_rows
from holdfast.replicable._joint import grid_mean, joint_mean, lattices_tried, noise_for, shares_design
from holdfast.replicable._mean import mean_rows
from holdfast.replicable._rounding import CountThreshold
from holdfast.stability import transfer_exponent
from holdfast.typing import PowerParameters, SizeParameters, StatisticName

__all__ = ["ComparedWay", "SeveralPlan", "SeveralWay", "compare_ways", "plan_several", "power", "sample_size"]


# Each statistic's module has a function ``<name>_rows`` that takes the statistic's own parameters.
_MODULES = {
    "agnostic": "_agnostic",
    "choose": "_choose",
    "difference": "_mean",
    "estimate_opt": "_choose",
    "gaussian_mean": "_gaussian",
    "heavy_hitters": "_heavy",
    "histogram": "_histogram",
    "identity_test": "_gaussian",
    "interior_point": "_interior",
    "learn_littlestone": "_learn_littlestone",
    "learn_represented": "_represented",
    "learn_threshold": "_interior",
    "least_eigenvalue": "_gaussian",
    "list_heavy_hitter": "_heavy",
    "mean": "_mean",
    "median": "_quantile",
    "quantile": "_quantile",
    "slope": "_mean",
}


def sample_size(name: StatisticName, **parameters: Unpack[SizeParameters]) -> int:
    """The smallest number of rows for which the named statistic keeps its promise.

    Guarantee: with at least this many rows the statistic, given the same parameters, is replicable and
    accurate as it says; with fewer it raises ``NotEnoughRows``. Each size and its constants are derived in
    ``docs/theory/replicability.md`` and the pages it leads to.

    Assumes: what the statistic assumes, for independent rows.

    Reference: see each statistic.

    Args:
        name: The name of the statistic.
        parameters: What the statistic takes, apart from its rows and the tape.

    >>> sample_size("mean", accuracy=0.05, rho=0.1, beta=0.01, bounds=(0, 1))
    5847
    """
    checks.choice(name, "name", tuple(_MODULES), of="sample_size")
    rows = getattr(importlib.import_module(f"holdfast.replicable.{_MODULES[name]}"), f"{name}_rows")
    try:
        return int(rows(**parameters))
    except TypeError as mistake:
        if f"{name}_rows()" not in str(mistake):
            raise
        raise InvalidArgument(
            "parameters", f"those of {name} ({mistake})", parameters, of="sample_size"
        ) from None


def power(
    name: StatisticName, *, rows: int, most: float = 0.49, **parameters: Unpack[PowerParameters]
) -> float | None:
    """The finest ``accuracy``, up to ``most``, that the named statistic can promise with ``rows`` rows.

    ``parameters`` are those of ``sample_size(name, ...)`` without the accuracy.

    Guarantee: ``sample_size`` at this accuracy is at most ``rows``; None where no accuracy up to ``most`` is
    coarse enough.
    Assumes: what the statistic assumes.
    Reference: see each statistic.

    >>> round(power("mean", rows=5000, rho=0.1, beta=0.05), 4)
    0.0485
    """
    rows = checks.whole(rows, "rows", of="power")
    most = checks.real(most, "most", "(0, inf)", of="power")

    def enough(accuracy: float) -> bool:
        try:
            return bool(sample_size(name, accuracy=accuracy, **parameters) <= rows)
        except InvalidArgument as refused:
            if refused.argument != "accuracy":
                raise
            return False

    return search.edge(enough, most, 0.0, relative=1e-6, absolute=most * 2.0**-60) if enough(most) else None


_NOISE_SHARES = 200


@dataclass(frozen=True, repr=False)
class SeveralWay(Record):
    """One way to k replicable means: the ``rows`` it needs and what it asks for.

    ``adaptive``: each mean may be chosen after seeing the results before it. ``efficient``: it can be run;
    otherwise the law of all results is known, and sampling from it takes too long in general.

    Args:
        name: The name of the way.
        theorem: Where the number of rows is proved.
    """

    name: str
    rows: int
    adaptive: bool
    efficient: bool
    theorem: str


@dataclass(frozen=True, repr=False)
class SeveralPlan(Record):
    """Every way to ``analyses`` replicable means, the one with the fewest rows first.

    Args:
        accuracy: How far from the truth the result may be.
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        ways: Every way, the one with the fewest rows first.
    """

    analyses: int
    accuracy: float
    rho: float
    beta: float
    ways: tuple[SeveralWay, ...]

    @property
    def best(self) -> SeveralWay:
        """The way with the fewest rows of those that can be run."""
        return next(way for way in self.ways if way.efficient)

    def way(self, name: str) -> SeveralWay:
        """The way of this name.

        Args:
            name: The name of a way.
        """
        return way_named(self.ways, name, of="SeveralPlan.way")

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {**super().to_dict(), "ways": [way.to_dict() for way in self.ways]}


def plan_several(*, analyses: float, accuracy: float, rho: float, beta: float) -> SeveralPlan:
    """The rows that ``analyses`` = k replicable means of values in [0, 1] need, by every way.

    "one by one": each mean is rounded to its own shared grid at ρ/k and β/k, all of the same rows. "fresh
    rows": the same, each of rows of its own. "together": one joint draw or rounding of all means, fixed in
    advance (beyond k = 20 it takes too long to run). "through privacy": answers with Gaussian noise, whose
    transcript shared coins then choose.

    Guarantee: all k results agree except with probability ``rho``, and all are within ``accuracy`` except
    with probability ``beta``. "one by one" with means chosen after seeing results: β + ρ.
    Assumes: independent rows (not checkable).
    Reference: SIS 1.4.3, where the ways cost O(k²n) and Õ(kn²); constants: docs/theory/composition.md.

    >>> plan = plan_several(analyses=10, accuracy=0.05, rho=0.1, beta=0.05)
    >>> plan.best.name, plan.best.rows
    ('one by one', 332146)
    """
    of = "plan_several"
    k = checks.whole(analyses, "analyses", at_most=10**6, of=of)
    accuracy = checks.real(accuracy, "accuracy", "[1e-6, 1)", of=of)
    rho = checks.real(rho, "rho", "[1e-6, 1)", of=of)
    beta = checks.real(beta, "beta", "[1e-12, 1)", of=of)
    single = mean_rows(accuracy=accuracy, rho=rho / k, beta=beta / k, bounds=(0.0, 1.0))
    ways = [
        SeveralWay("one by one", single, True, True, "SIS 1.4.3; constant: Holdfast"),
        SeveralWay("fresh rows", k * single, True, True, "union bound"),
        SeveralWay(
            "through privacy",
            _private_rows(k, accuracy, rho, beta),
            True,
            False,
            "Holdfast, mutual information; SIS Algorithm 2",
        ),
    ]
    together = _together_rows(k, accuracy, rho, beta)
    ways.append(SeveralWay("together", together, False, k <= _MOST, "Holdfast, joint draw or droplets"))
    return SeveralPlan(k, accuracy, rho, beta, tuple(sorted(ways, key=lambda way: way.rows)))


def _private_rows(k: int, accuracy: float, rho: float, beta: float) -> int:
    """Rows for k Gaussian answers whose transcript is chosen by shared coins.

    With noise of standard deviation s the transcript has I ≤ k/(8ns²) nats about the rows. Two samples are
    then √(2I) apart in expected total variation, and shared coins differ with probability ≤ ρ if that is ρ/(2
    − ρ). So I is fixed, s = √k/(2x√n), and both parts of the error shrink like 1/√n.
    """
    distance = rounding.down(rho / (2.0 - rho))
    information = distance * distance / 2.0
    noise_share = np.linspace(0.0, 1.0, _NOISE_SHARES + 1)[1:-1] * beta
    exponents = transfer_exponent(beta - noise_share, np.full_like(noise_share, information))
    reach = np.sqrt(exponents / 2.0) - ndtri(noise_share / (2.0 * k)) * math.sqrt(k) / (2.0 * distance)
    return math.ceil(rounding.up(float(reach.min() / accuracy) ** 2))


def _together_rows(k: int, accuracy: float, rho: float, beta: float) -> int:
    """The fewest rows of "joint draw" and "droplets", on values in [0, 1] and not [−1, 1]."""
    ways = marginal_ways(k, 2.0 * accuracy, rho, beta)
    return min(way.rows for way in ways if way.name != "rounding")


_STATISTICS = ("histogram", "gaussian_mean", "interior_point", "one_way_marginals")
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
_COMPARED_SPLITS = ((0.4, 0.4), (0.5, 0.3), (0.6, 0.25), (0.5, 0.4), (0.4, 0.3))
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
    rho: float,
    beta: float = 0.05,
    accuracy: float | None = None,
    dimension: int | None = None,
    bits: int | None = None,
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
    joint = shares_design(k, accuracy, rho, beta).rows
    return [
        ComparedWay("lattice", lattice, 1.0, True, "Holdfast"),
        ComparedWay("joint draw", joint, lattices_tried(k - 1), k <= _MOST + 1, "SIS Theorem 6.14"),
    ]


def _of_mean(d: int, accuracy: float, rho: float, beta: float) -> list[ComparedWay]:
    in_turn = gaussian_mean_rows(accuracy=accuracy, rho=rho, beta=beta, dimension=d)
    grid = grid_mean(d, accuracy, rho, beta)
    joint = joint_mean(d, accuracy, rho, beta).rows
    by_grid = [ComparedWay("grid, covariance known", grid.rows, 1.0, True, "Holdfast")] if grid else []
    return [
        ComparedWay("rounding in turn", in_turn, 1.0, True, "Holdfast"),
        *by_grid,
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
        for first, second in _COMPARED_SPLITS:
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

    return search.least_whole(enough, above=19, most=2**62)


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

    rows = search.least_whole(enough, above=19, most=2**62)
    assert rows is not None
    return rows


_WAYS = {"histogram": _of_shares, "gaussian_mean": _of_mean, "one_way_marginals": marginal_ways}
