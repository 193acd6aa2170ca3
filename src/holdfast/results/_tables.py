"""Formats with one entry for each task, or for each repeat of a task: CSV, JSON Lines and JUnit XML.

In JUnit XML, as pytest and many other test runners write it, a test that passes has score 1 and others have
0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

from holdfast.errors import ResultsRejected
from holdfast.results._record import (
    Results,
    Tally,
    as_number,
    check_size,
    missing_tasks,
    names,
    parse_json,
    shown_id,
    text_lines,
)

_ROOTS = ("testsuites", "testsuite")
# Maven writes attempts that failed before the last one into the same test case.
_EARLIER_ATTEMPTS = {"flakyFailure", "flakyError", "rerunFailure", "rerunError"}


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


def _label(value: object, kind: str, where: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise ResultsRejected(f"{where}: the {kind} must be a text that is not empty, or a whole number.")
    return value


class _Report:
    """Follows one file as the parser reads it; only test cases are kept, never their texts."""

    def __init__(self, path: Path) -> None:
        self.attempts: list[tuple[str, float]] = []
        self.skipped: list[str] = []
        self.tests: set[str] = set()
        self._path = path
        self._open: list[str] = []
        self._case: dict[str, str] | None = None
        self._failed = self._skipped = False
        self._earlier = 0

    def start(self, element: str, attributes: dict[str, str]) -> None:
        if not self._open and element not in _ROOTS:
            raise ResultsRejected(
                f"{self._path.name} is XML with the root {shown_id(element)}. A JUnit file has one of "
                f"{names(_ROOTS)}."
            )
        self._open.append(element)
        if element == "testcase":
            self._case, self._failed, self._skipped, self._earlier = attributes, False, False, 0
        elif self._case is not None and self._open[-2] == "testcase":
            if element == "error" and attributes.get("message") == "collection failure":
                raise ResultsRejected(
                    f"In {self._path.name}, pytest could not collect the tests of "
                    f"{shown_id(self._case.get('name', ''))}. Repair that file, then run the tests again."
                )
            self._failed |= element in ("failure", "error")
            self._skipped |= element == "skipped"
            self._earlier += element in _EARLIER_ATTEMPTS

    def end(self, element: str) -> None:
        self._open.pop()
        if element != "testcase" or self._case is None:
            return
        test = _test_id(self._case, self._path)
        self.tests.add(test)
        self._case = None
        if self._skipped:
            self.skipped.append(test)
        else:
            self.attempts += [(test, 0.0)] * self._earlier + [(test, float(not self._failed))]


def _test_id(attributes: dict[str, str], path: Path) -> str:
    name, class_name = attributes.get("name", ""), attributes.get("classname", "")
    if not name:
        raise ResultsRejected(f"A test case in {path.name} has no name. Every test needs one.")
    return f"{class_name}::{name}" if class_name else name


def _no_document_type(*_: Any) -> None:
    raise ResultsRejected(
        "The file has a document type (<!DOCTYPE …>). Test runners write none, and it could make the reader "
        "expand entities without end, so it is not read."
    )


def _parse(path: Path) -> _Report:
    check_size(path)
    report = _Report(path)
    parser = expat.ParserCreate()
    # Entities can only be declared in a document type; without one there is nothing to expand or to load.
    parser.StartDoctypeDeclHandler = _no_document_type
    parser.StartElementHandler = report.start
    parser.EndElementHandler = report.end
    problem = ""
    try:
        with path.open("rb") as file:
            parser.ParseFile(file)
        return report
    except expat.ExpatError as error:
        # Without the line: a character that XML forbids is most often in the message of a test that failed.
        problem = expat.ErrorString(error.code)
    except (LookupError, ValueError) as error:
        if isinstance(error, ResultsRejected):
            raise
        problem = "its encoding is not known"
    raise ResultsRejected(f"{path.name} is not valid XML: {problem}. Was the file cut off?")


def read_junit(paths: list[Path]) -> Results:
    """Read the JUnit files of one run.

    A test that occurs several times in one file was run again: its attempts are averaged. A test that occurs
    in two files is refused, because the files may be of two runs.
    """
    tally = Tally()
    file_of: dict[str, Path] = {}
    skipped: list[str] = []
    for path in paths:
        report = _parse(path)
        for test in report.tests:
            if file_of.setdefault(test, path) is not path:
                raise ResultsRejected(
                    f"The test {shown_id(test)} is in {file_of[test].name} and in {path.name}. They may be "
                    "of two runs: give the file to read."
                )
        skipped += report.skipped
        for test, score in report.attempts:
            tally.add(test, score)
    if skipped:
        raise missing_tasks(
            list(dict.fromkeys(skipped)),
            len(file_of),
            hint="A test that is skipped, or expected to fail, has none. Run it, or leave it out for every "
            "candidate.",
        )
    return tally.results("junit", "", None)
