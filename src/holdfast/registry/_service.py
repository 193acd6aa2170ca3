"""One service: its folder, key and tokens, its datasets, boards and gates, and what its owners change.

The service has a book of its own for acts of owners: who got which token, and which dataset was closed,
archived, deleted or moved. Lines about a dataset are in that dataset's book too, where its auditors see them.
A line is written before the act takes effect, so every act has its line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.guard import Board, Guard
from holdfast.ledger import HANDED_OVER, TAKEN_OVER, Balance, Book, BookError, Entry, Marks, SigningKey, Stale
from holdfast.registry._archives import Bundles
from holdfast.registry._boards import Boards, Gates, OpenGate, unknown_gate
from holdfast.registry._datasets import Dataset, Datasets
from holdfast.registry._people import Person, Tokens
from holdfast.registry._policy import ARCHIVED, DELETED, TERMS_SUBJECT, Policy, changed_terms
from holdfast.registry._sign_in import SignIn
from holdfast.registry._storage import Conflict, Contents, Places, PostgresStore, Store, Unknown, named

# How many replies of each dataset are kept, and how long a kept reply may be.
_MOST_REPLIES = 4_096
_MOST_BYTES = 16 * 2**10
_KEY_SCHEMA = """
CREATE TABLE IF NOT EXISTS [key] (
    id INTEGER PRIMARY KEY,
    public TEXT NOT NULL
) STRICT;
"""
_READY_WITHIN = 1.0


class Service:
    """A running service: everything it keeps, in one folder, or beside the books in PostgreSQL.

    Guarantee: services with the same ``books`` share tokens, policies and tables at once, and sign with one
    key. A service with another key is refused.

    Args:
        home: The folder of the service. Only its owner can read it.
        sources: Where files of datasets may lie (default: the folder's ``data``).
        books: A PostgreSQL URL, where several processes or machines serve the same datasets.
        allow: Beginnings of addresses of databases whose tables may be registered, such as
            "postgresql://db.example/town". Without any, only files are allowed.
        key: The file of the signing key (default: the folder's ``key``).
        replace_key: Sign with this key from now on, though the books name another one.
        sign_in: A file that says who may sign in by a provider or a proxy (docs/guides/sign-in.md).
        shared: Other processes of this machine serve the same folder; questions of all of them take turns.
    """

    def __init__(
        self,
        home: str | Path,
        *,
        sources: str | Path | None = None,
        books: str | None = None,
        allow: tuple[str, ...] = (),
        key: str | Path | None = None,
        replace_key: bool = False,
        sign_in: str | Path | None = None,
        shared: bool = False,
    ) -> None:
        self.home = Path(home)
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        _restrict_to_owner(self.home)
        self.sources = Path(sources) if sources is not None else self.home / "data"
        self.sources.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.books = books
        self.key = SigningKey.at(self.home / "key" if key is None else key)
        self.places = Places(self.home, self.sources, self.key, books, tuple(allow), shared)
        self._store = self.places.store("contents")
        if books is not None:
            _require_key(self._store, self.key, replace=replace_key)
        contents = Contents(self._store, self.home / "contents.sqlite")
        self.tokens = Tokens(self.places.store("tokens"))
        self.tokens.adopt(self.home / "tokens.sqlite")
        self.sign_in: SignIn | None = None
        if sign_in is not None:
            sessions = self.places.store("sessions")
            self.sign_in = SignIn(sessions, Path(sign_in), self._derived("sign-in"))
        self.datasets = Datasets(self.home, self.places, contents)
        self.boards = Boards(self.home, self.places, contents)
        self.gates = Gates(self.home, self.places)
        self.administration = Administration(self.places, self.datasets)
        self.bundles = Bundles(self.places, self.datasets, self.administration)
        self.recorded = RecordedReplies()
        self.tokens.name_kinds(datasets=self.datasets.names(), boards=self.boards.names())

    def _derived(self, purpose: str) -> bytes:
        """A secret that every machine with this service's key has, and nobody else."""
        return self.key.sign(f"holdfast secret 1\n{purpose}").encode()

    def dataset(self, person: Person, name: str) -> Dataset:
        """The dataset ``name``, or one of its epochs (people@1), if the token of ``person`` reaches it."""
        if not person.reaches("dataset", named(name)[0]):
            raise Unknown(f"There is no dataset {name!r} that this token reaches.")
        return self.datasets.get(name)

    def board(self, person: Person, name: str) -> Board:
        """The board ``name``, if the token of ``person`` reaches it."""
        if not person.reaches("board", name):
            raise Unknown(f"There is no board {name!r} that this token reaches.")
        return self.boards.get(name)

    def gate(self, person: Person, name: str) -> OpenGate:
        """The gate ``name``, if the token of ``person`` reaches it."""
        if not person.reaches("gate", name):
            raise unknown_gate(name)
        return self.gates.get(name)

    def visible(self, person: Person) -> list[str]:
        """The names of the datasets that the token of ``person`` reaches."""
        return [name for name in self.datasets.names() if person.reaches("dataset", name)]

    def ready(self) -> list[str]:
        """The problems that keep the service from answering; empty if there are none. The words show no path
        of the server. Checks the store and the database of the books, for a second at most, and no rows."""
        if isinstance(self._store, PostgresStore):
            problem = self._store.problem(_READY_WITHIN)
            return [] if problem is None else [problem]
        try:
            self.tokens.all()
            self.datasets.names()
        except HoldfastError as error:
            return [str(error)]
        return []

    def accept_restored(self, name: str) -> bool:
        """Accept the book ``name`` as it is, though it is older than its mark; False if it is not older.

        The book then records how many lines it had. What the lost lines spent stays unknown, so close the
        account after this.
        """
        marks = Marks(self.home / "marks")
        if marks.read(name) is None:
            raise HoldfastError(f"There is no mark of a book {name!r}, so it cannot run behind it.")
        book = self.places.book(name, marked=False)
        try:
            return book.accept_restored(marks)
        finally:
            book.close()

    def behind(self) -> list[str]:
        """One text for each book that lacks the line of its mark: what is wrong with it."""
        problems = []
        for path in sorted((self.home / "marks").glob("*.json")):
            try:
                self.places.book(path.stem).close()
            except HoldfastError as error:
                problems.append(str(error))
        return problems

    def close(self) -> None:
        """Close every file."""
        self.datasets.close()
        self.boards.close()
        self.gates.close()
        self.administration.close()
        self.tokens.close()
        if self.sign_in is not None:
            self.sign_in.close()
        self._store.close()


def _restrict_to_owner(home: Path) -> None:
    """Let only the owner read the folder, and so everything in it."""
    if home.stat().st_mode & 0o077:
        home.chmod(0o700)


def _require_key(store: Store, key: SigningKey, *, replace: bool) -> None:
    """Refuse a key that the books are not signed with.

    Only the public key is with the books. With the private key there, a person who can change the database
    could change the lines and sign them. The private key is a file that the operator gives to every machine.
    """
    store.make(_KEY_SCHEMA)
    on_conflict = "UPDATE SET public = excluded.public" if replace else "NOTHING"
    store.execute(
        f"INSERT INTO [key] (id, public) VALUES (1, ?) ON CONFLICT (id) DO {on_conflict}", (key.public,)
    )
    (public,) = store.execute("SELECT public FROM [key]").fetchone()
    if public != key.public:
        raise HoldfastError(
            f"These books are signed with {public}, and the key of this folder is {key.public}. Receipts "
            "from two keys would not verify. Copy the key file of the machine that has served them so far "
            "(HOME/key there, or --key). If that key is lost, start once with --replace-key: receipts "
            "from before stay valid with the old public key only."
        )


# No dataset, board or gate can have a book of this name: names have no dots.
BOOK = "service.admin"
_ACTS = "administration"
_FORMAT = 2
_TRIES = 100


class RecordedReplies:
    """The replies that one process has sent, as bytes, by guard and question.

    An answer never changes once it is in the book. So the reply to a question in the same words is the same
    for everybody who may ask the dataset. The caller checks that they may.
    """

    def __init__(self) -> None:
        self._replies: WeakKeyDictionary[Guard, dict[str, bytes]] = WeakKeyDictionary()

    def keep(self, guard: Guard, question: str, reply: bytes) -> None:
        """Keep the reply to a question that has its answer in the book."""
        if len(reply) > _MOST_BYTES:
            return
        replies = self._replies.setdefault(guard, {})
        if len(replies) >= _MOST_REPLIES:
            replies.pop(next(iter(replies)), None)
        replies[question] = reply

    def has(self, question: str) -> bool:
        """Whether any dataset has a reply to a question in these words."""
        return any(question in replies for replies in list(self._replies.values()))

    def reply(self, guard: Guard, question: str) -> bytes | None:
        """The kept reply of a guard; None if there is none."""
        return self._replies.get(guard, {}).get(question)


class Administration:
    """The acts of owners of one service.

    Guarantee: every act is a line of the service's book, with its person and time. The line is on disk before
    the act takes effect. The book is chained and signed as account books are, so a line cannot be removed
    later.

    Args:
        places: Where books are.
        datasets: The datasets of the service.
    """

    def __init__(self, places: Places, datasets: Datasets) -> None:
        self._places, self._datasets = places, datasets
        self._lock = Lock()
        self._book: Book | None = None
        # The balance of the book, and how many lines it has.
        self._position: tuple[Balance, int] | None = None

    def record(self, person: Person, act: str, **about: Any) -> None:
        """Record an act of a person."""
        with self._lock:
            book = self._opened()
            balance, last_line = self._position or book.start()
            entry = Entry("act", _body(person, act, about), _ACTS)
            self._position = self._append(book, lambda balance: [entry], start=(balance, last_line))

    def lines(self, after: int = 0, limit: int = 1_000) -> list[dict[str, Any]]:
        """The acts after line ``after``, in order."""
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
            return [Entry("act", {**_body(person, "change terms", {}), TERMS_SUBJECT: terms}, TERMS_SUBJECT)]

        with self._book_of(dataset.book_name) as book:
            self._append(book, line)
        self._datasets.apply_terms(dataset.name)
        return self._datasets.get(name).policy

    def close_account(self, person: Person, name: str) -> None:
        """End the account of a dataset, or of one of its epochs, for good."""
        dataset = self._datasets.get(name)
        self.record(person, "close", dataset=name)
        dataset.guard.close_account()

    def archive(self, person: Person, name: str) -> None:
        """Stop serving a dataset until :meth:`unarchive`. Its account stays as it is."""
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
                "continues it. It cannot be taken back. Nothing was changed."
            )
        self._record_about(person, "unarchive", name)
        self._datasets.states.serve(name)
        self._datasets.drop(name)

    def delete(self, person: Person, name: str, *, confirm: str) -> None:
        """End every account of a dataset and stop serving it for good. Its books stay. The same rows stay
        refused, so they cannot get a second account.

        Files of rows are left where they are. The operator removes them from the folder of sources.
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
        """Record that a dataset is exported. With ``to``, the public key of another service, the account ends
        here, the dataset is archived, and the other service can continue the account. Refused while a
        question is being answered: the exported book would lack its cost."""
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
                    f"The account of {name!r} is closed, so no service can continue it. Export a copy "
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

    def settle_import(self, person: Person, book_name: str, sender: str, *, continues: bool) -> None:
        """Record in an imported book that its account continues here, or that it is closed because the
        original may continue elsewhere."""
        own_key = self._places.key.public

        def line(balance: Balance) -> list[Entry]:
            if not continues:
                because = {"because": "This is a copy, and the original may continue elsewhere."}
                return [] if balance.closed else [Entry("close", because, "account")]
            if balance.handed_over is None:  # An interrupted import has already written it.
                return []
            if balance.handed_over != own_key:
                raise Conflict(
                    f"The account was handed over to the key {balance.handed_over}, and not to this service."
                )
            body = {**_body(person, "take over", {"sender": sender}), TAKEN_OVER: own_key}
            return [Entry("act", body, _ACTS)]

        with self._book_of(book_name) as book:
            self._append(book, line)

    def _record_about(self, person: Person, act: str, name: str) -> None:
        """Write an act into the service's book and into the newest book of a dataset, if both can be used."""
        with self._book_of(self._datasets.book_names(name)[-1]) as book:
            self.record(person, act, dataset=name)
            self._append(book, lambda balance: [Entry("act", _body(person, act, {}), _ACTS)])

    def _require_whole_name(self, name: str) -> None:
        if named(name)[1] is not None:
            raise InvalidArgument("name", "a dataset, and not one of its epochs", name, of="this")

    @contextmanager
    def _book_of(self, name: str) -> Iterator[Book]:
        """A separate handle of the book, as another process would have it. It disturbs no guard."""
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
        """Append the lines that ``lines`` makes from the current balance of the book. Returns the balance
        before, and its number of lines: the ``start`` for the next time."""
        balance, last_line = start or book.start()
        for _ in range(_TRIES):
            for event in book.events(after=last_line):
                balance.apply(event)
                last_line = event.sequence
            entries = lines(balance)
            if not entries:
                return balance, last_line
            try:
                book.append_all(entries, after=last_line)
                return balance, last_line
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
    balance, last_line = book.start()
    for event in book.events(after=last_line):
        balance.apply(event)
    return balance


def _body(person: Person, act: str, about: dict[str, Any]) -> dict[str, Any]:
    """The body of the line of an act. Its time has another key than "at", because acts do not count for a
    person's rate."""
    author = {"by": person.account, "identity": person.identity}
    return {"act": act, **author, "time": int(time.time()), **about}
