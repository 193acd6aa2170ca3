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
        named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        if not all((ROOT / path).is_file() for path in named) or not (named or differs):
            wrong.append(result)
    return wrong


def test_every_result_has_its_row_and_its_tests():
    assert len(ROWS) >= 174
    assert all(len(row) == 4 for row in ROWS)
    assert len({row[0] for row in ROWS}) == len(ROWS)
    assert _wrong(ROWS) == []


def test_a_row_without_tests_is_noticed():
    broken = [["SIS T0", "nowhere", "`tests/house/test_nothing.py`", ""], ["SIS T1", "nowhere", "–", ""]]
    assert _wrong(broken) == ["SIS T0", "SIS T1"]
