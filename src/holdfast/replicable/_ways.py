"""The ways to choose among models by their mean losses: how wide, how stable and how accurate each is.

* "exponential": shared clocks. Model i is chosen with probability proportional to exp(−(mean loss of
  i)/scale).
* "delayed": the same with clocks that all start a little late, so that a model far behind can hardly win; β
  costs little more than ln ln(1/β).
* "threshold": the first model, in a shared order, with a loss below a shared threshold (SIS Algorithm 10).
* "pair": between two models, a shared threshold on the difference of their mean losses.

The proofs are in ``docs/theory/replicable-learning.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, exp1, lambertw, ndtr, rel_entr

from holdfast import rounding, search
from holdfast.replicable._correlated import correlated_log_choice
from holdfast.replicable._design import MOST_ROWS
from holdfast.replicable._tape import Floats, Tape, logarithm

__all__ = [
    "ONLY_ONE",
    "WAYS",
    "ChoiceProblem",
    "Way",
    "delayed_choice",
    "delayed_failure",
    "delayed_rho",
    "delayed_scale",
    "harmonic_number",
    "pair_choice",
    "pair_failure",
    "pair_rho",
    "pair_width",
    "softmin_failure",
    "softmin_rho",
    "softmin_scale",
    "threshold_choice",
    "threshold_failure",
    "threshold_rho",
    "threshold_width",
    "ways_for",
    "widest",
]


@dataclass(frozen=True)
class ChoiceProblem:
    """What is asked of a choice, apart from its data."""

    models: int
    accuracy: float
    beta: float
    realizable: bool


@dataclass(frozen=True)
class Way:
    """One way to choose; ``width`` is the reach of its randomness, in units of the mean loss."""

    width: Callable[[ChoiceProblem, int], float | None]
    rho: Callable[[ChoiceProblem, int, float], float]
    failure: Callable[[ChoiceProblem, int, float], float]
    pick: Callable[[ChoiceProblem, Floats, float, Tape], int]

    def rho_at(self, problem: ChoiceProblem, rows: int) -> float:
        """The ρ that ``rows`` rows allow if the accuracy is kept; 1 if they do not allow the accuracy."""
        width = self.width(problem, rows)
        return 1.0 if width is None else self.rho(problem, rows, width)

    def rows(self, problem: ChoiceProblem, rho: float) -> int | None:
        """The fewest rows for which accuracy and ``rho`` both hold."""
        return search.least_whole(lambda rows: self.rho_at(problem, rows) <= rho, most=MOST_ROWS)


def _softmin_pick(problem: ChoiceProblem, means: Floats, width: float, tape: Tape) -> int:
    return correlated_log_choice(-means / width, tape.branch("clocks"))


WAYS = {
    "exponential": Way(
        lambda p, rows: softmin_scale(p.models, rows, p.accuracy, p.beta, realizable=p.realizable),
        lambda p, rows, width: softmin_rho(p.models, rows, width, realizable=p.realizable),
        lambda p, rows, width: softmin_failure(p.models, rows, p.accuracy, width, realizable=p.realizable),
        _softmin_pick,
    ),
    "delayed": Way(
        lambda p, rows: delayed_scale(p.models, rows, p.accuracy, p.beta),
        lambda p, rows, width: delayed_rho(p.models, rows, width),
        lambda p, rows, width: delayed_failure(p.models, rows, p.accuracy, width),
        lambda p, means, width, tape: delayed_choice(means, width, tape),
    ),
    "threshold": Way(
        lambda p, rows: threshold_width(p.models, rows, p.accuracy, p.beta, realizable=p.realizable),
        lambda p, rows, width: threshold_rho(p.models, rows, width, realizable=p.realizable),
        lambda p, rows, width: threshold_failure(p.models, rows, p.accuracy, width, realizable=p.realizable),
        lambda p, means, width, tape: threshold_choice(means, width, tape, realizable=p.realizable),
    ),
    "pair": Way(
        lambda p, rows: pair_width(rows, p.accuracy, p.beta),
        lambda p, rows, width: pair_rho(rows, width),
        lambda p, rows, width: pair_failure(rows, p.accuracy, width),
        lambda p, means, width, tape: pair_choice(means, width, tape),
    ),
}


ONLY_ONE = Way(
    lambda p, rows: 1.0,
    lambda p, rows, width: 0.0,
    lambda p, rows, width: 0.0,
    lambda p, means, width, tape: 0,
)


def ways_for(problem: ChoiceProblem) -> dict[str, Way]:
    """The ways that apply: the pair rule is for two models and does not use that one is perfect."""
    return {name: way for name, way in WAYS.items() if name != "pair" or problem.models == 2}


# E e^{|Z|√v}, and J for delayed clocks, are concave in v up to here.

_CONCAVE = 0.4
# (E e^{|Z|√v} − 1 − √(2v/π))/(v e^{v/2}) never exceeds this.
_BEND = 0.605
# Narrower than the solution by more than rounding could widen it.
_SAFE = 1.0 - 1e-12


def mean_exp_excess(variance: float) -> float:
    """E e^{|X|} − 1 for X normal with this variance.

    >>> round(mean_exp_excess(0.01), 6)
    0.085067
    """
    return 2.0 * math.exp(variance / 2.0) * float(ndtr(math.sqrt(variance))) - 1.0


def softmin_scale(models: int, rows: int, accuracy: float, beta: float, *, realizable: bool) -> float | None:
    """The largest scale at which a model worse than ``accuracy`` is chosen with probability ≤ ``beta``.

    None if no scale achieves it with so few rows.
    """
    odds = math.log(models - 1) + math.log1p(-beta) - math.log(beta)
    if odds <= 0.0:
        return math.inf
    if realizable:
        # (1 − α(1 − e^{−1/ns}))^n = e^{−odds}
        share = -math.expm1(-odds / rows) / accuracy
        return None if share >= 1.0 else -_SAFE / (rows * math.log1p(-share))
    inside = accuracy**2 - 2.0 * odds / rows
    if inside < 0.0:
        return None
    # The smaller root y = 1/s of y²/2n − αy + odds = 0, in a form that does not cancel.
    return _SAFE * (accuracy + math.sqrt(inside)) / (2.0 * odds)


def softmin_failure(models: int, rows: int, accuracy: float, scale: float, *, realizable: bool) -> float:
    """The probability that the chosen model is worse than the best by more than ``accuracy``, at most."""
    if realizable:
        exponent = rows * math.log1p(accuracy * math.expm1(-1.0 / (rows * scale)))
    else:
        exponent = 1.0 / (2.0 * rows * scale**2) - accuracy / scale
    bad = (models - 1) * math.exp(min(700.0, exponent))
    return rounding.probability(bad / (1.0 + bad))


def softmin_rho(models: int, rows: int, scale: float, *, realizable: bool) -> float:
    """The probability that two samples of this size choose different models, at most."""
    if math.isinf(scale):
        return 0.0
    excess = _realizable_excess if realizable else _agnostic_excess
    mean = excess(models, rows, scale)
    return rounding.probability(mean / (1.0 + mean)) if math.isfinite(mean) else 1.0


def _agnostic_excess(models: int, rows: int, scale: float) -> float:
    step = 1.0 / (rows * scale)
    if 1.0 / (rows * scale**2) + 8.0 * step**2 > _CONCAVE:
        return math.inf
    several = 1.0 - 1.0 / models
    second_moment = min(1.0, 0.5 + math.sqrt(math.log(models) / (2.0 * rows)))
    variance = second_moment / (2.0 * rows * scale**2 * several) + 8.0 * step**2
    return several * (mean_exp_excess(variance) + step / 60.0)


def _realizable_excess(models: int, rows: int, scale: float) -> float:
    step = 1.0 / (rows * scale)
    several = 1.0 - 1.0 / models
    # The largest mean loss, in scales, of a softmin over one perfect model and models − 1 others.
    level = float(lambertw((models - 1) / math.e).real)
    tilt = step / 2.0
    room = 1.0 - tilt - tilt * level
    if room <= 0.0:
        return math.inf
    tilted = (1.0 - tilt) / room
    first = math.sqrt(2.0 / math.pi * several * (level * step + 8.0 * several * step**2))
    second = _BEND * tilted**2 * level * step / (1.0 - tilt)
    return first + second + several * step / 60.0


# The delay times the number of models; within a few percent of the best for all sizes that were tried.
_DELAY = 0.05
_POWERS = np.concatenate((np.arange(10, 16) / 10.0, np.arange(7, 13) / 4.0, np.arange(4, 9)))
# ln((p − 1)^{p−1}/p^p), with 0⁰ = 1.
_BENDS = np.array([(p - 1) * math.log(p - 1) - p * math.log(p) if p > 1 else 0.0 for p in _POWERS])
_TIMES = np.concatenate(([0.0], np.geomspace(1e-4, 60.0, 1000)))
_CHANCES = np.exp(-_TIMES[:-1]) - np.exp(-_TIMES[1:])


def delayed_choice(means: Floats, scale: float, tape: Tape) -> int:
    """The model whose delayed clock, slowed by its loss, rings first."""
    exponentials = tape.branch("delayed").exponentials(len(means))
    return int(np.argmin(logarithm(_DELAY / len(means) + exponentials) + means / scale))


def delayed_scale(models: int, rows: int, accuracy: float, beta: float) -> float | None:
    """The largest scale at which a bad model is chosen with probability ≤ ``beta``, or None."""
    return widest(lambda scale: delayed_failure(models, rows, accuracy, scale), beta, accuracy)


def delayed_failure(models: int, rows: int, accuracy: float, scale: float) -> float:
    """The probability that the chosen model is worse than the best by more than ``accuracy``, at most."""
    delay = _DELAY / models
    logs = _BENDS + (1.0 - _POWERS) * math.log(delay) - _POWERS * accuracy / scale
    logs += _POWERS**2 / (2.0 * rows * scale**2) + math.log(models - 1)
    # It grows with the time at which the best model's clock rings: each cell takes the value at its end.
    best = np.min(logs[:, None] + _POWERS[:, None] * np.log(delay + _TIMES[1:]), axis=0)
    chances = -np.expm1(-np.exp(np.minimum(best, 700.0)))
    return rounding.probability(float(_CHANCES @ chances) + math.exp(-_TIMES[-1]))


def delayed_rho(models: int, rows: int, scale: float) -> float:
    """The probability that two samples of this size choose different models, at most."""
    step = 1.0 / (rows * scale)
    if 1.0 / (rows * scale**2) + 8.0 * step**2 > _CONCAVE:
        return 1.0
    second_moment = min(1.0, 0.5 + math.sqrt(math.log(models) / (2.0 * rows)))
    mean = mean_exp_excess(second_moment / (2.0 * rows * scale**2) + 8.0 * step**2) + step / 60.0
    inactive = _DELAY**2 / 4.0 * (1.0 + float(exp1(_DELAY / 4.0)))
    return rounding.probability(1.0 - math.exp(-(_DELAY + inactive * (1.0 + mean)) * mean) / (1.0 + mean))


# Up to here the binomial sums of scipy are good to 1e-12.
_BINOMIAL_ROWS = 10**6


def pair_choice(means: Floats, width: float, tape: Tape) -> int:
    """The second model if the first loses by more than a shared number, uniform on (−width, width)."""
    threshold = width * (2.0 * float(tape.branch("threshold").uniforms(1)[0]) - 1.0)
    return int(means[0] - means[1] > threshold)


def pair_failure(rows: int, accuracy: float, width: float) -> float:
    """The probability that the chosen model is worse than the other by more than ``accuracy``, at most."""
    # E(width − D)₊/2width, where D is the mean of differences in [−1, 1] and has a mean above ``accuracy``.
    if rows <= _BINOMIAL_ROWS:
        # Hoeffding's convex order: the worst differences are ±1, and D is binomial.
        share, level = (1.0 + accuracy) / 2.0, rows * (1.0 + width) / 2.0
        whole = math.floor(level)
        below = level * bdtr(whole, rows, share) - rows * share * bdtr(whole - 1, rows - 1, share)
        mean = 2.0 * (float(below) / rows + 1e-12)  # the two sums nearly cancel
    else:
        distance = accuracy - width
        tail = math.sqrt(2.0 * math.pi / rows) * float(ndtr(-max(distance, 0.0) * math.sqrt(rows)))
        mean = max(0.0, -distance) + tail
    return rounding.probability(mean / (2.0 * width))


def pair_width(rows: int, accuracy: float, beta: float) -> float | None:
    """The widest range with which the worse model is chosen with probability ≤ ``beta``, or None."""
    wide = accuracy / max(1e-3, 1.0 - 2.0 * beta)
    return widest(lambda width: pair_failure(rows, accuracy, width), beta, wide)


def pair_rho(rows: int, width: float) -> float:
    """The probability that two samples of this size choose different models, at most."""
    # C(2n, n)/(4ⁿ width), and C(2n, n)/4ⁿ < 1/√(π(n + ¼)).
    return rounding.probability(1.0 / (math.sqrt(math.pi * (rows + 0.25)) * width))


_CELLS = 512
# Up to here the harmonic number is summed term by term.
_SUMMED = 100


def threshold_choice(means: Floats, width: float, tape: Tape, *, realizable: bool) -> int:
    """The first model in the tape's order with a mean loss up to the threshold.

    The threshold is the first point, at or above the least mean loss, of a grid of ``width`` with a shared
    offset; in the realizable setting it is ``width`` times the square of a shared uniform number.
    """
    uniform = float(tape.branch("threshold").uniforms(1)[0])
    if realizable:
        threshold = width * uniform**2
    else:
        threshold = (math.ceil(float(means.min()) / width - uniform) + uniform) * width
    small = means <= max(threshold, float(means.min()))
    return int(np.argmin(np.where(small, tape.branch("order").uniforms(len(means)), np.inf)))


def threshold_width(
    models: int, rows: int, accuracy: float, beta: float, *, realizable: bool
) -> float | None:
    """The widest range of thresholds at which a bad model is chosen with probability ≤ ``beta``, or None."""
    return widest(
        lambda width: threshold_failure(models, rows, accuracy, width, realizable=realizable),
        beta,
        accuracy / (1.0 - beta) ** 2,
    )


def threshold_failure(models: int, rows: int, accuracy: float, width: float, *, realizable: bool) -> float:
    """The probability that the chosen model is worse than the best by more than ``accuracy``, at most."""
    if realizable:
        return _realizable_failure(models, rows, accuracy, width)
    distance = accuracy - width
    typical = math.sqrt(2.0 * math.log(models - 1) / rows)
    tail = (models - 1) * math.sqrt(2.0 * math.pi / rows)
    tail *= float(ndtr(-max(distance, typical) * math.sqrt(rows)))
    return rounding.probability((max(0.0, typical - distance) + tail) / width)


def _realizable_failure(models: int, rows: int, accuracy: float, width: float) -> float:
    # The failure grows with the threshold, so the value at the right end of each cell bounds the mean.
    thresholds = np.minimum(width * (np.arange(1, _CELLS + 1) / _CELLS) ** 2, accuracy)
    divergence = rel_entr(thresholds, accuracy) + rel_entr(1.0 - thresholds, 1.0 - accuracy)
    chances = np.minimum(1.0, (models - 1) * np.exp(-rows * np.maximum(divergence, 0.0)))
    return rounding.probability(float(chances.mean()))


def harmonic_number(models: int) -> float:
    """1 + 1/2 + … + 1/models, rounded up; beyond a hundred from Euler and Maclaurin, without a loop.

    The series ln m + γ + 1/2m − 1/12m² + 1/120m⁴ alternates from there on, so it is above the sum, by less
    than 1/252m⁶.

    >>> round(harmonic_number(10**9), 6)
    21.300482
    """
    if models <= _SUMMED:
        return rounding.up(math.fsum(1.0 / place for place in range(1, models + 1)))
    inverse = 1.0 / models
    correction = inverse / 2.0 - inverse**2 / 12.0 + inverse**4 / 120.0
    return rounding.up(math.log(models) + float(np.euler_gamma) + correction)


def threshold_rho(models: int, rows: int, width: float, *, realizable: bool) -> float:
    """The probability that two samples of this size choose different models, at most."""
    harmonic = harmonic_number(models)
    crossing = math.sqrt(2.0 * harmonic * (harmonic * math.log(2.0) + math.log(models) + 1.0))
    if realizable:
        return rounding.probability((harmonic / 2.0 + crossing) / math.sqrt(2.0 * rows * width))
    second_moment = min(1.0, 0.5 + math.sqrt(math.log(models) / (2.0 * rows)))
    deviation = math.sqrt(second_moment / (4.0 * rows))
    mean_size = math.sqrt(2.0 / math.pi * (deviation**2 + 2.0 / rows**2)) + 1.0 / (120.0 * rows)
    return rounding.probability((harmonic * mean_size + crossing * deviation) / width)


def widest(failure: Callable[[float], float], beta: float, widest_of_all: float) -> float | None:
    """The largest width up to ``widest_of_all`` at which ``failure(width) <= beta``; None if none is found.

    A failure bound falls and then rises with the width, so the search starts from the wide end.
    """

    def room(width: float) -> float:
        return beta - failure(width)

    above, at_above = widest_of_all, room(widest_of_all)
    if at_above >= 0.0:
        return above
    for _ in range(30):
        below, at_below = 0.8 * above, room(0.8 * above)
        if at_below >= 0.0:
            return search.safe_root(room, below, above, at_below, at_above, narrow=1e-12 * above)
        above, at_above = below, at_below
    return None
