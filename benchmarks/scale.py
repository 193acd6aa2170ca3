"""What asking costs where the rows live, beside plain SQL: Parquet by DuckDB, PostgreSQL, Spark.

Guard and plain SQL take turns in one process, with the same threads and the same memory, on questions that
differ in a constant so that none was asked before; every figure is the median. Rows are made once, as Parquet
files in a folder that is deleted at the end unless it is named.

    python benchmarks/scale.py [--rows 1e8] [--folder rows] [--only parquet rows questions]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import machine
import numpy as np
import scale_data
from scale_account import account

from holdfast import Guard

THREADS = 2
MEMORY = 4 * 2**30
ALLOWED = 1.3
LEAST, MOST = 10_000, 70_000

Ask = Callable[[int], Any]
Plain = Callable[[str], float]


def cases(guard: Guard, number: str = "DOUBLE") -> dict[str, tuple[Ask, Callable[[int], str]]]:
    """Both questions for every i, and SQL that finds the same; ``number`` is what a condition is cast to."""
    return {
        "share": (
            lambda i: guard.share(f"age > {40 + i / 1000}", where="region < 10"),
            lambda i: f"SELECT avg(CAST(age > {40 + i / 1000} AS {number})) FROM people WHERE region < 10",
        ),
        "clipped mean": (
            lambda i: guard.mean("income", bounds=(LEAST, MOST + i), where="region < 10"),
            lambda i: (
                f"SELECT avg(greatest({LEAST}, least({MOST + i}, income))) FROM people WHERE region < 10"
            ),
        ),
    }


def seconds(action: Callable[[], Any]) -> tuple[float, float, Any]:
    """How long it took, how long processors worked on it in this process, and what came of it."""
    started, worked = time.perf_counter(), time.process_time()
    result = action()
    return time.perf_counter() - started, time.process_time() - worked, result


def in_turn(ask: Ask, sql: Callable[[int], str], plain: Plain, repetitions: int) -> dict[str, Any]:
    """Both once to warm up, then in turn, each going first every other time.

    Where other programs are at work too, the ratio of processor time says more than that of the clock.
    """
    taken: tuple[list[float], list[float]] = ([], [])
    worked: tuple[list[float], list[float]] = ([], [])
    agree = True
    for i in range(repetitions + 1):
        actions = (lambda i=i: ask(i), lambda i=i: plain(sql(i)))
        results: list[Any] = [None, None]
        for who in (i % 2, 1 - i % 2):
            clock, processor, results[who] = seconds(actions[who])
            taken[who].append(clock)
            worked[who].append(processor)
        agree &= results[0].low <= results[1] <= results[0].high
    guard, other, guard_worked, other_worked = (statistics.median(times[1:]) for times in (*taken, *worked))
    return {
        "guard s": round(guard, 4),
        "plain s": round(other, 4),
        "ratio": round(guard / other, 3),
        "ratio of processor time": round(guard_worked / other_worked, 3),
        "agree": agree,
    }


def compare(
    guard: Guard, plain: Plain, repetitions: int, number: str = "DOUBLE", *, here: bool = True
) -> dict[str, Any]:
    """Both questions; ``here`` if the engine works in this process."""
    lines = {name: in_turn(ask, sql, plain, repetitions) for name, (ask, sql) in cases(guard, number).items()}
    if not here:
        for line in lines.values():
            del line["ratio of processor time"]
    return {**lines, "within": all(line["ratio"] <= ALLOWED for line in lines.values())}


def open_parquet(pattern: str, rows: int, *, copied: bool = True) -> tuple[Guard, Plain]:
    """The guard over files, and plain DuckDB over the same files with the same means; unless ``copied`` is
    true, small tables stay where they lie too."""
    import duckdb
    import ibis

    data = pattern if copied else ibis.duckdb.connect().read_parquet(pattern)
    guard = Guard(data, train=scale_data.training(rows))
    means = [f"SET threads = {THREADS}", f"SET memory_limit = '{MEMORY // 2**20}MiB'"]
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW people AS SELECT * FROM read_parquet('{pattern}')")
    for setting in means:
        guard._setup.protected.rows._database.run(setting)
        connection.execute(setting)
    return guard, lambda sql: float(connection.execute(sql).fetchall()[0][0])


def parquet(pattern: str, rows: int, repetitions: int) -> dict[str, Any]:
    """One share and one clipped mean with a filter, in a process that cannot have more than 4 GiB."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    opened, _, (guard, plain) = seconds(lambda: open_parquet(pattern, rows))
    compared = compare(guard, plain, repetitions)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "rows": rows,
        "seconds to open": round(opened, 2),
        **compared,
        "peak GiB": round(peak, 2),
        "within 4 GiB": peak <= MEMORY / 2**30,
    }


def one_size(pattern: str, rows: int, repetitions: int) -> dict[str, Any]:
    """As :func:`parquet`, in the one way that all sizes have in common."""
    guard, plain = open_parquet(pattern, rows, copied=False)
    compared = compare(guard, plain, repetitions)
    del compared["within"]  # what a question costs besides its rows is most of it in a small table
    return {"rows": rows, **compared}


