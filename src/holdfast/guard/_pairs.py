"""Do rows that stand together resemble each other? Sums over pairs of rows, with the mean and the variance
that they have when the values are dealt out to the rows at random.

The pairs are neighbours, rows some places apart, or rows of one group. Independent rows with the same law are
exchangeable, so for them every way to deal the values out is equally likely, whatever their law is. The mean
and the variance over all ways need two numbers of the pairs: how many there are, and how many two of them
share a row (``docs/guides/correlated-rows.md`` shows the use).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """What the moments need to know of a set of pairs of rows: ``count`` of them, and in ``overlaps`` cases
    two of them share a row. ``triangles`` says how many of these cases have their third pair too."""

    count: float
    overlaps: float
    triangles: float = 0.0

    @classmethod
    def apart(cls, lag: int, stretches: Sequence[int] | Whole) -> Pairs:
        """Rows that are ``lag`` places apart, inside stretches of so many rows.

        >>> Pairs.apart(1, [5])
        Pairs(count=4.0, overlaps=3.0, triangles=0.0)
        """
        lengths = np.asarray(stretches)
        return cls(float(np.maximum(lengths - lag, 0).sum()), float(np.maximum(lengths - 2 * lag, 0).sum()))

    @classmethod
    def inside(cls, groups: Sequence[int] | Whole) -> Pairs:
        """Any two rows of one group, for groups of so many rows."""
        sizes = np.asarray(groups, dtype=float)
        overlaps = float((sizes * (sizes - 1) * (sizes - 2)).sum()) / 2
        return cls(float((sizes * (sizes - 1)).sum()) / 2, overlaps, overlaps)


@dataclass(frozen=True)
class Resemblance:
    """How much more alike the rows of a set of pairs are than all rows: the ``correlation``, 0 on average for
    independent rows, and its ``z``. Independent rows stay within ``spread`` times a limit for z."""

    correlation: float
    z: float
    spread: float


def product_moments(squares: Any, fourths: Any, rows: Any, pairs: Pairs) -> tuple[Any, Any]:
    """The exact mean and variance of the sum of xᵢxⱼ over pairs, over all orders of values that sum to 0.

    ``squares`` and ``fourths`` are the sums of their second and fourth powers.

    Proof: over different a, b, c and d, the sum of xₐxᵦ is −S₂, that of xₐxᵦ²x_c is 2S₄ − S₂², and that of
    xₐxᵦx_cx_d is 3S₂² − 6S₄, because the values sum to 0. Two pairs are the same, share a row, or are apart.
    """
    m, o = pairs.count, pairs.overlaps
    two = rows * (rows - 1.0)
    three, four = two * (rows - 2), two * (rows - 2) * (rows - 3)
    mean = -m * squares / two
    same = (squares**2 - fourths) / two
    sharing = (2 * fourths - squares**2) / three
    disjoint = (3 * squares**2 - 6 * fourths) / four
    return mean, m * same + 2 * o * sharing + (m * m - m - 2 * o) * disjoint - mean**2


def agreement_moments(counts: Any, rows: Any, pairs: Pairs) -> tuple[Any, Any]:
    """The exact mean and variance of the number of equal pairs, over all orders of the values.

    ``counts`` says for each row how many rows have its value, along the last axis: Σ_c f(n_c) over values is
    Σᵢ f(nᵢ)/nᵢ over rows.

    Proof: as for :func:`product_moments`, with the chance that two, three or twice two rows agree.
    """
    m, o = pairs.count, pairs.overlaps
    k = np.asarray(counts, dtype=float)
    twos, threes = (k - 1).sum(-1), ((k - 1) * (k - 2)).sum(-1)
    fours = ((k - 1) * (k - 2) * (k - 3)).sum(-1) + twos**2 - (k * (k - 1) ** 2).sum(-1)
    two = rows * (rows - 1.0)
    chance = twos / two
    sharing = threes / (two * (rows - 2))
    disjoint = fours / (two * (rows - 2) * (rows - 3))
    return m * chance, m * chance + 2 * o * sharing + (m * m - m - 2 * o) * disjoint - (m * chance) ** 2


def centred_ranks(which: Whole, counts: Whole) -> Floats:
    """The ranks of values, ties in their middle, with mean 0 and mean square 1; all 0 where all are equal.
    ``which`` of the different values each is, in their order, and how often they occur: ``numpy.unique``
    tells both.

    >>> centred_ranks(np.array([0, 1, 1, 2]), np.array([1, 2, 1])).round(3)
    array([-1.414,  0.   ,  0.   ,  1.414])
    """
    ranks = np.asarray((np.cumsum(counts) - (counts + 1) / 2)[which], dtype=float)
    ranks -= ranks.mean() if len(ranks) else 0.0
    size = math.sqrt(float(np.square(ranks).sum()) / max(len(ranks), 1))
    return ranks / size if size > 0 else ranks


def product_resemblance(x: Floats, total: float, pairs: Pairs) -> Resemblance | None:
    """The correlation of centred values over pairs with the sum ``total`` of products; None where nothing can
    vary."""
    squared = np.square(x)  # Sums and no dot products: those wake threads, which takes longer.
    rows, squares, fourths = len(x), float(squared.sum()), float(np.square(squared).sum())
    if rows < 4 or not pairs.count > 0 or not squares > 0:
        return None
    mean, variance = product_moments(squares, fourths, rows, pairs)
    # So many rows carry the sum: as many as are 1 where most are 0.
    carrying = squares**2 / fourths
    scale = pairs.count * squares / rows
    return _compared(total, mean, variance, scale, pairs, pairs.count * (carrying / rows) ** 2)


def agreement_resemblance(counts: Any, equal: float, pairs: Pairs) -> Resemblance | None:
    """The excess of ``equal`` pairs, as a part of what there can be; None where nothing can vary."""
    rows = len(counts)
    if rows < 4 or not pairs.count > 0:
        return None
    mean, variance = map(float, agreement_moments(counts, rows, pairs))
    # Two rows that agree in a rare value move the number of equal pairs by two.
    return _compared(equal, mean, variance, pairs.count - mean, pairs, variance / 4)


def _compared(
    total: float, mean: float, variance: float, scale: float, pairs: Pairs, events: float
) -> Resemblance | None:
    if not variance > 1e-12 * max(1.0, mean * mean) or not scale > 0:
        return None
    spread = math.sqrt(variance)
    return Resemblance(
        (total - mean) / scale, honest_z((total - mean) / spread, pairs, events), spread / scale
    )


def honest_z(z: float, pairs: Pairs, events: float) -> float:
    """A z-score as small as a normal one would be with the same probability, where few large groups or few
    rare values make large scores likely.

    A sum over few groups is like a χ² with as many degrees of freedom (2m³/t² has its skewness, for m pairs
    and t triangles), and one over rare values like a Poisson number of ``events``. Both are turned into
    normal scores by the root of their deviance. The lower tails are lighter than normal, so scores below 0
    stay as they are.
    """
    if z <= 0:
        return z
    if pairs.triangles > 0:
        freedom = 2 * pairs.count**3 / pairs.triangles**2
        u = z * math.sqrt(2 / freedom)
        z = math.sqrt(freedom * max(0.0, u - math.log1p(u)))
    if events > 0:
        u = z / math.sqrt(events)
        z = math.sqrt(2 * events * max(0.0, (1 + u) * math.log1p(u) - u))
    return z
