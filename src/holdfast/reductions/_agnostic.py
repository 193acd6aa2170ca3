"""From private learning with a perfect hypothesis to private learning without one (SIS theorem 6.5).

The plan says how many blocks, parts, strings and labelled rows this takes, with constants.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.reductions._algorithm import (
    SIMULATED,
    Algorithm,
    Floats,
    Progress,
    Workers,
    algorithm_argument,
    cut,
    effort,
    noise_seed,
    run_all,
    simulation_argument,
)
from holdfast.reductions._amplify import cheapest_parts
from holdfast.reductions._mismatch import steadiest
from holdfast.reductions._replicable import AVERAGED, chosen_with, sampled, with_law_error
from holdfast.reductions._vote import (
    budget_argument,
    cheapest,
    elect,
    log_bad,
    lost,
    mean_of_votes,
    reserve,
)
from holdfast.replicable import Tape
from holdfast.stability import DP, EFFICIENT, GoodCoins, Replicability

__all__ = ["AgnosticPlan", "agnostic_plan", "labelled_rows", "private_agnostic"]


Labelings = Callable[[Any], Any]
Predict = Callable[[Any, Any], Any]


def private_agnostic(
    algorithm: Algorithm,
    *,
    labelings: Labelings,
    predict: Predict,
    growth: Callable[[int], int],
    accuracy: float,
    learner_accuracy: float,
    epsilon: float,
    delta: float = 0.0,
    beta: float = 0.05,
    simulation: bool = False,
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """A private learner for any labels from one for labels that some hypothesis of the class explains.

    A row is an example: its features, then its label, so rows are a two-dimensional array. The algorithm is a
    private learner whose outcomes are hypotheses of the class. ``labelings(x)`` gives every labelling of the
    rows x by the class, one a line, at most ``growth(len(x))`` of them; ``predict(hypothesis, x)`` labels
    rows. On each of many blocks the learner, made replicable by averages over parts or subsets, is run on all
    labellings with the same coins; hypotheses that do badly on the block's labelled rows are dropped; the
    blocks vote with what they keep.

    Guarantee: (ε, δ)-DP when one row is replaced, for any rows and any tape, even a public one; δ = 0 is
    taken where it needs no more rows. The error exceeds the least of the class by more than ``accuracy``, or
    nothing is returned, with probability at most ``failure`` ≤ ``beta``.
    Assumes: for the failure, independent rows and a good learner (not checkable). On labels of any hypothesis
    of the class, it is wrong on more than a share ``learner_accuracy`` of the rows with probability at most
    its ``failure``. Nothing is assumed about how many hypotheses there are beyond ``growth``. Privacy assumes
    only that the functions raise nothing. The noise is the operating system's; with ``simulation=True`` it is
    the tape's, and protects nothing.
    Reference: SIS Theorem 6.5, Algorithm 12; the vote of lists and the constants: Holdfast.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        epsilon: The ε that the result must keep.
        delta: The δ that the result must keep.
        workers: How many processes share the runs (see :mod:`holdfast.workers`).
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.
    """
    of, by = "private_agnostic", "SIS Theorem 6.5"
    algorithm = algorithm_argument(algorithm, ("dp",), of=of, by=by)
    for name, value in (("labelings", labelings), ("predict", predict), ("growth", growth)):
        if not callable(value):
            raise InvalidArgument(name, "a function", value, of=of, reference=by)
    accuracy = checks.real(accuracy, "accuracy", "(0, 1)", of=of, by=by)
    close = checks.real(learner_accuracy, "learner_accuracy", "[0, 1)", of=of, by=by)
    if not 2.0 * close < accuracy:
        expected = f"less than half of accuracy = {accuracy:g}"
        raise InvalidArgument("learner_accuracy", expected, close, of=of, reference=by)
    epsilon, delta, beta = budget_argument(epsilon, delta, beta, of=of, by=by)
    workers, progress = effort(workers, progress, of=of)
    simulation = simulation_argument(simulation, of=of)
    plan = agnostic_plan(
        algorithm,
        growth,
        room=accuracy - 2.0 * close,
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        of=of,
        by=by,
    )
    steady = sampled(algorithm, steadiest(algorithm, plan.parts, of=of), theorem=AVERAGED)
    listed = algorithm.finite(of=of)

    def run(rows: Any, tape: Tape) -> Any:
        strings = [tape.branch(f"string {number}") for number in range(plan.strings)]
        blocks = cut(np.asarray(rows), plan.blocks, plan.block_rows)
        jobs = [(block, steady, strings, labelings, predict, plan, accuracy / 2.0) for block in blocks]
        ballots = run_all(_kept, jobs, workers=workers, progress=progress, label="blocks")
        seed = noise_seed(tape) if simulation else None
        if plan.reserve is None:
            return elect(ballots, epsilon, outcomes=listed, seed=seed)
        return elect(ballots, epsilon, reserve=plan.reserve, seed=seed)

    return algorithm.compiled(
        run,
        guarantee=DP(epsilon, 0.0 if plan.reserve is None else delta),
        failure=plan.failure,
        theorem="SIS Theorem 6.5, Algorithm 12; Holdfast, private vote",
        kind=EFFICIENT,
        conditions=(
            "independent rows from one distribution, for the failure probability",
            "the best hypothesis of the class, and the learner's outcomes in it",
            *((SIMULATED,) if simulation else ()),
        ),
        parameters={
            "blocks": plan.blocks,
            "learner rows": plan.learner_rows,
            "labelled rows": plan.labelled,
            "strings": plan.strings,
            "list": plan.list_size,
            "rho": plan.rho,
            "failure": plan.failure,
        },
        rows_needed=plan.blocks * plan.block_rows,
        outcomes=listed if plan.reserve is None or None in listed else (*listed, None),
    )


def _kept(
    block: Any,
    steady: Algorithm,
    strings: list[Tape],
    labelings: Labelings,
    predict: Predict,
    plan: AgnosticPlan,
    margin: float,
) -> tuple[Any, ...]:
    """The hypotheses that a block votes for: learned from some labelling, and almost the best on its labels.

    Never more than the plan's list, whatever the data are: the privacy of the vote counts on it.
    """
    x, y = block[:, :-1], block[:, -1]
    unlabelled = x[: plan.learner_rows]
    every = np.asarray(labelings(unlabelled))[: plan.list_size // plan.strings]
    tried = dict.fromkeys(
        hypothesis
        for labels in every
        for hypothesis in chosen_with(steady, np.column_stack((unlabelled, labels)), strings)
    )
    fresh, truth = x[plan.learner_rows :], y[plan.learner_rows :]
    errors = {h: int(np.count_nonzero(np.asarray(predict(h, fresh)) != truth)) for h in tried}
    most = min(errors.values(), default=0) + margin * plan.labelled
    return tuple(hypothesis for hypothesis, count in errors.items() if count <= most)


# The share of blocks whose labelled rows may mislead: each is tried.
_MISLED = (0.01, 0.05)
_STRINGS = (1, 2, 4, 8)
_MOST_BLOCKS = 2**16


@dataclass(frozen=True, repr=False)
class AgnosticPlan(Record):
    """``blocks`` blocks of ``learner_rows`` + ``labelled`` rows, ``strings`` coins, then a vote of lists."""

    blocks: int
    parts: int
    learner_rows: int
    labelled: int
    strings: int
    list_size: int
    rho: float
    reserve: float | None
    failure: float

    @property
    def block_rows(self) -> int:
        """Rows of one block."""
        return self.learner_rows + self.labelled

    @property
    def runs(self) -> int:
        """Rows in all, for each part that the law is averaged over."""
        return -(-self.blocks * self.block_rows // self.parts)


def labelled_rows(list_size: int, misled: float, room: float) -> int:
    """Labelled rows on which a good hypothesis looks good, and no bad one on a list of this size does.

    Guarantee: T = ⌈2(√ln(2/q) + √ln(2L/q))²/room²⌉: with probability 1 − q the error of one hypothesis is
    overestimated by at most √(ln(2/q)/2T), and none of L is underestimated by more than √(ln(2L/q)/2T);
    together these are at most room/2.
    Assumes: independent rows that the hypotheses do not depend on.
    Reference: Hoeffding 1963.
    """
    both = math.sqrt(math.log(2.0 / misled)) + math.sqrt(math.log(2.0 * list_size / misled))
    return math.ceil(rounding.up(2.0 * both * both / (room * room)))


def agnostic_plan(
    algorithm: Algorithm,
    growth: Callable[[int], int],
    *,
    room: float,
    epsilon: float,
    delta: float,
    beta: float,
    of: str,
    by: str,
) -> AgnosticPlan:
    """The plan with the fewest rows that this search finds.

    Guarantee: with good coins (η, ν) of the learner made replicable, g its failure, q the share of misled
    blocks, s strings and t blocks: wrong or silent with probability at most (ν + g/(1 − η))^s + E[lost(t −
    U)], U ~ Bin(t, η + q), against wrong hypotheses with U votes each.
    Assumes: independent rows.
    Reference: SIS Theorem 6.5; the constants: Holdfast.
    """
    outcomes = len(algorithm.finite(of=of))
    failure = with_law_error(algorithm)
    ways = (0.0, delta) if delta > 0.0 else (0.0,)

    def plan_with(parts: int, below: float) -> AgnosticPlan:
        rho = steadiest(algorithm, parts, of=of).rho
        size = parts * algorithm.rows_needed
        most = checks.whole(growth(size), "growth", of=of, by=by)

        def plan_for(coins: GoodCoins, below: float) -> AgnosticPlan:
            best: AgnosticPlan | None = None
            for strings, misled, spent in itertools.product(_STRINGS, _MISLED, ways):
                plan = blocks_for(coins, strings, misled, spent, below)
                if plan is not None:
                    best, below = plan, plan.runs
            if best is None:
                expected = f"so small that {beta:g} can be reached"
                raise InvalidArgument("failure", expected, algorithm.failure, of=of, reference=by)
            return best

        def blocks_for(
            coins: GoodCoins, strings: int, misled: float, spent: float, below: float
        ) -> AgnosticPlan | None:
            no_good_string = (coins.nu + failure / (1.0 - coins.eta)) ** strings
            unlucky = coins.eta + misled
            if not (no_good_string < beta and unlucky < 0.5):
                return None
            size_of_list = strings * most
            reserved = None if spent == 0.0 else reserve(epsilon, spent, size_of_list)
            wrong = max(1, min(size_of_list, outcomes - 1))
            labelled = labelled_rows(size_of_list, misled, room)

            def missed(blocks: int) -> float:
                def loss(off: Floats) -> Floats:
                    bad = log_bad(epsilon, reserved, off, outcomes, wrong)
                    return np.asarray(lost(epsilon, reserved, blocks - off, bad))

                return float(mean_of_votes(blocks, unlucky, loss))

            def enough(blocks: int) -> bool:
                return missed(blocks) < (beta - no_good_string) * (1.0 - 1e-12)

            # As many blocks as would still be an improvement must be enough: one sum, where most plans end.
            improving = math.ceil(min(below * parts / (size + labelled), _MOST_BLOCKS + 1.0)) - 1
            if improving < 1 or not enough(improving):
                return None
            blocks = search.least_whole(enough, most=improving)
            if blocks is None:
                return None
            return AgnosticPlan(
                blocks=blocks,
                parts=parts,
                learner_rows=size,
                labelled=labelled,
                strings=strings,
                list_size=size_of_list,
                rho=rho,
                reserve=reserved,
                failure=rounding.probability(no_good_string + missed(blocks)),
            )

        return cheapest(Replicability(rho), plan_for, of=of, by=by, below=below)

    _, plan = cheapest_parts(lambda count: steadiest(algorithm, count, of=of).rho, plan_with, of=of, by=by)
    assert isinstance(plan, AgnosticPlan)
    return plan
