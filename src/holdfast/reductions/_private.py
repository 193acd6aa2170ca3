"""From replicable to private: many runs with few coins, then a private vote (SIS algorithm 1)."""

from __future__ import annotations

from typing import Any

from holdfast.mechanisms import select_mode
from holdfast.reductions._algorithm import (
    SIMULATED,
    Algorithm,
    Progress,
    Workers,
    algorithm_argument,
    effort,
    noise_seed,
    simulation_argument,
)
from holdfast.reductions._vote import budget_argument, cheapest, cheapest_vote, run_seeds, voted
from holdfast.replicable import Tape
from holdfast.stability import DP, EFFICIENT, GoodCoins, private_plan

__all__ = ["replicable_to_dp"]

# Noise on a grid makes the threshold of the selection larger than A by less than this, in counts.
_GRID_SLACK = 2.0**-18


def replicable_to_dp(
    algorithm: Algorithm,
    *,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    simulation: bool = False,
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """A private algorithm for the same task: the outcome that most runs on disjoint parts agree on.

    ``workers`` and ``progress`` are for the run: threads (or an executor), and a bar or a function of (done,
    total). The outcome does not depend on them. None as outcome means that no outcome was frequent enough.
    With δ = 0, for which the algorithm must list its outcomes, one of these is chosen by the exponential
    mechanism on the votes, and it is never None.

    Guarantee: (ε, δ)-DP when one row is replaced, for any rows and any tape, even a public one. Wrong or None
    with probability at most ``failure`` ≤ ``beta``, over rows, tape and noise.
    Assumes: for the failure, independent rows from one distribution and the declared replicability (not
    checkable); privacy assumes only that ``run`` looks at its own part and raises nothing. The noise is the
    operating system's; with ``simulation=True`` it is the tape's, and protects nothing.
    Reference: SIS Theorem 3.1 and Algorithm 1, with the constants of ``stability.private_plan``; δ = 0:
    Holdfast, private vote.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        epsilon: The ε that the result must keep.
        delta: The δ that the result must keep.

    >>> from holdfast.stability import Replicability
    >>> constant = Algorithm(lambda rows, tape: 7, rows_needed=10, guarantee=Replicability(0.01))
    >>> private = replicable_to_dp(constant, epsilon=1.0, delta=1e-6)
    >>> private.rows_needed, private(range(private.rows_needed))
    (710, 7)
    """
    of, by = "replicable_to_dp", "SIS Theorem 3.1"
    algorithm = algorithm_argument(algorithm, ("replicable", "good-coins"), of=of, by=by)
    epsilon, delta, beta = budget_argument(epsilon, delta, beta, of=of, by=by)
    guarantee = DP(epsilon, delta)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)
    if delta == 0.0:
        budget: dict[str, Any] = {"epsilon": epsilon, "delta": 0.0}
        vote = cheapest_vote(
            algorithm.guarantee,
            **budget,
            outcomes=algorithm.outcomes,
            beta=beta,
            failure=algorithm.failure,
            of=of,
            by=by,
        )
        return voted(
            algorithm,
            vote,
            **budget,
            theorem="SIS Theorem 3.1; Holdfast, private vote",
            simulation=simulation,
            workers=workers,
            progress=progress,
        )
    # The plan is for a δ that is smaller by a hair, whose threshold leaves room for the grid of the noise.
    planned = guarantee.delta * (1.0 - min(0.5, guarantee.epsilon * _GRID_SLACK))

    def plan_for(coins: GoodCoins, below: float) -> Any:
        return private_plan(guarantee.epsilon, planned, coins=coins, beta=beta, failure=algorithm.failure)

    plan = cheapest(algorithm.guarantee, plan_for, of=of, by=by)

    def run(rows: Any, tape: Tape) -> Any:
        votes = run_seeds(algorithm, plan, rows, tape, workers, progress)
        seed = noise_seed(tape) if simulation else None
        # A vote may itself be None, which the selection keeps for "nothing".
        chosen = select_mode(
            [(vote,) for vote in votes],
            guarantee.epsilon,
            guarantee.delta,
            simulation=simulation,
            seed=seed,
        )
        return None if chosen is None else chosen[0]

    return algorithm.compiled(
        run,
        guarantee=guarantee,
        failure=plan.failure,
        theorem="SIS Theorem 3.1, Algorithm 1",
        kind=EFFICIENT,
        conditions=(
            "independent rows from one distribution, for the failure probability",
            *((SIMULATED,) if simulation else ()),
        ),
        parameters={
            "seeds": plan.seeds,
            "parts": plan.parts,
            "threshold": plan.threshold,
            "votes": plan.votes,
            "failure": plan.failure,
        },
        rows_needed=plan.runs * algorithm.rows_needed,
        outcomes=_or_nothing(algorithm.outcomes),
    )


def _or_nothing(outcomes: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    return outcomes if outcomes is None or None in outcomes else (*outcomes, None)
