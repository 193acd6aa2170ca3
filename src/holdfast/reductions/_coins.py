"""Runs with few coins on many parts, and which share of the coins to call good so that they are fewest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.reductions._algorithm import Algorithm
from holdfast.reductions._parts import Progress, Workers, cut, run_all
from holdfast.replicable._tape import Tape
from holdfast.stability import GoodCoins

__all__ = ["cheapest", "run_seeds"]

_CHOICES = 12


class _Plan(Protocol):
    @property
    def runs(self) -> int: ...


class _Seeds(Protocol):
    @property
    def seeds(self) -> int: ...
    @property
    def parts(self) -> int: ...


P = TypeVar("P", bound=_Plan)


def run_seeds(
    algorithm: Algorithm, plan: _Seeds, rows: Any, tape: Tape, workers: Workers, progress: Progress
) -> list[Any]:
    """What the algorithm gives on fresh parts of the rows, seed after seed, all parts of a seed with its
    coins."""
    coins = [tape.branch(f"seed {number}") for number in range(plan.seeds)]
    parts = cut(rows, plan.seeds * plan.parts, algorithm.rows_needed)
    jobs = [(part, coins[number // plan.parts]) for number, part in enumerate(parts)]
    return run_all(algorithm, jobs, workers=workers, progress=progress, label="runs")


def cheapest(
    notion: Any,
    plan: Callable[[GoodCoins, float], P],
    shares: Iterable[float] | None = None,
    *,
    of: str,
    by: str,
    below: float = math.inf,
) -> P:
    """The plan with the fewest runs over the good coins that ``notion`` gives.

    ``plan(coins, below)`` may refuse where it has no fewer runs than ``below``. Replicability ρ gives good
    coins (η, ν) for every ν; η < ½ needs ν > 2ρ. Every ν is valid, so the search, over ``shares`` or in two
    passes over a grid, can only lose rows.
    """
    if isinstance(notion, GoodCoins):
        return plan(notion, below)
    if notion.rho == 0.0:
        return plan(GoodCoins(0.0, 0.0), below)
    if not notion.rho < 0.49:
        raise InvalidArgument("rho", "below 0.49, so that coins can be good", notion.rho, of=of, reference=by)
    better: list[tuple[P, float]] = []
    refusals: list[InvalidArgument] = []

    def scan(shares: Iterable[float]) -> None:
        for nu in shares:
            fewest = better[-1][0].runs if better else below
            if 2.0 * notion.rho < nu < 1.0:
                try:
                    found = plan(notion.good_coins(float(nu)), fewest)
                except InvalidArgument as refused:
                    refusals.append(refused)
                else:
                    better.extend([(found, float(nu))] if found.runs < fewest else [])

    grid = np.geomspace(2.02 * notion.rho, 0.99, _CHOICES)
    scan(grid if shares is None else shares)
    if not better:
        unlucky = InvalidArgument("rho", "so small that coins can be good", notion.rho, of=of, reference=by)
        raise refusals[-1] if refusals else unlucky
    if shares is None:
        place = int(np.argmin(np.abs(grid - better[-1][1])))
        scan(np.geomspace(grid[max(place - 1, 0)], grid[min(place + 1, _CHOICES - 1)], _CHOICES))
    return better[-1][0]
