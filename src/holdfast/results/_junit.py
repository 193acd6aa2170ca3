"""JUnit XML, as pytest and many other test runners write it: a test that passes has score 1, others 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.parsers import expat

from holdfast.errors import ResultsRejected
from holdfast.results._files import check_size
from holdfast.results._record import Results, Tally, missing_tasks, names, shown

__all__ = ["read_junit"]

_ROOTS = ("testsuites", "testsuite")
# Maven writes attempts that failed before the last one into the same test case.
_EARLIER_ATTEMPTS = {"flakyFailure", "flakyError", "rerunFailure", "rerunError"}


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
                f"{self._path.name} is XML with the root {shown(element)}. A JUnit file has one of "
                f"{names(_ROOTS)}."
            )
        self._open.append(element)
        if element == "testcase":
            self._case, self._failed, self._skipped, self._earlier = attributes, False, False, 0
        elif self._case is not None and self._open[-2] == "testcase":
            if element == "error" and attributes.get("message") == "collection failure":
                raise ResultsRejected(
                    f"In {self._path.name}, pytest could not collect the tests of "
                    f"{shown(self._case.get('name', ''))}. Repair that file, then run the tests again."
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
                    f"The test {shown(test)} is in {file_of[test].name} and in {path.name}. They may be of "
                    "two runs: give the file to read."
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
