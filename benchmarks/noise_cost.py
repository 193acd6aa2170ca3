"""What the noise of one scalar answer costs beyond the query itself, in microseconds.

Mechanisms are called by themselves. For answers of a guard the query itself is the engine's aggregate; beyond
it come the exact noise and the interval; the whole call adds reading the text and keeping the account.

    python benchmarks/noise_cost.py [--repetitions 2000]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from machine import keep

from holdfast import Guard, mechanisms
from holdfast.queries import share
from holdfast.readings import TableQuestion
from holdfast.strategies._noise import PreparedNoise
from holdfast.tails import SubGaussian

LIMIT = 300.0
TAIL = SubGaussian(0.01)


def microseconds(repetitions: int, action: Callable[[], Any]) -> float:
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        action()
        times.append((time.perf_counter() - started) * 1e6)
    return statistics.median(times)


def of_mechanisms(repetitions: int) -> dict[str, float]:
    calls: dict[str, Callable[[], Any]] = {
        "laplace": lambda: mechanisms.laplace(0.5, 0.01),
        "gaussian": lambda: mechanisms.gaussian(0.5, 0.01),
        "typical_laplace": lambda: mechanisms.typical_laplace(0.5, TAIL, 0.1, 1e-3),
        "typical_gaussian": lambda: mechanisms.typical_gaussian(0.5, TAIL, 0.1, 1e-3, 1e-3),
    }
    return {name: round(microseconds(repetitions, call), 1) for name, call in calls.items()}


@contextmanager
def timing(kind: type, method: str) -> Iterator[list[float]]:
    """Microseconds of each call of a method, while the block lasts."""
    original, times = getattr(kind, method), []

    def timed(*given: Any, **options: Any) -> Any:
        started = time.perf_counter()
        result = original(*given, **options)
        times.append((time.perf_counter() - started) * 1e6)
        return result

    with patch.object(kind, method, timed):
        yield times


def of_answers(strategy: str, repetitions: int) -> dict[str, float]:
    """A share asked of a guard: the engine's aggregate, what reading adds to it, and the whole call."""
    guard = Guard({"x": np.random.default_rng(0).random(20_000)}, strategy=strategy, queries=repetitions)
    questions = [share(f"x > {i / repetitions!r}") for i in range(repetitions)]
    with (
        timing(TableQuestion, "moments") as aggregate,
        timing(PreparedNoise, "read") as reading,
        timing(Guard, "ask") as whole,
    ):
        for question in questions:
            guard.ask(question)
    query, beyond = np.array(aggregate), np.array(reading) - np.array(aggregate)
    return {
        "query": round(float(np.median(query)), 1),
        "beyond the query": round(float(np.median(beyond)), 1),
        "whole call": round(float(np.median(whole)), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    repetitions = parser.parse_args().repetitions
    strategies = ("typical-gaussian", "typical-laplace", "transfer-gaussian")
    mechanism = of_mechanisms(repetitions)
    answers = {strategy: of_answers(strategy, repetitions) for strategy in strategies}
    slowest = max(*mechanism.values(), *(answer["beyond the query"] for answer in answers.values()))
    keep(
        "noise_cost",
        {
            "limit": LIMIT,
            "mechanisms": mechanism,
            "answers": answers,
            "within": slowest <= LIMIT,
        },
    )


if __name__ == "__main__":
    main()
