"""Small algorithms to compile, on binary rows."""

from __future__ import annotations

import math
from typing import Any

from reductions_oracles import coin_of

from holdfast.reductions import Algorithm
from holdfast.stability import DP


def response(epsilon: float, guarantee: Any = None) -> Algorithm:
    """One row, told truthfully with probability e^ε/(1 + e^ε); with another ``guarantee`` it lies."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return Algorithm(
        lambda rows, tape: int(rows[0]) ^ int(coin_of(tape) > truth),
        rows_needed=1,
        guarantee=DP(epsilon) if guarantee is None else guarantee,
        outcomes=(0, 1),
        probabilities=lambda rows: [1.0 - truth, truth] if rows[0] else [truth, 1.0 - truth],
    )


def shaky(guarantee: Any, bad: float = 0.1) -> Algorithm:
    """Bad coins, a share of them, echo the row; good ones have an output of their own."""
    return Algorithm(
        lambda rows, tape: int(rows[0]) if coin_of(tape) < bad else 2 + int(5 * coin_of(tape)),
        rows_needed=1,
        guarantee=guarantee,
        outcomes=range(7),
    )
