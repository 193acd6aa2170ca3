"""Correlated sampling: a choice among 10⁶ outcomes against drawing 10⁶ exponentials with numpy, in one run.

Times are CPU seconds of this process (medians), so that a busy machine does not distort them.

    python benchmarks/correlated.py [--outcomes 1000000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import keep

from holdfast.replicable import (
    Tape,
    correlated_choice,
    correlated_laplace,
    correlated_log_choice,
    correlated_name,
    correlated_normal,
)

ALLOWED_RATIO = 4.0


def milliseconds(action: Callable[[], Any], repetitions: int = 15) -> float:
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return statistics.median(times) * 1e3


def main() -> None:
    reading = argparse.ArgumentParser()
    reading.add_argument("--outcomes", type=int, default=1_000_000)
    outcomes = reading.parse_args().outcomes
    tape = Tape("benchmark")
    rng = np.random.default_rng(0)
    weights = rng.random(outcomes)
    chances = weights / weights.sum()
    logs = np.log(weights)
    names = {f"outcome {i}": float(weight) for i, weight in enumerate(weights[:100_000])}
    numpys = milliseconds(lambda: rng.exponential(size=outcomes))
    choice = milliseconds(lambda: correlated_choice(chances, tape))
    keep(
        "correlated",
        {
            "outcomes": outcomes,
            "numpy_exponentials_ms": round(numpys, 2),
            "correlated_choice_ms": round(choice, 2),
            "ratio": round(choice / numpys, 2),
            "allowed_ratio": ALLOWED_RATIO,
            "correlated_log_choice_ms": round(milliseconds(lambda: correlated_log_choice(logs, tape)), 2),
            "tape_exponentials_ms": round(milliseconds(lambda: tape.exponentials(outcomes)), 2),
            "correlated_name_100000_ms": round(milliseconds(lambda: correlated_name(names, tape), 5), 2),
            **{
                f"correlated_{law}_d{d}_ms": round(
                    milliseconds(lambda d=d, draw=draw: draw(np.zeros(d), 1.0, tape)), 2
                )
                for law, draw in (("normal", correlated_normal), ("laplace", correlated_laplace))
                for d in (1, 4, 8, 16, 20)
            },
        },
    )


if __name__ == "__main__":
    main()
