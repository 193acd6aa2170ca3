"""A class of hypotheses about one bit, with copies, and a private learner for it."""

from __future__ import annotations

import itertools

import numpy as np

from holdfast.reductions import Algorithm, private_agnostic
from holdfast.stability import DP

# A hypothesis is what it says of 0 and of 1, and which copy of that it is.
SAYS = tuple(itertools.product((0, 1), repeat=2))
ROWS = SAYS


def hypotheses(copies: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((*says, copy) for says in SAYS for copy in range(copies))


CLASS = hypotheses(1)
# Line h, column 2x + y: whether h is wrong where x has the label y.
WRONG = np.array([[says[x] != y for x, y in ROWS] for says in SAYS])


def predict(hypothesis, x):
    return np.asarray(hypothesis)[np.asarray(x, dtype=int)[:, 0]]


def labelings(x):
    return np.unique([predict(hypothesis, x) for hypothesis in CLASS], axis=0)


def law_of(counts: np.ndarray, epsilon: float) -> np.ndarray:
    """The exponential mechanism on errors, given how often each of (x, y) occurs (last axis)."""
    errors = counts @ WRONG.T
    weights = np.exp(-epsilon * (errors - errors.min(axis=-1, keepdims=True)) / 2.0)
    return weights / weights.sum(axis=-1, keepdims=True)


def learner(
    rows: int, epsilon: float, failure: float = 0.0, declared: float | None = None, copies: int = 1
) -> Algorithm:
    """The exponential mechanism, and any of the copies; with another ``declared`` ε it lies."""
    listed = hypotheses(copies)

    def law(block):
        block = np.asarray(block, dtype=int)
        counts = np.bincount(2 * block[:, 0] + block[:, 1], minlength=4)
        return np.repeat(law_of(counts, epsilon) / copies, copies)

    return Algorithm(
        lambda block, tape: listed[int(np.searchsorted(np.cumsum(law(block)), tape.uniforms(1)[0]))],
        rows_needed=rows,
        guarantee=DP(epsilon if declared is None else declared),
        failure=failure,
        outcomes=listed,
        probabilities=law,
    )


def agnostic(algorithm: Algorithm, **changes) -> Algorithm:
    arguments = {
        "labelings": labelings,
        "predict": predict,
        "growth": lambda size: 4,
        "accuracy": 0.4,
        "learner_accuracy": 0.05,
        "epsilon": 1.0,
        "simulation": True,
    }
    return private_agnostic(algorithm, **{**arguments, **changes})
