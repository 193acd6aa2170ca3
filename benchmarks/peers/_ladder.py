"""Leaderboards: the Ladder and the parameter-free Ladder (Blum and Hardt 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_STEPS = np.geomspace(1e-4, 0.5, 4000)


def ladder_error(rows: int, submissions: int, beta: float) -> float:
    """The least ε + η with exp(−2ε²n + (1/η + 2) ln(4t/η) + 1) ≤ β.

    It is about the best score so far and no other: a smaller promise than that of all k answers.
    """
    return ladder_choice(rows, submissions, beta)[0]


def ladder_choice(rows: int, submissions: int, beta: float) -> tuple[float, float]:
    """The error, and the step η that gives it."""
    exponent = (1 / _STEPS + 2) * np.log(4 * submissions / _STEPS) + 1 - math.log(beta)
    errors = _STEPS + np.sqrt(exponent / (2 * rows))
    best = int(np.argmin(errors))
    return min(1.0, float(errors[best])), float(_STEPS[best])


@dataclass
class Ladder:
    """Shows a new score only if it is better than the best by more than ``step``, and then rounded to it."""

    step: float
    best: float = math.inf

    def submit(self, losses: Floats) -> float:
        """The score that is shown after a submission with these losses on the holdout rows."""
        return self.take(float(losses.mean()))

    def take(self, risk: float) -> float:
        """The same from the mean of the losses."""
        if risk < self.best - self.step:
            self.best = round(risk / self.step) * self.step
        return self.best


@dataclass
class ParameterFreeLadder:
    """Shows a new score only if it is better by a standard error of the difference; there is no theorem."""

    best: float = math.inf
    _losses: Floats | None = field(default=None, repr=False)

    def submit(self, losses: Floats) -> float:
        """The score that is shown after a submission with these losses, 0 or 1, on the holdout rows."""
        differing = 0 if self._losses is None else int((losses != self._losses).sum())
        before = self.best
        if self.take(float(losses.mean()), differing, len(losses)) < before:
            self._losses = losses
        return self.best

    def take(self, risk: float, differing: int, rows: int) -> float:
        """The same from the mean of the losses and how many of them differ from those of the best."""
        gain = 0.0 if math.isinf(self.best) else self.best - risk
        variance = max(0.0, differing - rows * gain**2) / (rows - 1)
        if risk < self.best - math.sqrt(variance / rows):
            self.best = round(risk * rows) / rows
        return self.best


def boosting(board: Ladder | ParameterFreeLadder | None, labels: Floats, submissions: int, rng) -> float:
    """Submit random labels, keep those that did well, submit their majority: the share of ``labels`` it hits.

    Against a board those that lowered the score are kept; without one, those that hit more than half.
    """
    kept = np.zeros(len(labels))
    shown = math.inf
    for _ in range(submissions):
        guess = rng.integers(0, 2, len(labels))
        losses = (guess != labels).astype(float)
        good = losses.mean() < 0.5 if board is None else board.submit(losses) < shown
        shown = math.inf if board is None else board.best
        if good:
            kept += 2 * guess - 1
    majority = np.where(kept == 0, rng.integers(0, 2, len(labels)), kept > 0)
    return float((majority == labels).mean())
