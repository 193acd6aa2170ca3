"""What leaves the guard, how the book keeps it, and how an answer is made from the book."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import queries
from holdfast.guard._account import MICRO
from holdfast.guard._answer import Answer
from holdfast.guard._certificate import Certificate
from holdfast.guard._question import Question, TableQuestion
from holdfast.guard._session import Released
from holdfast.intervals import Interval

_CHECKED = (
    "Every output is priced by a prior that sums to at most 1, and the worst price is in the account "
    "before the "
    "rows are read.",
    "The question, the grid and every refusal were decided without the protected rows, or are part of the "
    "priced output.",
    "Sums are exact integers; intervals are rounded outward.",
)


def released(
    question: Question,
    *,
    value: float,
    interval: Interval,
    guess: float | None,
    confirmed: bool,
    theorem: str,
    numbers: dict[str, Any],
) -> dict[str, Any]:
    """Everything that leaves with an answer, as the book keeps it."""
    notes = []
    if question.kind == "mean":
        notes.append(f"Values outside [{question.low:g}, {question.high:g}] are clipped.")
    if question.filtered:
        notes.append("Rows for which the filter is false or null do not enter.")
    return {
        "value": value,
        "low": interval.low if math.isfinite(interval.low) else None,
        "high": interval.high if math.isfinite(interval.high) else None,
        "guess": guess,
        "confirmed": confirmed,
        "readable": isinstance(question, TableQuestion),
        "interval": theorem,
        "numbers": numbers,
        "notes": notes,
    }


@dataclass(frozen=True)
class Records:
    """Makes answers and certificates from what the book recorded and what the account assumes."""

    confidence: float
    theorem: str
    assumptions: tuple[str, ...]

    def answer(self, released: Released) -> Answer:
        """The answer that a line of the book stands for."""
        recorded = released.answer or {}
        return Answer(
            value=recorded["value"],
            low=-math.inf if recorded["low"] is None else recorded["low"],
            high=math.inf if recorded["high"] is None else recorded["high"],
            confidence=self.confidence,
            cost=released.micro_nats / MICRO,
            query=queries.read(released.text) if recorded["readable"] else released.text,
            certificate=self.certificate(recorded["numbers"], interval=recorded["interval"]),
            guess=math.nan if recorded["guess"] is None else recorded["guess"],
            confirmed=recorded["confirmed"],
            notes=tuple(recorded["notes"]),
            receipt=released.receipt,
        )

    def certificate(self, numbers: dict[str, Any], *, interval: str = "") -> Certificate:
        """The statement, with these numbers."""
        return Certificate(
            statement=(
                f"With probability {self.confidence:.6g} every interval released from this account "
                "contains its "
                "true value, however the questions were chosen."
            ),
            theorem=self.theorem,
            numbers=numbers,
            checked=_CHECKED,
            assumed=self.assumptions,
            interval=interval,
        )
