"""How many runs of a replicable algorithm make a private or perfectly generalising one (SIS algorithms 1, 3).

SIS states both with O(·). The constants here are derived in ``docs/theory/reductions.md``; the plans below
are what the compilers of ``holdfast.reductions`` run, and what the conversion graph charges in rows. Also
here: how far below the best a private choice can be (SIS lemma 2.7 and theorem 3.2), and how often shared
coins disagree. Shared coins at total variation d disagree with probability at most 2d/(1 + d). That is
concave, so the expected distance is enough: neither max-information nor a union bound over good samples is
needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.stability._dp import DP
from holdfast.stability._generalization import PerfectGeneralization
from holdfast.stability._notion import exp_up, log
from holdfast.stability._replicability import GoodCoins, disagreement_bound


@dataclass(frozen=True, repr=False)
class PrivatePlan(Record):
    """Algorithm 1: ``seeds`` coin sequences, each run on ``parts`` fresh samples, then private selection.

    Guarantee: the result is (epsilon, delta)-DP, and wrong or missing with probability at most ``failure``.
    ``threshold`` is the A of the selection, ``votes`` the number of equal outputs that the analysis waits
    for.

    Args:
        epsilon: The ε of the result.
        delta: The δ of the result.
    """

    epsilon: float
    delta: float
    seeds: int
    parts: int
    threshold: float
    votes: int
    failure: float

    @property
    def runs(self) -> int:
        """Runs of the algorithm, each on fresh rows: the cost in rows as a factor."""
        return self.seeds * self.parts

    @property
    def guarantee(self) -> DP:
        """What the compiled algorithm satisfies."""
        return DP(self.epsilon, self.delta)


@dataclass(frozen=True, repr=False)
class PerfectPlan(Record):
    """Algorithm 3: ``seeds`` coin sequences, each on ``parts`` fresh samples, then the exponential mechanism.

    Guarantee: the result is (2 delta, epsilon, 2 delta)-sample perfectly generalising, and wrong with
    probability at most ``failure``. ``deviation`` is γ: how far the share of an output may move from one
    sample to another. The mechanism's weights are exp(epsilon·score/(2·``sensitivity``)).

    Args:
        epsilon: The ε of the result.
        delta: The δ of the result.
    """

    epsilon: float
    delta: float
    seeds: int
    parts: int
    deviation: float
    sensitivity: float
    failure: float

    @property
    def runs(self) -> int:
        """Runs of the algorithm, each on fresh rows: the cost in rows as a factor."""
        return self.seeds * self.parts

    @property
    def guarantee(self) -> PerfectGeneralization:
        """What the compiled algorithm satisfies."""
        twice = rounding.probability(2.0 * self.delta)
        return PerfectGeneralization(twice, self.epsilon, twice, kind="sample")


def _usable(coins: Any, of: str, by: str) -> GoodCoins:
    if not isinstance(coins, GoodCoins):
        raise InvalidArgument("coins", "GoodCoins(eta, nu)", coins, of=of, reference=by)
    if not coins.eta < 0.5:
        raise InvalidArgument(
            "coins", "GoodCoins with eta < 1/2, so that a canonical output is unique", coins, of=of
        )
    if not coins.nu < 1.0:
        raise InvalidArgument("coins", "GoodCoins with nu < 1", coins, of=of, reference=by)
    return coins


def perfect_plan(
    epsilon: float, delta: float, *, coins: GoodCoins | None = None, failure: float = 0.0
) -> PerfectPlan:
    """Algorithm 3 with constants: from replicable to (2δ, ε, 2δ)-sample perfectly generalising.

    Guarantee: good coins (η, ν) need k = ⌈2 ln(1/δ)/ln(1/ν)⌉ seeds. Let γ = √(Λ/t) with Λ = ln((4k + 3)/δ²);
    the sensitivity is ctγ/2 with c = min(2, √k). The number of parts is the smallest t with γ(1 + √½ + c(ln(k
    − 1) + ln(1/δ))/ε) < ½ − η; for k = 1 without the term with ε. Where the algorithm is wrong with
    probability ``failure`` = g² ≤ 1/4, the result is wrong with probability ≤ kg + δ + 3δ²/2.
    Assumes: good coins; the default (0.01, 0.01) is SIS's.
    Reference: SIS Theorem 3.19, whose printed deviation is too small for its own union bound; constants:
    Holdfast.

    Args:
        epsilon: The ε that the result must keep, above 0.
        delta: The δ that the result must keep, in (0, 1).
        coins: The good coins of the algorithm. None takes the best.

    >>> perfect_plan(epsilon=1.0, delta=0.01).runs
    6534
    """
    of, by = "perfect_plan", "SIS Theorem 3.19"
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    coins = _usable(GoodCoins(0.01, 0.01) if coins is None else coins, of, by)
    g = math.sqrt(checks.real(failure, "failure", "[0, 0.25]", of=of, by=by))
    nats = -math.log(delta)
    seeds = max(1, math.ceil(2.0 * nats / -math.log(coins.nu))) if coins.nu > 0.0 else 1
    root = math.sqrt(math.log(4.0 * seeds + 3.0) + 2.0 * nats)
    # How many deviations the log ratio of two choices has: two by the scores, √k by bounded differences.
    moves = min(2.0, math.sqrt(seeds))
    chosen = moves * (math.log(seeds - 1.0) + nats) / epsilon if seeds > 1 else 0.0
    reach = rounding.up(root * (1.0 + math.sqrt(0.5) + chosen) / (0.5 - coins.eta))
    parts = math.floor(reach * reach) + 1
    deviation = root / math.sqrt(parts)
    return PerfectPlan(
        epsilon=epsilon,
        delta=delta,
        seeds=seeds,
        parts=parts,
        deviation=deviation,
        sensitivity=rounding.up(0.5 * moves * parts * deviation),
        failure=rounding.probability(seeds * g + delta + 1.5 * delta * delta),
    )


def _vote_failure(parts: int, threshold: float, coins: GoodCoins, wrong: float) -> tuple[float, int]:
    """The best number of votes to wait for, and how likely it is that they do not come or wrong ones win.

    ``wrong`` is the expected number of wrong outputs. With m votes for a canonical output, the selected
    output occurs at least m − 2A times. If it were wrong, at least ⌈m − 2A⌉ outputs would be wrong.
    """
    least = math.floor(2.0 * threshold) + 1
    if least > parts:
        return 1.0, least
    if coins.eta == 0.0:
        votes, missing = np.array([parts]), np.zeros(1)
    else:
        votes = np.array([least]) if wrong == 0.0 else np.unique(np.linspace(least, parts, 2000).astype(int))
        missing = scipy.special.bdtr(votes - 1.0, parts, 1.0 - coins.eta)
    total = missing + wrong / np.ceil(votes - 2.0 * threshold)
    best = int(np.argmin(total))
    return float(total[best]), int(votes[best])


def private_plan(
    epsilon: float, delta: float, *, coins: GoodCoins | None = None, beta: float = 0.05, failure: float = 0.0
) -> PrivatePlan:
    """Algorithm 1 with constants: from replicable to (ε, δ)-DP, at failure probability ``beta``.

    Guarantee: take good coins (η, ν), s seeds, t parts for each, the selection threshold A, and an algorithm
    that is wrong with probability ``failure`` = g. The result is wrong or silent with probability at most
    ν^s + P(Bin(t, 1−η) < m) + g s t/⌈m − 2A⌉ for every m > 2A. Proof: some seed is good, and its canonical
    output gets m votes. What is selected then has ≥ m − 2A votes, and by Markov there are fewer wrong outputs
    than that. The plan has the fewest runs s·t that this search finds.
    Assumes: good coins; the default (0.1, 0.1) is SIS's.
    Reference: SIS Theorem 3.1 and Algorithm 1, constants: Holdfast (selection) and this derivation.

    Args:
        epsilon: The ε that the result must keep, above 0.
        delta: The δ that the result must keep, in (0, 1).
        coins: The good coins of the algorithm. None takes the best.

    >>> private_plan(epsilon=1.0, delta=1e-6)
    PrivatePlan(epsilon=1, delta=1e-06, seeds=2, parts=65, threshold=26.7655, votes=54, failure=0.0364239)
    """
    of, by = "private_plan", "SIS Theorem 3.1"
    threshold = selection_threshold(epsilon, delta)
    coins = _usable(GoodCoins(0.1, 0.1) if coins is None else coins, of, by)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=by)
    failure = checks.real(failure, "failure", "[0, 1)", of=of, by=by)
    fewest = math.ceil(2.0 * threshold / (1.0 - coins.eta))
    best: PrivatePlan | None = None
    seeds = 0
    while best is None or (seeds + 1) * fewest < best.runs:
        seeds += 1
        no_good_seed = exp_up(seeds * log(coins.nu)) if coins.nu > 0.0 else 0.0
        if seeds * failure / (1.0 - coins.eta) >= beta:
            break
        if no_good_seed >= beta:
            continue
        candidate = _fewest_parts(seeds, threshold, coins, failure, beta - no_good_seed)
        if candidate is not None and (best is None or seeds * candidate[0] < best.runs):
            parts, votes, missed = candidate
            best = PrivatePlan(
                epsilon=float(epsilon),
                delta=float(delta),
                seeds=seeds,
                parts=parts,
                threshold=threshold,
                votes=votes,
                failure=rounding.probability(no_good_seed + missed),
            )
        if coins.nu == 0.0:
            break
    if best is None:
        expected = f"so small that {beta:g} can be reached: with s seeds it costs about s·failure/(1 − eta)"
        raise InvalidArgument("failure", expected, failure, of=of, reference=by)
    return best


def _fewest_parts(
    seeds: int, threshold: float, coins: GoodCoins, failure: float, room: float
) -> tuple[int, int, float] | None:
    """The fewest parts per seed whose failure fits into ``room``."""

    def at(parts: int) -> tuple[float, int]:
        return _vote_failure(parts, threshold, coins, failure * seeds * parts)

    parts = search.least_whole(
        lambda parts: at(parts)[0] < room * (1.0 - 1e-12),
        above=math.floor(2.0 * threshold),
        most=math.floor(1000 * (threshold + 100.0) / (0.5 - coins.eta)),
    )
    if parts is None:
        return None
    missed, votes = at(parts)
    return parts, votes, missed


def coin_disagreement(distance: float, outcomes: int | None) -> float:
    """How often shared coins disagree at this expected total variation: 2d/(1 + d), and d for two outcomes.

    With two outcomes and laws (a, 1 − a), (b, 1 − b), a < b, both sides choose the first with probability a
    and the second with probability 1 − b (``stability.collision_probability``). Never above 1 − 1/k for k
    outcomes: given the coins, the two choices are independent and have the same law.
    """
    if outcomes is None:
        return disagreement_bound(distance)
    return min(distance if outcomes <= 2 else disagreement_bound(distance), chance_disagreement(outcomes))


def chance_disagreement(outcomes: int) -> float:
    """1 − 1/k, rounded up: how often two independent choices of one law among k outcomes differ, at most."""
    return rounding.up(1.0 - 1.0 / outcomes)


def outcome_variance(epsilon: float, n: int) -> float:
    """cosh(ε/2)^{2n} − 1: relative variance of an outcome's probability over the sample, under pure ε-DP."""
    nats = 2.0 * n * math.log1p(2.0 * math.sinh(epsilon / 4.0) ** 2) if epsilon < 1400.0 else math.inf
    return rounding.up(math.expm1(nats)) if nats < 700.0 else math.inf


