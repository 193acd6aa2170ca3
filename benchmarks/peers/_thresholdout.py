"""Thresholdout as published (Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import optimize

from holdfast.errors import BudgetSpent


@dataclass
class Thresholdout:
    """Answers from the training part while it agrees with the holdout, and else with noise from the holdout.

    With ``gaussian`` it is the variant of the published experiment: normal noise on threshold and answer,
    no new threshold after a release and no budget.
    """

    threshold: float
    scale: float
    budget: int
    rng: np.random.Generator
    gaussian: bool = False
    left: int = field(init=False)
    _noisy: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.budget
        self._renew()

    def _renew(self) -> None:
        self._noisy = self.threshold + float(self.rng.laplace(scale=2 * self.scale))

    def answer(self, training: float, holdout: float) -> float:
        """One answer, from the value on each part."""
        if self.gaussian:
            if abs(holdout - training) > self.threshold + float(self.rng.normal(scale=self.scale)):
                return holdout + float(self.rng.normal(scale=self.scale))
            return training
        if self.left < 1:
            raise BudgetSpent("The budget of Thresholdout is spent.", asked=1, spent=self.budget, left=0)
        if abs(holdout - training) > self._noisy + float(self.rng.laplace(scale=4 * self.scale)):
            self.left -= 1
            self._renew()
            return holdout + float(self.rng.laplace(scale=self.scale))
        return training


def thresholdout_parameters(queries: int, error: float, beta: float) -> tuple[float, float]:
    """Threshold and noise of Theorem 25."""
    return 0.75 * error, error / (96 * math.log(4 * queries / beta))


def thresholdout_rows(queries: int, budget: int, error: float, beta: float) -> int:
    """Theorem 25: the holdout rows for m answers within ``error``, at most ``budget`` of them releases."""
    square = error**2
    log4 = math.log(4 * queries / beta)
    pure = max(1536 * budget * log4 / square, 64 * math.log(12 * queries / beta) / square)
    approximate = 61440 * log4 * math.sqrt(budget * math.log(16 * queries / (error * beta))) / square
    return math.ceil(min(pure, approximate))


def thresholdout_error(rows: int, queries: int, beta: float, budget: int) -> float:
    """The least error that Theorem 25 allows for so many holdout rows; 1 if none below it."""
    if thresholdout_rows(queries, budget, 1.0, beta) > rows:
        return 1.0
    low, high = 1e-6, 1.0
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        enough = thresholdout_rows(queries, budget, middle, beta) <= rows
        low, high = (low, middle) if enough else (middle, high)
    return high


def thresholdout_width(rows: int, queries: int, beta: float, budget: int, threshold: float) -> float:
    """The width by the mean squared error (Rogers et al. 2020, B.9), with the best noise, as long as the
    training part is off by more than ``threshold`` no more than ``budget`` times."""
    return thresholdout_width_choice(rows, queries, beta, budget, threshold)[0]


def thresholdout_width_choice(
    rows: int, queries: int, beta: float, budget: int, threshold: float
) -> tuple[float, float]:
    """The width, and the noise that gives it."""

    def width(log_scale: float) -> float:
        scale = math.exp(log_scale)
        first, second = _largest_laplaces(queries, 4 * scale), _largest_laplaces(budget, 2 * scale)
        mean = first[0] + second[0]
        square = first[1] + second[1] + 2 * first[0] * second[0]
        spread = threshold**2 + square + 2 * threshold * mean
        information = _least_share(2 * budget / (scale**2 * rows))
        squared = spread + information / (4 * rows) + math.sqrt(information / rows * spread)
        return math.sqrt(squared / beta)

    middle = -0.5 * math.log(rows)
    optimum = optimize.minimize_scalar(width, bounds=(middle - 6, middle + 6), method="bounded")
    return min(1.0, float(optimum.fun)), math.exp(float(optimum.x))


def _least_share(information: float) -> float:
    """min over λ in (0, 1) of (a − ln(1−λ))/λ."""
    optimum = optimize.minimize_scalar(
        lambda share: (information - math.log1p(-share)) / share, bounds=(1e-9, 1 - 1e-12), method="bounded"
    )
    return float(optimum.fun)


def _largest_laplaces(count: int, scale: float) -> tuple[float, float]:
    """E M and E M² for the largest M of so many Laplace noises, by its quantiles."""
    below = ((np.arange(20_000) + 0.5) / 20_000) ** (1 / count)
    values = np.where(below < 0.5, np.log(2 * below), -np.log(2 * (1 - below)))
    return scale * float(values.mean()), scale**2 * float(np.mean(values**2))
