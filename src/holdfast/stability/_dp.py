"""Differential privacy as stability: composition, groups, subsamples, and what it implies (L5, SIS 2.2).

Bayesian differential privacy (BDP) says what one row reveals when rows may depend on each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability import _composition
from holdfast.stability._generalization import (
    MaxInformation,
    PerfectGeneralization,
    printed_approximate,
    printed_bayesian,
    printed_dp,
    sharp_approximate,
    sharp_pure,
)
from holdfast.stability._notion import Notion, exp_up, log
from holdfast.typing import BoundForm, PrivacyRoute

_METHODS = ("paper", "sharp")


@dataclass(frozen=True, repr=False)
class DP(Notion):
    """(epsilon, delta)-differential privacy when one row is replaced by another.

    Guarantee: P[A(S) ∈ O] ≤ e^ε P[A(S') ∈ O] + δ for all data S, S' that differ in one row and every O.
    Assumes: nothing about the rows. Post-processing is free (SIS Lemma 2.5).
    Reference: SIS Definition 2.4.

    Args:
        epsilon: ε in nats, at least 0: how far the logarithm of a likelihood ratio may be from 0.
        delta: δ in [0, 1]: the probability of outputs that the bound by ε leaves out.

    >>> DP(0.1).compose(50, slack=1e-6, method="advanced")
    DP(epsilon=4.71692, delta=1e-06)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        by = "SIS Definition 2.4"
        self._store(
            epsilon=checks.real(self.epsilon, "epsilon", "[0, inf)", of="DP", by=by),
            delta=checks.real(self.delta, "delta", "[0, 1)", of="DP", by=by),
        )

    @property
    def vacuous(self) -> bool:
        """Whether ``delta`` has reached 1, or ``epsilon`` infinity."""
        return self.delta >= 1.0 or math.isinf(self.epsilon)

    def compose(
        self,
        k: int,
        *,
        method: Literal["basic", "advanced", "optimal"] = "optimal",
        slack: float | None = None,
    ) -> DP:
        """``k`` such mechanisms, each chosen after seeing earlier outputs; ``slack`` is the delta to spend.

        Guarantee: "basic": (kε, kδ). "advanced": (2kε² + √(2k ln(1/slack)) ε, kδ + slack). "optimal": the
        smallest ε that ``slack`` allows, and δ = 1 − (1−δ)^k (1 − slack); no slack means slack = 0, for which
        ε is kε.
        Assumes: nothing further. "advanced" without slack takes slack = kδ, which must be in (0, 1).
        Reference: L5 Theorems 1 and 2 (its ε ≤ 1 is not needed); Kairouz, Oh and Viswanath 2015, Theorem 3.3.

        Args:
            method: "basic", "advanced" or "optimal".

        >>> DP(0.1).compose(50, slack=1e-6)
        DP(epsilon=3.1729, delta=1e-06)
        """
        of = "DP.compose"
        k = checks.whole(k, "k", of=of, by="L5 Theorem 1")
        checks.choice(method, "method", ("basic", "advanced", "optimal"), of=of)
        if method == "basic":
            if slack is not None:
                raise InvalidArgument("slack", "left out for method 'basic', which spends none", slack, of=of)
            return self._times(k)
        if method == "advanced":
            return self._advanced(k, slack)
        slack = (
            0.0 if slack is None else checks.real(slack, "slack", "[0, 1)", of=of, by="Kairouz–Oh–Viswanath")
        )
        if slack == 0.0:
            epsilon = self._times(k).epsilon
        else:
            epsilon = min(self._times(k).epsilon, _composition.optimal_epsilon(self.epsilon, k, slack))
        if k == 1 and slack == 0.0:
            return self
        delta = -math.expm1(k * math.log1p(-self.delta) + math.log1p(-slack)) if self.delta < 1.0 else 1.0
        return self._bound(epsilon=epsilon, delta=rounding.probability(delta) if self.delta > 0.0 else slack)

    def _times(self, k: int) -> DP:
        if k == 1:
            return self
        return self._bound(epsilon=rounding.up(k * self.epsilon), delta=rounding.probability(k * self.delta))

    def _advanced(self, k: int, slack: float | None) -> DP:
        of, by = "DP.compose", "L5 Theorem 1"
        if slack is None:
            if self.delta == 0.0:
                raise InvalidArgument(
                    "slack", "given when delta is 0: a number in (0, 1)", slack, of=of, reference=by
                )
            if not k * self.delta < 1.0:
                raise InvalidArgument(
                    "slack",
                    f"given when k delta = {k * self.delta:g} is not below 1",
                    slack,
                    of=of,
                    reference=by,
                )
            slack = k * self.delta
        slack = checks.real(slack, "slack", "(0, 1)", of=of, by=by)
        spread = math.sqrt(-2.0 * k * math.log(slack)) * self.epsilon
        delta = rounding.probability(k * self.delta + slack) if self.delta > 0.0 else slack
        return self._bound(epsilon=rounding.up(2.0 * k * self.epsilon * self.epsilon + spread), delta=delta)

    def group(self, size: int) -> DP:
        """Protection of ``size`` rows at once: (kε, δ(e^{kε} − 1)/(e^ε − 1)), and kδ at ε = 0.

        Guarantee: for all data that differ in at most ``size`` rows.
        Assumes: nothing further.
        Reference: SIS Lemma 2.8.

        >>> DP(0.1, 1e-9).group(5)
        DP(epsilon=0.5, delta=6.16826e-09)
        """
        size = checks.whole(size, "size", of="DP.group", by="SIS Lemma 2.8")
        if size == 1 or self.delta == 0.0 or self.epsilon == 0.0:
            return self._times(size)
        total = size * self.epsilon
        # ln((e^{kε} − 1)/(e^ε − 1)) = (k−1)ε + ln((1 − e^{−kε})/(1 − e^{−ε})): nothing overflows.
        growth = math.log(math.expm1(-total) / math.expm1(-self.epsilon))
        return self._bound(
            epsilon=rounding.up(total), delta=exp_up(log(self.delta), (size - 1) * self.epsilon, growth)
        )

    def subsample(self, n: int, m: int, method: BoundForm = "sharp") -> DP:
        """The mechanism run on ``n`` rows drawn without replacement from ``m``.

        Guarantee: "sharp": (ln(1 + (n/m)(e^ε − 1)), (n/m)δ); "paper": ((n/m)(e^ε − 1), (n/m)δ).
        Assumes: a uniformly random subset that stays secret, handed over in random order (or to a mechanism
        that ignores the order: in the order of the data, one new row may move others, and the lemma fails).
        Reference: SIS Lemma 2.9; sharp: Balle, Barthe and Gaboardi 2018.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.

        >>> DP(1.0, 1e-6).subsample(100, 10_000)
        DP(epsilon=0.0170369, delta=1e-08)
        """
        of, by = "DP.subsample", "SIS Lemma 2.9"
        m = checks.whole(m, "m", of=of, by=by)
        n = checks.whole(n, "n", at_most=m, of=of, by=by)
        sharp = checks.choice(method, "method", _METHODS, of=of) == "sharp"
        if n == m and sharp:
            return self
        share = n / m
        if self.epsilon > 700.0:
            # ln((1 − share) + share e^ε), and room for the rounding error of terms this large.
            gained, slip = self.epsilon + math.log(share), 1e-15 * self.epsilon
            if sharp:
                epsilon = float(np.logaddexp(math.log1p(-share), gained)) + slip
            else:
                epsilon = math.exp(gained + slip) if gained < 709.0 else math.inf
        else:
            gained = share * math.expm1(self.epsilon)
            epsilon = math.log1p(gained) if sharp else gained
        return self._bound(epsilon=rounding.up(epsilon), delta=rounding.probability(share * self.delta))

    def _pure(self, of: str, by: str) -> None:
        if self.delta != 0.0:
            raise InvalidArgument("delta", "0 (pure differential privacy)", self.delta, of=of, reference=by)

    def max_information(
        self,
        n: int,
        beta: float,
        *,
        method: Literal["paper", "sharp", "sis"] = "sharp",
        c: float | None = None,
        C: float | None = None,  # noqa: N803 — SIS names the two constants c and C
    ) -> MaxInformation:
        """Max-information between ``n`` independent rows and the output, at ``beta``.

        Guarantee: delta = 0, "sharp": log₂e (nε²/8 + ε√(n ln(1/β)/2)) bits; "paper": log₂e (ε²n/2 + ε√(n
        ln(2/β)/2)). delta > 0, "sharp": log₂e (nε²/2 + ε√(2n ln(1/(β − nδ)))), or log₂e (nε²/8 + ε√(n
        ln(1/(β − n√δ))/2)) where that is smaller; β must exceed nδ. "sis": SIS Lemma 3.11 with the
        constants ``c`` and ``C``, which SIS leaves open.
        Assumes: independent rows (not checkable). "paper": delta = 0. "sis": ε ≤ 1/2 and δ ≤ ε/15.
        Reference: Dwork et al. 2015; SIS Lemma 3.11 (Rogers, Roth, Smith and Thakkar 2016); sharp: Holdfast.

        Args:
            method: "sharp", "paper" or "sis".

        >>> DP(0.01).max_information(n=1000, beta=0.01)
        MaxInformation(bits=0.710315, beta=0.01)
        >>> DP(0.001, 1e-12).max_information(n=1e6, beta=0.05)
        MaxInformation(bits=4.25271, beta=0.05)
        """
        of = "DP.max_information"
        checks.choice(method, "method", ("paper", "sharp", "sis"), of=of)
        if method == "sis":
            return printed_approximate(self.epsilon, self.delta, n, beta, c, C, of=of)
        for name, value in (("c", c), ("C", C)):
            if value is not None:
                raise InvalidArgument(name, "left out unless method is 'sis'", value, of=of)
        if self.delta > 0.0:
            if method == "paper":
                expected = "0 for method 'paper'; for delta > 0 use 'sis' with c and C, or 'sharp'"
                raise InvalidArgument("delta", expected, self.delta, of=of, reference="Dwork et al. 2015")
            return sharp_approximate(self.epsilon, self.delta, n, beta, of=of)
        formula = printed_dp if method == "paper" else sharp_pure
        return formula(self.epsilon, n, beta, of=of)

    def mutual_information(self, n: int) -> float:
        """Mutual information between ``n`` independent rows and the output, at most nε²/8 nats.

        Guarantee: an upper bound in nats.
        Assumes: delta is 0; independent rows (not checkable).
        Reference: Holdfast.

        >>> round(DP(0.1).mutual_information(1000), 9)
        1.25
        """
        of = "DP.mutual_information"
        self._pure(of, "Holdfast")
        return rounding.up(float(checks.whole(n, "n", of=of)) * self.epsilon * self.epsilon / 8.0)

    def perfect_generalization(
        self, n: int, beta: float, outcomes: float, *, method: BoundForm = "sharp"
    ) -> PerfectGeneralization:
        """The same algorithm generalises perfectly, both ways: (β, ε', 0) on ``n`` rows.

        Guarantee: with L = ln(2·outcomes/β), "paper": ε' = ε√(2nL); "sharp": ε√(nL/2) + nε²/8 where that is
        smaller.
        Assumes: delta is 0; independent rows from one distribution (not checkable).
        Reference: SIS Theorem 3.9 (Cummings et al. 2016); sharp: Holdfast.

        Args:
            beta: β in [0, 1]: the probability with which the bound may fail.
            outcomes: How many outputs the algorithm can have.
            method: "sharp" for the best constants, "paper" for those printed.

        >>> DP(0.001).perfect_generalization(n=1000, beta=0.01, outcomes=16)
        PerfectGeneralization(beta=0.01, epsilon=0.0636502, delta=0, kind='two-way')
        """
        of, by = "DP.perfect_generalization", "SIS Theorem 3.9"
        self._pure(of, by)
        rows = float(checks.whole(n, "n", of=of, by=by))
        beta = checks.real(beta, "beta", "(0, 1)", of=of, by=by)
        nats = math.log(2.0 * checks.whole(outcomes, "outcomes", of=of, by=by) / beta)
        printed = self.epsilon * math.sqrt(2.0 * rows * nats)
        sharp = printed / 2.0 + rows * self.epsilon * self.epsilon / 8.0
        use_sharp = checks.choice(method, "method", _METHODS, of=of) == "sharp" and sharp < printed
        return PerfectGeneralization._bound(
            beta=beta, epsilon=rounding.up(sharp if use_sharp else printed), delta=0.0, kind="two-way"
        )


class BayesianModel(Protocol):
    """A model of dependence that knows what a private mechanism reveals about its rows."""

    def bayesian_dp(self, dp: DP, method: PrivacyRoute = "sharp") -> BayesianDP:
        """The Bayesian DP of a pure DP mechanism on these rows."""
        ...


@dataclass(frozen=True, repr=False)
class BayesianDP(Notion):
    """Somebody who knows some rows learns at most a factor e^epsilon about another, whatever the dependence.

    Guarantee: P[y | x_i, x_K] ≤ e^ε P[y | x_i', x_K] for every row i, every set K of known rows and all
    values.
    Assumes: the dependence model under which ε was established (``holdfast.dependence``).
    Reference: BDP Definition 2.

    Args:
        epsilon: ε in nats, at least 0: how far the logarithm of a likelihood ratio may be from 0.

    >>> BayesianDP(0.01).max_information(n=1000, beta=0.01)
    MaxInformation(bits=0.710315, beta=0.01)
    """

    epsilon: float

    def __post_init__(self) -> None:
        self._store(
            epsilon=checks.real(self.epsilon, "epsilon", "[0, inf)", of="BayesianDP", by="BDP Definition 2")
        )

    @property
    def vacuous(self) -> bool:
        """Never: a finite epsilon always says something."""
        return False

    def compose(self, k: int, *, model: BayesianModel) -> BayesianDP:
        """``k`` such analyses of the same rows, each chosen after seeing the outputs before it.

        ``model`` is the dependence model of the rows (``holdfast.dependence``).

        Guarantee: ε-BDP with all other rows known is ε-DP; k steps are kε-DP; ``model.bayesian_dp`` says what
        that means under the model. kε itself is false: two dependent rows and two analyses of 3.0 each can
        leak 6.6 (docs/theory/composition.md).
        Assumes: the model; every combination of values is possible in it, or the steps are ε-DP.
        Reference: Holdfast. Song and Chaudhuri 2017 show that privacy about dependent rows composes only
        under conditions.

        >>> from holdfast.dependence import MarkovChain
        >>> chain = MarkovChain([[0.6, 0.4], [0.4, 0.6]], n=100)
        >>> BayesianDP(0.01).compose(10, model=chain)
        BayesianDP(epsilon=0.14998)
        """
        of = "BayesianDP.compose"
        k = checks.whole(k, "k", of=of)
        if not callable(getattr(model, "bayesian_dp", None)):
            expected = "a dependence model with bayesian_dp, such as MarkovChain(...)"
            raise InvalidArgument("model", expected, model, of=of)
        if k == 1:
            return self
        return model.bayesian_dp(DP(self.epsilon).compose(k, method="basic"))

    def max_information(self, n: int, beta: float, *, method: BoundForm = "sharp") -> MaxInformation:
        """Max-information between ``n`` rows and the output, under any correlation.

        Guarantee: "sharp": log₂e (nε²/8 + ε√(n ln(1/β)/2)) bits; "paper": log₂e (2ε²n + ε√(2n ln(2/β))).
        Assumes: the dependence model of this record.
        Reference: BDP Theorem 3, whose (46)–(47) move a logarithm through an expectation; sharp: Holdfast.

        Args:
            beta: β in [0, 1]: the probability with which the bound may fail.
            method: "sharp" for the best constants, "paper" for those printed.
        """
        of = "BayesianDP.max_information"
        if checks.choice(method, "method", ("paper", "sharp"), of=of) == "paper":
            return printed_bayesian(self.epsilon, n, beta, of=of)
        return sharp_pure(self.epsilon, n, beta, of=of)

    def mutual_information(self, n: int) -> float:
        """Mutual information between ``n`` rows and the output, at most nε²/8 nats.

        Guarantee: an upper bound in nats.
        Assumes: the dependence model of this record.
        Reference: Holdfast.

        >>> round(BayesianDP(0.1).mutual_information(1000), 9)
        1.25
        """
        rows = float(checks.whole(n, "n", of="BayesianDP.mutual_information"))
        return rounding.up(rows * self.epsilon * self.epsilon / 8.0)
