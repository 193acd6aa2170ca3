"""How much a service carries on this machine: questions a second over loopback, full fsync, and long books.

The service runs as people run it (`holdfast serve`, SQLite books, every answer's reservation and release on
disk before it leaves); a second process asks over a few connections that are kept open. Rates are compared
with what the disk allows: a computed question is two appends, each one fsync, which questions that wait for
the same account share. And they are compared with a bare FastAPI + DuckDB endpoint (``bare_service.py``) in
the same run, with 1, 8 and 32 clients.

    python benchmarks/service_load.py [--seconds 5] [--lines 1000000]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from load_client import Target, measured, rate_of
from machine import keep

from holdfast import Guard
from holdfast.ledger import Balance, Book, Event, SigningKey
from holdfast.ledger._lines import canonical, digest_of
from holdfast.server import Policy, Service

ROWS = 20_000
CONNECTIONS = 8
CLIENTS = (1, 8, 32)
TURNS = 3


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

    def __init__(self, folder: Path, *more: str) -> None:
        command = [sys.executable, "-c", "from holdfast.cli import main; main()", "serve", str(folder)]
        options = ["--port", "0", "--json", *more]
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]

    @property
    def process(self) -> int:
        """The number of the process; workers are its children."""
        return self._process.pid

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


class Bare:
    """The bare endpoint in a process of its own, over the same table."""

    def __init__(self, table: Path) -> None:
        command = [sys.executable, str(Path(__file__).parent / "bare_service.py"), str(table)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)


def _condition(first: int, number: int) -> str:
    """A condition that was not asked about before."""
    return f"score > {(first + number + 1) / 1e8}"


def over_bare(folder: Path, seconds: float) -> dict[str, Any]:
    """Answers a second over those of a bare FastAPI + DuckDB endpoint, in turns, by the number of clients."""
    place, token = home(folder / "ratio")
    served, bare = Served(place), Bare(place / "data" / "people.parquet")
    path, ratios = "/v1/datasets/people/questions", {}
    try:
        for clients in CLIENTS:
            ours = [Target(served.url, path, token)] * clients
            theirs = [Target(bare.url, "/questions")] * clients
            rates: dict[str, list[float]] = {}
            for turn in range(TURNS + 1):  # The first is for warming up.
                first = (clients * 10 + turn) * 10**5
                asked: dict[str, tuple[list[Target], Callable[[int], str]]] = {
                    "bare": (theirs, partial(_condition, first)),
                    "computed": (ours, lambda i, first=first: f"share({_condition(first, i)}, guess = 0.9)"),
                    "cached": (ours, lambda i: f"share(age > {20 + i % 50})"),
                }
                for name, (targets, question) in asked.items():
                    rates.setdefault(name, []).append(rate_of(targets, question, seconds))
            medians = {name: statistics.median(repeated[1:]) for name, repeated in rates.items()}
            ratios[str(clients)] = {
                **{f"{name} a second": round(rate, 1) for name, rate in medians.items()},
                "computed over bare": round(medians["computed"] / medians["bare"], 3),
                "cached over bare": round(medians["cached"] / medians["bare"], 3),
            }
    finally:
        served.stop()
        bare.stop()
    return ratios


def throughput(folder: Path, seconds: float) -> dict[str, Any]:
    place, token = home(folder / "load")
    served = Served(place)
    targets = [Target(served.url, "/v1/datasets/people/questions", token)] * CONNECTIONS
    try:
        limit = fsyncs_a_second(folder)
        computed = measured(
            targets,
            lambda run, i: f"share(score > {(run * 10**6 + i + 1) / 1e7}, guess = 0.9)",
            seconds,
        )
        unguessed = measured(targets, lambda run, i: f"share(score < {(run * 10**6 + i + 1) / 1e7})", seconds)
        cached = measured(targets, lambda run, i: f"share(age > {20 + i % 50})", seconds)
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
    """Write a book of ``lines`` lines.

    A guard begins it. The rest is written in bulk, with checkpoints as often as a guard writes them.
    """
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
        written = (sequence, kind, subject, "", canonical(body))
        digest = digest_of(digest, *written)
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (*written, digest))
        balance.apply(Event(sequence, kind, body, digest, subject))

    while sequence < lines:
        connection.execute("BEGIN")
        for _ in range(500):
            subject = f"{sequence:064x}"
            # As if somebody had asked ten times a second.
            at = reserve.body["at"] - (lines - sequence) // 20
            account = {"before": balance.before, "learned": balance.learned}
            write("reserve", subject, {**reserve.body, **account, "micro_nats": 1, "at": at})
            write("release", subject, {**release.body, "micro_nats": 0, "reservation": sequence})
        connection.execute("COMMIT")
        checkpoint = book.checkpoint(balance, after=sequence)
        balance.apply(checkpoint)
        sequence, digest = checkpoint.sequence, checkpoint.digest
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    book.close()
    os.sync()


def long_books(folder: Path, sizes: tuple[int, int], asked: int = 300) -> dict[str, Any]:
    """How long a guard takes to open a short and a long book, and to answer questions from both in turn."""
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
    parser.add_argument("--only", choices=["bare"], help="Only the ratios; nothing is kept.")
    parser.add_argument("--lines", type=int, default=10**6)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.only:
            print(json.dumps(over_bare(folder, arguments.seconds), indent=1))
            return
        rates = throughput(folder, arguments.seconds)
        ratios = over_bare(folder, arguments.seconds)
        books = long_books(folder, (1_000, arguments.lines))
    keep(
        "service_load",
        {
            "load average": [round(value, 2) for value in os.getloadavg()],
            "throughput": rates,
            "over a bare endpoint, by clients": ratios,
            "books": books,
        },
    )


if __name__ == "__main__":
    main()
