"""What it saves to ask several questions together, where the rows live.

Sixteen questions of one kind are asked one by one and together, in turns, of one guard whose account is on
disk; they differ in their constants, so that none was asked before. Every figure is the median of a few
rounds. "scan" is how much faster the sums alone are, "asked" the whole way with the account. Places that are
not measured keep their figures.

    python benchmarks/batches.py [--only memory parquet postgres spark] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import machine
import numpy as np

from holdfast import Guard
from holdfast.engines import sums_of_all

QUESTIONS = 16
COLUMNS = "abcde"


def kinds() -> dict[str, Callable[[int], str]]:
    """Questions by what they share; ``i`` makes them new."""

    def constant(i: int) -> str:
        return f"{0.2 + 0.6 * ((i * 0.61803398875) % 1):.9f}"

    return {
        "shares of one column": lambda i: f"share(a > {constant(i)}, guess = 0.5)",
        "shares of one column, one filter": (
            lambda i: f"share(a > {constant(i)}, where = g < 3, guess = 0.5)"
        ),
        "shares of five columns": lambda i: f"share({COLUMNS[i % 5]} > {constant(i)}, guess = 0.5)",
        "shares of one column, sixteen filters": (
            lambda i: f"share(a > 0.5, where = b > {constant(i)}, guess = 0.5)"
        ),
        "means of five columns": lambda i: f"mean({COLUMNS[i % 5]}, 0, {constant(i)}, guess = 0.15)",
    }


def timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def measure(guard: Guard, rounds: int) -> dict[str, Any]:
    measured = {}
    counter = iter(range(10**9))
    rows = guard._setup.protected.rows
    for name, question in kinds().items():

        def texts(question: Callable[[int], str] = question) -> list[str]:
            return [question(next(counter)) for _ in range(QUESTIONS)]

        def scanned(texts: list[str], *, together: bool) -> float:
            asked = [guard._questions.read(text).checked for text in texts]
            if together:
                return timed(lambda: sums_of_all(rows, asked, [True] * len(asked)))
            return timed(lambda: [rows.sums(question, squares=True) for question in asked])

        def asked(texts: list[str], *, together: bool) -> float:
            return timed(lambda: guard.ask_all(texts) if together else [guard.ask(text) for text in texts])

        times: dict[str, list[float]] = {}
        for warm in (True, *[False] * rounds):
            for way, action in (("scan", scanned), ("asked", asked)):
                for together in (False, True):
                    took = action(texts(), together=together)
                    if not warm:
                        times.setdefault(f"{way} {'together' if together else 'one by one'}", []).append(took)
        medians = {label: statistics.median(values) for label, values in times.items()}
        measured[name] = {
            "ms one by one": round(1e3 * medians["asked one by one"], 1),
            "ms together": round(1e3 * medians["asked together"], 1),
            "faster, scan": round(medians["scan one by one"] / medians["scan together"], 2),
            "faster, asked": round(medians["asked one by one"] / medians["asked together"], 2),
        }
        print(name, measured[name], flush=True)
    return measured


def table(rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {**{name: rng.random(rows) for name in COLUMNS}, "g": rng.integers(0, 10, rows)}


def parquet(rows: int, path: Path) -> Path:
    import duckdb

    columns = ", ".join(f"random() AS {name}" for name in COLUMNS)
    duckdb.sql(
        f"COPY (SELECT {columns}, CAST(floor(random() * 10) AS INT) AS g FROM range({rows})) TO '{path}'"
    )
    return path


@contextmanager
def postgres(rows: int, folder: Path) -> Iterator[Any]:
    import ibis
    import pgserver

    server = pgserver.get_server(folder / "postgres")
    columns = ", ".join(f"random() AS {name}" for name in COLUMNS)
    server.psql(
        f"CREATE TABLE people AS SELECT {columns}, floor(random() * 10)::int AS g "
        f"FROM generate_series(1, {rows}); ANALYZE people;"
    )
    try:
        yield ibis.connect(server.get_uri()).table("people")
    finally:
        server.cleanup()


@contextmanager
def spark(rows: int, folder: Path) -> Iterator[Any]:
    import ibis
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    path = parquet(rows, folder / "spark.parquet")
    try:
        yield ibis.pyspark.connect(session).read_parquet(str(path))
    finally:
        session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=["memory", "parquet", "postgres", "spark"])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def run(label: str, data: Any) -> None:
            print(label, flush=True)
            guard = Guard(data, training_share=0, ledger=folder / f"{len(results)}.holdfast")
            results[label] = measure(guard, options.rounds)
            guard.close()

        if "memory" in options.only:
            for rows in (10**4, 10**6):
                run(f"memory, {rows:,} rows", table(rows))
        if "parquet" in options.only:
            for rows in (10**6, 10**7):
                run(f"Parquet, {rows:,} rows", parquet(rows, folder / f"{rows}.parquet"))
        if "postgres" in options.only:
            with postgres(10**6, folder) as people:
                run("PostgreSQL, 1,000,000 rows", people)
        if "spark" in options.only:
            with spark(10**6, folder) as people:
                run("Spark, 1,000,000 rows", people)
    kept_file = machine.RESULTS / "batches.json"
    places = json.loads(kept_file.read_text(encoding="utf-8"))["places"] if kept_file.exists() else {}
    machine.keep("batches", {"questions": QUESTIONS, "places": {**places, **results}})


if __name__ == "__main__":
    main()
