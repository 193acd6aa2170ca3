"""Rows that the compilers to perfect generalisation and private agnostic learning need, with a lower bound.

    python benchmarks/compiler_rows.py

"before" is SIS Algorithm 3 with frequencies compared in supremum, "seeds" the same with bounded differences
of the scores, "vote" the vote on listed outcomes. For private agnostic learning and smaller δ "before" is the
average over disjoint parts, "now" over random subsets where these need fewer rows. The proofs are in
docs/theory/reductions-more.md. The result is kept in results/compiler_rows.json.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from machine import keep

from holdfast.errors import InvalidArgument
from holdfast.reductions import (
    Algorithm,
    amplify_delta,
    amplify_generalization,
    private_agnostic,
    replicable_to_perfect,
)
from holdfast.stability import DP, GoodCoins, PerfectGeneralization

COINS = GoodCoins(0.01, 0.01)
BETA = 0.05
OUTCOMES = (2, 20, 1000)
BUDGETS = ((1.0, 0.01), (0.5, 0.01), (0.1, 0.01))
# What ``amplify_generalization`` asked for before, kept from the version without the vote.
AMPLIFIED_BEFORE = {(1.0, 0.1): 4_333_560, (1.0, 0.01): 31_378_125}


def before(epsilon: float, delta: float, coins: GoodCoins) -> int:
    """Runs of Algorithm 3 where the supremum of all frequencies is bounded."""
    nats = -math.log(delta)
    seeds = max(1, math.ceil(2.0 * nats / -math.log(coins.nu)))
    root = 1.0 + math.sqrt((math.log(2.0 * seeds) + 2.0 * nats) / 2.0)
    reach = root * (3.0 + 4.0 * (math.log(seeds) + nats) / epsilon) / (0.5 - coins.eta)
    return seeds * (math.floor(reach * reach) + 1)


def at_least(epsilon: float, delta: float, beta: float) -> int:
    """Runs that every such algorithm needs, for two outcomes."""
    steps = math.log((1.0 - 2.0 * beta) / (2.0 * beta)) / epsilon - 2.0
    if steps <= 0.0:
        return 1
    angle = (math.pi / 2.0) / steps
    if angle >= math.pi / 2.0:
        return 1
    return max(1, math.ceil(math.log1p(-((1.0 - 4.0 * delta) ** 2)) / (2.0 * math.log(math.cos(angle)))))


def now(epsilon: float, delta: float, outcomes: int, method: str) -> int | None:
    """Runs by this method, None where it has no plan."""
    task = Algorithm(lambda rows, tape: 0, rows_needed=1, guarantee=COINS, outcomes=tuple(range(outcomes)))
    try:
        compiled = replicable_to_perfect(task, epsilon=epsilon, delta=delta, beta=BETA, method=method)
    except InvalidArgument:
        return None
    return compiled.rows_needed


def amplified(epsilon: float, delta: float, outcomes: int, method: str) -> int:
    """Rows of ``amplify_generalization`` from an algorithm of five rows."""
    task = Algorithm(
        lambda rows, tape: 0,
        rows_needed=5,
        guarantee=PerfectGeneralization(0.01, 0.02, 0.001, kind="one-way"),
        outcomes=tuple(range(outcomes)),
        probabilities=lambda rows: [1.0] + [0.0] * (outcomes - 1),
    )
    return amplify_generalization(task, epsilon=epsilon, delta=delta, method=method).rows_needed


# A private learner: 1,000 rows, ε = 0.3, wrong with probability 0.001. It becomes 1-private and agnostic.
LEARNER = {"rows_needed": 1000, "guarantee": DP(0.3), "failure": 0.001}
ACCURACY, LEARNER_ACCURACY, EPSILON = 0.2, 0.05, 1.0
# What ``private_agnostic`` and ``amplify_delta`` asked for before, kept from the version without subsets.
BEFORE_SUBSETS = {
    2: (348_810, 1_365_000),
    10: (9_419_585, 42_504_000),
    100: (135_400_608, 540_864_000),
    1000: (1_690_568_237, 6_311_340_000),
    10_000: (19_926_298_040, 71_591_352_000),
}


def learner(outcomes: int) -> Algorithm:
    """A learner of so many hypotheses; only its numbers count here."""

    def laws(samples: Any) -> Any:
        return np.full((len(samples), outcomes), 1.0 / outcomes)

    return Algorithm(
        lambda rows, tape: 0,
        outcomes=tuple(range(outcomes)),
        probabilities=lambda rows: laws([rows])[0],
        batch_probabilities=laws,
        **LEARNER,
    )


def agnostic_rows(algorithm: Algorithm) -> int:
    """Rows of ``private_agnostic``, for a class of thresholds."""
    task: dict[str, Any] = {"labelings": len, "predict": len, "growth": lambda rows: rows + 1}
    bounds = {"accuracy": ACCURACY, "learner_accuracy": LEARNER_ACCURACY, "epsilon": EPSILON, "beta": BETA}
    return private_agnostic(algorithm, **task, **bounds).rows_needed


def agnostic_at_least() -> int:
    """Rows that every such learner needs, already for two hypotheses that differ everywhere.

    Labels agree with one of them with probability just above (1 + α)/2. The two laws are α apart in total
    variation and α·ln((1+α)/(1−α)) in divergence. Telling them apart with failure β takes kl(1−β‖β) nats. And
    what a private learner returns under one law it returns with probability e^(−2nαε)(½ − β) under the other:
    a coupling changes at most 2nα rows with probability ½.
    """
    nats = (1.0 - 2.0 * BETA) * math.log((1.0 - BETA) / BETA)
    divergence = ACCURACY * math.log((1.0 + ACCURACY) / (1.0 - ACCURACY))
    private = math.log((0.5 - BETA) / BETA) / (2.0 * ACCURACY * EPSILON)
    return math.ceil(max(nats / divergence, private))


def shown(rows: int | None) -> str:
    """A number with commas, or a dash."""
    return "–" if rows is None else f"{rows:,}"


def compared_subsets() -> dict[str, dict[str, int]]:
    """Rows before and now for each number of hypotheses."""
    table = {}
    for outcomes, (before_agnostic, before_delta) in BEFORE_SUBSETS.items():
        many = learner(outcomes)
        table[str(outcomes)] = {
            "agnostic before": before_agnostic,
            "agnostic now": agnostic_rows(many),
            "agnostic at least": agnostic_at_least(),
            "smaller delta before": before_delta,
            "smaller delta now": amplify_delta(many, epsilon=EPSILON, beta=BETA).rows_needed,
        }
    return table


def main() -> None:
    perfect: dict[str, Any] = {}
    more: dict[str, Any] = {}
    print("| ε, δ | outcomes | before | seeds | vote | at least |\n|---|---|---|---|---|---|")
    for epsilon, delta in BUDGETS:
        for outcomes in OUTCOMES:
            old, bound = before(epsilon, delta, COINS), at_least(epsilon, delta, BETA)
            seeds, vote = (now(epsilon, delta, outcomes, method) for method in ("seeds", "vote"))
            row = {"before": old, "seeds": seeds, "vote": vote, "at least": bound}
            perfect[f"epsilon={epsilon:g},outcomes={outcomes}"] = row
            line = " | ".join(map(shown, row.values()))
            print(f"| {epsilon:g}, {delta:g} | {outcomes:,} | {line} |")
    print("\nMore generalisation, an algorithm of five rows:")
    print("| ε, δ | outcomes | before | seeds | cheapest |\n|---|---|---|---|---|")
    for epsilon, delta in ((1.0, 0.1), (1.0, 0.01)):
        for outcomes in OUTCOMES[:2]:
            seeds, best = (amplified(epsilon, delta, outcomes, method) for method in ("seeds", "cheapest"))
            old = AMPLIFIED_BEFORE[epsilon, delta]
            more[f"delta={delta:g},outcomes={outcomes}"] = {"before": old, "seeds": seeds, "cheapest": best}
            print(f"| {epsilon:g}, {delta:g} | {outcomes:,} | {old:,} | {seeds:,} | {best:,} |")
    print("\nPrivate agnostic learning and smaller δ, a learner of 1,000 rows at ε = 0.3:")
    print(
        "| outcomes | agnostic before | now | at least | smaller δ before | now |\n|---|---|---|---|---|---|"
    )
    subsets = compared_subsets()
    for outcomes, row in subsets.items():
        print(f"| {int(outcomes):,} | {' | '.join(map(shown, row.values()))} |")
    keep("compiler_rows", {"perfect": perfect, "more generalisation": more, "subsets": subsets})


if __name__ == "__main__":
    main()
