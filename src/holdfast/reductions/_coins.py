"""Which share of the coins to call good: the choice that makes a plan cheapest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.stability import GoodCoins

__all__ = ["cheapest"]

_SHARES = (*np.geomspace(1e-9, 0.5, 160).tolist(), *np.linspace(0.51, 0.99, 49).tolist())


class _Plan(Protocol):
    @property
    def runs(self) -> int: ...


P = TypeVar("P", bound=_Plan)


def cheapest(
    notion: Any, plan: Callable[[GoodCoins], P], shares: Iterable[float] = _SHARES, *, of: str, by: str
) -> P:
    """The plan with the fewest runs over the good coins that ``notion`` gives.

    Replicability ρ gives good coins (η, ν) for every ν; η < ½ needs ν > 2ρ. Every ν is valid, so the search
    over ``shares`` can only lose rows.
    """
    if isinstance(notion, GoodCoins):
        return plan(notion)
    if notion.rho == 0.0:
        return plan(GoodCoins(0.0, 0.0))
    unreachable = InvalidArgument("rho", "so small that coins can be good", notion.rho, of=of, reference=by)
    best: P | None = None
    refusal: InvalidArgument | None = None
    for nu in shares:
        if not 2.0 * notion.rho < nu < 1.0:
            continue
        try:
            found = plan(notion.good_coins(float(nu)))
        except InvalidArgument as refused:
            refusal = refused
            continue
        if best is None or found.runs < best.runs:
            best = found
    if best is None:
        raise refusal or unreachable
    return best
