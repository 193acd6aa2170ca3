"""What a gate sees, and how often it errs, next to other rules for "keep it if it is better".

Power: the smallest observed gain that is promoted, at four tasks fixed for one broken, and the true gain that
is promoted with probability .5 and .8. The product serves fractions and clusters; its numbers are for equal
units whose differences are -1, 0 or 1.

Noise: an agent climbs on pure noise. Every version solves a task with probability .7, whatever the agent
does. A candidate is the version in use with each task rolled again with probability .1, so no candidate is
better on new tasks and every promotion is wrong. After a promotion the agent goes on from the new version.
Each run has 300 candidates on 300 tasks. A rule has failed in a run if it promotes anything.

- McNemar: the exact one-sided sign test at .05 for each candidate by itself.
- Bonferroni: the same test at .05 over the number of candidates, which it needs in advance.
- Ladder: the parameter-free Ladder of Blum and Hardt (2015): a candidate is kept if its score is better by
  more than the standard error of the paired difference.
- EvidenceOS: the rule of its conservation ledger (crates/evidenceos-core/src/ledger.rs in the repository
  jverdicc/EvidenceOS): every answer with two values costs one bit, and a claim is certified if its e-value is
  at least 2^bits/alpha, where the bits of the answer itself count. The e-value here is our product, because
  the ledger takes e-values from outside.
- Gate: ours.

    python benchmarks/gate_power.py [--runs 2000]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from machine import keep
from scipy import stats

from holdfast import Gate
from holdfast.coding import Account, PromotionAlphabet
from holdfast.intervals import certified_gain, gain_steps, sign_test
from holdfast.planning import gate_gain, gate_power

TASKS = (100, 300, 1_000)
SCORE, ROLLED, ERROR = 0.7, 0.1, 0.05
NOISE_TASKS, CANDIDATES = 300, 300
STEP = 0.02  # of a gate with 300 tasks
CHECKED_RUNS = 3

# One run so far: tasks solved by the version in use, wins and losses of the candidate, its number from 1.
Rule = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]


def power() -> list[dict[str, Any]]:
    """What is needed at each number of tasks, by the sign test and by the product."""
    rows = []
    for tasks in TASKS:
        for candidate, expect in ((1, None), (20, None), (20, 20)):
            level = gate_gain(tasks, candidate, expect=expect).level
            row = {
                "tasks": tasks,
                "candidate": candidate,
                "expect": expect,
                "level": level,
                "observed, 0 or 1": _number(gate_power(tasks, candidate, baseline=SCORE, expect=expect)),
                "observed, product": _number(certified_gain(tasks, level, baseline=SCORE, binary=False)),
                "observed, EvidenceOS": _number(
                    certified_gain(
                        tasks, math.log(1 / ERROR) + candidate * math.log(2), baseline=SCORE, binary=False
                    )
                ),
                "observed, McNemar": _number(certified_gain(tasks, math.log(1 / ERROR), baseline=SCORE)),
            }
            for chance in (0.5, 0.8):
                gain = gate_gain(tasks, candidate, power=chance, expect=expect).gain
                row[f"true gain at power {chance}"] = _number(gain)
            rows.append(row)
    return rows


def fifty_candidates() -> dict[str, float]:
    """The power at a gain of .05 on 300 tasks with ``expect=50``, by the share of tasks that differ."""
    return {str(share): power_at(300, 50, 0.05, share, expect=50) for share in (0.06, 0.1)}


def power_at(tasks: int, candidate: int, gain: float, differing: float, expect: float | None) -> float:
    """The exact probability that the last candidate is promoted, from the public level and sign test."""
    level = gate_gain(tasks, candidate, expect=expect).level
    needed, wins = np.zeros(tasks + 1, dtype=int), 0
    for count in range(tasks + 1):
        while wins <= count and not sign_test(wins, count - wins, level):
            wins += 1
        needed[count] = wins
    counts = np.arange(tasks + 1)
    chance = stats.binom.sf(needed - 1, counts, (differing + gain) / (2 * differing))
    return float(stats.binom.pmf(counts, tasks, differing) @ chance)


@lru_cache(maxsize=2048)
def needed_wins(nats: float) -> np.ndarray:
    """The least number of wins that is shown, for each number of tasks that differ."""
    needed, wins = np.zeros(NOISE_TASKS + 1, dtype=int), 0
    for count in range(NOISE_TASKS + 1):
        while wins <= count and not sign_test(wins, count - wins, nats):
            wins += 1
        needed[count] = wins
    return needed


def mcnemar(solved: np.ndarray, wins: np.ndarray, losses: np.ndarray, number: int) -> np.ndarray:
    return wins >= needed_wins(-math.log(ERROR))[wins + losses]


def bonferroni(candidates: int) -> Rule:
    needed = needed_wins(math.log(candidates / ERROR))
    return lambda solved, wins, losses, number: wins >= needed[wins + losses]


def ladder(solved: np.ndarray, wins: np.ndarray, losses: np.ndarray, number: int) -> np.ndarray:
    gain = (wins - losses) / NOISE_TASKS
    deviation = np.sqrt((wins + losses) / NOISE_TASKS - gain**2)
    return gain > deviation / math.sqrt(NOISE_TASKS)


def evidence_os(solved: np.ndarray, wins: np.ndarray, losses: np.ndarray, number: int) -> np.ndarray:
    barrier = math.log(1 / ERROR) + number * math.log(2)
    pairs = zip(wins.tolist(), losses.tolist(), strict=True)
    return np.array([_product_shows(won, lost, barrier) for won, lost in pairs])


@lru_cache(maxsize=200_000)
def _product_shows(wins: int, losses: int, nats: float) -> bool:
    if wins <= losses or wins * math.log(2) < nats:  # No evidence is above 2 for each win.
        return False
    values = np.repeat([1.0, -1.0, 0.0], [wins, losses, NOISE_TASKS - wins - losses])
    return gain_steps(values, nats=nats, step=1.0) is not None


class GateRule:
    """The rule of a gate with a family promise, from the same pure functions as the gate itself. A run has an
    account of its own once it promotes; until then all runs have the same."""

    def __init__(self) -> None:
        self.calm = Account(ERROR)
        self.own: dict[int, Account] = {}

    def __call__(self, solved: np.ndarray, wins: np.ndarray, losses: np.ndarray, number: int) -> np.ndarray:
        promoted = wins >= needed_wins(self.calm.nats())[wins + losses]
        for run in self.own:
            promoted[run] = sign_test(int(wins[run]), int(losses[run]), self.own[run].nats())
        for run in [*self.own, *np.flatnonzero(promoted).tolist()]:
            account = self.own.get(run, self.calm)
            if run in self.own and account.steps >= number:
                continue  # It is in both lists.
            steps = None
            if promoted[run]:
                rest = NOISE_TASKS - wins[run] - losses[run]
                values = np.repeat([1.0, -1.0, 0.0], [wins[run], losses[run], rest])
                steps = gain_steps(values, nats=account.nats(), step=STEP, binary=True)
            self.own[run] = _charged(account, steps)
        self.calm = _charged(self.calm, None)
        return promoted


def _charged(account: Account, steps: int | None) -> Account:
    price = PromotionAlphabet(math.ceil(1 / STEP) + 1, account.experience).price(steps)
    charge = account.charge(price)
    return account.after(charge, surprise=steps is not None, exact=account.exact + price)


def climb(rule: Rule, runs: int, candidates: int, seed: int) -> np.ndarray:
    """How often each run of the agent had a candidate promoted. Tasks are exchangeable, so the number of
    solved ones says everything about a version."""
    rng = np.random.default_rng(seed)
    solved = rng.binomial(NOISE_TASKS, SCORE, runs)
    promotions = np.zeros(runs, dtype=int)
    for number in range(1, candidates + 1):
        losses = rng.binomial(solved, ROLLED * (1 - SCORE))
        wins = rng.binomial(NOISE_TASKS - solved, ROLLED * SCORE)
        promoted = rule(solved, wins, losses, number)
        solved = np.where(promoted, solved + wins - losses, solved)
        promotions += promoted
    return promotions


# Each is made for a number of candidates. Only Bonferroni uses it.
RULES: dict[str, Callable[[int], Rule]] = {
    "McNemar": lambda candidates: mcnemar,
    "Bonferroni": bonferroni,
    "Ladder": lambda candidates: ladder,
    "EvidenceOS": lambda candidates: evidence_os,
    "Gate": lambda candidates: GateRule(),
}


def follows_the_gate(seed: int, candidates: int, gain: float = 0.0) -> tuple[int, int]:
    """One run of the real gate beside the rule above: how many candidates, and how many were promoted. A
    ``gain`` makes promotions, so that more than refusals is compared. Raises where the two differ."""
    rng = np.random.default_rng(seed)
    current = rng.random(NOISE_TASKS) < SCORE
    ids = [f"{task:04}" for task in range(NOISE_TASKS)]
    gate = Gate(ids, incumbent=dict(zip(ids, current.astype(int).tolist(), strict=True)), scores="binary")
    rule, promotions = GateRule(), 0
    for number in range(1, candidates + 1):
        better = gain > 0 and rng.random() < 0.1
        chance = SCORE + gain if better else SCORE
        rolled = rng.random(NOISE_TASKS) < (0.3 if better else ROLLED)
        candidate = np.where(rolled, rng.random(NOISE_TASKS) < chance, current)
        wins, losses = (
            np.array([int(np.sum(side))]) for side in (candidate & ~current, current & ~candidate)
        )
        expected = bool(rule(np.array([int(current.sum())]), wins, losses, number)[0])
        scores = dict(zip(ids, candidate.astype(int).tolist(), strict=True))
        verdict = gate.submit(scores, name=f"candidate {number}")
        account = rule.own.get(0, rule.calm)
        if verdict.promoted != expected or abs(gate.spent - account.spent) > 1e-9:
            raise AssertionError(f"The rule and the gate differ at candidate {number} of seed {seed}.")
        if expected:
            current, promotions = candidate, promotions + 1
    return candidates, promotions


def noise(runs: int, candidates: int = CANDIDATES, seed: int = 20) -> dict[str, dict[str, float]]:
    """For each rule: runs with a wrong promotion, and promotions in all."""
    table = {}
    for name, make in RULES.items():
        promotions = climb(make(candidates), runs, candidates, seed)
        table[name] = {
            "runs with a wrong promotion": int(np.count_nonzero(promotions)),
            "share": float(np.mean(promotions > 0)),
            "promotions": int(promotions.sum()),
        }
    return table


def _number(gain: float) -> float | None:
    return gain if math.isfinite(gain) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2_000)
    runs = parser.parse_args().runs
    compared = [follows_the_gate(seed, CANDIDATES, gain) for seed in range(CHECKED_RUNS) for gain in (0, 0.3)]
    keep(
        "gate_power",
        {
            "power": power(),
            "power at a gain of .05, 300 tasks, 50 candidates, by the share that differ": fifty_candidates(),
            "noise": {
                "runs": runs,
                "candidates": CANDIDATES,
                "tasks": NOISE_TASKS,
                "rules": noise(runs),
                "of 100 candidates": noise(runs, 100),
            },
            "compared with the real gate": [
                {"candidates": candidates, "promotions": promotions} for candidates, promotions in compared
            ],
        },
    )


if __name__ == "__main__":
    main()
