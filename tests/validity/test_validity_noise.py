"""Noise calibrated to concentration keeps its promise for an adaptive analyst and dependent rows.

The analyst asks k weighted means of one vector of N numbers with mean zero, with random signs. Then it asks
for the weights that the answers point to. The theorem in ``docs/theory/adaptive-validity.md``, "The theorem
(ours)", promises the certified error for all answers at once. A twin without noise, which claims the radius
of a fixed query at β/k, breaks its claim.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import betaincinv

from holdfast.coding import Account
from holdfast.dependence import Independent
from holdfast.readings import StatisticQuestion
from holdfast.strategies import choose_strategy
from holdfast.tails import BoundedDifferences, SubExponential, SubGaussian, Tail

FAILURE = 0.05
ROWS = 1500


def series(rng: np.random.Generator) -> np.ndarray:
    """A stationary autoregressive series with coefficient 0.8 and unit variance."""
    steps = rng.normal(size=ROWS) * math.sqrt(1 - 0.8**2)
    values = np.empty(ROWS)
    values[0] = rng.normal()
    for place in range(1, ROWS):
        values[place] = 0.8 * values[place - 1] + steps[place]
    return values


def graph(rng: np.random.Generator) -> np.ndarray:
    """The edges of a random graph on 55 nodes, each there with probability one half, centred."""
    return rng.integers(0, 2, 55 * 54 // 2) - 0.5


def heavy(rng: np.random.Generator) -> np.ndarray:
    """Independent rows with exponential tails on both sides."""
    return rng.laplace(size=ROWS)


# λ²σ²/2 ≥ −ln(1 − λ²) for |λ| ≤ 1/2; the spectral density of the series is at most (1 + 0.8)/(1 − 0.8).
CASES = {
    "series": (series, SubGaussian(math.sqrt(9.0 / ROWS))),
    "graph": (graph, BoundedDifferences(delta=1 / 1485, n=1485)),
    "heavy": (heavy, SubExponential(sigma=math.sqrt(-8 * math.log(0.75)), b=2.0).of_mean(ROWS)),
}


def attack(rng: np.random.Generator, values: np.ndarray, k: int, tail: Tail, *, noisy: bool) -> bool:
    """Whether all k answers are within their certified error of zero, the truth."""
    signs = rng.choice(np.array([-1.0, 1.0]), (k - 1, len(values)))
    exact = signs @ values / len(values)
    rows = SimpleNamespace(rows=SimpleNamespace(count=len(values)))
    setup = SimpleNamespace(protected=rows, model=Independent(len(values)))
    strategy = choose_strategy("typical-gaussian", setup, failure=FAILURE, error=None, queries=k)
    question = StatisticQuestion(
        key="",
        text="weighted mean",
        low=-math.inf,
        high=math.inf,
        guess=None,
        kind="custom",
        function=len,
        tail=tail,
    )
    whole = strategy.prepare(question, Account(FAILURE)).calibrated
    error = whole.error if noisy else tail.radius(FAILURE / k)

    def answer(value: np.ndarray) -> np.ndarray:
        if not noisy:
            return value
        return np.asarray(whole.noise.add(value, simulation=True, seed=int(rng.integers(2**62))))

    answers = answer(exact)
    weights = np.where(answers @ signs >= 0, 1.0, -1.0)
    final = answer(np.asarray(weights @ values / len(values)))
    return bool(np.abs(answers).max() <= error and abs(float(final)) <= error)


def held(case: str, runs: int, k: int, seed: int, *, noisy: bool) -> int:
    make, tail = CASES[case]
    rngs = [np.random.default_rng([seed, run]) for run in range(runs)]
    return sum(attack(rng, make(rng), k, tail, noisy=noisy) for rng in rngs)


@pytest.mark.parametrize("case", CASES)
def test_the_promised_error_holds_in_at_least_95_percent_of_runs(case, seed):
    runs = 60
    successes = held(case, runs, 200, seed, noisy=True)
    assert float(betaincinv(successes, runs - successes + 1, 0.05)) >= 0.95


@pytest.mark.parametrize("case", CASES)
def test_a_twin_without_noise_fails(case, seed):
    assert held(case, 10, 1000, seed, noisy=False) == 0


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_promised_error_holds_at_a_thousand_questions(case, seed):
    runs = 300
    successes = held(case, runs, 1000, seed, noisy=True)
    assert float(betaincinv(successes, runs - successes + 1, 0.001)) >= 0.95
