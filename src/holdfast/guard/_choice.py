"""Which strategy answers: by name."""

from __future__ import annotations

import math
from typing import Any

from holdfast import checks
from holdfast.coding import PROMISES, Weights, training_share
from holdfast.dependence import Independent
from holdfast.errors import InvalidArgument
from holdfast.guard._agreed import AgreedCode
from holdfast.guard._code import CodeStrategy
from holdfast.guard._fixed import Splitting
from holdfast.guard._former import share_in
from holdfast.guard._setup import Setup
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
# What takes its guesses from a training part sets rows aside; the others set none.
TRAINING_SHARES = {"code": training_share(Weights()), "agreed-code": 1 / 3}


def checked_weights(strategy: str, expect: Any, promise: Any) -> Weights:
    """How the failure probability is shared out among the questions."""
    checks.choice(promise, "promise", PROMISES, of="Guard")
    if expect is not None:
        expect = checks.real(expect, "expect", "[1, inf)", of="Guard")
        if not math.isfinite(expect):
            raise InvalidArgument("expect", "a finite number of questions", expect, of="Guard")
    for name, value, usual in (("expect", expect, None), ("promise", promise, "all")):
        if strategy != "code" and value != usual:
            raise InvalidArgument(
                name, f"left out: strategy {strategy!r} fixes its own terms", value, of="Guard"
            )
    return Weights(promise, expect)


def default_share(strategy: str, ledger: Any, weights: Weights) -> float:
    """The share of the rows that becomes the training part where none is given: the one that a book of the
    same account has, else what is narrowest on the whole."""
    kept = share_in(ledger)
    if kept is not None:
        return kept
    return training_share(weights) if strategy == "code" else TRAINING_SHARES.get(strategy, 0.0)


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
        units = tuple(part.rows.count for part in setup.protected.units)
        return CodeStrategy(rows, setup.training, setup.pilot, setup.model, error, units, setup.bias)
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
    from holdfast.guard._noise import (  # few guards add noise; it is slow to import
        TransferNoise,
        TypicalNoise,
    )

    if name == "transfer-gaussian":
        return TransferNoise.of(queries, failure, model, error)
    return TypicalNoise.of(name.removeprefix("typical-"), queries, failure, model, error)
