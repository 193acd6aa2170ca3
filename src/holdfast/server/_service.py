"""One service: its folder, its key, its tokens, its datasets, its boards and its gates."""

from __future__ import annotations

from pathlib import Path

from holdfast.guard import Board
from holdfast.ledger import SigningKey
from holdfast.server._boards import Boards
from holdfast.server._datasets import Dataset, Datasets
from holdfast.server._gates import Gates, OpenGate, unknown_gate
from holdfast.server._places import Places, Unknown, named
from holdfast.server._tokens import Person, Tokens


class Service:
    """Everything a running service knows, kept in one folder.

    ``sources`` is where files of datasets may lie (default: the folder's ``data``); ``books`` a PostgreSQL
    URL for the account books, where several processes or machines serve the same datasets.
    """

    def __init__(
        self, home: str | Path, *, sources: str | Path | None = None, books: str | None = None
    ) -> None:
        self.home = Path(home)
        self.home.mkdir(parents=True, exist_ok=True)
        self.sources = Path(sources) if sources is not None else self.home / "data"
        self.sources.mkdir(parents=True, exist_ok=True)
        self.key = SigningKey.at(self.home / "key")
        self.tokens = Tokens(self.home / "tokens.sqlite")
        places = Places(self.home, self.sources, self.key, books)
        self.datasets = Datasets(self.home, places)
        self.boards = Boards(self.home, places)
        self.gates = Gates(self.home, places)
        self.tokens.name_kinds(datasets=self.datasets.names(), boards=self.boards.names())

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

    def close(self) -> None:
        """Close every file."""
        self.datasets.close()
        self.boards.close()
        self.gates.close()
        self.tokens.close()
