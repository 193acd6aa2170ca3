"""Which share of the coins to call good: the choice that makes a plan cheapest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.stability import GoodCoins, Replicability

__all__ = ["cheapest"]

_CHOICES = 12


class _Plan(Protocol):
    @property
    def runs(self) -> int: ...


P = TypeVar("P", bound=_Plan)


def cheapest(
    notion: Any,
    plan: Callable[[GoodCoins], P],
    shares: Iterable[float] | None = None,
    *,
    of: str,
    by: str,
) -> P:
    """The plan with the fewest runs over the good coins that ``notion`` gives.

    Replicability ρ gives good coins (η, ν) for every ν; η < ½ needs ν > 2ρ. Every ν is valid, so the search,
    over ``shares`` or in two passes over a grid, can only lose rows.
    """
    if isinstance(notion, GoodCoins):
        return plan(notion)
    if notion.rho == 0.0:
        return plan(GoodCoins(0.0, 0.0))
    if not notion.rho < 0.49:
        raise InvalidArgument("rho", "below 0.49, so that coins can be good", notion.rho, of=of, reference=by)
    if shares is not None:
        return _best(notion, plan, shares)[0]
    grid = np.geomspace(2.02 * notion.rho, 0.99, _CHOICES)
    first, nu = _best(notion, plan, grid)
    place = int(np.argmin(np.abs(grid - nu)))
    low, high = grid[max(place - 1, 0)], grid[min(place + 1, _CHOICES - 1)]
    second, _ = _best(notion, plan, np.geomspace(low, high, _CHOICES))
    return min(first, second, key=lambda found: found.runs)


def _best(notion: Replicability, plan: Callable[[GoodCoins], P], shares: Iterable[float]) -> tuple[P, float]:
    found: list[tuple[P, float]] = []
    refusal: InvalidArgument | None = None
    for nu in shares:
        if 2.0 * notion.rho < nu < 1.0:
            try:
                found.append((plan(notion.good_coins(float(nu))), float(nu)))
            except InvalidArgument as refused:
                refusal = refused
    if not found:
        raise refusal or InvalidArgument("rho", "so small that coins can be good", notion.rho)
    return min(found, key=lambda each: each[0].runs)
