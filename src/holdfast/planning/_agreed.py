"""The code guard with agreed numbers as methods of the planner."""

from __future__ import annotations

from holdfast.coding import (
    Agreement,
    Schedule,
    checked_schedule,
    grid_schedule,
    lacking,
    largest_tried,
)
from holdfast.guard._choice import TRAINING_SHARES
from holdfast.planning._boundary import boundary
from holdfast.planning._guarded import Code, Parts
from holdfast.planning._method import MEANS, MOST_ROWS, Method, Promise
from holdfast.tails import Tail


class AgreedCode(Code):
    """Guesses are checked, and so many may be off; both numbers are fixed in advance (theory 2.2)."""

    name = "agreed-code"
    answers = (MEANS,)

    def share(self, queries: int) -> float:
        """The share of the rows that is set aside."""
        return TRAINING_SHARES[self.name]

    def _promised(self, parts: Parts, queries: int, beta: float) -> Promise:
        """Without stated surprises, what honest guesses need."""
        stated = self.setting.surprises or 0
        ratio = parts.protected / parts.training
        return self._of(checked_schedule(parts.tail, queries, beta, stated, ratio), parts.tail)

    def _of(self, found: Schedule | None, tail: Tail) -> Promise:
        if found is None:
            return Promise(self.setting.limit, {})
        return Promise(found.error, {**_numbers(found, tail), "surprises": found.agreement.surprises})


class GridCode(Method):
    """Every answer is one of few cells, on all rows; no guesses (theory 2.2)."""

    name = "grid-code"
    own_assumptions = ("The number of questions is fixed.",)
    tolerance = 1e-4

    def reason(self) -> str:
        """Cells are counted over a range."""
        return "" if self.setting.bounded else "The rows are unbounded: no range has finitely many cells."

    def at(self, rows: int, queries: int) -> Promise:
        """The least error that lasts for so many questions, with the cells of each."""
        return self._promised(rows, queries, None)

    def keeping(self, error: float, rows: int, queries: int) -> Promise:
        """The same, sought near an error that these rows hardly allow."""
        return self._promised(rows, queries, error)

    def _promised(self, rows: int, queries: int, near: float | None) -> Promise:
        if self.reason():
            return Promise(self.setting.limit, {})
        tail = self.setting.tail(rows)
        found = grid_schedule(tail, queries, self.setting.beta, near=near)
        if found is None:
            return Promise(self.setting.limit, {})
        return Promise(found.error, _numbers(found, tail))

    def rows_for(self, error: float, queries: int) -> int | None:
        """None where nothing is bounded. Where the least number is wanted, whether one error lasts decides as
        the least error would, at a fraction of the work."""
        if self.reason():
            return None
        if not (self.setting.normal_like and error < 1.0):
            return super().rows_for(error, queries)
        tried, agreement = largest_tried(error), Agreement(queries, self.setting.beta)
        return boundary(
            lambda n: error + lacking(self.setting.tail(n), tried, agreement),
            error,
            start=max(1, round(10.0 / error**2)),
            growth=-0.5,
            most=MOST_ROWS,
        )

    def queries_for(self, error: float, rows: int) -> int:
        """None where nothing is bounded."""
        return 0 if self.reason() else super().queries_for(error, rows)


def _numbers(found: Schedule, tail: Tail) -> dict[str, object]:
    """``cells`` are pairs: so many cells, at so many stages one after the other."""
    last = found.stages - 1
    return {
        "k": found.agreement.queries,
        "beta": found.agreement.failure,
        "cells": [(run.cells, run.stages) for run in found.runs],
        "half_cell": found.tolerance(tail, last),
        "nats": found.nats(last),
    }
