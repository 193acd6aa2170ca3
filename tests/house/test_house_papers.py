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
    """Rows that name no tests, or tests that do not exist, without saying why."""
    wrong = []
    for result, _, tests, differs in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", tests)
        if not all(_exists(*test) for test in named) or not (named or differs):
            wrong.append(result)
    return wrong


def _exists(path: str, test: str) -> bool:
    """Whether the file is there and, if a test is named, defines it."""
    file = ROOT / path
    return file.is_file() and (not test or f"def {test}(" in file.read_text(encoding="utf-8"))


def test_every_result_has_its_row_and_its_tests():
    assert len(ROWS) >= 174
    assert all(len(row) == 4 for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)
    assert _wrong(ROWS) == []


def test_a_row_without_tests_is_noticed():
    broken = [["SIS T0", "nowhere", "`tests/house/test_nothing.py`", ""], ["SIS T1", "nowhere", "–", ""]]
    broken.append(["SIS T2", "here", "`tests/house/test_house_papers.py::test_nothing`", ""])
    assert _wrong(broken) == ["SIS T0", "SIS T1", "SIS T2"]
