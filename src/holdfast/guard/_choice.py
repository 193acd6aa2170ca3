"""Which strategy answers: by name."""

from __future__ import annotations

from typing import Any

from holdfast import checks
from holdfast.dependence import Independent
from holdfast.errors import InvalidArgument
from holdfast.guard._code import CodeStrategy
from holdfast.guard._noise import TransferNoise, TypicalNoise
from holdfast.guard._setup import Setup
from holdfast.guard._splitting import Splitting
from holdfast.guard._strategy import Strategy

STRATEGIES = ("code", "typical-laplace", "typical-gaussian", "transfer-gaussian", "split")


def choose_strategy(
    name: str, setup: Setup, *, failure: float, error: float | None, queries: Any
) -> Strategy:
    """The strategy with this name; all but "code" need the number of ``queries`` in advance."""
    rows = setup.protected.rows.count
    if name == "code":
        if queries is not None:
            raise InvalidArgument("queries", "left out: strategy 'code' fixes no number", queries, of="Guard")
        return CodeStrategy(rows, setup.training, setup.pilot, setup.model, error)
    if queries is None:
        raise InvalidArgument(
            "queries", f"given: strategy {name!r} fixes the number of questions", None, of="Guard"
        )
    queries = checks.whole(queries, "queries", of="Guard")
    model = setup.model or Independent(rows)
    if name == "split":
        return Splitting.of(queries, failure, model, error)
    if name == "transfer-gaussian":
        return TransferNoise.of(queries, failure, model, error)
    return TypicalNoise.of(name.removeprefix("typical-"), queries, failure, model, error)
