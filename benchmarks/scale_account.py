"""What answers cost the account when there are up to 10¹² rows: counts are drawn, so no table is needed.

A guard promises ±10/√n, seven times the half-width of the first answer, and is asked for shares that have
nothing to do with one another until it refuses. What counts is how many training rows the guesses come from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.audit.attacks._answerers import CountedGuard, CountedShare
from holdfast.errors import BudgetSpent

ROWS = (10**6, 10**8, 10**10, 10**12)
TRAINING = {
    "20,000": lambda rows: 20_000,
    "a million": lambda rows: 10**6,
    "a tenth as many": lambda rows: rows // 10,
    "as many": lambda rows: rows,
}
MOST = 1000
FAILURE = 0.05


def ask_until_refused(rows: int, training: int, most: int = MOST, seed: int = 0) -> dict[str, Any]:
    """Shares between 0.1 and 0.9 until the promise allows no more."""
    rng = np.random.default_rng([seed, rows, training])
    promise = 10 / rows**0.5
    guard, asked = CountedGuard(rows, training, FAILURE, error=promise), 0
    try:
        for asked in range(most):
            share = rng.uniform(0.1, 0.9)
            counts = {"protected": rng.binomial(rows, share), "training": rng.binomial(training, share)}
            guard.ask(CountedShare(key=str(asked), **{name: int(count) for name, count in counts.items()}))
        asked = most
    except BudgetSpent:
        pass
    return {
        "rows": rows,
        "training rows": training,
        "promised": promise,
        "questions answered": asked,
        "refused": asked < most,
        "nats a question": round(guard.account.exact / max(1, asked), 4),
    }


def account(most: int = MOST) -> list[dict[str, Any]]:
    """Every number of rows with every training part."""
    sizes = [(rows, training(rows)) for rows in ROWS for training in TRAINING.values()]
    return [ask_until_refused(rows, training, most) for rows, training in dict.fromkeys(sizes)]
