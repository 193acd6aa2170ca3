"""Private algorithms by a vote: from replicable to private (SIS algorithm 1), and from privacy of a row to
privacy of a user with many rows (SIS theorem 6.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast import checks
from holdfast.errors import InvalidArgument
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
from holdfast.reductions._mismatch import steadiest
from holdfast.reductions._replicable import AVERAGED, sampled
from holdfast.reductions._vote import budget_argument, cheapest, cheapest_vote, run_seeds, voted
from holdfast.replicable import Tape
from holdfast.stability import DP, EFFICIENT, GoodCoins, private_plan

__all__ = ["item_to_user_level", "replicable_to_dp"]

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
    # The plan is for a slightly smaller δ. Its threshold leaves room for the grid of the noise.
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


def item_to_user_level(
    algorithm: Algorithm,
    *,
    rows_a_user: int,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    simulation: bool = False,
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """An algorithm that is private for users, however many rows they hold, from one private for single rows.

    Its rows are users: ``rows_needed`` blocks of at least ``rows_a_user`` rows each. Each user samples from
    the law of the output on their own rows, with coins that all users share. The law is averaged over as many
    disjoint parts as the user has, or over random subsets where these agree more. The outcomes are put to a
    private vote. A replicable algorithm is accepted too: each user runs it. If ``delta`` > 0 the outcome can
    be None: too few users agreed.

    Guarantee: (ε, δ)-DP when all rows of one user are replaced, for any rows and any tape, even a public one;
    δ = 0 is possible where outcomes are listed, and taken where it needs no more users. Wrong or None with
    probability at most ``failure`` ≤ ``beta``. A user with too few rows has no vote.
    Assumes: for the failure, independent rows from one distribution, the same for all users, and the declared
    guarantee (not checkable); privacy assumes only that ``run`` or ``probabilities`` raise nothing. The noise
    is the operating system's; with ``simulation=True`` it is the tape's, and protects nothing.
    Reference: SIS Theorem 6.1; one seed for each user, the vote and the constants: Holdfast.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        epsilon: The ε that the result must keep.
        workers: How many processes share the runs (see :mod:`holdfast.workers`).
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.

    >>> response = Algorithm(lambda rows, tape: 0, rows_needed=1, guarantee=DP(1.0), outcomes=(0, 1),
    ...     probabilities=lambda rows: [0.7310585786300049, 0.2689414213699951])
    >>> users = item_to_user_level(response, rows_a_user=100, epsilon=1.0)
    >>> users.guarantee, users.rows_needed
    (DP(epsilon=1, delta=0), 18)
    """
    of, by = "item_to_user_level", "SIS Theorem 6.1"
    algorithm = algorithm_argument(algorithm, ("dp", "replicable", "good-coins"), of=of, by=by)
    size = checks.whole(rows_a_user, "rows_a_user", of=of, by=by)
    epsilon, delta, beta = budget_argument(epsilon, delta, beta, of=of, by=by)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)
    steady = _steady(algorithm, size, of, by)

    def vote(users: Any, tape: Tape) -> Any:
        user = users[0]
        return steady(user, tape) if len(user) >= steady.rows_needed else None

    plan = cheapest_vote(
        steady.guarantee,
        epsilon=epsilon,
        delta=delta,
        outcomes=steady.outcomes,
        beta=beta,
        failure=steady.failure,
        of=of,
        by=by,
    )
    return voted(
        replace(steady, run=vote, rows_needed=1, probabilities=None, law_error=0.0, discretise=None),
        plan,
        epsilon=epsilon,
        delta=delta,
        theorem="SIS Theorem 6.1; Holdfast, private vote",
        conditions=(f"every row of the result is one user, who holds at least {steady.rows_needed:,} rows",),
        parameters={"rows a user": steady.rows_needed},
        simulation=simulation,
        workers=workers,
        progress=progress,
    )


def _steady(algorithm: Algorithm, size: int, of: str, by: str) -> Algorithm:
    """What one user runs on ``size`` rows: the most replicable form that they allow."""
    if size < algorithm.rows_needed:
        expected = f"at least {algorithm.rows_needed:,}, the rows of the algorithm"
        raise InvalidArgument("rows_a_user", expected, size, of=of, reference=by)
    if not isinstance(algorithm.guarantee, DP):
        return algorithm
    plan = steadiest(algorithm, size // algorithm.rows_needed, of=of)
    if not plan.rho < 0.49:
        expected = f"so many that two users agree more often than not (here ρ is {plan.rho:.2g})"
        raise InvalidArgument("rows_a_user", expected, size, of=of, reference=by)
    return sampled(algorithm, plan, theorem=AVERAGED)
