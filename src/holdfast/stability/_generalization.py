"""Perfect generalisation in its three kinds (SIS definitions 1.2, 3.4 and 3.7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._notion import Notion, exp_up, log
from holdfast.stability._replicability import Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability

KINDS = ("two-way", "one-way", "sample")
_METHODS = ("paper", "sharp")


@dataclass(frozen=True, repr=False)
class PerfectGeneralization(Notion):
    """What can be learned from the output could have been learned from the distribution alone.

    Guarantee: for every distribution D of the rows, except with probability beta over the data S,
    "two-way": A(S) ≈ Sim_D up to (epsilon, delta), both ways; "one-way": only P[A(S) ∈ O] ≤ e^ε Sim_D(O) + δ;
    "sample": A(S) ≈ A(S') up to (epsilon, delta) except with probability beta over two independent samples.
    Assumes: rows drawn independently from D.
    Reference: SIS Definitions 1.2, 3.7 and 3.4 (Cummings, Ligett, Nissim, Roth and Wu 2016).

    >>> PerfectGeneralization(0.01, 0.02, 0.001, kind="one-way").replicability()
    Replicability(rho=0.0624739)
    """

    beta: float
    epsilon: float
    delta: float
    kind: str = "two-way"

    def __post_init__(self) -> None:
        of, by = "PerfectGeneralization", "SIS Definition 1.2"
        self._store(
            beta=checks.real(self.beta, "beta", "[0, 1]", of=of, by=by),
            epsilon=checks.real(self.epsilon, "epsilon", "[0, inf)", of=of, by=by),
            delta=checks.real(self.delta, "delta", "[0, 1]", of=of, by=by),
            kind=checks.choice(self.kind, "kind", KINDS, of=of, by=by),
        )

    @property
    def vacuous(self) -> bool:
        """Whether ``beta`` or ``delta`` has reached 1, or ``epsilon`` infinity."""
        return self.beta >= 1.0 or self.delta >= 1.0 or math.isinf(self.epsilon)

    def _of_kind(self, method: str, kinds: tuple[str, ...], by: str) -> str:
        of = f"PerfectGeneralization.{method}"
        if self.kind not in kinds:
            raise InvalidArgument("kind", " or ".join(map(repr, kinds)), self.kind, of=of, reference=by)
        return of

    def sample(self, *, method: str = "sharp") -> PerfectGeneralization:
        """Two-way ⇒ sample: (2β − β², 2ε, (1 + e^ε)δ); "paper" keeps the printed 3δ, for ε ≤ ln 2.

        Guarantee: the same algorithm, compared on two independent samples.
        Assumes: kind "two-way".
        Reference: SIS Lemma 3.5; its printed β in place of 2β − β² is false, and so is 3δ beyond ε = ln 2.

        >>> PerfectGeneralization(0.01, 0.1, 1e-6).sample()
        PerfectGeneralization(beta=0.0199, epsilon=0.2, delta=2.10517e-06, kind='sample')
        """
        of = self._of_kind("sample", ("two-way",), "SIS Lemma 3.5")
        delta = self.delta + exp_up(self.epsilon, log(self.delta))
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            if not self.epsilon <= math.log(2.0):
                raise InvalidArgument(
                    "epsilon", "at most ln 2", self.epsilon, of=of, reference="SIS Lemma 3.5"
                )
            delta = 3.0 * self.delta
        return self._bound(
            beta=rounding.probability(self.beta * (2.0 - self.beta)),
            epsilon=rounding.up(2.0 * self.epsilon),
            delta=rounding.probability(delta),
            kind="sample",
        )

    def one_way(self) -> PerfectGeneralization:
        """Two-way ⇒ one-way with the same numbers: half of the definition is dropped.

        Guarantee: the same algorithm and simulator.
        Assumes: kind "two-way".
        Reference: SIS Definition 3.7.

        >>> PerfectGeneralization(0.01, 0.1, 0.0).one_way()
        PerfectGeneralization(beta=0.01, epsilon=0.1, delta=0, kind='one-way')
        """
        self._of_kind("one_way", ("two-way",), "SIS Definition 3.7")
        return self._bound(beta=self.beta, epsilon=self.epsilon, delta=self.delta, kind="one-way")

    def two_way(self, d: Any = None, *, method: str = "sharp") -> PerfectGeneralization:
        """One-way or sample ⇒ two-way.

        Guarantee: from "one-way": (β, 0, 1 − (1−δ)e^{−ε}), "paper" (β, 0, 2ε + δ). From "sample": (β/d, ε, δ
        + d) for every d > 0, by default (and always for "paper") d = √β.
        Assumes: kind "one-way" or "sample".
        Reference: SIS Lemmas 3.8 and 3.6; sharp form of 3.8: Holdfast.

        >>> PerfectGeneralization(0.01, 0.1, 0.0, kind="one-way").two_way()
        PerfectGeneralization(beta=0.01, epsilon=0, delta=0.0951626, kind='two-way')
        """
        of = self._of_kind("two_way", ("one-way", "sample"), "SIS Lemmas 3.6 and 3.8")
        checks.choice(method, "method", _METHODS, of=of)
        if d is not None and (self.kind == "one-way" or method == "paper"):
            raise InvalidArgument("d", "left out here", d, of=of, reference="SIS Lemmas 3.6 and 3.8")
        if self.kind == "one-way":
            return self._bound(
                beta=self.beta, epsilon=0.0, delta=self.total_variation(method=method), kind="two-way"
            )
        d = math.sqrt(self.beta) if d is None else checks.real(d, "d", "(0, 1]", of=of, by="SIS Lemma 3.6")
        return self._bound(
            beta=rounding.probability(self.beta / d) if self.beta > 0.0 else 0.0,
            epsilon=self.epsilon,
            delta=rounding.probability(self.delta + d),
            kind="two-way",
        )

    def compose(self, k: Any, *, slack: Any) -> PerfectGeneralization:
        """``k`` such analyses of the same rows, each chosen after seeing the outputs before it.

        Guarantee: "two-way": (β + 2(k − 1)βe^{ε'}/slack, ε', slack), ε' the smallest with exact composed
        δ_k(ε') ≤ slack/2. "one-way": (β + (k − 1)βe^{kε}/s, kε, slack), where s = slack − 1 + (1 − δ)^k.
        "sample": by way of "two-way" and back, with the best split of β.
        Assumes: each analysis, with the outputs before it held fixed, generalises perfectly with these
        numbers. ``slack`` must leave room for k times δ; the message names one that does.
        Reference: TS Theorem 4.8 on product distributions; constants: Holdfast, sharp composition.

        >>> PerfectGeneralization(1e-12, 0.01, 0.0).compose(100, slack=1e-5)
        PerfectGeneralization(beta=2.82336e-05, epsilon=0.354832, delta=1e-05, kind='two-way')
        """
        of = "PerfectGeneralization.compose"
        k = checks.whole(k, "k", of=of, by="TS Theorem 4.8")
        slack = checks.real(slack, "slack", "(0, 1)", of=of, by="TS Theorem 4.8")
        if k == 1 or self.vacuous:
            return self
        if self.kind == "one-way":
            return self._composed_one_way(k, slack, of)
        steps = {"eta": self.epsilon, "tau": self.delta, "nu": self.beta}
        form = TypicalStability if self.kind == "two-way" else TwoSampleStability
        composed: Any = form._bound(**steps).compose(k, slack=slack)
        return self._bound(beta=composed.nu, epsilon=composed.eta, delta=composed.tau, kind=self.kind)

    def _composed_one_way(self, k: int, slack: float, of: str) -> PerfectGeneralization:
        """One-way closeness composes linearly: its losses are bounded from one side only."""
        lost = rounding.up(-math.expm1(k * math.log1p(-self.delta))) if self.delta < 1.0 else 1.0
        room = rounding.down(slack - lost)
        if self.beta > 0.0 and not room > 0.0:
            expected = f"above 1 − (1 − delta)^k = {lost:g}"
            raise InvalidArgument("slack", expected, slack, of=of, reference="Holdfast, sharp composition")
        epsilon = rounding.up(k * self.epsilon)
        later = exp_up(log(k - 1), log(self.beta), epsilon, -math.log(room)) if self.beta > 0.0 else 0.0
        return self._bound(
            beta=rounding.probability(self.beta + later) if self.beta > 0.0 else 0.0,
            epsilon=epsilon,
            delta=slack if self.beta > 0.0 else lost,
            kind="one-way",
        )

    def total_variation(self, *, method: str = "sharp") -> float:
        """Total variation between A(S) and the simulator, except with probability beta over S.

        Guarantee: "sharp": 1 − (1−δ)e^{−ε}; "paper": 2ε + δ.
        Assumes: kind "one-way" or "two-way".
        Reference: SIS Lemma 3.8; sharp: Holdfast.

        >>> round(PerfectGeneralization(0.0, 0.1, 0.0, kind="one-way").total_variation(method="paper"), 9)
        0.2
        """
        of = self._of_kind("total_variation", ("one-way", "two-way"), "SIS Lemma 3.8")
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            return rounding.probability(2.0 * self.epsilon + self.delta)
        if self.delta >= 1.0:
            return 1.0
        return rounding.probability(-math.expm1(math.log1p(-self.delta) - self.epsilon))

    def replicability(self, method: str = "sharp") -> Replicability:
        """Algorithm 2 (correlated sampling from the law of A(S)) is replicable.

        Guarantee: "sharp": 1 − (1−β)²(1−d)/(1+d) with d = min(1, e^ε − 1 + 2δ); "paper": 4(β + 2ε + δ).
        Assumes: kind "one-way" or "two-way"; finitely many outcomes; the sampling is explicit but not
        efficient.
        Reference: SIS Theorem 3.17; sharp: Holdfast.
        """
        of = self._of_kind("replicability", ("one-way", "two-way"), "SIS Theorem 3.17")
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            return Replicability(rounding.probability(4.0 * (self.beta + 2.0 * self.epsilon + self.delta)))
        d = rounding.up(math.expm1(min(self.epsilon, 1.0)) + 2.0 * self.delta)
        if not d < 1.0:
            return Replicability(1.0)
        kept = 1.0 - self.beta
        # 1 − (1−β)²(1−d)/(1+d) without the cancellation at small β and d.
        return Replicability(
            rounding.probability(self.beta * (1.0 + kept) + 2.0 * d / (1.0 + d) * kept * kept)
        )
