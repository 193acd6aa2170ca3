"""The table of the papers names tests that exist and says what is missing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "theory" / "papers.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line[1:-1].split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| (TS1?|L5|SIS|BDP) ", line)
]


def _wrong(rows) -> list[str]:
    """Rows whose tests are not named one by one, or do not exist; a dash needs a word why."""
    wrong = []
    for result, _, tests, differs in rows:
        listed = [test.strip() for test in tests.split(",")]
        if not (listed == ["–"] and differs) and not all(map(_exists, listed)):
            wrong.append(result)
    return wrong


def _exists(test: str) -> bool:
    """Whether a test is written as `file::function`, the file is there and defines the function."""
    written = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", test)
    if written is None:
        return False
    path, function = written.groups()
    file = ROOT / path
    return file.is_file() and f"\ndef {function}(" in file.read_text(encoding="utf-8")


def test_every_result_has_its_row_and_its_tests():
    assert len(ROWS) >= 174
    assert all(len(row) == 4 for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)
    assert _wrong(ROWS) == []


def test_a_row_without_tests_is_noticed():
    broken = [["SIS T0", "nowhere", "`tests/house/test_nothing.py`", ""], ["SIS T1", "nowhere", "–", ""]]
    broken.append(["SIS T2", "here", "`tests/house/test_house_papers.py::test_nothing`", ""])
    broken.append(["SIS T3", "here", "`tests/house/test_house_papers.py`", "no function is named"])
    here = "`tests/house/test_house_papers.py::test_a_row_without_tests_is_noticed`"
    right = ["SIS T4", "here", here, ""]
    assert _wrong([*broken, right]) == ["SIS T0", "SIS T1", "SIS T2", "SIS T3"]
