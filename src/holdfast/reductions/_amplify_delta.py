"""From a large δ to a small one, or to none (SIS theorem 6.2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.reductions._algorithm import Algorithm, algorithm_argument
from holdfast.reductions._ballot import budget_argument, cheapest_vote, voted
from holdfast.reductions._parts import Progress, Workers, effort
from holdfast.reductions._replicable import AVERAGED, sampled, with_law_error
from holdfast.reductions._simulated import simulation_argument
from holdfast.reductions._steady import steadiest
from holdfast.reductions._vote import VotePlan, fewest
from holdfast.stability import Replicability

__all__ = ["amplify_delta", "cheapest_parts"]

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
    first = fewest(lambda count: rho_with(count) < 0.48, _MOST_PARTS)
    if first is None:
        expected = "known so well that shared coins can agree more often than not"
        raise InvalidArgument("law_error", expected, rho_with(_MOST_PARTS), of=of, reference=by)
    found: dict[int, Any] = {}
    tried: set[int] = set()
    refusals: list[InvalidArgument] = []

    def scan(low: float, high: float) -> None:
        for step in range(_GRID + 1):
            parts = round(low * (high / low) ** (step / _GRID))
            # A plan has at least one run: with more parts than this nothing is saved.
            enough = min((held * plan.runs for held, plan in found.items()), default=math.inf)
            if parts not in tried and parts < enough:
                tried.add(parts)
                try:
                    found[parts] = plan_with(parts, enough / parts)
                except InvalidArgument as refused:
                    refusals.append(refused)

    scan(first, first * _WIDEST)
    if not found:
        raise refusals[-1]
    best = min(found, key=lambda parts: parts * found[parts].runs)
    width = math.pow(_WIDEST, 1.0 / _GRID)
    scan(max(first, best / width), best * width)
    best = min(found, key=lambda parts: parts * found[parts].runs)
    return best, found[best]
