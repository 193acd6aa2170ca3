"""Marginals and their signs: the plain, the private and the replicable algorithm (SIS section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.barriers._droplets import MOST_COLUMNS, droplet
from holdfast.barriers._marginal_rows import METHODS, Task, fewest
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.mechanisms import Noise, widest_ratio
from holdfast.records import Record
from holdfast.replicable import correlated_normal
from holdfast.replicable._grid import round_to_grid
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import DP, Replicability

__all__ = [
    "Marginals",
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
    samples: Any,
    *,
    accuracy: float,
    beta: float,
    stability: Any = None,
    method: str = "rounding",
    tape: Any = None,
    simulation: bool = False,
    seed: Any = None,
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
    samples: Any,
    *,
    accuracy: float,
    beta: float,
    stability: Any = None,
    method: str = "rounding",
    tape: Any = None,
    simulation: bool = False,
    seed: Any = None,
) -> Marginals:
    """The signs of d column means, right where it matters: Σ v_j p_j ≥ Σ |p_j| − d·``accuracy``.

    Guarantee: with at least ``sign_one_way_marginals_rows`` rows, v ∈ {−1, 1}^d is that good except with
    probability ``beta``, and the stability holds. Arguments as for ``one_way_marginals``, of whose estimates
    these are the signs.
    Assumes: independent rows of one distribution with independent columns (not checkable); entries −1 and 1
    (checked).
    Reference: SIS Definition 5.8; constants: Holdfast.

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
    d: int, *, accuracy: float, beta: float, stability: Any = None, method: str = "rounding"
) -> int:
    """The fewest rows for which ``one_way_marginals`` keeps its promise.

    Guarantee: plain (2/α²) ln(2d/β); private about √(8d ln(2d/β))/(aα), a the widest Gaussian shift at (ε,
    δ); "rounding" ((d/(ρ√π) + √(2 ln(2d/β)))/α)²; "droplets" ((π√(2d)(2−ρ)/(2ρ) + √(2 ln(2d/β)))/α)²;
    "joint" (2/α²) ln(2d/β)(1 + d(2−ρ)²/(πρ²)).
    Assumes: as ``one_way_marginals``.
    Reference: Holdfast, ``docs/theory/barriers-samples.md``.

    >>> [one_way_marginals_rows(1000, accuracy=0.1, beta=0.05, stability=s) for s in (None, DP(1.0, 1e-6))]
    [2120, 13406]
    """
    task = _task(d, accuracy, beta, signs=False, of="one_way_marginals_rows")
    return _rows(task, stability, method, "one_way_marginals_rows")


def sign_one_way_marginals_rows(
    d: int, *, accuracy: float, beta: float, stability: Any = None, method: str = "rounding"
) -> int:
    """The fewest rows for which ``sign_one_way_marginals`` keeps its promise.

    Guarantee: with T = α/(2/√e + √(8 ln(1/β)/d)): plain 1/T²; private about 2√d/(aT); "rounding" (1 +
    d²/(3πρ²))/T²; "droplets" (1 + (π²/6 − 1)d((2−ρ)/ρ)²)/T²; "joint" (1 + d(2−ρ)²/(πρ²))/T²; or the rows
    that give every mean to within α/2, if these are fewer.
    Assumes: as ``sign_one_way_marginals``.
    Reference: Holdfast, ``docs/theory/barriers-samples.md``.

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
        # The width belongs to the promise and not to the rows at hand, so that it is the same everywhere.
        width = task.width(needed, method)
        value = rounded(means, width, method, shared)
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


def rounded(means: Floats, width: float, method: str, tape: Tape) -> Floats:
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
    return fewest(lambda rows: task.enough(rows, stability, method))
