"""A private vote whose weights grow with the votes: few votes are enough, and pure privacy is possible.

From replicable to private: runs with few coins on many parts vote, and the share of the coins that count as
good is chosen so that the runs are fewest.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy.special import gammaln

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import exponential
from holdfast.records import Record
from holdfast.reductions._algorithm import (
    SIMULATED,
    Algorithm,
    Floats,
    Progress,
    Workers,
    cut,
    noise_seed,
    run_all,
)
from holdfast.replicable import Tape
from holdfast.stability import DP, EFFICIENT, GoodCoins, Notion

__all__ = [
    "VotePlan",
    "budget_argument",
    "cheapest",
    "cheapest_vote",
    "elect",
    "log_bad",
    "lost",
    "mean_of_votes",
    "reserve",
    "run_seeds",
    "vote_plan",
    "voted",
]


_CHOICES = 40
# A plan with more runs than this multiple of the votes that decide is not considered.
_LONGEST = 50
# Counts farther than this many √t from their mean are not summed one by one; Hoeffding bounds all of them.
_REACH = 5.0
_BEYOND = 2.0 * math.exp(-2.0 * _REACH**2)


@dataclass(frozen=True, repr=False)
class VotePlan(Record):
    """``seeds`` coin sequences, each run on ``parts`` fresh samples, then ``elect``.

    ``reserve`` is the weight of "nobody" as a number of votes; None where the outcomes are listed and the
    vote is purely private. With fewer than ``wrong`` wrong outputs the bound on a lost vote holds. It is 0 if
    the analysis treats every output that is not canonical as wrong.
    """

    seeds: int
    parts: int
    reserve: float | None
    wrong: int
    failure: float

    @property
    def runs(self) -> int:
        """Runs of the algorithm, each on fresh rows."""
        return self.seeds * self.parts


def reserve(epsilon: float, delta: float, size: int = 1) -> float:
    """How many votes "nobody" has, so that a vote among whatever occurs is (ε, δ)-private.

    Guarantee: R with e^{εR/2} ≥ L·max(1/(e^{ε/2} − 1), 1/δ − 1), L = ``size`` being the most items that one
    ballot names.
    Assumes: 0 < δ < 1.
    Reference: Holdfast, private vote.

    >>> round(reserve(1.0, 1e-6), 9)
    27.631019116
    """
    steep = max(-math.log(math.expm1(epsilon / 2.0)), math.log(1.0 / delta - 1.0))
    return max(0.0, rounding.up(2.0 * (math.log(size) + steep) / epsilon))


def elect(
    ballots: Iterable[Iterable[Hashable]],
    epsilon: float,
    *,
    reserve: float = 0.0,
    outcomes: tuple[Any, ...] | None = None,
    seed: int | None = None,
) -> Any:
    """An item that almost as many ballots name as any other, or None.

    With ``outcomes``, one of them, chosen with weight e^{εc/2}, c being its votes. Otherwise, among the items
    that occur, with weight e^{εc/2} − 1, against e^{ε·reserve/2}(e^{ε/2} − 1) for None.

    Guarantee: ε-DP when one ballot is replaced, with ``outcomes``; otherwise (ε, δ)-DP, where ``reserve`` is
    that of δ and of the longest ballot.
    Assumes: ``seed`` is None; a seed is for simulation, and protects nothing.
    Reference: Holdfast, private vote.

    >>> elect([("oak",)] * 60 + [("elm",)], 1.0, reserve=reserve(1.0, 1e-6))
    'oak'
    """
    counts = Counter(item for ballot in ballots for item in dict.fromkeys(ballot))
    coins: dict[str, Any] = {} if seed is None else {"simulation": True, "seed": seed}
    if outcomes is not None:
        return outcomes[exponential([float(counts[item]) for item in outcomes], epsilon, 1.0, **coins)]
    # e^{θc} − 1 is (e^θ − 1)(1 + e^θ + … + e^{θ(c−1)}): an item with c votes stands on c rungs, each of which
    # is chosen with the weight of an ordinary exponential mechanism.
    items = list(counts)
    votes = np.fromiter(counts.values(), dtype=np.int64, count=len(items))
    rungs = np.arange(votes.sum()) - np.repeat(np.cumsum(votes) - votes, votes)
    chosen = exponential(np.append(rungs.astype(float), reserve), epsilon, 1.0, **coins)
    return None if chosen == len(rungs) else items[int(np.searchsorted(np.cumsum(votes), chosen, "right"))]


def mean_of_votes(trials: int, share: float, loss: Callable[[Floats], Floats]) -> Floats:
    """The expectation of ``loss``, at most 1, of a binomial count; ``loss`` may have several lines."""
    if share <= 0.0 or share >= 1.0:
        return loss(np.array([float(trials if share >= 1.0 else 0)]))[..., 0]
    reach = _REACH * math.sqrt(trials)
    low, high = max(0, math.floor(trials * share - reach)), min(trials, math.ceil(trials * share + reach))
    k = np.arange(low, high + 1.0)
    ways = gammaln(trials + 1.0) - gammaln(k + 1.0) - gammaln(trials - k + 1.0)
    law = np.exp(ways + k * math.log(share) + (trials - k) * math.log1p(-share))
    # Logarithms of factorials lose digits as they grow.
    mean_loss: Floats = (loss(k) @ law + _BEYOND) * (1.0 + 1e-9 + 1e-14 * trials)
    return mean_loss


def log_bad(epsilon: float, reserved: float | None, votes: Any, outcomes: int | None, size: int = 1) -> Any:
    """The logarithm of the weight of None and of ``size`` wrong items with ``votes`` votes each.

    Wrong items without votes weigh something only where outcomes are listed.
    """
    theta = epsilon / 2.0
    with np.errstate(divide="ignore"):
        voted = theta * votes + np.log(-np.expm1(-theta * votes)) + math.log(size)
        if reserved is None:
            assert outcomes is not None
            return np.logaddexp(np.log(float(outcomes - 1)), voted)
    return np.logaddexp(theta * reserved + math.log(math.expm1(theta)), voted)


def lost(epsilon: float, reserved: float | None, votes: Any, bad: Any) -> Any:
    """How likely None or a wrong item is chosen, if a right one has ``votes`` votes."""
    theta = epsilon / 2.0
    with np.errstate(divide="ignore", over="ignore"):
        good = theta * votes
        if reserved is not None:
            good = good + np.log(-np.expm1(-theta * votes))
        # An item without votes counts as lost.
        return np.where(votes > 0.0, 1.0 / (1.0 + np.exp(np.where(votes > 0.0, good, 0.0) - bad)), 1.0)


def vote_plan(
    coins: GoodCoins,
    *,
    epsilon: float,
    delta: float,
    outcomes: int | None,
    beta: float,
    failure: float,
    of: str,
    by: str,
    below: float = math.inf,
) -> VotePlan:
    """The fewest runs, fewer than ``below``, for which a vote is wrong or silent with probability ``beta``.

    Guarantee: take good coins (η, ν), s seeds, t parts and an algorithm that is wrong with probability
    ``failure`` = g. The vote is wrong or None with probability at most ν^s + gst/w + E[lost(M)] for every w ≥
    1, where M ~ Bin(t, 1 − η) and M < w counts as lost. With g = 0, w = 1 costs nothing. With one seed, ν +
    g/(1 − η) + E[lost(M)] against t − M wrong votes is a bound too.
    Assumes: good coins; independent rows.
    Reference: SIS Theorem 3.1; the vote and the constants: Holdfast.
    """
    if not (coins.nu < 1.0 and coins.eta < 1.0):
        raise InvalidArgument("coins", "GoodCoins with nu < 1 and eta < 1", coins, of=of, reference=by)
    reserved = None if delta == 0.0 else reserve(epsilon, delta)
    vote = _Vote(coins.eta, epsilon, reserved, outcomes, failure)
    decisive = 10.0 + (2.0 / epsilon) * (
        5.0 - math.log(beta) + float(log_bad(epsilon, reserved, 0.0, outcomes))
    )
    longest = math.ceil(_LONGEST * max(10.0, decisive))
    best: VotePlan | None = None
    bad_coins = 1.0
    for seeds in itertools.count(1):
        # Stop where more seeds gain almost nothing, or where they cost more than ``beta`` allows.
        if bad_coins < beta / 1000.0 or seeds * failure / (1.0 - coins.eta) >= beta:
            break
        bad_coins = coins.nu**seeds
        if bad_coins >= beta:
            continue
        room, most = (beta - bad_coins) * (1.0 - 1e-12), longest
        if below < math.inf:
            # This rules out most numbers of seeds with one sum. An improvement has at most ``most`` parts. If
            # even these are not enough, this number of seeds is no improvement. With still more seeds there
            # are fewer parts and no more room than β.
            most = math.ceil(below / seeds) - 1
            missed = vote.missed(seeds, most)[0] if most > 0 else 1.0
            if missed >= beta:
                break
            if missed >= room:
                continue
        parts = vote.fewest_parts(seeds, room, most)
        if parts is not None:
            missed, wrong = vote.missed(seeds, parts)
            best = VotePlan(seeds, parts, reserved, wrong, rounding.probability(bad_coins + missed))
            below = best.runs
    if best is None:
        expected = f"so small that {beta:g} can be reached: with s seeds it costs about s·failure/(1 − eta)"
        raise InvalidArgument("failure", expected, failure, of=of, reference=by)
    return best


@dataclass(frozen=True)
class _Vote:
    """What decides how often a vote is lost, besides the numbers of seeds and parts."""

    eta: float
    epsilon: float
    reserved: float | None
    outcomes: int | None
    failure: float

    def fewest_parts(self, seeds: int, room: float, most: int) -> int | None:
        """The fewest parts, at most ``most``, for which what is missed fits into ``room``."""
        return search.least_whole(lambda parts: self.missed(seeds, parts)[0] < room, most=most)

    def missed(self, seeds: int, parts: int) -> tuple[float, int]:
        """How often good coins are outvoted or wrong, at most, and the ``wrong`` that gives this bound."""
        # Every number of wrong outputs gives a valid bound, so a few are tried.
        wrong = np.array([1])
        if self.failure > 0.0:
            wrong = np.unique(np.linspace(1, parts, _CHOICES).astype(int))
        bad = log_bad(self.epsilon, self.reserved, wrong - 1.0, self.outcomes)[:, None]

        def loss(votes: Floats) -> Floats:
            return np.where(votes < wrong[:, None], 1.0, lost(self.epsilon, self.reserved, votes, bad))

        total = mean_of_votes(parts, 1.0 - self.eta, loss) + self.failure * seeds * parts / wrong
        place = int(np.argmin(total))
        if seeds > 1 or self.failure == 0.0:
            return float(total[place]), int(wrong[place])

        def loss_to_rest(votes: Floats) -> Floats:
            bad = log_bad(self.epsilon, self.reserved, parts - votes, self.outcomes)
            return np.asarray(lost(self.epsilon, self.reserved, votes, bad))

        rest = float(mean_of_votes(parts, 1.0 - self.eta, loss_to_rest)) + self.failure / (1.0 - self.eta)
        return (rest, 0) if rest < total[place] else (float(total[place]), int(wrong[place]))


_COIN_CHOICES = 12


class _Plan(Protocol):
    @property
    def runs(self) -> int: ...


class _Seeds(Protocol):
    @property
    def seeds(self) -> int: ...
    @property
    def parts(self) -> int: ...


P = TypeVar("P", bound=_Plan)


def run_seeds(
    algorithm: Algorithm, plan: _Seeds, rows: Any, tape: Tape, workers: Workers, progress: Progress
) -> list[Any]:
    """What the algorithm gives on fresh parts of the rows, seed after seed, all parts of a seed with its
    coins."""
    coins = [tape.branch(f"seed {number}") for number in range(plan.seeds)]
    parts = cut(rows, plan.seeds * plan.parts, algorithm.rows_needed)
    jobs = [(part, coins[number // plan.parts]) for number, part in enumerate(parts)]
    return run_all(algorithm, jobs, workers=workers, progress=progress, label="runs")


def cheapest(
    notion: Any,
    plan: Callable[[GoodCoins, float], P],
    shares: Iterable[float] | None = None,
    *,
    of: str,
    by: str,
    below: float = math.inf,
) -> P:
    """The plan with the fewest runs over the good coins that ``notion`` gives.

    ``plan(coins, below)`` may refuse where it has no fewer runs than ``below``. Replicability ρ gives good
    coins (η, ν) for every ν; η < ½ needs ν > 2ρ. Every ν is valid, so the search, over ``shares`` or in two
    passes over a grid, can only lose rows.
    """
    if isinstance(notion, GoodCoins):
        return plan(notion, below)
    if notion.rho == 0.0:
        return plan(GoodCoins(0.0, 0.0), below)
    if not notion.rho < 0.49:
        raise InvalidArgument("rho", "below 0.49, so that coins can be good", notion.rho, of=of, reference=by)
    better: list[tuple[P, float]] = []
    refusals: list[InvalidArgument] = []

    def scan(shares: Iterable[float]) -> None:
        for nu in shares:
            fewest = better[-1][0].runs if better else below
            if 2.0 * notion.rho < nu < 1.0:
                try:
                    candidate = plan(notion.good_coins(float(nu)), fewest)
                except InvalidArgument as refused:
                    refusals.append(refused)
                else:
                    better.extend([(candidate, float(nu))] if candidate.runs < fewest else [])

    grid = np.geomspace(2.02 * notion.rho, 0.99, _COIN_CHOICES)
    scan(grid if shares is None else shares)
    if not better:
        unlucky = InvalidArgument("rho", "so small that coins can be good", notion.rho, of=of, reference=by)
        raise refusals[-1] if refusals else unlucky
    if shares is None:
        place = int(np.argmin(np.abs(grid - better[-1][1])))
        scan(np.geomspace(grid[max(place - 1, 0)], grid[min(place + 1, _COIN_CHOICES - 1)], _COIN_CHOICES))
    return better[-1][0]


def budget_argument(
    epsilon: float, delta: float, beta: float, *, of: str, by: str
) -> tuple[float, float, float]:
    """Check the three numbers that a private vote is asked for."""
    return (
        checks.real(epsilon, "epsilon", "[1e-6, 1e6]", of=of, by=by),
        checks.real(delta, "delta", "[0, 1)", of=of, by=by),
        checks.real(beta, "beta", "(0, 1)", of=of, by=by),
    )


def cheapest_vote(
    notion: Notion,
    *,
    epsilon: float,
    delta: float,
    outcomes: tuple[Any, ...] | None,
    beta: float,
    failure: float,
    of: str,
    by: str,
    below: float = math.inf,
) -> VotePlan:
    """The vote with the fewest runs, fewer than ``below``.

    It is among the listed outcomes, or, if δ > 0, among whatever occurs.
    """
    if outcomes is None and delta == 0.0:
        expected = "above 0 for an algorithm that does not list its outcomes"
        raise InvalidArgument("delta", expected, delta, of=of, reference=by)
    listed = None if outcomes is None else len(outcomes)
    ways = ([0.0] if outcomes is not None else []) + ([delta] if delta > 0.0 else [])
    plans: list[VotePlan] = []
    refusals: list[InvalidArgument] = []
    # If two votes need equally many runs, the first is taken: it is purely private.
    for spent in ways:

        def plan_for(coins: GoodCoins, below: float, spent: float = spent) -> VotePlan:
            budget: dict[str, Any] = {"epsilon": epsilon, "delta": spent, "beta": beta, "failure": failure}
            return vote_plan(coins, **budget, outcomes=listed, of=of, by=by, below=below)

        try:
            plans.append(cheapest(notion, plan_for, of=of, by=by, below=plans[-1].runs if plans else below))
        except InvalidArgument as refused:
            refusals.append(refused)
    if not plans:
        raise refusals[-1]
    return plans[-1]


def voted(
    algorithm: Algorithm,
    plan: VotePlan,
    *,
    epsilon: float,
    delta: float,
    theorem: str,
    simulation: bool,
    workers: Workers,
    progress: Progress,
    conditions: tuple[str, ...] = (),
    parameters: Mapping[str, Any] = MappingProxyType({}),
) -> Algorithm:
    """The private algorithm that runs this one as the plan says, and then votes."""
    outcomes = algorithm.outcomes
    listed = outcomes if plan.reserve is None else None

    def run(rows: Any, tape: Tape) -> Any:
        ballots = [(vote,) for vote in run_seeds(algorithm, plan, rows, tape, workers, progress)]
        seed = noise_seed(tape) if simulation else None
        return elect(ballots, epsilon, reserve=plan.reserve or 0.0, outcomes=listed, seed=seed)

    silent = () if listed is not None or outcomes is None or None in outcomes else (None,)
    return algorithm.compiled(
        run,
        guarantee=DP(epsilon, 0.0 if plan.reserve is None else delta),
        failure=plan.failure,
        theorem=theorem,
        kind=EFFICIENT,
        conditions=(
            "independent rows from one distribution, for the failure probability",
            *conditions,
            *((SIMULATED,) if simulation else ()),
        ),
        parameters={
            "seeds": plan.seeds,
            "parts": plan.parts,
            **({} if plan.reserve is None else {"reserve": plan.reserve}),
            **parameters,
            "failure": plan.failure,
        },
        rows_needed=plan.runs * algorithm.rows_needed,
        outcomes=None if outcomes is None else (*outcomes, *silent),
    )
