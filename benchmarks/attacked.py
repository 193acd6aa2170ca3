"""Real error under attack: how far answers really are from the truth, beside what was certified.

Every attack of :mod:`attackers` meets every method of :mod:`guarded` at every place of the grid, with so many
runs that "beyond its certificate in more than 5 % of runs" could be seen: a hundred where a run is small,
twenty at least. A place where one run takes more entries than the work allows is left out. Finished places
are kept in a file and not run again.

    python benchmarks/attacked.py [--work 1e9] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from attackers import ATTACKS, STAY, Attack, Met
from guarded import BETA, METHODS, NOTHING, Method
from machine import RESULTS, keep
from scipy import stats
from sessions import Place

from holdfast.workers import as_finished

ROWS = (10**3, 10**4, 10**5, 10**6)
QUERIES = (10, 10**2, 10**3, 10**4, 10**5)
STATES = (2**3, 2**7, 2**10, 2**13)
MOST_RUNS, LEAST_RUNS = 100, 20
MOST_ASKED = 2 * 10**6
WORK = 10**9

Progress = Callable[[int, int], None]


def places(attack: Attack) -> list[Place]:
    """Where an attack is tried."""
    if attack.name == "chain":
        return [Place(rows, states, STAY) for rows in ROWS for states in STATES]
    return [Place(rows, queries) for rows in ROWS for queries in QUERIES]


def runs_for(attack: Attack, place: Place, work: float) -> int:
    """As many runs as make up the work, within limits; 0 where one run is more than it."""
    entries = attack.entries(place.rows, place.queries)
    fit = int(min(MOST_RUNS, work / entries, MOST_ASKED / place.queries))
    return max(LEAST_RUNS, fit) if entries <= work else 0


def _lasting(method: Method, attack: Attack, place: Place, runs: int) -> int:
    """For how many of the runs a method is asked: one by one, no more questions than the attack allows."""
    if not method.one_by_one:
        return runs
    allowed = attack.asked // place.queries
    return min(runs, allowed) if allowed >= LEAST_RUNS else 0


def point(attack: Attack, place: Place, runs: int, seed: int = 0) -> list[dict[str, Any]]:
    """Every method at one place: real errors, and how often the certificate was exceeded."""
    methods = [method for method in METHODS if not attack.spares(method)]
    certified = {method.name: method.certified(place) for method in methods}
    met: dict[str, list[Met]] = {method.name: [] for method in methods}
    lasting = {
        method.name: _lasting(method, attack, place, runs) if _says(certified[method.name]) else 0
        for method in methods
    }
    for run in range(runs):
        chosen = tuple(method for method in methods if lasting[method.name] > run)
        label = ATTACKS.index(attack)
        rng = np.random.default_rng([seed, label, place.rows, place.queries, run])
        for method, result in zip(chosen, attack.run(place, chosen, rng), strict=True):
            met[method.name].append(result)
    return [_line(attack, place, method, certified[method.name], met[method.name]) for method in methods]


def _says(certified: float | None) -> bool:
    """Whether a promise says anything; without one the real error is still of interest."""
    return certified is None or certified < NOTHING


def _line(
    attack: Attack, place: Place, method: Method, certified: float | None, met: list[Met]
) -> dict[str, Any]:
    valid = not method.invalid and (not place.stay or method.chains)
    line: dict[str, Any] = {
        "attack": attack.name,
        "rows": place.rows,
        "queries": place.queries,
        "method": method.name,
        "ours": method.ours,
        "valid": valid,
        "certified": certified,
        "runs": len(met),
    }
    if not met:
        return {**line, "why": "asked one by one" if method.one_by_one else "certifies nothing here"}
    errors = np.array([outcome.error for outcome in met])
    if method.intervals:
        beyond = sum(outcome.missed for outcome in met)
        line["certified"] = max(outcome.widest for outcome in met)
    else:
        beyond = 0 if certified is None else int((errors > certified).sum())
    gains = [outcome.gain for outcome in met if not math.isnan(outcome.gain)]
    revealed = [outcome.told for outcome in met if not math.isnan(outcome.told)]
    low, high = limits(beyond, len(met))
    line |= {
        "mean real error": float(errors.mean()),
        "largest real error": float(errors.max()),
        "mean gain": float(np.mean(gains)) if gains else None,
        "refused": len(met) - len(gains),
        "told": float(np.mean(revealed)) if revealed else None,
    }
    if certified is not None or method.intervals:
        line |= {"beyond": beyond, "beyond, at least": low, "beyond, at most": high}
    return line


def limits(count: int, runs: int) -> tuple[float, float]:
    """One-sided 95 % Clopper–Pearson limits."""
    low = 0.0 if count == 0 else float(stats.beta.ppf(0.05, count, runs - count + 1))
    high = 1.0 if count == runs else float(stats.beta.isf(0.05, count + 1, runs - count))
    return low, high


def attacked(
    work: float = WORK,
    progress: Progress = lambda done, total: None,
    *,
    workers: int = 1,
    resume: Path | None = None,
) -> dict[str, Any]:
    """Every attack at every place, and what was left out."""
    tasks = [(attack.name, place) for attack in ATTACKS for place in places(attack)]
    planned = {task: runs_for(_named(task[0]), task[1], work) for task in tasks}
    inside = {task: runs for task, runs in planned.items() if runs}
    lines_of_task: dict[Any, list[dict[str, Any]]] = {}
    for task, lines in _finished(inside, workers, resume):
        lines_of_task[task] = lines
        progress(len(lines_of_task), len(inside))
    lines = [line for task in inside for line in lines_of_task[task]]
    return {
        "beta": BETA,
        "attacks": [
            {
                "name": attack.name,
                "about": attack.about,
                "told": attack.told,
                "not against": {m.name: attack.spares(m) for m in METHODS if attack.spares(m)},
                "asked one by one, at most": attack.asked,
            }
            for attack in ATTACKS
        ],
        "methods": [
            {"name": m.name, "ours": m.ours, "invalid": m.invalid, "chains": m.chains} for m in METHODS
        ],
        "summary": summary(lines),
        "points": lines,
        "left out": [
            {"attack": attack, "rows": place.rows, "queries": place.queries}
            for attack, place in tasks
            if not planned[attack, place]
        ],
        "valid methods beyond their certificate": [
            line for line in lines if line["valid"] and line.get("beyond, at least", 0.0) > BETA
        ],
    }


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Cases are attacks at places; one is shown to hold where the upper 95 % limit is 5 % or less."""
    judged = [line for line in lines if "beyond" in line]
    valid = [line for line in judged if line["valid"]]
    naive = [line for line in judged if line["method"] == "naive reuse"]
    broken = [line for line in naive if line["beyond, at least"] > BETA]
    return {
        "runs": sum(line["runs"] for line in judged),
        "cases of valid methods": len(valid),
        "of these beyond": sum(line["beyond, at least"] > BETA for line in valid),
        "of these shown to hold": sum(line["beyond, at most"] <= BETA for line in valid),
        "cases of naive reuse": len(naive),
        "of these broken": len(broken),
        "worst of naive reuse": max(
            (line for line in broken if line["attack"] != "chain"),
            key=lambda line: line["mean real error"] / line["certified"],
            default=None,
        ),
    }


