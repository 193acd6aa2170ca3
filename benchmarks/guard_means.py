"""How wide the guard's intervals are for means and for questions with a filter, next to what else there is.

Each session is a real guard on a table in memory. Beside it: the normal approximation on all rows (fixed in
advance, not valid for small samples), and empirical Bernstein on the protected rows at the same error
probability, which the guard used before.

    python benchmarks/guard_means.py [--runs 20]
"""

from __future__ import annotations

import argparse
import math
from importlib.resources import files

import numpy as np
import pandas as pd
from machine import keep

from holdfast import Guard
from holdfast.intervals import empirical_bernstein_radius

FAILURE = 0.05
LONG_TAILED = "mean(x, 0, 100000)"


def diamonds(seed: int) -> tuple[pd.DataFrame, str, float]:
    """Prices of diamonds, 8,000 of the shipped rows."""
    table = pd.read_parquet(str(files("holdfast.data") / "diamonds.parquet"), columns=["price"])
    return table.sample(8000, random_state=seed), "mean(price, 0, 20000)", 20_000.0


def long_tailed(seed: int) -> tuple[pd.DataFrame, str, float]:
    """exp N(8, 1), clipped to [0, 10⁵]; and coins."""
    rng = np.random.default_rng(seed)
    coins = {f"c{place}": rng.integers(0, 2, 10**4) for place in range(14)}
    quarter = rng.integers(0, 4, 10**4)
    values = np.minimum(np.exp(rng.normal(8, 1, 10**4)), 1e5)
    return pd.DataFrame({"x": values, "quarter": quarter, **coins}), LONG_TAILED, 1e5


def first(make, runs: int) -> dict[str, float]:
    """The half-width of a mean as the first question, and of its rivals."""
    widths, normal, bernstein = [], [], []
    for seed in range(runs):
        table, question, width = make(seed)
        values = table.iloc[:, 0].to_numpy()
        guard = Guard(table)
        answer = guard.ask(question)
        nats = answer.certificate.numbers["nats of this interval"]
        widths.append(answer.half_width)
        normal.append(1.96 * values.std() / math.sqrt(len(values)))
        bernstein.append(empirical_bernstein_radius(values.var(), guard.rows, nats, width=width))
    return {
        "half-width": float(np.mean(widths)),
        "normal, all rows, one question": float(np.mean(normal)),
        "empirical Bernstein, protected rows": float(np.mean(bernstein)),
    }


def after_shares(question: str, shares: int, runs: int, **options) -> float:
    """The mean half-width of a question after so many shares."""
    widths = []
    for seed in range(runs):
        guard = Guard(long_tailed(seed)[0])
        for place in range(shares):
            guard.share(f"c{place} = 1")
        widths.append(guard.ask(question, **options).half_width)
    return float(np.mean(widths))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    filtered = "share(c13 = 1, where = quarter = 1)"
    points = {
        "diamonds, first question": {**first(diamonds, runs), "limit": 225},
        "exp N(8, 1), first question": {**first(long_tailed, runs), "limit": 335},
        "exp N(8, 1), after ten shares": {"half-width": after_shares(LONG_TAILED, 10, runs), "limit": 900},
        "the same with nats=2": {"half-width": after_shares(LONG_TAILED, 10, runs, nats=2), "limit": 700},
        "a quarter passes, 14th question": {"half-width": after_shares(filtered, 13, runs), "limit": 0.120},
        "the same with nats=3": {"half-width": after_shares(filtered, 13, runs, nats=3), "limit": 0.080},
    }
    for point in points.values():
        point["within limit"] = point["half-width"] <= point["limit"]
    keep("guard_means", {"runs": runs, "points": points})


if __name__ == "__main__":
    main()
