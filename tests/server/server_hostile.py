"""Hostile clients, and an honest one that measures what they do to others."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit


class Honest:
    """One person with one connection who asks and looks at health, and notes how long each takes."""

    def __init__(self, url: str, token: str) -> None:
        place = urlsplit(url)
        assert place.hostname is not None
        self._place = place.hostname, place.port
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection = http.client.HTTPConnection(*self._place, timeout=120)
        self._number = 0

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any], float]:
        """Status, content and seconds of one request."""
        content = None if body is None else json.dumps(body)
        started = time.perf_counter()
        try:
            self._connection.request(method, f"/v1{path}", content, self._headers)
            response = self._connection.getresponse()
        except (
            http.client.HTTPException,
            OSError,
        ):  # A connection that was idle may be closed; once is fine.
            self._connection.close()
            self._connection.request(method, f"/v1{path}", content, self._headers)
            response = self._connection.getresponse()
        text = response.read()
        return response.status, json.loads(text), time.perf_counter() - started

    def ask(self, dataset: str, condition: str) -> tuple[float, float]:
        """Seconds and nats of one question."""
        body = {"query": f"share({condition}, guess = 0.5)"}
        status, answer, seconds = self.call("POST", f"/datasets/{dataset}/questions", body)
        assert status == 200, answer
        return seconds, answer["cost"]

    def work(self, dataset: str, going_on: Callable[[int], bool]) -> Work:
        """Ask and look at health by turns, as long as ``going_on`` says so of the number of rounds: what
        comes after an attack must not be mixed with what came during it."""
        work = Work()
        while going_on(work.rounds):
            status, _, seconds = self.call("GET", "/health")
            assert status == 200
            work.seconds.append(seconds)
            self._number += 1
            seconds, cost = self.ask(dataset, f"x > {self._number / 10_000!r}")
            work.seconds.append(seconds)
            work.nats += cost
            work.rounds += 1
        return work

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def spent(self, dataset: str) -> float:
        """What the account has spent, open reservations included."""
        status, about, _ = self.call("GET", f"/datasets/{dataset}")
        assert status == 200
        return float(about["spent"])


class Work:
    """What one stretch of honest work took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.nats = 0.0
        self.rounds = 0

    @property
    def p99(self) -> float:
        """The 99th percentile of the seconds."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def raw(url: str, *, source: str | None = None) -> socket.socket:
    """A connection to a service, from an address of this machine's own network."""
    place = urlsplit(url)
    connection = socket.socket()
    connection.settimeout(60)
    if source is not None:
        connection.bind((source, 0))
    try:
        connection.connect((place.hostname, place.port))
    except OSError:
        connection.close()
        raise
    return connection


def header(path: str, *lines: str, method: str = "POST") -> bytes:
    """The header of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: h", *lines, "", ""]).encode()


def answered(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    arrived = b""
    with contextlib.suppress(ConnectionError):
        while block := connection.recv(1 << 16):
            arrived += block
    return arrived


@contextlib.contextmanager
def meanwhile(*works: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Run attacks in threads of their own; gives a function that says whether all are over."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=[work], daemon=True) for work in works]
    for thread in threads:
        thread.start()
    yield lambda: not any(thread.is_alive() for thread in threads)
    for thread in threads:
        thread.join(timeout=120)
    if errors:
        raise errors[0]
