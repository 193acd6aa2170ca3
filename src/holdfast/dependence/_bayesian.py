"""From differential privacy to Bayesian differential privacy, and back, by the best proof that applies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.stability import DP, BayesianDP


@dataclass(frozen=True)
class Route:
    """One proof: the Bayesian DP of a DP parameter, and the DP that suffices for a Bayesian one.

    ``refusal`` says what the model would have to be, where the proof does not apply.
    """

    bayesian_dp: Callable[[float], float]
    required_dp: Callable[[float], float]
    reference: str
    refusal: str = ""


Routes = Mapping[str, Callable[[], Route]]

# A blanket is one of the quilts, 2b is less than 4b, and pairs of values are never worse than the worst pair.
_DOMINATED = ("blanket", "blanket-paper", "quilt-paper", "coupling")


def bayesian_dp(model: object, routes: Routes, dp: DP, method: Any) -> BayesianDP:
    """The smallest Bayesian DP parameter that the method proves."""
    from holdfast.stability import DP, BayesianDP

    of = f"{type(model).__name__}.bayesian_dp"
    method = checks.choice(method, "method", ("sharp", *routes), of=of)
    if not isinstance(dp, DP) or not dp.delta == 0.0:
        raise InvalidArgument("dp", "a pure DP(epsilon)", dp, of=of, reference="theory 5")
    if dp.epsilon == 0.0:
        return BayesianDP(0.0)
    return BayesianDP(min(route.bayesian_dp(dp.epsilon) for route in _applying(model, routes, method)))


def required_dp(model: object, routes: Routes, bdp: BayesianDP, method: Any) -> DP:
    """The largest DP parameter that the method proves to be enough."""
    from holdfast.stability import DP, BayesianDP

    of = f"{type(model).__name__}.required_dp"
    method = checks.choice(method, "method", ("sharp", *routes), of=of)
    if not isinstance(bdp, BayesianDP):
        raise InvalidArgument("bdp", "a BayesianDP(epsilon)", bdp, of=of)
    if bdp.epsilon == 0.0:
        return DP(0.0)
    return DP(max(route.required_dp(bdp.epsilon) for route in _applying(model, routes, method)))


def _applying(model: object, routes: Routes, method: str) -> list[Route]:
    """The routes that a method stands for; "sharp" leaves out those that are refused."""
    if method == "sharp":
        candidates = (make() for name, make in routes.items() if name not in _DOMINATED)
        return [route for route in candidates if not route.refusal]
    route = routes[method]()
    if route.refusal:
        raise InvalidArgument(
            "method", f"another one: {method!r} needs {route.refusal}", repr(model), reference=route.reference
        )
    return [route]


def group_route(rows: int) -> Route:
    """Group privacy: at most ``rows`` rows follow any one."""
    return Route(
        lambda epsilon: rounding.up(rows * epsilon),
        lambda epsilon: rounding.down(epsilon / rows),
        "theory 3, groups",
    )


def group_routes(rows: int) -> Routes:
    """Where a row's component may depend in any way: its empty quilt, which is group privacy."""
    route = partial(group_route, rows)
    return {"group": route, "quilt": route}


def blanket_route(influence: float, weight: float) -> Route:
    """BDP Lemma 3 with ``weight``·a_i: printed 4, proved 2."""
    return Route(
        lambda epsilon: rounding.up(epsilon + weight * influence),
        lambda epsilon: max(0.0, rounding.down(epsilon - weight * influence)),
        "BDP Lemma 3",
        "" if influence < math.inf else "a model in which no value of a blanket rules out a row's value",
    )


class Quilts(Protocol):
    """The quilts of all rows of a model, as BDP Lemma 2 uses them with ``weight``·b."""

    def bayesian_dp(self, epsilon: float, weight: float) -> float: ...

    def required_dp(self, epsilon: float, weight: float) -> float: ...


def quilt_route(quilts: Quilts, weight: float) -> Route:
    """BDP Lemma 2 with ``weight``·b_i: printed 4, proved 2."""
    return Route(
        lambda epsilon: quilts.bayesian_dp(epsilon, weight),
        lambda epsilon: quilts.required_dp(epsilon, weight),
        "BDP Lemma 2",
    )


def refused(what: str, reference: str) -> Route:
    """A proof that does not apply: it needs ``what``."""
    return Route(_nothing, _nothing, reference, what)


def _nothing(epsilon: float) -> float:
    return math.inf
