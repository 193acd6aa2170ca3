"""Which training rows a diagnosis looks at, and whether rows that stand together resemble each other.

Only training rows are read. From a large training part the diagnosis takes stretches of neighbouring rows to
compare neighbours, and a random sample to compare rows of one group.

Resemblance is a sum over pairs of rows: neighbours, rows some places apart, or rows of one group. Independent
rows with the same law are exchangeable, so every order of the values is equally likely, whatever their law
is. The mean and the variance over all orders follow from two numbers: how many pairs there are, and how many
two pairs share a row (``docs/guides/correlated-rows.md`` shows the use).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from holdfast.engines import Rows
    from holdfast.queries import CheckedQuery
    from holdfast.strategies import Setup


Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """The facts about a set of pairs of rows that the moments need. There are ``count`` pairs. In
    ``overlaps`` cases two of them share a row; in ``triangles`` of these the third pair is in the set too."""

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
    """How much more alike the rows of a set of pairs are than all rows. ``correlation`` is 0 on average for
    independent rows, and ``z`` is its score. Independent rows stay within ``spread`` times a limit for z."""

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
    """The ranks of values, ties in their middle, with mean 0 and mean square 1; all 0 if all are equal.

    ``which`` says for each row which of the different values it has, in their order, and ``counts`` how often
    each occurs: ``numpy.unique`` returns both.

    >>> centred_ranks(np.array([0, 1, 1, 2]), np.array([1, 2, 1])).round(3)
    array([-1.414,  0.   ,  0.   ,  1.414])
    """
    ranks = np.asarray((np.cumsum(counts) - (counts + 1) / 2)[which], dtype=float)
    ranks -= ranks.mean() if len(ranks) else 0.0
    size = math.sqrt(float(np.square(ranks).sum()) / max(len(ranks), 1))
    return ranks / size if size > 0 else ranks


def product_resemblance(x: Floats, total: float, pairs: Pairs) -> Resemblance | None:
    """The correlation of centred values over pairs with the sum ``total`` of products; None if nothing can
    vary."""
    squared = np.square(x)  # Sums and no dot products: a dot product starts threads, which takes longer.
    rows, squares, fourths = len(x), float(squared.sum()), float(np.square(squared).sum())
    if rows < 4 or not pairs.count > 0 or not squares > 0:
        return None
    mean, variance = product_moments(squares, fourths, rows, pairs)
    # The number of rows that dominate the sum: if most values are 0 and the others 1, the number of ones.
    carrying = squares**2 / fourths
    scale = pairs.count * squares / rows
    return _compared(total, mean, variance, scale, pairs, pairs.count * (carrying / rows) ** 2)


def agreement_resemblance(counts: Any, equal: float, pairs: Pairs) -> Resemblance | None:
    """The excess of ``equal`` pairs, as a part of the largest possible excess; None if nothing can vary."""
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
    """The z-score of a normal value with the same probability. Few large groups, or few rare values, make
    large scores likely; this corrects for them.

    A sum over few groups is like a χ² with as many degrees of freedom (2m³/t² has its skewness, for m pairs
    and t triangles). A sum over rare values is like a Poisson number of ``events``. Both are turned into
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


_STRETCHES = 8
_LAGS = 12
# In a window of so many rows, sorting or a slow change hardly moves the mean.
_WINDOW = 16
# A table counts as sorted by a column, at least in long pieces, under two conditions. At most one step in a
# hundred goes the other way, and at most one in ten of the steps that change the value.
_OTHER_WAY, _OF_CHANGES = 0.01, 0.1
# Columns with fewer values than this are not looked at.
FEWEST = 20


