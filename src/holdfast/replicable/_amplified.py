"""Theorem 5.13's amplification: a choice of constant replicability on many blocks, as replicable as asked.

For each shared string in turn, every block of rows chooses a model; the first string on which one model has
more than a shared threshold of the blocks settles the choice. The proof is in
``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast.errors import InvalidArgument
from holdfast.replicable._elementary import Floats
from holdfast.replicable._least import MOST_ROWS, least_whole
from holdfast.replicable._tape import Tape
from holdfast.replicable._ways import Problem, Way, ways_for

__all__ = ["Amplified", "amplified_choice", "amplified_plan"]

_STRINGS = 64
_BASES = (0.02, 0.05, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.32)


@dataclass(frozen=True)
class Amplified:
    """How many blocks of how many rows, and the choice that each of them makes."""

    blocks: int
    block_rows: int
    base_rho: float
    base: Problem
    way: Way
    name: str

    @property
    def rows(self) -> int:
        """The rows of all blocks."""
        return self.blocks * self.block_rows

    def details(self) -> dict[str, Any]:
        """What a result says about it."""
        return {
            "blocks": self.blocks,
            "block_rows": self.block_rows,
            "base": self.name,
            "base_rho": self.base_rho,
        }


@lru_cache(maxsize=256)
def amplified_plan(problem: Problem, rho: float) -> Amplified:
    """The blocks with the fewest rows in all, over a grid of base replicabilities."""
    spare = min(rho, problem.beta) / 20.0
    plans = []
    for base_rho in _BASES:
        blocks = _blocks(base_rho, rho, spare)
        if blocks is None:
            continue
        rejected = _rejected(base_rho, blocks, spare)
        base = replace(problem, beta=(problem.beta - 2.0 * spare) * (1.0 - rejected))
        for name, way in ways_for(base).items():
            block_rows = way.rows(base, base_rho)
            if block_rows is not None:
                plans.append(Amplified(blocks, block_rows, base_rho, base, way, name))
    if not plans:
        raise InvalidArgument(
            "accuracy", "large enough for fewer than 2⁴⁸ rows", problem.accuracy, of="choose"
        )
    return min(plans, key=lambda plan: plan.rows)


def _rejected(base_rho: float, blocks: int, spare: float) -> float:
    """How many strings settle nothing, on all but a fraction ``spare`` of the samples (McDiarmid)."""
    return 2.0 * base_rho + math.sqrt(2.0 * math.log(1.0 / spare) / blocks)


def _blocks(base_rho: float, rho: float, spare: float) -> int | None:
    """The fewest blocks with 2√(2ρ₀/t)/(1 − λ) + ε + λ⁶⁴ ≤ ρ."""

    def differ(blocks: int) -> float:
        rejected = _rejected(base_rho, blocks, spare)
        if rejected >= 1.0:
            return 1.0
        exhausted = rejected**_STRINGS
        if exhausted > spare:
            return 1.0
        return 2.0 * math.sqrt(2.0 * base_rho / blocks) / (1.0 - rejected) + spare + exhausted

    return least_whole(lambda blocks: differ(blocks) <= rho, most=MOST_ROWS)


def amplified_choice(table: npt.NDArray[Any], plan: Amplified, tape: Tape) -> int:
    """The model that most blocks choose, by the first string that settles it."""
    used = table[: plan.rows].reshape(plan.blocks, plan.block_rows, -1)
    return amplified_by_means(used.mean(axis=1, dtype=np.float64), plan, tape)


def amplified_by_means(means: Floats, plan: Amplified, tape: Tape) -> int:
    """The same from the mean losses of each block."""
    width = plan.way.width(plan.base, plan.block_rows)
    if width is None:
        raise InvalidArgument("plan", "one whose blocks are large enough", plan, of="choose")
    thresholds = 0.5 + 0.5 * tape.branch("majority").uniforms(_STRINGS)
    for string in range(_STRINGS):
        coins = tape.branch("string").branch(string)
        votes = np.bincount([plan.way.pick(plan.base, block, width, coins) for block in means])
        if float(votes.max()) > thresholds[string] * plan.blocks:
            return int(votes.argmax())
    return plan.way.pick(plan.base, means[0], width, tape.branch("last"))
