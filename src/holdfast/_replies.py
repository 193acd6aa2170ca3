"""What a service says, as the records and errors of a guard; and a table as it is sent."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from typing import Any

from holdfast import errors, queries
from holdfast.guard import (
    Answer,
    Certificate,
    GateReport,
    GroupAnswer,
    Left,
    Preview,
    Report,
    Table,
    Verdict,
)
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


def scores_sent(scores: Any) -> dict[str, float | list[float]]:
    """Scores by task as they are sent. What is no score is refused without saying which."""
    import numpy as np

    if not isinstance(scores, Mapping):
        raise errors.InvalidArgument(
            "scores", "a mapping from task id to score, Results, or the path of a result file", type(scores)
        )
    sent: dict[str, float | list[float]] = {}
    for task, score in scores.items():
        try:
            numbers = np.asarray(score, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.array(math.nan)
        if numbers.ndim > 1 or not ((numbers >= 0) & (numbers <= 1)).all():
            raise errors.QueryRejected(
                "Every score must be a number from 0 to 1, and at least one here is not. Divide points by "
                "the most that a task can have. Nothing was sent."
            )
        sent[str(task)] = numbers.tolist()
    if len(sent) < len(scores):
        raise errors.QueryRejected("Two task ids are the same as text, such as 1 and '1'. Nothing was sent.")
    return sent


def verdict_of(reply: dict[str, Any]) -> Verdict:
    """A verdict of a gate, with its receipt."""
    receipt = reply["receipt"]
    return Verdict(
        **{
            **reply,
            "assumed": tuple(reply["assumed"]),
            "receipt": None if receipt is None else Receipt(**receipt),
        }
    )


def gate_report_of(reply: dict[str, Any]) -> GateReport:
    """The report of a gate, with its receipt."""
    receipt = reply["receipt"]
    return GateReport(
        versions=tuple(reply["versions"]),
        text=reply["text"],
        assumed=tuple(reply["assumed"]),
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
