"""The cheapest way from replicable to perfectly generalising: a vote, or one of several coins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import rounding
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.reductions._ballot import cheapest_vote
from holdfast.reductions._coins import cheapest
from holdfast.reductions._vote import VotePlan
from holdfast.stability import GoodCoins, Notion, PerfectGeneralization, PerfectPlan, perfect_plan

__all__ = ["METHODS", "PerfectVote", "cheapest_perfect"]

METHODS = ("cheapest", "seeds", "vote")
_MOST_SEEDS = 200
_MOST_RUNS = 2**50
# An iteration that saves less than this share of the runs is the last one.
_ALMOST = 0.97
# Room for the rounding of bounds to the safe side.
_HAIR = 1.0 - 1e-9


@dataclass(frozen=True, repr=False)
class PerfectVote(Record):
    """A vote of ``vote.runs`` runs on listed outcomes, whose weights are exp(``weight_epsilon``·votes/2).

    Guarantee: (2 delta, epsilon, 0)-sample perfectly generalising whatever the algorithm, and wrong with
    probability at most ``failure``.
    Assumes: independent rows; for the failure, the declared replicability.
    Reference: Holdfast, a vote that generalises.
    """

    epsilon: float
    delta: float
    weight_epsilon: float
    vote: VotePlan

    @property
    def runs(self) -> int:
        """Runs of the algorithm, each on fresh rows."""
        return self.vote.runs

    @property
    def failure(self) -> float:
        """How often the outcome is wrong, at most."""
        return self.vote.failure

    @property
    def guarantee(self) -> PerfectGeneralization:
        """What the compiled algorithm satisfies."""
        return PerfectGeneralization(rounding.probability(2.0 * self.delta), self.epsilon, 0.0, kind="sample")


def cheapest_perfect(
    notion: Notion,
    outcomes: tuple[Any, ...] | None,
    *,
    epsilon: float,
    delta: float,
    beta: float,
    failure: float,
    method: str,
    of: str,
    by: str,
    below: float = math.inf,
) -> PerfectPlan | PerfectVote:
    """The plan with the fewest runs, fewer than ``below`` where it can be, by the named method."""
    plans: list[PerfectPlan | PerfectVote] = []
    refusals: list[InvalidArgument] = []
    if method != "vote":
        # With k seeds, the largest ν that k = ⌈2 ln(1/δ)/ln(1/ν)⌉ allows is the best.
        shares = (delta ** (2.0 / seeds) * (1.0 - 1e-12) for seeds in range(1, _MOST_SEEDS))

        def plan_for(coins: GoodCoins, below: float) -> PerfectPlan:
            return perfect_plan(epsilon, delta, coins=coins, failure=failure)

        try:
            plans.append(cheapest(notion, plan_for, shares, of=of, by=by))
        except InvalidArgument as refused:
            refusals.append(refused)
    if method != "seeds" and outcomes is not None:
        fewest = min(below, float(plans[-1].runs)) if plans else below
        try:
            plans.append(_vote(notion, outcomes, epsilon, delta, beta, failure, of, by, fewest))
        except InvalidArgument as refused:
            refusals.append(refused)
    elif method == "vote":
        raise InvalidArgument("outcomes", "listed, for a vote", None, of=of, reference=by)
    if not plans:
        raise refusals[-1]
    return min(plans, key=lambda plan: plan.runs)


def _vote(
    notion: Notion,
    outcomes: tuple[Any, ...],
    epsilon: float,
    delta: float,
    beta: float,
    failure: float,
    of: str,
    by: str,
    below: float,
) -> PerfectVote:
    """A vote that is almost the smallest, by iteration.

    n runs allow weights with ε₀ = ε/√(nL), and these need so many runs. What is needed grows with the root of
    n, so the iteration from above comes near the smallest n in a few steps. Every step is valid.
    """
    nats = math.log(len(outcomes) / delta)
    # θn = ln((k − 1)/β) with θ = ε/(2√(nL)), and half as much again.
    first = 6.0 * nats * (math.log(max(2.0, len(outcomes) - 1.0) / beta) / epsilon) ** 2
    runs = max(1.0, min(math.ceil(first), below - 1.0, _MOST_RUNS))
    while True:
        try:
            plan = _vote_within(notion, outcomes, epsilon, delta, beta, failure, of, by, runs)
            break
        except InvalidArgument:
            if runs >= min(below - 1.0, _MOST_RUNS):
                raise
            runs = min(2.0 * runs, below - 1.0, _MOST_RUNS)
    while plan.runs < _ALMOST * runs:
        runs = float(plan.runs)
        try:
            plan = _vote_within(notion, outcomes, epsilon, delta, beta, failure, of, by, runs)
        except InvalidArgument:
            break
    return plan


def _vote_within(
    notion: Notion,
    outcomes: tuple[Any, ...],
    epsilon: float,
    delta: float,
    beta: float,
    failure: float,
    of: str,
    by: str,
    runs: float,
) -> PerfectVote:
    """The vote with the fewest runs, at most ``runs``, at the weights that so many runs allow."""
    weight = rounding.down(epsilon / math.sqrt(runs * math.log(len(outcomes) / delta))) * _HAIR
    vote = cheapest_vote(
        notion,
        epsilon=weight,
        delta=0.0,
        outcomes=outcomes,
        beta=beta,
        failure=failure,
        of=of,
        by=by,
        below=runs + 1.0,
    )
    return PerfectVote(epsilon, delta, weight, vote)