def mean_distance(dp: DP, n: int, parts: int = 1, outcomes: int | None = None, runs: int = 0) -> float:
    """Expected total variation between averages of the law over ``parts`` samples of ``n`` rows each.

    ``runs`` > 0: each law is estimated from this many runs. That adds to the variance; the two bounds that
    count outcomes cover it already. √((k − 1)/2 parts): a run on a fresh sample has variance P(1 − P) in all.
    1 − 1/k: Σ min(p, p') ≥ Σ pp', whose mean is Σ P² ≥ 1/k.
    """
    private = private_distance(dp, n, 1.0 / parts)
    if outcomes is None:
        return rounding.probability(private)
    counted = min(math.sqrt((outcomes - 1) / (2.0 * parts)), chance_disagreement(outcomes))
    return rounding.probability(min(private + estimation_distance(outcomes, parts, runs), counted))


def private_distance(dp: DP, n: int, share: float = 1.0) -> float:
    """√(share·v/2) plus what δ costs: v the relative variance of an outcome's probability over n rows.

    Pure privacy: v = cosh(ε/2)^{2n} − 1. With δ > 0 each row's likelihood ratio is clamped to an interval.
    Log-length 2ε makes v = cosh(ε)^{2n} − 1 and costs 2nδ. Log-length ε keeps the v of pure privacy and costs
    2n√δ. The smaller counts.
    """
    clamped = math.sqrt(outcome_variance(dp.epsilon, n) * share / 2.0) + 2.0 * n * math.sqrt(dp.delta)
    return min(clamped, math.sqrt(outcome_variance(2.0 * dp.epsilon, n) * share / 2.0) + 2.0 * n * dp.delta)


