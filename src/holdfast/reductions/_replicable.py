"""Private or perfectly generalising algorithms, made replicable.

Shared coins choose an output by its law (SIS 3.3). Where the output has a density, two sides share the normal
or Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, replicable, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.reductions._algorithm import (
    Algorithm,
    Floats,
    Progress,
    Workers,
    algorithm_argument,
    cut,
    distinct,
    effort,
    ordered_subset,
    ordered_subsets,
    run_all,
    take,
)
from holdfast.reductions._mismatch import Sampling, printed_sampling, sharp_sampling
from holdfast.replicable import Tape, correlated_laplace, correlated_normal
from holdfast.stability import (
    EXPLICIT,
    PerfectGeneralization,
    Replicability,
    chance_disagreement,
    disagreement_bound,
)
from holdfast.typing import BoundForm

__all__ = [
    "AVERAGED",
    "chosen_with",
    "dp_to_replicable",
    "noise_replicability",
    "noise_to_replicable",
    "perfect_to_replicable",
    "sampled",
    "with_law_error",
]

AVERAGED = "Holdfast, expected distance; SIS Algorithm 2"
_ROWS = "independent rows from one distribution, the same for both runs"
_COINS = "the same tape on both sides"
# About how many numbers a batch of samples holds.
_AT_ONCE = 2**18


def dp_to_replicable(
    algorithm: Algorithm,
    *,
    rho: float,
    sampling: str = "cheapest",
    method: BoundForm = "sharp",
    c: float | None = None,
    C: float | None = None,  # noqa: N803 — SIS names the two constants c and C
    workers: Workers = 1,
    progress: Progress = False,
) -> Algorithm:
    """A replicable algorithm for the same task: shared coins choose from the law of the output.

    The law is averaged over disjoint parts of the rows (``sampling="parts"``) or over random subsets that the
    tape chooses (``"subsample"``, SIS Corollary 3.13); ``"cheapest"`` takes subsets where they need less than
    half of the rows, which happens with many outcomes. It asks for as many rows as ``rho`` needs. On any
    rows the output has the averaged law, so it is wrong no more often than the algorithm was.

    Guarantee: ρ-replicable with ρ ≤ ``rho``. "sharp": ``dp_replicability``, explicit constants for pure and
    approximate privacy. "paper": max-information, perfect generalisation and Theorem 3.17 as SIS prints them,
    subsampled; for δ > 0 this needs the constants ``c`` and ``C`` of Lemma 3.11, which SIS leaves open. A
    stated ``law_error`` is paid on both sides, and once in ``failure``; estimating laws from runs costs more
    parts and no accuracy, because the estimate is right on average.
    Assumes: independent rows from one distribution and the declared privacy (not checkable); finitely many
    outcomes.
    Reference: SIS Algorithm 2, Theorem 3.17 and Corollary 3.18; sharp: Holdfast.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        method: "sharp" or "paper".
        workers: How many processes share the runs (see :mod:`holdfast.workers`).
        progress: Whether to show a bar of the runs done, or a function of the runs done and their number.

    >>> from holdfast.stability import DP
    >>> flip = Algorithm(lambda rows, tape: 0, rows_needed=1, guarantee=DP(1.0), outcomes=(0, 1),
    ...     probabilities=lambda rows: [0.7310585786300049, 0.2689414213699951])
    >>> steady = dp_to_replicable(flip, rho=0.1)
    >>> steady.guarantee, steady.rows_needed
    (Replicability(rho=0.0984778), 14)
    """
    of, by = "dp_to_replicable", "SIS Corollary 3.18"
    algorithm = algorithm_argument(algorithm, ("dp",), of=of, by=by)
    rho = checks.real(rho, "rho", "(0, 1)", of=of, by=by)
    checks.choice(sampling, "sampling", ("cheapest", "parts", "subsample"), of=of)
    workers, progress = effort(workers, progress, of=of)
    algorithm.finite(of=of)
    if checks.choice(method, "method", ("sharp", "paper"), of=of) == "sharp":
        for name, value in (("c", c), ("C", C)):
            if value is not None:
                raise InvalidArgument(name, "left out unless method is 'paper'", value, of=of)
        plan = sharp_sampling(algorithm, rho, sampling, of=of)
        theorem = AVERAGED
    else:
        plan = printed_sampling(algorithm, rho, c, C, of=of)
        theorem = "SIS Corollaries 3.13 and 3.15, Theorem 3.17, Algorithm 2"
    return sampled(algorithm, plan, theorem=theorem, workers=workers, progress=progress)


def perfect_to_replicable(algorithm: Algorithm, *, method: BoundForm = "sharp") -> Algorithm:
    """A replicable algorithm on the same rows: shared coins choose from the law of the output.

    Guarantee: ``PerfectGeneralization.replicability``, plus twice 2e/(1 + e) where the law is only known up
    to an expected total variation e = ``stated_error``; "sharp": never above 1 − 1/k for k outcomes. A
    ``law_error`` is also added to the failure.
    Assumes: kind "one-way" or "two-way", independent rows from one distribution (not checkable), finitely
    many outcomes.
    Reference: SIS Algorithm 2 and Theorem 3.17.

    Args:
        algorithm: The algorithm to start from, with its declared guarantee.
        method: "sharp" or "paper".

    >>> known = Algorithm(lambda rows, tape: 0, rows_needed=5, outcomes=(0, 1),
    ...     probabilities=lambda rows: [1, 0],
    ...     guarantee=PerfectGeneralization(0.01, 0.02, 0.001, kind="one-way"))
    >>> perfect_to_replicable(known).guarantee
    Replicability(rho=0.0624739)
    """
    of, by = "perfect_to_replicable", "SIS Theorem 3.17"
    algorithm = algorithm_argument(algorithm, ("one-way", "perfect-generalization"), of=of, by=by)
    outcomes = algorithm.finite(of=of)
    notion, error = algorithm.guarantee, algorithm.stated_error
    assert isinstance(notion, PerfectGeneralization)
    rho = notion.replicability(method=method).rho
    if error > 0.0:
        rho = min(1.0, rho + 2.0 * disagreement_bound(error))
    if method == "sharp":
        rho = min(rho, chance_disagreement(len(outcomes)))
    plan = Sampling(1, algorithm.rows_needed, rho, True)
    return sampled(algorithm, plan, theorem="SIS Theorem 3.17, Algorithm 2")


def sampled(
    algorithm: Algorithm, plan: Sampling, *, theorem: str, workers: Workers = 1, progress: Progress = False
) -> Algorithm:
    """The algorithm that samples with shared coins from its law, averaged as the plan says."""
    outcomes, error = algorithm.finite(of="sampled"), algorithm.law_error
    mixture = _mixture(algorithm, plan, workers, progress)
    exact = plan.disjoint and algorithm.probabilities is not None
    return algorithm.compiled(
        lambda rows, tape: _chosen(mixture(rows, tape), outcomes, tape),
        guarantee=Replicability(plan.rho),
        failure=with_law_error(algorithm),
        theorem=theorem,
        kind=EXPLICIT,
        conditions=(_ROWS, _COINS),
        parameters={"draws": plan.draws, "rows": plan.rows, **({"law error": error} if error else {})},
        rows_needed=plan.rows,
        outcomes=outcomes,
        probabilities=(lambda rows: mixture(rows, None)) if exact else None,
        law_error=error if exact else 0.0,
    )


def with_law_error(algorithm: Algorithm) -> float:
    """Sampling from a law that is off by the stated error fails more often by no more than that."""
    if algorithm.law_error == 0.0:
        return algorithm.failure
    return rounding.probability(algorithm.failure + algorithm.law_error)


def _law_on_part(algorithm: Algorithm, rows: Any, tape: Tape | None) -> Floats:
    return algorithm.law(rows, tape)


def _law_on_subset(algorithm: Algorithm, rows: Any, tape: Tape) -> Floats:
    # In random order as well: only then does a subset amplify privacy (stability.DP.subsample).
    chosen = ordered_subset(tape.branch("subset"), algorithm.rows_needed, len(rows))
    return algorithm.law(take(rows, chosen), tape)


def _weighted_sum(algorithm: Algorithm, samples: npt.NDArray[Any], counts: npt.NDArray[np.int64]) -> Floats:
    total: Floats = counts @ algorithm.laws(samples)
    return total


def _sum_on_subsets(algorithm: Algorithm, rows: npt.NDArray[Any], tape: Tape, count: int) -> Floats:
    chosen = ordered_subsets(tape, count, algorithm.rows_needed, len(rows))
    total: Floats = algorithm.laws(rows[chosen]).sum(axis=0)
    return total


def _in_batches(algorithm: Algorithm, plan: Sampling, rows: Any) -> bool:
    """Whether laws on subsets can be computed many at once: a batch law, and subsets that rarely repeat."""
    plain = isinstance(rows, np.ndarray) and not rows.dtype.hasobject and rows.size > 0
    sparse = algorithm.rows_needed**2 <= plan.rows
    return not plan.disjoint and algorithm.batch_probabilities is not None and plain and sparse


def _mixture(
    algorithm: Algorithm, plan: Sampling, workers: Workers, progress: Progress
) -> Callable[[Any, Tape | None], Floats]:
    """The law of the output averaged over the parts or subsets of the plan."""
    exact = plan.disjoint and algorithm.probabilities is not None

    def mixture(rows: Any, tape: Tape | None) -> Floats:
        if exact and isinstance(rows, np.ndarray) and not rows.dtype.hasobject and rows.size:
            jobs: list[tuple[Any, ...]] = _batches(algorithm, rows, plan.draws)
            sums = run_all(_weighted_sum, jobs, workers=workers, progress=progress, label="laws")
            return _normalised(np.sum(sums, axis=0))
        if _in_batches(algorithm, plan, rows):
            assert tape is not None
            numbers = max(rows[0].size * algorithm.rows_needed, len(algorithm.finite(of="law")))
            step = max(1, _AT_ONCE // numbers)
            jobs = [
                (algorithm, rows, tape.branch(f"subsets {begin}"), min(step, plan.draws - begin))
                for begin in range(0, plan.draws, step)
            ]
            sums = run_all(_sum_on_subsets, jobs, workers=workers, progress=progress, label="laws")
            return _normalised(np.sum(sums, axis=0))
        coins = [None if tape is None else tape.branch(f"part {number}") for number in range(plan.draws)]
        if plan.disjoint:
            parts = cut(rows, plan.draws, algorithm.rows_needed)
            jobs = [(algorithm, *job) for job in zip(parts, coins, strict=True)]
            task: Callable[..., Floats] = _law_on_part
        else:
            jobs, task = [(algorithm, rows, coin) for coin in coins], _law_on_subset
        laws = run_all(task, jobs, workers=workers, progress=progress, label="laws")
        return _normalised(np.sum(laws, axis=0))

    return mixture


def _normalised(total: Floats) -> Floats:
    law: Floats = total / total.sum()
    return law


def _batches(algorithm: Algorithm, rows: npt.NDArray[Any], parts: int) -> list[tuple[Any, ...]]:
    """Jobs for the laws of all parts, each part with the number of times that it occurs.

    Equal parts have equal laws, so each different part is a job. A law that is known for many parts at once
    is not worth that search: there a job is a batch of bounded size.
    """
    size = algorithm.rows_needed
    samples = rows[: parts * size].reshape(parts, size, *rows.shape[1:])
    counts, step = np.ones(parts, dtype=np.int64), 1
    if algorithm.batch_probabilities is None:
        samples, counts = distinct(samples)
    else:
        step = max(1, _AT_ONCE // max(samples[0].size, len(algorithm.finite(of="law"))))
    return [
        (algorithm, samples[begin : begin + step], counts[begin : begin + step])
        for begin in range(0, len(samples), step)
    ]


def _chosen(law: Floats, outcomes: tuple[Any, ...], tape: Tape) -> Any:
    return outcomes[int(replicable.correlated_choice(law, tape.branch("choice")))]


def chosen_with(steady: Algorithm, rows: Any, tapes: Sequence[Tape]) -> list[Any]:
    """What a replicable algorithm that a compiler made here gives on these rows with each of the tapes.

    An exact law does not depend on the tape: it is computed once for all of them.
    """
    if steady.probabilities is None:
        return [steady(rows, tape) for tape in tapes]
    law, outcomes = steady.law(rows), steady.finite(of="chosen_with")
    return [_chosen(law, outcomes, tape) for tape in tapes]


_SHARED_NOISE = "Holdfast, shared noise"
# The dimensions in which the samplers' agreement is proved.
_MOST_DIMENSIONS = {"normal": 20, "laplace": 7}
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
    checks.choice(noise, "noise", tuple(_MOST_DIMENSIONS), of=of)
    n = checks.whole(n, "n", of=of, by=_SHARED_NOISE)
    parts = checks.whole(parts, "parts", of=of, by=_SHARED_NOISE)
    d = checks.whole(dimension, "dimension", at_most=_MOST_DIMENSIONS[noise], of=of, by=_SHARED_NOISE)
    moved = checks.real(sensitivity, "sensitivity", "[0, inf)", of=of, by=_SHARED_NOISE)
    scale = checks.real(scale, "scale", "(0, inf)", of=of, by=_SHARED_NOISE)
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
        raise InvalidArgument("location", "a function of the rows", location, of=of, reference=_SHARED_NOISE)
    rho = checks.real(rho, "rho", "(0, 1)", of=of, by=_SHARED_NOISE)
    n = checks.whole(rows, "rows", of=of, by=_SHARED_NOISE)
    checks.choice(noise, "noise", tuple(_MOST_DIMENSIONS), of=of)
    shared: dict[str, Any] = {"sensitivity": sensitivity, "scale": scale, "dimension": dimension}

    def rho_with(parts: int) -> float:
        return noise_replicability(noise, n=n, **shared, parts=parts).rho

    parts = search.least_whole(lambda count: rho_with(count) <= rho, most=_MOST_PARTS)
    if parts is None:
        raise InvalidArgument(
            "rho", f"a value that {_MOST_PARTS:,} parts can reach", rho, of=of, reference=_SHARED_NOISE
        )
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
        failure=checks.real(failure, "failure", "[0, 1]", of=of, by=_SHARED_NOISE),
    )


def _vector(value: Any, size: int, of: str) -> Floats:
    vector = np.asarray(value, dtype=np.float64).ravel()
    if vector.shape != (size,) or not np.isfinite(vector).all():
        raise InvalidArgument("location", f"a function that gives {size} finite numbers", value, of=of)
    return vector
