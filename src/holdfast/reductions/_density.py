"""Private algorithms with densities, made replicable: normal or Laplace noise that two sides share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.reductions._algorithm import Algorithm, Floats, cut
from holdfast.replicable import Tape, correlated_laplace, correlated_normal
from holdfast.stability import Replicability, disagreement_bound

__all__ = ["noise_replicability", "noise_to_replicable"]

_BY = "Holdfast, shared noise"
# The dimensions in which the samplers' agreement is proved.
_MOST = {"normal": 20, "laplace": 7}
_MOST_PARTS = 2**50


def noise_replicability(
    noise: str, *, n: int, sensitivity: float, scale: float, dimension: int = 1, parts: int = 1
) -> Replicability:
    """How replicable a noisy answer on ``n`` rows is, when both sides draw the noise from one tape.

    The answer is a vector of ``dimension`` = d numbers, averaged over ``parts`` = N samples, plus ``noise``:
    "normal" with standard deviation ``scale`` or "laplace" with that scale, independent in each coordinate.
    ``sensitivity`` = D is how far replacing one row moves the vector before the noise: in Euclidean length
    for "normal", in the sum of absolute values for "laplace".

    Guarantee: with r = D√(nd/((d + 1)N)): "normal": T = 2Φ(r/(2·scale)) − 1, ρ = 2T/(1 + T), and ρ = T for
    one dimension; "laplace": ρ = 1 − exp(−r√d/(2·scale)).
    Assumes: independent rows from one distribution, the same for both sides, and the stated sensitivity (not
    checkable); at most 20 dimensions, 7 for "laplace".
    Reference: Holdfast, shared noise.

    >>> round(noise_replicability("laplace", n=100, sensitivity=0.01, scale=0.5).rho, 4)
    0.0683
    """
    of = "noise_replicability"
    checks.choice(noise, "noise", tuple(_MOST), of=of)
    n = checks.whole(n, "n", of=of, by=_BY)
    parts = checks.whole(parts, "parts", of=of, by=_BY)
    d = checks.whole(dimension, "dimension", at_most=_MOST[noise], of=of, by=_BY)
    moved = checks.real(sensitivity, "sensitivity", "[0, inf)", of=of, by=_BY)
    scale = checks.real(scale, "scale", "(0, inf)", of=of, by=_BY)
    apart = moved * math.sqrt(n * d / ((d + 1.0) * parts))
    if noise == "laplace":
        return Replicability(rounding.probability(-math.expm1(-apart * math.sqrt(d) / (2.0 * scale))))
    distance = rounding.probability(math.erf(apart / (2.0 * math.sqrt(2.0) * scale)))
    return Replicability(distance if d == 1 else disagreement_bound(distance))


def noise_to_replicable(
    location: Callable[[Any], Any],
    *,
    noise: str,
    rows: int,
    sensitivity: float,
    scale: float,
    rho: float,
    dimension: int = 1,
    failure: float = 0.0,
) -> Algorithm:
    """A replicable algorithm from a private one that adds normal or Laplace noise to ``location(rows)``.

    ``location`` reads ``rows`` rows and returns ``dimension`` numbers. It is averaged over as many disjoint
    parts as ``rho`` needs, and the noise is drawn by ``replicable.correlated_normal`` or
    ``correlated_laplace``: two sides with close averages get the very same numbers. No grid is needed.
    ``noise``, ``sensitivity`` and ``scale`` are those of :func:`noise_replicability`.

    Guarantee: ρ-replicable with ρ ≤ ``rho`` (``noise_replicability``). The output is the average of locations
    on independent samples plus noise of the stated law, so it is closer to the truth, in mean square, than
    the private output was. ``failure`` is the caller's bound and is passed on.
    Assumes: independent rows from one distribution and the stated sensitivity (not checkable).
    Reference: Holdfast, shared noise.

    >>> from holdfast.replicable import Tape
    >>> mean = noise_to_replicable(np.mean, noise="laplace", rows=100, sensitivity=0.01, scale=0.1, rho=0.05)
    >>> mean.rows_needed, mean.guarantee.rho <= 0.05
    (4800, True)
    >>> mean(np.full(4800, 0.5), Tape("study-7")) == mean(np.full(4800, 0.5001), Tape("study-7"))
    True
    """
    of = "noise_to_replicable"
    if not callable(location):
        raise InvalidArgument("location", "a function of the rows", location, of=of, reference=_BY)
    rho = checks.real(rho, "rho", "(0, 1)", of=of, by=_BY)
    n = checks.whole(rows, "rows", of=of, by=_BY)
    checks.choice(noise, "noise", tuple(_MOST), of=of)
    shared: dict[str, Any] = {"sensitivity": sensitivity, "scale": scale, "dimension": dimension}

    def rho_with(parts: int) -> float:
        return noise_replicability(noise, n=n, **shared, parts=parts).rho

    parts = search.least_whole(lambda count: rho_with(count) <= rho, most=_MOST_PARTS)
    if parts is None:
        raise InvalidArgument("rho", f"one that {_MOST_PARTS:,} parts can reach", rho, of=of, reference=_BY)
    size = int(dimension)
    draw = correlated_normal if noise == "normal" else correlated_laplace

    def run(given: Any, tape: Tape) -> Any:
        locations = [_vector(location(part), size, of) for part in cut(given, parts, n)]
        middle = np.array([math.fsum(values) / parts for values in zip(*locations, strict=True)])
        drawn = draw(middle, float(scale), tape.branch("noise"))
        return float(drawn[0]) if size == 1 else tuple(drawn.tolist())

    return Algorithm(
        run,
        name=f"shared {noise} noise",
        rows_needed=parts * n,
        guarantee=Replicability(rho_with(parts)),
        failure=checks.real(failure, "failure", "[0, 1]", of=of, by=_BY),
    )


def _vector(value: Any, size: int, of: str) -> Floats:
    vector = np.asarray(value, dtype=np.float64).ravel()
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise InvalidArgument("location", f"a function that gives {size} finite numbers", value, of=of)
    return vector
