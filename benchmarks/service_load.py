"""How much a service carries on this machine: questions a second over loopback, full fsync, and long books.

The service runs as people run it (`holdfast serve`, SQLite books, every answer's reservation and release on
disk before it leaves); a second process asks over a few connections that are kept open. Rates are compared
with what the disk allows: a computed question is two appends, each one fsync, which questions that wait for
the same account share.

    python benchmarks/service_load.py [--seconds 5] [--lines 1000000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from machine import keep

from holdfast import Guard
from holdfast.ledger import Balance, Book, Event, SigningKey
from holdfast.ledger._event import canonical, digest_of
from holdfast.server import Policy, Service

ROWS = 20_000
CONNECTIONS = 8


def fsyncs_a_second(folder: Path, count: int = 300) -> float:
    """How many appends of one page a second the disk acknowledges, one after the other."""
    with (folder / "fsync").open("wb", buffering=0) as file:
        started = time.perf_counter()
        for _ in range(count):
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
        return count / (time.perf_counter() - started)


def home(folder: Path) -> tuple[Path, str]:
    """A service with one dataset, and an analyst's token."""
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, ROWS), "score": rng.random(ROWS)})
    table.to_parquet(folder / "data" / "people.parquet")
    service = Service(folder)
    service.datasets.register("people", "people.parquet", Policy(rate=10**9))
    token, _ = service.tokens.issue("ann", role="analyst")
    service.close()
    return folder, token