@dataclass(frozen=True)
class ColumnValues:
    """The values of one column or question, in the rows that have one. ``codes`` are numbers in the order of
    the values. ``present`` says which rows have a value. ``named`` values are not numbers: they are equal or
    not."""

    name: str
    codes: Floats
    present: NDArray[np.bool_]
    named: bool = False

    @classmethod
    def of(cls, name: str, column: Any, entering: NDArray[np.bool_] | None = None) -> ColumnValues:
        """The values of an arrow column, in the rows that are ``entering``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        present = np.array(pc.is_valid(column))
        named = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if named:
            encoded = column.dictionary_encode()
            texts = encoded.dictionary
            places = np.empty(len(texts), dtype=float)
            places[np.array(pc.array_sort_indices(texts))] = np.arange(len(texts))
            codes = np.append(places, math.nan)[np.array(encoded.indices.fill_null(len(texts)))]
        else:
            if pa.types.is_temporal(column.type):
                kind = pa.int32() if pa.types.is_date32(column.type) else pa.int64()
                column = column.cast(kind)
            codes = np.array(column.cast(pa.float64(), safe=False).fill_null(math.nan))
        present &= ~np.isnan(codes)
        if entering is not None:
            present &= entering
        return cls(name, codes[present], present, named)

    @cached_property
    def different(self) -> tuple[Whole, Whole]:
        """For each value, its place among the different values, and how often each of those occurs."""
        _, which, counts = np.unique(self.codes, return_inverse=True, return_counts=True)
        return which, counts

    @cached_property
    def ranks(self) -> Floats:
        """The ranks with mean 0 and mean square 1."""
        return centred_ranks(*self.different)

    @property
    def repeats(self) -> Whole:
        """For each value, how many values are equal to it."""
        which, counts = self.different
        return np.asarray(counts[which])

    def among(self, rows: NDArray[np.bool_]) -> ColumnValues:
        """The values in some of the rows."""
        present = self.present & rows
        if present.sum() == len(self.codes):
            return self
        return ColumnValues(self.name, self.codes[present[self.present]], present, self.named)


@dataclass(frozen=True)
class Ordered:
    """Training rows in the order of the data: stretches of rows, about ``gap`` places apart in the data."""

    blocks: tuple[Rows, ...]
    gap: float

    @property
    def stretch(self) -> Whole:
        """For each row, which stretch it is in."""
        return np.repeat(np.arange(len(self.blocks)), [block.count for block in self.blocks])


@dataclass(frozen=True)
class TrainingSample:
    """The rows to compare neighbours with (None if rows have no order), and the rows to compare groups with.
    The latter are chosen at random; a share ``share`` of a group is among them on average."""

    ordered: Ordered | None
    grouped: Rows
    share: float

    @classmethod
    def of(cls, setup: Setup, most: int) -> TrainingSample | None:
        """At most about ``most`` training rows; None without a training part."""
        training, pilot = setup.training, setup.pilot
        if training is None or pilot is None:
            return None
        rows, few = training.rows, training.rows.count <= most
        grouped = rows if few and not rows.stays else pilot.rows
        # A model sets whole groups and stretches aside. A training part that the caller gave is no such part.
        apart = setup.model is not None or "given" in setup.facts["training"]
        of_all = 1.0 if apart else rows.count / (rows.count + setup.protected.rows.count)
        ordered = None
        if not rows.stays and not rows.in_database:
            ordered = Ordered((rows,) if few else _stretches(rows, most), 1.0 / of_all)
        return cls(ordered, grouped, of_all * grouped.count / max(rows.count, 1))


def _stretches(rows: Rows, most: int) -> tuple[Rows, ...]:
    length = most // _STRETCHES
    starts = np.linspace(0, rows.count - length, _STRETCHES).astype(int)
    return tuple(rows.block(int(start), length) for start in starts)


def columns_of(blocks: Sequence[Rows], names: Sequence[str]) -> dict[str, ColumnValues]:
    """The values of columns in all rows of some blocks."""
    import pyarrow as pa

    table = pa.concat_tables([block.plain(names) for block in blocks])
    return {name: ColumnValues.of(name, table.column(name)) for name in names}


def values_of(blocks: Sequence[Rows], checked: CheckedQuery, name: str) -> ColumnValues:
    """The values of a question in the rows that enter it, clipped as the question clips them."""
    import ibis
    import pyarrow as pa
    import pyarrow.compute as pc

    schema, reads = blocks[0].schema, sorted(checked.reads) or list(blocks[0].columns[:1])
    table = pa.concat_tables([block.plain(reads) for block in blocks])
    expression = checked.values(ibis.table(schema.to_ibis(reads), name="looked_at"), schema)
    database = _database(os.getpid()).cursor()
    try:
        database.register("looked_at", table)
        answer = database.sql(str(ibis.to_sql(expression, dialect="duckdb", pretty=False))).to_arrow_table()
    finally:
        database.close()
    value, entering = answer.column("value"), np.ones(len(table), dtype=bool)
    if "passes" in answer.column_names:
        entering &= np.array(answer.column("passes").combine_chunks().fill_null(False))
    if "group" in answer.column_names:
        entering &= np.array(pc.is_valid(answer.column("group").combine_chunks()))
    if not checked.skips and not checked.other_bounds:
        missing = bool(checked.missing) if pa.types.is_boolean(value.type) else checked.missing
        value = value.fill_null(missing)
    values = ColumnValues.of(name, value, entering)
    low, high = checked.bounds
    clipped = values.codes if checked.query.bounds is None else np.clip(values.codes, low, high)
    return ColumnValues(name, clipped, values.present)


@lru_cache(maxsize=1)
def _database(process: int) -> Any:
    """One empty database for the whole process: opening a new one takes longer than a question."""
    import duckdb

    settings = {"enable_external_access": False, "python_enable_replacements": False}
    return duckdb.connect(config=settings)


@dataclass(frozen=True)
class AlongTable:
    """How alike neighbours are in one column: next to each other, at some lags, and within windows of a few
    rows. Also how the values change with their place."""

    neighbours: Resemblance
    nearby: Resemblance | None
    lags: tuple[int, ...]
    autocorrelation: tuple[float, ...]
    trend: float
    trend_z: float
    is_sorted: bool


def measure_along(values: ColumnValues, stretch: Whole) -> AlongTable | None:
    """Look at values in the order of the rows; None if too few differ."""
    codes, inside, x = values.codes, stretch[values.present], values.ranks
    if len(x) < FEWEST or not x.any():
        return None
    lengths = np.bincount(inside)
    counts = values.repeats if values.named else None
    neighbours = _at_lag(1, x, inside, lengths, counts)
    if neighbours is None:  # No two texts are equal, but their order can still be looked at.
        counts = None
        neighbours = _at_lag(1, x, inside, lengths, counts)
    if neighbours is None:
        return None
    lags = [2**power for power in range(_LAGS) if 2**power <= max(1, int(lengths.max()) // 4)]
    along = [_at_lag(lag, x, inside, lengths, counts) for lag in lags]
    place = np.arange(len(x)) - (len(x) - 1) / 2
    trend = float((x * place).sum()) / math.sqrt(float((x * x).sum()) * float((place * place).sum()))
    steps = np.diff(x)[inside[1:] == inside[:-1]]
    up, down = int((steps > 0).sum()), int((steps < 0).sum())
    return AlongTable(
        neighbours=neighbours,
        nearby=_nearby(x, inside, codes if counts is not None else None),
        lags=tuple(lag for lag, resemblance in zip(lags, along, strict=True) if resemblance is not None),
        autocorrelation=tuple(resemblance.correlation for resemblance in along if resemblance is not None),
        trend=trend,
        trend_z=trend * math.sqrt(len(x) - 1),
        is_sorted=min(up, down) <= min(_OTHER_WAY * len(steps), _OF_CHANGES * (up + down)),
    )


def _at_lag(lag: int, x: Floats, stretch: Whole, lengths: Whole, counts: Whole | None) -> Resemblance | None:
    pairs, together = Pairs.apart(lag, lengths), stretch[lag:] == stretch[:-lag]
    if counts is None:
        return product_resemblance(x, float((x[lag:] * x[:-lag])[together].sum()), pairs)
    return agreement_resemblance(counts, float((x[lag:] == x[:-lag])[together].sum()), pairs)


def _nearby(x: Floats, stretch: Whole, codes: Floats | None) -> Resemblance | None:
    """Compare neighbours with rows a few places away. Each window is permuted by itself, so that a slow
    change, as in a sorted table, does not count."""
    windows = len(x) // _WINDOW
    if windows == 0:
        return None
    cut = (windows, _WINDOW)
    blocks = stretch[: windows * _WINDOW].reshape(cut)
    in_one_stretch = blocks[:, 0] == blocks[:, -1]
    pairs = Pairs.apart(1, [_WINDOW])
    if codes is None:
        y = x[: windows * _WINDOW].reshape(cut)[in_one_stretch]
        y = y - y.mean(axis=1, keepdims=True)
        squares, fourths = (y**2).sum(axis=1), (y**4).sum(axis=1)
        mean, variance = product_moments(squares, fourths, _WINDOW, pairs)
        excess = (y[:, 1:] * y[:, :-1]).sum(axis=1) - mean
        scale = squares * pairs.count / _WINDOW
    else:
        y = codes[: windows * _WINDOW].reshape(cut)[in_one_stretch]
        counts = (y[:, :, None] == y[:, None, :]).sum(axis=2)
        mean, variance = agreement_moments(counts, _WINDOW, pairs)
        excess = (y[:, 1:] == y[:, :-1]).sum(axis=1) - mean
        scale = pairs.count - mean
    total, size = math.sqrt(max(0.0, float(variance.sum()))), float(scale.sum())
    if not total > 1e-9 or not size > 1e-9:
        return None
    return Resemblance(float(excess.sum()) / size, float(excess.sum()) / total, total / size)
