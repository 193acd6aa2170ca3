"""Rows that the compilers to perfect generalisation and private agnostic learning need, with a lower bound.

    python benchmarks/compiler_rows.py

"before" is SIS Algorithm 3 with frequencies compared in supremum, "seeds" the same with bounded differences
of the scores, "vote" the vote on listed outcomes. The proofs are in docs/theory/reductions-more.md.
"""

from __future__ import annotations

import math

from holdfast.errors import InvalidArgument
from holdfast.reductions import Algorithm, amplify_generalization, replicable_to_perfect
from holdfast.stability import GoodCoins, PerfectGeneralization

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


def now(epsilon: float, delta: float, outcomes: int, method: str) -> str:
    """Runs by this method, or a dash."""
    task = Algorithm(lambda rows, tape: 0, rows_needed=1, guarantee=COINS, outcomes=tuple(range(outcomes)))
    try:
        compiled = replicable_to_perfect(task, epsilon=epsilon, delta=delta, beta=BETA, method=method)
    except InvalidArgument:
        return "–"
    return f"{compiled.rows_needed:,}"


def amplified(epsilon: float, delta: float, outcomes: int, method: str) -> str:
    """Rows of ``amplify_generalization`` from an algorithm of five rows."""
    task = Algorithm(
        lambda rows, tape: 0,
        rows_needed=5,
        guarantee=PerfectGeneralization(0.01, 0.02, 0.001, kind="one-way"),
        outcomes=tuple(range(outcomes)),
        probabilities=lambda rows: [1.0] + [0.0] * (outcomes - 1),
    )
    return f"{amplify_generalization(task, epsilon=epsilon, delta=delta, method=method).rows_needed:,}"


def main() -> None:
    print("| ε, δ | outcomes | before | seeds | vote | at least |\n|---|---|---|---|---|---|")
    for epsilon, delta in BUDGETS:
        for outcomes in OUTCOMES:
            old, bound = before(epsilon, delta, COINS), at_least(epsilon, delta, BETA)
            seeds, vote = (now(epsilon, delta, outcomes, method) for method in ("seeds", "vote"))
            print(f"| {epsilon:g}, {delta:g} | {outcomes:,} | {old:,} | {seeds} | {vote} | {bound:,} |")
    print("\nMore generalisation, an algorithm of five rows:")
    print("| ε, δ | outcomes | before | seeds | cheapest |\n|---|---|---|---|---|")
    for epsilon, delta in ((1.0, 0.1), (1.0, 0.01)):
        for outcomes in OUTCOMES[:2]:
            seeds, best = (amplified(epsilon, delta, outcomes, method) for method in ("seeds", "cheapest"))
            old = AMPLIFIED_BEFORE[epsilon, delta]
            print(f"| {epsilon:g}, {delta:g} | {outcomes:,} | {old:,} | {seeds} | {best} |")


if __name__ == "__main__":
    main()