def slopes(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Time against rows: the slope of the logarithms, overall and step by step, and the fit of a fixed cost
    and a cost a row, relative errors weighed equally."""
    sizes = np.array([line["rows"] for line in lines], dtype=float)
    fits = {}
    for question in ("share", "clipped mean"):
        for who in ("guard", "plain"):
            times = np.array([line[question][f"{who} s"] for line in lines])
            steps = np.diff(np.log(times)) / np.diff(np.log(sizes))
            design = np.column_stack([1 / times, sizes / times])
            (fixed, each), *_ = np.linalg.lstsq(design, np.ones(len(times)), rcond=None)
            off = np.abs((fixed + each * sizes) / times - 1).max()
            linear = [int(size) for size, step in zip(sizes, steps, strict=False) if step >= 0.9]
            fits[f"{question}, {who}"] = {
                "slope": round(float(np.polyfit(np.log(sizes), np.log(times), 1)[0]), 3),
                "slopes step by step": [round(float(step), 2) for step in steps],
                "a slope of 0.9 from": min(linear, default=None),
                "fixed ms": round(float(fixed) * 1e3, 2),
                "ns a row": round(float(each) * 1e9, 3),
                "largest relative error of the line": round(float(off), 2),
            }
    return fits


def questions(pattern: str, rows: int, count: int) -> dict[str, Any]:
    """One account, one new question after another: the last hundred over the first hundred."""
    guard, _ = open_parquet(pattern, rows)
    guard.share("age > 30.5", where="region < 10")
    times = [
        seconds(lambda i=i: guard.share(f"score > {i / count!r}", where="region < 10"))[:2]
        for i in range(1, count)
    ]
    part = max(1, count // 10)
    (first, first_worked), (last, last_worked) = (
        [statistics.median(column) for column in zip(*some, strict=True)]
        for some in (times[:part], times[-part:])
    )
    return {
        "rows": rows,
        "questions": count,
        "first tenth ms": round(first * 1e3, 2),
        "last tenth ms": round(last * 1e3, 2),
        "ratio": round(last / first, 3),
        "ratio of processor time": round(last_worked / first_worked, 3),
    }


def postgres(rows: int, repetitions: int) -> dict[str, Any]:
    """A server of our own, the guard and plain SQL over connections of their own."""
    import ibis
    import psycopg

    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        import pgserver

        server = pgserver.get_server(Path(folder) / "server")
        try:
            with psycopg.connect(server.get_uri(), autocommit=True) as connection:
                scale_data.fill_postgres(connection, "people", rows)
                backend = ibis.postgres.from_connection(psycopg.connect(server.get_uri()))
                guard = Guard(backend.table("people"), train=scale_data.training(rows))

                def plain(sql: str) -> float:
                    return float(connection.execute(sql).fetchone()[0])

                compared = compare(guard, plain, repetitions, "int", here=False)
                backend.disconnect()
        finally:
            server.cleanup()
    return {"rows": rows, **compared}


def spark(pattern: str, rows: int, repetitions: int) -> dict[str, Any]:
    """Local mode: the time beside plain Spark SQL, and how many jobs one question is."""
    import ibis
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master(f"local[{THREADS}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    try:
        session.read.parquet(str(Path(pattern).parent)).createOrReplaceTempView("people")
        backend = ibis.pyspark.connect(session)
        guard = Guard(backend.table("people"), train=scale_data.training(rows))

        def plain(sql: str) -> float:
            return float(session.sql(sql).collect()[0][0])

        compared = compare(guard, plain, repetitions, "int", here=False)
        jobs = {}
        for name, (ask, _) in cases(guard).items():
            session.sparkContext.setJobGroup(name, name)
            ask(-1)
            jobs[name] = len(session.sparkContext.statusTracker().getJobIdsForGroup(name))
    finally:
        session.stop()
    return {"rows": rows, **compared, "jobs a question": jobs}


def apart(part: str, *arguments: Any) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--part", json.dumps([part, *arguments])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{part}: {json.dumps(results)}", file=sys.stderr, flush=True)
    return results


PARTS = {f.__name__: f for f in (parquet, one_size, questions, postgres, spark)}
SECTIONS = ("parquet", "rows", "questions", "postgres", "spark", "account")


def sizes_up_to(rows: int) -> list[int]:
    """Half decades from 10⁵ (or a thousandth, if that is less) up to ``rows``."""
    start = min(10**5, max(1000, rows // 1000))
    steps = max(1, round(2 * math.log10(rows / start)))
    return [round(start * (rows / start) ** (step / steps)) for step in range(steps + 1)]


def measure(folder: Path, rows: int, only: Sequence[str], repetitions: int) -> dict[str, Any]:
    """The named sections; smaller sizes are repeated more often."""
    small = min(rows, 10**6)
    made: dict[int, str] = {}

    def files(count: int) -> str:
        if count not in made:
            made[count] = scale_data.write(folder / f"{count}-rows", count)
        return made[count]

    results: dict[str, Any] = {}
    if "parquet" in only:
        results["parquet"] = apart("parquet", files(rows), rows, repetitions)
    if "rows" in only:
        lines = [
            apart("one_size", files(n), n, repetitions if n > 10**7 else 3 * repetitions)
            for n in sizes_up_to(rows)
        ]
        results["rows"] = {"sizes": lines, **slopes(lines)}
    if "questions" in only:
        results["questions"] = apart("questions", files(small), small, min(1000, small // 1000))
    if "postgres" in only:
        results["postgres"] = apart("postgres", small, 3 * repetitions)
    if "spark" in only:
        results["spark"] = apart("spark", files(small), small, repetitions)
    if "account" in only:
        results["account"] = account()
    return results


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e8, help="Rows of the largest table.")
    parser.add_argument("--folder", type=Path, help="Where the rows are kept; a temporary folder by default.")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.part:
        name, *given = json.loads(options.part)
        print(json.dumps(PARTS[name](*given)))
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-scale-") as temporary:
        results = measure(
            options.folder or Path(temporary), int(options.rows), options.only, options.repetitions
        )
    machine.keep("scale", {"threads": THREADS, "allowed ratio": ALLOWED, **results})


if __name__ == "__main__":
    main()
