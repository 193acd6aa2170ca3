"""High-water marks: how far each book had come, signed and kept outside the book.

A book that was put back from an old backup is whole, and has forgotten what was spent since. Its mark has
not. A mark is a receipt for the newest line, so whoever verifies a book can hold it against its mark.
"""

from __future__ import annotations

import json
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from holdfast.ledger._event import BookError, Line
from holdfast.ledger._signing import Receipt, SigningKey

if TYPE_CHECKING:
    from holdfast.ledger._book import Lines

# A mark is written at most this often, in seconds, and when the book is closed: then it costs an answer
# almost nothing, and shows the loss of all but the last second.
EVERY = 1.0
_log = logging.getLogger("holdfast.ledger")


@dataclass(frozen=True)
class Marks:
    """A folder with one mark for each book, by the book's name."""

    folder: Path

    def read(self, name: str) -> Receipt | None:
        """The mark of a book; None where there is none yet."""
        path = self.path(name)
        try:
            mark = Receipt(**json.loads(path.read_text(encoding="ascii")))
            genuine = mark.signed_by(mark.key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            genuine = False
        if not genuine:
            raise BookError(
                f"The mark of the account book {name!r} ({path.name}) cannot be read, or was changed. "
                "Compare the book with a receipt (holdfast verify BOOK --receipt FILE). If it is whole, "
                "delete the mark, and a new one is written."
            )
        return mark

    def write(self, name: str, mark: Receipt) -> None:
        """Put a mark in place of the one before, unless that is further on: another process wrote it."""
        known = self.read(name)
        if known is not None and known.book == mark.book and known.sequence >= mark.sequence:
            return
        self.replace(name, mark)

    def replace(self, name: str, mark: Receipt) -> None:
        """Put a mark in place of any other; it is on disk when this returns."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(name)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(mark.to_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def path(self, name: str) -> Path:
        """The file of a book's mark."""
        return self.folder / f"{name}.json"


def require_reached(lines: Lines, name: str, mark: Receipt | None) -> None:
    """Refuse a book that runs behind its mark."""
    if mark is None:
        return
    at_mark = lines.page(mark.sequence, 1)
    if at_mark and (at_mark[0].sequence, at_mark[0].digest) == (mark.sequence, mark.digest):
        return
    raise BookError(
        f"The account book {lines.name} runs behind its mark: it had {mark.sequence:,} lines, and line "
        f"{mark.sequence:,} is not there or is another one. It was put back from an old backup, or was "
        "changed, and what was spent since is not in it. Put the newest book back. If that is lost, "
        f"close the account after this: holdfast serve HOME --accept-restored {name}"
    )


class Marker:
    """Marks one book as it grows."""

    def __init__(self, marks: Marks, name: str, key: SigningKey) -> None:
        self._marks, self._book, self._key = marks, name, key
        self._lock = Lock()
        self._newest: tuple[str, Line] | None = None
        self._next = 0.0

    def note(self, identity: str, newest: Line) -> None:
        """A line was written to the book of this identity: mark it, if the last mark is a second old."""
        with self._lock:
            self._newest = identity, newest
            if time.monotonic() >= self._next:
                self._write()

    def close(self) -> None:
        """Write the last mark."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        """Mark the newest line. A mark that cannot be written stops nobody: the lines are safe."""
        if self._newest is None:
            return
        identity, newest = self._newest
        self._newest, self._next = None, time.monotonic() + EVERY
        try:
            mark = Receipt.sign(self._key, identity, newest.sequence, newest.digest)
            self._marks.write(self._book, mark)
        except (OSError, BookError) as error:
            _log.error("the mark of %s could not be written: %s", self._book, type(error).__name__)


def restored_line(mark: Receipt, lines: int) -> dict[str, Any]:
    """What a book says once its owner has taken it back from an old backup: how far it had come before."""
    return {
        "lines": lines,
        "had": mark.sequence,
        "digest": mark.digest,
        "note": "The book was put back from a backup. What was spent in the lines it had is not known here.",
    }
