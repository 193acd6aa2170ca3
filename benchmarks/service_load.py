"""How much a service carries on this machine: questions a second over loopback, full fsync, and long books.

The service runs as people run it (`holdfast serve`, SQLite books, every answer's reservation and release on
disk before it leaves); a second process asks over a few connections that are kept open. Rates are compared
with what the disk allows: a computed question is two appends, each one fsync.

    python benchmarks/service_load.py [--seconds 5] [--workers 1] [--lines 1000000]
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

import httpx
import numpy as np
import pandas as pd
from machine import keep

from holdfast import Guard
from holdfast.ledger import Book, SigningKey
from holdfast.ledger._event import Line, canonical, digest_of
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

    def __init__(self, folder: Path, workers: int) -> None:
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "serve", str(folder)]
        more = ["--port", "0", "--json", *(["--workers", str(workers)] if workers > 1 else [])]
        self._process = subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


async def load(
    url: str, token: str, question: Callable[[int], str], seconds: float, rate: float | None = None
) -> list[float]:
    """Ask for some seconds, as fast as it goes or at a rate; the milliseconds each answer took, counted from
    when it was due."""
    taken: list[float] = []
    number = 0
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as client:
        started = time.perf_counter()

        async def person() -> None:
            nonlocal number
            while True:
                number, mine = number + 1, number
                due = started + mine / rate if rate else time.perf_counter()
                if due > started + seconds or time.perf_counter() > started + 3 * seconds:
                    return
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                answer = await client.post("/v1/datasets/people/questions", json={"query": question(mine)})
                assert answer.status_code == 200, answer.text
                taken.append((time.perf_counter() - due) * 1e3)

        await asyncio.gather(*(person() for _ in range(CONNECTIONS)))
    return taken


def measured(url: str, token: str, question: Callable[[int, int], str], seconds: float) -> dict[str, Any]:
    """The highest rate, then the times at half of it."""
    asyncio.run(load(url, token, lambda number: question(0, number), 1.0))
    taken = asyncio.run(load(url, token, lambda number: question(1, number), seconds))
    rate = len(taken) / seconds
    at_half = sorted(asyncio.run(load(url, token, lambda number: question(2, number), seconds, rate / 2)))
    return {
        "a second": round(rate, 1),
        "p50 ms at half": round(statistics.median(at_half), 2),
        "p99 ms at half": round(at_half[int(0.99 * len(at_half))], 2),
    }


def throughput(folder: Path, seconds: float, workers: int) -> dict[str, Any]:
    place, token = home(folder / f"load {workers}")
    served = Served(place, workers)
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
        "workers": workers,
        "fsyncs a second": round(limit, 1),
        "computed, with a guess": computed,
        "computed, without": unguessed,
        "cached": cached,
        "computed over half the fsync limit": round(computed["a second"] / (limit / 2), 3),
    }


def write_lines(path: Path, key: SigningKey, table: pd.DataFrame, lines: int) -> None:
    """A book as ``lines`` lines of honest use leave it: written by the guard at first, then in bulk, with
    the checkpoints at the places where the guard puts them."""
    guard = Guard(table, ledger=Book(path, key=key))
    for number in range(20):
        guard.share(f"score > {number / 100}", guess=1 - number / 100)
    guard.close()
    book = Book(path, key=key)
    connection = book._lines._connection  # type: ignore[attr-defined]
    connection.execute("PRAGMA synchronous = OFF")
    (*_, last) = book.lines()
    balance, sequence = book.start()
    for event in book.events(sequence):
        balance.apply(event)
    pair = [line for line in book.lines() if line.kind in ("reserve", "release")][-2:]
    bodies = [json.loads(line.body) for line in pair]
    sequence, digest = last.sequence, last.digest
    connection.execute("BEGIN")
    while sequence < lines:
        for line, body in zip(pair, bodies, strict=True):
            said = {**body, "micro_nats": 1 if line.kind == "reserve" else 0}
            if line.kind == "release":
                said["reservation"] = sequence
            sequence += 1
            written = (sequence, line.kind, f"{sequence // 2:064x}", "", canonical(said))
            digest = digest_of(digest, *written)
            made = Line(*written, digest)
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", made)
            balance.apply(made.event())
        if sequence % 1000 < 2:
            connection.execute("COMMIT")
            made_event = book.checkpoint(balance, after=sequence)
            balance.apply(made_event)
            sequence, digest = made_event.sequence, made_event.digest
            connection.execute("BEGIN")
    connection.execute("COMMIT")
    book.close()


def long_book(folder: Path, lines: int) -> dict[str, Any]:
    """How long a guard takes to go on with a book, and a question from it."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, ROWS), "score": rng.random(ROWS)})
    source = folder / "long.parquet"
    table.to_parquet(source)
    key, path = SigningKey.generate(), folder / f"book {lines}.holdfast"
    write_lines(path, key, source, lines)  # type: ignore[arg-type]
    started = time.perf_counter()
    guard = Guard(source, ledger=Book(path, key=key))
    start = time.perf_counter() - started
    times = []
    for number in range(300):
        began = time.perf_counter()
        guard.share(f"score > {(number + 1) / 1e5!r}", guess=0.99)
        times.append((time.perf_counter() - began) * 1e3)
    guard.close()
    return {
        "lines": lines,
        "bytes": path.stat().st_size,
        "seconds to start": round(start, 3),
        "p50 ms to ask": round(statistics.median(times[50:]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--lines", type=int, default=10**6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loads = [throughput(folder, arguments.seconds, workers) for workers in arguments.workers]
        short, long = (long_book(folder, lines) for lines in (1_000, arguments.lines))
    keep(
        "service_load",
        {
            "load average": [round(value, 2) for value in os.getloadavg()],
            "throughput": loads,
            "short book": short,
            "long book": long,
            "ask, long over short": round(long["p50 ms to ask"] / short["p50 ms to ask"], 3),
        },
    )


if __name__ == "__main__":
    main()
