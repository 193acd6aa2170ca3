"""From replicable to private by the vote whose weights grow: fewer runs, and no δ for listed outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.reductions._algorithm import Algorithm
from holdfast.reductions._coins import cheapest, run_seeds
from holdfast.reductions._parts import Progress, Workers
from holdfast.reductions._simulated import SIMULATED, noise_seed
from holdfast.reductions._vote import VotePlan, elect, vote_plan
from holdfast.replicable._tape import Tape
from holdfast.stability import DP, EFFICIENT, GoodCoins, Notion

__all__ = ["budget_argument", "cheapest_vote", "voted"]


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
    # Of two votes with as many runs, the first, which is purely private.
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
