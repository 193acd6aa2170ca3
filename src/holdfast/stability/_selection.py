"""Private selection: how far below the best the chosen item can be (SIS lemma 2.7 and theorem 3.2)."""

from __future__ import annotations

import math
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument


def exponential_excess(epsilon: Any, sensitivity: Any, outcomes: Any, failure: Any) -> float:
    """How far below the best the exponential mechanism's choice scores, except with probability ``failure``.

    Guarantee: 2Δ(ln|L| + ln(1/failure))/ε for weights exp(ε u/(2Δ)) over |L| = ``outcomes`` candidates.
    Assumes: each score moves by at most ``sensitivity`` between neighbouring data (not checkable).
    Reference: SIS Lemma 2.7 (McSherry and Talwar 2007).

    >>> round(exponential_excess(epsilon=1.0, sensitivity=1.0, outcomes=10, failure=0.05), 6)
    10.596635
    """
    of, by = "exponential_excess", "SIS Lemma 2.7"
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    sensitivity = checks.real(sensitivity, "sensitivity", "(0, inf)", of=of, by=by)
    outcomes = checks.whole(outcomes, "outcomes", of=of, by=by)
    failure = checks.real(failure, "failure", "(0, 1)", of=of, by=by)
    return rounding.up(2.0 * sensitivity * (math.log(outcomes) - math.log(failure)) / epsilon)


def selection_threshold(epsilon: Any, delta: Any) -> float:
    """The threshold A of private selection of a frequent item, which is also the bound on its noise.

    Guarantee: counts of the items that occur get truncated Laplace noise of scale 2/ε on [−A, A]; noisy
    counts ≤ A are dropped; the largest is returned. This is (ε, δ)-DP when one item is replaced, a returned
    item is at most 2A below the mode, and nothing is returned only if the mode occurs at most 2A times. A =
    (2/ε) ln(1 + (e^{ε/2} − 1)/δ).
    Assumes: nothing about the items. A smaller A breaks (ε, δ).
    Reference: SIS Theorem 3.2, with the constant of Holdfast.

    >>> round(selection_threshold(epsilon=1.0, delta=1e-6), 6)
    26.76552
    """
    of, by = "selection_threshold", "SIS Theorem 3.2"
    epsilon = checks.real(epsilon, "epsilon", "(0, inf)", of=of, by=by)
    delta = checks.real(delta, "delta", "(0, 1)", of=of, by=by)
    half = epsilon / 2.0
    gained = half + math.log(-math.expm1(-half)) - math.log(delta)
    threshold = rounding.up((math.log1p(math.exp(gained)) if gained < 700.0 else gained) / half)
    if math.isinf(threshold):
        raise InvalidArgument(
            "epsilon", "so large that the threshold is a finite number", epsilon, of=of, reference=by
        )
    return threshold
