"""The boards and gates of one service, registered by their owner.

A board is blind or open, and finished once. A gate is kept in one signed account book.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from holdfast import checks
from holdfast.engines import open_rows
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Asker, Board, Gate, Submission, Verdict
from holdfast.isolated import MOST_MEMORY, Exhausted, parts_of, run_isolated
from holdfast.ledger import Balance, Book
from holdfast.records import Record
from holdfast.registry._people import Person
from holdfast.registry._policy import RATE, SECONDS, TooMany, require_rate
from holdfast.registry._storage import Contents, Places, Unknown, adopt, require_name
from holdfast.results import Results, read_results

BOARDS_SCHEMA = """
CREATE TABLE IF NOT EXISTS [boards] (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    terms TEXT NOT NULL,
    blind INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS [waiting] (
    number INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    submission TEXT NOT NULL,
    person TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS [received] (
    number INTEGER PRIMARY KEY,
    board TEXT NOT NULL,
    person TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;
"""

_MOST_LABELS = 5_000_000
_MOST_LABEL_BYTES = 2**30
_PLAIN = (".csv", ".tsv", ".txt")


@dataclass(frozen=True, repr=False)
class Received(Record):
    """A submission to a blind board: it is kept, and scored when the blind phase ends."""

    key: str
    by: str


class Boards:
    """All boards of a service, opened when they are first needed.

    Each board has a lock of its own for slow work: opening its labels, and ending its blind phase. Looking up
    a board that is open does not need that lock, so nobody waits for another board.
    """

    def __init__(self, home: Path, places: Places, contents: Contents) -> None:
        self._home, self._places, self._contents = home, places, contents
        self._lock = RLock()  # For what is listed here; never held while labels are read.
        self._turns: dict[str, RLock] = {}
        self._open: dict[str, Board] = {}
        self._rates: dict[str, int] = {}
        self._database = places.store("boards")
        self._database.make(BOARDS_SCHEMA)
        adopt(self._database, home / "boards.sqlite", "boards", ("name", "source", "terms", "blind"))
        adopt(self._database, home / "boards.sqlite", "waiting", ("board", "submission", "person"))

    def register(
        self,
        name: str,
        source: str,
        terms: dict[str, Any],
        *,
        blind: bool,
        record: Callable[[], None] | None = None,
    ) -> Board:
        """Open a board on a table of labels. Errors in the table or the terms are raised now.

        ``terms`` are those of :class:`~holdfast.guard.Board` and the ``rate`` at which a person may submit.
        ``record`` writes down who registers it; it is called before the registration is written.
        """
        require_name(name)
        source = self._places.allowed(source)
        with self._turn_of(name), self._places.without_paths():
            if name in self.names():
                raise _board_taken(name)
            place = self._places.place(source)
            claimed = self._contents.claim(open_rows(place), place, "board", name)
            try:
                board = self._opened(name, source, terms)
                if record is not None:
                    record()
                inserted = self._database.execute(
                    "INSERT INTO [boards] (name, source, terms, blind) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT DO NOTHING",
                    (name, source, json.dumps(terms), int(blind)),
                )
                if inserted.rowcount != 1:  # Another process was faster.
                    board.close()
                    raise _board_taken(name)
            except BaseException:
                self._contents.release(claimed)
                raise
            with self._lock:
                self._open[name] = board
        return board

    def _turn_of(self, name: str) -> RLock:
        with self._lock:
            return self._turns.setdefault(name, RLock())

    def names(self) -> list[str]:
        """All names, in order."""
        return [name for (name,) in self._database.execute("SELECT name FROM [boards] ORDER BY name")]

    def get(self, name: str) -> Board:
        """The board of this name."""
        with self._lock:
            board = self._open.get(name)
        if board is not None:
            return board
        with self._turn_of(name), self._places.without_paths():
            with self._lock:
                board = self._open.get(name)
            if board is None:
                source, terms, _ = self._row(name)
                board = self._opened(name, source, json.loads(terms))
                self._contents.catch_up(self._places.place(source), "board", name)
                with self._lock:
                    self._open[name] = board
            return board

    def blind(self, name: str) -> bool:
        """Whether submissions are kept without being scored."""
        return bool(self._row(name)[2])

    def submit(self, name: str, person: Person, predictions: Any) -> Submission | Received:
        """Score a submission, or keep it while the board is blind."""
        board = self.get(name)
        if board.finished:
            raise QueryRejected("This board is finished; nothing more can be submitted.")
        with self._turn_of(name):
            if self.blind(name) and (
                received := self._keep_until_unblinded(name, board, person, predictions)
            ):
                return received

        def permit(balance: Balance, price: int) -> None:
            require_rate(self._rates[name], person.account, balance)

        return board.submit(predictions, asker=Asker(person.account, permit=permit))

    def _keep_until_unblinded(
        self, name: str, board: Board, person: Person, predictions: Any
    ) -> Received | None:
        """Keep a submission until the end of the blind phase; None if that phase has ended meanwhile."""

        def waits(key: str) -> bool:
            query = "SELECT 1 FROM [waiting] WHERE board = ? AND submission = ?"
            return self._database.execute(query, (name, key)).fetchone() is not None

        def permit(key: str) -> None:
            if not waits(key):
                self._require_rate_unrecorded(name, person)

        key = board.take_in(predictions, by=person.account, permit=permit)
        if not waits(key):
            self._database.execute(
                "INSERT INTO [waiting] (board, submission, person) "
                "SELECT name, ?, ? FROM [boards] WHERE name = ? AND blind = 1",
                (key, person.account, name),
            )
        return Received(key, person.account) if waits(key) else None

    def _require_rate_unrecorded(self, name: str, person: Person) -> None:
        """Count and limit what the account does not record: submissions that are only kept, and choices of
        finalists."""
        now = int(time.time())
        # A time in the future was written before the clock went back, and locks nobody out.
        self._database.execute(
            "DELETE FROM [received] WHERE at <= ? OR at >= ?", (now - Balance.window, now + Balance.window)
        )
        (count, oldest) = self._database.execute(
            "SELECT count(*), min(at) FROM [received] WHERE board = ? AND person = ?", (name, person.account)
        ).fetchone()
        if count >= self._rates[name]:
            raise TooMany(self._rates[name], Balance.window - max(0, now - oldest))
        self._database.execute(
            "INSERT INTO [received] (board, person, at) VALUES (?, ?, ?)", (name, person.account, now)
        )

    def waiting(self, name: str) -> int:
        """How many submissions wait for the end of the blind phase."""
        (count,) = self._database.execute(
            "SELECT count(*) FROM [waiting] WHERE board = ?", (name,)
        ).fetchone()
        return int(count)

    def submissions(self, name: str, by: str | None = None) -> list[Submission | Received]:
        """All submissions, in order: first the scored ones with their results, then those that wait for the
        end of the blind phase. With ``by``, only the submissions of this person."""
        board = self.get(name)
        rows = self._database.execute(
            "SELECT submission, person FROM [waiting] WHERE board = ? ORDER BY rowid", (name,)
        ).fetchall()
        scored = board.submissions(by)
        # A submission that was scored since the rows were read is listed once.
        keys = {submission.key for submission in scored}
        waiting = [
            Received(key, person) for key, person in rows if (by is None or person == by) and key not in keys
        ]
        return [*scored, *waiting]

    def choose_finalists(self, name: str, person: Person, keys: Sequence[str]) -> tuple[str, ...]:
        """Choose which of a person's own submissions are in the final; a change counts for the rate."""

        def permit() -> None:
            with self._turn_of(name):
                self._require_rate_unrecorded(name, person)

        return self.get(name).choose_finalists(keys, by=person.account, permit=permit)

    def unblind(self, name: str) -> list[Received]:
        """End the blind phase: score the waiting submissions as one batch, in the order they came. Returns
        those that could not be scored.

        A submission waits until it is settled, and the board stays blind until none waits. So this can be
        called again after a crash at any point.
        """
        board = self.get(name)
        unscored: list[Received] = []
        with self._turn_of(name):
            while waiting := self._database.execute(
                "SELECT rowid, submission, person FROM [waiting] WHERE board = ? ORDER BY rowid", (name,)
            ).fetchall():
                submissions = board.score_all([key for _, key, _ in waiting])
                for (number, key, person), submission in zip(waiting, submissions, strict=True):
                    if submission is None:
                        unscored.append(Received(key, person))
                    self._database.execute("DELETE FROM [waiting] WHERE rowid = ?", (number,))
            self._database.execute(
                "UPDATE [boards] SET blind = 0 WHERE name = ? "
                "AND NOT EXISTS (SELECT 1 FROM [waiting] WHERE board = name)",
                (name,),
            )
        return unscored

    def final(self, name: str, *, record: Callable[[], None] | None = None) -> None:
        """Score each person's finalists on the sealed part, once. ``record`` writes down who wants that. It
        is called before a sealed row is read, and only where there is something to score."""
        if self.blind(name):
            raise QueryRejected("This board is blind; end the blind phase first, then its submissions count.")
        board = self.get(name)
        if record is not None and board.sealed_rows and not board.finished and board.next_finalists:
            record()
        board.final()

    def close(self) -> None:
        """Close every book."""
        with self._lock:
            for board in self._open.values():
                board.close()
            self._database.close()

    def _row(self, name: str) -> tuple[str, str, int]:
        row: tuple[str, str, int] | None = self._database.execute(
            "SELECT source, terms, blind FROM [boards] WHERE name = ?", (name,)
        ).fetchone()
        if row is None:
            raise Unknown(f"There is no board {name!r} that this token reaches.")
        return row

    def _opened(self, name: str, source: str, terms: dict[str, Any]) -> Board:
        terms = {"rate": RATE, "seconds": SECONDS, **terms}
        self._rates[name] = checks.whole(terms.pop("rate"), "rate", of="a board")
        _require_few_labels(self._places.place(source))
        book = self._places.book(f"board-{name}")
        try:
            return Board(
                self._places.place(source), **terms, ledger=book, keep=self._home / "submissions" / name
            )
        except BaseException:
            book.close()
            raise


def _board_taken(name: str) -> InvalidArgument:
    return InvalidArgument("name", "a name that is not taken", name, of="a board")


def _require_few_labels(source: str) -> None:
    """Refuse labels that would not fit in memory, where a board keeps them. The size of a plain file bounds
    its rows. Any other source gives its number of rows before they are read."""
    if source.lower().endswith(_PLAIN) and "://" not in source:
        fits = Path(source).stat().st_size <= _MOST_LABEL_BYTES
    else:
        fits = open_rows(source).count <= _MOST_LABELS
    if not fits:
        wanted = f"a table of labels with at most {_MOST_LABELS:,} rows, and as CSV at most 1 GB"
        raise InvalidArgument("source", wanted, "more", of="a board")


GATES_SCHEMA = """
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
        self._database.make(GATES_SCHEMA)
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
        record: Callable[[], None] | None = None,
        **terms: Any,
    ) -> Gate:
        """Open a gate for an incumbent. Errors are raised now, and then nothing is left behind.

        Args:
            name: what the gate is called.
            source: a result file among the sources.
            results: the scores themselves, instead of a source.
            incumbent: what the incumbent is called.
            reading: how result files are read.
            rate: how many candidates a person may submit in a minute.
            record: writes down who registers it; it is called before the gate has a book.
            terms: further terms of :class:`holdfast.Gate`.
        """
        require_name(name)
        if (source is None) == (results is None):
            wanted = "a file among the sources, or results in the body, and not both"
            raise InvalidArgument("source", wanted, source, of="a gate")
        incumbent_results = self._read(source, reading or {}) if source is not None else results
        assert incumbent_results is not None
        terms = {
            "incumbent": incumbent_results.scores
            if isinstance(incumbent_results, GivenResults)
            else incumbent_results,
            "outputs": incumbent_results.outputs,
            "clusters": incumbent_results.clusters,
            "name": incumbent,
            "reading": reading,
            **terms,
        }
        Gate(None, **terms).close()  # This checks the terms before there is a book.
        with self._lock:
            if name in self.names():
                raise _gate_taken(name)
            if record is not None:
                record()
            book = self._places.book(_book_name(name))
            try:
                gate = Gate(None, **terms, ledger=book)
            except BaseException as error:
                opened = book.opening is not None
                book.close()
                if opened and isinstance(error, HoldfastError):
                    raise _gate_taken(name) from None  # Another process was faster.
                raise
            inserted = self._database.execute(
                "INSERT INTO [gates] (name, rate) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, rate)
            )
            if inserted.rowcount == 0:
                gate.close()
                raise _gate_taken(name)
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
        try:
            with self._places.without_paths():
                return read_result_file(place, dict(reading))
        except HoldfastError as error:
            raise QueryRejected(str(error)) from None


def read_result_file(place: str, options: dict[str, Any]) -> Results:
    """The results in a file, read in a process of its own: an archive of kilobytes can hold gigabytes."""
    try:
        pieces = run_isolated(
            "holdfast.registry._boards:result_pieces", place, options, memory=2 * MOST_MEMORY, seconds=120.0
        )
        fields: dict[str, Any] = next(pieces)
        for field, entries in pieces:
            fields[field].update(entries)
    except Exhausted as limit:
        raise QueryRejected(f"The results could not be read. {limit} Split the results.") from None
    return Results(**fields)


def result_pieces(place: str, options: dict[str, Any]) -> Iterator[Any]:
    """The fields of results with empty mappings, and then the mappings, some entries at a time."""
    results = read_results(place, **options)
    fields = {field.name: getattr(results, field.name) for field in dataclasses.fields(results)}
    yield {name: {} if isinstance(value, dict) else value for name, value in fields.items()}
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from ((name, entries) for entries in parts_of(value))


def unknown_gate(name: str) -> Unknown:
    """The error for a gate that does not exist or is out of reach. It does not say which."""
    return Unknown(f"There is no gate {name!r} that this token reaches.")


def _gate_taken(name: str) -> InvalidArgument:
    return InvalidArgument("name", "a name that is not taken", name, of="a gate")


def _book_name(name: str) -> str:
    # No dataset, epoch or board has a book of such a name: names have no dot, and epochs end in a number.
    return f"{name}.gate"


def _require_tasks(gate: Gate, by_field: Mapping[str, Mapping[str, Any] | None]) -> None:
    """Refuse other tasks than the gate's without naming one: a token that may only submit sees no tasks."""
    tasks = set(gate.tasks)
    for field, by_task in by_field.items():
        if by_task is None or by_task.keys() == tasks:
            continue
        missing, unknown = len(tasks - by_task.keys()), len(by_task.keys() - tasks)
        raise QueryRejected(
            f"The {field} are not for the tasks of this gate: {missing:,} of its {len(tasks):,} tasks are "
            f"missing, and {unknown:,} are not among them. This message does not say which, because this "
            "token may only submit. Nothing was charged."
        )
