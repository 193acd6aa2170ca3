"""High-water marks: how far each book had come, signed and kept outside the book.

A book that was put back from an old backup is whole, and has forgotten what was spent since. Its mark has
not. A mark is a receipt for the newest line, so whoever verifies a book can hold it against its mark.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
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
                f"The mark of the account book {name!r} ({path.name}) cannot be read, or was changed. Compare "
                "the book with a receipt (holdfast verify BOOK --receipt FILE). If it is whole, delete the "
                "mark, and a new one is written."
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
        "changed, and what was spent since is not in it. Put the newest book back. If that is lost, close the "
        f"account after this: holdfast serve HOME --accept-restored {name}"
    )


class MarkedLines:
    """The lines of a book that is held against its mark when it is opened, and marked as it grows."""

    def __init__(self, lines: Lines, marks: Marks, name: str, key: SigningKey) -> None:
        self._lines, self._marks, self._book, self._key = lines, marks, name, key
        self.name = lines.name
        self._lock = Lock()
        self._newest: Line | None = None
        self._next = 0.0
        self._first = ""
        require_reached(lines, name, marks.read(name))

    def append(self, previous: str, lines: Sequence[Line]) -> bool:
        """Write the lines, then their mark if the last one is a second old."""
        written = self._lines.append(previous, lines)
        if written:
            with self._lock:
                self._newest = lines[-1]
            if time.monotonic() >= self._next:
                self._mark()
        return written

    def _mark(self) -> None:
        """Write a mark for the newest line. A mark that cannot be written stops nobody: the lines are safe."""
        with self._lock:
            newest, self._newest = self._newest, None
            self._next = time.monotonic() + EVERY
            if newest is None:
                return
            try:
                self._first = self._first or self._lines.page(1, 1)[0].digest
                mark = Receipt.sign(self._key, self._first, newest.sequence, newest.digest)
                self._marks.write(self._book, mark)
            except (OSError, BookError) as error:
                _log.error("the mark of %s could not be written: %s", self._book, type(error).__name__)

    def page(self, first: int, limit: int) -> list[Line]:
        """At most ``limit`` lines from sequence ``first`` on, in order."""
        return self._lines.page(first, limit)

    def about(self, subject: str, kind: str) -> Line | None:
        """The last line of a kind about a subject."""
        return self._lines.about(subject, kind)

    def requested(self, request: str) -> Line | None:
        """The first line that a request led to."""
        return self._lines.requested(request)

    def checkpoint(self, before: int) -> Line | None:
        """The last checkpoint ahead of sequence ``before``."""
        return self._lines.checkpoint(before)

    def secret(self) -> str:
        """What the book keeps to itself."""
        return self._lines.secret()

    def keep(self, name: str, content: bytes) -> None:
        """Keep bytes beside the lines."""
        self._lines.keep(name, content)

    def kept(self, name: str) -> bytes | None:
        """The bytes that are kept under a name."""
        return self._lines.kept(name)

    def close(self) -> None:
        """Write the last mark, then close."""
        self._mark()
        self._lines.close()


def restored_line(mark: Receipt, lines: int) -> dict[str, Any]:
    """What a book says once its owner has taken it back from an old backup: how far it had come before."""
    return {
        "lines": lines,
        "had": mark.sequence,
        "digest": mark.digest,
        "note": "The book was put back from a backup. What was spent in the lines it had is not known here.",
    }
