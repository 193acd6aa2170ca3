"""How wide intervals are where rows depend on each other: a panel of people, and chains.

The panel has 545 people with 8 rows each. Its first mean stands beside the cluster-robust interval, mean ±
1.96 standard errors, on the same protected rows and on all rows. That one is for a single question that was
fixed in advance, and holds for many clusters only.

The chains have 100,000 protected rows. A row keeps the value of the row before with probability ``rate``, and
has a fresh value otherwise. Beside each arm stands z·√((1 + rate)/(1 − rate)·σ²/n), where z is the two-sided
normal quantile at exp(−nats): an estimate with normal errors needs that much if the long-run variance is
known. It is no interval, because nobody knows that variance.

    python benchmarks/correlated_width.py [--runs 20] [--series 5]
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
from machine import keep
from scipy.stats import norm

from holdfast import Guard
from holdfast.dependence import Clusters, Dependence, MarkovChain, Mixing
from holdfast.engines import unsealed

PEOPLE, VISITS, HIGHEST = 545, 8, 4.5
BETWEEN, WITHIN = 0.15, 0.12
ROWS, NATS, STATES = 100_000, 4.0, 50
RATES = (0.5, 0.9, 0.99)
LAWS = {"uniform": 1.0, "exponential": 8.0}
# What an arm may be at most, over the normal radius: by blocks, and by the operator norm of the chain.
BY_BLOCKS = {
    (0.5, "uniform"): 2.0,
    (0.5, "exponential"): 2.4,
    (0.9, "uniform"): 2.4,
    (0.9, "exponential"): 3.0,
}
BY_NORM = {0.5: 1.8, 0.9: 2.1}


def panel(seed: int) -> dict[str, np.ndarray]:
    """Logarithms of wages: people differ, and each differs from year to year."""
    rng = np.random.default_rng(seed)
    usual = 1.65 + math.sqrt(BETWEEN) * rng.normal(size=(PEOPLE, 1))
    wage = np.clip(usual + math.sqrt(WITHIN) * rng.normal(size=(PEOPLE, VISITS)), 0, HIGHEST)
    return {"person": np.repeat(np.arange(PEOPLE), VISITS), "wage": wage.ravel()}


def robust_error(person: np.ndarray, value: np.ndarray) -> float:
    """The cluster-robust standard error of the mean."""
    _, place = np.unique(person, return_inverse=True)
    return math.sqrt(float(np.sum(np.bincount(place, value - value.mean()) ** 2))) / len(value)


def panel_once(seed: int) -> dict[str, float]:
    """The first mean of one panel, and its rivals."""
    table = panel(seed)
    guard = Guard(table, dependence=Clusters(column="person"), split_seed=seed)
    answer = guard.mean("wage", bounds=(0, HIGHEST))
    protected = ~np.isin(table["person"], guard.train["person"])
    return {
        "half-width": answer.half_width,
        "robust, protected rows": 1.96 * robust_error(table["person"][protected], table["wage"][protected]),
        "robust, all rows": 1.96 * robust_error(table["person"], table["wage"]),
        "people": float(len(np.unique(table["person"][protected]))),
        "holds": float(answer.low <= 1.65 <= answer.high),
    }


def values_of(law: str) -> tuple[np.ndarray, np.ndarray]:
    """The middles of 50 cells of the range, and their probabilities."""
    edges = np.linspace(0, LAWS[law], STATES + 1)
    chances = np.diff(edges) if law == "uniform" else -np.diff(np.exp(-edges))
    return (edges[1:] + edges[:-1]) / 2, chances / chances.sum()


def drawn(rng: np.random.Generator, law: str, rows: int, *, states: bool) -> np.ndarray:
    """Independent values."""
    if states:
        middles, chances = values_of(law)
        return rng.choice(middles, rows, p=chances)
    return rng.random(rows) if law == "uniform" else np.minimum(rng.exponential(size=rows), LAWS[law])


def series(rng: np.random.Generator, law: str, rate: float, rows: int, *, states: bool) -> np.ndarray:
    """A stationary chain that keeps its value with probability ``rate``."""
    fresh = rng.random(rows) >= rate
    fresh[0] = True
    return drawn(rng, law, int(fresh.sum()), states=states)[np.cumsum(fresh) - 1]


def model_of(kind: str, law: str, rate: float) -> Dependence:
    """The declared rate of forgetting, or the chain itself."""
    if kind == "Mixing":
        return Mixing(rate)
    _, chances = values_of(law)
    return MarkovChain(rate * np.eye(STATES) + (1 - rate) * chances, ROWS)


def normal_radius(rate: float, deviation: float) -> float:
    """z times the long-run standard error."""
    z = float(norm.isf(math.exp(-NATS) / 2))
    return z * deviation * math.sqrt((1 + rate) / (1 - rate) / ROWS)


def series_once(kind: str, law: str, rate: float, seed: int) -> dict[str, Any]:
    """The arms of one mean at exactly four nats, over the normal radius, and how it was read."""
    rng = np.random.default_rng(seed)
    states = kind == "MarkovChain"
    training, sample = (series(rng, law, rate, rows, states=states) for rows in (ROWS // 2, ROWS))
    guard = Guard({"x": sample}, train={"x": training}, dependence=model_of(kind, law, rate))
    question = guard._questions.read(f"mean(x, 0, {LAWS[law]:g})")
    # The nats of an answer follow from the account; the strategy is asked here for a reading at four of them.
    expected = guard._strategy._expected(question, NATS)
    with unsealed():
        measured = expected.reading.measured(guard._setup.protected)
    assert measured is not None
    radius = normal_radius(rate, float(sample.std()))
    return {
        "predicted": expected.reading.around(expected.guess, expected.guess).half_width / radius,
        "measured": measured.interval.half_width / radius,
        "tail of the model": guard._setup.model.mean_tail(0, LAWS[law]).radius_at(NATS) / radius,
        "reading": expected.reading.theorem,
        "charged for blocks": guard.certificate.numbers["charged for the split"],
    }


def averages(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The means over runs, and the readings that were chosen."""
    return {
        name: sorted({run[name] for run in runs})
        if isinstance(value, str)
        else float(np.mean([run[name] for run in runs]))
        for name, value in runs[0].items()
    }


def limit(kind: str, law: str, rate: float) -> float | None:
    """What the measured arm is to be at most, where something is promised."""
    return BY_NORM.get(rate) if kind == "MarkovChain" else BY_BLOCKS.get((rate, law))


def point(kind: str, law: str, rate: float, runs: int) -> dict[str, Any]:
    """One line of the table, with its limit."""
    means = averages([series_once(kind, law, rate, seed) for seed in range(runs)])
    most = limit(kind, law, rate)
    described = {"model": kind, "law": law, "rate": rate, **means}
    return (
        described if most is None else {**described, "limit": most, "within limit": means["measured"] <= most}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--series", type=int, default=5)
    given = parser.parse_args()
    points = [
        point(kind, law, rate, given.series)
        for kind in ("Mixing", "MarkovChain")
        for rate in RATES
        for law in LAWS
    ]
    keep(
        "correlated_width",
        {
            "panel": {"runs": given.runs, **averages([panel_once(seed) for seed in range(given.runs)])},
            "series": given.series,
            "beyond their limit": [entry for entry in points if entry.get("within limit") is False],
            "points": points,
        },
    )


if __name__ == "__main__":
    main()
