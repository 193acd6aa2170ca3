"""Clients that ask over connections that are kept open, and do as little as they can: they run on the cores
that they measure."""

from __future__ import annotations

import asyncio
import json
import selectors
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Target:
    """Where questions are sent, and as whom."""

    url: str
    path: str
    token: str = ""

    @property
    def head(self) -> bytes:
        """The header of a request up to the length of its body."""
        signed = f"Authorization: Bearer {self.token}\r\n" if self.token else ""
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: {urlsplit(self.url).netloc}\r\n{signed}"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()


class Connection(asyncio.Protocol):
    """One connection, for one question after the other."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._arrived, self._needed = b"", 0
        self._answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    async def ask(self, question: str) -> bytes:
        """The whole response to one question."""
        body = json.dumps({"query": question}).encode()
        self._answered = asyncio.get_running_loop().create_future()
        self._arrived, self._needed = b"", 0
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))  # type: ignore[attr-defined]
        return await self._answered

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        if not self._needed and (end := self._arrived.find(b"\r\n\r\n")) >= 0:
            head = self._arrived[:end].lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._needed = end + 4 + int(length)
        if self._needed and len(self._arrived) >= self._needed and self._answered is not None:
            self._answered.set_result(self._arrived)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error or ConnectionResetError())

    def close(self) -> None:
        self._transport.close()


async def load(
    targets: list[Target], question: Callable[[int], str], seconds: float, rate: float | None = None
) -> list[float]:
    """Ask for some seconds, one connection for each target, as fast as it goes or at a rate; the milliseconds
    each answer took, counted from when it was due."""
    taken: list[float] = []
    number = 0
    loop = asyncio.get_running_loop()
    made = []
    for target in targets:
        place = urlsplit(target.url)
        head = target.head
        made.append(
            await loop.create_connection(lambda head=head: Connection(head), place.hostname, place.port)
        )
    started = time.perf_counter()

    async def person(connection: Connection) -> None:
        nonlocal number
        while True:
            number, mine = number + 1, number
            due = started + mine / rate if rate else time.perf_counter()
            if due > started + seconds or time.perf_counter() > started + 3 * seconds:
                return
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            answer = await connection.ask(question(mine))
            assert answer.startswith(b"HTTP/1.1 200"), answer
            taken.append((time.perf_counter() - due) * 1e3)

    await asyncio.gather(*(person(connection) for _, connection in made))
    for _, connection in made:
        connection.close()
    return taken


def rate_of(targets: list[Target], question: Callable[[int], str], seconds: float) -> float:
    """Answers a second, as fast as it goes."""
    return len(asyncio.run(load(targets, question, seconds))) / seconds


def requests_to(target: Target, questions: Iterator[str]) -> Iterator[bytes]:
    """Whole requests, one for each question."""
    head = target.head
    for question in questions:
        body = json.dumps({"query": question}).encode()
        yield b"%b%d\r\n\r\n%b" % (head, len(body), body)


def rate_of_requests(targets: list[Target], requests: list[Iterator[bytes]], seconds: float) -> float:
    """Answers a second, as fast as it goes: one connection for each target, which sends the next of its
    requests once it has an answer. It takes half of the client's time of :func:`rate_of`, so that it leaves
    the cores to the service, and tells nothing of a single answer."""
    selector = selectors.DefaultSelector()
    for target, mine in zip(targets, requests, strict=True):
        place = urlsplit(target.url)
        connection = socket.create_connection((place.hostname or "", place.port or 80))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection, selectors.EVENT_READ, mine)
        connection.sendall(next(mine))
    half_read: dict[int, bytes] = {}
    answers, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for key, _ in selector.select(1.0):
            connection, number = key.fileobj, key.fd
            assert isinstance(connection, socket.socket)
            answer = half_read.pop(number, b"") + connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            headers_end = answer.find(b"\r\n\r\n")
            length = answer.find(b"content-length: ") + 16
            whole = headers_end > 0 and len(answer) >= headers_end + 4 + int(
                answer[length : answer.find(b"\r", length)]
            )
            if whole:
                answers += 1
                connection.sendall(next(key.data))
            else:
                half_read[number] = answer
    for key in list(selector.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    return answers / seconds


def measured(targets: list[Target], question: Callable[[int, int], str], seconds: float) -> dict[str, Any]:
    """The median of three highest rates, then the times at half of it."""
    asyncio.run(load(targets, lambda number: question(0, number), 1.0))
    rates = [rate_of(targets, lambda number, run=run: question(run, number), seconds) for run in (1, 2, 3)]
    rate = statistics.median(rates)
    at_half = sorted(asyncio.run(load(targets, lambda number: question(4, number), seconds, rate / 2)))
    return {
        "a second": round(rate, 1),
        "of": [round(each_rate, 1) for each_rate in rates],
        "p50 ms at half": round(statistics.median(at_half), 2),
        "p99 ms at half": round(at_half[int(0.99 * len(at_half))], 2),
    }
