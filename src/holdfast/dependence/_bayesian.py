"""From differential privacy to Bayesian differential privacy on a chain, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast import checks, rounding
from holdfast.dependence._coupling import coupling_bdp, coupling_dp
from holdfast.dependence._spectral import spectral_bdp, spectral_dp
from holdfast.dependence._transition import unreachable
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.dependence._chain import MarkovChain
    from holdfast.stability import DP, BayesianDP

_METHODS = ("sharp", "coupling", "spectral")
_LEMMA = "BDP Lemma 4"


def bayesian_dp(chain: MarkovChain, dp: DP, method: str) -> BayesianDP:
    """The smallest Bayesian DP parameter that the method proves."""
    from holdfast.stability import DP, BayesianDP

    method = checks.choice(method, "method", _METHODS, of="MarkovChain.bayesian_dp")
    if not isinstance(dp, DP) or not dp.delta == 0.0:
        raise InvalidArgument(
            "dp", "a pure DP(epsilon)", dp, of="MarkovChain.bayesian_dp", reference="theory 5"
        )
    found = _candidates(
        chain,
        dp.epsilon,
        method,
        lambda epsilon: coupling_bdp(epsilon, chain.cross_ratio, chain.n),
        lambda epsilon: spectral_bdp(epsilon, chain.spectral_gap, _least(chain)),
        rounding.up(chain.n * dp.epsilon),
    )
    return BayesianDP(min(found))


def required_dp(chain: MarkovChain, bdp: BayesianDP, method: str) -> DP:
    """The largest DP parameter that the method proves to be enough."""
    from holdfast.stability import DP, BayesianDP

    method = checks.choice(method, "method", _METHODS, of="MarkovChain.required_dp")
    if not isinstance(bdp, BayesianDP):
        raise InvalidArgument("bdp", "a BayesianDP(epsilon)", bdp, of="MarkovChain.required_dp")
    found = _candidates(
        chain,
        bdp.epsilon,
        method,
        lambda epsilon: coupling_dp(epsilon, chain.cross_ratio, chain.n),
        lambda epsilon: spectral_dp(epsilon, chain.spectral_gap, _least(chain)),
        rounding.down(bdp.epsilon / chain.n),
    )
    return DP(max(found))


def _candidates(
    chain: MarkovChain,
    epsilon: float,
    method: str,
    coupling: Callable[[float], float],
    spectral: Callable[[float], float],
    group: float,
) -> list[float]:
    if epsilon == 0.0:
        return [0.0]
    if method == "coupling":
        return [coupling(epsilon)]
    reason = _spectral_refusal(chain)
    if method == "spectral":
        if reason:
            raise InvalidArgument("transition", reason, repr(chain), of="MarkovChain", reference=_LEMMA)
        return [spectral(epsilon)]
    found = [group, coupling(epsilon)]
    return found if reason else [*found, spectral(epsilon)]


def _least(chain: MarkovChain) -> float:
    return rounding.down(float(chain.stationary.min()))


def _spectral_refusal(chain: MarkovChain) -> str:
    """Why Lemma 4 does not apply, as what the chain would have to be; empty if it does."""
    if unreachable(chain.transition) is not None:
        return "irreducible"
    if not chain.reversible:
        return "reversible"
    return "" if chain.spectral_gap > 0.0 else "aperiodic (its spectral gap is 0)"
