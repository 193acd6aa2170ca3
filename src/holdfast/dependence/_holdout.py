"""The reusable holdout (BDP Algorithm 1): how many rows it needs, and how far a chosen query may be off.

The mechanism answers from a training part as long as the holdout agrees with it up to a noisy threshold, and
from the holdout with noise otherwise, at most ``budget`` times. It is (9·budget)/(4·noise·n)-private. So
it is Bayesian private under a model of dependence, and has little max-information with its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast import checks, rounding, search
from holdfast.dependence._clusters import Independent
from holdfast.dependence._model import MOST_ROWS, Dependence
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.tails import Tail
from holdfast.typing import BoundForm

LN2 = math.log(2.0)
_LEMMA, _THEOREM = "BDP Lemma 1", "BDP Theorem 2"
_METHODS = ("paper", "sharp")


def _model_argument(model: Dependence | None, *, of: str) -> Dependence:
    """The model that was given. None stands for independent rows: one row, until the model is scaled."""
    if model is None:
        return Independent(1)
    if not isinstance(model, Dependence):
        raise InvalidArgument("model", "a model from holdfast.dependence, or None", model, of=of)
    return model


def _tail(model: Dependence, *, statistic: bool) -> Tail:
    """The tail of a mean of values in [0, 1], or of any statistic that one row moves by at most 1/n."""
    return model.statistic_tail() if statistic else model.share_tail()


@dataclass(frozen=True, repr=False)
class HoldoutSettings(Record):
    """What BDP Theorem 2 sets for ``queries`` answers within ``error``: the threshold, the noise, the rest.

    ``threshold`` is T = (1+c)τ/2, ``noise`` the scale σ = (1−c)τ/(12 ln(4m/β)), ``deviation`` = (1−c)τ/4 how
    far a holdout mean may be from its expectation, ``noise_failure`` the probability that the noise breaks
    the promise: ``budget`` thresholds, ``queries`` comparisons and ``budget`` released answers.
    """

    queries: int
    budget: int
    error: float
    beta: float
    c: float
    statistic: bool = False

    @property
    def threshold(self) -> float:
        """The distance between training and holdout value above which the holdout speaks."""
        return (1.0 + self.c) * self.error / 2.0

    @property
    def noise(self) -> float:
        """The scale of the Laplace noise on the threshold; comparisons have twice, answers four times it."""
        return (1.0 - self.c) * self.error / (12.0 * self._log_share)

    @property
    def deviation(self) -> float:
        """How far the mean of any asked query on the holdout may be from its expectation."""
        return (1.0 - self.c) * self.error / 4.0

    @property
    def total_epsilon(self) -> float:
        """n times the privacy parameter: 9·budget/(4·noise)."""
        return 9.0 * self.budget / (4.0 * self.noise)

    @property
    def _log_share(self) -> float:
        return math.log(4 * self.queries) - math.log(self.beta)

    @property
    def noise_failure(self) -> float:
        """β/4m for each threshold in use and each comparison, exp(−(3+c)τ/16σ) for each released answer."""
        share = math.exp(-self._log_share)
        released = math.exp(-self._log_share * 0.75 * (3.0 + self.c) / (1.0 - self.c))
        return (self.budget + self.queries) * share + self.budget * released

    def failure(self, model: Dependence, *, of: str = "reusable_holdout_rows") -> float:
        """The probability, at most, that some answer is off by ``error`` while the budget lasts (sharp).

        Under the product law a union bound over the ``queries`` means applies; max-information carries it
        over to the queries that were really chosen.
        """
        means = _means_failure(
            model, self.total_epsilon, self.deviation, self.queries, statistic=self.statistic, of=of
        )
        return rounding.probability(self.noise_failure + means)


def _means_failure(
    model: Dependence,
    total_epsilon: float,
    deviation: float,
    queries: int,
    *,
    statistic: bool,
    of: str,
) -> float:
    """The probability, at most, that one of ``queries`` chosen means is off by ``deviation``."""
    epsilon = model.joint_epsilon(rounding.up(total_epsilon / model.n), of=of)
    return _chosen_failure(
        model.n, epsilon, _tail(model, statistic=statistic).gamma(deviation) - math.log(queries)
    )


def _chosen_failure(n: int, epsilon: float, nats: float) -> float:
    """min over b of exp(nε²/8 + ε√(n ln(1/b)/2) − nats) + b: an event of probability e^{−nats}, chosen.

    Every b gives a bound. The b at which both terms are equal is within a factor of 2 of the best. The search
    tries values around it.
    """
    from holdfast.stability import BayesianDP

    drift, spread = n * epsilon * epsilon / 8.0, epsilon * math.sqrt(n / 2.0)
    if not nats > drift:
        return 1.0
    if epsilon == 0.0:
        return rounding.probability(math.exp(-nats))
    equal = ((math.sqrt(spread * spread + 4.0 * (nats - drift)) - spread) / 2.0) ** 2
    logs = np.minimum(equal * (1.0 + np.linspace(-0.5, 0.5, 401) / (1.0 + 0.02 * equal)), 700.0)
    logs = logs[logs > 1e-9]
    if not len(logs):
        return 1.0
    b = math.exp(-float(logs[np.argmin(np.logaddexp(drift + spread * np.sqrt(logs) - nats, -logs))]))
    information = BayesianDP(epsilon).max_information(n, b)
    return rounding.probability(math.exp(min(0.0, information.bits * LN2 - nats)) + b)


def reusable_holdout_tail(
    *,
    n: int,
    error: float,
    epsilon: float,
    sensitivity: float | None = None,
    model: Dependence | None = None,
    method: BoundForm = "sharp",
) -> float:
    """P(|q − E q| ≥ error) for a statistic q that an ``epsilon``-Bayesian-private mechanism chose.

    ``sensitivity`` Δ is how far one of the ``n`` rows can move q; without it q is a mean of values in [0, 1].
    Guarantee: "sharp": min over b of 2^{I_b} P(|q − E q| ≥ error) + b, with the model's tail for a statistic
    fixed in advance and the sharp max-information I_b. "paper": 4 exp(−error²/(9nΔ²)).
    Assumes: the model (None: independent rows), the sensitivity. "paper": ε ≤ error/(3nΔ), and product
    concentration: that q deviates as for independent rows, without which it is false (n identical coins).
    Reference: BDP Lemma 1; sharp: Holdfast, ``docs/theory/planning.md``.

    Args:
        error: How far an answer may be from the truth.
        model: The dependence of the rows. None: independent rows.
        method: "sharp" or "paper".

    >>> reusable_holdout_tail(n=10_000, error=0.1, epsilon=0.01) < 1e-60
    True
    >>> round(reusable_holdout_tail(n=10_000, error=0.1, epsilon=0.01, method="paper"), 9)
    5.9781e-05
    >>> reusable_holdout_tail(n=10_000, error=1000.0, epsilon=0.01, sensitivity=1.0) < 1e-60
    True
    """
    of = "reusable_holdout_tail"
    method = checks.choice(method, "method", _METHODS, of=of)
    n = checks.whole(n, "n", of=of, by=_LEMMA)
    scale, statistic = 1.0, sensitivity is not None
    if statistic:
        scale = n * checks.real(sensitivity, "sensitivity", "(0, inf)", of=of, by=_LEMMA)
    error = _share_of(error, scale, None if sensitivity is None else "(0, inf)", of=of, by=_LEMMA)
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)", of=of, by=_LEMMA)
    placed = _model_argument(model, of=of).scaled_to(n, of=of)
    if method == "sharp":
        return _chosen_failure(placed.n, epsilon, _tail(placed, statistic=statistic).gamma(error))
    if not epsilon <= error / 3.0:
        what = "error/3" if sensitivity is None else "error/(3·n·sensitivity)"
        raise InvalidArgument(
            "epsilon", f"at most {what} = {error / 3.0:g}", epsilon, of=of, reference=_LEMMA
        )
    # The exponential underflows to 0 for a long table, and a bound of 0 would be false.
    least = math.nextafter(0.0, 1.0)
    return rounding.probability(max(4.0 * math.exp(-error * error * n / 9.0), least))


def _unit(scale: float | None, *, of: str, by: str) -> tuple[float, str | None]:
    """The unit of errors and noise, and the range of an error in it; None for means of values in [0, 1]."""
    return (
        (1.0, None) if scale is None else (checks.real(scale, "scale", "(0, inf)", of=of, by=by), "(0, inf)")
    )


def _share_of(error: Any, scale: float, where: str | None, *, of: str, by: str) -> float:
    """The error in units of ``scale``, n times the sensitivity, which for a mean in [0, 1] is 1."""
    return checks.real(error, "error", where or "(0, 1]", of=of, by=by) / scale


def reusable_holdout_rows(
    *,
    queries: int,
    budget: int,
    error: float,
    beta: float,
    c: float = 0.5,
    noise: float | None = None,
    scale: float | None = None,
    model: Dependence | None = None,
    method: BoundForm = "sharp",
) -> int:
    """Holdout rows for which all ``queries`` answers are within ``error``, while fewer than ``budget`` of the
    training values are off by c·error.

    Guarantee: P(some i: Z_i < budget and |a_i − E q_i| ≥ error) ≤ ``beta`` for BDP Algorithm 1 with threshold
    (1+c)·error/2 and noise (1−c)·error/(12 ln(4·queries/beta)), from this many rows on. "sharp": the model's
    own tail, sharp max-information, sharp Bayesian DP, one union bound, exact noise failure; exact for
    independent rows, else up to a thousandth. "paper": n_#(B, σ, (1−c)τ/4, β/2m) of Theorem 1.
    With ``noise`` σ the claim is Theorem 1's, about the holdout alone: P(some i: |q_i(X) − E q_i| ≥ error) ≤
    ``beta`` for Algorithm 1 with this noise and any threshold; "paper": n_#(B, σ, τ, β/m); c does not enter.
    With ``scale`` the questions are statistics of any kind that one of n rows moves by at most scale/n, and
    ``error`` and ``noise`` are in their units; without it they are means of values in [0, 1].
    Assumes: the model (None: independent rows), the training part independent of the holdout; training rows
    come on top. "paper": product concentration; chains: a spectral gap above 0 (Lemma 4).
    Reference: BDP Theorems 1 and 2 (whose (31) forgets to substitute: 8 times too few rows).

    Args:
        c: How the error is divided between threshold and noise, in (0, 1).
        model: The dependence of the rows. None: independent rows.
        method: "sharp" or "paper".

    >>> reusable_holdout_rows(queries=1000, budget=10, error=0.1, beta=0.05, method="paper")
    14631558
    >>> reusable_holdout_rows(queries=1000, budget=10, error=0.1, beta=0.05)
    1356396
    >>> reusable_holdout_rows(queries=1, budget=10, error=0.1, beta=0.05, noise=0.01)
    6716
    """
    of = "reusable_holdout_rows"
    method = checks.choice(method, "method", _METHODS, of=of)
    queries = checks.whole(queries, "queries", of=of, by=_THEOREM)
    unit, where = _unit(scale, of=of, by=_THEOREM)
    if noise is not None:
        noise = checks.real(noise, "noise", "(0, inf)", of=of, by="BDP Theorem 1") / unit
    settings = HoldoutSettings(
        queries=queries,
        budget=checks.whole(budget, "budget", at_most=queries if noise is None else None, of=of, by=_THEOREM),
        error=_share_of(error, unit, where, of=of, by=_THEOREM),
        beta=checks.real(beta, "beta", "(0, 1)", of=of, by=_THEOREM),
        c=checks.real(c, "c", "(0, 1)", of=of, by=_THEOREM),
        statistic=scale is not None,
    )
    model = _model_argument(model, of=of)
    total = settings.total_epsilon if noise is None else 9.0 * settings.budget / (4.0 * noise)
    if method == "paper":
        if noise is None:
            return _printed_rows(total, settings.deviation, settings.beta / (2.0 * queries), model)
        return _printed_rows(total, settings.error, settings.beta / queries, model)

    def enough(rows: Dependence) -> bool:
        if noise is None:
            return settings.failure(rows) <= settings.beta
        failure = _means_failure(rows, total, settings.error, queries, statistic=settings.statistic, of=of)
        return failure <= settings.beta

    return _fewest_rows(enough, model, math.ceil(total), of=of)


def blanket_holdout_rows(
    *,
    budget: int,
    noise: float,
    error: float,
    beta: float,
    scale: float | None = None,
    model: Dependence | None = None,
    method: BoundForm = "sharp",
) -> int:
    """n_*(B, σ, τ, β) of BDP Theorem 1: holdout rows by the Markov blanket of each row.

    Guarantee: P(|q(X) − E q| ≥ error) ≤ ``beta`` for every query q that was chosen through Algorithm 1 with
    this ``budget`` and ``noise`` and any threshold, from this many rows on. "paper": max{9 ln(4/β)/τ²,
    9B/(4σ(τ/3 − 4a))}, a the largest influence of a row on its blanket. "sharp": the least n at which the
    sharp Lemma 1 allows it, with the Bayesian privacy 9B/(4σn) + 2a and the model's own tail; up to a
    thousandth where rows depend.
    ``scale`` as in :func:`reusable_holdout_rows`, whose n_# takes the best quilt and is never larger.
    Assumes: the model (None: independent rows, a = 0). "paper": product concentration.
    Reference: BDP Theorem 1 (7) and Lemma 3.

    Args:
        error: How far an answer may be from the truth.
        model: The dependence of the rows. None: independent rows.
        method: "sharp" or "paper".

    >>> blanket_holdout_rows(budget=10, noise=0.01, error=0.1, beta=0.05, method="paper")
    67501
    >>> blanket_holdout_rows(budget=10, noise=0.01, error=0.1, beta=0.05)
    6716
    >>> from holdfast.dependence import MarkovChain
    >>> chain = MarkovChain([[0.501, 0.499], [0.499, 0.501]], n=2)
    >>> blanket_holdout_rows(budget=10, noise=0.01, error=0.1, beta=0.05, model=chain, method="paper")
    129808
    """
    of, theorem = "blanket_holdout_rows", "BDP Theorem 1"
    method = checks.choice(method, "method", _METHODS, of=of)
    unit, where = _unit(scale, of=of, by=theorem)
    budget = checks.whole(budget, "budget", of=of, by=theorem)
    noise = checks.real(noise, "noise", "(0, inf)", of=of, by=theorem) / unit
    error = _share_of(error, unit, where, of=of, by=theorem)
    beta = checks.real(beta, "beta", "(0, 1)", of=of, by=theorem)
    model = _model_argument(model, of=of)
    influence = model.blanket_influence(of=of)
    total = 9.0 * budget / (4.0 * noise)
    if method == "paper":
        left = rounding.down(error / 3.0 - 4.0 * influence)
        if not left > 0.0:
            raise InvalidArgument(
                "error", f"above 12a = {12.0 * influence * unit:g}", error * unit, of=of, reference=theorem
            )
        return math.ceil(rounding.up(max(9.0 * math.log(4.0 / beta) / error**2, total / left)))

    def enough(rows: Dependence) -> bool:
        epsilon = rounding.up(total / rows.n + 2.0 * rows.blanket_influence(of=of))
        nats = _tail(rows, statistic=scale is not None).gamma(error)
        return bool(_chosen_failure(rows.n, epsilon, nats) <= beta)

    return _fewest_rows(enough, model, math.ceil(total), of=of)


def _printed_rows(total_epsilon: float, deviation: float, beta: float, model: Dependence) -> int:
    """n_#(B, σ, deviation, beta), with n times the privacy parameter in place of B and σ."""
    concentration = 9.0 * math.log(4.0 / beta) / deviation**2
    privacy = total_epsilon / model.printed_dp(deviation / 3.0, of="reusable_holdout_rows")
    return math.ceil(rounding.up(max(concentration, privacy)))


def _fewest_rows(enough: Callable[[Dependence], bool], model: Dependence, start: int, *, of: str) -> int:
    """The least number of rows of this kind that is ``enough``; fewer rows are never better. It is up to a
    thousandth too large where each try takes long."""
    # A model of one fixed table cannot be scaled. Refuse it here, before the search.
    if model.n is None:
        raise InvalidArgument("model", "a model that says how many rows there are", repr(model), of=of)
    model.scaled_to(2 * model.n, of=of)
    rows = search.least_whole(
        lambda n: enough(model.scaled_to(n, of=of)),
        start=max(1, start),
        most=MOST_ROWS,
        tolerance=0.0 if model.exact_search else 1e-3,
    )
    if rows is None:
        raise InvalidArgument("error", "reachable with 10¹⁵ rows under this model", "more", of=of)
    return rows
