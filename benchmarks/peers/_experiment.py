"""The experiment published with Thresholdout: a classifier built through a holdout that is used again.

With normal attributes only the products label × attribute matter, and given its mean a column of them is
that mean plus centred noise. So the means of all columns are drawn first, and rows only of those columns that
the analyst keeps: the same law, at a twentieth of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SIZES = (0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500)
BIASED, BIAS = 20, 0.06


def experiment(
    size: int,
    sizes: Sequence[int],
    rng: np.random.Generator,
    *,
    signal: bool,
    through: Callable[[float, float], float] | None = None,
) -> dict[str, list[float]]:
    """Accuracy on training, as reported, and on fresh rows, of classifiers of each number of attributes;
    ``size`` rows in each part and as many attributes N(0, 1), with ``signal`` 20 of them N(.06 y, 1).

    Attributes are kept whose correlation with the label has the same sign and is at least 1/√n on training
    and holdout; the k largest on training vote with their signs. ``through`` is Thresholdout's answer from
    training and holdout values; without it the holdout is read as it is.
    """
    bias = np.zeros(size)
    if signal:
        bias[:BIASED] = BIAS
    training, holdout = (bias + rng.normal(scale=1 / np.sqrt(size), size=size) for _ in range(2))
    seen = holdout
    if through is not None:
        seen = np.array([through(float(t), float(h)) for t, h in zip(training, holdout, strict=True)])
    enough = 1 / np.sqrt(size)
    kept = np.flatnonzero((training * seen > 0) & (np.abs(training) >= enough) & (np.abs(seen) >= enough))
    kept = kept[np.argsort(-np.abs(training[kept]))][: max(sizes)]
    signs = np.sign(training[kept])
    fresh = bias[kept] + rng.normal(scale=1 / np.sqrt(size), size=len(kept))
    accuracies = {
        name: _accuracies(signs * means, size, sizes, rng)
        for name, means in (("training", training[kept]), ("holdout", holdout[kept]), ("fresh", fresh))
    }
    reported = accuracies["holdout"]
    if through is not None:
        reported = [through(t, h) for t, h in zip(accuracies["training"], reported, strict=True)]
    return {"training": accuracies["training"], "reported": reported, "fresh": accuracies["fresh"]}


def _accuracies(means: Floats, rows: int, sizes: Sequence[int], rng: np.random.Generator) -> list[float]:
    """How often the sum of the first columns has the label's sign, for each number of columns, where column j
    of signed products has exactly this mean; without columns a coin decides."""
    total = np.zeros(rows)
    used = 0
    means_by_size = {}
    for size in sorted(sizes):
        for mean in means[used:size]:
            noise = rng.standard_normal(rows)
            total += mean + noise - noise.mean()
        used = max(used, min(size, len(means)))
        means_by_size[size] = float(np.mean(total > 0)) if used else float(rng.binomial(rows, 0.5)) / rows
    return [means_by_size[size] for size in sizes]
