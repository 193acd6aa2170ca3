"""The datasets of one service: where their rows are, what was agreed, and one account for every epoch."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from threading import RLock
from typing import Any

from holdfast.engines import open_rows
from holdfast.engines._address import shown
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Answer, Asker, Curve, Discovery, Guard, Preview, Report, Table
from holdfast.ledger import Balance, Book, BookError, EpochLink
from holdfast.server._epochs import Arrived, Epochs, Overtaken, Planned, standing
from holdfast.server._places import Places, Unknown, named, require_name
from holdfast.server._policy import Policy
from holdfast.server._rate import require_rate
from holdfast.server._tokens import Person

_SCHEMA = """
CREATE TABLE IF NOT EXISTS datasets (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    policy TEXT NOT NULL
) STRICT;
"""
_log = logging.getLogger("holdfast.server")


@dataclass(frozen=True)
class Dataset:
    """One epoch of a dataset that is open: its policy, its guard and the book the guard writes to.

    ``planned`` is what was written down when it was opened, and ``earlier`` are the epochs before it where
    it stands for the whole dataset.
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

    def ask(
        self,
        person: Person,
        question: str,
        request: str = "",
        *,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """Answer a question for a person, within their share and their rate; what was answered before is
        free of both. A request that was answered in an earlier epoch has that answer."""
        asked = self._asked_in(request)
        return asked.guard.ask(question, precise=precise, nats=nats, asker=asked._asker(person, request))

    def table(
        self, person: Person, question: str, *, precise: bool = False, nats: float | None = None
    ) -> Table:
        """Answer a question about each group of rows, within the person's share and rate."""
        return self.guard.table(question, precise=precise, nats=nats, asker=self._asker(person, ""))

    def curve(
        self, person: Person, question: str, *, precise: bool = False, nats: float | None = None
    ) -> Curve:
        """Tell a whole distribution, within the person's share and rate."""
        return self.guard.curve(question, precise=precise, nats=nats, asker=self._asker(person, ""))

    def discover(self, person: Person, claim: str, rate: float) -> Discovery:
        """Test a claim, within the person's share and rate."""
        return self.guard.discover(claim, rate=rate, asker=self._asker(person, ""))

    def ask_all(
        self, person: Person, questions: Sequence[tuple[str, str, float | None]], *, stop: bool = False
    ) -> list[Answer | HoldfastError]:
        """Several questions with their requests and wished nats, asked together: for each its answer, or why
        it is refused; with ``stop`` up to the first refusal. All are checked before anything is asked."""
        epochs = [self._asked_in(request) for _, request, _ in questions]
        outcomes: list[Answer | HoldfastError] = []
        for epoch, group in groupby(zip(epochs, questions, strict=True), key=lambda pair: pair[0]):
            members = [member for _, member in group]
            asked = [(question, epoch._asker(person, request)) for question, request, _ in members]
            nats = [wished for _, _, wished in members]
            outcomes += epoch.guard.answer_each(asked, nats=nats, stop=stop)
            if stop and isinstance(outcomes[-1], HoldfastError):
                break
        return outcomes

    def preview(
        self, person: Person, question: str, *, precise: bool = False, nats: float | None = None
    ) -> Preview:
        """What the question would cost this person, and whether it would be refused: by the account, or by
        what is left of their share. A rate passes, so a preview leaves it out. Never opens the protected
        rows."""

        def permit(balance: Balance, price: int) -> None:
            self.policy.require_share(person, balance, price)

        asker = Asker(person.account, permit=permit)
        return self.guard.cost_preview(question, precise=precise, nats=nats, asker=asker)

    def report(self, person: Person, questions: Sequence[str]) -> Report:
        """The last word, if the policy lets this person give it: ends the account of this epoch."""
        self.policy.require_reporter(person)
        return self.guard.report(questions, asker=Asker(person.account))

    def share_left(self, person: Person) -> float | None:
        """What is left of the person's share, or of their team's; None without one."""
        return self.policy.share_left(person, self.guard.balance)

    def standing(self) -> dict[str, Any]:
        """Which epoch this is, since when it is open, and what is left of its account."""
        address = f"{self.name}@{self.guard.epoch.number}"
        return {"address": address, "since": self.planned.since, **standing(self.guard)}

    def _asked_in(self, request: str) -> Dataset:
        """The epoch that a request was made in before; else this one."""
        if not (request and self.earlier):
            return self
        return next((one for one in self.earlier if one.book.requested(request) is not None), self)

    def _asker(self, person: Person, request: str) -> Asker:
        def permit(balance: Balance, price: int) -> None:
            self.policy.require_share(person, balance, price)
            require_rate(self.policy.rate, person.account, balance)

        return Asker(person.account, request, permit)

    def close(self) -> None:
        """Close the books of all its epochs."""
        for one in self.epochs:
            one.guard.close()
            one.book.close()


class Datasets:
    """All datasets of a service, opened when they are first needed."""

    def __init__(self, home: Path, places: Places) -> None:
        self._places = places
        self._lock = RLock()
        self._opening = RLock()  # Nobody who asks waits for rows that are being opened.
        self._open: dict[str, Dataset] = {}
        self._current: set[str] = set()  # Of these every epoch is open.
        self._version = 0
        self._database = sqlite3.connect(
            home / "datasets.sqlite", isolation_level=None, check_same_thread=False, timeout=30
        )
        self._database.executescript(_SCHEMA)
        self._epochs = Epochs(self._database)

    def register(self, name: str, source: str, policy: Policy) -> Dataset:
        """Take in a table: a file among the sources, or a table of a database (an ibis URL). It is opened
        once, so that whatever is wrong with it is said now."""
        require_name(name)
        if name.startswith("board-"):  # The book of a board is named so, and a book is for one account.
            raise InvalidArgument("name", "one that does not begin with 'board-'", name, of="a dataset")
        place = self._places.source(source)
        with self._lock:
            if name in self.names():
                raise InvalidArgument("name", "one that is not taken", name, of="a dataset")
            opened = self._opened(name, policy, self._epochs.plan(name, 1, Arrived(place)))
            self._database.execute(
                "INSERT INTO datasets VALUES (?, ?, ?)", (name, place, json.dumps(policy.to_dict()))
            )
            self._open[name] = opened
        return opened

    def next_epoch(self, name: str, arrived: Arrived, request: str = "") -> Dataset:
        """Open an epoch with an account of its own for rows that arrived later; the same ``request`` again
        returns it as it is.

        Guarantee: that of :meth:`holdfast.Guard.next_epoch`. However the service ends, the next start has
        either the epoch before or the whole new one.
        """
        base, number = named(name)
        arrived = replace(arrived, source=self._places.source(arrived.source))
        with self._opening:
            newest = self.get(base)
            for one in newest.epochs[1:]:
                if request and one.planned.request == request:
                    if one.planned.arrived != arrived:
                        raise QueryRejected(
                            "This request was made before, for other rows or terms. Give each its own key."
                        )
                    return one
            if number is not None and number != newest.guard.epoch.number:
                raise Overtaken(base, number + 1)
            self._require_new(newest, arrived.source)
            planned = self._epochs.plan(base, newest.guard.epoch.number + 1, arrived, request)
            announced = newest.book.about(EpochLink.ANNOUNCED, "act") is not None
            try:
                opened = self._after(newest, planned)
            except BookError as error:
                if not announced:
                    raise
                _log.error("%s", error)
                raise Overtaken(base, planned.number) from None
            self._epochs.settle(base, planned)
            with self._lock:
                self._open[base] = opened
        return opened

    def names(self) -> list[str]:
        """All names, in order."""
        with self._lock:
            return [name for (name,) in self._database.execute("SELECT name FROM datasets ORDER BY name")]

    def get(self, name: str) -> Dataset:
        """The newest epoch of the dataset of this name; one of its epochs for a name such as people@1."""
        base, number = named(name)
        newest = self._newest(base)
        if number is None:
            return newest
        for one in newest.epochs:
            if one.guard.epoch.number == number:
                return replace(one, earlier=())
        raise Unknown(f"There is no dataset {name!r} that this token reaches.")

    def epochs(self, name: str) -> tuple[Dataset, ...]:
        """Every epoch of the dataset of this name, or of that one of its epochs."""
        return self._newest(named(name)[0]).epochs

    def close(self) -> None:
        """Close every book."""
        with self._lock:
            for dataset in self._open.values():
                dataset.close()
            self._database.close()

    def _newest(self, name: str) -> Dataset:
        with self._lock:
            # What another process wrote to the same folder is noticed by this number.
            (version,) = self._database.execute("PRAGMA data_version").fetchone()
            if version != self._version:
                self._version = version
                self._current.clear()
            if name not in self._current:
                known = self._open.get(name) or self._first(name)
                self._open[name] = self._caught_up(known)
                self._current.add(name)
            return self._open[name]

    def _first(self, name: str) -> Dataset:
        row = self._database.execute("SELECT source, policy FROM datasets WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise Unknown(f"There is no dataset {name!r} that this token reaches.")
        # A dataset that was registered before epochs were written down has nothing here.
        since = next((one.since for one in self._epochs.after(name, 0) if one.number == 1), None)
        planned = Planned(1, Arrived(row[0]), "", since, whole=True)
        return self._opened(name, Policy(**json.loads(row[1])), planned)

    def _caught_up(self, newest: Dataset) -> Dataset:
        """A dataset with all its epochs, those included whose opening was cut short."""
        for planned in self._epochs.after(newest.name, newest.guard.epoch.number):
            if not planned.whole:
                if newest.book.about(EpochLink.ANNOUNCED, "act") is None:
                    break  # Nothing came of it.
                try:
                    newest = self._after(newest, planned)
                except HoldfastError as error:
                    _log.error(
                        "epoch %d of %s cannot be gone on with: %s", planned.number, newest.name, error
                    )
                    break
                self._epochs.settle(newest.name, planned)
            else:
                newest = self._after(newest, planned)
        return newest

    def _require_new(self, newest: Dataset, source: str) -> None:
        """Refuse the rows of an earlier epoch: they stay where they were."""
        for one in newest.epochs:
            if one.planned.arrived.source == source:
                raise InvalidArgument(
                    "source",
                    f"the rows that arrived since; this is what epoch {one.guard.epoch.number} is about",
                    shown(source),
                    of="an epoch",
                    reference="docs/theory/epochs.md",
                )

    def _after(self, before: Dataset, planned: Planned) -> Dataset:
        """The epoch after another, opened or gone on with."""
        policy = planned.arrived.policy(before.policy)
        guard = planned.arrived.guard(before.guard, policy, open_rows(planned.arrived.source).count)
        book = self._places.book(f"{before.name}.epoch-{planned.number}")
        policy = replace(policy, confidence=guard.confidence)
        known = (*before.earlier, replace(before, earlier=()))
        return Dataset(before.name, policy, guard, book, planned, known)

    def _opened(self, name: str, policy: Policy, planned: Planned) -> Dataset:
        """The first epoch of a dataset."""
        source = planned.arrived.source
        rows: Any = open_rows(source)
        model = None if policy.rows == {"kind": "independent"} else policy.model(rows.count)
        book = self._places.book(name)
        try:
            guard = Guard(
                source,
                confidence=policy.confidence,
                error=policy.error,
                dependence=model,
                strategy=policy.strategy,
                ledger=book,
                queries=policy.queries,
                surprises=policy.surprises,
                expect=policy.expect,
                promise=policy.promise,
                training_share=policy.training_share,
                split_seed=policy.split_seed,
                split_by=policy.split_by,
                seconds=policy.seconds,
            )
        except BaseException:
            book.close()
            raise
        return Dataset(name, policy, guard, book, planned)
