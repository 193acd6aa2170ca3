"""Correlated sampling from finite laws: two sides with close laws and shared coins mostly choose the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np

from holdfast.errors import InvalidArgument
from holdfast.replicable._elementary import Floats, logarithm
from holdfast.replicable._tape import Tape, tape_argument, to_exponentials

__all__ = ["correlated_choice", "correlated_log_choice", "correlated_name"]

_BY = "theory 4, correlated sampling"
# Far above the rounding of a quotient and of the logarithm: what may be the least survives the sieve.
_SLACK = 1.0 + 2.0**-40
_LOG_SLACK = 2.0**-20
_AT_ONCE = 2**16
# Few outcomes are often chosen from again and again with the same coins: by every part of a vote.
_FEW = 1024


@lru_cache(maxsize=64)
def _exponentials(tape: Tape, count: int) -> Floats:
    drawn = tape.exponentials(count)
    drawn.flags.writeable = False
    return drawn


def _vector(values: Any, argument: str, expected: str, *, of: str) -> Floats:
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(argument, expected, values, of=of, reference=_BY) from None
    if vector.ndim != 1 or vector.size == 0:
        raise InvalidArgument(argument, expected, values, of=of, reference=_BY)
    return vector


def correlated_choice(probabilities: Any, tape: Tape) -> int:
    """An outcome drawn from ``probabilities``, the same on two sides as often as their laws allow.

    Guarantee: the index is the argmin of E_i/p_i with the tape's exponentials E_i, so it has law p to within
    2⁻⁵² of probability, and two sides with laws p and q choose the same with probability
    ``stability.collision_probability(p, q)`` ≥ (1 − d)/(1 + d), d their total variation.
    Assumes: both sides list the outcomes in the same order; non-negative, of sum 1 (checked to 1e-9).
    Reference: SIS 2.5 (Holenstein 2009); shared exponentials as in theory 4.

    >>> correlated_choice([0.2, 0.5, 0.3], Tape("study-7"))
    2
    """
    of, expected = "correlated_choice", "a sequence of probabilities that sum to 1"
    tape = tape_argument(tape, of=of)
    chances = _vector(probabilities, "probabilities", expected, of=of)
    if not (float(chances.min()) >= 0.0 and abs(float(chances.sum()) - 1.0) <= 1e-9):
        raise InvalidArgument("probabilities", expected, probabilities, of=of, reference=_BY)
    if chances.size <= _FEW:
        with np.errstate(divide="ignore", over="ignore"):
            return int(np.argmin(_exponentials(tape, chances.size) / chances))
    quantiles = tape.exponential_quantiles(chances.size)
    with np.errstate(divide="ignore", over="ignore"):
        # E ≥ its quantile, so only few can be the least: only those need their logarithm.
        at_least = quantiles / chances
        best = int(np.argmin(at_least))
        limit = _SLACK * float(to_exponentials(quantiles[best : best + 1])[0]) / chances[best]
        able = np.flatnonzero(at_least <= limit)
        arrivals = to_exponentials(quantiles[able]) / chances[able]
    return int(able[np.argmin(arrivals)])


def correlated_log_choice(log_weights: Any, tape: Tape) -> int:
    """An outcome drawn with probabilities in proportion to exp(``log_weights``), from shared coins.

    Guarantee: the index is the argmin of ln E_i − ln w_i, hence that of :func:`correlated_choice` for the
    normalised weights; nothing overflows, whatever their size.
    Assumes: the same order on both sides; numbers below +∞, −∞ for weight zero, at least one finite.
    Reference: SIS 2.5; shared exponentials as in theory 4.

    >>> correlated_log_choice([-5000.0, -4999.0, -5001.0], Tape("study-7"))
    1
    """
    of, expected = "correlated_log_choice", "a sequence of numbers, −inf for weight zero, not all of them"
    tape = tape_argument(tape, of=of)
    weights = _vector(log_weights, "log_weights", expected, of=of)
    largest = float(weights.max())
    if not (np.isfinite(largest) and not np.isnan(weights).any()):
        raise InvalidArgument("log_weights", expected, log_weights, of=of, reference=_BY)
    weights = weights - largest
    quantiles = tape.exponential_quantiles(weights.size)
    # The machine's own logarithm sieves; the last bits are settled by the one that is the same everywhere.
    rough = np.log(-np.log1p(-quantiles)) - weights
    able = np.flatnonzero(rough <= float(rough.min()) + _LOG_SLACK)
    arrivals = logarithm(to_exponentials(quantiles[able])) - weights[able]
    return int(able[np.argmin(arrivals)])


def correlated_name(weights: Mapping[str, float] | Iterable[tuple[str, float]], tape: Tape) -> str:
    """A name drawn with probabilities in proportion to ``weights``; the order of the names does not matter.

    Guarantee: each name's exponential comes from the name alone, so two sides that list their outcomes in any
    order, or know only those of positive weight, choose the same name with probability
    ``stability.collision_probability`` of the two laws. Pairs may come as a stream.
    Assumes: distinct names; finite non-negative weights, one of them positive (checked).
    Reference: SIS 2.5; shared exponentials as in theory 4.

    >>> correlated_name({"maple": 0.5, "oak": 0.3, "ash": 0.2}, Tape("study-7"))
    'oak'
    >>> correlated_name([("ash", 2), ("oak", 3), ("maple", 5)], Tape("study-7"))
    'oak'
    """
    of = "correlated_name"
    tape = tape_argument(tape, of=of)
    pairs = weights.items() if isinstance(weights, Mapping) else weights
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InvalidArgument("weights", "a mapping from names to weights, or pairs", weights, of=of)
    best: tuple[float, str] | None = None
    for names, sizes in _blocks(iter(pairs), of=of):
        positive = np.flatnonzero(sizes > 0.0)
        if positive.size == 0:
            continue
        chosen = [names[i] for i in positive]
        arrivals = tape.named_exponentials(chosen) / sizes[positive]
        least = float(arrivals.min())
        first = min(chosen[i] for i in np.flatnonzero(arrivals == least))
        best = (least, first) if best is None else min(best, (least, first))
    if best is None:
        raise InvalidArgument("weights", "at least one name of positive weight", weights, of=of)
    return best[1]


def _blocks(pairs: Iterator[Any], *, of: str) -> Iterator[tuple[list[str], Floats]]:
    """The stream in blocks of names and weights, each checked."""
    seen: set[str] = set()
    while block := list(islice(pairs, _AT_ONCE)):
        try:
            names = [name for name, _ in block]
            sizes = np.array([weight for _, weight in block], dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidArgument(
                "weights", "pairs of a name and a weight", block[:3], of=of, reference=_BY
            ) from None
        known = len(seen)
        seen.update(names)
        if len(seen) != known + len(names):
            raise InvalidArgument("weights", "without a name given twice", block[:3], of=of, reference=_BY)
        if not np.all((sizes >= 0.0) & (sizes < np.inf)):
            raise InvalidArgument(
                "weights", "non-negative finite weights", sizes.tolist(), of=of, reference=_BY
            )
        yield names, sizes
