"""From how many rows a guard is worth it: the table in the README.

Shares of a table with independent columns, asked one by one. Two ways without a guard stand beside it. The
first is a list of questions written down before anyone looks: exact intervals on all rows, each at an equal
part of the failure probability. The second takes a fresh part of the rows for every question.
"""

from __future__ import annotations

import math

import numpy as np
from machine import keep

from holdfast import Guard, intervals

ROWS = (300, 5_000, 300_000)
QUESTIONS = (1, 10, 100)
TRUTH = 0.3
CONFIDENCE = 0.95
REPETITIONS = {300: 20, 5_000: 8, 300_000: 2}


def guarded(rows: int, questions: int, seed: int) -> float:
    """The mean half-width of the answers of one guard that expects about this many questions."""
    source = np.random.default_rng([rows, questions, seed])
    table = {f"x{i}": source.random(rows) < TRUTH for i in range(questions)}
    guard = Guard(table, expect=questions, confidence=CONFIDENCE)
    return float(np.mean([guard.share(name).half_width for name in table]))


def exact(rows: int, questions: int) -> float:
    """Half the width of an exact interval for one of so many questions that were fixed in advance."""
    if rows < 1:
        return 1.0
    nats = math.log(questions / (1 - CONFIDENCE))
    return float(intervals.clopper_pearson(round(TRUTH * rows), rows, nats).half_width)


def main() -> None:
    lines = []
    for rows in ROWS:
        for questions in QUESTIONS:
            widths = [guarded(rows, questions, seed) for seed in range(REPETITIONS[rows])]
            lines.append(
                {
                    "rows": rows,
                    "questions": questions,
                    "guard": round(float(np.mean(widths)), 4),
                    "list_fixed_in_advance": round(exact(rows, questions), 4),
                    "fresh_part_each": round(exact(rows // questions, questions), 4),
                }
            )
    keep("worth_it", {"truth": TRUTH, "confidence": CONFIDENCE, "half_widths": lines})


if __name__ == "__main__":
    main()
