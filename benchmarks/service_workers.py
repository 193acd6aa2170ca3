"""What a second process brings: questions a second with one worker and with two, in turns.

Cached questions, and computed questions about two datasets, each from as many connections. The client runs on
a core of its own where there is one: with two cores two workers share what it leaves.

    python benchmarks/service_workers.py [--seconds 3] [--turns 3]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from load_client import Target, rate_of
from machine import keep
from service_load import ROWS, Served

from holdfast.server import Policy, Service

CONNECTIONS = 16
WORKERS = (1, 2)
DATASETS = ("left", "right")


def home(folder: Path) -> tuple[Path, str]:
    """A service with two datasets, and an analyst's token."""
    (folder / "data").mkdir(parents=True)
    rng = np.random.default_rng(0)
    service = Service(folder)
    for name in DATASETS:
        table = pd.DataFrame({"age": rng.integers(18, 90, ROWS), "score": rng.random(ROWS)})
        table.to_parquet(folder / "data" / f"{name}.parquet")
        service.datasets.register(name, f"{name}.parquet", Policy(rate=10**9))
    token, _ = service.tokens.issue("ann", role="analyst")
    service.close()
    return folder, token


def measured(folder: Path, seconds: float, turns: int) -> dict[str, Any]:
    """The median rates, and those of two workers over those of one."""
    place, token = home(folder)
    served = {number: Served(place, "--workers", str(number)) for number in WORKERS}
    rates: dict[str, dict[int, list[float]]] = {"cached": {}, "computed": {}}
    try:
        for turn in range(turns + 1):  # The first is for warming up.
            for number, service in served.items():
                paths = [f"/v1/datasets/{name}/questions" for name in DATASETS] * (CONNECTIONS // 2)
                targets = [Target(service.url, path, token) for path in paths]
                first = (turn * 10 + number) * 10**5
                cached = rate_of(targets, lambda i: f"share(age > {20 + i % 50})", seconds)
                computed = rate_of(
                    targets,
                    lambda i, first=first: f"share(score > {(first + i + 1) / 1e8}, guess = 0.9)",
                    seconds,
                )
                if turn:
                    rates["cached"].setdefault(number, []).append(cached)
                    rates["computed"].setdefault(number, []).append(computed)
    finally:
        for service in served.values():
            service.stop()
    medians = {
        kind: {number: statistics.median(found) for number, found in by_number.items()}
        for kind, by_number in rates.items()
    }
    return {
        kind: {
            **{f"{number} workers a second": round(rate, 1) for number, rate in found.items()},
            "two over one": round(found[2] / found[1], 3),
        }
        for kind, found in medians.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = measured(Path(name) / "home", arguments.seconds, arguments.turns)
    keep("service_workers", {"load average": [round(value, 2) for value in os.getloadavg()], **result})


if __name__ == "__main__":
    main()
