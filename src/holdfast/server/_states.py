"""Which datasets are not served any more: archived ones, which can come back, and deleted ones, which cannot.

The account book of either stays where it is, and so does the claim on its rows: the same rows never get a
second account.
"""

from __future__ import annotations

import time

from holdfast.errors import HoldfastError
from holdfast.server._store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS [dataset_states] (
    name TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS [dataset_terms] (
    name TEXT PRIMARY KEY,
    changes INTEGER NOT NULL
) STRICT;
"""
STATE_COLUMNS = ("name", "state", "since")
ARCHIVED, DELETED = "archived", "deleted"


class Archived(HoldfastError):
    """The dataset is archived: nothing about it is answered until an owner takes it back."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The dataset {name!r} is archived. Its account book can be exported; to ask again, an owner "
            f"takes it back with `holdfast admin unarchive {name}`."
        )


class Deleted(HoldfastError):
    """The dataset was deleted: only its account book is left."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The dataset {name!r} was deleted. Its account book can still be exported, and nothing else."
        )


class States:
    """The datasets of a service that are archived or deleted, in the datasets' own database."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._database.make(SCHEMA)

    def of(self, name: str) -> str | None:
        """The state of a dataset: "archived", "deleted", or None for one that is served or unknown."""
        row = self._database.execute("SELECT state FROM [dataset_states] WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def require_served(self, name: str) -> None:
        """Refuse a dataset that is archived or deleted."""
        state = self.of(name)
        if state is not None:
            raise Deleted(name) if state == DELETED else Archived(name)

    def all(self) -> dict[str, tuple[str, int]]:
        """Every dataset that is not served: its state, and since when in seconds."""
        rows = self._database.execute("SELECT name, state, since FROM [dataset_states] ORDER BY name")
        return {name: (state, since) for name, state, since in rows}

    def write(self, name: str, state: str) -> None:
        """Write down the state of a dataset; one that is deleted stays so."""
        self._database.execute(
            "INSERT INTO [dataset_states] (name, state, since) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET state = excluded.state, since = excluded.since WHERE [dataset_states].state <> 'deleted'",
            (name, state, int(time.time())),
        )

    def serve(self, name: str) -> None:
        """Take an archived dataset back."""
        self._database.execute("DELETE FROM [dataset_states] WHERE name = ? AND state = ?", (name, ARCHIVED))

    def announce_terms(self, name: str) -> None:
        """Let every other process notice that the terms of a dataset were changed."""
        self._database.execute(
            "INSERT INTO [dataset_terms] (name, changes) VALUES (?, 1) ON CONFLICT (name) DO UPDATE "
            "SET changes = [dataset_terms].changes + 1",
            (name,),
        )
