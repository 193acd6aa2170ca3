"""What tells the rows of an account from other rows, so that its book is never gone on with about those."""

from __future__ import annotations

import glob
import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.asking import OtherTerms, Session
from holdfast.coding import Account
from holdfast.engines import Rows, Schema
from holdfast.ledger import Book

_END = 1 << 18
_KEYED = "keyed "
# Book key for the content digests of an account that was opened before digests were recorded.
_SEEN = "content"
# Terms that books of earlier versions do not have, each with its own book key where it is written down later:
# the parameters of the dependence model, and which rows are in which part.
_MODEL, _PARTS = "model", "parts"
_ADDED = (_MODEL, _PARTS)
_BOUND_LATER = (
    "The account was opened by an earlier version, which wrote the kind of model into the book and not its "
    "parameters. They are taken to be those given here, which the book has had since line {:,}."
)


@dataclass(frozen=True)
class Content:
    """One digest of the rows as they are now. It is never shown as it is: whoever knows a table but for a few
    values would find those by trying.

    ``former`` is what books said before contents were looked after; None where they had no word for it.
    """

    digest: bytes = field(repr=False)
    former: str | None = field(repr=False)

    @classmethod
    def of(cls, data: Any, rows: Rows) -> Content:
        """Of files what is in them, or their lengths and ends where they are too large to be copied; of other
        rows that are copied each value, in order; else where they are. Always the columns and how many rows
        there are."""
        digest = hashlib.sha256(f"{rows.count} {_as_books_say(rows)!r}".encode())
        if rows.in_database:
            digest.update(rows.where.encode())
        former = digest.hexdigest()
        if _is_local(data, rows):
            path = os.path.expanduser(data)
            for file in [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True)):
                _take_in(digest, Path(file), whole=rows.is_small)
            if path == str(data):
                former = digest.hexdigest()
        elif rows.has_order and (rows.is_small or not rows.stays):
            digest.update(rows.content())
        else:
            digest.update(rows.where.encode())
        return cls(digest.digest(), former)

    def under(self, key: bytes) -> str:
        """What a book says about the rows: nothing to whoever has not got its key, which is in no export."""
        return _KEYED + hmac.new(key, self.digest, "sha256").hexdigest()


def open_session(book: Book, account: Account, agreed: dict[str, Any]) -> Session:
    """Open a book for what was agreed, or go on with it if it was opened for the same rows and model.

    A book of an earlier version says less about its rows or its model. It goes on with those that it is
    brought now, writes down what they are, and goes on with no others from then on.
    """
    keyed = _said(agreed, lambda content: content.under(book.secret))
    opening = book.opening
    if opening is None:
        return Session(book, account, keyed)
    written, seen = keyed, {}
    if not _names_content(opening.body):
        written = _said(agreed, lambda content: content.former)
        seen = {_SEEN: {name: keyed[name] for name in keyed if keyed[name] != written[name]}}
    later = [name for name in _ADDED if name in keyed and name not in opening.body]
    seen |= {name: {name: keyed[name]} for name in later if not _told_by_name(name, keyed)}
    session = Session(book, account, {name: term for name, term in written.items() if name not in later})
    for subject, terms in seen.items():
        recorded = session.record("act", terms, subject)
        if differing := sorted(name for name in terms if recorded.get(name) != terms[name]):
            raise OtherTerms(book.name, differing)
    return session


def bound_later(book: Book) -> tuple[str, ...]:
    """What is assumed of a book that did not say its model's parameters when it was opened."""
    bound = book.about(_MODEL, "act")
    return () if bound is None else (_BOUND_LATER.format(bound.sequence),)


def _told_by_name(name: str, agreed: dict[str, Any]) -> bool:
    """Whether the older term ``dependence`` says as much as the model does."""
    return name == _MODEL and agreed["dependence"].startswith(("Independent(", "MDependent("))


def _said(agreed: dict[str, Any], in_words: Callable[[Content], str | None]) -> dict[str, Any]:
    """What was agreed, with contents as a book says them."""
    said: dict[str, Any] = {}
    for name, term in agreed.items():
        if isinstance(term, dict):
            said[name] = _said(term, in_words)
        else:
            said[name] = in_words(term) if isinstance(term, Content) else term
    return said


def _names_content(opening: dict[str, Any]) -> bool:
    return any(isinstance(term, str) and term.startswith(_KEYED) for term in opening.values())


def _as_books_say(rows: Rows) -> Schema:
    """The columns in the words of the first books: a time with a zone could only be asked about on Spark."""
    if rows.schema.dialect.engine == "Spark":
        return rows.schema
    return Schema({name: "other" if one.zoned else one for name, one in rows.schema.items()})


def _is_local(data: Any, rows: Rows) -> bool:
    return not rows.in_database and isinstance(data, (str, Path)) and "://" not in str(data)


def _take_in(digest: Any, path: Path, *, whole: bool) -> None:
    """A file's content, or its length and its end: a Parquet file says there what is where in it."""
    with path.open("rb") as file:
        if not whole:
            size = path.stat().st_size
            digest.update(f"{size} ".encode())
            file.seek(max(0, size - _END))
        while block := file.read(1 << 20):
            digest.update(block)
