"""People in processes of their own who ask from one account, for tests that race and kill them."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from threading import Lock, Thread
from typing import Any

import numpy as np

from holdfast import Guard
from holdfast.errors import BudgetSpent
from holdfast.guard import Asker
from holdfast.ledger import Balance, Book

# Started from a process that has everything imported, so that a test can afford hundreds of them.
people = multiprocessing.get_context("forkserver")
people.set_forkserver_preload(["holdfast.guard", "holdfast.engines", "ibis", "duckdb", "pandas", "psycopg"])


def table() -> dict[str, Any]:
    return {"x": np.random.default_rng(3).random(1000)}


def ask_and_tell(place: str, first: int, told: Connection, threads: int) -> None:
    """Ask one new question after another, in so many threads, and tell each answer once it is there; until
    killed."""
    guard, one_at_a_time = Guard(table(), ledger=Book(place)), Lock()

    def person(start: int) -> None:
        for number in range(start, first + 10_000, threads):
            answer = guard.share(f"x > {number / 1e7!r}", guess=0.5)
            with one_at_a_time:
                told.send((str(answer.query), answer.value, answer.cost))

    for start in range(first + 1, first + threads):
        Thread(target=person, args=(start,), daemon=True).start()
    person(first)


def race(place: str, person: int, questions: int, cap: int) -> None:
    """Ask some questions of one's own and some that others ask too, until a shared cap of micro-nats."""

    def permit(balance: Balance, price: int) -> None:
        if balance.micro_nats + balance.reserved + price > cap:
            raise BudgetSpent("the cap is reached")

    guard = Guard(table(), ledger=Book(place))
    for number in range(questions):
        shared = number % 5 == 0
        limit = number / 1e4 if shared else (person * questions + number + 1) / 1e6
        try:
            guard.ask(f"share(x > {limit!r}, guess = 0.9)", asker=Asker(f"/{person}", permit=permit))
        except BudgetSpent:
            continue
    guard.close()
