"""The fingerprint that accuracy leaves: how an estimate leans towards its own rows (SIS 5.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.intervals import clopper_pearson
from holdfast.records import Record

__all__ = ["ExactFingerprint", "Fingerprint", "exact_fingerprint", "fingerprint"]

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int8]
Estimator = Callable[[Signs], Any]

_BY = "SIS Lemma 5.4"
# Enumeration visits 2^(rows·d) tables.
_MOST_CELLS = 20


@dataclass(frozen=True, repr=False, eq=False)
class Fingerprint(Record):
    """What an estimator's outputs say about the rows they came from, over ``trials`` draws of means and rows.

    ``correlation`` is the average of Z = Σ_j A_j(S) Σ_i (S_ij − p_j), ``fresh`` that of Z', where the rows of
    S in the second sum are replaced by fresh ones; ``error`` is the average of ‖A(S) − p‖², ``size`` of
    ‖A(S)‖². The statistics of each trial are kept. ``inside`` and ``outside`` are ⟨A(S) − p, x − p⟩ for a row
    x of S and for a fresh one, one of each in a trial.

    Guarantee: E Z = 2 E⟨p, A(S)⟩ = d/3 + E‖A(S)‖² − E‖A(S) − p‖² and E Z' = 0, whatever the estimator.
    Assumes: means drawn uniformly from [−1, 1], columns independent: ``fingerprint`` draws them so.
    Reference: SIS Lemmas 5.4 and 5.10 (Bun, Steinke and Ullman 2019).

    Args:
        rows: How many rows there are.
        d: How many columns there are.
        statistic: Z in each trial.
        fresh_statistic: Z' in each trial.
        expected: 2⟨p, A(S)⟩ in each trial.
    """

    rows: int
    d: int
    trials: int
    correlation: float
    fresh: float
    error: float
    size: float
    statistic: Floats = field(repr=False)
    fresh_statistic: Floats = field(repr=False)
    expected: Floats = field(repr=False)
    inside: Floats = field(repr=False)
    outside: Floats = field(repr=False)

    def interval(self, confidence: float = 0.99, *, of: str = "correlation") -> tuple[float, float]:
        """Student's interval for E Z, for E Z' ("fresh"), or for E Z − 2E⟨p, A(S)⟩ ("identity").

        Guarantee: asymptotic in the number of trials.
        Assumes: independent trials, as ``fingerprint`` draws them.
        Reference: Student 1908.

        Args:
            confidence: With this probability the interval contains the mean.
        """
        confidence = checks.real(confidence, "confidence", "(0, 1)", of="Fingerprint.interval")
        checks.choice(of, "of", ("correlation", "fresh", "identity"), of="Fingerprint.interval")
        values = {
            "correlation": self.statistic,
            "fresh": self.fresh_statistic,
            "identity": self.statistic - self.expected,
        }[of]
        centre = float(values.mean())
        reach = float(values.std(ddof=1)) / math.sqrt(self.trials)
        reach *= float(special.stdtrit(self.trials - 1, 0.5 + confidence / 2.0))
        return centre - reach, centre + reach

    def traced(self, delta: float = 0.0, *, confidence: float = 0.99) -> float:
        """A lower confidence limit on the ε of any (ε, ``delta``)-DP statement about the estimator.

        Guarantee: with this confidence over the trials, an estimator that is (ε, δ)-DP when one row is
        replaced has ε at least this; 0 if nothing is found. Half of the trials choose the threshold on the
        score, the other half count: ln((P̲(inside > t) − δ)/P̄(outside > t)), exact binomial limits.
        Assumes: an estimator that draws fresh coins in every trial (not checkable).
        Reference: Dwork, Smith, Steinke, Ullman and Vadhan 2015 (robust traceability).
        """
        of = "Fingerprint.traced"
        delta = checks.real(delta, "delta", "[0, 1)", of=of)
        confidence = checks.real(confidence, "confidence", "(0, 1)", of=of)
        half = self.trials // 2
        threshold = _best_threshold(self.inside[:half], self.outside[:half], delta)
        nats = -math.log((1.0 - confidence) / 2.0)
        # One-sided limits at half the error each: a two-sided interval at twice that level has the same ends.
        counted = self.trials - half
        low = clopper_pearson(int((self.inside[half:] > threshold).sum()), counted, nats - math.log(2.0)).low
        high = clopper_pearson(
            int((self.outside[half:] > threshold).sum()), counted, nats - math.log(2.0)
        ).high
        return max(0.0, rounding.down(math.log((low - delta) / high))) if low - delta > high else 0.0


@dataclass(frozen=True, repr=False)
class ExactFingerprint(Record):
    """The expectations of ``Fingerprint`` as fractions, and the variance of Z'.

    Args:
        rows: How many rows there are.
        d: How many columns there are.
        correlation: E Z.
        expected: 2 E⟨p, A(S)⟩, which E Z equals.
        error: E‖A(S) − p‖².
        size: E‖A(S)‖².
        distance: The expected distance of the output from the column means, summed over columns.
        fresh_variance: The variance of Z'.
    """

    rows: int
    d: int
    correlation: Fraction
    expected: Fraction
    error: Fraction
    size: Fraction
    distance: Fraction
    fresh_variance: Fraction


def fingerprint(
    estimator: Estimator, *, rows: int, d: int, trials: int, seed: int, batch: bool = False
) -> Fingerprint:
    """Measure Z and Z' of an estimator of ``d`` marginals from ``rows`` rows of signs.

    In each trial d means are drawn uniformly from [−1, 1], then a sample and a fresh one; the estimator sees
    the first, an array of −1 and 1 of shape (rows, d), and returns d numbers. With ``batch=True`` it sees all
    trials at once, (trials, rows, d), and returns (trials, d).

    Guarantee: see ``Fingerprint``. An estimator whose E Z is far above what E‖A − p‖² explains does not
    exist: the lean is the price of accuracy, and stability bounds it.
    Assumes: an estimator that does not look at the means.
    Reference: SIS Section 5.1.1 (whose Z' is printed with the fresh rows in both places, and then has Z's
    law).

    Args:
        estimator: A function from rows of +1 and −1 to an estimate of each mean.
        trials: How often to try.
        seed: The seed of the simulation.

    >>> mean = fingerprint(lambda s: s.mean(1), rows=20, d=50, trials=400, seed=1, batch=True)
    >>> low, high = mean.interval()
    >>> low < 2 * 50 / 3 < high
    True
    """
    of = "fingerprint"
    rows = checks.whole(rows, "rows", of=of, by=_BY)
    d = checks.whole(d, "d", of=of, by=_BY)
    trials = checks.whole(trials, "trials", at_least=2, of=of)
    rng = np.random.default_rng(checks.whole(seed, "seed", at_least=0, of=of))
    kept = [np.empty(trials) for _ in range(7)]
    step = trials if batch else 1
    for start in range(0, trials, step):
        means = rng.uniform(-1.0, 1.0, size=(step, d))
        sample = _signs(rng, means, rows)
        output = _output(estimator(sample if batch else sample[0]), (step, d))
        # Of the fresh rows only their sum and one row are used: counts stand for the rest.
        fresh_row = _signs(rng, means, 1)[:, 0, :]
        others = 2.0 * rng.binomial(rows - 1, (1.0 + means) / 2.0) - (rows - 1)
        away, centred = sample.sum(axis=1) - rows * means, output - means
        statistics = (
            (output * away).sum(axis=1),
            (output * (fresh_row + others - rows * means)).sum(axis=1),
            2.0 * (output * means).sum(axis=1),
            (centred * (sample[:, 0, :] - means)).sum(axis=1),
            (centred * (fresh_row - means)).sum(axis=1),
            (centred * centred).sum(axis=1),
            (output * output).sum(axis=1),
        )
        for column, values in zip(kept, statistics, strict=True):
            column[start : start + step] = values
    z, fresh, expected, inside, outside, error, size = kept
    return Fingerprint(
        rows=rows,
        d=d,
        trials=trials,
        correlation=float(z.mean()),
        fresh=float(fresh.mean()),
        error=float(error.mean()),
        size=float(size.mean()),
        statistic=z,
        fresh_statistic=fresh,
        expected=expected,
        inside=inside,
        outside=outside,
    )


def exact_fingerprint(estimator: Estimator, *, rows: int, d: int) -> ExactFingerprint:
    """The same expectations for a deterministic estimator, exactly, by visiting every table of signs.

    Guarantee: fractions without rounding; the estimator's outputs are taken as the numbers they are.
    ``distance`` is E Σ_j |A_j − mean of column j|.
    Assumes: rows·d at most 20.
    Reference: SIS Lemmas 5.4 and 5.10. Under a uniform mean a column with k ones among n has probability
    1/((n+1)C(n,k)), and given it E p = (2k − n)/(n + 2) and E Σ(x_i − p) = 2E p.

    Args:
        estimator: A function from rows of +1 and −1 to an estimate of each mean.
        rows: How many rows there are.
        d: How many columns there are.

    >>> mean = exact_fingerprint(lambda s: [Fraction(int(x.sum()), 3) for x in s.T], rows=3, d=2)
    >>> mean.correlation, mean.correlation + 2 * mean.distance
    (Fraction(4, 3), Fraction(4, 3))
    """
    of = "exact_fingerprint"
    rows = checks.whole(rows, "rows", of=of, by=_BY)
    d = checks.whole(d, "d", at_most=_MOST_CELLS // rows, of=of, by=_BY)
    columns = [np.array(column, dtype=np.int8) for column in product((-1, 1), repeat=rows)]
    sums = [int(column.sum()) for column in columns]
    weights = [Fraction(1, (rows + 1) * math.comb(rows, (rows + s) // 2)) for s in sums]
    means = [Fraction(s, rows + 2) for s in sums]
    # E p² given k ones: the second moment of 2B − 1 for a Beta variable B.
    squares = [Fraction(s * s + rows + 2, (rows + 2) * (rows + 3)) for s in sums]
    total = dict.fromkeys(("correlation", "expected", "error", "size", "distance", "fresh"), Fraction(0))
    for chosen in product(range(len(columns)), repeat=d):
        weight = math.prod(weights[c] for c in chosen)
        values = estimator(np.stack([columns[c] for c in chosen], axis=1))
        for c, value in zip(chosen, values, strict=True):
            a = value if isinstance(value, Fraction) else Fraction(float(value))
            total["correlation"] += weight * a * (sums[c] - rows * means[c])
            total["expected"] += weight * 2 * a * means[c]
            total["error"] += weight * (a * a - 2 * a * means[c] + squares[c])
            total["size"] += weight * a * a
            total["distance"] += weight * abs(a - Fraction(sums[c], rows))
            total["fresh"] += weight * a * a * rows * (1 - squares[c])
    fresh = total.pop("fresh")
    return ExactFingerprint(rows=rows, d=d, fresh_variance=fresh, **total)


def _signs(rng: np.random.Generator, means: Floats, rows: int) -> Signs:
    trials, d = means.shape
    below = rng.random((trials, rows, d), dtype=np.float32) < ((1.0 + means) / 2.0)[:, None, :]
    return (2 * below.astype(np.int8) - 1).astype(np.int8)


def _output(values: Any, shape: tuple[int, int]) -> Floats:
    output = np.asarray(values, dtype=np.float64)
    if output.size != shape[0] * shape[1] or not np.isfinite(output).all():
        raise InvalidArgument(
            "estimator",
            f"a function that returns {shape[1]} finite numbers for each sample",
            output.shape,
            of="fingerprint",
        )
    return output.reshape(shape)


def _best_threshold(inside: Floats, outside: Floats, delta: float) -> float:
    """The score above which rows of the sample are most over-represented."""
    thresholds = np.quantile(inside, np.linspace(0.05, 0.95, 37))
    hits = (inside[:, None] > thresholds).mean(axis=0)
    # A few counts are added, so that an empty tail does not look certain.
    false = ((outside[:, None] > thresholds).sum(axis=0) + 3.0) / (len(outside) + 3.0)
    return float(thresholds[int(np.argmax((hits - delta) / false))])
