"""PostgreSQL restarts under load: nothing that was acknowledged is lost or paid twice, and the service works
again by itself."""

from __future__ import annotations

import tempfile
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import psycopg
import pytest

from holdfast import Guard
from holdfast.errors import DatabaseAway, QueryRejected
from holdfast.ledger import Book, BookError, PostgresDatabase
from holdfast.registry import StoreError
from holdfast.server import Policy, Service
from waiting import wait_until

PEOPLE, QUESTIONS = 3, 12


@pytest.fixture
def cluster(monkeypatch):
    """A PostgreSQL server that this test alone uses, and may restart."""
    pgserver = pytest.importorskip("pgserver")
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        server = pgserver.get_server(Path(folder) / "server")
        yield server
        server.cleanup()


def control(cluster, *arguments):
    from pgserver.postgres_server import pg_ctl

    pg_ctl(["-w", *arguments], pgdata=cluster.pgdata, user=cluster.system_user, timeout=60)


def restart(cluster, mode):
    control(cluster, "-m", mode, "stop")
    socket = cluster.get_uri().partition("host=")[2]
    control(cluster, "-o", '-h ""', "-o", f"-k {socket}", "-l", str(cluster.log), "start")


def insisting(ask):
    """Ask until there is an answer: what a client with a key does."""

    def answers():
        with suppress(BookError, StoreError):
            return [ask()]

    return wait_until(answers)[0]


def test_a_restart_under_load_loses_nothing_and_pays_nothing_twice(cluster, tmp_path):
    service = Service(tmp_path, books=cluster.get_uri())
    rng = np.random.default_rng(3)
    pd.DataFrame({"x": rng.random(3_000)}).to_parquet(service.sources / "t.parquet")
    service.datasets.register("t", "t.parquet", Policy(rate=10**6))
    tokens = [service.tokens.issue(f"p{number}", role="analyst")[0] for number in range(PEOPLE)]
    acknowledged, failures = {}, []
    under_way = threading.Event()

    def work(number):
        try:
            for place in range(QUESTIONS):
                request = f"{number} {place}"
                cut = 0.05 + 0.9 * (place * PEOPLE + number) / (PEOPLE * QUESTIONS)

                def ask(request=request, cut=cut):
                    person = service.tokens.holder(tokens[number])
                    return service.datasets.get("t").ask(person, f"share(x > {cut:.4f})", request)

                acknowledged[request] = insisting(ask)
                if len(acknowledged) >= 4:
                    under_way.set()
        except BaseException as error:
            failures.append(error)
            under_way.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(PEOPLE)]
    for thread in threads:
        thread.start()
    assert under_way.wait(120)
    for mode in ("fast", "immediate", "fast"):
        restart(cluster, mode)
    for thread in threads:
        thread.join(240)
    assert failures == []
    assert len(acknowledged) == PEOPLE * QUESTIONS
    # The book, read again, has every answer once, and adds up to what was acknowledged.
    dataset = service.datasets.get("t")
    lines = list(dataset.book.events())
    released = [line for line in lines if line.kind == "release"]
    assert len({line.subject for line in released}) == len(released) == len(acknowledged)
    assert len([line for line in lines if line.kind == "fail"]) == 0
    for request, answer in acknowledged.items():
        recorded = dataset.book.requested(request)
        assert recorded is not None
        assert dataset.book.about(recorded.subject, "release").digest == answer.receipt.digest
    paid = sum(line.body["micro_nats"] for line in released) / 1e6
    balance = dataset.guard.balance
    assert balance.micro_nats / 1e6 == pytest.approx(paid)
    assert paid == pytest.approx(sum(answer.cost for answer in acknowledged.values()), abs=1e-4)
    assert balance.open == {}  # Nothing is left reserved: no lost line was reserved again.
    assert service.ready() == []
    service.close()


