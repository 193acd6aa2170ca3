"""The methods without noise or prices: splitting the rows, and pretending that nothing was adaptive."""

from __future__ import annotations

import math

from holdfast import rounding
from holdfast.guard._noise import promised_with
from holdfast.planning._method import FILTERED, KINDS, MEANS, QUANTILES, Method, Promise
from holdfast.stability import split_error


class Split(Method):
    """Fresh rows for every question: n // k of them, Hoeffding at β/k (theory 6)."""

    name = "split"
    own_assumptions = ("Every question gets rows of its own.",)
    answers = (MEANS, FILTERED, QUANTILES)

    def reason(self) -> str:
        """Parts of dependent rows are not independent of one another."""
        if self.setting.independent:
            return ""
        return "Parts of dependent rows are not independent of one another."

    def at(self, rows: int, queries: int) -> Promise:
        """√(ln(2k/β)/(2⌊n/k⌋)), and what scaling values to integers adds."""
        if not self.setting.bounded:
            return Promise(math.inf, {})
        error = rounding.probability(promised_with(split_error(rows, queries, self.setting.beta)))
        return Promise(error, {"k": queries, "beta": self.setting.beta, "rows_per_query": rows // queries})

    def rows_for(self, error: float, queries: int) -> int | None:
        """k times the rows that one question needs."""
        room = error - promised_with(0.0)
        if not room > 0.0:
            return None
        nats = math.log(2.0 * queries) - math.log(self.setting.beta)
        each = max(1, math.floor(nats / (2.0 * room * room)))
        while self.at(each * queries, queries).error > error:
            each += max(1, each >> 40)
        return each * queries


class Naive(Method):
    """The radius of a question fixed in advance, at β/k: what reuse is often believed to give."""

    name = "naive"
    own_assumptions = ("All questions were chosen before any answer was seen.",)
    answers = KINDS

    def reason(self) -> str:
        """Never valid for adaptive questions."""
        return "Holds only for questions that were all chosen beforehand."

    def at(self, rows: int, queries: int) -> Promise:
        """The tail's radius at β/k."""
        nats = rounding.up(math.log(queries) - math.log(self.setting.beta))
        return Promise(self.setting.tail(rows).radius_at(nats), {"k": queries, "log_nu": -nats})
