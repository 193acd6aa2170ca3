"""The datasets of one service: where their rows are, their policies, and one account for every epoch."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from contextvars import Context
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from holdfast.engines import open_rows, shown
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Answer, Asker, Curve, Discovery, Guard, Preview, Report, Table
from holdfast.ledger import Balance, Book, BookError, EpochLink
from holdfast.registry._people import Person
from holdfast.registry._policy import (
    DELETED,
    EPOCH_COLUMNS,
    STATE_COLUMNS,
    Archived,
    Arrived,
    Deleted,
    Epochs,
    Overtaken,
    Planned,
    Policy,
    States,
    require_rate,
    standing,
    with_terms,
)
from holdfast.registry._storage import Broken, Contents, Places, Unknown, adopt, named, require_name
from holdfast.registry._training_view import column_data

DATASETS_SCHEMA = """
CREATE TABLE IF NOT EXISTS [datasets] (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    policy TEXT NOT NULL
) STRICT;
"""
_log = logging.getLogger("holdfast.server")
_MOST_DROPPED = 8
# A dataset has other objects after each change of its terms, and for each request about one epoch.
_columns: WeakKeyDictionary[Guard, list[dict[str, Any]]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Dataset:
    """One epoch of a dataset that is open: its policy, its guard and the book the guard writes to.

    ``planned`` is what was recorded when it was opened. ``earlier`` has the epochs before it, if this epoch
    stands for the whole dataset.
    """

    name: str
    policy: Policy
    guard: Guard
    book: Book
    planned: Planned
    earlier: tuple[Dataset, ...] = ()

    @property
    def epochs(self) -> tuple[Dataset, ...]:
        """Every epoch up to this one."""
        return (*self.earlier, self)

    @property
    def book_name(self) -> str:
        """The name of the book of this epoch."""
        return book_name_of(self.name, self.guard.epoch.number)

    def ask(
        self,
        person: Person,
        question: str,
        request: str = "",
        *,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """Answer a question for a person, within their share and their rate. A recorded answer uses up
        neither. A request that was answered in an earlier epoch returns that answer."""
        epoch = self._epoch_of_request(request)
        return epoch.guard.ask(question, precise=precise, nats=nats, asker=epoch._asker(person, request))

    def table(
        self, person: Person, question: str, *, precise: bool = False, nats: float | None = None
    ) -> Table:
        """Answer a question about each group of rows, within the person's share and rate."""
        return self.guard.table(question, precise=precise, nats=nats, asker=self._asker(person, ""))

    def curve(
        self, person: Person, question: str, *, precise: bool = False, nats: float | None = None
    ) -> Curve:
        """Answer a question for a whole distribution, within the person's share and rate."""
        return self.guard.curve(question, precise=precise, nats=nats, asker=self._asker(person, ""))

    def discover(self, person: Person, claim: str, rate: float) -> Discovery:
        """Test a claim, within the person's share and rate."""
        return self.guard.discover(claim, rate=rate, asker=self._asker(person, ""))

    def ask_all(
        self, person: Person, questions: Sequence[tuple[str, str, float | None]], *, stop: bool = False
    ) -> list[Answer | HoldfastError]:
        """Ask several questions together, each with its request and wished nats. Returns for each its answer,
        or why it is refused; with ``stop`` only up to the first refusal. All questions are checked before the
        first is asked."""
        epochs = [self._epoch_of_request(request) for _, request, _ in questions]
        outcomes: list[Answer | HoldfastError] = []
        for epoch, group in groupby(zip(epochs, questions, strict=True), key=lambda pair: pair[0]):
            members = [member for _, member in group]
            asked_questions = [(question, epoch._asker(person, request)) for question, request, _ in members]
            nats = [wished for _, _, wished in members]
            outcomes += epoch.guard.answer_each(asked_questions, nats=nats, stop=stop)
            if stop and isinstance(outcomes[-1], HoldfastError):
                break
        return outcomes

    def ask_apart(self, questions: Sequence[tuple[Person, str, Context]]) -> list[Answer | HoldfastError]:
        """Ask questions of people who wait for the same turn, each with the context of its request. Returns
        for each its answer, or why it is refused. The questions are not a batch."""
        asked_questions = [
            (question, replace(self._asker(person, ""), context=context))
            for person, question, context in questions
        ]
        return self.guard.answer_apart(asked_questions)

    def preview(
        self, person: Person, question: str, *, precise: bool = False, nats: float | None = None
    ) -> Preview:
        """What the question would cost this person, and whether the account or the rest of their share would
        refuse it. A preview ignores the rate, because that limit lasts only a minute. It never opens the
        protected rows."""

        def permit(balance: Balance, price: int) -> None:
            self.policy.require_share(person, balance, price)

        asker = Asker(person.account, permit=permit)
        return self.guard.cost_preview(question, precise=precise, nats=nats, asker=asker)

    def report(self, person: Person, questions: Sequence[str]) -> Report:
        """Give the report, if the policy allows it for this person. It ends the account of this epoch."""
        self.policy.require_reporter(person)
        return self.guard.report(questions, asker=Asker(person.account))

    @property
    def columns(self) -> list[dict[str, Any]]:
        """The columns, with what the training rows show of each. These rows never change, so they are read
        only once."""
        columns = _columns.get(self.guard)
        if columns is None:
            columns = column_data(self.guard.schema, self.guard.training_rows(), pictures=True)
            _columns[self.guard] = columns
        return columns

    @property
    def training_rows(self) -> int:
        """How many training rows there are."""
        return int(self.guard.certificate.numbers.get("training rows", 0))

    def share_left(self, person: Person) -> float | None:
        """What is left of the person's share, or of their team's share if that is less; None without one."""
        return self.policy.share_left(person, self.guard.balance)

    def standing(self) -> dict[str, Any]:
        """Which epoch this is, since when it is open, and what is left of its account."""
        address = f"{self.name}@{self.guard.epoch.number}"
        return {"address": address, "since": self.planned.since, **standing(self.guard)}

    def _epoch_of_request(self, request: str) -> Dataset:
        """The earlier epoch that has answered this request, or else this epoch."""
        if not (request and self.earlier):
            return self
        return next((epoch for epoch in self.earlier if epoch.book.requested(request) is not None), self)

    def _asker(self, person: Person, request: str) -> Asker:
        def permit(balance: Balance, price: int) -> None:
            self.policy.require_share(person, balance, price)
            require_rate(self.policy.rate, person.account, balance)

        return Asker(person.account, request, permit)

    def close(self) -> None:
        """Close the books of all its epochs."""
        for epoch in self.epochs:
            epoch.guard.close()
            epoch.book.close()


