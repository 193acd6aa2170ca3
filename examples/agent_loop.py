"""An agent that rewrites its own prompt, offline, in a few seconds: without a gate it climbs on noise.

The prompt has ten phrases. Rewording a phrase changes which tasks it gets right. It does not help: on new
tasks the prompt is a little worse than before. A few rewrites truly help. In each round the agent proposes a
rewrite and is scored on the same 300 tasks.

- The careless loop keeps whatever scores higher.
- The gated loop keeps what the gate promotes. It sees verdicts and never a score.

In the end both prompts are scored on 20,000 new tasks that neither loop has seen.

    python examples/agent_loop.py
    python examples/agent_loop.py --real 0    # no rewrite helps: whatever climbs, climbs on noise
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast import Gate

PHRASES = 10
TASKS, NEW_TASKS = 300, 20_000
HELPS, HARMS = 0.10, 0.005


@dataclass(frozen=True)
class Prompt:
    """The wording of each phrase, and how good the prompt truly is."""

    wording: tuple[int, ...]
    skill: float


def scores(prompt: Prompt, world: int, tasks: int) -> NDArray[np.int64]:
    """1 for each task that the prompt solves, else 0. Each task hangs on one phrase."""
    solved = np.empty(tasks, dtype=np.int64)
    for phrase, wording in enumerate(prompt.wording):
        luck = np.random.default_rng([world, phrase, wording]).random(tasks)[phrase::PHRASES]
        solved[phrase::PHRASES] = luck < prompt.skill
    return solved


def rewritten(prompt: Prompt, rng: np.random.Generator, real: float) -> Prompt:
    """Another wording of one phrase, or, with probability ``real``, a rewrite that truly helps."""
    if rng.random() < real:
        return replace(prompt, skill=min(0.95, prompt.skill + HELPS))
    wording = list(prompt.wording)
    wording[rng.integers(PHRASES)] = int(rng.integers(1, 2**31))
    return Prompt(tuple(wording), max(0.05, prompt.skill - HARMS))


def loop(
    start: Prompt, rounds: int, real: float, seed: int, keep: Callable[[int, Prompt, Prompt], bool]
) -> tuple[Prompt, int]:
    """Propose rewrites and continue with those that are kept; returns the last prompt and their number."""
    rng, prompt, kept = np.random.default_rng(seed), start, 0
    for number in range(1, rounds + 1):
        candidate = rewritten(prompt, rng, real)
        if keep(number, candidate, prompt):
            prompt, kept = candidate, kept + 1
    return prompt, kept


def main() -> None:
    """Run both loops and print what became of them."""
    parser = argparse.ArgumentParser(description="An agent that improves itself, with and without a gate.")
    parser.add_argument("--rounds", type=int, default=300, help="how many rewrites are proposed")
    parser.add_argument("--real", type=float, default=0.01, help="the share of rewrites that truly help")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    own, new = 2 * options.seed, 2 * options.seed + 1
    start = Prompt((0,) * PHRASES, skill=0.70)

    def higher(number: int, candidate: Prompt, prompt: Prompt) -> bool:
        return bool(scores(candidate, own, TASKS).sum() > scores(prompt, own, TASKS).sum())

    gate = Gate(range(TASKS), incumbent=dict(enumerate(scores(start, own, TASKS))), expect=options.rounds)

    def promoted(number: int, candidate: Prompt, prompt: Prompt) -> bool:
        sealed = dict(enumerate(scores(candidate, own, TASKS)))
        return gate.submit(sealed, f"rewrite {number}", sealed=True).promoted

    rows = [("start", start, 0)]
    for name, keep in (("without gate", higher), ("with gate", promoted)):
        rows.append((name, *loop(start, options.rounds, options.real, options.seed, keep)))

    print(f"{'':<14}{'kept':>6}{'score on its tasks':>22}{'on new tasks':>16}")
    for name, prompt, kept in rows:
        seen, true = scores(prompt, own, TASKS).mean(), scores(prompt, new, NEW_TASKS).mean()
        print(f"{name:<14}{kept:>6}{seen:>22.3f}{true:>16.3f}")
    print()
    print(gate.status()["text"])


if __name__ == "__main__":
    main()
