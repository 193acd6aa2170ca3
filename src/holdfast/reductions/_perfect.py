"""From replicable to perfectly generalising: a vote, or the best of several coins (SIS algorithm 3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import exponential
from holdfast.records import Record
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
from holdfast.reductions._vote import VotePlan, cheapest, cheapest_vote, elect, run_seeds
from holdfast.replicable import Tape
from holdfast.stability import EFFICIENT, GoodCoins, Notion, PerfectGeneralization, PerfectPlan, perfect_plan
from holdfast.typing import AmplifyMethod

__all__ = ["METHODS", "PerfectVote", "cheapest_perfect", "replicable_to_perfect"]


def replicable_to_perfect(
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

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        epsilon: The ε that the result must keep.
        delta: The δ that the result must keep.
        workers: How many processes share the runs (see :mod:`holdfast.workers`).
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.

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
    """The runs vote, and one of the listed outcomes is elected."""

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
    """Each seed proposes its most frequent outcome, and one of these is chosen (SIS Algorithm 3)."""

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
        nats = math.log(len(outcomes) / delta)

        def vote_within(runs: float) -> PerfectVote:
            # n runs allow weights with ε₀ = ε/√(nL).
            weight = rounding.down(epsilon / math.sqrt(runs * nats)) * _HAIR
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

        # θn = ln((k − 1)/β) with θ = ε/(2√(nL)), and half as much again.
        likely = 6.0 * nats * (math.log(max(2.0, len(outcomes) - 1.0) / beta) / epsilon) ** 2
        fewest = min(below, float(plans[-1].runs)) if plans else below
        try:
            plans.append(_smallest_vote(vote_within, math.ceil(likely), min(fewest - 1.0, _MOST_RUNS)))
        except InvalidArgument as refused:
            refusals.append(refused)
    elif method == "vote":
        raise InvalidArgument("outcomes", "listed, for a vote", None, of=of, reference=by)
    if not plans:
        raise refusals[-1]
    return min(plans, key=lambda plan: plan.runs)


def _smallest_vote(vote_within: Callable[[float], PerfectVote], likely: float, most: float) -> PerfectVote:
    """A vote of at most ``most`` runs that is almost the smallest, by iteration from a ``likely`` size.

    ``vote_within(runs)`` is the vote with the fewest runs at the weights that so many runs allow. What is
    needed at these weights grows with the root of their number, so the iteration from above comes near the
    smallest one in a few steps. Every step is valid.
    """
    runs = max(1.0, min(likely, most))
    while True:
        try:
            plan = vote_within(runs)
            break
        except InvalidArgument:
            if runs >= most:
                raise
            runs = min(2.0 * runs, most)
    while plan.runs < _ALMOST * runs:
        runs = float(plan.runs)
        try:
            plan = vote_within(runs)
        except InvalidArgument:
            break
    return plan
