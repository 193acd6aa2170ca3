"""How wide the guard's intervals are for an honest analyst, next to sample splitting.

N rows in all, the guard's own split, fair coins, k not told in advance; the mean half-width over the k
answers, averaged over seeded runs. At N = 10⁶ the questions are `c_i <> c_j` for pairs of 142 columns. Counts
come from arrays, prices and intervals from the guard's own code.

    python benchmarks/guard_width.py [--runs 20]
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np
from machine import keep

from holdfast.audit._counted import CountedGuard, CountedShare
from holdfast.stability import split_error

POINTS = (
    {"rows": 10**4, "questions": 10, "limit": 0.050},
    {"rows": 10**5, "questions": 100, "limit": 0.0225},
    {"rows": 10**5, "questions": 1000, "limit": 0.0285},
    {"rows": 10**6, "questions": 10**4, "limit": 0.0108, "columns": 142},
)


def pair_counts(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """How many rows differ in each pair of columns, for independent fair coins."""
    agree = np.zeros((columns, columns))
    for start in range(0, rows, 50_000):
        block = min(50_000, rows - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes((block * columns + 7) // 8), dtype=np.uint8))
        signs = bits[: block * columns].reshape(block, columns).astype(np.float32) * 2 - 1
        agree += signs.T @ signs
    return ((rows - agree) / 2).round().astype(int)


def counts(rng: np.random.Generator, half: int, questions: int, columns: int | None) -> list[tuple[int, int]]:
    """(training count, protected count) of each question."""
    if columns is None:
        return list(zip(rng.binomial(half, 0.5, questions), rng.binomial(half, 0.5, questions), strict=True))
    training, protected = pair_counts(rng, half, columns), pair_counts(rng, half, columns)
    pairs = itertools.islice(itertools.combinations(range(columns), 2), questions)
    return [(training[pair], protected[pair]) for pair in pairs]


def run(seed: int, rows: int, questions: int, columns: int | None) -> tuple[float, float, float, bool]:
    """Mean half-width, last half-width, nats spent, and whether all intervals held."""
    half = rows // 2
    guard = CountedGuard(half, half)
    widths, held = [], True
    for training, protected in counts(np.random.default_rng(seed), half, questions, columns):
        interval, _ = guard.ask(CountedShare(protected=int(protected), training=int(training)))
        widths.append(interval.half_width)
        held &= interval.contains(0.5)
    return float(np.mean(widths)), widths[-1], guard.account.spent, held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    results = []
    for point in POINTS:
        started = time.perf_counter()
        columns = point.get("columns")
        runs = [run(seed, point["rows"], point["questions"], columns) for seed in range(arguments.runs)]
        mean, last, spent, held = (float(np.mean(column)) for column in zip(*runs, strict=True))
        splitting = split_error(point["rows"], point["questions"], 0.05)
        results.append(
            {
                **point,
                "runs": arguments.runs,
                "mean half-width": round(mean, 5),
                "last half-width": round(last, 5),
                "nats spent": round(spent, 3),
                "all intervals held": held,
                "sample splitting": round(splitting, 4),
                "ratio to splitting": round(mean / splitting, 3),
                "within limit": mean <= point["limit"],
                "seconds a run": round((time.perf_counter() - started) / arguments.runs, 2),
            }
        )
    keep("guard_width", {"points": results})


if __name__ == "__main__":
    main()
