"""What plain averages report: when the same rows choose the question and answer it, and when rows that were
left alone answer it once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.demo._stones import Stones
from holdfast.intervals import Interval, clopper_pearson

_NATS = math.log(1 / 0.05)


@dataclass(frozen=True)
class Plain:
    """A share of rows with its exact 95 % interval for one question fixed in advance."""

    value: float
    interval: Interval

    @classmethod
    def of(cls, count: int, rows: int) -> Plain:
        return cls(count / rows, clopper_pearson(count, rows, _NATS))


def naive_sign_attack(stones: Stones) -> tuple[list[Plain], Plain]:
    """The questions of :func:`holdfast.audit.attacks.sign_attack`, answered by averages over every row."""
    target, coins = _columns(stones)
    rows = len(target)
    agreeing = (coins == target[:, None]).sum(axis=0)
    return [Plain.of(int(count), rows) for count in agreeing], _vote(target, coins, _signs(target, coins))


def single_holdout(stones: Stones, explored: Any) -> Plain:
    """What a careful person gets without a guard: the rows at the places ``explored`` turn the coins, and the
    other rows, which nobody has looked at, say once how often their vote is right."""
    target, coins = _columns(stones)
    seen = np.zeros(len(target), dtype=bool)
    seen[explored] = True
    return _vote(target[~seen], coins[~seen], _signs(target[seen], coins[seen]))


def _columns(stones: Stones) -> tuple[Any, Any]:
    return stones.table["expensive"].to_numpy(), stones.table[list(stones.coins)].to_numpy()


def _signs(target: Any, coins: Any) -> Any:
    """+1 for a coin that agrees with the target on at least half of these rows, else −1."""
    return np.where((coins == target[:, None]).sum(axis=0) * 2 >= len(target), 1, -1)


def _vote(target: Any, coins: Any, signs: Any) -> Plain:
    """How often the vote of the turned coins is right on these rows."""
    votes = (2 * coins.astype(np.int64) - 1) @ signs
    if len(signs) % 2 == 0:
        votes += (2 * coins[:, 0].astype(np.int64) - 1) * signs[0]
    return Plain.of(int(((votes > 0) == (target == 1)).sum()), len(target))