def test_a_database_that_is_away_is_named_in_plain_words(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(PostgresDatabase.run, "__kwdefaults__", {"patience": 1.0})
    service = Service(tmp_path, books=cluster.get_uri())
    control(cluster, "-m", "fast", "stop")
    with pytest.raises(StoreError, match=r"written \(the database does not answer\)\. Check"):
        service.tokens.all()
    service.close()


def test_a_line_whose_fate_is_unknown_is_looked_up_before_it_is_sent_again(cluster):
    """The connection is lost after the line was written, and once before."""
    book = Book(cluster.get_uri())
    lost = {"after": 1, "before": 1}

    class Losing:
        def __init__(self, connection):
            self._connection = connection

        def execute(self, statement, values=()):
            writes = statement.startswith("INSERT INTO holdfast_events")
            if writes and lost["before"]:
                lost["before"] -= 1
                self._connection.close()
            done = self._connection.execute(statement, values)
            if writes and lost["after"]:
                lost["after"] -= 1
                self._connection.close()
                self._connection.execute("SELECT 1")
            return done

    database, run = book._lines._database, PostgresDatabase.run
    database.run = lambda work, **options: run(database, lambda one: work(Losing(one)), **options)
    book.append("open", {"n": 1}, after=0)
    assert lost == {"after": 0, "before": 0}
    lost["after"] = 1
    book.append("act", {"n": 2}, after=1)
    assert [line.body for line in book.events()] == [{"n": 1}, {"n": 2}]
    book.close()


def test_readiness_is_right_while_the_database_is_away(cluster, tmp_path):
    service = Service(tmp_path, books=cluster.get_uri())
    secret = service.tokens.issue("ann", role="analyst")[0]
    assert service.ready() == []
    control(cluster, "-m", "fast", "stop")
    problems = service.ready()
    assert problems == ["The database of the account books does not answer."]
    socket = cluster.get_uri().partition("host=")[2]
    control(cluster, "-o", '-h ""', "-o", f"-k {socket}", "-l", str(cluster.log), "start")
    assert insisting(lambda: service.tokens.holder(secret)).name == "ann"
    assert service.ready() == []
    service.close()


def test_a_table_whose_database_is_away_costs_nobody_a_question(cluster):
    """A question was charged as failed, and so was every one after the database was back."""
    rows = np.random.default_rng(0).random(2_000)
    with psycopg.connect(cluster.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE TABLE towns (x FLOAT8)")
        with connection.cursor().copy("COPY towns FROM STDIN") as copy:
            copy.write("".join(f"{value!r}\n" for value in rows.tolist()))
    guard = Guard(f"{cluster.get_uri()}#towns", training_share=0.0)
    first = guard.share("x > 0.5", guess=0.5)
    spent = guard.spent
    control(cluster, "-m", "fast", "stop")
    asked = {
        "a share": lambda: guard.share("x > 0.4", guess=0.6),
        "several": lambda: guard.ask_all(["share(x > 0.3)", "share(x > 0.2)"]),
        "a claim": lambda: guard.discover("share(x > 0.1) > 0.5"),
        "a report": lambda: guard.report(["share(x > 0.7)"]),
    }
    for name, ask in asked.items():
        with pytest.raises(DatabaseAway, match="nothing was charged"):
            ask()
        assert (guard.spent, guard.closed) == (spent, False), name
    assert guard.share("x > 0.5", guess=0.5).value == first.value  # What was answered needs no rows.
    socket = cluster.get_uri().partition("host=")[2]
    control(cluster, "-o", '-h ""', "-o", f"-k {socket}", "-l", str(cluster.log), "start")
    assert guard.share("x > 0.4", guess=0.6).low < 0.6 < guard.share("x > 0.4", guess=0.6).high
    assert guard.spent > spent
    control(cluster, "-m", "fast", "stop")
    control(cluster, "-o", '-h ""', "-o", f"-k {socket}", "-l", str(cluster.log), "start")
    with psycopg.connect(cluster.get_uri(), autocommit=True) as connection:
        connection.execute("INSERT INTO towns VALUES (0.5)")
    with pytest.raises(QueryRejected, match="had 2,000 rows and has 2,001"):
        guard.share("x > 0.8")  # A connection that was lost is a reason to count at once.
    guard.close()