def estimation_distance(outcomes: int, draws: int, runs: int) -> float:
    """What estimating each of ``draws`` laws from ``runs`` runs adds to the expected distance."""
    return math.sqrt((outcomes - 1) / (2.0 * draws * runs)) if runs else 0.0


def exponential_excess(epsilon: float, sensitivity: float, outcomes: float, failure: float) -> float:
    """How far below the best the exponential mechanism's choice scores, except with probability ``failure``.

    Guarantee: 2Δ(ln|L| + ln(1/failure))/ε for weights exp(ε u/(2Δ)) over |L| = ``outcomes`` candidates.
    Assumes: each score moves by at most ``sensitivity`` between neighbouring data (not checkable).
    Reference: SIS Lemma 2.7 (McSherry and Talwar 2007).

    Args:
        epsilon: The ε of the choice, above 0.

    >>> round(exponential_excess(epsilon=1.0, sensitivity=1.0, outcomes=10, failure=0.05), 6)
    10.596635
    """
    of, by = "exponential_excess", "SIS Lemma 2.7"
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    sensitivity = checks.real(sensitivity, "sensitivity", "(0, inf)", of=of, by=by)
    outcomes = checks.whole(outcomes, "outcomes", of=of, by=by)
    failure = checks.real(failure, "failure", "(0, 1)", of=of, by=by)
    return rounding.up(2.0 * sensitivity * (math.log(outcomes) - math.log(failure)) / epsilon)