def _named(name: str) -> Attack:
    return next(attack for attack in ATTACKS if attack.name == name)


def _task(name: str, place: Place, runs: int) -> list[dict[str, Any]]:
    return point(_named(name), place, runs)


def _finished(
    tasks: dict[tuple[str, Place], int], workers: int, resume: Path | None
) -> Iterator[tuple[tuple[str, Place], list[dict[str, Any]]]]:
    """The tasks as they finish; those in the file first."""
    finished = {}
    if resume is not None and resume.exists():
        for text in resume.read_text(encoding="utf-8").splitlines():
            kept = json.loads(text)
            finished[(*kept["task"],)] = kept["lines"]
    waiting = []
    for (name, place), runs in tasks.items():
        key = (name, place.rows, place.queries, runs)
        if key in finished:
            yield (name, place), finished[key]
        else:
            waiting.append(((name, place), runs))
    for (name, place), lines in _computed(waiting, workers):
        if resume is not None:
            key = [name, place.rows, place.queries, tasks[name, place]]
            with resume.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"task": key, "lines": lines}) + "\n")
        yield (name, place), lines


def _computed(
    waiting: list[tuple[tuple[str, Place], int]], workers: int
) -> Iterator[tuple[tuple[str, Place], list[dict[str, Any]]]]:
    jobs = [(*task, runs) for task, runs in waiting]
    for finished in as_finished(_task, jobs, workers=workers, at_once=1):
        yield from ((waiting[number][0], lines) for number, lines in finished.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, default=WORK, help="Entries an attack draws at a place.")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    terms = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    resume = RESULTS / "attacked.partial.jsonl"
    keep("attacked", attacked(terms.work, workers=terms.workers, resume=resume))
    resume.unlink()


if __name__ == "__main__":
    main()
