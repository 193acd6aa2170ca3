"""Paired gains: is the mean of candidate − incumbent above a number, and by how many steps?

Two tests of a fixed claim, both at an error probability exp(−nats):

- The *sign test*, for scores that are 0 or 1 and the claim "better at all". Given the tasks on which the two
  scores differ, the number of wins is binomial. Its share is at most ½ unless the candidate is better.
- The *product*, for everything else. With y = difference − a and rates λ that are fixed in advance, the
  average over the rates of Π(1 + λy) has expectation at most 1 if the mean is at most a. The rest is Markov's
  inequality. The product is valid for fractions, repeats and clusters, where a sign test is wrong.

Proofs: ``docs/theory/gate.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from holdfast import checks, search
from holdfast.errors import InvalidArgument
from holdfast.intervals._interval import Interval, bounds, numbers
from holdfast.intervals._shares import binomial_log_tail

Floats = NDArray[np.float64]

# Rates as shares of the largest that keeps every factor positive, with their weights, which sum to 1.
# "Better at all": most of the weight bets on four tasks fixed for one broken. Other ratios cost up to 3.5
# nats more, so a gain that is spread over many tasks is still seen.
_BETTER_AT_ALL = {0.06: 0.04, 0.12: 0.03, 0.2: 0.025, 0.3: 0.025, 0.4: 0.01, 0.6: 0.84, 0.95: 0.03}
# Anything else (margins, minimum effects, intervals): no ratio is preferred, and each costs about 2 nats.
_ANY = {0.02: 0.12, 0.06: 0.18, 0.12: 0.16, 0.2: 0.12, 0.32: 0.12, 0.5: 0.1, 0.7: 0.1, 0.95: 0.1}

# More than the rounding error of a sum of logarithms, relative to the sizes of its terms.
_ROUNDING = 1e-12
_NEAR = 1e-9
_LN2 = math.log(2.0)


@dataclass(frozen=True)
class _Units:
    """Independent units: the distinct pairs of sum and size among them, and how often each occurs."""

    sums: Floats
    sizes: Floats
    counts: Floats

    @classmethod
    def of(cls, sums: Floats, sizes: Floats | None) -> _Units:
        weights = np.ones_like(sums) if sizes is None else sizes
        pairs, counts = np.unique(np.stack([sums, weights], axis=1), axis=0, return_counts=True)
        return cls(pairs[:, 0], pairs[:, 1], counts.astype(np.float64))

    @property
    def mirrored(self) -> _Units:
        return _Units(-self.sums, self.sizes, self.counts)

    @property
    def mean(self) -> float:
        return float(self.counts @ self.sums / (self.counts @ self.sizes))

    def log_evidence(self, a: float, least: float, weights: dict[float, float]) -> float:
        """A lower bound on the logarithm of the evidence that the mean is above ``a``, if no value is below
        ``least``. It falls in ``a``."""
        scale = (a - least) * float(self.sizes.max())
        if not scale > 0:
            return math.inf
        y = (self.sums - a * self.sizes) / scale
        logs = []
        for share, weight in weights.items():
            terms = self.counts * np.log1p(np.maximum(share * y, -share))
            logs.append(math.log(weight) + float(terms.sum()) - _ROUNDING * (1 + float(np.abs(terms).sum())))
        largest = max(logs)
        return largest + math.log(math.fsum(math.exp(log - largest) for log in logs)) - _ROUNDING


def sign_test(wins: int, losses: int, nats: float) -> bool:
    """Whether ``wins`` against ``losses`` show that a win is likelier than a loss.

    Guarantee: if a win is not likelier, the answer is True with probability at most exp(−nats), given the
    number of wins and losses together. The test is exact: P(Bin(wins + losses, ½) ≥ wins) ≤ exp(−nats).
    Assumes: tasks are independent draws, and a task is won, lost or neither (not checkable).
    Reference: ``docs/theory/gate.md``, "Zero or one: the sign test".

    Args:
        wins: tasks that only the candidate solved.
        losses: tasks that only the incumbent solved.
        nats: ln(1/δ), where δ is the error probability.

    >>> sign_test(12, 3, 3.7), sign_test(8, 2, 3.7)
    (True, False)
    """
    of = "sign_test"
    wins = checks.whole(wins, "wins", at_least=0, of=of)
    losses = checks.whole(losses, "losses", at_least=0, of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    if not wins > losses:
        return False
    return bool(binomial_log_tail(losses, wins + losses, 0.5, 0.5, nats) <= -nats)


def gain_steps(
    differences: ArrayLike,
    *,
    nats: float,
    step: float,
    least: float = 0.0,
    sizes: ArrayLike | None = None,
    binary: bool = False,
) -> int | None:
    """How many steps above ``least`` the mean of ``differences`` is shown to be. None if it is not shown to
    be above ``least`` at all.

    The claims "above least", "above least + step", "above least + 2 steps", … are tested in this order, each
    at the same error probability, up to the first that is not shown.

    Guarantee: with probability at least 1 − exp(−nats) the mean is above least + steps · step, or the result
    is None. With ``sizes`` the mean is the expectation of all differences over the number of tasks, for units
    of these sizes.
    Assumes: units are independent; with ``binary`` they are also identically distributed and no difference
    other than −1, 0 and 1 is possible (the sample is checked, the population cannot be).
    Reference: ``docs/theory/gate.md``, "Steps".

    Args:
        differences: one number for each unit: the difference on a task, in [−1, 1], or the sum of the
            differences of a cluster, in [−size, size].
        nats: ln(1/δ), where δ is the error probability of the result.
        step: the width of a step, in (0, 1].
        least: the smallest gain that counts, in [0, 1).
        sizes: how many tasks each unit has; None where each is one task.
        binary: whether every score is 0 or 1. Then "above 0" is decided by the exact sign test.

    >>> differences = [1] * 36 + [-1] * 9 + [0] * 955
    >>> gain_steps(differences, nats=3.7, step=0.005, binary=True)
    1
    """
    of = "gain_steps"
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    step = checks.real(step, "step", "(0, 1]", of=of)
    least = checks.real(least, "least", "[0, 1)", of=of)
    sums, weights = _checked(differences, sizes, binary, of=of)
    units = _Units.of(sums, weights)
    if binary and least == 0:
        better = sign_test(int((sums == 1).sum()), int((sums == -1).sum()), nats)
    else:
        better = units.log_evidence(least, -1.0, _BETTER_AT_ALL if least == 0 else _ANY) >= nats
    if not better:
        return None
    # Evidence falls in the claimed mean, so the claims that are shown are the first ones.
    most = math.ceil((1.0 - least) / step)
    not_shown = search.least_whole(
        lambda steps: not units.log_evidence(least + steps * step, -1.0, _ANY) >= nats, most=most
    )
    return most if not_shown is None else not_shown - 1


def units_needed(nats: float, *, least: float = 0.0, binary: bool = True) -> int:
    """The least number of units, all of the same size, on which a candidate that gains 1 on each of them is
    shown to gain more than ``least``.

    Guarantee: exact; with fewer units :func:`gain_steps` returns None whatever the differences are.
    Assumes: nothing; it is arithmetic.
    Reference: ``docs/theory/gate.md``, "Power".

    Args:
        nats: ln(1/δ), where δ is the error probability.
        least: the smallest gain that counts, in [0, 1).
        binary: as for :func:`gain_steps`.

    >>> units_needed(3.7), units_needed(3.7, binary=False), units_needed(3.7, least=0.9)
    (6, 8, 117)
    """
    of = "units_needed"
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    least = checks.real(least, "least", "[0, 1)", of=of)

    def enough(units: int) -> bool:
        if binary and least == 0:
            return sign_test(units, 0, nats)
        counts = np.array([units], dtype=np.float64)
        weights = _BETTER_AT_ALL if least == 0 else _ANY
        return bool(_Units(np.ones(1), np.ones(1), counts).log_evidence(least, -1.0, weights) >= nats)

    units = search.least_whole(enough)
    assert units is not None
    return units


def certified_gain(
    tasks: int,
    nats: float,
    *,
    baseline: float = 0.0,
    ratio: float = 4,
    binary: bool = True,
    least: float = 0.0,
) -> float:
    """The smallest observed gain that is shown at this error probability, if ``ratio`` tasks are fixed for
    each that is broken; infinity where the tasks are too few.

    Guarantee: exact for the sign test, and for the product if every difference is −1, 0 or 1.
    Assumes: nothing; it is arithmetic.
    Reference: ``docs/theory/gate.md``, "Power".

    Args:
        tasks: how many tasks there are.
        nats: ln(1/δ), where δ is the error probability.
        baseline: the incumbent's score. It limits how many tasks can be fixed.
        ratio: tasks fixed for each task that is broken.
        binary: True for the sign test, False for the product.
        least: the smallest gain that counts, in [0, 1). Above 0 the product decides.

    >>> round(certified_gain(300, 3.7, baseline=0.7), 3), certified_gain(100, 9.3, baseline=0.7)
    (0.03, inf)
    >>> round(certified_gain(300, 3.7, baseline=0.7, least=0.05), 3)
    0.14
    """
    of = "certified_gain"
    tasks = checks.whole(tasks, "tasks", of=of)
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    baseline = checks.real(baseline, "baseline", "[0, 1]", of=of)
    ratio = checks.whole(ratio, "ratio", at_least=2, of=of)
    least = checks.real(least, "least", "[0, 1)", of=of)
    weights = _BETTER_AT_ALL if least == 0 else _ANY

    def shown(broken: int) -> bool:
        if binary and least == 0:
            return sign_test(ratio * broken, broken, nats)
        counts = np.array([ratio * broken, broken, tasks - (ratio + 1) * broken], dtype=np.float64)
        units = _Units(np.array([1.0, -1.0, 0.0]), np.ones(3), counts)
        return bool(units.log_evidence(least, -1.0, weights) >= nats)

    # A task that the incumbent solves cannot be fixed.
    most = min(int((1 - baseline) * tasks + 1e-9) // ratio, tasks // (ratio + 1))
    fewest = search.least_whole(shown, start=most, most=most) if most >= 1 else None
    return math.inf if fewest is None else float((ratio - 1) * fewest / tasks)


def mean_interval(
    values: ArrayLike, nats: float, *, lo: float = 0.0, hi: float = 1.0, sizes: ArrayLike | None = None
) -> Interval:
    """An interval for the mean of values in [lo, hi] over independent units. It needs no other rows to learn
    rates from.

    Guarantee: holds with probability at least 1 − exp(−nats), for a mean that was fixed in advance. With
    ``sizes`` it is the expected total over the number of tasks, for units of these sizes.
    Assumes: units are independent, values are in [lo, hi] (checked).
    Reference: ``docs/theory/gate.md``, "The product".

    Args:
        values: one number for each unit: a value in [lo, hi], or the sum of a cluster's values.
        nats: ln(1/δ), where δ is the error probability, both ends together.
        lo: the smallest possible value of a task.
        hi: the largest possible value of a task.
        sizes: how many tasks each unit has; None where each is one task.

    >>> mean_interval([0.2, 0.3, 0.25, 0.2, 0.3] * 80, 3.0)
    Interval(low=0.242891, high=0.262313)
    """
    of = "mean_interval"
    nats = checks.real(nats, "nats", "[0, inf)", of=of)
    lo, hi = bounds(lo, hi, of=of)
    sums, weights = _checked(values, sizes, False, lo=lo, hi=hi, argument="values", of=of)
    units = _Units.of(sums, weights)
    low = _lower_end(units, lo, nats + _LN2)
    high = -_lower_end(units.mirrored, -hi, nats + _LN2)
    return Interval(max(lo, low), min(hi, high))


def _lower_end(units: _Units, least: float, level: float) -> float:
    """The largest number, up to a small part of the range, with evidence of ``level`` that the mean is above
    it; ``least`` if there is none."""
    mean = units.mean
    if not mean > least:
        return least
    return search.edge(
        lambda claim: units.log_evidence(claim, least, _ANY) >= level,
        least,
        mean,
        relative=0.0,
        absolute=_NEAR * (mean - least),
    )


def _checked(
    differences: Any,
    sizes: Any,
    binary: bool,
    *,
    of: str,
    lo: float = -1.0,
    hi: float = 1.0,
    argument: str = "differences",
) -> tuple[Floats, Floats | None]:
    sums = numbers(differences, argument, of=of).astype(np.float64, copy=False)
    if sums.size == 0:
        raise InvalidArgument(argument, "at least one number", differences, of=of)
    weights = np.ones(1)
    if sizes is not None:
        weights = numbers(sizes, "sizes", of=of).astype(np.float64, copy=False)
        if weights.shape != sums.shape or not (weights > 0).all():
            raise InvalidArgument("sizes", f"one positive number for each of the {argument}", sizes, of=of)
        if binary:
            raise InvalidArgument("binary", "False where sizes are given", binary, of=of)
    slack = 1e-9 * max(abs(lo), abs(hi)) * weights  # Sums of fractions are rounded.
    if not ((sums >= lo * weights - slack) & (sums <= hi * weights + slack)).all():
        raise InvalidArgument(argument, f"numbers in [{lo:g}, {hi:g}] for each task", differences, of=of)
    if binary and not np.isin(sums, (-1.0, 0.0, 1.0)).all():
        raise InvalidArgument(argument, "-1, 0 or 1 each, for scores of 0 and 1", differences, of=of)
    return sums, None if sizes is None else weights
