"""Correlated sampling from laws on 0, 1, 2, …: outcomes without an end (SIS Corollary 1.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["correlated_countable"]

_BY = "SIS Corollary 1.4"
_FIRST, _MOST = 2**6, 2**28
# Outcomes looked at together, so that a law with a long tail costs time and not memory.
_AT_ONCE = 2**20


def correlated_countable(
    law: Callable[[npt.NDArray[np.int64]], Any], tape: Tape, *, tolerance: Any = 1e-9
) -> int:
    """An outcome 0, 1, 2, … drawn from ``law``, the same on two sides as often as their laws allow.

    ``law`` takes an array of outcomes and returns their probabilities. The outcomes are looked at in turn
    until none of the rest can arrive first, except with probability ``tolerance``.

    Guarantee: the outcome is the argmin of E_i/p_i over all i, with the tape's exponentials, except with
    probability at most ``tolerance``. So its law is p to within ``tolerance``, and two sides with laws at
    total variation d differ with probability at most 2d/(1 + d) + 2 ``tolerance``.
    Assumes: both sides number the outcomes alike; probabilities of sum 1, of which all but ``tolerance`` is
    within the first 2²⁸ outcomes (a law that ends too late is refused).
    Reference: SIS Corollary 1.4 (Kalavasis, Karbasi, Moran and Velegkas 2023); shared exponentials as in
    theory 4.

    >>> correlated_countable(lambda i: 0.5 ** (i + 1.0), Tape("study-7"))
    2
    """
    of, expected = "correlated_countable", "a function from outcomes to probabilities that sum to 1"
    tape = tape_argument(tape, of=of)
    tolerance = checks.real(tolerance, "tolerance", "[1e-12, 0.1]", of=of, by=_BY)
    best, arrival = -1, np.inf
    start, stop, total = 0, _FIRST, 0.0
    while True:
        outcomes = np.arange(start, stop, dtype=np.int64)
        try:
            chances = np.asarray(law(outcomes), dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument("law", expected, law, of=of, reference=_BY) from None
        if chances.shape != outcomes.shape or not bool(((chances >= 0.0) & (chances <= 1.0)).all()):
            raise InvalidArgument("law", expected, chances, of=of, reference=_BY)
        total += float(chances.sum())
        if total > 1.0 + 1e-9:
            raise InvalidArgument("law", expected, f"a sum of {total:.12g}", of=of, reference=_BY)
        with np.errstate(divide="ignore"):
            arrivals = tape.exponentials(outcomes.size, start=start) / chances
        first = int(np.argmin(arrivals))
        if float(arrivals[first]) < arrival:
            best, arrival = start + first, float(arrivals[first])
        # The least of all later arrivals is exponential with rate 1 − total.
        if arrival * max(0.0, 1.0 - total) <= tolerance:
            return best
        if stop >= _MOST:
            asked = "one with all but the tolerance in its first 2²⁸ outcomes"
            raise InvalidArgument("law", asked, f"{1.0 - total:.3g} beyond", of=of, reference=_BY)
        start, stop = stop, min(2 * stop, stop + _AT_ONCE)
