"""From some perfect generalisation to as much as wanted, one-way to two-way (SIS theorem 6.3)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from holdfast import checks, rounding
from holdfast.reductions._algorithm import Algorithm, algorithm_argument
from holdfast.reductions._amplify_delta import cheapest_parts
from holdfast.reductions._parts import Progress, Workers, effort
from holdfast.reductions._perfect import replicable_to_perfect
from holdfast.reductions._perfect_plan import METHODS, cheapest_perfect
from holdfast.reductions._replicable import sampled, with_law_error
from holdfast.reductions._sampling import Sampling
from holdfast.reductions._simulated import simulation_argument
from holdfast.stability import SAME, PerfectGeneralization, Replicability, coin_disagreement

__all__ = ["amplify_generalization", "averaged_rho"]

# Room for the rounding of bounds to the safe side.
_HAIR = 1.0 - 1e-12


def amplify_generalization(
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
    """The same task, perfectly generalising with any ε and δ and in both directions, from one direction.

    The law of the output, averaged over as many samples as make the whole cheapest, is sampled with shared
    coins; many such runs vote, or one of several coins is chosen: ``method`` as in ``replicable_to_perfect``.

    Guarantee: (δ, ε, δ)-perfectly generalising with a simulator ("two-way"), and wrong with probability at
    most ``failure``, which is at most ``beta`` by the vote.
    Assumes: kind "one-way" or "two-way", however weak; finitely many outcomes; independent rows from one
    distribution, and a tape that was drawn without a look at the data (not checkable). With
    ``simulation=True`` the exponential mechanism's coins are the tape's too.
    Reference: SIS Theorem 6.3; averages, the split of δ and the constants: Holdfast.

    >>> known = Algorithm(lambda rows, tape: 0, rows_needed=5, outcomes=(0, 1),
    ...     probabilities=lambda rows: [1, 0],
    ...     guarantee=PerfectGeneralization(0.01, 0.02, 0.001, kind="one-way"))
    >>> perfect = amplify_generalization(known, epsilon=4.0, delta=0.3)
    >>> perfect.guarantee
    PerfectGeneralization(beta=0.3, epsilon=4, delta=0.3, kind='two-way')
    """
    of, by = "amplify_generalization", "SIS Theorem 6.3"
    algorithm = algorithm_argument(algorithm, ("one-way", "perfect-generalization"), of=of, by=by)
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=by)
    checks.choice(method, "method", METHODS, of=of)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)
    outcomes = algorithm.finite(of=of)
    # Sample form (2a, ε, 2a) gives (2a/d, ε, 2a + d): both are δ at d = δ/(1 + δ) and 2a = δd.
    d = delta / (1.0 + delta) * _HAIR
    spent = delta * d / 2.0 * _HAIR
    failure = with_law_error(algorithm)

    def rho_with(parts: int) -> float:
        return averaged_rho(algorithm, parts, of=of)

    def plan_with(parts: int, below: float) -> Any:
        return cheapest_perfect(
            Replicability(rho_with(parts)),
            outcomes,
            epsilon=epsilon,
            delta=spent,
            beta=beta,
            failure=failure,
            method=method,
            of=of,
            by=by,
            below=below,
        )

    parts, _ = cheapest_parts(rho_with, plan_with, of=of, by=by)
    steady = _averaged(algorithm, parts, of)
    perfect = replicable_to_perfect(
        steady,
        epsilon=epsilon,
        delta=spent,
        beta=beta,
        method=method,
        simulation=simulation,
        workers=workers,
        progress=progress,
    )
    sample = perfect.guarantee
    assert isinstance(sample, PerfectGeneralization)
    reached = sample.two_way(d)
    assert max(reached.beta, reached.delta) <= delta
    return perfect.compiled(
        perfect.run,
        guarantee=replace(reached, beta=delta, delta=delta),
        failure=perfect.failure,
        theorem="SIS Lemma 3.6 and Theorem 6.3",
        kind=SAME,
        conditions=(),
        parameters={"d": d},
        rows_needed=perfect.rows_needed,
        outcomes=perfect.outcomes,
    )


def averaged_rho(algorithm: Algorithm, parts: int, *, of: str) -> float:
    """How often shared coins disagree on the law averaged over ``parts`` samples of a perfectly generalising
    algorithm.

    Guarantee: ρ = 2x/(1 + x) (x for two outcomes), x = √(min(k·t, k − 1)/(2 parts)) for k outcomes, where t =
    (1 − β)² d² + 1 − (1 − β)² bounds the mean square of the total variation between two samples, d = e^ε − 1
    + 2δ. One sample: ``PerfectGeneralization.replicability`` if that is smaller. A stated ``law_error`` e
    adds 2e to x; for laws estimated from runs only x = √((k − 1)/(2 parts)) counts.
    Assumes: independent rows from one distribution; finitely many outcomes.
    Reference: Holdfast; one sample: SIS Theorem 3.17.
    """
    notion, outcomes = algorithm.guarantee, len(algorithm.finite(of=of))
    assert isinstance(notion, PerfectGeneralization)
    good = (1.0 - notion.beta) ** 2
    apart = min(1.0, math.expm1(min(notion.epsilon, 1.0)) + 2.0 * notion.delta)
    square = good * apart * apart + 1.0 - good
    estimated = algorithm.probabilities is None
    spread = outcomes - 1.0 if estimated else min(outcomes * square, outcomes - 1.0)
    distance = rounding.probability(math.sqrt(spread / (2.0 * parts)) + 2.0 * algorithm.law_error)
    rho = coin_disagreement(distance, outcomes)
    if parts == 1:
        rho = min(rho, notion.replicability().rho + 2.0 * coin_disagreement(algorithm.stated_error, None))
    return max(1e-9, rho)


def _averaged(algorithm: Algorithm, parts: int, of: str) -> Algorithm:
    """The replicable algorithm that samples from the average of the laws on ``parts`` samples."""
    plan = Sampling(parts, parts * algorithm.rows_needed, averaged_rho(algorithm, parts, of=of), True)
    return sampled(algorithm, plan, theorem="SIS Theorem 3.17, Algorithm 2; Holdfast, averages")
