"""CSV and JSON Lines: one row for each task, or for each repeat of a task."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import ResultsRejected
from holdfast.results._files import parse_json, text_lines
from holdfast.results._record import Results, Tally, as_number, names

__all__ = ["Columns", "read_csv", "read_json_lines"]


@dataclass(frozen=True)
class Columns:
    """The names of the columns to read."""

    task: str = "task"
    score: str = "score"
    cluster: str | None = None
    output: str | None = None

    def named(self) -> list[str]:
        """The columns that every row must have."""
        return [name for name in (self.task, self.score, self.cluster, self.output) if name is not None]


def read_csv(path: Path, columns: Columns) -> Results:
    """Read a CSV file with a header line, separated by commas."""
    tally = Tally()
    for line, row in _csv_rows(path, columns):
        _add(tally, row, columns, f"Line {line:,} of {path.name}")
    return tally.results("csv", "", None)


def read_json_lines(path: Path, columns: Columns) -> Results:
    """Read a file with one JSON object on each line."""
    tally = Tally()
    for line, text in text_lines(path):
        if not text.strip():
            continue
        row = parse_json(text, f"At least one line of {path.name}")
        where = f"Line {line:,} of {path.name}"
        if not isinstance(row, dict):
            raise ResultsRejected(f"{where} is not a JSON object. Write one object per line.")
        for name in columns.named():
            if name not in row:
                raise ResultsRejected(f"{where} has no key {name!r}. Its keys are {names(row)}.")
        _add(tally, row, columns, where)
    return tally.results("json-lines", "", None)


def _csv_rows(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, str]]]:
    rows = csv.reader((text for _, text in text_lines(path)), strict=True)
    header: list[str] | None = None
    while (row := _next_row(rows, path)) is not None:
        if not row:
            continue  # A blank line.
        if header is None:
            header = [name.strip() for name in row]
            _check_header(header, columns, path)
            continue
        if len(row) != len(header):
            # The line is not named: a score with a decimal comma has one field too many.
            raise ResultsRejected(
                f"Every line of {path.name} must have {len(header)} fields, as its header has; at least one "
                "has not. Write texts with commas in double quotes, and numbers with a point."
            )
        yield rows.line_num, dict(zip(header, row, strict=True))


def _next_row(rows: Any, path: Path) -> list[str] | None:
    try:
        row: list[str] | None = next(rows, None)
        return row
    except csv.Error:
        pass
    raise ResultsRejected(
        f"{path.name} is not valid CSV: a quote is not closed, or a field has more than "
        f"{csv.field_size_limit():,} characters. For long texts use JSON Lines."
    )


def _check_header(header: list[str], columns: Columns, path: Path) -> None:
    for name in columns.named():
        if header.count(name) > 1:
            raise ResultsRejected(f"{path.name} has {header.count(name)} columns named {name!r}. Keep one.")
        if name not in header:
            raise ResultsRejected(f"{path.name} has no column {name!r}. {_columns_there(header, columns)}")


def _columns_there(header: list[str], columns: Columns) -> str:
    """The columns of a file. A first line with none of the columns wanted may be the first task's line, so
    nothing of it is shown."""
    if set(columns.named()) & set(header) and all(as_number(name) is None for name in header):
        return f"Its columns are {names(header)}. Say which ones to read: task=…, score=…."
    separators = " Separate columns by commas." if len(header) == 1 else ""
    return (
        "Its first line must have the names of the columns. Say which ones to read: task=…, score=…."
        + separators
    )


def _add(tally: Tally, row: dict[str, Any], columns: Columns, where: str) -> None:
    answer = row[columns.output] if columns.output is not None else None
    if columns.output is not None and not isinstance(answer, str):
        raise ResultsRejected(f"{where}: the output must be a text.")
    tally.add(
        _label(row[columns.task], "task id", where),
        row[columns.score],
        answer=answer,
        cluster=None if columns.cluster is None else _label(row[columns.cluster], "cluster", where),
    )


def _label(value: object, what: str, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ResultsRejected(f"{where}: the {what} must be a text that is not empty, or a whole number.")
    return value
