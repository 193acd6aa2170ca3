"""Books that an earlier version opened: which of their terms may be missing, and what follows from that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.ledger import Book, BookError

ORDER = "order"
"""The term that says in which random order the rows are read, where every question reads rows of its own."""

FAILURE = "failure"
"""The term that says that a failure ends the account, where no price is set for one."""

LAYOUTS = "layouts"
"""The term that lists the ways in which a series is cut into blocks."""

_CONSECUTIVE = (
    "The account book {} was opened by an earlier version of strategy='split', which gave every question "
    "consecutive rows. In a table that is sorted these are no random sample, so the account does not go on. "
    "Its answers stay in the book (holdfast.ledger.export); they hold if the rows came in random order. Open "
    "a new book, for rows that no question has read yet."
)


def share_in(ledger: Any) -> float | None:
    """The share of the rows that an account set aside, where it goes on: earlier versions had another
    default. None where there is no account yet, or none of our own was set aside."""
    opened = _terms_in(ledger)
    share = None if opened is None else opened.get("training", {}).get("share")
    return None if share is None else float(share)


def blocks_in(ledger: Any) -> bool:
    """Whether rows may be read off blocks: in a new account, and in one that has set the price of its blocks
    aside. Earlier versions had none."""
    opened = _terms_in(ledger)
    return opened is None or LAYOUTS in opened


def _terms_in(ledger: Any) -> dict[str, Any] | None:
    """The terms that an account was opened with; None where there is none yet."""
    if not isinstance(ledger, (str, Path, Book)):
        return None
    if not isinstance(ledger, Book) and "://" not in str(ledger) and not Path(ledger).exists():
        return None
    book = ledger if isinstance(ledger, Book) else Book(ledger)
    try:
        opening = book.opening
    finally:
        if book is not ledger:
            book.close()
    return None if opening is None else dict(opening.body)


def terms_to_compare(book: Book, agreed: dict[str, Any], opened: dict[str, Any]) -> dict[str, Any]:
    """The terms that a book must have been opened with. What its version did not write down is left out, or
    is a reason to refuse the book."""
    if ORDER in agreed and ORDER not in opened:
        raise BookError(_CONSECUTIVE.format(book.name))
    compared = {name: term for name, term in agreed.items() if name != FAILURE or name in opened}
    # These are written down where they are not the usual ones, and are missing where nothing was said.
    return {**dict.fromkeys(("expect", "promise")), **compared}


def failed_before(book: Book, agreed: dict[str, Any], opened: dict[str, Any]) -> bool:
    """Whether a question failed in a book of an earlier version, which went on after it, and the present
    version would not have."""
    if FAILURE not in agreed or FAILURE in opened:
        return False
    return any(event.kind == "fail" for event in book.events())