class Datasets:
    """All datasets of a service, opened when they are first needed.

    Each dataset has a lock of its own for opening its rows, so nobody waits for the rows of another dataset.
    """

    def __init__(self, home: Path, places: Places, contents: Contents) -> None:
        self._places, self._contents = places, contents
        self._lock = RLock()  # For what is listed here; never held while rows are opened.
        self._opening: dict[str, RLock] = {}
        self._open: dict[str, Dataset] = {}
        self._current: set[str] = set()  # The datasets of which every epoch is open.
        # No longer served. A question may still be running, and the last one to use them lets them go.
        self._dropped: WeakSet[Guard | Book] = WeakSet()
        self._changes = -1
        self._database = places.store("datasets")
        self._database.make(DATASETS_SCHEMA)
        adopt(self._database, home / "datasets.sqlite", "datasets", ("name", "source", "policy"))
        self._epochs = Epochs(self._database)
        adopt(self._database, home / "datasets.sqlite", "epochs", EPOCH_COLUMNS)
        self.states = States(self._database)
        adopt(self._database, home / "datasets.sqlite", "dataset_states", STATE_COLUMNS)

    def register(
        self, name: str, source: str, policy: Policy, *, record: Callable[[], None] | None = None
    ) -> Dataset:
        """Register a table: a file among the sources, or a table of a database that the operator allows. It
        is opened once, so its errors are raised now. Rows that are already registered under any name are
        refused. ``record`` writes down who registers it; it is called before the registration is written."""
        _require_dataset_name(name)
        source = self._places.allowed(source)
        with self._opening_of(name), self._places.without_paths():
            if self._registered(name):
                raise _taken(name)
            claimed = self._claim(name, source)
            try:
                opened = self._opened(name, policy, self._epochs.plan(name, 1, Arrived(source)))
                if record is not None:
                    record()
                self._write_down(opened, source)
            except BaseException:
                self._contents.release(claimed)
                raise
            with self._lock:
                self._open[name] = opened
        return opened

    def take_in(
        self, name: str, policy: Policy, planned: Sequence[Planned], place_books: Callable[[], None]
    ) -> Dataset:
        """Register a dataset that already has books. ``place_books`` puts them with the books of the service.
        The rows must be among the sources and must be the rows of these books."""
        _require_dataset_name(name)
        sources = [self._places.allowed(epoch.arrived.source) for epoch in planned]
        planned = [
            replace(epoch, arrived=replace(epoch.arrived, source=source))
            for epoch, source in zip(planned, sources, strict=True)
        ]
        with self._opening_of(name), self._places.without_paths(), ExitStack() as if_it_fails:
            if self._registered(name):
                raise _taken(name)
            for source in sources:
                if_it_fails.callback(self._contents.release, self._claim(name, source))
            place_books()
            opened = self._opened(name, policy, planned[0])
            if_it_fails.callback(lambda: opened.close())
            for epoch in planned[1:]:
                opened = self._after(opened, epoch)
            for epoch in planned:
                self._epochs.settle(name, epoch)
            self._write_down(opened.epochs[0], sources[0])
            if_it_fails.pop_all()
            with self._lock:
                self._open[name] = opened
        return opened

    def registration(self, name: str) -> dict[str, Any]:
        """What was recorded about a dataset: its policy, and where the rows of each epoch are."""
        source, policy = self._registration(name)
        later = [epoch for epoch in self._epochs.after(name, 1) if epoch.is_open]
        since = next((epoch.since for epoch in self._epochs.after(name, 0) if epoch.number == 1), None)
        epochs = [Planned(1, Arrived(source), "", since, is_open=True), *later]
        return {
            "policy": json.loads(policy),
            "epochs": [
                {"number": epoch.number, "arrived": epoch.arrived.to_dict(), "since": epoch.since}
                for epoch in epochs
            ],
        }

    def _write_down(self, opened: Dataset, source: str) -> None:
        inserted = self._database.execute(
            "INSERT INTO [datasets] (name, source, policy) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            (opened.name, source, json.dumps(opened.policy.to_dict())),
        )
        if inserted.rowcount != 1:  # Another process was faster.
            opened.close()
            raise _taken(opened.name)

    def _claim(self, name: str, source: str) -> str | None:
        place = self._places.place(source)
        return self._contents.claim(open_rows(place), place, "dataset", name)

    def next_epoch(
        self, name: str, arrived: Arrived, request: str = "", *, record: Callable[[int], None] | None = None
    ) -> Dataset:
        """Open an epoch with an account of its own for rows that arrived later. The same ``request`` again
        returns the same epoch. ``record`` writes down who opens it, by its number, before any account book
        has a line about it.

        Guarantee: that of :meth:`holdfast.Guard.next_epoch`. After any crash, the next start has either the
        epoch before or the whole new epoch.
        """
        base, number = named(name)
        arrived = replace(arrived, source=self._places.allowed(arrived.source))
        with self._opening_of(base), self._places.without_paths():
            newest = self.get(base)
            for epoch in newest.epochs[1:]:
                if request and epoch.planned.request == request:
                    if epoch.planned.arrived != arrived:
                        raise QueryRejected(
                            "This request was made before, for other rows or terms. Give each its own key."
                        )
                    return epoch
            if number is not None and number != newest.guard.epoch.number:
                raise Overtaken(base, number + 1)
            self._require_new(newest, arrived.source)
            claimed = self._claim(base, arrived.source)
            planned = self._epochs.plan(base, newest.guard.epoch.number + 1, arrived, request)
            announced = newest.book.about(EpochLink.ANNOUNCED, "act") is not None
            try:
                if record is not None:
                    record(planned.number)
                opened = self._after(newest, planned)
            except BaseException as error:
                if newest.book.about(EpochLink.ANNOUNCED, "act") is None:
                    self._contents.release(claimed)
                if not (announced and isinstance(error, BookError)):
                    raise
                _log.error("%s", error)
                raise Overtaken(base, planned.number) from None
            self._epochs.settle(base, planned)
            with self._lock:
                self._open[base] = opened
        return opened

    def names(self) -> list[str]:
        """The names of all datasets that are served, in order."""
        rows = self._database.execute(
            "SELECT name FROM [datasets] WHERE name NOT IN (SELECT name FROM [dataset_states]) ORDER BY name"
        )
        return [name for (name,) in rows]

    def require_registered(self, name: str) -> None:
        """Refuse the name of an unknown or deleted dataset."""
        state = self.states.of(name)
        if state == DELETED:
            raise Deleted(name)
        if not self._registered(name):
            raise _unknown(name)

    def book_names(self, name: str) -> list[str]:
        """The names of the books of every epoch of a dataset, whether it is served or not. Opens no rows."""
        if not self._registered(name):
            raise _unknown(name)
        later = [planned.number for planned in self._epochs.after(name, 1) if planned.is_open]
        return [book_name_of(name, number) for number in (1, *later)]

    def book_of(self, name: str) -> Book:
        """The book of a dataset, or of one of its epochs, whether it is served or not. Opens no rows. The
        caller closes the book."""
        base, number = named(name)
        names = self.book_names(base)
        book_name = names[-1] if number is None else book_name_of(base, number)
        if book_name not in names:
            raise _unknown(name)
        return self._places.book(book_name)

    def drop(self, name: str) -> None:
        """Remove a dataset whose state has changed. Questions that are running are still answered. What it
        had open is closed with its last reference. Guards refer to themselves, so that takes a collection."""
        with self._lock:
            self._current.discard(name)
            if name in self._open:
                for epoch in self._open.pop(name).epochs:
                    self._dropped |= {epoch.guard, epoch.book}
            several = len(self._dropped) > _MOST_DROPPED
        if several:
            gc.collect()

    def apply_terms(self, name: str) -> None:
        """Apply the terms that the books of a dataset state, here and in every other process."""
        self.states.announce_terms(name)
        with self._opening_of(name), self._lock:
            if name in self._open:
                self._open[name] = self._with_terms(self._open[name])

    def get(self, name: str) -> Dataset:
        """The newest epoch of the dataset of this name; one of its epochs for a name such as people@1."""
        base, number = named(name)
        newest = self._newest(base)
        if number is None:
            return newest
        for epoch in newest.epochs:
            if epoch.guard.epoch.number == number:
                return replace(epoch, earlier=())
        raise _unknown(name)

    def at_hand(self, name: str) -> Dataset | None:
        """The same dataset if it is open with all its epochs, and the list was not changed since. Otherwise
        None, and :meth:`get` has to open it. Opens nothing."""
        base, number = named(name)
        changes = self._database.changes()
        with self._lock:
            if changes != self._changes or base not in self._current:
                return None
            newest = self._open[base]
        if number is None:
            return newest
        return next((epoch for epoch in newest.epochs if epoch.guard.epoch.number == number), None)

    def is_open(self, name: str) -> bool:
        """Whether this process has opened the dataset. Looks only at the memory of this process."""
        return named(name)[0] in self._open

    def epochs(self, name: str) -> tuple[Dataset, ...]:
        """Every epoch of the dataset of this name. For the name of one epoch, only that epoch."""
        return self._newest(named(name)[0]).epochs

    def close(self) -> None:
        """Close every book."""
        with self._lock:
            for opened in (*self._open.values(), *self._dropped):
                opened.close()
            self._database.close()

    def _opening_of(self, name: str) -> RLock:
        with self._lock:
            return self._opening.setdefault(name, RLock())

    def _newest(self, name: str) -> Dataset:
        # This number differs if another process has changed the list of datasets.
        changes = self._database.changes()
        with self._lock:
            if changes != self._changes:
                self._changes = changes
                self._current.clear()
            if name in self._current:
                return self._open[name]
        with self._opening_of(name):
            try:
                self.states.require_served(name)
            except (Archived, Deleted):
                self.drop(name)
                raise
            with self._lock:
                opened = self._open.get(name)
            try:
                with self._places.without_paths():
                    newest = self._with_terms(self._caught_up(opened or self._first(name)))
            except (OSError, QueryRejected) as error:
                _log.error("the dataset %s cannot be opened: %s", name, _reason(error))
                raise Broken(
                    f"The dataset {name!r} cannot be opened: its rows cannot be read any more. The log of "
                    "the service says more."
                ) from None
            with self._lock:
                self._open[name] = newest
                if changes == self._changes:
                    self._current.add(name)
            return newest

    def _registered(self, name: str) -> bool:
        """Whether a dataset of this name was ever registered, also if it is archived or deleted now."""
        return self._registration(name) is not None

    def _registration(self, name: str) -> Any:
        return self._database.execute(
            "SELECT source, policy FROM [datasets] WHERE name = ?", (name,)
        ).fetchone()

    def _with_terms(self, newest: Dataset) -> Dataset:
        """A dataset with the terms that its books state now. The terms of an epoch hold for later epochs too,
        until an epoch has its own terms."""
        row = self._registration(newest.name)
        if row is None:  # It is being registered.
            return newest
        policy, epochs = Policy(**json.loads(row[1])), []
        for epoch in newest.epochs:
            policy = with_terms(epoch.planned.arrived.policy(policy), epoch.book)
            agreed = replace(policy, confidence=epoch.policy.confidence)
            epochs.append(replace(epoch, policy=agreed, earlier=()))
        if [epoch.policy for epoch in epochs] == [epoch.policy for epoch in newest.epochs]:
            return newest
        return replace(epochs[-1], earlier=tuple(epochs[:-1]))

    def _first(self, name: str) -> Dataset:
        row = self._registration(name)
        if row is None:
            raise _unknown(name)
        # A dataset that was registered before epochs were recorded has no entry here.
        since = next((planned.since for planned in self._epochs.after(name, 0) if planned.number == 1), None)
        planned = Planned(1, Arrived(row[0]), "", since, is_open=True)
        opened = self._opened(name, Policy(**json.loads(row[1])), planned)
        self._contents.catch_up(self._places.place(row[0]), "dataset", name)
        return opened

    def _caught_up(self, newest: Dataset) -> Dataset:
        """A dataset with all its epochs, including those whose opening was interrupted."""
        for planned in self._epochs.after(newest.name, newest.guard.epoch.number):
            if not planned.is_open:
                if newest.book.about(EpochLink.ANNOUNCED, "act") is None:
                    break  # This epoch was never opened.
                try:
                    newest = self._after(newest, planned)
                except HoldfastError as error:
                    _log.error("epoch %d of %s cannot be continued: %s", planned.number, newest.name, error)
                    break
                self._epochs.settle(newest.name, planned)
            else:
                newest = self._after(newest, planned)
        return newest

    def _require_new(self, newest: Dataset, source: str) -> None:
        """Refuse the rows of an earlier epoch as a new epoch."""
        for epoch in newest.epochs:
            if epoch.planned.arrived.source == source:
                raise InvalidArgument(
                    "source",
                    f"the rows that arrived since; these are the rows of epoch {epoch.guard.epoch.number}",
                    shown(source),
                    of="an epoch",
                    reference="docs/theory/epochs.md",
                )

    def _after(self, before: Dataset, planned: Planned) -> Dataset:
        """The epoch after another one, newly opened or continued."""
        policy = planned.arrived.policy(before.policy)
        place = self._places.place(planned.arrived.source)
        arrived = replace(planned.arrived, source=place)
        guard = arrived.guard(before.guard, policy, open_rows(place).count)
        book = self._places.book(book_name_of(before.name, planned.number))
        policy = replace(policy, confidence=guard.confidence)
        earlier = (*before.earlier, replace(before, earlier=()))
        return Dataset(before.name, policy, guard, book, planned, earlier)

    def _opened(self, name: str, policy: Policy, planned: Planned) -> Dataset:
        """The first epoch of a dataset."""
        source = self._places.place(planned.arrived.source)
        rows: Any = open_rows(source)
        model = None if policy.rows == {"kind": "independent"} else policy.model(rows.count)
        book = self._places.book(name)
        try:
            guard = Guard(source, dependence=model, ledger=book, **policy.options)
        except BaseException:
            book.close()
            raise
        return Dataset(name, policy, guard, book, planned)


def book_name_of(name: str, epoch: int) -> str:
    """The name of the book of one epoch of a dataset.

    >>> book_name_of("people", 1), book_name_of("people", 2)
    ('people', 'people.epoch-2')
    """
    return name if epoch == 1 else f"{name}.epoch-{epoch}"


def _require_dataset_name(name: str) -> None:
    require_name(name)
    if name.startswith("board-"):  # Books of boards have such names, and a book is for one account.
        raise InvalidArgument("name", "a name that does not begin with 'board-'", name, of="a dataset")


def _unknown(name: str) -> Unknown:
    return Unknown(f"There is no dataset {name!r} that this token reaches.")


def _taken(name: str) -> InvalidArgument:
    return InvalidArgument("name", "a name that is not taken", name, of="a dataset")


def _reason(error: Exception) -> str:
    """The reason that may be shown: an error of a file as it is. The text of a library may quote a row."""
    return str(error) if isinstance(error, HoldfastError) else type(error).__name__