def selection_threshold(epsilon: float, delta: float) -> float:
    """The threshold A of private selection of a frequent item, which is also the bound on its noise.

    Guarantee: counts of the items that occur get truncated Laplace noise of scale 2/ε on [−A, A]; noisy
    counts ≤ A are dropped; the largest is returned. This is (ε, δ)-DP when one item is replaced, a returned
    item is at most 2A below the mode, and nothing is returned only if the mode occurs at most 2A times. A =
    (2/ε) ln(1 + (e^{ε/2} − 1)/δ).
    Assumes: nothing about the items. A smaller A breaks (ε, δ).
    Reference: SIS Theorem 3.2, with the constant of Holdfast.

    Args:
        epsilon: The ε of the selection, above 0.
        delta: The δ of the selection, in (0, 1).

    >>> round(selection_threshold(epsilon=1.0, delta=1e-6), 6)
    26.76552
    """
    of, by = "selection_threshold", "SIS Theorem 3.2"
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    half = epsilon / 2.0
    gained = half + math.log(-math.expm1(-half)) - math.log(delta)
    threshold = rounding.up((math.log1p(math.exp(gained)) if gained < 700.0 else gained) / half)
    if math.isinf(threshold):
        raise InvalidArgument(
            "epsilon", "so large that the threshold is a finite number", epsilon, of=of, reference=by
        )
    return threshold
