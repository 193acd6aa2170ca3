"""Processes that submit to one gate, for tests that race and kill them."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection

import numpy as np

from guard_workers import people
from holdfast import Gate
from holdfast.asking import Session

__all__ = ["TASKS", "climb", "die_while_comparing", "people", "scores_of", "solving"]

TASKS = 120


def solving(count: int, person: int = 0) -> np.ndarray:
    """Scores of a version that solves so many tasks; each person breaks another task of them."""
    scores = (np.arange(TASKS) < count).astype(float)
    if count > person:
        scores[person] = 0
    return scores


def scores_of(name: str) -> np.ndarray:
    """The scores of the version of this name: "first" or "person-count"."""
    if name == "first":
        return solving(20)
    person, count = map(int, name.split("-"))
    return solving(count, person)


def submit(gate: Gate, name: str):
    return gate.submit(dict(enumerate(scores_of(name).tolist())), name=name)


def climb(place: str, person: int, counts: list[int], verdicts: Connection) -> None:
    """Submit versions that solve more and more tasks, and send each verdict."""
    gate = Gate.at(place)
    for count in counts:
        verdict = submit(gate, f"{person}-{count}")
        verdicts.send((verdict.name, verdict.incumbent, verdict.promoted, verdict.margin))
    gate.close()
    verdicts.close()


def die_while_comparing(place: str, name: str) -> None:
    """Reserve, and be killed before anything is recorded."""

    def killed(*_args, **_options):
        os.kill(os.getpid(), signal.SIGKILL)

    Session.settle = killed  # type: ignore[method-assign]
    submit(Gate.at(place), name)
