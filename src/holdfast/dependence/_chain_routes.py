"""The proofs of Bayesian differential privacy on a chain."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast import rounding
from holdfast.dependence._bayesian import Route, Routes, blanket_route, group_route, quilt_route, refused
from holdfast.dependence._chain_quilts import MOST_STATES
from holdfast.dependence._coupling import coupling_bdp, coupling_dp, largest_below
from holdfast.dependence._pairs import pairs_bdp
from holdfast.dependence._spectral import spectral_bdp, spectral_dp
from holdfast.dependence._transition import unreachable

if TYPE_CHECKING:
    from holdfast.dependence._chain import MarkovChain


def chain_routes(chain: MarkovChain) -> Routes:
    """Every method by name; the two printed forms count a quilt's influence four times, the others twice."""
    return {
        "group": partial(group_route, chain.n),
        "coupling": partial(_coupling, chain),
        "pairs": partial(_pairs, chain),
        "spectral": partial(_spectral, chain),
        "blanket": partial(_blanket, chain, 2.0),
        "quilt": partial(_quilt, chain, 2.0),
        "blanket-paper": partial(_blanket, chain, 4.0),
        "quilt-paper": partial(_quilt, chain, 4.0),
    }


def _coupling(chain: MarkovChain) -> Route:
    return Route(
        lambda epsilon: coupling_bdp(epsilon, chain.cross_ratio, chain.n),
        lambda epsilon: coupling_dp(epsilon, chain.cross_ratio, chain.n),
        "theory 5, the chain bound",
    )


def _pairs(chain: MarkovChain) -> Route:
    def bound(epsilon: float) -> float:
        return pairs_bdp(epsilon, chain.transition, chain.n)

    return Route(bound, lambda epsilon: largest_below(epsilon, bound), "theory 5, the chain bound by pairs")


def _spectral(chain: MarkovChain) -> Route:
    def least() -> float:
        return rounding.down(float(chain.stationary.min()))

    return Route(
        lambda epsilon: spectral_bdp(epsilon, chain.spectral_gap, least()),
        lambda epsilon: spectral_dp(epsilon, chain.spectral_gap, least()),
        "BDP Lemma 4",
        _spectral_refusal(chain),
    )


def _spectral_refusal(chain: MarkovChain) -> str:
    """Why Lemma 4 does not apply, as what the chain would have to be; empty if it does."""
    if unreachable(chain.transition) is not None:
        return "an irreducible chain"
    return "" if chain.spectral_gap > 0.0 else "a chain with a spectral gap (here the operator norm is 1)"


def _undefined(chain: MarkovChain) -> str:
    if chain.initial is None and unreachable(chain.transition) is not None:
        return "an irreducible chain, or the law of its first row (initial=…)"
    if len(chain.transition) > MOST_STATES:
        return f"a chain of at most {MOST_STATES} states"
    return ""


def _blanket(chain: MarkovChain, weight: float) -> Route:
    reason = _undefined(chain)
    if reason:
        return refused(reason, "BDP Lemma 3")
    return blanket_route(chain._quilts.blanket_influence(), weight)


def _quilt(chain: MarkovChain, weight: float) -> Route:
    reason = _undefined(chain)
    if reason:
        return refused(reason, "BDP Lemma 2")
    return quilt_route(chain._quilts, weight)
