"""From some replicability to as much as wanted (SIS lemma 2.13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast import checks
from holdfast.reductions._algorithm import Algorithm, algorithm_argument
from holdfast.reductions._parts import Progress, Workers, cut, effort, run_all
from holdfast.replicable._amplify import amplify
from holdfast.replicable._tape import Tape
from holdfast.stability import EFFICIENT, GoodCoins, Replicability

__all__ = ["amplify_replicability"]


def amplify_replicability(
    algorithm: Algorithm, *, rho: float, workers: Workers = 1, progress: Progress = False
) -> Algorithm:
    """The same task with a smaller ρ: what nearly all of many runs with the same coins agree on.

    Guarantee: ``rho``-replicable, and wrong with probability at most ``failure``; the outcome does not depend
    on ``workers``.
    Assumes: independent rows from one distribution and the declared replicability (not checkable).
    Reference: SIS Lemma 2.13, with the constants of ``replicable.amplify``.

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
            # The parts are asked for in order, all of them for one tape before any for another: the first
            # question is the time to run them all, in parallel.
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
