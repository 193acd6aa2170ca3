"""From replicable to perfectly generalising: a vote, or the best of several coins (SIS algorithm 3)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast import checks
from holdfast.mechanisms import exponential
from holdfast.reductions._algorithm import Algorithm, algorithm_argument
from holdfast.reductions._coins import run_seeds
from holdfast.reductions._parts import Progress, Workers, effort
from holdfast.reductions._perfect_plan import METHODS, PerfectVote, cheapest_perfect
from holdfast.reductions._simulated import SIMULATED, noise_seed, simulation_argument
from holdfast.reductions._vote import elect
from holdfast.replicable._tape import Tape
from holdfast.stability import EFFICIENT, PerfectPlan

__all__ = ["replicable_to_perfect"]


def replicable_to_perfect(
    algorithm: Algorithm,
    *,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    method: str = "cheapest",
    simulation: bool = False,
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """A perfectly generalising algorithm for the same task, from runs on disjoint parts with few coins.

    ``method="seeds"``: each coin's most frequent outcome stands, and one is chosen by the exponential
    mechanism (SIS Algorithm 3). ``"vote"``, for listed outcomes: all runs vote, with weights so small that
    the sampling of the parts hardly moves the result. ``"cheapest"`` takes the one with fewer runs.

    Guarantee: "seeds": (2δ, ε, 2δ)-sample perfectly generalising; "vote": (2δ, ε, 0), whatever the algorithm
    and for any tape, and ``failure`` ≤ ``beta``. ``guarantee.two_way()`` gives the form with a simulator.
    Wrong with probability at most ``failure``.
    Assumes: independent rows from one distribution and, but for the stability of "vote", the declared
    replicability; for "seeds" a tape that was drawn without a look at the data (not checkable): the coins are
    part of the algorithm's randomness. With ``simulation=True`` the mechanism's coins are the tape's too.
    Reference: SIS Theorem 3.19 and Algorithm 3, with the constants of ``stability.perfect_plan``; "vote":
    Holdfast.

    >>> from holdfast.stability import GoodCoins
    >>> constant = Algorithm(lambda rows, tape: 7, rows_needed=1, guarantee=GoodCoins(0.0, 0.0))
    >>> perfect = replicable_to_perfect(constant, epsilon=4.0, delta=0.2)
    >>> perfect.guarantee, perfect(range(perfect.rows_needed))
    (PerfectGeneralization(beta=0.4, epsilon=4, delta=0.4, kind='sample'), 7)
    """
    of, by = "replicable_to_perfect", "SIS Theorem 3.19"
    algorithm = algorithm_argument(algorithm, ("replicable", "good-coins"), of=of, by=by)
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=by)
    checks.choice(method, "method", METHODS, of=of)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)
    plan = cheapest_perfect(
        algorithm.guarantee,
        algorithm.outcomes,
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        failure=algorithm.failure,
        method=method,
        of=of,
        by=by,
    )
    simulated = (SIMULATED,) if simulation else ()
    if isinstance(plan, PerfectVote):
        return _voting(algorithm, plan, simulated, workers, progress)
    return _choosing(algorithm, plan, simulated, workers, progress)


def _voting(
    algorithm: Algorithm, plan: PerfectVote, simulated: tuple[str, ...], workers: Workers, progress: Progress
) -> Algorithm:
    """All runs vote for listed outcomes."""

    def run(rows: Any, tape: Tape) -> Any:
        ballots = [(vote,) for vote in run_seeds(algorithm, plan.vote, rows, tape, workers, progress)]
        seed = noise_seed(tape) if simulated else None
        return elect(ballots, plan.weight_epsilon, reserve=0.0, outcomes=algorithm.outcomes, seed=seed)

    return algorithm.compiled(
        run,
        guarantee=plan.guarantee,
        failure=plan.failure,
        theorem="SIS Theorem 3.19; Holdfast, a vote that generalises",
        kind=EFFICIENT,
        conditions=("independent rows from one distribution", *simulated),
        parameters={
            "seeds": plan.vote.seeds,
            "parts": plan.vote.parts,
            "weight epsilon": plan.weight_epsilon,
            "failure": plan.failure,
        },
        rows_needed=plan.runs * algorithm.rows_needed,
        outcomes=algorithm.outcomes,
    )


def _choosing(
    algorithm: Algorithm, plan: PerfectPlan, simulated: tuple[str, ...], workers: Workers, progress: Progress
) -> Algorithm:
    """Each coin's most frequent outcome stands, and one is chosen (SIS Algorithm 3)."""

    def run(rows: Any, tape: Tape) -> Any:
        outputs = run_seeds(algorithm, plan, rows, tape, workers, progress)
        candidates = [
            Counter(outputs[begin : begin + plan.parts]).most_common(1)[0]
            for begin in range(0, plan.runs, plan.parts)
        ]
        chosen = exponential(
            [float(votes) for _, votes in candidates],
            plan.epsilon,
            plan.sensitivity,
            simulation=bool(simulated),
            seed=noise_seed(tape) if simulated else None,
        )
        return candidates[chosen][0]

    return algorithm.compiled(
        run,
        guarantee=plan.guarantee,
        failure=plan.failure,
        theorem="SIS Theorem 3.19, Algorithm 3",
        kind=EFFICIENT,
        conditions=(
            "independent rows from one distribution",
            "coins drawn without a look at the data",
            *simulated,
        ),
        parameters={
            "seeds": plan.seeds,
            "parts": plan.parts,
            "deviation": plan.deviation,
            "sensitivity": plan.sensitivity,
            "failure": plan.failure,
        },
        rows_needed=plan.runs * algorithm.rows_needed,
        outcomes=algorithm.outcomes,
    )
