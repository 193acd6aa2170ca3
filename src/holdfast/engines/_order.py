"""Order statistics, exact: the r-th smallest value, ties and all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.checks import whole
from holdfast.engines._builtin import exact
from holdfast.engines._sums import Question

__all__ = ["check_ranks", "fractions_of", "values_to_rank"]


def values_to_rank(values: Any, question: Question) -> Any:
    """Of a question's values those that are ranked, as an ibis table of one column."""
    import ibis

    if question.filters:
        values = values.filter(values.passes)
    value = values.value if question.skips else ibis.coalesce(values.value, exact(question.missing))
    return values.select(value=value)


def fractions_of(ranks: Sequence[int], rows: int) -> list[float]:
    """What is left below each rank, from 1, among ``rows`` values: halfway between two ranks, so that no
    rounding of rank / rows can reach the neighbour."""
    return [(rank - 0.5) / rows for rank in ranks]


def check_ranks(ranks: Sequence[int], rows: int) -> list[int]:
    return [whole(rank, f"ranks[{i}]", at_most=rows, of="order_statistics") for i, rank in enumerate(ranks)]
