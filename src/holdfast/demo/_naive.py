"""What plain averages report when the same rows choose the question and answer it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast.demo._stones import Stones
from holdfast.intervals import Interval, clopper_pearson

_NATS = math.log(1 / 0.05)


@dataclass(frozen=True)
class Plain:
    """A share of all rows with its exact 95 % interval for one question fixed in advance."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, count: int, rows: int) -> Plain:
        return cls(count / rows, clopper_pearson(count, rows, _NATS))


def naive_sign_attack(stones: Stones) -> tuple[list[Plain], Plain]:
    """The questions of :func:`holdfast.audit.attacks.sign_attack`, answered by averages over every row."""
    target = stones.table["expensive"].to_numpy()
    omens = stones.table[list(stones.omens)].to_numpy()
    rows = len(target)
    agreeing = (omens == target[:, None]).sum(axis=0)
    signs = np.where(agreeing * 2 >= rows, 1, -1)
    votes = (2 * omens.astype(np.int64) - 1) @ signs
    if len(signs) % 2 == 0:
        votes += (2 * omens[:, 0].astype(np.int64) - 1) * signs[0]
    final = Plain.of(int(((votes > 0) == (target == 1)).sum()), rows)
    return [Plain.of(int(count), rows) for count in agreeing], final
