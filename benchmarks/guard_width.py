"""How wide the guard's intervals are for an honest analyst, next to what they would use instead.

Fair coins, N rows in all, the guard's own split, β = .05; the mean half-width over k answers, averaged over
seeded runs: without a hint, with ``expect=k``, with a hint that is wrong by three either way, and with
``promise="each"``. Beside them: k questions fixed in advance on all rows, the same on half of the rows (the
other half explored), and sample splitting. At N = 10⁶ the questions are `c_i <> c_j` for pairs of 142
columns. Counts come from arrays; prices and intervals are the guard's own code.

    python benchmarks/guard_width.py [--runs 20]
"""

from __future__ import annotations

import argparse
import itertools
import time
from math import log

import numpy as np
from machine import keep

from holdfast.audit.attacks._answerers import CountedGuard, CountedShare
from holdfast.coding import Account, Weights, training_share
from holdfast.intervals import clopper_pearson
from holdfast.stability import split_error

FAILURE = 0.05
# Rows, questions, and the limits of issue and product: without a hint, with a right one, for each answer.
POINTS = (
    {"rows": 10**4, "questions": 1, "limits": (0.0190, 0.0145, 0.0175)},
    {"rows": 10**4, "questions": 3, "limits": (0.0265, 0.0218, 0.0232)},
    {"rows": 10**4, "questions": 10, "limits": (0.0415, 0.0330, 0.0380)},
    {"rows": 10**4, "questions": 30, "limits": (0.056, 0.0465, None)},
    {"rows": 10**5, "questions": 100, "limits": (0.0212, 0.0176, 0.0190)},
    {"rows": 10**5, "questions": 1000, "limits": (0.0265, 0.0218, 0.0223)},
    {"rows": 10**6, "questions": 10**4, "limits": (0.0096, 0.0084, None), "columns": 142},
)
WRONG_HINT = 1.30


def pair_counts(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """How many rows differ in each pair of columns, for independent fair coins."""
    agree = np.zeros((columns, columns))
    for start in range(0, rows, 50_000):
        block = min(50_000, rows - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes((block * columns + 7) // 8), dtype=np.uint8))
        signs = bits[: block * columns].reshape(block, columns).astype(np.float32) * 2 - 1
        agree += signs.T @ signs
    return ((rows - agree) / 2).round().astype(int)


def counts(
    rng: np.random.Generator, training: int, protected: int, questions: int, columns: int | None
) -> list[tuple[int, int]]:
    """(training count, protected count) of each question."""
    if columns is None:
        drawn = rng.binomial(training, 0.5, questions), rng.binomial(protected, 0.5, questions)
        return list(zip(*drawn, strict=True))
    seen, kept = pair_counts(rng, training, columns), pair_counts(rng, protected, columns)
    pairs = itertools.islice(itertools.combinations(range(columns), 2), questions)
    return [(seen[pair], kept[pair]) for pair in pairs]


def session(
    seed: int, rows: int, questions: int, columns: int | None, weights: Weights
) -> tuple[float, float, float, bool]:
    """Mean half-width, last half-width, nats spent, and whether all intervals held."""
    training = round(training_share(weights) * rows)
    guard = CountedGuard(rows - training, training, failure=FAILURE, weights=weights)
    widths, held = [], True
    drawn = counts(np.random.default_rng(seed), training, rows - training, questions, columns)
    for seen, kept in drawn:
        interval, _ = guard.ask(CountedShare(protected=int(kept), training=int(seen)))
        widths.append(interval.half_width)
        held &= interval.contains(0.5)
    return float(np.mean(widths)), widths[-1], guard.account.spent, held


def mean_width(
    runs: int, rows: int, questions: int, columns: int | None, weights: Weights
) -> dict[str, float]:
    """The mean over seeded runs."""
    sessions = [session(seed, rows, questions, columns, weights) for seed in range(runs)]
    mean, last, spent, held = (float(np.mean(column)) for column in zip(*sessions, strict=True))
    return {"mean half-width": mean, "last half-width": last, "nats spent": spent, "runs that held": held}


def batch_width(runs: int, rows: int, questions: int) -> float:
    """The mean half-width of questions that are asked together."""
    training = round(training_share(Weights()) * rows)
    widths = []
    for seed in range(runs):
        guard = CountedGuard(rows - training, training, failure=FAILURE)
        drawn = counts(np.random.default_rng(seed), training, rows - training, questions, None)
        asked = [CountedShare(protected=int(kept), training=int(seen)) for seen, kept in drawn]
        widths += [interval.half_width for interval, _ in guard.ask_all(asked)]
    return float(np.mean(widths))


def report_width(rows: int, questions: int, training: int, promise: str = "all") -> float:
    """The half-width of each of so many shares in a report, before which nothing was asked."""
    kept = rows - training
    nats = Account(FAILURE, weights=Weights(promise)).last_nats(questions)
    return clopper_pearson(kept // 2, kept, nats).half_width


def point(runs: int, rows: int, questions: int, limits: tuple, columns: int | None = None) -> dict:
    """Everything about one number of rows and questions."""
    started = time.perf_counter()
    runs = runs if columns is None else max(1, runs // 10)
    plain, hinted, each = (
        mean_width(runs, rows, questions, columns, weights)
        for weights in (Weights(), Weights(expect=questions), Weights("each"))
    )
    few = runs if questions <= 100 else max(1, runs // 5)
    wrong = (
        {
            name: mean_width(few, rows, questions, columns, Weights(expect=hint))["mean half-width"]
            for name, hint in (("a third", max(1.0, questions / 3)), ("three times", 3.0 * questions))
        }
        if columns is None
        else {}
    )
    fixed = clopper_pearson(rows // 2, rows, log(questions / FAILURE)).half_width
    half = clopper_pearson(rows // 4, rows // 2, log(questions / FAILURE)).half_width
    measured = [line["mean half-width"] for line in (plain, hinted, each)]
    return {
        "rows": rows,
        "questions": questions,
        "runs": runs,
        "no hint": plain,
        "with a hint": hinted,
        "promise each": each,
        "hint wrong by three, ratio to the right one": {
            name: round(width / measured[1], 3) for name, width in wrong.items()
        },
        "fixed in advance, all rows": fixed,
        "fixed list on half of the rows": half,
        "sample splitting": split_error(rows, questions, FAILURE),
        "ratio to the fixed list on half": round(measured[0] / half, 3),
        "limits": limits,
        "within limits": all(
            limit is None or width <= limit for width, limit in zip(measured, limits, strict=True)
        )
        and all(width <= WRONG_HINT * measured[1] for width in wrong.values()),
        "seconds a session": round((time.perf_counter() - started) / (3 * runs), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    points = [point(arguments.runs, **spec) for spec in POINTS]
    third = round(training_share(Weights()) * 10**4)
    together = {
        "ten asked together": {"half-width": batch_width(arguments.runs, 10**4, 10), "limit": 0.0220},
        "report of ten": {"half-width": report_width(10**4, 10, third), "limit": 0.0176},
        "report of ten, nothing set aside": {"half-width": report_width(10**4, 10, 0), "limit": 0.0144},
        "report of ten, promise each": {"half-width": report_width(10**4, 10, third, "each")},
    }
    keep("guard_width", {"points": points, "at 10,000 rows": together})


if __name__ == "__main__":
    main()
