"""A service with something of everything that the page can show, for pictures and for tests of access."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from server_gate_workers import scores

from holdfast.registry import GivenResults, Person
from holdfast.server import Arrived, Policy, Service

ROWS = 3_000
LONG_NAME = "visits-of-all-branch-offices-in-the-north-and-the-south-2025"
LONG_COLUMN = "minutes_between_the_first_and_the_last_visit_of_the_same_person"
SHARES = (
    "share(age > 40)",
    "share(member, where = city = 'Oslo', guess = 0.7)",
    "share(score > 0.5 and age < 60 and city in ('Bergen', 'Oslo', 'Trondheim', 'Stavanger', 'Bodø'))",
    "share(city = 'Oslo', guess = 0.45)",
    "share(joined > '2023-06-01')",
)
MEANS = (
    "mean(coalesce(income, 0), 0, 200000)",
    "median(age)",
    "difference(age, member, not member, 0, 100)",
    "correlation(age, score, 0, 100, -4, 4)",
    "mean(age, 0, 100, where = city = 'Bodø')",
)


def people(seed: int = 0) -> pd.DataFrame:
    """Always the same people for a seed: numbers, text, dates, flags, missing values, and the old row numbers
    that pandas leaves in a file."""
    rng = np.random.default_rng(seed)
    income = rng.lognormal(10.6, 0.55, ROWS)
    income[rng.random(ROWS) < 0.08] = np.nan
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": income.round(2),
            "city": rng.choice(
                ["Oslo", "Bergen", "Trondheim", "Stavanger", "Bodø"], ROWS, p=[0.45, 0.25, 0.15, 0.1, 0.05]
            ),
            "member": rng.random(ROWS) < 0.4,
            "joined": pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 1500, ROWS), unit="D"),
            LONG_COLUMN: rng.exponential(30, ROWS).round(1),
            "score": rng.normal(0, 1, ROWS).round(4),
            "note": [f"note {number:04d}" for number in rng.permutation(ROWS)],
            "same": 7,
        }
    )


def furnish(home: Path) -> dict[str, str]:
    """Set up the service of a folder; returns a token for each name: olga owns, ann asks, ada audits, pia
    takes part in boards."""
    service = Service(home)
    people().to_csv(service.sources / "people.csv")  # With its row numbers, as people save it.
    service.datasets.register("people", "people.csv", Policy(error=0.15))
    guard = service.datasets.get("people").guard
    for question in SHARES:
        guard.ask(question)
    for name, part in ((LONG_NAME, 1), ("orders", 2), ("orders-later", 3), ("survey", 4), ("gone", 5)):
        people(part).drop(columns="note").to_parquet(service.sources / f"{name}.parquet")
    service.datasets.register(LONG_NAME, f"{LONG_NAME}.parquet", Policy())
    for question in MEANS:
        service.datasets.get(LONG_NAME).guard.ask(question)
    service.datasets.register("orders", "orders.parquet", Policy(error=0.1))
    service.datasets.next_epoch("orders", Arrived("orders-later.parquet"))
    service.datasets.register("survey", "survey.parquet", Policy(report="analyst"))
    service.datasets.get("survey").guard.report(["share(age > 40)", "mean(age, 0, 100)"])
    service.datasets.register("gone", "gone.parquet", Policy())
    _boards(service)
    _gates(service)
    tokens = {
        name: service.tokens.issue(name, role=role, team=team, dataset=reach)[0]
        for name, role, team, reach in (
            ("olga", "owner", "", "*"),
            ("ann", "analyst", "north", "*"),
            ("ada", "auditor", "", "*"),
            ("pia", "participant", "north", "board:race"),
        )
    }
    service.close()
    (service.sources / "gone.parquet").unlink()
    return tokens


def labels(seed: int) -> pd.DataFrame:
    """The labels of a board."""
    return pd.DataFrame({"id": np.arange(800), "y": np.random.default_rng(seed).integers(0, 2, 800)})


def predictions(truth: pd.DataFrame, right: float, seed: int = 0) -> pd.DataFrame:
    """Predictions of which about this share is right."""
    wrong = np.random.default_rng(seed).random(len(truth)) >= right
    return pd.DataFrame({"id": truth["id"], "prediction": np.where(wrong, 1 - truth["y"], truth["y"])})


def _boards(service: Service) -> None:
    players = [
        Person(identity=name, name=name, role="participant", team="north", dataset="*", expires=0)
        for name in ("pia", "bob")
    ]
    for board, seed in (("race", 11), ("finished-race", 12)):
        truth = labels(seed)
        truth.to_csv(service.sources / f"{board}.csv", index=False)
        service.boards.register(board, f"{board}.csv", {"target": "y", "start": 0.5}, blind=False)
        for number, right in enumerate((0.6, 0.7, 0.68, 0.85)):
            service.boards.submit(board, players[number % 2], predictions(truth, right, number))
    service.boards.final("finished-race")


def _gates(service: Service) -> None:
    harness = Person(identity="0", name="ci", role="submitter", team="", dataset="*", expires=0)
    for name in ("agent", "fresh"):
        service.gates.register(name, results=GivenResults(scores(40)), incumbent="v1", rate=10**6, expect=40)
    for step, name in enumerate(("v2", "a version with a rather long name", "v4"), start=1):
        service.gates.submit("agent", harness, f"{name} before tuning", scores(40 + 60 * (step - 1)))
        service.gates.submit("agent", harness, name, scores(40 + 60 * step))
