"""Which share of the coins to call good: the choice that makes a plan cheapest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.stability import GoodCoins, Replicability

__all__ = ["cheapest"]

_CHOICES = 60


class _Plan(Protocol):
    @property
    def runs(self) -> int: ...


P = TypeVar("P", bound=_Plan)


def cheapest(notion: Replicability | GoodCoins, plan: Callable[[GoodCoins], P], *, of: str, by: str) -> P:
    """The plan with the fewest runs over the good coins that ``notion`` gives.

    Replicability ρ gives good coins (η, ν) for every ν; η < ½ needs ν > 2ρ. Every ν is valid, so the search
    can only lose rows.
    """
    if isinstance(notion, GoodCoins):
        return plan(notion)
    if notion.rho == 0.0:
        return plan(GoodCoins(0.0, 0.0))
    if not notion.rho < 0.49:
        raise InvalidArgument("rho", "below 0.49, so that coins can be good", notion.rho, of=of, reference=by)
    best: P | None = None
    refusal: InvalidArgument | None = None
    for nu in np.geomspace(2.0 * notion.rho * 1.01, 0.995, _CHOICES):
        try:
            found = plan(notion.good_coins(float(nu)))
        except InvalidArgument as refused:
            refusal = refused
            continue
        if best is None or found.runs < best.runs:
            best = found
    if best is None:
        assert refusal is not None
        raise refusal
    return best
