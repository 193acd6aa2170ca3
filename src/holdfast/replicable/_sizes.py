"""How many rows a replicable statistic needs, and what so many rows can promise.

``sample_size`` and ``power`` are for one statistic, ``plan_several`` for several means of the same rows.
``compare_ways`` shows the way that is built in beside one that wins for larger domains, so that nobody has to
take our word for it.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._gaussian import gaussian_mean_rows
from holdfast.replicable._heavy import list_heavy_hitter_rows
from holdfast.replicable._histogram import histogram_rows
from holdfast.replicable._interior import tree_rows
from holdfast.replicable._mean import mean_rows
from holdfast.replicable._rounding import CountThreshold
from holdfast.stability import transfer_exponent

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
    "identity_test": "_identity",
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


def sample_size(name: str, **parameters: object) -> int:
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


_STEPS = 60


def power(name: str, *, rows: int, most: float = 0.49, **parameters: object) -> float | None:
    """The finest ``accuracy``, up to ``most``, that the named statistic can promise with so many rows.

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

    high: float = most
    if not enough(high):
        return None
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if enough(middle) else (middle, high)
        if high - low <= 1e-6 * high:
            break
    return high


# How many columns droplets can round together: the work doubles with each of them.
_MOST_TOGETHER = 20
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
        rho: How often two samples may give different results, at most.
        beta: How often the result may be farther from the truth than the accuracy, at most.
        ways: Every way, the one with the fewest rows first.
    """

    analyses: int
    accuracy: float
    rho: float
    beta: float
    ways: tuple[SeveralWay, ...]

    @property
    def best(self) -> SeveralWay:
        """The way with the fewest rows."""
        return self.ways[0]

    def way(self, name: str) -> SeveralWay:
        """The way of this name.

        Args:
            name: The name of a way.
        """
        for way in self.ways:
            if way.name == name:
                return way
        names = " or ".join(way.name for way in self.ways)
        raise InvalidArgument("name", names, name, of="SeveralPlan.way")

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, ready for JSON."""
        return {**super().to_dict(), "ways": [way.to_dict() for way in self.ways]}


def plan_several(*, analyses: float, accuracy: float, rho: float, beta: float) -> SeveralPlan:
    """The rows that ``analyses`` = k replicable means of values in [0, 1] need, by every way.

    "one by one": each mean is rounded to its own shared grid at ρ/k and β/k, all of the same rows. "fresh
    rows": the same, each of rows of its own. "together": one joint rounding of all means (for k ≤ 20 fixed in
    advance). "through privacy": answers with Gaussian noise, whose transcript shared coins then choose.

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
    if k <= _MOST_TOGETHER:
        together = SeveralWay(
            "together", _droplet_rows(k, accuracy, rho, beta), False, True, "Holdfast, droplets"
        )
        ways.append(together)
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


def _droplet_rows(k: int, accuracy: float, rho: float, beta: float) -> int:
    """The rows of ``barriers.one_way_marginals_rows`` for droplets, on values in [0, 1]."""
    apart = rounding.down(rho / (2.0 - rho))
    reach = math.pi * math.sqrt(2.0 * k) / (2.0 * apart) + math.sqrt(2.0 * math.log(2.0 * k / beta))
    return math.ceil(rounding.up((reach / (2.0 * accuracy)) ** 2))


_STATISTICS = ("histogram", "gaussian_mean", "interior_point")
# No packing of equal balls in d dimensions covers more than 2^(−0.599 d + o(d)) (Kabatiansky and
# Levenshtein 1978).
_THINNING = 0.599
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35)
_COMPARED_SPLITS = ((0.4, 0.4), (0.5, 0.3), (0.6, 0.25), (0.5, 0.4), (0.4, 0.3))
_PREFIXES = "Holdfast, after Bun, Nissim, Stemmer and Vadhan 2015"
_MARGINS = (1.0, 2.0, 3.0, 4.0)


@dataclass(frozen=True, repr=False)
class ComparedWay(Record):
    """One way to a statistic: its ``rows``, its ``work`` and whether Holdfast runs it.

    ``work`` is about how many shifted lattices are tried on average, by the densest packing that the theory
    allows; 1 where one is enough.
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

    ``statistic`` is "histogram" or "gaussian_mean" (with ``accuracy`` and ``dimension``, the number of
    categories or of coordinates), or "interior_point" (with ``bits``, the logarithm of the size of the
    domain to base 2).

    Guarantee: each number of rows is enough for ``rho``, ``accuracy`` and ``beta``; ``work`` is a lower
    bound for sampling by packings of balls.
    Assumes: as the statistic. For "gaussian_mean" the joint draw assumes a known covariance besides.
    Reference: docs/theory/replicable-estimation.md; Kabatiansky and Levenshtein 1978.

    >>> [(way.name, way.rows) for way in compare_ways("interior_point", bits=62, rho=0.1)]
    [('coarsest point', 210679), ('common prefixes', 483834)]
    >>> [way.name for way in compare_ways("histogram", dimension=50, accuracy=0.1, rho=0.1)]
    ['joint draw', 'lattice']
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
    if statistic == "histogram":
        rows = histogram_rows(categories=dimension, accuracy=accuracy, rho=rho, beta=beta)
        joint, theorem = _joint_shares(dimension, accuracy, rho, beta), "SIS Theorem 6.14"
        built, free = "lattice", dimension - 1
    else:
        rows = gaussian_mean_rows(accuracy=accuracy, rho=rho, beta=beta, dimension=dimension)
        joint, theorem = _joint_mean(dimension, accuracy, rho, beta), "SIS Theorem 6.15"
        built, free = "rounding in turn", dimension
    ways = [
        ComparedWay(built, rows, 1.0, True, "Holdfast"),
        ComparedWay("joint draw", joint, 2.0 ** (_THINNING * free), False, theorem),
    ]
    return tuple(sorted(ways, key=lambda way: way.rows))


def _joint_shares(k: int, accuracy: float, rho: float, beta: float) -> int:
    """Rows for one draw from N(shares, s²I) by correlated sampling: half of β for the noise, half for the
    sample."""
    nats = math.log(2.0 / beta)
    noise = math.sqrt(4.0 * (1.0 - 1.0 / k) / math.pi) / rho
    reach = 0.5 * noise * (math.sqrt(2.0 * k * (k - 1.0) / math.pi) + math.sqrt(2.0 * k * nats))
    reach += 0.5 * math.sqrt(k - 1.0) + math.sqrt(nats / 2.0)
    return math.ceil(rounding.up((reach / accuracy) ** 2))


def _joint_mean(d: int, accuracy: float, rho: float, beta: float) -> int:
    """Rows for one draw from N(mean, s²Σ), Σ known."""
    spread = math.sqrt(d) + math.sqrt(2.0 * math.log(2.0 / beta))
    return math.ceil(rounding.up((spread * (math.sqrt(4.0 * d / math.pi) / rho + 1.0) / accuracy) ** 2))


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
