"""The epochs of datasets that grow: where their rows are and what was said of them, written down before any
book is touched.

Whether an epoch exists is for the books to say: the one before it announces it. What is written here first
makes an opening that was cut short after that go on at the next start, and one that was cut short before it
mean nothing.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.guard import Guard
from holdfast.records import Record
from holdfast.server._policy import Policy
from holdfast.server._store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS [epochs] (
    dataset TEXT NOT NULL,
    number INTEGER NOT NULL,
    arrived TEXT NOT NULL,
    request TEXT NOT NULL,
    since INTEGER NOT NULL,
    whole INTEGER NOT NULL,
    PRIMARY KEY (dataset, number)
) STRICT;
"""
EPOCH_COLUMNS = ("dataset", "number", "arrived", "request", "since", "whole")
_COLUMNS = ", ".join(EPOCH_COLUMNS)


class Overtaken(HoldfastError):
    """Another epoch than the one at hand was opened already."""

    def __init__(self, dataset: str, number: int) -> None:
        super().__init__(
            f"Epoch {number} of {dataset!r} was opened already, with other rows or on other terms. Look at "
            "the dataset's epochs. To go on with that one, send the source and the terms it was opened with; "
            "for rows that arrived after it, open the epoch that comes next."
        )


@dataclass(frozen=True, repr=False)
class Arrived(Record):
    """Rows that arrived later, and what is new about them; everything else is as in the epoch before.

    ``confidence`` is the new epoch's own, or ``together`` that of all epochs that ever follow. ``rows``
    describes how the new rows depend on each other, and ``shares`` gives people and teams shares of the new
    account, each as in :class:`~holdfast.server.Policy`.
    """

    source: str
    confidence: float | None = None
    together: float | None = None
    rows: dict[str, Any] | None = None
    shares: dict[str, float] | None = None

    def policy(self, before: Policy) -> Policy:
        """The policy of the new epoch, but for its confidence."""
        return replace(
            before,
            rows=before.rows if self.rows is None else self.rows,
            shares=before.shares if self.shares is None else self.shares,
        )

    def guard(self, before: Guard, policy: Policy, count: int) -> Guard:
        """The guard of the new epoch, on ``count`` rows; called again, it goes on."""
        model = None if policy.rows == {"kind": "independent"} else policy.model(count)
        return before.next_epoch(
            self.source,
            confidence=self.confidence,
            together=self.together,
            dependence=model,
        )


def standing(guard: Guard) -> dict[str, Any]:
    """Which epoch a guard answers about, and what is left of its account."""
    left = guard.left
    return {
        "epoch": guard.epoch.number,
        "rows": guard.rows,
        "confidence": guard.confidence,
        "together": guard.epoch.together,
        "spent": guard.spent,
        "unit": guard.unit,
        "left": float(left) if math.isfinite(left) else None,
        "words": left.words,
        "closed": guard.closed,
    }


@dataclass(frozen=True)
class Planned:
    """An epoch as it was written down; ``whole`` once both books say that it is open."""

    number: int
    arrived: Arrived
    request: str
    since: int | None
    whole: bool


class Epochs:
    """What was written down about the epochs of a service's datasets, in the datasets' own database."""

    def __init__(self, database: Store) -> None:
        self._database = database
        self._database.make(SCHEMA)

    def plan(self, dataset: str, number: int, arrived: Arrived, request: str = "") -> Planned:
        """Write down what is about to be opened; refuse where another one is open already."""
        since = int(time.time())
        said = json.dumps(arrived.to_dict())
        done = self._database.execute(
            f"INSERT INTO [epochs] ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 0) "
            "ON CONFLICT (dataset, number) DO UPDATE SET "
            "arrived = excluded.arrived, request = excluded.request, since = excluded.since "
            "WHERE [epochs].whole = 0",
            (dataset, number, said, request, since),
        )
        if done.rowcount != 1:
            raise Overtaken(dataset, number)
        return Planned(number, arrived, request, since, whole=False)

    def settle(self, dataset: str, planned: Planned) -> None:
        """Write down that an epoch is open, whatever was planned meanwhile."""
        said = json.dumps(planned.arrived.to_dict())
        self._database.execute(
            f"INSERT INTO [epochs] ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, 1) "
            "ON CONFLICT (dataset, number) DO UPDATE SET arrived = excluded.arrived, "
            "request = excluded.request, since = excluded.since, whole = 1",
            (dataset, planned.number, said, planned.request, planned.since or 0),
        )

    def after(self, dataset: str, number: int) -> list[Planned]:
        """Every epoch that was written down after one, in order."""
        found = self._database.execute(
            "SELECT number, arrived, request, since, whole FROM [epochs] WHERE dataset = ? AND number > ? "
            "ORDER BY number",
            (dataset, number),
        )
        return [
            Planned(number, Arrived(**json.loads(said)), request, since, bool(whole))
            for number, said, request, since, whole in found
        ]
