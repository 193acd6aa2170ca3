"""Rows to choose among models replicably: each way, the formula in print, and the time of one choice.

python benchmarks/choose_sizes.py
"""

from __future__ import annotations

import math
import time

import numpy as np
from machine import keep

from holdfast.replicable import Tape, choose, sample_size

ASKED = {"accuracy": 0.05, "rho": 0.1}
METHODS = ("best", "exponential", "delayed", "threshold", "amplified")


def printed(models: int, beta: float, *, realizable: bool) -> int:
    """SIS Theorem 5.13 with every constant taken to be 1."""
    accuracy, rho = ASKED["accuracy"], ASKED["rho"]
    logs = (math.log(models) ** 2 + math.log(1 / (rho * beta))) * math.log(1 / rho) ** 3
    return math.ceil(logs / (rho**2 * (accuracy if realizable else accuracy**2)))


def sizes() -> list[dict[str, object]]:
    table: list[dict[str, object]] = []
    for models in (2, 10, 100, 1000):
        for beta in (0.05, 1e-6):
            for realizable in (False, True):
                ask = {"models": models, "beta": beta, "realizable": realizable}
                rows = {method: sample_size("choose", **ask, **ASKED, method=method) for method in METHODS}
                table.append({**ask, **rows, "printed": printed(models, beta, realizable=realizable)})
    return table


def seconds_of_a_choice() -> float:
    """100 models on the smallest sample, errors as True and False."""
    rows = sample_size("choose", models=100, beta=0.05, **ASKED)
    errors = np.random.default_rng(0).random((rows, 100), dtype=np.float32) < 0.5
    choose(errors[:10], **ASKED, beta=0.05, tape=Tape("study-7"), best_effort=True)
    started = time.process_time()
    choose(errors, **ASKED, beta=0.05, tape=Tape("study-7"))
    return time.process_time() - started


def main() -> None:
    table = sizes()
    for line in table:
        print("  ".join(f"{name} {value:,}" for name, value in line.items()))
    spent = seconds_of_a_choice()
    print(f"one choice among 100 models at the smallest size: {spent:.2f} s")
    keep("choose_sizes", {"sizes": table, "seconds_of_a_choice": spent})


if __name__ == "__main__":
    main()
