"""Which strategy answers: by name."""

from __future__ import annotations

from typing import Any

from holdfast import checks
from holdfast.dependence import Independent
from holdfast.errors import InvalidArgument
from holdfast.guard._agreed import AgreedCode
from holdfast.guard._code import CodeStrategy
from holdfast.guard._noise import TransferNoise, TypicalNoise
from holdfast.guard._setup import Setup
from holdfast.guard._splitting import Splitting
from holdfast.guard._strategy import Strategy

STRATEGIES = (
    "code",
    "agreed-code",
    "grid-code",
    "typical-laplace",
    "typical-gaussian",
    "transfer-gaussian",
    "split",
)
# What takes its guesses from a training part sets one aside: half of the rows where intervals follow the
# guesses, a third where a promise is wide enough for nearly all of them.
TRAINING_SHARES = {"code": 1 / 2, "agreed-code": 1 / 3}


def choose_strategy(
    name: str, setup: Setup, *, failure: float, error: float | None, queries: Any, surprises: Any = None
) -> Strategy:
    """The strategy with this name; all but "code" need the number of ``queries`` in advance, "agreed-code"
    the number of ``surprises`` as well."""
    rows = setup.protected.rows.count
    if (surprises is None) == (name == "agreed-code"):
        wanted = "given: strategy 'agreed-code' counts them" if surprises is None else "left out"
        raise InvalidArgument("surprises", f"{wanted} (strategy is {name!r})", surprises, of="Guard")
    if name == "code":
        if queries is not None:
            raise InvalidArgument("queries", "left out: strategy 'code' fixes no number", queries, of="Guard")
        return CodeStrategy(rows, setup.training, setup.pilot, setup.model, error)
    if queries is None:
        raise InvalidArgument(
            "queries", f"given: strategy {name!r} fixes the number of questions", None, of="Guard"
        )
    queries = checks.whole(queries, "queries", of="Guard")
    if name == "agreed-code":
        surprises = checks.whole(surprises, "surprises", at_least=0, at_most=queries, of="Guard")
    if name in ("agreed-code", "grid-code"):
        return AgreedCode.of(setup, queries, failure, surprises, error)
    model = setup.model or Independent(rows)
    if name == "split":
        return Splitting.of(queries, failure, model, error)
    if name == "transfer-gaussian":
        return TransferNoise.of(queries, failure, model, error)
    return TypicalNoise.of(name.removeprefix("typical-"), queries, failure, model, error)
