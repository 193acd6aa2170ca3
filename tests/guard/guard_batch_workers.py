"""Processes in which several questions are asked at a time, for tests that kill them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from threading import Lock

from guard_workers import table
from holdfast import Guard
from holdfast.ledger import Book, Entry, Event


def ask_together_and_tell(place: str, first: int, told: Connection) -> None:
    """Ask eight new questions at a time, and tell the answers once it has them; until killed."""
    guard = Guard(table(), ledger=Book(place))
    for number in range(first, first + 10_000, 8):
        texts = [f"share(x > {(number + i) / 1e6!r}, guess = 0.5)" for i in range(8)]
        told.send([(str(answer.query), answer.value, answer.cost) for answer in guard.ask_all(texts)])


def ask_together_and_die(place: str, moment: str) -> None:
    """Ask eight questions together, and be killed as soon as they are "reserved" or "recorded"."""
    append_all = Book.append_all
    last = {"reserved": "reserve", "recorded": "release"}[moment]

    def deadly(book: Book, entries: Sequence[Entry], *, after: int) -> list[Event]:
        events = append_all(book, entries, after=after)
        if events[-1].kind == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return events

    Book.append_all = deadly  # type: ignore[method-assign]
    guard = Guard(table(), ledger=Book(place))
    guard.ask_all([f"share(x > {(1 + i) / 1e6!r}, guess = 0.5)" for i in range(8)])


def ask_at_once_and_tell(place: str, first: int, told: Connection) -> None:
    """Eight people ask new questions at the same time, and each tells an answer once they have it; until
    killed."""
    guard, telling = Guard(table(), ledger=Book(place)), Lock()

    def ask(number: int) -> None:
        answer = guard.ask(f"share(x > {number / 1e6!r}, guess = 0.5)")
        with telling:
            told.send([(str(answer.query), answer.value, answer.cost)])

    with ThreadPoolExecutor(8) as people:
        list(people.map(ask, range(first, first + 10_000)))
