"""The gates of one service: registered by their owner, and kept in one signed account book each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Asker, Gate, Verdict
from holdfast.ledger import Balance, Book
from holdfast.server._places import Places, Unknown, require_name
from holdfast.server._rate import RATE, require_rate
from holdfast.server._store import adopt
from holdfast.server._tokens import Person

SCHEMA = """
CREATE TABLE IF NOT EXISTS [gates] (
    name TEXT PRIMARY KEY,
    rate INTEGER NOT NULL
) STRICT;
"""


@dataclass(frozen=True)
class GivenResults:
    """The incumbent's scores as a request has them."""

    scores: Mapping[str, Any]
    outputs: Mapping[str, str] | None = None
    clusters: Mapping[str, str] | None = None
    name: str | None = None


@dataclass(frozen=True)
class OpenGate:
    """A gate that is open in this process: its account book, and how many candidates a person may submit in
    a minute."""

    gate: Gate
    book: Book
    rate: int


class Gates:
    """All gates of a service, opened when they are first needed.

    Everything about a gate but its rate is in its account book, so several processes can serve one gate.
    """

    def __init__(self, home: Path, places: Places) -> None:
        self._places = places
        self._lock = RLock()
        self._open: dict[str, OpenGate] = {}
        self._database = places.store("gates")
        self._database.make(SCHEMA)
        adopt(self._database, home / "gates.sqlite", "gates", ("name", "rate"))

    def register(
        self,
        name: str,
        *,
        source: str | None = None,
        results: GivenResults | None = None,
        incumbent: str | None = None,
        reading: Mapping[str, str] | None = None,
        rate: int = RATE,
        **terms: Any,
    ) -> Gate:
        """Open a gate for an incumbent; whatever is wrong with it is said now, and leaves nothing behind.

        Args:
            name: what the gate is called.
            source: a result file among the sources.
            results: the scores themselves, instead of a source.
            incumbent: what the incumbent is called.
            reading: how result files are read.
            rate: how many candidates a person may submit in a minute.
            terms: further terms of :class:`holdfast.Gate`.
        """
        require_name(name)
        if (source is None) == (results is None):
            wanted = "a file among the sources, or results in the body, and not both"
            raise InvalidArgument("source", wanted, source, of="a gate")
        given = self._read(source, reading or {}) if source is not None else results
        assert given is not None
        terms = {
            "incumbent": given.scores if isinstance(given, GivenResults) else given,
            "outputs": given.outputs,
            "clusters": given.clusters,
            "name": incumbent,
            "reading": reading,
            **terms,
        }
        Gate(None, **terms).close()  # A mistake is found here, before there is a book.
        with self._lock:
            if name in self.names():
                raise _taken(name)
            book = self._places.book(_book_name(name))
            try:
                gate = Gate(None, **terms, ledger=book)
            except BaseException as error:
                opened = book.opening is not None
                book.close()
                if opened and isinstance(error, HoldfastError):
                    raise _taken(name) from None  # Another process was faster.
                raise
            done = self._database.execute(
                "INSERT INTO [gates] (name, rate) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, rate)
            )
            if done.rowcount == 0:
                gate.close()
                raise _taken(name)
            self._open[name] = OpenGate(gate, book, rate)
        return gate

    def names(self) -> list[str]:
        """All names, in order."""
        with self._lock:
            return [name for (name,) in self._database.execute("SELECT name FROM [gates] ORDER BY name")]

    def get(self, name: str) -> OpenGate:
        """The gate of this name."""
        with self._lock:
            if name not in self._open:
                row = self._database.execute("SELECT rate FROM [gates] WHERE name = ?", (name,)).fetchone()
                if row is None:
                    raise unknown_gate(name)
                book = self._places.book(_book_name(name))
                try:
                    self._open[name] = OpenGate(Gate.at(book), book, row[0])
                except BaseException:
                    book.close()
                    raise
            return self._open[name]

    def submit(
        self,
        name: str,
        person: Person,
        candidate: str,
        scores: Mapping[str, Any],
        outputs: Mapping[str, str] | None = None,
    ) -> Verdict:
        """Compare a candidate with the incumbent for a person, within their rate.

        Scores that come with a submitter's token count as sealed: a harness sent them, and nobody saw them.
        """
        opened = self.get(name)
        sealed = person.role == "submitter"
        if sealed:
            _require_tasks(opened.gate, {"scores": scores, "outputs": outputs})

        def permit(balance: Balance, price: int) -> None:
            require_rate(opened.rate, person.account, balance)

        asker = Asker(person.account, permit=permit)
        return opened.gate.submit(scores, candidate, outputs=outputs, sealed=sealed, asker=asker)

    def close(self) -> None:
        """Close every book."""
        with self._lock:
            for opened in self._open.values():
                opened.gate.close()
            self._database.close()

    def _read(self, source: str, reading: Mapping[str, str]) -> Any:
        """The results in a file among the sources."""
        if "://" in source:
            raise InvalidArgument("source", "a file in the folder of sources", "an address", of="a gate")
        place = self._places.place(self._places.allowed(source))
        from holdfast.server._uploads import read_result_file

        try:
            with self._places.without_paths():
                return read_result_file(place, dict(reading))
        except HoldfastError as error:
            raise QueryRejected(str(error)) from None


def unknown_gate(name: str) -> Unknown:
    """The error for a gate that is not there, or out of reach. It is not said which."""
    return Unknown(f"There is no gate {name!r} that this token reaches.")


def _taken(name: str) -> InvalidArgument:
    return InvalidArgument("name", "one that is not taken", name, of="a gate")


def _book_name(name: str) -> str:
    # No dataset, epoch or board has a book of such a name: names have no dot, and epochs end in a number.
    return f"{name}.gate"


def _require_tasks(gate: Gate, given: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Refuse other tasks than the gate's without naming one: a token that may only submit sees no tasks."""
    tasks = set(gate.tasks)
    for what, by_task in given.items():
        if by_task is None or by_task.keys() == tasks:
            continue
        missing, unknown = len(tasks - by_task.keys()), len(by_task.keys() - tasks)
        raise QueryRejected(
            f"The {what} are not for the tasks of this gate: {missing:,} of its {len(tasks):,} tasks are "
            f"missing, and {unknown:,} are not among them. It is not said which, because this token may only "
            "submit. Nothing was charged."
        )
