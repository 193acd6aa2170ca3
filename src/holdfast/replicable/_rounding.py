"""Randomised rounding to a shared grid, shared thresholds for counts, and the bounds behind the sizes.

A replicable number is a number rounded to a grid whose offset the tape draws. Two samples differ where an
edge of the grid falls between them, so the width follows from how far they lie apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, bdtrc

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable._tape import Floats, Tape

__all__ = [
    "CountThreshold",
    "band_end",
    "chernoff",
    "divergence",
    "law_of_sum",
    "mean_gap",
    "round_to_grid",
    "share_gap",
    "snap",
]


def snap(values: npt.ArrayLike, width: npt.ArrayLike, offsets: npt.ArrayLike) -> Floats:
    """The centre of each value's cell; cells of ``width`` begin at ``offsets``·``width`` + whole widths.

    Guarantee: for ``offsets`` uniform on (0, 1), two values v1 and v2 get different centres with probability
    exactly min(1, |v1 − v2|/width), and centre − value is uniform on [−width/2, width/2], whatever the value.
    Assumes: values below 2⁵⁰ widths, so that the rounding of the machine is far below the width; the arrays
    broadcast.
    Reference: Holdfast, replicable rounding.

    >>> snap([0.26, 0.27, 0.4], 0.25, 0.5).tolist()
    [0.25, 0.25, 0.5]
    """
    numbers, widths, shifts = (np.asarray(part, dtype=np.float64) for part in (values, width, offsets))
    cells = np.floor(numbers / widths - shifts)
    # From the cell alone, so that every value of a cell gives the same bits.
    centres: Floats = (cells + (shifts + 0.5)) * widths
    return centres


def round_to_grid(values: npt.ArrayLike, width: npt.ArrayLike, tape: Tape) -> Floats:
    """Values rounded to a grid of ``width`` whose offsets, one for each coordinate, come from the tape.

    Guarantee: as :func:`snap`, independently for each coordinate.
    Assumes: as :func:`snap`.
    Reference: Holdfast, replicable rounding.
    """
    of = "round_to_grid"
    width = checks.real(width, "width", "(0, inf)", of=of)
    values = np.asarray(values, dtype=np.float64)
    if not (np.abs(values) < 2.0**50 * width).all():
        raise InvalidArgument("values", f"finite and below 2⁵⁰ widths of {width:g}", values, of=of)
    return snap(values, width, tape.uniforms(values.size).reshape(values.shape))


def mean_gap(n: int) -> float:
    """E|v1 − v2| for the means of two samples of ``n`` values in [0, 1].

    Guarantee: an upper bound; the fair coin has exactly C(2n, n)/4ⁿ ≤ 1/√(π(n + ¼)), which nothing exceeds.
    Assumes: independent rows of one law, both samples of at least ``n`` rows.
    Reference: docs/theory/replicability.md, "The mean".

    >>> round(mean_gap(100), 6)
    0.056349
    """
    return rounding.up(1.0 / math.sqrt(math.pi * (n + 0.25)))


def share_gap(n: int, variance: float) -> float:
    """E|v1 − v2| for the shares of two samples of ``n`` rows, for a share p with p(1 − p) ≤ ``variance``.

    Guarantee: an upper bound, √((4p(1−p) + 2/n)/(πn)), never above :func:`mean_gap`. The difference is a
    random walk of Bin(n, 2p(1−p)) steps, and k steps lead √(2(k+1)/π) away or less; then Jensen.
    Assumes: as :func:`mean_gap`.
    Reference: Holdfast, replicability.

    >>> round(share_gap(100, 0.09), 6)
    0.034779
    """
    walk = math.sqrt((4.0 * variance + 2.0 / n) / (math.pi * n))
    return min(mean_gap(n), rounding.up(walk))


def divergence(share: float, truth: float) -> float:
    """kl(share ‖ truth) of two coins, in nats."""
    if not 0.0 < truth < 1.0:
        return math.inf if share != truth else 0.0
    first = share * math.log(share / truth) if share > 0.0 else 0.0
    second = (1.0 - share) * math.log((1.0 - share) / (1.0 - truth)) if share < 1.0 else 0.0
    return max(0.0, first + second)


def chernoff(n: int, share: float, truth: float) -> float:
    """P(the share of ``n`` rows is at or beyond ``share``, on its side of ``truth``), from above.

    Guarantee: at most exp(−n kl(share ‖ truth)).
    Assumes: independent rows.
    Reference: Chernoff 1952, Hoeffding 1963.

    >>> round(chernoff(100, 0.6, 0.5), 6)
    0.133514
    """
    return rounding.probability(math.exp(-n * divergence(share, truth)))


def band_end(n: int, inside: float, limit: float, beta: float) -> float:
    """The share between ``inside`` and ``limit``, nearest to ``limit``, that n rows reach from ``limit`` with
    probability at most ``beta``; ``inside`` itself if there is none."""
    needed = -math.log(beta) / n * (1.0 + 1e-9)
    return search.edge(
        lambda share: divergence(share, limit) >= needed,
        inside,
        limit,
        relative=0.0,
        absolute=abs(limit - inside) * 2.0**-49.5,
    )


_SLICES = 256


@dataclass(frozen=True, repr=False)
class CountThreshold(Record):
    """A threshold among ``low`` … ``high`` for a count of ``trials``, ``high`` below half of them.

    θ is uniform between arcsin √((low+1)/(n+1)) and arcsin √((high+2)/(n+1)), and the threshold is
    ⌊(n+1) sin²θ⌋ − 1. Two independent counts with the same binomial law lie on different sides of it
    with probability at most ``mismatch``, whatever the law (docs/theory/replicable-estimation.md).
    """

    trials: int
    low: int
    high: int

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The least and the largest θ."""
        low, high = (math.asin(math.sqrt(i / (self.trials + 1))) for i in (self.low + 1, self.high + 2))
        return low, high

    @property
    def mismatch(self) -> float:
        """P(count ≤ threshold < count' or the other way round) ≤ 1/√(3(n+1)) / arc, for every binomial
        law."""
        start, stop = self._ends
        return 1.0 / (math.sqrt(3.0 * (self.trials + 1)) * (stop - start))

    def __call__(self, coin: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The threshold that a uniform coin picks."""
        start, stop = self._ends
        angle = start + (stop - start) * np.asarray(coin, dtype=np.float64)
        drawn = np.floor((self.trials + 1) * np.sin(angle) ** 2).astype(np.int64) - 1
        kept: npt.NDArray[np.int64] = np.clip(drawn, self.low, self.high)
        return kept

    def below(self, share: float) -> float:
        """P(Bin(n, share) ≤ threshold), over count and threshold; an upper bound."""
        upper = self(np.arange(1, _SLICES + 1) / _SLICES)
        return float(bdtr(upper.astype(np.float64), self.trials, share).mean())

    def above(self, share: float) -> float:
        """P(Bin(n, share) > threshold), over count and threshold; an upper bound."""
        lower = self(np.arange(_SLICES) / _SLICES)
        return float(bdtrc(lower.astype(np.float64), self.trials, share).mean())


def law_of_sum(cumulative: npt.ArrayLike, count: int) -> Floats:
    """Probabilities that the sum of ``count`` independent terms is 0, 1, …, N lattice steps.

    ``cumulative[i]`` is P(term ≤ i steps). Every term is rounded up to the lattice, so the sum of the
    first i + 1 returned numbers is a lower bound on P(sum ≤ i steps), up to 1e-14·N·count; what is
    missing from 1 lies beyond N.

    >>> law_of_sum([0.5, 1.0, 1.0], 2).round(12).tolist()
    [0.25, 0.5, 0.25]
    """
    single = np.diff(np.asarray(cumulative, dtype=np.float64), prepend=0.0)
    total: Floats | None = None
    power = np.maximum(single, 0.0)
    while count:
        if count & 1:
            total = power if total is None else _product(total, power)
        count >>= 1
        if count:
            power = _product(power, power)
    if total is None:
        raise ValueError("a sum needs at least one term")
    lower: Floats = np.maximum(total - _TRANSFORM_ERROR, 0.0)
    return lower


# Each transform errs by less than this in every cell; see the remark in law_of_sum.
_TRANSFORM_ERROR = 1e-14


def _product(first: Floats, second: Floats) -> Floats:
    """The convolution of two laws, cut off at the length of the lattice."""
    size = 1 << (2 * first.size - 1).bit_length()
    both = np.fft.irfft(np.fft.rfft(first, size) * np.fft.rfft(second, size), size)[: first.size]
    cut: Floats = np.maximum(both, 0.0)
    return cut
