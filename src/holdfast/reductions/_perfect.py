"""From replicable to perfectly generalising: the best candidate of several coins (SIS algorithm 3)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast import checks
from holdfast.mechanisms import exponential
from holdfast.reductions._algorithm import Algorithm, algorithm_argument
from holdfast.reductions._coins import cheapest, run_seeds
from holdfast.reductions._parts import Progress, Workers, effort
from holdfast.reductions._simulated import SIMULATED, noise_seed, simulation_argument
from holdfast.replicable._tape import Tape
from holdfast.stability import EFFICIENT, GoodCoins, perfect_plan

__all__ = ["replicable_to_perfect"]

_MOST_SEEDS = 200


def replicable_to_perfect(
    algorithm: Algorithm,
    *,
    epsilon: float,
    delta: float,
    simulation: bool = False,
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """A perfectly generalising algorithm for the same task: each coin's most frequent outcome stands, one is
    chosen by the exponential mechanism.

    Guarantee: (2δ, ε, 2δ)-sample perfectly generalising (``guarantee.two_way()`` gives the form with a
    simulator), and wrong with probability at most ``failure``.
    Assumes: independent rows from one distribution, the declared replicability, and a tape that was drawn
    without a look at the data (not checkable): the coins are part of the algorithm's randomness. With
    ``simulation=True`` the exponential mechanism's coins are the tape's too.
    Reference: SIS Theorem 3.19 and Algorithm 3, with the corrected constants of ``stability.perfect_plan``.

    >>> constant = Algorithm(lambda rows, tape: 7, rows_needed=1, guarantee=GoodCoins(0.0, 0.0))
    >>> perfect = replicable_to_perfect(constant, epsilon=4.0, delta=0.2)
    >>> perfect.guarantee, perfect(range(perfect.rows_needed))
    (PerfectGeneralization(beta=0.4, epsilon=4, delta=0.4, kind='sample'), 7)
    """
    of, by = "replicable_to_perfect", "SIS Theorem 3.19"
    algorithm = algorithm_argument(algorithm, ("replicable", "good-coins"), of=of, by=by)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)

    def plan_for(coins: GoodCoins, below: float) -> Any:
        return perfect_plan(epsilon, delta, coins=coins, failure=algorithm.failure)

    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    # With k seeds, the largest ν that k = ⌈2 ln(1/δ)/ln(1/ν)⌉ allows is the best.
    shares = (delta ** (2.0 / seeds) * (1.0 - 1e-12) for seeds in range(1, _MOST_SEEDS))
    plan = cheapest(algorithm.guarantee, plan_for, shares, of=of, by=by)

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
            simulation=simulation,
            seed=noise_seed(tape) if simulation else None,
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
            *((SIMULATED,) if simulation else ()),
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
