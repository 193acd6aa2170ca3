"""Rows in order that forget their past: after m rows, or at a declared rate.

Blocks of such rows are nearly independent. So the tail of a mean follows (Yu's bound), and a gap sets rows
aside.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, rounding, search
from holdfast.dependence._model import (
    LATER,
    MOST_ROWS,
    Dependence,
    Split,
    bound_to,
    check_split,
    contiguous,
    from_squared_differences,
    part_size,
    row_differences,
    value_range,
    whole_steps,
)
from holdfast.dependence._privacy import Routes, group_routes
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record
from holdfast.tails import SubGaussian, Tail, TailRow

LogRemembered = Callable[[NDArray[np.int64]], NDArray[np.float64]]

# A series is cut into blocks in at most this many ways, each with blocks twice as long as before.
_MOST_LAYOUTS = 6
# With fewer blocks intervals are too wide to be useful.
_FEWEST_BLOCKS = 12
_LN4 = math.log(4.0)


@dataclass(frozen=True, repr=False)
class Layout(Record):
    """A way to cut a series into ``blocks`` blocks of ``length`` rows, with ``gap`` rows left out after each.

    Guarantee: the joint law of the blocks is within total variation ``price`` of the law in which they are
    independent, each with its own marginal.
    Assumes: the model that it was made for.
    Reference: ``docs/theory/dependence.md``, "Blocks".
    """

    length: int
    gap: int
    blocks: int
    price: float

    @property
    def rows(self) -> int:
        """How many rows lie in blocks."""
        return self.length * self.blocks


def blocks_in(n: int, length: int, gap: int) -> int:
    """How many whole blocks fit into ``n`` rows."""
    return (n + gap) // (length + gap)


def price_of(log_remembered: LogRemembered, blocks: int, gap: int) -> float:
    """How far, in total variation, blocks with gaps are from independent, by the telescoping sum."""
    if blocks < 2:
        return 0.0
    remembered = float(log_remembered(np.array([gap + 1]))[0])
    return min(1.0, rounding.up((blocks - 1) * math.exp(remembered)))


def layouts_of(log_remembered: LogRemembered, n: int, allowance: float) -> tuple[Layout, ...]:
    """Up to six layouts of ``n`` rows in order whose prices sum to at most ``allowance``.

    The blocks of the first are a quarter as long as a gap; those of each next one are twice as long. Long
    blocks leave few rows out, and short ones keep a unit's range small.
    """
    each = allowance / _MOST_LAYOUTS
    first = _least_gap(log_remembered, n, 1, each)
    if first is None:
        return ()
    layouts = []
    length = max(1, first // 4)
    for _ in range(_MOST_LAYOUTS):
        gap = _least_gap(log_remembered, n, length, each)
        if gap is None or (blocks := blocks_in(n, length, gap)) < _FEWEST_BLOCKS:
            break
        layouts.append(Layout(length, gap, blocks, price_of(log_remembered, blocks, gap)))
        length *= 2
    return tuple(layouts)


def _least_gap(log_remembered: LogRemembered, n: int, length: int, allowance: float) -> int | None:
    """The shortest gap at which blocks of this length cost at most ``allowance``; None if no gap is long
    enough."""

    def fits(gap: int) -> bool:
        return price_of(log_remembered, blocks_in(n, length, gap), gap) <= allowance

    return search.least_whole(fits, above=-1, start=1, most=n - 1)


@dataclass(frozen=True, repr=False)
class BlockTail(Tail):
    """Yu's bound for the mean of ``n`` values in a range of length ``spread``, with the best block length.

    Guarantee: P(|mean − E| > t) ≤ 4 exp(−2μ s²/R²) + 2(μ−1) β(a) with s = (t − (1−w)R)/w. Here blocks have a
    rows, n ≥ 2μa, and w = 2μa/n is the share of rows in whole blocks. The rows beyond 2μa move the mean by at
    most (1−w)R. Every block length is valid, so the best is taken at every distance. A mean of values in a
    range of length R is never farther than R from its own mean.
    Assumes: the mixing coefficients (not checkable from the data).
    Reference: Yu 1994, lemma 4.1; ``docs/theory/dependence.md``, "The tail of a mean".

    Args:
        blocks: How many blocks there are, for each block length.
        lengths: The block lengths that are tried, in rows.
        log_cost: ln of what dependence between blocks costs, for each block length.
    """

    n: int
    spread: float
    blocks: NDArray[np.float64] = field(repr=False, compare=False)
    lengths: NDArray[np.float64] = field(repr=False, compare=False)
    log_cost: NDArray[np.float64] = field(repr=False, compare=False)
    _content: bytes = field(repr=False)

    def gamma(self, alpha: float) -> float:
        """Nats of surprise at distance ``alpha``, with the best block length for it."""
        alpha = checks.real(alpha, "alpha", "[0, inf)", of="BlockTail")
        if alpha >= self.spread:
            return math.inf
        inside = self._inside
        s = np.maximum(0.0, (alpha / self.spread - (1.0 - inside)) / inside)
        bound = np.logaddexp(_LN4 - 2.0 * self.blocks * s * s, self.log_cost)
        return rounding.down(max(0.0, -float(bound.min())))

    def radius_at(self, nats: float) -> float:
        """The distance exceeded with probability at most exp(−nats); ``spread`` if no block length reaches
        this probability."""
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

    Of all block lengths with the same number of blocks, the longest has the smallest β. Wherever the bound
    says something (s < R), it also has the least cost of dropped rows. So only a = ⌊n/2μ⌋ is needed: about
    2√(n/2) lengths.
    """
    half = n // 2
    root = math.isqrt(half)
    counts = np.arange(1, root + 1)
    lengths = np.unique(np.concatenate([half // counts, half // (half // counts)]))
    blocks = half // lengths
    with np.errstate(divide="ignore"):
        log_cost = np.log(2.0 * (blocks - 1)) + log_beta(lengths)
    return BlockTail(n, spread, blocks.astype(float), lengths.astype(float), log_cost, log_cost.tobytes())


def beta_mixing_tail(beta: float, n: int, lo: float, hi: float) -> BlockTail:
    """The tail of the mean of ``n`` β-mixing values in [lo, hi], by Yu's blocks with the best block length.

    ``beta`` is the sequence β(1), β(2), …, in total variation; it must not increase, and its last value
    stands for every longer lag.

    Guarantee: P(|mean − E| > t) ≤ 4 exp(−2μ t²/R²) + 2(μ−1) β(a) for n = 2μa; dropped rows are paid for.
    Assumes: take the rows up to i and those from i + a on; β(a) bounds the total variation between their
    joint law and the product of the two laws, for every i (not checkable from the data).
    Reference: Yu 1994, lemma 4.1; ``docs/theory/dependence.md``, "The tail of a mean".

    Args:
        lo: The least value that a row can have.
        hi: The largest value that a row can have.

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


@dataclass(frozen=True, repr=False)
class MDependent(Dependence):
    """``n`` rows in order, where rows more than ``m`` places apart are independent.

    >>> independent, window = MDependent(1000, 0), MDependent(1000, 3)
    >>> round(window.mean_tail(0, 1).radius(0.05) / independent.mean_tail(0, 1).radius(0.05), 6)
    2.0
    """

    n: int
    m: int

    name: ClassVar[str] = "m-dependent rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", checks.whole(self.n, "n", of="MDependent"))
        object.__setattr__(self, "m", checks.whole(self.m, "m", at_least=0, of="MDependent"))

    @property
    def _parameters(self) -> tuple[str, ...]:
        return (f"m = {self.m:,}",)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (f"Groups of rows that stand more than {self.m} places apart in the table are independent.",)

    def log_remembered(self, steps: ArrayLike) -> NDArray[np.float64]:
        """ln 1 up to ``m`` steps, ln 0 beyond: groups of rows more than m places apart are independent.

        >>> MDependent(100, 4).log_remembered([0, 4, 5]).tolist()
        [0.0, 0.0, -inf]
        """
        return np.where(whole_steps(steps) <= self.m, 0.0, -np.inf)

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        groups = min(self.m + 1, self.n)
        tail = from_squared_differences(groups * (hi - lo) ** 2 / self.n)
        return (TailRow(f"every {groups}-th row", f"Janson 2004, theorem 2.1; χ = {groups} (exact)", tail),)

    def difference_tail(self, differences: ArrayLike) -> SubGaussian:
        """The tail of any statistic that moves by at most ``differences`` (one number, or one for each row).

        Guarantee: P(|q − E q| > t) ≤ 2 exp(−2t² / Σ_k C_k²), for a statistic fixed in advance. C_k is the sum
        of the differences of the k-th stretch of max(m, 1) rows and of the m rows after it.
        Assumes: m-dependence and the differences (not checkable from the data).
        Reference: McDiarmid 1989, a stretch at a time; ``docs/theory/dependence.md``.

        >>> round(MDependent(1000, 3).difference_tail(0.001).sigma, 6)
        0.054701
        """
        c = row_differences(differences, self.n, of="MDependent")
        before = np.concatenate([[0.0], np.cumsum(c)])
        first = np.arange(0, self.n, max(self.m, 1))
        reached = before[np.minimum(first + max(self.m, 1) + self.m, self.n)] - before[first]
        slack = 8.0 * self.n * float(np.finfo(float).eps) * before[-1]
        return from_squared_differences(rounding.up(float(((reached + slack) ** 2).sum())))

    @property
    def _stretched(self) -> int:
        """Σ_k s_k², s_k the number of rows in the k-th stretch of max(m, 1) rows and the m rows after it.

        It takes the place of n in the bounds for independent rows.
        """
        length = max(self.m, 1)
        whole = max(0, (self.n - self.m) // length)
        rest = [min(length + self.m, self.n - first) for first in range(whole * length, self.n, length)]
        return min(self.n**2, whole * (length + self.m) ** 2 + sum(size * size for size in rest))

    def _routes(self) -> Routes:
        return group_routes(1 if self.m == 0 else self.n)

    def joint_epsilon(self, epsilon: float, *, of: str = "joint_epsilon") -> float:
        """Rows are revealed stretch by stretch.

        Reference: ``docs/theory/reusable-holdout.md``.
        """
        return rounding.up(epsilon * math.sqrt(self._stretched / self.n))

    def statistic_tail(self) -> SubGaussian:
        """McDiarmid's bound a stretch at a time, in closed form."""
        return from_squared_differences(rounding.up(self._stretched / self.n**2))

    def scaled_to(self, n: int, *, of: str = "scaled_to") -> MDependent:
        """``n`` rows with the same ``m``."""
        return self if n == self.n else replace(self, n=n)

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """The first rows, then ``m`` rows dropped, then the protected rows.

        Proof that the bias is 0: the last training row and the first protected row are m + 1 places apart,
        and groups of rows more than m places apart are independent.

        Args:
            rng: The source of random numbers.

        >>> parts = MDependent(100, 4).split(0.5, np.random.default_rng(0))
        >>> parts.dropped, parts.protected_model
        (4, MDependent(n=48, m=4))
        """
        share, rng, _ = check_split(share, rng, beta, of="MDependent")
        usable = self.n - self.m
        if usable < 2:
            raise NotEnoughRows(self.m + 2, self.n, what="Setting a training part aside")
        size = part_size(share, usable)
        rest = MDependent(usable - size, self.m, extra_assumptions=self.extra_assumptions)
        return Split(*contiguous(size, self.m, self.n), rest, 0.0, self.assumptions)

    def fresh(self, beta: float = 0.05) -> Split:
        """All rows but the first ``m``, which may depend on earlier rows.

        Proof that the bias is 0: any earlier row and any protected row are more than m places apart.

        >>> MDependent(100, 4).fresh().protected_model
        MDependent(n=96, m=4)
        """
        if self.n <= self.m:
            raise NotEnoughRows(self.m + 1, self.n, what="An epoch after another")
        rest = MDependent(self.n - self.m, self.m, extra_assumptions=self.extra_assumptions)
        return Split(*contiguous(0, self.m, self.n), rest, 0.0, (*self.assumptions, LATER))


class Series(Dependence):
    """Rows in order that forget their past. The model may be made before its table exists."""

    @property
    def follows_training(self) -> bool:
        return True

    def with_rows(self, n: int) -> Self:
        """The same model about ``n`` rows; one that was made for another number of rows is refused."""
        return self._about(n) if self.n is None else super().with_rows(n)

    @abstractmethod
    def log_remembered(self, steps: Any) -> NDArray[np.float64]: ...

    @abstractmethod
    def _about(self, n: int) -> Self:
        """The same model about ``n`` rows."""

    def _after_gap(self, n: int) -> Self:
        """The model of ``n`` rows after a gap whose bias is charged."""
        return self._about(n)

    def split(self, share: float, rng: np.random.Generator, beta: float = 0.05) -> Split:
        """The first rows, then the shortest gap g with β(g + 1) ≤ ``beta``/20, then the protected rows.

        Proof that the bias is at most β(g + 1): see ``docs/theory/dependence.md``, "Setting a training part
        aside".
        """
        share, rng, beta = check_split(share, rng, beta, of=type(self).__name__)
        n = bound_to(self, of="split")
        gap, bias = self._gap(beta)
        usable = n - gap
        if usable < 2:
            what = f"Setting a training part aside, with the {gap:,} rows of a gap after it,"
            raise NotEnoughRows(gap + 2, n, what=what)
        size = part_size(share, usable)
        return Split(*contiguous(size, gap, n), self._after_gap(usable - size), bias, self.assumptions)

    def fresh(self, beta: float = 0.05) -> Split:
        """All rows but the first g, with the same gap and the same proof as ``split``."""
        beta = checks.real(beta, "beta", "(0, 1)", of=f"{type(self).__name__}.fresh")
        n = bound_to(self, of="fresh")
        gap, bias = self._gap(beta)
        if n <= gap:
            raise NotEnoughRows(gap + 1, n, what=f"An epoch after another, with the {gap:,} rows of a gap,")
        return Split(*contiguous(0, gap, n), self._after_gap(n - gap), bias, (*self.assumptions, LATER))

    def _gap(self, beta: float) -> tuple[int, float]:
        """The shortest gap after which all but ``beta``/20 is forgotten, and what is still remembered."""
        steps = self._first_below(math.log(beta / 20.0))
        if steps is None:
            raise InvalidArgument(
                "beta",
                "large enough for the rows to forget their past within 2^40 places",
                beta,
                of=self.name,
            )
        return steps - 1, rounding.probability(math.exp(float(self.log_remembered(steps))))

    def _first_below(self, target: float) -> int | None:
        """The fewest steps, at least 1, after which ln of what is remembered is at most ``target``.

        What is remembered does not increase. None if 2^40 steps are not enough.
        """
        return search.least_whole(lambda steps: float(self.log_remembered(steps)) <= target, most=1 << 40)


@dataclass(frozen=True, repr=False)
class Mixing(Series):
    """A stationary series of rows that forgets its past at a declared ``rate``, with no model behind it.

    The rows up to any point, and those from g places later on, are within total variation
    ``constant``·``rate``^g of independent (β-mixing). That is declared and never estimated; every certificate
    prints it. ``rate`` lies in (0, 1). ``n`` is the number of rows; a model without it is bound to a table by
    ``with_rows``, or by the guard it is given to.

    ``correlation`` declares more, for much narrower intervals: the rows are states of a stationary Markov
    chain, or functions of its states, and no function of one state is correlated with a function of the next
    by more than this. Of a Gaussian autoregression of order 1 it is the coefficient.

    >>> series = Mixing(0.5).with_rows(10_000)
    >>> round(series.mean_tail(0, 1).radius(0.05), 4)
    0.0867
    >>> parts = series.split(0.5, np.random.default_rng(0), beta=0.05)
    >>> parts.dropped, round(parts.bias, 9), parts.protected_model
    (8, 0.001953125, Mixing(rate=0.5, constant=1, n=4996))
    """

    rate: float
    constant: float = field(default=1.0, kw_only=True)
    correlation: float | None = field(default=None, kw_only=True)
    n: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # until it is bound to a table

    name: ClassVar[str] = "declared mixing"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", checks.real(self.rate, "rate", "(0, 1)", of="Mixing"))
        constant = checks.real(self.constant, "constant", "(0, inf)", of="Mixing")
        object.__setattr__(self, "constant", constant)
        if self.correlation is not None:
            correlation = checks.real(self.correlation, "correlation", "[0, 1)", of="Mixing")
            object.__setattr__(self, "correlation", correlation)
        if self.n is not None:
            object.__setattr__(self, "n", checks.whole(self.n, "n", at_most=MOST_ROWS, of="Mixing"))

    @property
    def operator_norm(self) -> float | None:
        """The largest correlation of one state and the next, where it was declared."""
        return self.correlation

    def _content_of_law(self) -> tuple[Any, ...]:
        law = self.rate, self.constant, self.n
        return law if self.correlation is None else (*law, self.correlation)

    def _visible(self) -> dict[str, Any]:
        shown = super()._visible()
        return {name: value for name, value in shown.items() if name != "correlation" or value is not None}

    @property
    def _parameters(self) -> tuple[str, ...]:
        chain = () if self.correlation is None else (f"correlation of neighbours ≤ {self.correlation:.6g}",)
        return (f"β(g) ≤ {self._formula}", *chain)

    @property
    def _formula(self) -> str:
        return f"{'' if self.constant == 1.0 else f'{self.constant:.6g}·'}{self.rate:.6g}^g"

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            "The rows, in the order of the table, are a stationary series: a stretch of rows has the same "
            "law wherever it begins.",
            "For every g, the rows up to any point and those from g places later on are within total "
            f"variation {self._formula} of independent. This rate is declared, not estimated: nothing in the "
            "data supports it.",
            *(
                ()
                if self.correlation is None
                else (
                    "The rows are functions of the states of a stationary Markov chain. No function of one "
                    f"state is correlated with a function of the next by more than {self.correlation:.6g}. "
                    "This is declared too.",
                )
            ),
        )

    def _about(self, n: int) -> Self:
        return replace(self, n=n)

    def log_remembered(self, steps: ArrayLike) -> NDArray[np.float64]:
        """ln min(1, ``constant``·``rate``^steps).

        >>> np.exp(Mixing(0.5, constant=4).log_remembered([0, 1, 4])).round(9).tolist()
        [1.0, 1.0, 0.25]
        """
        steps = whole_steps(steps)
        logs = rounding.up(math.log(self.constant)) + steps * min(0.0, rounding.up(math.log(self.rate)))
        return np.where(steps == 0, 0.0, np.minimum(0.0, logs))

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        n, spread = bound_to(self, of="mean_tail"), hi - lo
        if n == 1:
            return (TailRow("one row", "Hoeffding 1963", from_squared_differences(spread * spread)),)
        tail = block_tail(self.log_remembered, n, spread)
        return (TailRow("β-mixing blocks", "Yu 1994, lemma 4.1, with the best block length", tail),)


@dataclass(frozen=True, repr=False)
class Blocks(Series):
    """Rows in order, cut into blocks of ``length`` rows with ``gap`` rows left out after each.

    ``mixing`` says what of the past is still known after a gap: a number, the largest total variation between
    the rows from there on given all rows before the gap and their own law; or a :class:`Mixing`. ``n`` is the
    number of rows; None: that of the table it is used for.

    Guarantee: the blocks are within total variation (blocks − 1)·mixing of independent blocks. A guard
    charges that once, and then answers by sums over blocks.
    Assumes: ``mixing`` (not checkable from the data).
    Reference: ``docs/theory/dependence.md``, "Blocks".

    >>> Blocks(100, 20, 1e-6).with_rows(12_000).layouts(0.05)[0].blocks
    100
    """

    length: int
    gap: int
    mixing: float | Mixing
    n: int = None  # type: ignore[assignment]  # that of the table it is used for

    name: ClassVar[str] = "blocks of rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", checks.whole(self.length, "length", of="Blocks"))
        object.__setattr__(self, "gap", checks.whole(self.gap, "gap", at_least=0, of="Blocks"))
        if not isinstance(self.mixing, Mixing):
            object.__setattr__(self, "mixing", checks.real(self.mixing, "mixing", "[0, 1)", of="Blocks"))
        if self.n is not None:
            n = checks.whole(self.n, "n", at_most=MOST_ROWS, of="Blocks")
            object.__setattr__(self, "n", n)
            if blocks_in(n, self.length, self.gap) < 2:
                raise NotEnoughRows(
                    2 * self.length + self.gap, n, what="Two blocks with the gap between them"
                )

    def _about(self, n: int) -> Self:
        return replace(self, n=n)

    @property
    def remembered(self) -> float:
        """How much of the past is still known after a gap."""
        if isinstance(self.mixing, Mixing):
            return min(1.0, rounding.up(math.exp(float(self.mixing.log_remembered([self.gap + 1])[0]))))
        return self.mixing

    def log_remembered(self, steps: ArrayLike) -> NDArray[np.float64]:
        with np.errstate(divide="ignore"):
            after = float(np.log(np.array(self.remembered)))
        return np.where(whole_steps(steps) <= self.gap, 0.0, after)

    @property
    def _parameters(self) -> tuple[str, ...]:
        return (f"blocks of {self.length:,} rows, {self.gap:,} rows between them",)

    @property
    def _stated(self) -> tuple[str, ...]:
        return (
            f"The rows are a stationary series in the order of the table. After a gap of {self.gap:,} rows "
            "the rows before it change the distribution of the rows after it by at most "
            f"{self.remembered:.3g} in total "
            "variation.",
        )

    def layouts(self, beta: float = 0.05) -> tuple[Layout, ...]:
        """The layout that was declared."""
        n = bound_to(self, of="layouts")
        blocks = blocks_in(n, self.length, self.gap)
        return (Layout(self.length, self.gap, blocks, self._price(n, beta)),)

    def _price(self, n: int, beta: float) -> float:
        blocks = blocks_in(n, self.length, self.gap)
        price = price_of(self.log_remembered, blocks, self.gap)
        if not price <= beta / 2:
            raise InvalidArgument(
                "gap",
                f"long enough: {blocks:,} blocks with {self.remembered:.3g} remembered after each gap are "
                f"within {price:.3g} of independent, and at most half of the error, {beta / 2:.3g}, may be "
                "spent on that. Give a longer gap, longer blocks or a lower confidence",
                self.gap,
                of="Blocks",
            )
        return price

    def _rows(self, lo: float, hi: float) -> tuple[TailRow, ...]:
        n = bound_to(self, of="mean_tail")
        tail = block_tail(self.log_remembered, n, hi - lo)
        return (TailRow("β-mixing blocks", "Yu 1994, lemma 4.1, with the best block length", tail),)

    def _gap(self, beta: float) -> tuple[int, float]:
        return self.gap, self.remembered
