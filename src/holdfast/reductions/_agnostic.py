"""From private learning with a perfect hypothesis to private learning without one (SIS theorem 6.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.reductions._agnostic_plan import AgnosticPlan, agnostic_plan
from holdfast.reductions._algorithm import Algorithm, algorithm_argument
from holdfast.reductions._ballot import budget_argument
from holdfast.reductions._parts import Progress, Workers, cut, effort, run_all
from holdfast.reductions._replicable import AVERAGED, chosen_with, sampled
from holdfast.reductions._simulated import SIMULATED, noise_seed, simulation_argument
from holdfast.reductions._steady import steadiest
from holdfast.reductions._vote import elect
from holdfast.replicable._tape import Tape
from holdfast.stability import DP, EFFICIENT

__all__ = ["private_agnostic"]

Labelings = Callable[[Any], Any]
Predict = Callable[[Any, Any], Any]


def private_agnostic(
    algorithm: Algorithm,
    *,
    labelings: Labelings,
    predict: Predict,
    growth: Callable[[int], int],
    accuracy: float,
    learner_accuracy: Any,
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
    Assumes: for the failure, independent rows, and a learner that on labels of any hypothesis of the class is
    wrong on more than a share ``learner_accuracy`` of the rows with probability at most its ``failure`` (not
    checkable). Nothing is assumed about how many hypotheses there are beyond ``growth``. Privacy assumes only
    that the functions raise nothing. The noise is the operating system's; with ``simulation=True`` it is the
    tape's, and protects nothing.
    Reference: SIS Theorem 6.5, Algorithm 12; the vote of lists and the constants: Holdfast.
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
