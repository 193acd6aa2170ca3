"""How fast user-level privacy and smaller δ are: laws one by one, as before, and by counts or in batches.

    python benchmarks/law_speed.py

The result is kept in results/law_speed.json.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from machine import keep

from holdfast.reductions import Algorithm, amplify_delta, item_to_user_level, laplace_mean
from holdfast.replicable import Tape
from holdfast.stability import DP


def response() -> Algorithm:
    """One bit, told truthfully with probability e/(1 + e)."""
    truth = 1.0 / (1.0 + np.exp(-1.0))
    return Algorithm(
        lambda rows, tape: 0,
        rows_needed=1,
        guarantee=DP(1.0),
        outcomes=(0, 1),
        probabilities=lambda rows: [1.0 - truth, truth] if rows[0] else [truth, 1.0 - truth],
    )


def seconds(run: Callable[[], Any]) -> float:
    """The least of three times."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


def compare(single: Algorithm, compiled: Callable[[Algorithm], Algorithm], draw: Any) -> dict[str, Any]:
    """Both times. Rows in a list have no counts; without batches laws come one by one."""
    new, old = compiled(single), compiled(replace(single, batch_probabilities=None))
    rows = draw(new.rows_needed)
    listed = rows.tolist() if rows.size < 10**6 else rows
    after = seconds(lambda: new(rows, Tape("speed")))
    before = seconds(lambda: old(listed, Tape("speed")))
    return {"rows": new.rows_needed, "one by one": before, "now": after, "times faster": before / after}


def main() -> None:
    """Users and smaller δ, for a response and for a mean."""
    rng = np.random.default_rng(0)
    mean = laplace_mean(rows=500, epsilon=0.1, accuracy=0.25, cells=10)

    def smaller(single: Algorithm) -> Algorithm:
        return amplify_delta(single, epsilon=1.0, beta=0.2, simulation=True)

    results = {
        "users, response": compare(
            response(),
            lambda single: item_to_user_level(single, rows_a_user=10_000, epsilon=1.0, simulation=True),
            lambda users: (rng.random((users, 10_000)) < 0.9).astype(int),
        ),
        "users, mean": compare(
            mean,
            lambda single: item_to_user_level(single, rows_a_user=100_000, epsilon=1.0, simulation=True),
            lambda users: rng.random((users, 100_000)),
        ),
        "smaller delta, mean": compare(mean, smaller, rng.random),
    }
    for name, row in results.items():
        print(f"{name}: {row['one by one']:.3f} s, now {row['now']:.4f} s: {row['times faster']:.0f} times")
    keep("law_speed", {"seconds": results})


if __name__ == "__main__":
    main()
