"""A service that dies while it opens an epoch: the next start has either none of it or all of it."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, contextmanager, suppress
from itertools import pairwise

import httpx
import numpy as np
import pandas as pd
import pytest
from server_epoch_workers import before_each_change_of_epochs, open_until, people
from server_process import start

from holdfast.ledger import Book, EpochLink, export, verify_epochs
from holdfast.server import Arrived, Policy, Service
from waiting import wait_until

# What an opening writes, in order: the plan; that the old rows are looked at, what that could cost, and that
# it cost nothing; the announcement, the new book's first line, its identity in the book before, and that it
# is whole.
WRITES, ANNOUNCED = 8, 5


def house(home):
    """A service whose one dataset was asked once, and the rows that arrive for it."""
    service = Service(home)
    for part in range(3):
        values = np.random.default_rng(part).random(400)
        pd.DataFrame({"x": values}).to_parquet(service.sources / f"{part}.parquet")
    service.datasets.register("t", "0.parquet", Policy())
    service.datasets.get("t").guard.share("x > 0.5", guess=0.1)
    return service


def looked_at(home, folder):
    """How many epochs a new start has; what their books say must be one story."""
    service = Service(home)
    epochs = service.datasets.epochs("t")
    paths = [folder / f"{epoch.guard.epoch.number}.jsonl" for epoch in epochs]
    for one, path in zip(epochs, paths, strict=True):
        export(one.book, path)
    found = verify_epochs(paths, service.key.public)
    assert all(one.whole for one in found), found
    assert [epoch.guard.epoch.number for epoch in epochs] == [*range(1, len(epochs) + 1)]
    assert epochs[0].guard.spent > 0  # What was spent stays spent.
    for before, after in pairwise(epochs):
        assert before.book.about(EpochLink.OPENED, "act").body["book"] == after.book.identity
    opened = epochs[-1].book.about(EpochLink.ANNOUNCED, "act")
    assert opened is None  # Nothing is announced that is not there.
    service.close()
    return len(epochs)


# First and last, and on both sides of the announcement; the others are of the whole suite.
QUICK = (0, ANNOUNCED - 1, ANNOUNCED, WRITES)


@pytest.mark.parametrize(
    "writes", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in range(WRITES + 1)]
)
def test_a_crash_after_any_write_leaves_no_epoch_or_a_whole_one(tmp_path, writes):
    house(tmp_path).close()
    process = people.Process(target=open_until, args=(tmp_path, "1.parquet", writes))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert looked_at(tmp_path, tmp_path) == (1 if writes < ANNOUNCED else 2)
    service = Service(tmp_path)
    opened = service.datasets.next_epoch("t", Arrived("1.parquet"), "the request")
    assert opened.guard.epoch.number == 2
    assert opened.guard.spent == 0
    service.close()
    assert looked_at(tmp_path, tmp_path) == 2


def test_rows_whose_opening_came_to_nothing_do_not_stand_in_the_way_of_others(tmp_path):
    house(tmp_path).close()
    process = people.Process(target=open_until, args=(tmp_path, "1.parquet", 1))
    process.start()
    process.join()
    service = Service(tmp_path)
    assert service.datasets.next_epoch("t", Arrived("2.parquet")).planned.arrived.source.endswith("2.parquet")
    service.close()
    assert looked_at(tmp_path, tmp_path) == 2


def full(*arguments, **options):
    raise OSError("the disk is full")


@contextmanager
def no_new_book(broken):
    """No book of an epoch can be made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Book, "of_epoch", full)
        yield


def no_record(whole):
    """A function: no epoch can be recorded as planned (0), or as whole (1)."""

    @contextmanager
    def refused(broken):
        broken.append(f" {whole})")
        yield
        broken.clear()

    return refused


@pytest.mark.parametrize(
    "failing", [no_record(0), no_record(1), no_new_book], ids=["no plan", "no end", "no book"]
)
def test_an_error_on_the_way_leaves_the_running_service_as_it_was(tmp_path, monkeypatch, failing):
    broken, met = [], []

    def noted(statement):
        for ending in broken:
            if ending in statement:
                met.append(statement)
                full()

    monkeypatch.setattr(sqlite3, "connect", before_each_change_of_epochs(noted))
    service = house(tmp_path)
    with failing(broken):
        with pytest.raises(OSError, match="the disk is full"):
            service.datasets.next_epoch("t", Arrived("1.parquet"))
        assert service.datasets.get("t").guard.epoch.number == 1
        assert service.datasets.get("t").guard.share("x > 0.7").cost > 0
    assert len(met) == (failing is not no_new_book)
    assert service.datasets.next_epoch("t", Arrived("1.parquet")).guard.epoch.number == 2
    service.close()
    assert looked_at(tmp_path, tmp_path) == 2


def test_an_opening_that_does_not_write_its_plan_first_is_caught(tmp_path):
    """The twin: without the plan a crash after the announcement leaves an epoch that no start can find."""
    service = house(tmp_path)
    service.datasets.next_epoch("t", Arrived("1.parquet"))
    service.close()
    with closing(sqlite3.connect(tmp_path / "datasets.sqlite")) as database, database:
        assert database.execute("DELETE FROM epochs WHERE number = 2").rowcount == 1
    with pytest.raises(AssertionError):
        looked_at(tmp_path, tmp_path)


def killed(home, kills, seed):
    """Kill a server repeatedly while an owner opens epochs: how many were reported, and how many exist."""
    rng, told, number = np.random.default_rng([seed, 1]), 0, 1
    service = house(home)
    headers = {"Authorization": f"Bearer {service.tokens.issue('olga', role='owner')[0]}"}
    service.close()
    for turn in range(kills):
        pd.DataFrame({"x": rng.random(400)}).to_parquet(home / "data" / f"new{number}.parquet")
        process, said = start(home)
        url = said["url"]
        httpx.get(f"{url}/v1/datasets/t", headers=headers, timeout=60)  # Its rows are open from here on.
        answers = []

        def post(source=f"new{number}.parquet", url=url, answers=answers):
            key = {**headers, "Idempotency-Key": source}
            with suppress(httpx.TransportError):
                said = httpx.post(f"{url}/v1/datasets/t/epochs", json={"source": source}, headers=key)
                answers.append(said.status_code)

        sender = threading.Thread(target=post)
        sender.start()
        if turn % 3 < 2:  # Most kills are meant for the moments around the first lines of the new book.
            book = home / "books" / f"t.epoch-{number + 1}.holdfast"
            wait_until(lambda book=book, sender=sender: book.exists() or not sender.is_alive())
        # The moment is what is tried: any one may be the last.
        time.sleep(float(rng.uniform(0, 0.03 if turn % 3 < 2 else 1.5)))
        process.kill()
        sender.join()
        process.wait()
        process.stdout.close()
        there = looked_at(home, home)
        assert there in (number, number + 1)
        if answers:
            assert answers == [201]
            assert there == number + 1  # Every reported epoch exists.
        told, number = told + len(answers), there
    return told, number


def test_a_killed_server_has_every_epoch_that_it_reported(tmp_path, seed):
    told, there = killed(tmp_path, 1, seed)
    assert told <= there - 1
    assert there > 1


@pytest.mark.slow
def test_a_dozen_kills_of_a_server(tmp_path, seed):
    told, there = killed(tmp_path, 12, seed)
    assert told < there - 1  # Some were opened and the owner was never told.
    assert there > 4
