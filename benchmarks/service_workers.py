"""What a second process brings: questions a second with one worker and with two, in turns.

Cached questions, and computed questions about two datasets, each from half of 32 connections. That is the
largest load of ``service_load.py``: a second worker is for services with many clients. The client runs on
a core of its own where there is one: with two cores two workers share what it leaves. So the processor time
of a question is printed too, of the service and of the client. ``busy cores`` is how many cores the two used
together. ``machine`` is what a second process brings to work that only computes: cores that share a part of
the processor bring less than two. No service can do better.

    python benchmarks/service_workers.py [--seconds 3] [--turns 3]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from load_client import Target, rate_of_requests, requests_to
from machine import keep
from service_load import ROWS, Served

from holdfast.server import Policy, Service

CONNECTIONS = 32
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


@dataclass(frozen=True)
class Run:
    """Answers a second, and the seconds of processor time that a second of the run took on either side."""

    rate: float
    service: float
    client: float


def processor_seconds(process: int) -> float:
    """The processor time of a process and of those that it started, as far as they still run."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(processor_seconds(int(child)) for child in children)


def run(service: Served, targets: list[Target], requests: list[Iterator[bytes]], seconds: float) -> Run:
    """Ask for some seconds."""
    began, before, own = time.perf_counter(), processor_seconds(service.process), time.process_time()
    rate = rate_of_requests(targets, requests, seconds)
    client, passed = time.process_time() - own, time.perf_counter() - began
    return Run(rate, (processor_seconds(service.process) - before) / passed, client / passed)


def measured(folder: Path, seconds: float, turns: int) -> dict[str, Any]:
    """The median rates, and those of two workers over those of one."""
    place, token = home(folder)
    served = {number: Served(place, "--workers", str(number)) for number in WORKERS}
    runs: dict[str, dict[int, list[Run]]] = {"cached": {}, "computed": {}}
    try:
        for turn in range(turns + 1):  # The first is for warming up.
            for number, service in served.items():
                paths = [f"/v1/datasets/{name}/questions" for name in DATASETS] * (CONNECTIONS // 2)
                targets = [Target(service.url, path, token) for path in paths]
                again = [f"share(age > {20 + place})" for place in range(50)]
                cached = run(
                    service,
                    targets,
                    [cycle([*requests_to(target, iter(again))]) for target in targets],
                    seconds,
                )
                # Nobody asks what somebody asked before.
                numbers = count((turn * 10 + number) * 10**5 + 1)
                new = (f"share(score > {number / 1e8}, guess = 0.9)" for number in numbers)
                computed = run(service, targets, [requests_to(target, new) for target in targets], seconds)
                if turn:
                    runs["cached"].setdefault(number, []).append(cached)
                    runs["computed"].setdefault(number, []).append(computed)
    finally:
        for service in served.values():
            service.stop()
    return {kind: _summary(by_number) for kind, by_number in runs.items()}


def _compute(seconds: float, done: Any) -> None:
    """Compute for some seconds, as a worker does between its waits, and say how much."""
    rounds, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            json.loads(json.dumps({"value": 0.25, "notes": ["a note"] * 3, "numbers": {"cell": 0.01}}))
        rounds += 1
    done.put(rounds)


def scaling_of_machine(seconds: float, turns: int) -> float:
    """What two processes that only compute get done, over what one does: the median of some turns."""
    context, ratios = multiprocessing.get_context("spawn"), []
    for _ in range(turns):
        amounts = []
        for number in WORKERS:
            done = context.Queue()
            processes = [context.Process(target=_compute, args=(seconds, done)) for _ in range(number)]
            for process in processes:
                process.start()
            amounts.append(sum(done.get() for _ in processes))
            for process in processes:
                process.join()
        ratios.append(amounts[1] / amounts[0])
    return sorted(ratios)[len(ratios) // 2]


def _summary(runs: dict[int, list[Run]]) -> dict[str, Any]:
    """What the runs of one kind of question say, by the number of workers."""
    middle = {
        number: sorted(every, key=lambda run: run.rate)[len(every) // 2] for number, every in runs.items()
    }
    summary: dict[str, Any] = {}
    for number, run in middle.items():
        summary[f"{number} workers"] = {
            "a second": round(run.rate, 1),
            "service ms a question": round(1e3 * run.service / run.rate, 3),
            "client ms a question": round(1e3 * run.client / run.rate, 3),
            "busy cores": round(run.service + run.client, 2),
        }
    return {**summary, "two over one": round(middle[2].rate / middle[1].rate, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        load = [round(value, 2) for value in os.getloadavg()]
        machine = {"two over one": round(scaling_of_machine(arguments.seconds, arguments.turns), 3)}
        result = measured(Path(name) / "home", arguments.seconds, arguments.turns)
    keep("service_workers", {"load average before": load, "machine": machine, **result})


if __name__ == "__main__":
    main()
