"""What a question costs on top of plain SQL, as ratios measured in one run.

Plain is DuckDB's float `avg` of the same clipped expression and filter over the same protected rows. The
guard is given its guess, so that both read the protected rows once. Every figure is the median over
repetitions, guard and plain in turn.

    python benchmarks/guard_speed.py [--rows 10000000] [--session 10000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from machine import keep

from holdfast import Guard
from holdfast.engines import unsealed

REPETITIONS = 15


def table(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "income": rng.normal(40_000, 12_000, rows),
            "score": rng.random(rows),
            "region": rng.integers(0, 20, rows),
        }
    )


def milliseconds(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3


def compare(guard: Guard, plain: duckdb.DuckDBPyConnection, allowance: float) -> list[dict[str, Any]]:
    """Guard and plain SQL in turn, on questions that differ in a constant so that none was asked before."""
    clipped = "greatest(0, least(100000, income))"
    cases = {
        "share": (
            lambda i: guard.share(f"age > {40 + i / 1000}", guess=0.68),
            lambda i: f"select avg((age > {40 + i / 1000})::double) from rows",
        ),
        "share with a filter": (
            lambda i: guard.share(f"age > {40 + i / 1000}", where="region < 10", guess=0.68),
            lambda i: f"select avg((age > {40 + i / 1000})::double) from rows where region < 10",
        ),
        "clipped mean": (
            lambda i: guard.mean(f"income + {i}", bounds=(0, 100_000), guess=40_000),
            lambda i: f"select avg({clipped} + {i}) from rows",
        ),
        "clipped mean with a filter": (
            lambda i: guard.mean(f"income + {i}", bounds=(0, 100_000), where="region < 10", guess=40_000),
            lambda i: f"select avg(greatest(0, least(100000, income + {i}))) from rows where region < 10",
        ),
    }
    results = []
    for name, (ask, sql) in cases.items():
        times: dict[str, list[float]] = {"guard": [], "plain": []}
        for i in range(1, REPETITIONS + 1):
            times["plain"].append(milliseconds(lambda i=i, sql=sql: plain.execute(sql(i)).fetchone()))
            times["guard"].append(milliseconds(lambda i=i, ask=ask: ask(i)))
        ours, theirs = statistics.median(times["guard"]), statistics.median(times["plain"])
        results.append(
            {
                "question": name,
                "guard ms": round(ours, 2),
                "plain ms": round(theirs, 2),
                "ratio": round(ours / theirs, 2),
                "allowed ms": round(1.3 * theirs + allowance, 2),
                "within": ours <= 1.3 * theirs + allowance,
            }
        )
    return results


def against_plain(rows: int, allowance: float, *, parquet: bool) -> dict[str, Any]:
    data = table(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        if parquet:
            pq.write_table(data, path)
        started = time.perf_counter()
        guard = Guard(str(path) if parquet else data)
        opened = time.perf_counter() - started
        plain = duckdb.connect()
        with unsealed():
            plain.register("protected", guard._setup.protected.rows.frame())
        plain.execute("create table rows as select * from protected")
        results = compare(guard, plain, allowance)
    return {"rows": rows, "parquet": parquet, "seconds to open": round(opened, 2), "questions": results}


def ask_many(questions: int, after_each: Callable[[int], None]) -> list[float]:
    """One account, one new question after another; the milliseconds each took."""
    guard, times = Guard(table(20_000)), []
    for i in range(questions):
        times.append(
            milliseconds(lambda i=i: guard.share(f"score > {i / questions!r}", guess=1 - i / questions))
        )
        after_each(i)
    return times


def session(questions: int) -> dict[str, Any]:
    """Whether the last question of a long session costs more than the first, and what stays in memory.

    Memory is watched in a shorter session of its own, because watching it takes time.
    """
    times, tenth = ask_many(questions, lambda i: None), questions // 10
    first, last = statistics.median(times[:tenth]), statistics.median(times[-tenth:])
    watched, memory = questions // 5, []
    tracemalloc.start()
    ask_many(watched, lambda i: memory.append(tracemalloc.get_traced_memory()[0]))
    tracemalloc.stop()
    return {
        "questions": questions,
        "first tenth ms": round(first, 3),
        "last tenth ms": round(last, 3),
        "ratio": round(last / first, 3),
        "within": last <= 1.2 * first,
        "bytes kept a question": round((memory[-1] - memory[watched // 2]) / (watched - watched // 2 - 1)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--session", type=int, default=10**4)
    arguments = parser.parse_args()
    keep(
        "guard_speed",
        {
            "in memory": against_plain(10**6, 10, parquet=False),
            "parquet": against_plain(arguments.rows, 15, parquet=True),
            "long session": session(arguments.session),
        },
    )


if __name__ == "__main__":
    main()
