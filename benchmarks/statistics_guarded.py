"""How wide the answers are that people ask for most: an A/B trial and two models on one test set.

python benchmarks/statistics_guarded.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from machine import keep

from holdfast import Guard

RUNS = 20
TRIAL = "difference(paid, arm = 'b', arm = 'a')"


def trial(seed: int) -> pd.DataFrame:
    """2,834 rows, groups about 1 : 2, shares about .35 and .70."""
    rng = np.random.default_rng(seed)
    arm = rng.random(2_834) < 1 / 3
    paid = rng.random(2_834) < np.where(arm, 0.70, 0.35)
    return pd.DataFrame({"arm": np.where(arm, "b", "a"), "paid": paid})


def two_models(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """7,500 rows, 5,000 of them protected, on which two models differ about one row in twelve."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 2, 7_500)
    first = np.where(rng.random(7_500) < 0.85, target, 1 - target)
    second = np.where(rng.random(7_500) < 0.08, 1 - first, first)
    return pd.DataFrame({"y": target}), first, second


def widths(runs: int = RUNS) -> dict[str, float]:
    """Mean half-widths over seeded runs."""
    half_widths: dict[str, list[float]] = {}
    for seed in range(runs):
        table = trial(seed)
        half_widths.setdefault("trial, one question", []).append(Guard(table).ask(TRIAL).half_width)
        half_widths.setdefault("trial, expect=1", []).append(Guard(table, expect=1).ask(TRIAL).half_width)
        report = Guard(table).report([TRIAL]).answers[0]
        assert report is not None
        half_widths.setdefault("trial, report", []).append(report.half_width)
        labels, first, second = two_models(seed)
        paired = Guard(labels).compare(first, second, target="y")
        half_widths.setdefault("two models, one question", []).append(paired.half_width)
        guard = Guard(labels)
        last = guard.report([guard.to_compare(first, second, target="y")]).answers[0]
        assert last is not None
        half_widths.setdefault("two models, report", []).append(last.half_width)
        hinted = Guard(labels, expect=1, training_share=1 / 3).compare(first, second, target="y")
        half_widths.setdefault("two models, expect=1", []).append(hinted.half_width)
    return {name: round(float(np.mean(values)), 5) for name, values in half_widths.items()}


if __name__ == "__main__":
    keep("statistics_guarded", {"runs": RUNS, "half-width": widths()})
