"""What owners change while a service runs. Each act is a line of a book.

The service has a book of its own for acts of owners: who was given which token, which dataset was closed,
archived, deleted or moved. Lines about a dataset are in that dataset's book too, where its auditors see them.
A line is written before the act takes effect, so no act is without its line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.ledger import Balance, Book, BookError, Entry, Stale
from holdfast.ledger._balance import HANDED_OVER, TAKEN_OVER
from holdfast.server._datasets import Datasets
from holdfast.server._places import Places, named
from holdfast.server._policy import Policy
from holdfast.server._states import ARCHIVED, DELETED
from holdfast.server._terms import SUBJECT, changed_terms
from holdfast.server._tokens import Person

# No dataset, board or gate can have a book of this name: names have no dots.
BOOK = "service.admin"
_ACTS = "administration"
_FORMAT = 2
_TRIES = 100


class Conflict(HoldfastError):
    """The act does not fit the state that things are in; the message says what to do first."""


class Administration:
    """The acts of owners of one service.

    Guarantee: every act is a line of the service's book, with who did it and when, on disk before the act
    takes effect. The book is chained and signed as account books are, so a line cannot be taken out later.

    Args:
        places: Where books are.
        datasets: The datasets of the service.
    """

    def __init__(self, places: Places, datasets: Datasets) -> None:
        self._places, self._datasets = places, datasets
        self._lock = Lock()
        self._book: Book | None = None
        self._known: tuple[Balance, int] | None = None  # what the lines of the book add up to, and how many

    def record(self, person: Person, act: str, **about: Any) -> None:
        """Write down that a person does something."""
        with self._lock:
            book = self._opened()
            balance, last = self._known or book.start()
            entry = Entry("act", _body(person, act, about), _ACTS)
            self._known = self._append(book, lambda balance: [entry], start=(balance, last))

    def lines(self, after: int = 0, limit: int = 1_000) -> list[dict[str, Any]]:
        """The acts in order, those beyond line ``after``."""
        acts: list[dict[str, Any]] = []
        with self._lock:
            for event in self._opened().events():
                if event.kind == "act" and event.sequence > after:
                    acts.append({"line": event.sequence, **event.body})
                if len(acts) == limit:
                    break
        return acts

    @property
    def book(self) -> Book:
        """The service's own book."""
        with self._lock:
            return self._opened()

    def close(self) -> None:
        """Close the book."""
        with self._lock:
            if self._book is not None:
                self._book.close()

    def change_terms(self, person: Person, name: str, **changes: Any) -> Policy:
        """Change shares, the rate, or who may give the report; returns the policy that holds now. A change
        holds for the next question of everyone."""
        dataset = self._datasets.get(name)
        terms = changed_terms(dataset.policy, **changes)
        self.record(person, "change terms", dataset=name, terms=terms)

        def line(balance: Balance) -> list[Entry]:
            return [Entry("act", {**_body(person, "change terms", {}), SUBJECT: terms}, SUBJECT)]

        with self._book_of(dataset.book_name) as book:
            self._append(book, line)
        self._datasets.take_up_terms(dataset.name)
        return self._datasets.get(name).policy

    def close_account(self, person: Person, name: str) -> None:
        """End the account of a dataset, or of one of its epochs, for good."""
        dataset = self._datasets.get(name)
        self.record(person, "close", dataset=name)
        dataset.guard.close_account()

    def archive(self, person: Person, name: str) -> None:
        """Serve a dataset no longer, until it is taken back. Its account stays as it is."""
        self._require_whole_name(name)
        if self._datasets.states.of(name) == ARCHIVED:
            return
        self._datasets.require_registered(name)
        self._record_about(person, "archive", name)
        self._datasets.states.write(name, ARCHIVED)
        self._datasets.drop(name)

    def unarchive(self, person: Person, name: str) -> None:
        """Serve an archived dataset again."""
        self._require_whole_name(name)
        if self._datasets.states.of(name) != ARCHIVED:
            raise Conflict(f"The dataset {name!r} is not archived. Nothing was changed.")
        with self._book_of(self._datasets.book_names(name)[-1]) as book:
            handed_over = _balance_of(book).handed_over
        if handed_over is not None:
            raise Conflict(
                f"The account of {name!r} was handed over to the service with the key {handed_over}, which "
                "goes on with it. It cannot be taken back. Nothing was changed."
            )
        self._record_about(person, "unarchive", name)
        self._datasets.states.serve(name)
        self._datasets.drop(name)

    def delete(self, person: Person, name: str, *, confirm: str) -> None:
        """End every account of a dataset and forget the dataset. Its books stay, and the same rows stay
        refused: a deleted dataset leaves no way to a second account on them.

        Files of rows are left where they are. Whoever put them into the folder of sources removes them.
        """
        self._require_whole_name(name)
        if confirm != name:
            raise InvalidArgument("confirm", f"the name of the dataset, {name!r}", confirm, of="delete")
        self._datasets.require_registered(name)
        self._record_about(person, "delete", name)

        def line(balance: Balance) -> list[Entry]:
            return [] if balance.closed else [Entry("close", {"because": "It was deleted."}, "account")]

        for book_name in self._datasets.book_names(name):
            with self._book_of(book_name) as book:
                self._append(book, line)
        self._datasets.states.write(name, DELETED)
        self._datasets.drop(name)

    def settle_export(self, person: Person, name: str, to: str | None) -> None:
        """Write down that a dataset is exported. With ``to``, the public key of another service, the account
        ends here, so that this service can go on with it, and the dataset is archived. Refused while a
        question is being answered: a copy of it would not say what it cost."""
        self._require_whole_name(name)
        if to == self._places.key.public:
            raise InvalidArgument("to", "the public key of another service", to, of="an export")
        *earlier, newest = self._datasets.book_names(name)
        for book_name in earlier:
            with self._book_of(book_name) as book:
                _require_settled(name, _balance_of(book))
                if to is not None and not _balance_of(book).closed:
                    raise Conflict(
                        f"An earlier epoch of {name!r} is still open. Close it first: one account can be "
                        "handed over at a time. Nothing was changed."
                    )

        def line(balance: Balance) -> list[Entry]:
            _require_settled(name, balance)
            if to is None or balance.handed_over == to:
                return []
            if balance.closed:
                raise Conflict(
                    f"The account of {name!r} is closed, so no service can go on with it. Export a copy "
                    "instead, without naming a key. Nothing was changed."
                )
            return [Entry("act", {**_body(person, "hand over", {}), HANDED_OVER: to}, _ACTS)]

        with self._book_of(newest) as book:
            line(_balance_of(book))
            self.record(person, "export", dataset=name, to=to)
            self._append(book, line)
        if to is not None:
            self._datasets.states.write(name, ARCHIVED)
            self._datasets.drop(name)

    def settle_import(self, person: Person, book_name: str, sender: str, *, goes_on: bool) -> None:
        """Write into an imported book that its account goes on here, or that it is closed because the
        original may go on elsewhere."""
        here = self._places.key.public

        def line(balance: Balance) -> list[Entry]:
            if not goes_on:
                because = {"because": "This is a copy, and the original may go on elsewhere."}
                return [] if balance.closed else [Entry("close", because, "account")]
            if balance.handed_over is None:  # An import that was cut short has written it.
                return []
            if balance.handed_over != here:
                raise Conflict(
                    f"The account was handed over to the key {balance.handed_over}, and not to this service."
                )
            said = {**_body(person, "take over", {"sender": sender}), TAKEN_OVER: here}
            return [Entry("act", said, _ACTS)]

        with self._book_of(book_name) as book:
            self._append(book, line)

    def _record_about(self, person: Person, act: str, name: str) -> None:
        """Write an act into the service's book and into the newest book of a dataset."""
        self.record(person, act, dataset=name)
        with self._book_of(self._datasets.book_names(name)[-1]) as book:
            self._append(book, lambda balance: [Entry("act", _body(person, act, {}), _ACTS)])

    def _require_whole_name(self, name: str) -> None:
        if named(name)[1] is not None:
            raise InvalidArgument("name", "a dataset, and not one of its epochs", name, of="this")

    @contextmanager
    def _book_of(self, name: str) -> Iterator[Book]:
        """A handle of its own, as another process would have one: no guard is disturbed."""
        book = self._places.book(name)
        try:
            yield book
        finally:
            book.close()

    def _opened(self) -> Book:
        if self._book is None:
            book = self._places.book(BOOK)
            body = {"format": _FORMAT, "service": self._places.key.public}
            if book.opening is None:
                with suppress(Stale):  # Another process was faster.
                    book.append("open", body, after=0)
            self._book = book
        return self._book

    def _append(
        self,
        book: Book,
        lines: Callable[[Balance], list[Entry]],
        *,
        start: tuple[Balance, int] | None = None,
    ) -> tuple[Balance, int]:
        """Write what ``lines`` makes of the book as it is at that moment. Returns what its lines added up to
        before, and how many they were: where to ``start`` from the next time."""
        balance, last = start or book.start()
        for _ in range(_TRIES):
            for event in book.events(after=last):
                balance.apply(event)
                last = event.sequence
            entries = lines(balance)
            if not entries:
                return balance, last
            try:
                book.append_all(entries, after=last)
                return balance, last
            except Stale:
                continue
        raise BookError(f"The account book {book.name} is too busy; nothing was written. Try again.")


def _require_settled(name: str, balance: Balance) -> None:
    if balance.open:
        raise Conflict(
            f"A question about {name!r} is being answered, or was interrupted. Nothing was changed. Try "
            "again in a moment; the next start of the service settles what was interrupted."
        )


def _balance_of(book: Book) -> Balance:
    balance, last = book.start()
    for event in book.events(after=last):
        balance.apply(event)
    return balance


def _body(person: Person, act: str, about: dict[str, Any]) -> dict[str, Any]:
    """What a line says of an act. Its time is not called "at": acts do not count for anybody's rate."""
    who = {"by": person.account, "identity": person.identity}
    return {"act": act, **who, "time": int(time.time()), **about}
