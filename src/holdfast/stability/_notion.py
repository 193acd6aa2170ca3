"""What every notion of stability shares, and the answer of ``explain``.

Numbers are checked on the way in and rounded to the safe side on the way out. The answer is a path of steps,
each with its theorem, its price and its numbers.
"""

from __future__ import annotations

import html
import math
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Self

from holdfast import rounding
from holdfast.records import Record, framed_html, html_table, plain, show

_ULP = sys.float_info.epsilon
SAME = "same algorithm"
EFFICIENT = "efficient transformation"
EXPLICIT = "explicit, not efficient; finite outcomes"
_WIDTHS = (24, 36, 8, 20, 22)


@dataclass(frozen=True, repr=False)
class Notion(Record, ABC):
    """A statement of stability. Its numbers are upper bounds: a smaller number is a stronger statement.

    Post-processing is free for every notion here: a function of the output alone, however random, keeps all
    numbers.
    """

    def _store(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _bound(cls, **values: Any) -> Self:
        """A computed statement. It is not checked: computed probabilities may be 1, though given ones may
        not."""
        record = object.__new__(cls)
        record._store(**values)
        return record

    @property
    @abstractmethod
    def vacuous(self) -> bool:
        """Whether the statement says nothing: a probability in it has reached 1, or another number has left
        the range of floats and stands as infinity."""


def log(value: float) -> float:
    """The natural logarithm, −∞ at 0."""
    return math.log(value) if value > 0.0 else -math.inf


def exp_up(*terms: float) -> float:
    """exp of a sum as an upper bound on a probability: widened by the terms' rounding error, capped at 1."""
    total = math.fsum(terms) if all(map(math.isfinite, terms)) else sum(terms)
    if total == -math.inf:
        return 0.0
    slip = 4.0 * _ULP * math.fsum(abs(term) for term in terms if math.isfinite(term))
    return 1.0 if not total + slip < 0.0 else rounding.probability(math.exp(total + slip))


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else show(value)


def _row(cells: tuple[str, ...]) -> str:
    """One row of a text table; long cells continue below."""
    wrapped = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""]
        for cell, width in zip(cells, _WIDTHS, strict=True)
    ]
    lines = zip_longest(*wrapped, fillvalue="")
    return "\n".join(
        "  ".join(part.ljust(width) for part, width in zip(line, _WIDTHS, strict=True)).rstrip()
        for line in lines
    )


@dataclass(frozen=True, repr=False)
class Step(Record):
    """One arrow, applied: ``result`` holds by ``theorem`` under ``conditions``; ``rows`` is its factor.

    Args:
        source: The name of the notion before the step.
        target: The name of the notion after the step.
        kind: What kind of step it is.
        parameters: The numbers of the step by name.
    """

    source: str
    target: str
    theorem: str
    kind: str
    conditions: tuple[str, ...]
    rows: int
    parameters: Mapping[str, Any] = field(hash=False)
    result: Notion

    def to_dict(self) -> dict[str, Any]:
        """The step as plain values, ready for JSON."""
        return {
            **super().to_dict(),
            "parameters": plain(dict(self.parameters)),
            "vacuous": self.result.vacuous,
        }

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The step as a table row: arrow, theorem with its kind, factor in rows, numbers used, result."""
        used = ", ".join(f"{name}={_number(value)}" for name, value in self.parameters.items())
        numbers = {name: value for name, value in self.result.to_dict().items() if name != "kind"}
        holds = ", ".join(f"{name}={_number(value)}" for name, value in numbers.items())
        return (
            f"{self.source} → {self.target}",
            f"{self.theorem} [{self.kind}]",
            f"×{self.rows:,}",
            used,
            holds + (" (vacuous)" if self.result.vacuous else ""),
        )


@dataclass(frozen=True, repr=False)
class Path(Record):
    """How one notion of stability became another: ``start``, the ``steps``, and ``result`` at the end.

    ``rows`` is the number of rows the transformed algorithm reads (if ``n`` was given), ``factor`` how many
    times more than the original. ``assumptions`` collects the conditions that no number can check. Where
    ``result`` is vacuous, ``advice`` says what would make it useful.

    Args:
        to: The name of the notion that is reached.
    """

    start: Notion
    to: str
    steps: tuple[Step, ...]
    result: Notion
    factor: int
    rows: int | None
    advice: tuple[str, ...] = field(default=())

    headings = ("arrow", "theorem", "rows", "with", "result")

    @property
    def vacuous(self) -> bool:
        """Whether the result says nothing."""
        return self.result.vacuous

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every condition of every step, once, in order."""
        return tuple(dict.fromkeys(condition for step in self.steps for condition in step.conditions))

    def to_dict(self) -> dict[str, Any]:
        """The path as plain values, ready for JSON."""
        return {
            "start": {"notion": type(self.start).__name__, **self.start.to_dict()},
            "to": self.to,
            "steps": [{**step.to_dict(), "notion": type(step.result).__name__} for step in self.steps],
            "result": {"notion": type(self.result).__name__, **self.result.to_dict()},
            "vacuous": self.vacuous,
            "factor": self.factor,
            "rows": self.rows,
            "assumptions": list(self.assumptions),
            "advice": list(self.advice),
        }

    @property
    def summary(self) -> str:
        """Start and end in one line."""
        rows = f", on {self.rows:,} rows" if self.rows is not None else f", on {self.factor:,} × the rows"
        ending = " (vacuous)" if self.vacuous else ""
        return f"{self.start!r} ⇒ {self.result!r}{ending}" + (rows if self.factor > 1 else "")

    @property
    def notes(self) -> tuple[str, ...]:
        """What to read below the table: assumptions, then advice."""
        return (*(f"assumes {condition}" for condition in self.assumptions), *self.advice)

    def __str__(self) -> str:
        table = [
            _row(self.headings),
            "  ".join("-" * width for width in _WIDTHS),
            *(_row(step.cells) for step in self.steps),
        ]
        body = table if self.steps else ["nothing to convert"]
        return "\n".join([self.summary, "", *body, *([""] if self.notes else []), *self.notes])

    def __repr__(self) -> str:
        return f"Path({self.summary})"

    def _repr_html_(self) -> str:
        rows = ([html.escape(cell) for cell in step.cells] for step in self.steps)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        return framed_html(html_table(self.headings, rows, caption=self.summary), f"<ul>{notes}</ul>")
