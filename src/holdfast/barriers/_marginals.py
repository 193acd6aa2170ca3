"""Marginals and their signs: the plain, the private and the replicable algorithm (SIS section 5).

The replicable one rounds all means together, by shared droplets whose surface is nearly as small as a ball's.
One rule for each algorithm says how many rows it needs and how wide it may round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.mechanisms import Noise, widest_ratio
from holdfast.records import Record
from holdfast.replicable import Tape, correlated_normal, round_to_grid, tape_argument
from holdfast.stability import DP, Notion, Replicability
from holdfast.typing import MarginalsMethod

__all__ = [
    "METHODS",
    "MOST_COLUMNS",
    "VARIANCE",
    "Marginals",
    "Task",
    "droplet",
    "one_way_marginals",
    "one_way_marginals_rows",
    "sign_one_way_marginals",
    "sign_one_way_marginals_rows",
]


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, repr=False, eq=False)
class Marginals(Record):
    """One number for each column, and what is promised about them; ``width`` is the grid's or the noise's.

    ``guarantee`` is the stability that was asked for, None for the plain algorithm; ``tape`` the shared coins
    in words.

    Args:
        value: The estimate of each marginal, or its sign.
        accuracy: How far it may be from the truth.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        rows: How many rows there are.
        method: How it was rounded or noised.
    """

    value: Floats
    guarantee: DP | Replicability | None
    accuracy: float
    beta: float
    rows: int
    method: str
    width: float
    tape: str | None = field(default=None)

    def __post_init__(self) -> None:
        self.value.setflags(write=False)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.value, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """The record as a dictionary of plain values, ready for JSON."""
        return {**super().to_dict(), "value": self.value.tolist()}


def one_way_marginals(
    samples: npt.ArrayLike,
    *,
    accuracy: float,
    beta: float,
    stability: Notion | None = None,
    method: MarginalsMethod = "rounding",
    tape: Tape | None = None,
    simulation: bool = False,
    seed: int | None = None,
) -> Marginals:
    """The means of d columns of signs, each to within ``accuracy``: plainly, privately or replicably.

    ``stability`` is None for the column means, DP(ε, δ) for the Gaussian mechanism, Replicability(ρ) for
    shared rounding with ``tape``: "rounding" rounds every column to its own grid. For at most 20 columns
    "joint" adds normal noise to all of them together and "droplets" rounds them together: of order d rows in
    place of d², for 310 shifted lattices and 2²⁰ darts at 20 columns. Fewer rows than rounding they need from
    about 55 columns on, where neither can be run (``compare_ways``).

    Guarantee: with at least ``one_way_marginals_rows`` rows, all d values are within ``accuracy`` except with
    probability ``beta``, and the stability holds; DP for one row replaced, whatever the rows.
    Assumes: independent rows of one distribution, columns as they like (not checkable); entries −1 and 1
    (checked). Private noise comes from the operating system, or from ``seed`` in a simulation.
    Reference: SIS Definition 5.2; constants: Holdfast.

    Args:
        samples: Rows of +1 and −1, one column for each marginal.
        method: "rounding", "droplets" or "joint", for replicable estimates.
        simulation: Whether the noise may come from ``seed``; then nothing is protected.

    >>> rng = np.random.default_rng(1)
    >>> table = 2 * (rng.random((50_000, 3)) < [0.5, 0.9, 0.2]) - 1
    >>> promise = {"accuracy": 0.1, "beta": 0.01, "stability": Replicability(0.1)}
    >>> found = one_way_marginals(table, tape=Tape("study-7"), **promise)
    >>> bool((abs(found.value - [0.0, 0.8, -0.6]) <= 0.1).all()), found.guarantee
    (True, Replicability(rho=0.1))
    """
    of = "one_way_marginals"
    means, rows = _column_means(samples, of)
    task = _task(means.size, accuracy, beta, signs=False, of=of)
    return _estimated(task, means, rows, stability, method, tape, simulation, seed, of)


def sign_one_way_marginals(
    samples: npt.ArrayLike,
    *,
    accuracy: float,
    beta: float,
    stability: Notion | None = None,
    method: MarginalsMethod = "rounding",
    tape: Tape | None = None,
    simulation: bool = False,
    seed: int | None = None,
) -> Marginals:
    """The signs of d column means, right where it matters: Σ v_j p_j ≥ Σ |p_j| − d·``accuracy``.

    Guarantee: with at least ``sign_one_way_marginals_rows`` rows, v ∈ {−1, 1}^d is that good except with
    probability ``beta``, and the stability holds. Arguments as for ``one_way_marginals``, of whose estimates
    these are the signs.
    Assumes: independent rows of one distribution with independent columns (not checkable); entries −1 and 1
    (checked).
    Reference: SIS Definition 5.8; constants: Holdfast.

    Args:
        samples: Rows of +1 and −1, one column for each marginal.
        method: "rounding", "droplets" or "joint", for replicable estimates.
        tape: The shared coins; both laboratories use the same.
        simulation: Whether the noise may come from ``seed``; then nothing is protected.
        seed: The seed of a simulation.

    >>> table = 2 * (np.random.default_rng(1).random((4000, 100)) < 0.6) - 1
    >>> found = sign_one_way_marginals(table, accuracy=0.4, beta=0.05, stability=DP(1.0, 1e-6))
    >>> bool(found.value.mean() > 0.0)
    True
    """
    of = "sign_one_way_marginals"
    means, rows = _column_means(samples, of)
    task = _task(means.size, accuracy, beta, signs=True, of=of)
    return _estimated(task, means, rows, stability, method, tape, simulation, seed, of)


def one_way_marginals_rows(
    d: int,
    *,
    accuracy: float,
    beta: float,
    stability: Notion | None = None,
    method: MarginalsMethod = "rounding",
) -> int:
    """The fewest rows for which ``one_way_marginals`` keeps its promise.

    Guarantee: plain (2/α²) ln(2d/β); private about √(8d ln(2d/β))/(aα), a the widest Gaussian shift at (ε,
    δ); "rounding" ((d/(ρ√π) + √(2 ln(2d/β)))/α)²; "droplets" ((π√(2d)(2−ρ)/(2ρ) + √(2 ln(2d/β)))/α)²;
    "joint" (2/α²) ln(2d/β)(1 + d(2−ρ)²/(πρ²)).
    Assumes: as ``one_way_marginals``.
    Reference: Holdfast, ``docs/theory/barriers-samples.md``.

    Args:
        d: How many columns there are.
        accuracy: How far from the truth the result may be.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        stability: What the algorithm must keep: DP, Replicability, or None for neither.
        method: "rounding", "droplets" or "joint", for replicable estimates.

    >>> [one_way_marginals_rows(1000, accuracy=0.1, beta=0.05, stability=s) for s in (None, DP(1.0, 1e-6))]
    [2120, 13406]
    """
    task = _task(d, accuracy, beta, signs=False, of="one_way_marginals_rows")
    return _rows(task, stability, method, "one_way_marginals_rows")


def sign_one_way_marginals_rows(
    d: int,
    *,
    accuracy: float,
    beta: float,
    stability: Notion | None = None,
    method: MarginalsMethod = "rounding",
) -> int:
    """The fewest rows for which ``sign_one_way_marginals`` keeps its promise.

    Guarantee: with T = α/(2/√e + √(8 ln(1/β)/d)): plain 1/T²; private about 2√d/(aT); "rounding" (1 +
    d²/(3πρ²))/T²; "droplets" (1 + (π²/6 − 1)d((2−ρ)/ρ)²)/T²; "joint" (1 + d(2−ρ)²/(πρ²))/T²; or the rows
    that give every mean to within α/2, if these are fewer.
    Assumes: as ``sign_one_way_marginals``.
    Reference: Holdfast, ``docs/theory/barriers-samples.md``.

    Args:
        d: How many columns there are.
        accuracy: How far from the truth the result may be.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        stability: What the algorithm must keep: DP, Replicability, or None for neither.
        method: "rounding", "droplets" or "joint", for replicable estimates.

    >>> sign_one_way_marginals_rows(1000, accuracy=0.3, beta=0.05, stability=DP(1.0, 1e-6))
    1229
    """
    task = _task(d, accuracy, beta, signs=True, of="sign_one_way_marginals_rows")
    return _rows(task, stability, method, "sign_one_way_marginals_rows")


def _estimated(
    task: Task,
    means: Floats,
    rows: int,
    stability: Any,
    method: str,
    tape: Any,
    simulation: bool,
    seed: Any,
    of: str,
) -> Marginals:
    needed = _rows(task, stability, method, of)
    if rows < needed:
        raise NotEnoughRows(needed, rows, what=f"{of} with these promises")
    shared = None
    if stability is None:
        method, width, value = "plain", 0.0, means
    elif isinstance(stability, DP):
        noise = Noise.hiding(
            "gaussian",
            2.0 * np.sqrt(task.d) / rows,
            widest_ratio(stability.epsilon, stability.delta),
            dimensions=task.d,
        )
        method, width = "gaussian", noise.scale
        value = noise.add(means, simulation=simulation, seed=seed)
    else:
        shared = tape_argument(tape, of=of)
        # The width follows from the promise and not from the number of rows: both laboratories use the same.
        width = task.width(needed, method)
        value = rounded_means(means, width, method, shared)
    value = np.where(value < 0.0, -1.0, 1.0) if task.signs else np.clip(value, -1.0, 1.0)
    return Marginals(
        value=value,
        guarantee=stability,
        accuracy=task.accuracy,
        beta=task.beta,
        rows=rows,
        method=method,
        width=float(width),
        tape=None if shared is None else str(shared),
    )


def rounded_means(means: Floats, width: float, method: str, tape: Tape) -> Floats:
    """Column means, rounded by the tape: each to its own grid, or all together."""
    if method == "joint":
        return correlated_normal(means, width, tape.branch("joint"))
    if method == "rounding":
        return round_to_grid(means, width, tape.branch("marginals"))
    return droplet(means, width, tape.branch("droplets"))


def _column_means(samples: Any, of: str) -> tuple[Floats, int]:
    table = np.asarray(samples)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iuf" or not (np.abs(table) == 1).all():
        expected = "a table of −1 and 1, one row for each person and one column for each question"
        raise InvalidArgument("samples", expected, "something else (not shown)", of=of)
    return table.mean(axis=0, dtype=np.float64), len(table)


def _task(d: Any, accuracy: Any, beta: Any, *, signs: bool, of: str) -> Task:
    by = "SIS Definition 5.8" if signs else "SIS Definition 5.2"
    return Task(
        d=checks.whole(d, "d", at_most=10**9, of=of, by=by),
        accuracy=checks.real(accuracy, "accuracy", "[1e-6, 2]", of=of, by=by),
        beta=checks.real(beta, "beta", "[1e-300, 1)", of=of, by=by),
        signs=signs,
    )


def _rows(task: Task, stability: Any, method: str, of: str) -> int:
    checks.choice(method, "method", METHODS, of=of)
    if isinstance(stability, DP):
        checks.real(stability.epsilon, "epsilon", "[1e-6, 1e3]", of=of)
        checks.real(stability.delta, "delta", "[1e-300, 1)", of=of)
    elif isinstance(stability, Replicability):
        checks.real(stability.rho, "rho", "[1e-6, 1]", of=of)
        running = of in ("one_way_marginals", "sign_one_way_marginals")
        if method != "rounding" and running and task.d > MOST_COLUMNS:
            raise InvalidArgument("method", f"'rounding' for more than {MOST_COLUMNS} columns", method, of=of)
    elif stability is not None:
        raise InvalidArgument("stability", "None, DP or Replicability", stability, of=of)
    rows = search.least_whole(lambda count: task.enough(count, stability, method), most=_MOST_ROWS)
    if rows is None:
        raise OverflowError("no number of rows up to 2³⁰⁰ is enough")
    return rows


# 2^d darts are thrown on average: a minute at 24.
MOST_COLUMNS = 20
# Of the error, in widths²: 1/12 − 1/(2π²), also its variance proxy.
VARIANCE = 1.0 / 12.0 - 0.5 / np.pi**2
_NUMBERS_AT_ONCE = 2**20


def droplet(values: npt.ArrayLike, width: float, tape: Tape) -> Floats:
    """A point within half a ``width`` of ``values`` in every coordinate, chosen by shared darts.

    Darts (Z, H) come from the tape; the first with H < Π cos²(π(v − x)_j/width), x the translate of Z by
    whole widths that is nearest to v, gives x.

    Guarantee: x − v has the density Π (2/width)cos²(π e_j/width), whatever v; two laboratories whose values
    are Δ apart differ with probability at most 2t/(1+t), t the total variation of that density and its shift
    by Δ, which is at most π‖Δ‖₂/width.
    Assumes: at most 20 coordinates (checked): about 2^d darts are needed, and nobody knows how to do with
    polynomially many.
    Reference: Kindler, O'Donnell, Rao and Wigderson 2008; Holenstein 2009.

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> first = droplet([0.31, -0.2], 0.5, Tape("study-7"))
    >>> bool((abs(first - [0.31, -0.2]) <= 0.25).all())
    True
    >>> bool((first == droplet([0.3, -0.21], 0.5, Tape("study-7"))).all())
    True
    """
    of = "droplet"
    tape = tape_argument(tape, of=of)
    width = checks.real(width, "width", "(0, inf)", of=of)
    scaled = np.atleast_1d(np.asarray(values, dtype=np.float64)) / width
    if scaled.ndim != 1 or not (np.abs(scaled) < 2.0**40).all():
        raise InvalidArgument("values", "a vector of numbers, each below 2⁴⁰ widths", values, of=of)
    d = checks.whole(scaled.size, "the number of values", at_most=MOST_COLUMNS, of=of)
    # The first dart that hits does not depend on how many darts are thrown at once.
    darts = min(4 * 2**d, _NUMBERS_AT_ONCE // (d + 1))
    start = 0
    while True:
        thrown = tape.uniforms(darts * (d + 1), start=start).reshape(darts, d + 1)
        cells = np.rint(scaled - thrown[:, :d])
        chance = np.prod(np.cos(np.pi * (scaled - thrown[:, :d] - cells)) ** 2, axis=1)
        hits = np.flatnonzero(thrown[:, d] < chance)
        if hits.size:
            first = hits[0]
            # Computed from the dart and the whole number only, so everyone whom it hits gets the same bits.
            centre: Floats = (thrown[first, :d] + cells[first]) * width
            return centre
        start += darts * (d + 1)


METHODS = ("rounding", "droplets", "joint")
# The hardest promise that the callers accept (d = 10⁹, accuracy and ρ of 10⁻⁶) needs about 2¹⁴⁰ rows. Counts
# are Python integers, so a search that comes this far only shows that no number keeps some promise.
_MOST_ROWS = 2**300


@dataclass(frozen=True)
class Task:
    """d marginals to within ``accuracy``, or their ``signs`` to within it on average, except for ``beta``."""

    d: int
    accuracy: float
    beta: float
    signs: bool

    def accurate(self, variance: float) -> bool:
        """Whether errors that are subgaussian with this variance proxy in every column keep the promise."""
        if variance <= 0.0:
            return True
        if self.signs and math.sqrt(variance) <= self._spread:
            return True
        needed = self.accuracy / (2.0 if self.signs else 1.0)
        return 2.0 * self.d * math.exp(-needed * needed / (2.0 * variance)) <= self.beta

    def width(self, rows: int, method: str) -> float:
        """The widest grid or droplets, or the largest sd of joint noise, after ``rows`` rows; 0 where none is
        small enough."""
        if method == "joint":
            needed = self.accuracy / (2.0 if self.signs else 1.0)
            variance = needed * needed / (2.0 * (math.log(2.0 * self.d) - math.log(self.beta)))
            variance = max(variance, self._spread**2) if self.signs else variance
            return rounding.down(math.sqrt(max(variance - 1.0 / rows, 0.0)))
        # In logarithms, because 2d/β overflows for β near 10⁻³⁰⁰.
        spread = math.sqrt(2.0 * (math.log(2.0 * self.d) - math.log(self.beta)) / rows)
        widths = [0.0, 2.0 * (self.accuracy / (2.0 if self.signs else 1.0) - spread)]
        if self.signs:
            left = self._spread**2 - 1.0 / rows
            share = 1.0 / 12.0 if method == "rounding" else VARIANCE
            widths.append(math.sqrt(max(left, 0.0) / share))
        return rounding.down(max(widths))

    @property
    def _spread(self) -> float:
        """The largest τ for which signs of τ-subgaussian estimates keep the promise.

        A column loses 2τ/√e on average at most, and its loss is 2τ-subgaussian around its mean.
        """
        factor = 2.0 * math.exp(-0.5) + math.sqrt(8.0 * math.log(1.0 / self.beta) / self.d)
        return rounding.down(self.accuracy / factor)

    def mismatch(self, rows: int, method: str) -> float:
        """An upper bound on the probability that two laboratories differ."""
        width = self.width(rows, method)
        if not width > 0.0:
            return 1.0
        if method == "rounding":
            return rounding.probability(self.d * 2.0 / math.sqrt(math.pi * rows) / width)
        # Total variation of a droplet and its shift, or of two normal laws.
        steep = 1.0 / math.sqrt(2.0 * math.pi) if method == "joint" else math.pi
        apart = steep * math.sqrt(2.0 * self.d / rows) / width
        return rounding.probability(2.0 * apart / (1.0 + apart))

    def private_sd(self, rows: int, stability: DP) -> float:
        """The noise that hides one row; rounding it to its grid is inside the margin."""
        shift = 2.0 * math.sqrt(self.d) / rows
        return shift / widest_ratio(stability.epsilon, stability.delta) * (1.0 + 1e-6)

    def enough(self, rows: int, stability: DP | Replicability | None, method: str) -> bool:
        """Whether the promise is proved for this many rows."""
        if stability is None:
            return self.accurate(1.0 / rows)
        if isinstance(stability, DP):
            return self.accurate(1.0 / rows + self.private_sd(rows, stability) ** 2)
        return self.mismatch(rows, method) <= stability.rho
