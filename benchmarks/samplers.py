"""Noise: ours against OpenDP's, at 10⁵ draws and for one number, in one run.

Both draw exactly, from the operating system's randomness, on a fixed grid. Times are CPU seconds of this
process (medians), so that a busy machine does not distort them; both are single-threaded.

    python benchmarks/samplers.py [--draws 100000]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp
from machine import keep

from holdfast.mechanisms import (
    exponential,
    gaussian,
    laplace,
    select_mode,
    typical_gaussian,
    typical_laplace,
)
from holdfast.tails import SubGaussian

WANTED_RATIO = 20.0
ALLOWED_MICROSECONDS = 300.0


def seconds(action: Callable[[], Any], repetitions: int) -> float:
    times = []
    for _ in range(repetitions):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return statistics.median(times)


def microseconds(action: Callable[[], Any], calls: int = 300) -> float:
    def many() -> None:
        for _ in range(calls):
            action()

    return seconds(many, 5) / calls * 1e6


def peers() -> dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """OpenDP's measurements for one number and for a vector."""
    dp.enable_features("contrib")
    number = dp.atom_domain(T=float, nan=False)
    vector = dp.vector_domain(number)
    return {
        "laplace": (
            dp.m.make_laplace(number, dp.absolute_distance(T=float), scale=1.0),
            dp.m.make_laplace(vector, dp.l1_distance(T=float), scale=1.0),
        ),
        "gaussian": (
            dp.m.make_gaussian(number, dp.absolute_distance(T=float), scale=1.0),
            dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=1.0),
        ),
    }


def compare(draws: int) -> dict[str, Any]:
    zeros = np.zeros(draws)
    as_list = [0.0] * draws
    results = {}
    theirs = peers()
    for kind, ours in (("laplace", laplace), ("gaussian", gaussian)):
        number, vector = theirs[kind]
        fast = seconds(lambda ours=ours: ours(zeros, 1.0), 15)
        slow = seconds(lambda vector=vector: vector(as_list), 3)
        results[kind] = {
            "draws": draws,
            "holdfast ms": round(1e3 * fast, 2),
            "opendp ms": round(1e3 * slow, 1),
            "times faster": round(slow / fast, 1),
            "within": slow / fast >= WANTED_RATIO,
            "holdfast, one number, microseconds": round(microseconds(lambda ours=ours: ours(0.3, 1.0)), 1),
            "opendp, one number, microseconds": round(microseconds(lambda number=number: number(0.3)), 1),
        }
    return results


def answers() -> dict[str, Any]:
    """One call of each mechanism; ``typical_gaussian`` keeps its calibration, so the first is apart."""
    tail = SubGaussian(0.01)
    started = time.process_time()
    typical_gaussian(0.5, tail, 0.731, 1e-6, 1e-9)
    first = (time.process_time() - started) * 1e6
    scores = np.linspace(0.0, 5.0, 1000)
    items = ["a"] * 600 + ["b"] * 300 + ["c"] * 100
    measured = {
        "typical_laplace": microseconds(lambda: typical_laplace(0.5, tail, 0.5, 1e-9)),
        "typical_gaussian": microseconds(lambda: typical_gaussian(0.5, tail, 0.5, 1e-6, 1e-9)),
        "exponential, 1000 scores": microseconds(lambda: exponential(scores, 1.0, 1.0)),
        "select_mode, 1000 items": microseconds(lambda: select_mode(items, 1.0, 1e-6)),
    }
    scalar = max(measured["typical_laplace"], measured["typical_gaussian"])
    return {
        "microseconds": {name: round(value, 1) for name, value in measured.items()},
        "typical_gaussian, first call with new eta and tau, microseconds": round(first, 1),
        "one scalar answer within": scalar <= ALLOWED_MICROSECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10**5)
    arguments = parser.parse_args()
    keep(
        "samplers",
        {
            "opendp": importlib.metadata.version("opendp"),
            "vectors": compare(arguments.draws),
            "answers": answers(),
        },
    )


if __name__ == "__main__":
    main()
