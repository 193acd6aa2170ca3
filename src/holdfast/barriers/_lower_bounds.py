"""How many rows every stable algorithm for marginals needs (SIS theorems 5.3, 5.5, 5.11 and 5.12), and every
replicable agnostic learner (SIS theorem 5.6).

Every bound for marginals is one inequality: what the fingerprint of an accurate algorithm must be
(``required``) against what stability lets it be after n rows. A learner cannot need fewer, because it finds
signs of marginals (SIS Algorithm 9, which runs here). The derivations are in
``docs/theory/barriers-samples.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.intervals import binomial_log_tail
from holdfast.records import Record
from holdfast.replicable import Tape, tape_argument
from holdfast.stability import DP, Notion, PerfectGeneralization, Replicability, perfect_plan
from holdfast.typing import BoundForm

__all__ = [
    "LearnedSigns",
    "SignPrior",
    "agnostic_bound",
    "marginals_from_learner",
    "one_way_marginals_bound",
    "overflow_probability",
    "sign_one_way_marginals_bound",
    "sign_priors",
]

Floats = npt.NDArray[np.float64]
Learner = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int8], Tape], Any]

_METHODS = ("paper", "sharp")
_PAPER = {"one_way_marginals_bound": (0.01, 0.01, 0.1), "sign_one_way_marginals_bound": (0.05, 0.05, 0.35)}


def one_way_marginals_bound(
    d: int, *, accuracy: float, beta: float, stability: Notion, method: BoundForm = "sharp"
) -> int:
    """Rows that any stable algorithm needs to estimate ``d`` marginals, each to within ``accuracy``.

    Guarantee: an algorithm with this ``stability`` that is (accuracy, beta)-accurate for every product of d
    signs reads at least this many rows; 0 where nothing is proved. "sharp": for Replicability(ρ), d(z/2c)²
    with z = 2/3 − α(1−β) − 5β/3 − 2ρ/3 and c = αk(ρ) + √(7/3)βk(ρ/β), k(x) = x√(2 ln(1/x)): no logarithm of
    d. For PerfectGeneralization and DP as derived beside it. "paper": the printed chain, with its constants
    corrected, and for Replicability composed with ``perfect_plan``, where SIS writes Ω̃.
    Assumes: 0 < rho ≤ 1; "paper": accuracy and beta at most 0.01, and no DP.
    Reference: SIS Theorems 5.3 and 5.5; DP: Bun, Ullman and Vadhan 2018; sharp: Holdfast.

    Args:
        beta: The largest probability that the result is farther from the truth than the accuracy.
        method: "sharp", or "paper" for the constants as printed.

    >>> one_way_marginals_bound(1000, accuracy=0.01, beta=0.001, stability=Replicability(0.0001))
    972358240
    >>> one_way_marginals_bound(1000, accuracy=0.01, beta=0.001, stability=DP(1.0, 1e-9))
    477
    """
    of = "one_way_marginals_bound"
    d, accuracy, beta = _task(d, accuracy, beta, of)
    if checks.choice(method, "method", _METHODS, of=of) == "paper":
        return _printed(d, accuracy, beta, stability, of)
    required = 2.0 / 3.0 - accuracy * (1.0 - beta) - 5.0 * beta / 3.0
    if isinstance(stability, Replicability):
        rho = _rho(stability, of)
        # A disagreement costs accuracy nothing, and its own row's fingerprint, 2/3 on average.
        required -= 2.0 * rho / 3.0
        allowed = accuracy * drift(rho)
        if beta > 0.0:
            allowed += math.sqrt(7.0 / 3.0) * beta * drift(rho / beta)
        return _least(d * _squared(required, 2.0 * allowed), stability, of)
    if isinstance(stability, PerfectGeneralization):
        one_way = stability.kind == "one-way"
        wrong = min(1.0, _wrong_simulator(stability, beta))
        variance = 2.0 / 3.0 if one_way else accuracy * accuracy * 2.0 / 3.0 + 1.3 * wrong
        length, mean_weight = (math.pi / 4.0, 1.0) if one_way else (math.pi / 4.0 + 1.0 / 3.0, 1.5)
        return _least(
            _squared(required, _perfect_drift(stability, variance / d, length, mean_weight)), stability, of
        )
    if isinstance(stability, DP):
        variance = accuracy * accuracy * 2.0 / 3.0 + 1.3 * beta
        return _least(_ratio(required, _private_drift(stability, variance / d, 11.0 / 12.0)), stability, of)
    raise _unknown(stability, of)


def sign_one_way_marginals_bound(
    d: int, *, accuracy: float, beta: float, stability: Notion, method: BoundForm = "sharp"
) -> int:
    """Rows that any stable algorithm needs to find the signs of ``d`` marginals, ``accuracy`` on average.

    Guarantee: take an algorithm with this ``stability`` that outputs v ∈ [−1, 1]^d. For every product of d
    signs with means p, let mean(v·p) ≥ mean|p| − accuracy except with probability ``beta``. Then it reads at
    least this many rows; 0 where nothing is proved. "sharp": means uniform on [−a, a], the best a; for
    Replicability(ρ) it is d(z/(2a√ω k(ρ)))², z = 1 − 2α/a − 2β − ρ.
    "paper": as for ``one_way_marginals_bound``.
    Assumes: 0 < rho ≤ 1; "paper": accuracy and beta at most 0.05, and no DP.
    Reference: SIS Theorems 5.11 and 5.12; sharp: Holdfast.

    Args:
        method: "sharp", or "paper" for the constants as printed.

    >>> sign_one_way_marginals_bound(1000, accuracy=0.02, beta=0.002, stability=Replicability(0.0005))
    4715389203
    """
    of = "sign_one_way_marginals_bound"
    d, accuracy, beta = _task(d, accuracy, beta, of)
    if checks.choice(method, "method", _METHODS, of=of) == "paper":
        return _printed(d, accuracy, beta, stability, of)
    priors = sign_priors(accuracy)
    if isinstance(stability, Replicability):
        rho = _rho(stability, of)
        rows = [
            d * _squared(prior.required(accuracy, 2.0 * beta + rho), 2.0 * prior.spread * drift(rho))
            for prior in priors
        ]
    elif isinstance(stability, PerfectGeneralization):
        rows = [_perfect_signs(d, accuracy, beta, stability, prior) for prior in priors]
    elif isinstance(stability, DP):
        rows = [
            _ratio(
                prior.required(accuracy, 2.0 * beta), _private_drift(stability, prior.variance / d, 2.0 / 3.0)
            )
            / prior.reach
            for prior in priors
        ]
    else:
        raise _unknown(stability, of)
    return _least(max(rows), stability, of)


def drift(rho: float) -> float:
    """k(ρ) = ρ√(2 ln(1/ρ)), the most that an event of probability ρ or 1 − ρ moves a 1-subgaussian mean.

    Beyond ½ its value there: of the two, the event and its complement, the rarer decides.
    """
    rho = min(rho, 0.5)
    return rho * math.sqrt(2.0 * math.log(1.0 / rho))


def _perfect_signs(
    d: int, accuracy: float, beta: float, stability: PerfectGeneralization, prior: SignPrior
) -> float:
    allowed = _perfect_drift(stability, prior.variance / d, prior.length, prior.mean_weight)
    return _squared(prior.required(accuracy, 2.0 * beta), prior.reach * allowed)


def _perfect_drift(
    stability: PerfectGeneralization, variance: float, length: float, mean_weight: float
) -> float:
    """The fingerprint per column and per √row that perfect generalisation allows.

    Both ways the two halves of the mean-zero fresh statistic cancel to sinh ε; one way only e^ε/2 is left.
    """
    exceptional = stability.beta
    tail = exceptional * math.sqrt(2.0 * math.log(2.0 / exceptional)) if exceptional > 0.0 else 0.0
    slack = stability.delta * length + mean_weight * tail
    if stability.kind == "one-way":
        return 0.5 * math.exp(min(stability.epsilon, 700.0)) * math.sqrt(variance) + slack
    return _sinh(stability.epsilon) * math.sqrt(variance) + (1.0 + math.exp(-stability.epsilon)) * slack


def _private_drift(stability: DP, variance: float, length: float) -> float:
    """The fingerprint per column and per row that differential privacy allows."""
    slack = stability.delta * (1.0 + math.exp(-stability.epsilon)) * length
    return _sinh(stability.epsilon) * math.sqrt(variance) + slack


def _wrong_simulator(stability: PerfectGeneralization, beta: float) -> float:
    """How often the output that the fresh statistic uses is inaccurate: A(S') itself, or the simulator."""
    if stability.kind == "sample":
        return beta
    if stability.beta >= 1.0:
        return 1.0
    return math.exp(min(stability.epsilon, 700.0)) * beta / (1.0 - stability.beta) + stability.delta


def _printed(d: int, accuracy: float, beta: float, stability: Any, of: str) -> int:
    largest_accuracy, largest_beta, required = _PAPER[of]
    by = "SIS Theorem 5.5" if of.startswith("one") else "SIS Theorem 5.11"
    if isinstance(stability, Replicability):
        return _printed_replicable(d, accuracy, beta, stability, of)
    checks.real(accuracy, "accuracy", f"(0, {largest_accuracy}]", of=of, by=by)
    checks.real(beta, "beta", f"[0, {largest_beta}]", of=of, by=by)
    if not isinstance(stability, PerfectGeneralization) or stability.kind == "one-way":
        expected = "PerfectGeneralization, two-way or sample, or Replicability for method 'paper'"
        raise InvalidArgument("stability", expected, stability, of=of, reference=by)
    sample = stability.sample() if stability.kind == "two-way" else stability
    # (10) to (12): required·d ≤ e^ε·2√(dn) + 2dn(δ + β) for the sample form, a quadratic in √n.
    linear = 2.0 * math.exp(min(sample.epsilon, 700.0)) / math.sqrt(d)
    square = 2.0 * (sample.delta + sample.beta)
    root = 2.0 * required / (linear + math.sqrt(linear * linear + 4.0 * square * required))
    return _least(root * root, stability, of)


def _printed_replicable(d: int, accuracy: float, beta: float, stability: Replicability, of: str) -> int:
    """SIS's route for replicable algorithms: through Algorithm 3 to perfect generalisation, the best δ."""
    rho = _rho(stability, of)
    coins = stability.good_coins(math.sqrt(rho), method="paper")
    if not (coins.eta < 0.5 and beta <= 0.25):
        return 0
    bound = one_way_marginals_bound if of.startswith("one") else sign_one_way_marginals_bound
    best = 0
    for delta in np.geomspace(1e-3, 1e-12, 19):
        plan = perfect_plan(1.0, float(delta), coins=coins, failure=beta)
        if plan.failure >= 1.0:
            continue
        rows = bound(d, accuracy=accuracy, beta=plan.failure, stability=plan.guarantee)
        best = max(best, -(-rows // plan.runs))
    return best


def _task(d: Any, accuracy: Any, beta: Any, of: str) -> tuple[int, float, float]:
    by = "SIS Definitions 5.2 and 5.8"
    return (
        checks.whole(d, "d", at_most=10**12, of=of, by=by),
        checks.real(accuracy, "accuracy", "(0, 1]", of=of, by=by),
        checks.real(beta, "beta", "[0, 1]", of=of, by=by),
    )


def _rho(stability: Replicability, of: str) -> float:
    return checks.real(stability.rho, "rho", "(0, 1]", of=of, by="SIS Theorem 5.3")


def _unknown(stability: Any, of: str) -> InvalidArgument:
    return InvalidArgument("stability", "DP, PerfectGeneralization or Replicability", stability, of=of)


def _sinh(epsilon: float) -> float:
    return math.sinh(min(epsilon, 700.0))


def _ratio(required: float, allowed: float) -> float:
    return required / allowed if required > 0.0 and allowed > 0.0 else (math.inf if required > 0.0 else 0.0)


def _squared(required: float, allowed: float) -> float:
    return _ratio(required, allowed) ** 2


def _least(rows: float, stability: Any, of: str) -> int:
    """The whole number of rows that a real lower bound means, after rounding it down."""
    if math.isinf(rows):
        expected = "weaker: with this stability no number of rows makes an algorithm accurate"
        raise InvalidArgument("stability", expected, stability, of=of, reference="SIS Section 5")
    return math.ceil(rounding.down(rows))


_CELLS = 4096
_REACHES = 48


@dataclass(frozen=True)
class SignPrior:
    """Means uniform on [−a, a]; a column's weight is w(p) = (a² − p²)/(1 − p²), a² at most.

    Each moment is divided by the power of a that it carries, and is an upper bound: ``spread`` is a√E[w²]/a²,
    ``variance`` E[w²(1−p²)]/a⁴, ``length`` E[w√(1−p²)]/a², ``mean_weight`` E[w]/a².
    """

    reach: float
    spread: float
    variance: float
    length: float
    mean_weight: float

    def required(self, accuracy: float, lost: float) -> float:
        """What is left of the fingerprint, per column and divided by a: 1 − 2α/a − lost."""
        return 1.0 - 2.0 * accuracy / self.reach - lost


@lru_cache(maxsize=256)
def sign_priors(accuracy: float) -> tuple[SignPrior, ...]:
    """Priors worth trying: reaches from 2α, where nothing is required any more, up to 1."""
    if not accuracy < 0.5:
        return (_prior(1.0),)
    return tuple(_prior(float(reach)) for reach in np.geomspace(2.0 * accuracy, 1.0, _REACHES + 1)[1:])


@lru_cache(maxsize=4096)
def _prior(reach: float) -> SignPrior:
    # Every integrand falls as u = p/a grows, so sums over left ends are upper bounds.
    u = np.arange(_CELLS) / _CELLS
    inside, outside = 1.0 - u * u, 1.0 - (reach * u) ** 2
    return SignPrior(
        reach=reach,
        spread=rounding.up(reach * float(np.sqrt(np.mean((inside / outside) ** 2)))),
        variance=rounding.up(float(np.mean(inside * inside / outside))),
        length=rounding.up(float(np.mean(inside / np.sqrt(outside)))),
        mean_weight=rounding.up(float(np.mean(inside / outside))),
    )


@dataclass(frozen=True, repr=False, eq=False)
class LearnedSigns(Record):
    """The learner's predictions at the d shattered points, or d ones if some point ran out of rows.

    ``overflow`` says whether it did; ``overflow_probability`` bounds how likely that was.

    Args:
        value: The sign of each marginal.
        examples: How many labelled examples the learner saw.
        rows: How many rows they were made of.
        tape: The tape, as text.
    """

    value: Floats
    overflow: bool
    overflow_probability: float
    examples: int
    rows: int
    tape: str

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.value, dtype=dtype)

    def to_dict(self) -> dict[str, Any]:
        """The record as a dictionary of plain values, ready for JSON."""
        return {**super().to_dict(), "value": self.value.tolist()}


def marginals_from_learner(
    samples: npt.ArrayLike, learner: Learner, *, examples: int, tape: Tape
) -> LearnedSigns:
    """Algorithm 9: signs of the marginals of ``samples``, by asking an agnostic learner.

    The tape draws ``examples`` points uniformly from d shattered points, 0 … d − 1; the k-th example at point
    j gets the k-th entry of column j as its label. ``learner(points, labels, tape)`` returns d predictions,
    or a function of an array of points.

    Guarantee: a learner that is (α, β)-accurate and ρ-replicable on ``examples`` examples gives an algorithm
    for signs of marginals that is (2α, β + overflow)-accurate and ρ-replicable, with the same ρ.
    Assumes: rows of a product distribution (not checkable), entries −1 and 1 (checked); a learner that takes
    all its coins from the tape.
    Reference: SIS Algorithm 9 and Theorem 5.9, which loses 0.0002 or 0.0004 of ρ where nothing is lost.

    >>> table = np.where(np.random.default_rng(1).random((60, 4)) < [0.9, 0.1, 0.8, 0.2], 1, -1)
    >>> majority = lambda points, labels, tape: np.sign(np.bincount(points, labels, minlength=4) + 0.5)
    >>> marginals_from_learner(table, majority, examples=100, tape=Tape("study-7")).value.tolist()
    [1.0, -1.0, 1.0, -1.0]
    """
    of, by = "marginals_from_learner", "SIS Algorithm 9"
    table = np.asarray(samples)
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iuf" or not (np.abs(table) == 1).all():
        raise InvalidArgument("samples", "a table of −1 and 1", "something else (not shown)", of=of)
    examples = checks.whole(examples, "examples", of=of, by=by)
    tape = tape_argument(tape, of=of)
    rows, d = table.shape
    points = tape.branch("points").integers(examples, d)
    counts = np.bincount(points, minlength=d)
    overflow = bool(counts.max() > rows)
    value = np.ones(d)
    if not overflow:
        labels = table[_occurrence(points, counts), points].astype(np.int8)
        hypothesis = learner(points, labels, tape.branch("learner"))
        value = _predictions(hypothesis(np.arange(d)) if callable(hypothesis) else hypothesis, d)
    return LearnedSigns(
        value=value,
        overflow=overflow,
        overflow_probability=overflow_probability(d, rows=rows, examples=examples),
        examples=examples,
        rows=rows,
        tape=str(tape),
    )


def overflow_probability(d: int, *, rows: int, examples: int) -> float:
    """How likely it is that some of ``d`` points is drawn more than ``rows`` times among ``examples`` draws.

    Guarantee: an upper bound, d·P(Bin(examples, 1/d) > rows) with the exact tail, at most 1.
    Assumes: independent uniform draws.
    Reference: SIS Theorem 5.9, the event E.

    >>> overflow_probability(10, rows=30, examples=100)
    6.047038482305362e-08
    """
    of, by = "overflow_probability", "SIS Theorem 5.9"
    d = checks.whole(d, "d", at_most=10**12, of=of, by=by)
    rows = checks.whole(rows, "rows", at_least=0, of=of, by=by)
    examples = checks.whole(examples, "examples", at_most=2**60, of=of, by=by)
    if rows >= examples:
        return 0.0
    if not (rows + 1) * d > examples:
        return 1.0
    nats = 460.0
    tail = binomial_log_tail(examples - rows - 1, examples, 1.0 - 1.0 / d, 1.0 / d, nats)
    return rounding.probability(math.exp(min(0.0, tail + math.log(d))))


def agnostic_bound(
    vc: int, *, accuracy: float, beta: float, stability: Notion, method: BoundForm = "sharp"
) -> int:
    """Examples that any replicable agnostic learner needs for a class of VC dimension ``vc``.

    Guarantee: an agnostic learner that is (accuracy, beta)-accurate and as replicable as ``stability`` says
    reads at least this many examples: with fewer, Algorithm 9 would find signs of ``vc`` marginals from fewer
    rows than ``sign_one_way_marginals_bound`` allows. Of order vc²/(α²ρ² ln(1/ρ)), without a logarithm of vc.
    Assumes: a Replicability; 0 where nothing is proved.
    Reference: SIS Theorem 5.6, which states Ω̃(vc²); constants: Holdfast.

    Args:
        accuracy: How far from the truth the result may be.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        method: "sharp", or "paper" for the constants as printed.

    >>> agnostic_bound(100, accuracy=0.01, beta=0.001, stability=Replicability(0.0001))
    982459233838
    """
    of, by = "agnostic_bound", "SIS Theorem 5.6"
    vc = checks.whole(vc, "vc", at_most=10**9, of=of, by=by)
    accuracy = checks.real(accuracy, "accuracy", "(0, 0.5]", of=of, by=by)
    beta = checks.real(beta, "beta", "[0, 1]", of=of, by=by)
    if not isinstance(stability, Replicability):
        raise InvalidArgument("stability", "Replicability", stability, of=of, reference=by)
    best = 0
    for overflow in np.geomspace(1e-6, 0.1, 11):
        total = min(1.0, beta + float(overflow))
        rows = sign_one_way_marginals_bound(
            vc, accuracy=2.0 * accuracy, beta=total, stability=stability, method=method
        )
        if rows > 1:
            best = max(best, 1 + _most_examples(vc, rows - 1, float(overflow)))
    return best


def _most_examples(d: int, rows: int, overflow: float) -> int:
    """The most examples that overflow ``rows`` rows with at most this probability."""

    def fits(examples: int) -> bool:
        return examples <= 2**60 and overflow_probability(d, rows=rows, examples=examples) <= overflow

    return search.whole_edge(fits, rows, rows * d + 1)


def _occurrence(points: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How often the point of each example was drawn before it."""
    order = np.argsort(points, kind="stable")
    seen = np.empty_like(points)
    seen[order] = np.arange(len(points)) - np.repeat(np.cumsum(counts) - counts, counts)
    return seen


def _predictions(values: Any, d: int) -> Floats:
    predicted = np.asarray(values, dtype=np.float64)
    if predicted.shape != (d,) or not (np.abs(predicted) <= 1.0).all():
        raise InvalidArgument(
            "learner", f"a learner that predicts {d} numbers in [-1, 1]", values, of="marginals_from_learner"
        )
    return predicted
