"""The way of a new question through the source is short: few files, few changes of package."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np

import holdfast
from holdfast import Guard

SOURCE = Path(holdfast.__file__).parent
# Lower a limit when the figure has become smaller. Never raise one.
MOST_FILES, MOST_CHANGES = 25, 56


def way_of_a_question() -> list[str]:
    """The files of Holdfast that a second, new question enters, in the order of its calls."""
    rng = np.random.default_rng(0)
    guard = Guard({"age": rng.integers(18, 90, 5_000), "income": rng.random(5_000)})
    guard.share("age > 40")
    entered: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            entered.append(str(path.relative_to(SOURCE)))

    sys.setprofile(watch)
    try:
        guard.share("age > 50")
    finally:
        sys.setprofile(None)
    return entered


def changes_of_package(files: list[str]) -> int:
    """How often a call goes to another package, or module beside the packages, than the call before."""
    packages = [file.partition("/")[0] for file in files]
    return sum(before != after for before, after in pairwise(packages))


def test_a_new_question_takes_a_short_way():
    entered = way_of_a_question()
    assert "guard/_guard.py" in entered
    assert "ledger/_book.py" in entered
    assert len(set(entered)) <= MOST_FILES, sorted(set(entered))
    assert changes_of_package(entered) <= MOST_CHANGES


def test_changes_are_counted_between_packages():
    assert changes_of_package(["guard/_a.py", "guard/_b.py", "checks.py", "guard/_a.py"]) == 2
