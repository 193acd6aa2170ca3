"""Whether rows that stay where they are still are what they were when they were opened."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["FileWatch", "TableWatch", "Watch"]

# A table is counted again when the last count is older than this many seconds: counting takes about as long
# as a question.
_COUNT_AGAIN = 60.0


class Watch(Protocol):
    """Looks at something that must not change."""

    def change(self) -> str | None:
        """What has changed, in words, or None."""


class FileWatch:
    """The files that a path or glob names: which they are, how long, and when they were last written."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = self._look()

    def _look(self) -> list[tuple[str, int, int]]:
        found = sorted(glob.glob(self._path, recursive=True)) or [self._path]
        facts = [(name, os.stat(name)) for name in found if os.path.exists(name)]
        return [(name, fact.st_size, fact.st_mtime_ns) for name, fact in facts]

    def change(self) -> str | None:
        return None if self._look() == self._known else f"the files of {self._path!r} are others, or newer"


class TableWatch:
    """A table of a database: whether the database answers, and its number of rows.

    ``reach`` says whether the connection is still the one there was; it reads no rows, and raises
    :class:`~holdfast.errors.DatabaseAway` where the database does not answer. It is asked before every
    question, so that a question is not charged for a database that is away.
    """

    def __init__(self, count: Callable[[], int], known: int, reach: Callable[[], bool]) -> None:
        self._count = count
        self._known = known
        self._reach = reach
        self._looked = time.monotonic()

    def change(self) -> str | None:
        same_connection = self._reach()
        if same_connection and time.monotonic() - self._looked < _COUNT_AGAIN:
            return None
        found = self._count()
        self._looked = time.monotonic()
        return None if found == self._known else f"the table had {self._known:,} rows and has {found:,}"
