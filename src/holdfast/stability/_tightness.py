"""How much a notion still says, as one number: what orders the paths of the conversion graph."""

from __future__ import annotations

import math
from typing import Any

from holdfast.stability._generalization import PerfectGeneralization
from holdfast.stability._information import LN2, MaxInformation
from holdfast.stability._replicability import GoodCoins, Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability


def _lost(probability: float) -> float:
    """Nats lost to an event of this probability: −ln(1 − p)."""
    return -math.log1p(-probability) if probability < 1.0 else math.inf


def _both_ways(epsilon: float, delta: float) -> float:
    """−ln(1 − v), v the largest total variation between laws that are (ε, δ)-indistinguishable both ways."""
    return epsilon + math.log1p(math.exp(-epsilon)) - LN2 + _lost(delta)


def strain(notion: Any) -> float:
    """−ln(1 − p), p the total variation or failure that the notion still allows; infinite if vacuous."""
    match notion:
        case Replicability():
            return _lost(notion.rho)
        case GoodCoins():
            return _lost(notion.nu) + 2.0 * _lost(notion.eta)
        case MaxInformation():
            return notion.bits * LN2 + _lost(notion.beta)
        case PerfectGeneralization(kind="one-way"):
            return notion.epsilon + _lost(notion.delta) + _lost(notion.beta)
        case PerfectGeneralization():
            return _both_ways(notion.epsilon, notion.delta) + _lost(notion.beta)
        case TypicalStability() | TwoSampleStability():
            return _both_ways(notion.eta, notion.tau) + _lost(notion.nu)
        case _:
            return _both_ways(notion.epsilon, getattr(notion, "delta", 0.0))


def looseness(strained: float) -> float:
    """The same as a probability: p = 1 − e^−strain."""
    return -math.expm1(-strained)
