"""Several processes behind one port are one service: one account, one list of answers, one set of metrics."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import numpy as np
import pandas as pd
import pytest
from server_process import start

from holdfast import ledger
from holdfast.server import Policy, Service
from waiting import wait_until

ROWS = 2_000


class Served:
    """A service with two workers, and an analyst who opens a connection for every request."""

    def __init__(self, home, books=None, workers="2"):
        (home / "data").mkdir(parents=True)
        pd.DataFrame({"x": np.random.default_rng(0).random(ROWS)}).to_parquet(home / "data" / "t.parquet")
        service = Service(home, books=books)
        service.datasets.register("t", "t.parquet", Policy(rate=10**6))
        self.token = service.tokens.issue("ann", role="analyst")[0]
        self.owner = service.tokens.issue("olga", role="owner")[0]
        service.close()
        options = () if books is None else ("--books", books)
        self.home = home
        self.process, self.said = start(home, "--workers", workers, *options)

    def call(self, method, path, *, token=None, **options):
        headers = {"Authorization": f"Bearer {token or self.token}"}
        url = f"{self.said['url']}/v1{path}"
        return httpx.request(method, url, headers=headers, timeout=120, **options)

    def ask(self, question):
        return self.call("POST", "/datasets/t/questions", json={"query": question})

    def workers(self):
        """The processes that serve."""
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        return {int(number) for number in listed.stdout.split() if is_worker(int(number))}

    def readers(self):
        """The process that read each question, by the book."""
        text = self.call("GET", "/datasets/t/ledger", token=self.owner).text
        return [int(found) for found in re.findall(r'"reader":"[0-9a-f]+:(\d+):', text.replace("\\", ""))]

    def stop(self):
        self.process.terminate()
        status = self.process.wait(timeout=60)
        self.process.stdout.close()
        return status


def is_worker(number):
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            return b"spawn_main" in file.read()
    except OSError:
        return False


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("workers") / "home")
    yield served
    if served.process.poll() is None:
        served.stop()


@pytest.fixture
def served_from_database(tmp_path, database):
    served = Served(tmp_path / "home", database)
    yield served
    served.stop()


def require_exact(served, tmp_path):
    """Race for the account from many connections, and compare it with the answers."""
    common = "share(x > 0.5)"

    def person(number):
        own = [served.ask(f"share(x < {(number * 10 + place + 1) / 100})") for place in range(4)]
        return [*own, served.ask(common)]

    with ThreadPoolExecutor(8) as pool:
        replies = [reply for replies in pool.map(person, range(8)) for reply in replies]
    assert {reply.status_code for reply in replies} == {200}
    answers = {reply.json()["query"]: reply.json() for reply in replies}
    assert len(answers) == 33
    assert len({reply.json()["receipt"]["sequence"] for reply in replies}) == 33  # The common one is one.
    # Go on until both workers have read something.
    for number in range(200):
        if len(set(served.readers())) == 2:
            break
        answer = served.ask(f"share(x < {0.9 + number / 1e4})").json()
        answers[answer["query"]] = answer
    assert set(served.readers()) == served.workers()
    spent = served.call("GET", "/datasets/t").json()["spent"]
    assert spent == pytest.approx(sum(answer["cost"] for answer in answers.values()), abs=1e-5)
    export = tmp_path / "export.jsonl"
    export.write_bytes(served.call("GET", "/datasets/t/ledger", token=served.owner).content)
    receipts = [ledger.Receipt(**answer["receipt"]) for answer in answers.values()]
    assert ledger.verify(export, served.said["key"], receipts=receipts).whole


def test_a_race_for_one_account_is_exact(served, tmp_path):
    require_exact(served, tmp_path)


def test_a_race_for_one_account_in_postgresql_is_exact(served_from_database, tmp_path):
    require_exact(served_from_database, tmp_path)


def test_every_worker_reports_the_metrics_of_all(served):
    for number in range(10):
        assert served.ask(f"share(x > {0.1 + number / 1e3})").status_code == 200
    route = 'holdfast_requests_total{method="POST",route="/v1/datasets/{name}/questions",status="200"}'

    def counted():
        text = served.call("GET", "/metrics", token=served.owner).text
        return float(next(row for row in text.splitlines() if row.startswith(route)).split()[-1]), text

    number, text = counted()
    assert served.ask("share(x > 0.1)").status_code == 200
    assert {counted()[0] for _ in range(8)} == {number + 1}  # Whichever worker is asked.
    memory = next(row for row in text.splitlines() if row.startswith("holdfast_memory_bytes "))
    assert float(memory.split()[1]) >= 2 * 64 * 2**20
    assert 'holdfast_book_answers_total{book="t"}' in text
    assert "pid=" not in text


@contextmanager
def stopped(worker):
    """A worker that takes no requests for a while."""
    os.kill(worker, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def test_what_is_free_is_counted_in_all_workers_together(served):
    given = served.call("POST", "/tokens", token=served.owner, json={"name": "bob", "role": "analyst"})
    long_words = {"query": "x" * 60_000}  # Counts as 60 requests: 600 are allowed in a minute.

    def rejected():
        path = "/datasets/t/preview"
        return served.call("POST", path, token=given.json()["token"], json=long_words).status_code

    first, second = sorted(served.workers())
    with stopped(second):
        assert [rejected() for _ in range(9)] == [422] * 9
        wait_until(lambda: rejected() == 429)
    # The other worker has served nothing of it. Alone it would let 10 of them pass.
    with stopped(first):
        assert 429 in [rejected() for _ in range(8)]
    assert served.ask("share(x > 0.11)").status_code == 200  # Nobody else is held up.


def test_a_dead_worker_loses_no_answer_and_is_started_again(served):
    first = served.ask("share(x > 0.77)").json()
    before = served.workers()
    answered_by = served.readers()[-1]
    os.kill(answered_by, signal.SIGKILL)
    # The other one has the same answer, free of charge.
    wait_until(lambda: not is_worker(answered_by))
    spent = served.call("GET", "/datasets/t").json()["spent"]
    again = served.ask("share(x > 0.77)").json()
    assert again["receipt"] == first["receipt"]
    assert served.call("GET", "/datasets/t").json()["spent"] == spent
    after = wait_until(lambda: len(served.workers()) == 2 and served.workers())
    assert len(after - before) == 1
    assert httpx.get(f"{served.said['url']}/v1/ready", timeout=60).status_code == 200


@pytest.mark.slow
def test_questions_that_a_dead_worker_left_behind_are_answered(served):
    for number in range(10):
        questions = [f"share(x < {0.3 + number / 100 + place / 1e4})" for place in range(4)]
        worker = next(iter(served.workers()))
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(served.ask, question) for question in questions]
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(served.workers()) == 2)
        assert {served.ask(question).status_code for question in questions} == {200}
        if any(one.exception() is not None for one in asked):
            break
    assert served.call("GET", "/datasets/t/verify").json()["whole"]


def test_a_signal_ends_all_of_them_in_order(served):
    workers = served.workers()
    assert len(workers) == 2
    assert served.stop() == 0
    wait_until(lambda: not any(is_worker(worker) for worker in workers))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_end_is_silent(tmp_path, workers, capfd):
    served = Served(tmp_path / "home", workers=workers)
    statuses = [served.ask(f"share(x > 0.{number})").status_code for number in range(1, 9)]
    assert (set(statuses), served.stop()) == ({200}, 0)
    assert capfd.readouterr().err == ""


def test_workers_end_when_nobody_watches_them(tmp_path):
    served = Served(tmp_path / "home")
    workers = served.workers()
    served.process.kill()
    served.process.wait()
    served.process.stdout.close()
    wait_until(lambda: not any(is_worker(worker) for worker in workers))
