"""From some stability to as much as wanted: δ, replicability and perfect generalisation.

The sources are SIS theorem 6.2, lemma 2.13 and theorem 6.3, the last from one-way to two-way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.reductions._algorithm import (
    Algorithm,
    Progress,
    Workers,
    algorithm_argument,
    cut,
    effort,
    run_all,
    simulation_argument,
)
from holdfast.reductions._mismatch import Sampling, steadiest
from holdfast.reductions._perfect import METHODS, cheapest_perfect, replicable_to_perfect
from holdfast.reductions._replicable import AVERAGED, sampled, with_law_error
from holdfast.reductions._vote import VotePlan, budget_argument, cheapest_vote, voted
from holdfast.replicable import Tape, amplify
from holdfast.stability import (
    EFFICIENT,
    SAME,
    GoodCoins,
    PerfectGeneralization,
    Replicability,
    coin_disagreement,
)
from holdfast.typing import AmplifyMethod

__all__ = [
    "amplify_delta",
    "amplify_generalization",
    "amplify_replicability",
    "averaged_rho",
    "cheapest_parts",
]


_GRID = 24
_WIDEST = 2**12
_MOST_PARTS = 2**60


def amplify_delta(
    algorithm: Algorithm,
    *,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    simulation: bool = False,
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """The same task with any ε and any δ, 0 included, whatever they were: made replicable, then put to vote.

    Guarantee: (ε, δ)-DP when one row is replaced, for any rows and any tape, even a public one; δ = 0 is
    taken where it needs no more rows. Wrong or None with probability at most ``failure`` ≤ ``beta``; None is
    possible only if δ > 0. The number of parts is the one that needs the fewest rows in all.
    Assumes: for the failure, independent rows from one distribution and the declared privacy (not checkable);
    finitely many outcomes; privacy assumes only that ``run`` or ``probabilities`` raise nothing. The noise is
    the operating system's; with ``simulation=True`` it is the tape's, and protects nothing.
    Reference: SIS Theorem 6.2; pure privacy and the constants: Holdfast.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        epsilon: The ε that the result must keep.
        delta: The δ that the result must keep.
        workers: How many processes share the runs (see :mod:`holdfast.workers`).
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.

    >>> from holdfast.stability import DP
    >>> leaky = Algorithm(lambda rows, tape: 0, rows_needed=10, guarantee=DP(0.1, 0.01), outcomes=(0, 1),
    ...     probabilities=lambda rows: [0.9, 0.1])
    >>> tight = amplify_delta(leaky, epsilon=1.0)
    >>> tight.guarantee, tight.rows_needed
    (DP(epsilon=1, delta=0), 3600)
    """
    of, by = "amplify_delta", "SIS Theorem 6.2"
    algorithm = algorithm_argument(algorithm, ("dp",), of=of, by=by)
    epsilon, delta, beta = budget_argument(epsilon, delta, beta, of=of, by=by)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)
    outcomes = algorithm.finite(of=of)
    failure = with_law_error(algorithm)

    def rho_with(parts: int) -> float:
        return steadiest(algorithm, parts, of=of).rho

    def vote_with(parts: int, below: float) -> VotePlan:
        return cheapest_vote(
            Replicability(rho_with(parts)),
            epsilon=epsilon,
            delta=delta,
            outcomes=outcomes,
            beta=beta,
            failure=failure,
            of=of,
            by=by,
            below=below,
        )

    parts, plan = cheapest_parts(rho_with, vote_with, of=of, by=by)
    steady = sampled(algorithm, steadiest(algorithm, parts, of=of), theorem=AVERAGED)
    return voted(
        steady,
        plan,
        epsilon=epsilon,
        delta=delta,
        theorem="SIS Theorem 6.2; Holdfast, private vote",
        simulation=simulation,
        workers=workers,
        progress=progress,
    )


def cheapest_parts(
    rho_with: Callable[[int], float], plan_with: Callable[[int, float], Any], *, of: str, by: str
) -> tuple[int, Any]:
    """How many parts to average over, so that parts × runs are fewest, and the plan.

    ``plan_with(parts, below)`` may refuse where it has no fewer runs than ``below``. More parts cost rows in
    each run and save runs. Every number is valid, so the search, over a grid from the least number that can
    do and once more around the best, can only lose rows.
    """
    first = search.least_whole(lambda count: rho_with(count) < 0.48, most=_MOST_PARTS)
    if first is None:
        expected = "known so well that shared coins can agree more often than not"
        raise InvalidArgument("law_error", expected, rho_with(_MOST_PARTS), of=of, reference=by)
    plans: dict[int, Any] = {}
    tried: set[int] = set()
    refusals: list[InvalidArgument] = []

    def scan(low: float, high: float) -> None:
        for step in range(_GRID + 1):
            parts = round(low * (high / low) ** (step / _GRID))
            # A plan has at least one run: with more parts than this nothing is saved.
            enough = min((held * plan.runs for held, plan in plans.items()), default=math.inf)
            if parts not in tried and parts < enough:
                tried.add(parts)
                try:
                    plans[parts] = plan_with(parts, enough / parts)
                except InvalidArgument as refused:
                    refusals.append(refused)

    scan(first, first * _WIDEST)
    if not plans:
        raise refusals[-1]
    best = min(plans, key=lambda parts: parts * plans[parts].runs)
    width = math.pow(_WIDEST, 1.0 / _GRID)
    scan(max(first, best / width), best * width)
    best = min(plans, key=lambda parts: parts * plans[parts].runs)
    return best, plans[best]


def amplify_replicability(
    algorithm: Algorithm, *, rho: float, workers: Workers = 1, progress: Progress = False
) -> Algorithm:
    """The same task with a smaller ρ: what nearly all of many runs with the same coins agree on.

    Guarantee: ``rho``-replicable, and wrong with probability at most ``failure``; the outcome does not depend
    on ``workers``.
    Assumes: independent rows from one distribution and the declared replicability (not checkable).
    Reference: SIS Lemma 2.13, with the constants of ``replicable.amplify``.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.

    >>> constant = Algorithm(lambda rows, tape: 7, rows_needed=10, guarantee=Replicability(0.1))
    >>> steady = amplify_replicability(constant, rho=0.01)
    >>> steady.guarantee, steady(range(steady.rows_needed))
    (Replicability(rho=0.01), 7)
    """
    of, by = "amplify_replicability", "SIS Lemma 2.13"
    algorithm = algorithm_argument(algorithm, ("replicable", "good-coins"), of=of, by=by)
    rho = checks.real(rho, "rho", "(0, 0.5)", of=of, by=by)
    workers, progress = effort(workers, progress, of=of)
    notion = algorithm.guarantee
    start = notion.replicability() if isinstance(notion, GoodCoins) else notion
    assert isinstance(start, Replicability)
    size = algorithm.rows_needed
    declared: dict[str, Any] = {"rho": start.rho, "target": rho, "rows": size, "beta": algorithm.failure}
    plan = amplify(algorithm, **declared)

    def run(rows: Any, tape: Tape) -> Any:
        parts = cut(rows, plan.runs, size)
        outputs: dict[Tape, Iterator[Any]] = {}

        def next_output(part: Any, coins: Tape) -> Any:
            # ``amplify`` asks for the parts in order, and finishes one tape before the next. So when it asks
            # for the first part of a tape, all parts of that tape are run in parallel.
            if coins not in outputs:
                jobs = [(part, coins) for part in parts]
                outputs[coins] = iter(
                    run_all(algorithm, jobs, workers=workers, progress=progress, label="runs")
                )
            return next(outputs[coins])

        return amplify(next_output, **declared)(rows, tape)

    return algorithm.compiled(
        run,
        guarantee=plan.guarantee,
        failure=plan.failure,
        theorem="SIS Lemma 2.13",
        kind=EFFICIENT,
        conditions=("independent rows from one distribution, the same for both runs", "the same tape"),
        parameters={"runs": plan.runs, "branches": plan.branches, "failure": plan.failure},
        rows_needed=plan.rows_needed,
        outcomes=algorithm.outcomes,
    )


# Room for the rounding of bounds to the safe side.
_HAIR = 1.0 - 1e-12


def amplify_generalization(
    algorithm: Algorithm,
    *,
    epsilon: float,
    delta: float,
    beta: float = 0.05,
    method: AmplifyMethod = "cheapest",
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

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        epsilon: The ε that the result must keep.
        delta: The δ that the result must keep.
        workers: How many processes share the runs (see :mod:`holdfast.workers`).
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.

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

    Guarantee: ρ = 2x/(1 + x) (x for two outcomes), with x = √(min(k·t, k − 1)/(2 parts)) for k outcomes. The
    number t = (1 − β)² d² + 1 − (1 − β)² bounds the mean square of the total variation between two samples,
    where d = e^ε − 1 + 2δ. One sample: ``PerfectGeneralization.replicability`` if that is smaller. A
    stated ``law_error`` e adds 2e to x; for laws estimated from runs only x = √((k − 1)/(2 parts)) counts.
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