class Served:
    """A service in a process of its own."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "serve", str(folder)]
        options = ["--port", "0", "--json"]
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


class Connection(asyncio.Protocol):
    """One connection that is kept open and asks one question after the other; it does as little as it can,
    because it runs on the cores that it measures."""

    def __init__(self, url: str, token: str) -> None:
        self._before = (
            f"POST /v1/datasets/people/questions HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: "
        ).encode()
        self._arrived, self._needed = b"", 0
        self._answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    async def ask(self, question: str) -> bytes:
        """The whole response to one question."""
        body = json.dumps({"query": question}).encode()
        self._answered = asyncio.get_running_loop().create_future()
        self._arrived, self._needed = b"", 0
        self._transport.write(b"%b%d\r\n\r\n%b" % (self._before, len(body), body))  # type: ignore[attr-defined]
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
    url: str, token: str, question: Callable[[int], str], seconds: float, rate: float | None = None
) -> list[float]:
    """Ask for some seconds, as fast as it goes or at a rate; the milliseconds each answer took, counted from
    when it was due."""
    taken: list[float] = []
    number = 0
    loop, place = asyncio.get_running_loop(), urlsplit(url)
    made = [
        await loop.create_connection(lambda: Connection(url, token), place.hostname, place.port)
        for _ in range(CONNECTIONS)
    ]
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


def measured(url: str, token: str, question: Callable[[int, int], str], seconds: float) -> dict[str, Any]:
    """The median of three highest rates, then the times at half of it."""
    asyncio.run(load(url, token, lambda number: question(0, number), 1.0))
    rates = [
        len(asyncio.run(load(url, token, lambda number, run=run: question(run, number), seconds))) / seconds
        for run in (1, 2, 3)
    ]
    rate = statistics.median(rates)
    at_half = sorted(asyncio.run(load(url, token, lambda number: question(4, number), seconds, rate / 2)))
    return {
        "a second": round(rate, 1),
        "of": [round(one, 1) for one in rates],
        "p50 ms at half": round(statistics.median(at_half), 2),
        "p99 ms at half": round(at_half[int(0.99 * len(at_half))], 2),
    }


def throughput(folder: Path, seconds: float) -> dict[str, Any]:
    place, token = home(folder / "load")
    served = Served(place)
    try:
        limit = fsyncs_a_second(folder)
        computed = measured(
            served.url,
            token,
            lambda run, i: f"share(score > {(run * 10**6 + i + 1) / 1e7}, guess = 0.9)",
            seconds,
        )
        unguessed = measured(
            served.url, token, lambda run, i: f"share(score < {(run * 10**6 + i + 1) / 1e7})", seconds
        )
        cached = measured(served.url, token, lambda run, i: f"share(age > {20 + i % 50})", seconds)
    finally:
        served.stop()
    return {
        "fsyncs a second": round(limit, 1),
        "computed, with a guess": computed,
        "computed, without": unguessed,
        "cached": cached,
        "computed over half the fsync limit": round(computed["a second"] / (limit / 2), 3),
    }


def write_lines(path: Path, key: SigningKey, source: Path, lines: int) -> None:
    """A book as ``lines`` lines of use leave it: begun by a guard, gone on with in bulk, with checkpoints as
    often as a guard writes them."""
    guard = Guard(source, ledger=Book(path, key=key))
    for number in range(20):
        guard.share(f"score > {number / 100}", guess=1 - number / 100)
    guard.close()
    book = Book(path, key=key)
    connection = book._lines._connection  # type: ignore[attr-defined]
    connection.execute("PRAGMA synchronous = OFF")
    balance, begun = Balance(), list(book.events())
    for event in begun:
        balance.apply(event)
    reserve, release = begun[-2:]
    sequence, digest = release.sequence, release.digest

    def write(kind: str, subject: str, body: dict[str, Any]) -> None:
        nonlocal sequence, digest
        sequence += 1
        said = (sequence, kind, subject, "", canonical(body))
        digest = digest_of(digest, *said)
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (*said, digest))
        balance.apply(Event(sequence, kind, body, digest, subject))

    while sequence < lines:
        connection.execute("BEGIN")
        for _ in range(500):
            subject = f"{sequence:064x}"
            # As if somebody had asked ten times a second.
            at = reserve.body["at"] - (lines - sequence) // 20
            write("reserve", subject, {**reserve.body, "micro_nats": 1, "at": at})
            write("release", subject, {**release.body, "micro_nats": 0, "reservation": sequence})
        connection.execute("COMMIT")
        checkpoint = book.checkpoint(balance, after=sequence)
        balance.apply(checkpoint)
        sequence, digest = checkpoint.sequence, checkpoint.digest
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    book.close()
    os.sync()


def long_books(folder: Path, sizes: tuple[int, int], asked: int = 300) -> dict[str, Any]:
    """How long a guard takes to go on with a short and with a long book, and questions from both in turn."""
    rng = np.random.default_rng(0)
    source = folder / "long.parquet"
    pd.DataFrame({"age": rng.integers(18, 90, ROWS), "score": rng.random(ROWS)}).to_parquet(source)
    key, guards, starts = SigningKey.generate(), [], []
    for lines in sizes:
        path = folder / f"book {lines}.holdfast"
        write_lines(path, key, source, lines)
        started = time.perf_counter()
        guards.append(Guard(source, ledger=Book(path, key=key)))
        starts.append(time.perf_counter() - started)
    times: list[list[float]] = [[], []]
    for number in range(asked):
        for guard, taken in zip(guards, times, strict=True):
            began = time.perf_counter()
            guard.share(f"score > {(number + 1) / 1e5!r}", guess=0.99)
            taken.append((time.perf_counter() - began) * 1e3)
    for guard in guards:
        guard.close()
    short, long = (statistics.median(taken[asked // 5 :]) for taken in times)
    return {
        "lines": list(sizes),
        "seconds to start": [round(start, 3) for start in starts],
        "p50 ms to ask": [round(short, 3), round(long, 3)],
        "ask, long over short": round(long / short, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--lines", type=int, default=10**6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = throughput(folder, arguments.seconds)
        books = long_books(folder, (1_000, arguments.lines))
    keep(
        "service_load",
        {
            "load average": [round(value, 2) for value in os.getloadavg()],
            "throughput": found,
            "books": books,
        },
    )


if __name__ == "__main__":
    main()
