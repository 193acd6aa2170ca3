"""β-mixing rows: Yu's blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, rounding
from holdfast.dependence._model import MOST_ROWS, value_range
from holdfast.errors import InvalidArgument
from holdfast.tails import Tail

_LN4 = math.log(4.0)


@dataclass(frozen=True, repr=False)
class BlockTail(Tail):
    """Yu's bound for the mean of ``n`` values in a range of length ``spread``, with the best block length.

    Guarantee: with blocks of a rows, n ≥ 2μa, and w = 2μa/n the share of rows in whole blocks,
    P(|mean − E| > t) ≤ 4 exp(−2μ s²/R²) + 2(μ−1) β(a), s = (t − (1−w)R)/w: the rows beyond 2μa move the mean
    by at most (1−w)R. Every block length is valid, so the best is taken at every distance; and a mean of
    values in a range of length R is never farther than R from its own mean.
    Assumes: the mixing coefficients (not checkable from the data).
    Reference: Yu 1994, lemma 4.1; theory 1.1.
    """

    n: int
    spread: float
    blocks: NDArray[np.float64] = field(repr=False, compare=False)
    lengths: NDArray[np.float64] = field(repr=False, compare=False)
    log_cost: NDArray[np.float64] = field(repr=False, compare=False)
    _content: bytes = field(repr=False)

    def gamma(self, alpha: Any) -> float:
        """Nats of surprise at distance ``alpha``, with the best block length for it."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of="BlockTail")
        if alpha >= self.spread:
            return math.inf
        inside = self._inside
        s = np.maximum(0.0, (alpha / self.spread - (1.0 - inside)) / inside)
        bound = np.logaddexp(_LN4 - 2.0 * self.blocks * s * s, self.log_cost)
        return rounding.down(max(0.0, -float(bound.min())))

    def radius_at(self, nats: Any) -> float:
        """The distance exceeded with probability at most exp(−nats); ``spread`` where no block gets there."""
        nats = checks.real(nats, "nats", "[0, inf)", of="BlockTail.radius_at")
        cost = self.log_cost + nats
        possible = cost < 0.0
        if not possible.any():
            return self.spread
        left = np.log(-np.expm1(cost[possible]))
        s = np.sqrt((_LN4 + nats - left) / (2.0 * self.blocks[possible]))
        inside = self._inside[possible]
        return min(self.spread, rounding.up(self.spread * float((inside * s + (1.0 - inside)).min())))

    @property
    def _inside(self) -> NDArray[np.float64]:
        return 2.0 * self.blocks * self.lengths / self.n


def block_tail(
    log_beta: Callable[[NDArray[np.int64]], NDArray[np.float64]], n: int, spread: float
) -> BlockTail:
    """Yu's bound from ln β(a), for n ≥ 2 rows.

    Of all block lengths with the same number of blocks the longest has the smallest β and, wherever the
    bound says something (s < R), the least cost of dropped rows, so only a = ⌊n/2μ⌋ is needed: about 2√(n/2)
    lengths.
    """
    half = n // 2
    root = math.isqrt(half)
    counts = np.arange(1, root + 1)
    lengths = np.unique(np.concatenate([half // counts, half // (half // counts)]))
    blocks = half // lengths
    with np.errstate(divide="ignore"):
        log_cost = np.log(2.0 * (blocks - 1)) + log_beta(lengths)
    return BlockTail(n, spread, blocks.astype(float), lengths.astype(float), log_cost, log_cost.tobytes())


def beta_mixing_tail(beta: Any, n: Any, lo: Any, hi: Any) -> BlockTail:
    """The tail of the mean of ``n`` β-mixing values in [lo, hi], by Yu's blocks with the best block length.

    ``beta`` is the sequence β(1), β(2), …, in total variation; it must not increase, and its last value
    stands for every longer lag.

    Guarantee: P(|mean − E| > t) ≤ 4 exp(−2μ t²/R²) + 2(μ−1) β(a) for n = 2μa; dropped rows are paid for.
    Assumes: β(a) bounds the total variation between the joint law of the rows up to i and those from i + a on
    and the product of the two, for every i (not checkable from the data).
    Reference: Yu 1994, lemma 4.1; theory 1.1.

    >>> tail = beta_mixing_tail([0.5**a for a in range(1, 60)], n=10_000, lo=0, hi=1)
    >>> round(tail.radius(0.05), 4)
    0.0867
    """
    lo, hi = value_range(lo, hi, of="beta_mixing_tail")
    n = checks.whole(n, "n", at_least=2, at_most=MOST_ROWS, of="beta_mixing_tail", by="Yu 1994")
    values = np.array(checks.reals(beta, "beta", "[0, 1]", of="beta_mixing_tail", by="Yu 1994"))
    if not (np.diff(values) <= 0.0).all():
        raise InvalidArgument(
            "beta", "a sequence that does not increase", beta, of="beta_mixing_tail", reference="Yu 1994"
        )
    with np.errstate(divide="ignore"):
        logs = np.log(values)
    return block_tail(lambda a: logs[np.minimum(a, len(logs)) - 1], n, hi - lo)
