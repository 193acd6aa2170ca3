"""What a service says, as the records and errors of a guard; and a table as it is sent."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

from holdfast import errors, queries
from holdfast.guard import Answer, Certificate, GroupAnswer, Left, Preview, Report, Table
from holdfast.ledger import Receipt


def parquet_of(predictions: Any) -> bytes:
    """A table of predictions as it is sent."""
    import numpy as np
    import pandas

    if isinstance(predictions, Mapping) and all(np.ndim(one) == 0 for one in predictions.values()):
        predictions = {"id": list(predictions), "prediction": list(predictions.values())}
    buffer = io.BytesIO()
    try:
        pandas.DataFrame(predictions).to_parquet(buffer, index=False)
    except (TypeError, ValueError) as error:
        raise errors.QueryRejected(
            "Predictions are a table with the columns id and prediction, or a map from every id to its "
            f"prediction. What was given is none ({str(error).splitlines()[0].rstrip('.')})."
        ) from None
    return buffer.getvalue()


def answer_of(said: dict[str, Any]) -> Answer:
    """An answer, with its receipt where the service signs."""
    receipt = said["receipt"]
    return Answer(
        **{
            **said,
            **interval_of(said),
            "certificate": certificate_of(said["certificate"]),
            "notes": tuple(said["notes"]),
            "receipt": None if receipt is None else Receipt(**receipt),
        }
    )


def table_of(said: dict[str, Any]) -> Table:
    """The answers about each group of rows."""
    rows = (
        GroupAnswer(
            tuple(row["group"]), None if row["answer"] is None else answer_of(row["answer"]), row["note"]
        )
        for row in said["rows"]
    )
    return Table(queries.read(said["query"]), tuple(said["by"]), tuple(rows))


def report_of(said: dict[str, Any]) -> Report:
    """The last word of an account, with its receipt where the service signs."""
    receipt = said["receipt"]
    return Report(
        answers=tuple(None if answer is None else answer_of(answer) for answer in said["answers"]),
        questions=tuple(said["questions"]),
        text=said["text"],
        certificate=certificate_of(said["certificate"]),
        receipt=None if receipt is None else Receipt(**receipt),
    )


def certificate_of(said: dict[str, Any]) -> Certificate:
    """What answers rest on."""
    return Certificate(**{**said, "checked": tuple(said["checked"]), "assumed": tuple(said["assumed"])})


def preview_of(reply: dict[str, Any]) -> Preview:
    """What a question would cost and show."""
    return Preview(**{**reply, **interval_of(reply)})


def left_of(reply: dict[str, Any]) -> Left:
    """What is left of an account, in the account's own unit."""
    number = math.inf if reply["left"] is None else reply["left"]
    total, half_width = reply.get("total"), reply.get("share_half_width")
    return Left(
        number,
        words=reply["words"],
        confirmed=reply["confirmed"],
        surprises=reply["surprises"],
        unit=reply.get("unit", "nats"),
        total=math.inf if total is None else total,
        share_half_width=math.nan if half_width is None else half_width,
    )


def interval_of(said: dict[str, Any]) -> dict[str, Any]:
    """What answers and previews share, with the numbers JSON has no word for."""
    missing = {"guess": math.nan, "low": -math.inf, "high": math.inf}
    numbers = {name: value if said[name] is None else said[name] for name, value in missing.items()}
    return {**numbers, "query": queries.read(said["query"])}


def error_of(response: Any) -> Exception:
    """The error that the guard itself would have raised."""
    try:
        said = response.json()
    except ValueError:
        said = {}
    known = said if isinstance(said, dict) else {}
    return refusal_of({"detail": response.reason_phrase, **known}, response.status_code)


def refusal_of(said: dict[str, Any], status: int) -> Exception:
    """The same of a problem that is one of several in a reply."""
    kind, words = str(said.get("type", "")).rpartition(":")[2], said["detail"]
    account: dict[str, Any] = {name: said.get(name) for name in ("asked", "spent", "left")}
    account["unit"] = said.get("unit", "nats")
    if kind == "budget-spent":
        return errors.BudgetSpent(words, **account)
    if status == 422:
        return errors.QueryRejected(words, **account)
    return errors.HoldfastError(f"{words} (HTTP {status})")
