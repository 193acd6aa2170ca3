"""Replicable quantiles: a binary search in an ordered domain, with a shared random threshold for each
comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._design import (
    Band,
    Result,
    bounds_argument,
    promise_arguments,
    smallest_design,
    values_argument,
)
from holdfast.replicable._rounding import band_end, chernoff, share_gap
from holdfast.replicable._tape import Floats, Tape, tape_argument

__all__ = ["Domain", "domain_argument", "median", "median_rows", "quantile", "quantile_rows"]


_BY = "docs/theory/replicability.md, quantiles"
_FINEST = 2.0**-40


def quantile(
    x: npt.ArrayLike,
    q: float,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Sequence[float] | None = None,
    resolution: float | None = None,
    domain: npt.ArrayLike | None = None,
    best_effort: bool = False,
) -> Result[float]:
    """A ``q``-quantile up to ``accuracy`` in rank, the same value from two samples with probability 1 − ρ.

    Guarantee: two samples and one tape give different values with probability at most ρ. The value v has
    P(X ≤ v) ≥ q − accuracy and P(X < v) ≤ q + accuracy, except with probability β. Both hold for every
    distribution, with ties or without.
    Assumes: independent rows of one distribution. Values are first moved to the domain: to the nearest of
    the numbers ``resolution`` apart within ``bounds``, or the next of the values listed in ``domain``;
    without either the domain is every float, and the size is that of 64 comparisons.
    Reference: Holdfast, replicability; the problem is that of Impagliazzo, Lei, Pitassi and Sorrell 2022.

    Args:
        x: The rows, one value each.
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> grades = [i % 21 / 2 for i in range(50_000)]
    >>> promise = {"accuracy": 0.1, "rho": 0.1, "beta": 0.01, "bounds": (0, 10), "resolution": 0.5}
    >>> float(quantile(grades, 0.5, tape=Tape("study-7"), **promise))
    5.5
    """
    return _quantile(
        "quantile", x, q, (accuracy, rho, beta), tape, (domain, bounds, resolution), best_effort=best_effort
    )


def median(
    x: npt.ArrayLike,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    tape: Tape,
    bounds: Sequence[float] | None = None,
    resolution: float | None = None,
    domain: npt.ArrayLike | None = None,
    best_effort: bool = False,
) -> Result[float]:
    """The :func:`quantile` at ½.

    Guarantee: as :func:`quantile`.
    Assumes: as :func:`quantile`.
    Reference: Holdfast, replicability.

    Args:
        x: The rows, one value each.
        accuracy: How far from the truth the result may be.
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        bounds: The least and the largest value of the domain.
        resolution: How far apart its values are.
        domain: The values of the domain, in increasing order.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> float(median([1, 2, 2, 3] * 5000, accuracy=0.2, rho=0.1, beta=0.01, tape=Tape(7), domain=[1, 2, 3]))
    2.0
    """
    return _quantile(
        "median", x, 0.5, (accuracy, rho, beta), tape, (domain, bounds, resolution), best_effort=best_effort
    )


def quantile_rows(
    q: float,
    *,
    accuracy: float,
    rho: float,
    beta: float,
    bounds: Sequence[float] | None = None,
    resolution: float | None = None,
    domain: npt.ArrayLike | None = None,
) -> int:
    """The rows that :func:`quantile` needs.

    Guarantee: the least n for which thresholds drawn from a band [a, b] about q keep both promises: the
    search asks L questions, so L·E|F1 − F2|/(b − a) ≤ ρ; and exp(−n kl(b ‖ q+α)) + exp(−n kl(a ‖ q−α)) ≤ β.
    Assumes: as :func:`quantile`.
    Reference: Holdfast, replicability.

    >>> quantile_rows(0.5, accuracy=0.05, rho=0.1, beta=0.01, bounds=(0, 100), resolution=0.1)
    355914
    """
    of = "sample_size of quantile"
    places = domain_argument(domain, bounds, resolution, of=of, by=_BY)
    return _design(*_promise(q, accuracy, rho, beta, of=of), places.questions).rows


def median_rows(
    *,
    accuracy: float,
    rho: float,
    beta: float,
    bounds: Sequence[float] | None = None,
    resolution: float | None = None,
    domain: npt.ArrayLike | None = None,
) -> int:
    """The rows that :func:`median` needs: those of the quantile at ½.

    Guarantee: as :func:`quantile_rows`.
    Assumes: as :func:`quantile`.
    Reference: Holdfast, replicability.

    >>> median_rows(accuracy=0.2, rho=0.1, beta=0.01, domain=[1, 2, 3])
    1279
    """
    return quantile_rows(
        0.5, accuracy=accuracy, rho=rho, beta=beta, bounds=bounds, resolution=resolution, domain=domain
    )


@dataclass(frozen=True)
class QuantileDesign(Band):
    """The band of the shares that comparisons are made with, for a search with this many ``questions``."""

    q: float
    questions: int

    def mismatch(self, rows: int) -> float:
        spread = max(p * (1.0 - p) for p in (self.low, self.high, min(max(0.5, self.low), self.high)))
        return rounding.probability(self.questions * share_gap(rows, spread) / (self.high - self.low))

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        most, least = self.q + self.accuracy, self.q - self.accuracy
        above = chernoff(rows, self.high, most) if most < 1.0 else 0.0
        below = chernoff(rows, self.low, least) if least > 0.0 else 0.0
        return rounding.probability(above + below)


def _quantile(
    name: str,
    x: Any,
    q: Any,
    promise: tuple[Any, Any, Any],
    tape: Any,
    domain: tuple[Any, Any, Any],
    *,
    best_effort: bool,
) -> Result[float]:
    tape = tape_argument(tape, of=name)
    places = domain_argument(*domain, of=name, by=_BY)
    values = values_argument(x, -math.inf, math.inf, of=name, by=_BY)
    if not np.isfinite(values).all():
        raise InvalidArgument("x", "a sequence of finite numbers", x, of=name, reference=_BY)
    design = _design(*_promise(q, *promise, of=name), places.questions)
    kept_design = design.kept_by(values.size, best_effort=best_effort, what=f"A {name} with this promise")
    thresholds = design.cutoffs(tape.branch("quantile").uniforms(design.questions))
    value = places.value(_search(places, places.places(values), thresholds))
    details = {
        "q": design.q,
        "questions": design.questions,
        "needed": design.rows,
        "places": places.count,
    }
    return kept_design.result(value, tape, details)


def _search(domain: Domain, sorted_places: npt.NDArray[np.int64], thresholds: Floats) -> int:
    """The place where the comparisons lead; each looks at the share of rows at or below the middle."""
    low, high = 0, domain.count - 1
    for threshold in thresholds.tolist():
        if low == high:
            break
        middle = (low + high) // 2
        below = int(np.searchsorted(sorted_places, domain.key(middle), side="right"))
        if below / sorted_places.size >= threshold:
            high = middle
        else:
            low = middle + 1
    return low


def _promise(
    q: float, accuracy: float, rho: float, beta: float, *, of: str
) -> tuple[float, float, float, float]:
    level = checks.real(q, "q", "(0, 1)", of=of, by=_BY)
    return level, *promise_arguments(accuracy, rho, beta, f"[{_FINEST}, 0.5)", of=of, by=_BY)


@lru_cache(maxsize=256)
def _design(q: float, accuracy: float, rho: float, beta: float, questions: int) -> QuantileDesign:
    """The widest band that keeps the accuracy, with the fewest rows."""

    def at(n: int) -> QuantileDesign:
        ends = (q > accuracy) + (q + accuracy < 1.0)
        part = beta / max(1, ends)
        low = band_end(n, q, q - accuracy, part) if q > accuracy else 0.0
        high = band_end(n, q, q + accuracy, part) if q + accuracy < 1.0 else 1.0
        return QuantileDesign(accuracy, rho, beta, n, low, high, q, questions)

    return smallest_design(at, "accuracy", accuracy, of="quantile", by=_BY)


_MOST = 2**62
_LARGEST_KEY = int(np.float64(np.finfo(np.float64).max).view(np.int64))


@dataclass(frozen=True)
class Domain:
    """The places 0 … ``count`` − 1 in order: listed values, a lattice, or every finite float."""

    count: int
    listed: Floats | None = None
    low: float = 0.0
    step: float = 0.0

    @property
    def questions(self) -> int:
        """How many halvings find one place."""
        return (self.count - 1).bit_length()

    def places(self, values: Floats) -> npt.NDArray[np.int64]:
        """The sorted places of the values: exact for floats, the nearest of a lattice, the next listed."""
        if self.listed is not None:
            unsorted = np.minimum(np.searchsorted(self.listed, values), self.count - 1)
        elif self.step:
            unsorted = np.clip(np.round((values - self.low) / self.step), 0, self.count - 1).astype(np.int64)
        else:
            bits = (values + 0.0).view(np.int64)  # + 0.0 makes −0.0 the same float as 0.0
            unsorted = np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)
        return np.sort(unsorted)

    def key(self, place: int) -> int:
        """The place as :meth:`places` writes it; floats are counted from zero, so that it fits 64 bits."""
        return place if self.listed is not None or self.step else place - _LARGEST_KEY

    def value(self, place: int) -> float:
        """The number at a place."""
        if self.listed is not None:
            return float(self.listed[place])
        if self.step:
            return self.low + place * self.step
        key = place - _LARGEST_KEY
        size = float(np.int64(abs(key)).view(np.float64))
        return size if key >= 0 else -size


def domain_argument(domain: Any, bounds: Any, resolution: Any, *, of: str, by: str) -> Domain:
    """The listed ``domain``; or the multiples of ``resolution`` within ``bounds``; or every finite float."""
    if domain is not None:
        if bounds is not None or resolution is not None:
            raise InvalidArgument(
                "domain", "given without bounds and resolution", domain, of=of, reference=by
            )
        listed = np.array(checks.reals(domain, "domain", "(-inf, inf)", of=of, by=by))
        if not (np.diff(listed) > 0.0).all():
            raise InvalidArgument("domain", "numbers in increasing order", domain, of=of, reference=by)
        return Domain(listed.size, listed=listed)
    if bounds is None and resolution is None:
        return Domain(2 * _LARGEST_KEY + 1)
    if bounds is None or resolution is None:
        raise InvalidArgument("resolution", "given together with bounds", resolution, of=of, reference=by)
    low, high = bounds_argument(bounds, of=of, by=by)
    step = checks.real(resolution, "resolution", "(0, inf)", of=of, by=by)
    if not 1.0 <= (high - low) / step < _MOST:
        expected = f"at most the length of the bounds, {high - low:g}, and not absurdly less"
        raise InvalidArgument("resolution", expected, resolution, of=of, reference=by)
    return Domain(int(np.floor((high - low) / step + 1e-9)) + 1, low=low, step=step)
