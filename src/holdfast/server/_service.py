"""One service: its folder, its key, its tokens, its datasets, its boards and its gates."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.guard import Board
from holdfast.ledger import SigningKey
from holdfast.ledger._marks import Marks
from holdfast.server._administration import Administration
from holdfast.server._boards import Boards
from holdfast.server._bundles import Bundles
from holdfast.server._contents import Contents
from holdfast.server._datasets import Dataset, Datasets
from holdfast.server._gates import Gates, OpenGate, unknown_gate
from holdfast.server._places import Places, Unknown, named
from holdfast.server._recorded import Recorded
from holdfast.server._sign_in import SignIn
from holdfast.server._store import PostgresStore, Store
from holdfast.server._tokens import Person, Tokens

_SCHEMA = """
CREATE TABLE IF NOT EXISTS [key] (
    id INTEGER PRIMARY KEY,
    public TEXT NOT NULL
) STRICT;
"""
_READY_WITHIN = 1.0


class Service:
    """Everything a running service knows, kept in one folder, or beside the books in PostgreSQL.

    Guarantee: services with the same ``books`` know the same tokens, policies and tables at once, and sign
    with one key; a service with another key is refused.

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
        _keep_to_owner(self.home)
        self.sources = Path(sources) if sources is not None else self.home / "data"
        self.sources.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.books = books
        self.key = SigningKey.at(self.home / "key" if key is None else key)
        self.places = Places(self.home, self.sources, self.key, books, tuple(allow), shared)
        self._store = self.places.store("contents")
        if books is not None:
            _require_key(self._store, self.key, replace=replace_key)
        contents = Contents(self._store)
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
        self.recorded = Recorded()
        self.tokens.name_kinds(datasets=self.datasets.names(), boards=self.boards.names())

    def _derived(self, purpose: str) -> bytes:
        """A secret that every machine with this service's key has, and nobody else."""
        return self.key.sign(f"holdfast secret 1\n{purpose}").encode()

    def dataset(self, person: Person, name: str) -> Dataset:
        """The dataset, or one of its epochs (people@1), if the person's token reaches it."""
        if not person.reaches("dataset", named(name)[0]):
            raise Unknown(f"There is no dataset {name!r} that this token reaches.")
        return self.datasets.get(name)

    def board(self, person: Person, name: str) -> Board:
        """The board, if the person's token reaches it."""
        if not person.reaches("board", name):
            raise Unknown(f"There is no board {name!r} that this token reaches.")
        return self.boards.get(name)

    def gate(self, person: Person, name: str) -> OpenGate:
        """The gate, if the person's token reaches it."""
        if not person.reaches("gate", name):
            raise unknown_gate(name)
        return self.gates.get(name)

    def visible(self, person: Person) -> list[str]:
        """The names of the datasets that the person's token reaches."""
        return [name for name in self.datasets.names() if person.reaches("dataset", name)]

    def ready(self) -> list[str]:
        """What keeps the service from answering, in words that show no place of the server; empty if nothing
        does. Looks at the store and at the database of the books, for a second at most, and at no rows."""
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
        """Take the book of this name as it is, though it runs behind its mark; False if it does not.

        The book says from then on how far it had come. What was spent in the lines that are lost stays
        unknown, so close the account after this.
        """
        with_marks = Marks(self.home / "marks")
        if with_marks.read(name) is None:
            raise HoldfastError(f"There is no mark of a book {name!r}, so it cannot run behind it.")
        book = self.places.book(name, marked=False)
        try:
            return book.accept_restored(with_marks)
        finally:
            book.close()

    def behind(self) -> list[str]:
        """What is wrong with books that run behind their marks, one text for each."""
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


def _keep_to_owner(home: Path) -> None:
    """Take the rights of others away from the folder, and so from everything in it."""
    if home.stat().st_mode & 0o077:
        home.chmod(0o700)


def _require_key(store: Store, key: SigningKey, *, replace: bool) -> None:
    """Refuse a key that the books are not signed with.

    Only the public half is with the books. Whoever can change the database could otherwise change the lines
    and sign them too; the private key is a file that the operator gives to every machine.
    """
    store.make(_SCHEMA)
    how = "UPDATE SET public = excluded.public" if replace else "NOTHING"
    store.execute(f"INSERT INTO [key] (id, public) VALUES (1, ?) ON CONFLICT (id) DO {how}", (key.public,))
    (public,) = store.execute("SELECT public FROM [key]").fetchone()
    if public != key.public:
        raise HoldfastError(
            f"These books are signed with {public}, and the key of this folder is {key.public}. Receipts "
            "from two keys would not verify. Copy the key file of the machine that has served them so far "
            "(HOME/key there, or --key). If that key is lost, start once with --replace-key: receipts "
            "from before stay valid with the old public key only."
        )
