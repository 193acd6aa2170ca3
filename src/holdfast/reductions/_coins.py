"""Which share of the coins to call good: the choice that makes a plan cheapest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.stability import GoodCoins

__all__ = ["cheapest"]

_CHOICES = 12


class _Plan(Protocol):
    @property
    def runs(self) -> int: ...


P = TypeVar("P", bound=_Plan)


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
