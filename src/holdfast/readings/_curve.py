"""A whole distribution at once: which share of the rows is at most t, for many t, in one band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.coding import ArmClasses
from holdfast.engines import Rows
from holdfast.errors import QueryRejected
from holdfast.intervals import Interval
from holdfast.queries import CheckedQuery, Expression, Query
from holdfast.readings._by_cells import HALVES, share_up_to
from holdfast.readings._question import Part, TableQuestion
from holdfast.readings._readings import Measured, Reading
from holdfast.statistics import Bets, Cells, Mean

# The number of quantiles of the training part at which a band is shown. It is smaller if rows depend on each
# other, because each point then needs a proof of its own.
_POINTS, _POINTS_OF_DEPENDENT = 64, 16
_ONE_CELL = ((0, 0, 1),)
_BAND = (
    "The interval is a band around the training part's distribution: the share of rows up to any point is "
    "the training part's share, plus or minus the half-width. guard.cdf shows the points."
)


@dataclass(frozen=True, kw_only=True)
class CurveQuestion(TableQuestion):
    """How far the share of rows at most t is from the training part's, at the worst of the ``points`` t.
    ``steps`` counts the rows between points."""

    points: tuple[float, ...]
    trained: tuple[float, ...]
    entering: float  # the share of training rows that enters
    steps: CheckedQuery

    def shares(self, rows: Rows) -> tuple[int, tuple[float, ...]]:
        """How many rows enter, and the share of them up to each point. Reads the rows."""
        counted = {cell[0]: cell[1] for cell in rows.cells(self.steps, _ONE_CELL)}
        listed = [counted.get(place, 0) for place in range(len(self.points) + 1)]
        total = sum(listed)
        sums = np.cumsum(listed[:-1])
        return total, tuple(float(count) / total for count in sums) if total else ()


def curve_question(
    question: TableQuestion, training: Rows | None, schema: Any, nullable: Any, *, independent: bool = True
) -> CurveQuestion:
    """The question behind ``guard.cdf``, at points that the training part shows."""
    query = question.checked.query
    if training is None:
        raise QueryRejected(f"{query} needs training rows: the band lies around their distribution.")
    ranked = replace(query, kind="quantile", q=0.5).check(training.schema, nullable)

    number = _POINTS if independent else _POINTS_OF_DEPENDENT

    def ranks_for(count: int) -> list[int]:
        levels = (np.arange(1, number + 1) - 0.5) / number
        return [min(count, max(1, math.ceil(level * count))) for level in levels] if count else []

    _, values = training.order_statistics(ranked, ranks_for)
    points = tuple(sorted({float(value) for value in values if math.isfinite(value)}))
    if not points:
        raise QueryRejected(f"No training row has a value for {query}.")
    steps = _between(query, points).check(schema, nullable)
    facts = {
        name: getattr(question, name)
        for name in ("key", "text", "guess", "filtered", "checked", "axes", "nats")
    }
    curve = CurveQuestion(
        kind="cdf",
        low=-1.0,
        high=1.0,
        points=points,
        trained=(),
        entering=1.0,
        steps=steps,
        notes=(*question.notes, _BAND),
        **facts,
    )
    rows, trained = curve.shares(training)
    return replace(curve, trained=trained, entering=rows / training.count)


def _between(query: Query, points: Sequence[float]) -> Query:
    """The question that counts the rows up to each point and beyond the last."""
    value = f"({query.expression.text})"
    groups = tuple(Expression.read(f"{value} <= {point!r}") for point in points)
    beyond = Expression.read(f"{value} > {points[-1]!r}")
    return Query(
        kind="difference",
        expression=Expression.read(f"{value} is not null"),
        bounds=(0.0, 1.0),
        where=query.where,
        groups=(*groups, beyond),
    )


@dataclass(frozen=True)
class CurveReading(Reading):
    """The band around the training part's distribution, given how many rows enter. It is Massart's form of
    the inequality of Dvoretzky, Kiefer and Wolfowitz. ``expected`` is its predicted half-width."""

    question: CurveQuestion
    expected: float
    theorem = "Dvoretzky–Kiefer–Wolfowitz (Massart 1990)"

    def around(self, low: float, high: float) -> Interval:
        return Interval(-self.expected, self.expected)

    def estimate(self, part: Part) -> float:
        raise TypeError("a curve is measured with its band")

    def interval(self, low: float, high: float, output: Any) -> Interval:
        if output.whole or self.arms is None:
            return Interval(-1.0, 1.0)
        half = min(1.0, self.expected * self.arms.stretch(output.arm))
        return Interval(-half, half)

    def measured(self, part: Part) -> Measured | None:
        rows, shares = self.question.shares(part.rows)
        if rows == 0:
            return None
        pairs = zip(shares, self.question.trained, strict=True)
        apart = max(abs(share - trained) for share, trained in pairs)
        half = apart + band(rows, self.nats)
        return Measured(0.0, Interval(-half, half))

    def _arm(self, measured: Measured, low: float, high: float) -> int | None:
        assert self.arms is not None
        arm = self.arms.least(measured.interval.high / self.expected)
        return arm if arm <= self.arms.last else None


def band(rows: float, nats: float) -> float:
    """The half-width of the band for a query fixed in advance."""
    return math.sqrt((nats + math.log(2)) / (2 * rows))


def curve_reading(question: CurveQuestion, rows: int, training: int, nats: float) -> CurveReading:
    """The reading of a curve, with what the training part predicts of the band."""
    entering, seen = (max(1.0, count * question.entering) for count in (rows, training))
    # At the worst point the two distributions differ by about 0.87 deviations of a share.
    typical = 0.87 * math.sqrt(1 / entering + 1 / seen)
    expected = band(entering, nats) + typical
    error = min(max(0.3 * typical / expected, 0.01), 0.5)
    return CurveReading(question, nats, ArmClasses.predicted(error, 1 / expected), expected)


@dataclass(frozen=True)
class CurveByBets(CurveReading):
    """The band if rows are in units or the states of a chain. The share up to each point has an interval by
    bets, and all of them together have the error of one question. ``layout`` and ``norm`` are as in
    :class:`ByCells`, and ``trained`` is what the training part shows at each point."""

    layout: int | None
    norm: float
    trained: tuple[Cells, ...]

    @property
    def theorem(self) -> str:  # type: ignore[override]
        source = "for a stationary chain" if self.norm else "over independent units of rows"
        return f"e-values of the shares at all points (product of bets), {source}"

    def measured(self, part: Part) -> Measured | None:
        part = part if self.layout is None else part.units[self.layout]
        half = 0.0
        for point, share, trained in zip(
            self.question.points, self.question.trained, self.trained, strict=True
        ):
            cells = share_up_to(self.question, point).cells(part, HALVES)
            cells = replace(cells, norm=self.norm, all_rows=part.rows.count)
            if not cells.rows > 0:
                return None
            half = max(half, _farther(share, self._interval(cells, trained)))
        return Measured(0.0, Interval(-half, half))

    def _interval(self, cells: Cells, trained: Cells) -> Interval:
        nats = self.nats + math.log(len(self.question.points))
        inside = Mean().interval(Bets(cells, trained), nats)
        return Interval(max(0.0, inside.low), min(1.0, inside.high))


def _farther(share: float, inside: Interval) -> float:
    """How far the farther end of an interval is from the training part's share."""
    return max(share - inside.low, inside.high - share)


def curve_by_bets(
    question: CurveQuestion, nats: float, rows: int, training: Part, layout: int | None, norm: float
) -> CurveByBets:
    """The reading of a curve of dependent rows, with what the training part predicts of its band."""
    ratio = rows / max(1, training.rows.count)
    seen = [share_up_to(question, point).cells(training, HALVES) for point in question.points]
    trained = tuple(replace(cells.times(ratio), norm=norm, all_rows=rows) for cells in seen)
    reading = CurveByBets(question, nats, None, 1.0, layout, norm, trained)
    middle = trained[len(trained) // 2]
    if not middle.rows > 0:
        raise QueryRejected(f"The training rows say nothing about {question.text}: no row enters it.")
    typical = 0.87 * 2 * Mean().deviation(middle) * math.sqrt(1 + 1 / ratio)
    arms = [_farther(cells.mean[0], reading._interval(cells, cells)) for cells in trained]
    expected = min(1.0, max(arms) + typical)
    error = min(max(0.3 * typical / expected, 0.01), 0.5)
    return replace(reading, expected=expected, arms=ArmClasses.predicted(error, 1 / expected))
