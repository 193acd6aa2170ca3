"""A storm: processes are killed and paused, the clock jumps, the disk is full and PostgreSQL restarts, while
people ask. No acknowledged answer is lost, none is unpaid or paid twice, and the account is exact."""

from __future__ import annotations

import http.client
import json
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.ledger import Balance, Book
from holdfast.server import Policy, Service
from waiting import wait_until

PEOPLE = 3
HERE = Path(__file__).parent
HOUR = 3_600


class Served:
    """A service in a process of its own, and what a storm can do to it."""

    def __init__(self, home, books=None):
        self.home, self.books = home, books
        self.clock = home / "clock"
        self.clock.write_text("0")
        self.start()

    def start(self):
        command = [sys.executable, HERE / "server_storm_process.py", self.clock, "serve", self.home]
        options = ["--port", "0", "--json", *(["--books", self.books] if self.books else [])]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        self.address = urlsplit(json.loads(self.process.stdout.readline())["url"]).netloc

    def kill(self, rng):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.start()

    def pause(self, rng):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(float(rng.uniform(0.05, 0.3)))  # The pause is what is tried.
        self.process.send_signal(signal.SIGCONT)

    def move_clock(self, rng):
        self.clock.write_text(str(int(rng.integers(-2, 3)) * HOUR))

    def fill_disk(self, rng):
        """No file of the service can grow for a while."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        time.sleep(float(rng.uniform(0.05, 0.3)))  # That it lasts for a while is what is tried.
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, unlimited)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class Person(threading.Thread):
    """Somebody who asks one question after the other, and asks again under the same key until there is an
    answer."""

    def __init__(self, number, token, served):
        super().__init__(daemon=True)
        self.number, self.token, self.served = number, token, served
        self.acknowledged, self.over = {}, threading.Event()

    def run(self):
        place = 0
        while not self.over.is_set():
            question = f"share(x > {(place * PEOPLE + self.number + 1) / 1e6!r}, guess = 0.5)"
            answer = self.insist(question, f"{self.number}-{place}")
            if answer is not None:
                self.acknowledged[answer["query"]] = answer
            place += 1

    def insist(self, question, key):
        while not self.over.is_set():
            try:
                status, answer = self.post(question, key)
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)  # As a client does before it tries again.
                continue
            if status == 200:
                return answer
            assert status in (500, 503), (status, answer)
            time.sleep(0.02)
        return None

    def post(self, question, key):
        connection = http.client.HTTPConnection(self.served.address, timeout=10)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
            headers["Content-Type"] = "application/json"
            connection.request("POST", "/v1/datasets/t/questions", json.dumps({"query": question}), headers)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()


def checked(place, people):
    """The balance of the book, once all that was acknowledged is found there, paid once and exactly."""
    told = [answer for person in people for answer in list(person.acknowledged.values())]
    book, balance = Book(place), Balance()
    releases, texts = {}, {}
    for event in book.events():
        balance.apply(event)
        # Who reads is one process at a time, and only what waits for one turn is open together.
        assert len(balance.open) <= PEOPLE
        if event.kind == "reserve":
            texts[event.sequence] = event.body["text"]
        if event.kind == "release":
            text = texts[event.body["reservation"]]
            assert text not in releases  # Nothing is answered twice.
            releases[text] = event.body
    book.close()
    for answer in told:
        assert answer["query"] in releases  # Nothing is lost.
        recorded = releases[answer["query"]]
        assert recorded["released"]["value"] == answer["value"]
        assert recorded["micro_nats"] == round(answer["cost"] * 1e6)
    return balance, len(told)


def storm(home, rounds, seed, cluster=None):
    """So many rounds of weather; returns what happened how often, and how much was answered."""
    books = None if cluster is None else cluster.get_uri()
    service = Service(home, books=books)
    table = pd.DataFrame({"x": np.random.default_rng(3).random(2_000)})
    table.to_parquet(service.sources / "t.parquet")
    service.datasets.register("t", "t.parquet", Policy(rate=10**9))
    tokens = [service.tokens.issue(f"p{number}", role="analyst")[0] for number in range(PEOPLE)]
    service.close()
    joint = "" if books is None else "&" if "?" in books else "?"
    place = home / "books" / "t.holdfast" if books is None else f"{books}{joint}holdfast_book={quote('t')}"
    served, rng, weather = Served(home, books), np.random.default_rng(seed), Counter()
    people = [Person(number, token, served) for number, token in enumerate(tokens)]
    kinds = [served.kill, served.pause, served.move_clock, served.fill_disk]
    if cluster is not None:
        kinds[-1] = cluster.restart
    for person in people:
        person.start()
    try:
        for number in range(rounds):
            before = sum(len(person.acknowledged) for person in people)
            happens = kinds[number % 4 if rounds < 10 else rng.integers(len(kinds))]
            happens(rng)
            weather[happens.__name__] += 1
            # The service works again by itself.
            wait_until(lambda before=before: sum(len(one.acknowledged) for one in people) > before)
            if number % 25 == 24:
                checked(place, people)
    finally:
        for person in people:
            person.over.set()
        for person in people:
            person.join(60)
        served.kill(rng)  # What was under way is read again by the next start.
        first = people[0]
        first.over.clear()
        last = first.insist("share(x > 0.999, guess = 0.1)", "last")
        first.over.set()
        served.stop()
    assert last is not None
    balance, told = checked(place, people)
    assert balance.open == {}
    return weather, told, balance


class Cluster:
    """A PostgreSQL server that this test alone uses."""

    def __init__(self, server):
        self._server = server

    def get_uri(self):
        return self._server.get_uri()

    def restart(self, rng):
        mode = str(rng.choice(["fast", "immediate"]))
        self._control("-m", mode, "stop")
        socket = self.get_uri().partition("host=")[2]
        self._control("-o", '-h ""', "-o", f"-k {socket}", "-l", str(self._server.log), "start")

    def _control(self, *arguments):
        from pgserver.postgres_server import pg_ctl

        pg_ctl(["-w", *arguments], pgdata=self._server.pgdata, user=self._server.system_user, timeout=60)


@pytest.fixture
def cluster(monkeypatch):
    pgserver = pytest.importorskip("pgserver")
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        server = pgserver.get_server(Path(folder) / "server")
        yield Cluster(server)
        server.cleanup()


def test_a_short_storm(tmp_path, seed):
    weather, told, _ = storm(tmp_path, 4, seed)
    assert len(weather) == 4
    assert told >= 4


@pytest.mark.parametrize("change", [None, {"query": "lost"}, {"cost": 0.5}, {"value": 0.25}], ids=str)
def test_the_check_notices_what_is_lost_or_unpaid(tmp_path, change):
    guard = Guard({"x": np.random.default_rng(3).random(2_000)}, ledger=tmp_path / "book")
    answers = [guard.share(f"x > {limit}").to_dict() for limit in (0.25, 0.5)]
    answers[1] |= change or {}
    person = SimpleNamespace(acknowledged={answer["query"]: answer for answer in answers})
    with pytest.raises(AssertionError) if change else nullcontext():
        checked(tmp_path / "book", [person])


# 500 rounds in all: 400 with books in files and 100 with books in PostgreSQL, in pieces of a few minutes.
@pytest.mark.slow
@pytest.mark.parametrize("piece", range(8))
def test_fifty_rounds_of_storm(tmp_path, seed, piece):
    weather, told, balance = storm(tmp_path, 50, 100 * piece + seed)
    print(f"piece {piece}: {dict(weather)}, {told} answers, {balance.interrupted} read again")
    assert min(weather.values()) > 2
    assert told > 50
    assert balance.interrupted > 0


@pytest.mark.slow
@pytest.mark.parametrize("piece", range(4))
def test_rounds_of_storm_with_books_in_postgresql(cluster, tmp_path, seed, piece):
    weather, told, balance = storm(tmp_path, 25, 100 * piece + seed, cluster)
    print(f"piece {piece}: {dict(weather)}, {told} answers, {balance.interrupted} read again")
    assert weather["restart"] > 1
    assert told > 25
