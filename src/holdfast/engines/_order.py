"""Order statistics, exact: the r-th smallest value, ties and all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.checks import whole
from holdfast.engines._builtin import builtin, exact
from holdfast.engines._sums import Question

__all__ = ["check_ranks", "count_plan", "rank_plan"]


def _values(table: Any, question: Question) -> Any:
    import ibis

    passes = question.passes(table)
    chosen = table if passes is None else table.filter(passes)
    value = question.value(chosen)
    if not question.skips:
        value = ibis.coalesce(value, exact(question.missing))
    return chosen.select(value=value)


def count_plan(table: Any, question: Question) -> Any:
    """How many values there are to rank."""
    values = _values(table, question)
    return values.aggregate(rows=values.value.count())


def rank_plan(table: Any, question: Question, ranks: Sequence[int], rows: int) -> Any:
    """The values of the given ranks, from 1, among ``rows`` values."""
    # Halfway between two ranks, so that no rounding of rank / rows can reach the neighbour.
    fractions = [(rank - 0.5) / rows for rank in ranks]
    values = _values(table, question)
    return values.aggregate(values=builtin("quantile_disc")(values.value, fractions))


def check_ranks(ranks: Sequence[int], rows: int) -> list[int]:
    return [whole(rank, f"ranks[{i}]", at_most=rows, of="order_statistics") for i, rank in enumerate(ranks)]
