"""Perfect generalisation in its three kinds, and max-information (SIS definitions 1.2, 3.4, 3.7 and 3.10).

Max-information says how far the joint law of data and output is from independent. Its formulas return bits;
the notions of privacy in ``_dp.py`` call them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._notion import Notion, exp_up, log
from holdfast.stability._replicability import Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability
from holdfast.typing import BoundForm, GeneralizationKind

KINDS = ("two-way", "one-way", "sample")
_METHODS = ("paper", "sharp")
LN2 = math.log(2.0)
# The default share of β that the composition of max-information spends.
_DEFAULT_SPLIT = 1e-6


@dataclass(frozen=True, repr=False)
class PerfectGeneralization(Notion):
    """What can be learned from the output could have been learned from the distribution alone.

    Guarantee: for every distribution D of the rows, except with probability beta over the data S,
    "two-way": A(S) ≈ Sim_D up to (epsilon, delta), both ways; "one-way": only P[A(S) ∈ O] ≤ e^ε Sim_D(O) + δ;
    "sample": A(S) ≈ A(S') up to (epsilon, delta) except with probability beta over two independent samples.
    Assumes: rows drawn independently from D.
    Reference: SIS Definitions 1.2, 3.7 and 3.4 (Cummings, Ligett, Nissim, Roth and Wu 2016).

    Args:
        beta: β in [0, 1]: the probability with which the bound may fail.
        epsilon: ε in nats, at least 0: how far the logarithm of a likelihood ratio may be from 0.
        delta: δ in [0, 1]: the probability of outputs that the bound by ε leaves out.
        kind: "two-way", "one-way" or "sample".

    >>> PerfectGeneralization(0.01, 0.02, 0.001, kind="one-way").replicability()
    Replicability(rho=0.0624739)
    """

    beta: float
    epsilon: float
    delta: float
    kind: GeneralizationKind = "two-way"

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

    def sample(self, *, method: BoundForm = "sharp") -> PerfectGeneralization:
        """Two-way ⇒ sample: (2β − β², 2ε, (1 + e^ε)δ); "paper" keeps the printed 3δ, for ε ≤ ln 2.

        Guarantee: the same algorithm, compared on two independent samples.
        Assumes: kind "two-way".
        Reference: SIS Lemma 3.5; its printed β in place of 2β − β² is false, and so is 3δ beyond ε = ln 2.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.

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

    def two_way(self, d: float | None = None, *, method: BoundForm = "sharp") -> PerfectGeneralization:
        """One-way or sample ⇒ two-way.

        Guarantee: from "one-way": (β, 0, 1 − (1−δ)e^{−ε}), "paper" (β, 0, 2ε + δ). From "sample": (β/d, ε, δ
        + d) for every d > 0, by default (and always for "paper") d = √β.
        Assumes: kind "one-way" or "sample".
        Reference: SIS Lemmas 3.8 and 3.6; sharp form of 3.8: Holdfast.

        Args:
            d: A free parameter of the proof, in (0, 1]. None: √β.
            method: "sharp" for the best constants, "paper" for those printed.

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

    def compose(self, k: int, *, slack: float) -> PerfectGeneralization:
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

    def total_variation(self, *, method: BoundForm = "sharp") -> float:
        """Total variation between A(S) and the simulator, except with probability beta over S.

        Guarantee: "sharp": 1 − (1−δ)e^{−ε}; "paper": 2ε + δ.
        Assumes: kind "one-way" or "two-way".
        Reference: SIS Lemma 3.8; sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.

        >>> round(PerfectGeneralization(0.0, 0.1, 0.0, kind="one-way").total_variation(method="paper"), 9)
        0.2
        """
        of = self._of_kind("total_variation", ("one-way", "two-way"), "SIS Lemma 3.8")
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            return rounding.probability(2.0 * self.epsilon + self.delta)
        if self.delta >= 1.0:
            return 1.0
        return rounding.probability(-math.expm1(math.log1p(-self.delta) - self.epsilon))

    def replicability(self, method: BoundForm = "sharp") -> Replicability:
        """Algorithm 2 (correlated sampling from the law of A(S)) is replicable.

        Guarantee: "sharp": 1 − (1−β)²(1−d)/(1+d) with d = min(1, e^ε − 1 + 2δ); "paper": 4(β + 2ε + δ).
        Assumes: kind "one-way" or "two-way"; finitely many outcomes; the sampling is explicit but not
        efficient.
        Reference: SIS Theorem 3.17; sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.
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


@dataclass(frozen=True, repr=False)
class MaxInformation(Notion):
    """β-approximate max-information of at most ``bits`` between the data and the output.

    Guarantee: P[(X, Y) ∈ O] ≤ 2^bits P[X ⊗ Y ∈ O] + beta for every O, X ⊗ Y having the same marginals,
    independent.
    Assumes: what the theorem it came from assumed about the rows.
    Reference: SIS Definition 3.10 (Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015).

    Args:
        beta: β in [0, 1]: the probability with which the bound may fail.

    >>> round(MaxInformation(bits=2.0, beta=0.01).failure(0.001), 6)
    0.014
    """

    bits: float
    beta: float

    def __post_init__(self) -> None:
        self._store(
            bits=checks.real(self.bits, "bits", "[0, inf)", of="MaxInformation", by="SIS Definition 3.10"),
            beta=checks.real(self.beta, "beta", "[0, 1)", of="MaxInformation", by="SIS Lemma 3.14"),
        )

    @property
    def vacuous(self) -> bool:
        """Whether ``beta`` has reached 1, or ``bits`` infinity."""
        return self.beta >= 1.0 or math.isinf(self.bits)

    def failure(self, p: float) -> float:
        """How likely an event is, at most, if it would have probability ``p`` with independent data and
        output.

        Guarantee: min(1, 2^bits p + beta).
        Assumes: ``p`` bounds the event for every output held fixed, the data drawn afresh (not checkable).
        Reference: SIS Definition 3.10.
        """
        p = checks.real(p, "p", "[0, 1]", of="MaxInformation.failure")
        return rounding.probability(exp_up(self.bits * LN2, log(p)) + self.beta)

    def compose(self, k: int, d: float | None = None, *, any_data: bool = False) -> MaxInformation:
        """``k`` such analyses of the same rows, each chosen after seeing the outputs before it.

        Guarantee: with κ = bits, kκ + log₂(1/d) bits at β(1 + 2^κ + … + 2^{(k−1)κ}) + d, for every d > 0; by
        default d = β, and 10⁻⁶ where β is 0. With ``any_data=True``: kκ bits at kβ.
        Assumes: each analysis, with the outputs before it held fixed, has this max-information with the rows.
        ``any_data=True``: for every law of the rows, dependent ones included, as outputs of few bits have (an
        output of b bits has b bits of max-information at β = 0). Bounds for independent rows are not of that
        kind: given an output, the rows depend on each other.
        Reference: Dwork et al. 2015 for every law; for a fixed law of the rows: Holdfast.

        Args:
            d: A free parameter of the proof, in (0, 1). None: β, or 10⁻⁶ where β is 0.

        >>> MaxInformation(bits=3.0, beta=0.0).compose(10, any_data=True)
        MaxInformation(bits=30, beta=0)
        >>> MaxInformation(bits=0.1, beta=1e-6).compose(10)
        MaxInformation(bits=20.9316, beta=1.49327e-05)
        """
        of, by = "MaxInformation.compose", "Holdfast, composition of max-information"
        k = checks.whole(k, "k", of=of, by=by)
        if not isinstance(any_data, bool):
            raise InvalidArgument("any_data", "True or False", any_data, of=of)
        if any_data and d is not None:
            raise InvalidArgument("d", "left out with any_data=True", d, of=of, reference=by)
        if d is not None:
            d = checks.real(d, "d", "(0, 1)", of=of, by=by)
        if k == 1:
            return self
        bits = rounding.up(k * self.bits)
        if any_data:
            return self._bound(bits=bits, beta=rounding.probability(k * self.beta))
        d = d or self.beta or _DEFAULT_SPLIT
        nats = self.bits * LN2
        # ln(1 + e^a + … + e^{(k−1)a}), without overflow.
        growth = (k - 1) * nats + math.log(math.expm1(-k * nats) / math.expm1(-nats)) if nats else log(k)
        beta = rounding.probability(exp_up(log(self.beta), growth) + d)
        return self._bound(bits=rounding.up(bits - math.log2(d)), beta=beta)

    def one_way(self, d: float | None = None, *, method: BoundForm = "sharp") -> PerfectGeneralization:
        """The same algorithm generalises perfectly, one way, with the law of its output as simulator.

        Guarantee: "sharp": (β/d, bits · ln 2, d) for every d > 0, by default d = √β. "paper": (β̂, 2 bits ·
        ln 2, β̂) with β̂ = √(β/(1 − 2^−bits)).
        Assumes: rows drawn independently from one distribution, for every such distribution. "paper": bits >
        0.
        Reference: SIS Lemma 3.14 (its printed 2·bits reads bits as nats: valid, looser); sharp: Holdfast.

        Args:
            d: A free parameter of the proof, in (0, 1]. None: √β.
            method: "sharp" for the best constants, "paper" for those printed.

        >>> MaxInformation(bits=0.5, beta=1e-4).one_way()
        PerfectGeneralization(beta=0.01, epsilon=0.346574, delta=0.01, kind='one-way')
        """
        of = "MaxInformation.one_way"
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            if d is not None:
                raise InvalidArgument(
                    "d", "left out for method 'paper'", d, of=of, reference="SIS Lemma 3.14"
                )
            if not self.bits > 0.0:
                raise InvalidArgument("bits", "above 0", self.bits, of=of, reference="SIS Lemma 3.14")
            hat = rounding.probability(math.sqrt(self.beta / -math.expm1(-self.bits * LN2)))
            epsilon = rounding.up(2.0 * self.bits * LN2)
            return PerfectGeneralization._bound(beta=hat, epsilon=epsilon, delta=hat, kind="one-way")
        if d is None:
            d = math.sqrt(self.beta)
        else:
            d = checks.real(d, "d", "(0, 1]", of=of, by="Holdfast, Lemma 3.14")
        return PerfectGeneralization._bound(
            beta=rounding.probability(self.beta / d) if self.beta > 0.0 else 0.0,
            epsilon=rounding.up(self.bits * LN2),
            delta=d,
            kind="one-way",
        )


def _checked(n: Any, beta: Any, of: str, by: str) -> tuple[float, float]:
    return float(checks.whole(n, "n", of=of, by=by)), checks.real(beta, "beta", "(0, 1)", of=of, by=by)


def sharp_pure(epsilon: float, n: float, beta: float, *, of: str) -> MaxInformation:
    """log₂e (nε²/8 + ε √(n ln(1/β)/2)): pure DP on independent rows, Bayesian DP on any (Holdfast)."""
    n, beta = _checked(n, beta, of, "Holdfast, sharp max-information")
    nats = n * epsilon * epsilon / 8.0 + epsilon * math.sqrt(-n * math.log(beta) / 2.0)
    return MaxInformation._bound(bits=rounding.up(nats / LN2), beta=beta)


def printed_dp(epsilon: float, n: float, beta: float, *, of: str) -> MaxInformation:
    """log₂e (ε²n/2 + ε √(n ln(2/β)/2)): pure DP on independent rows (Dwork et al. 2015)."""
    n, beta = _checked(n, beta, of, "Dwork et al. 2015, Theorem 20")
    nats = n * epsilon * epsilon / 2.0 + epsilon * math.sqrt(n * math.log(2.0 / beta) / 2.0)
    return MaxInformation._bound(bits=rounding.up(nats / LN2), beta=beta)


def printed_bayesian(epsilon: float, n: float, beta: float, *, of: str) -> MaxInformation:
    """log₂e (2ε²n + ε √(2n ln(2/β))): Bayesian DP (BDP Theorem 3)."""
    n, beta = _checked(n, beta, of, "BDP Theorem 3")
    nats = 2.0 * n * epsilon * epsilon + epsilon * math.sqrt(2.0 * n * math.log(2.0 / beta))
    return MaxInformation._bound(bits=rounding.up(nats / LN2), beta=beta)


def printed_approximate(
    epsilon: float, delta: float, n: float, beta: float, c: Any, big_c: Any, *, of: str
) -> MaxInformation:
    """SIS Lemma 3.11: nC(ε² + √(δ/ε)) + 6tε√n bits at β = e^{−t²/2} + cn√(δ/ε), with the caller's c and C."""
    by = "SIS Lemma 3.11"
    n, beta = _checked(n, beta, of, by)
    for name, value in (("c", c), ("C", big_c)):
        if value is None:
            raise InvalidArgument(name, "given, since SIS does not state it", value, of=of, reference=by)
    c = checks.real(c, "c", "(0, inf)", of=of, by=by)
    big_c = checks.real(big_c, "C", "(0, inf)", of=of, by=by)
    if not 0.0 < epsilon <= 0.5:
        raise InvalidArgument("epsilon", "a number in (0, 0.5]", epsilon, of=of, reference=by)
    if not delta <= epsilon / 15.0:
        raise InvalidArgument("delta", f"at most epsilon/15 = {epsilon / 15.0:g}", delta, of=of, reference=by)
    root = math.sqrt(delta / epsilon)
    left = beta - c * n * root
    if not left > 0.0:
        raise InvalidArgument(
            "beta", f"above c n √(delta/epsilon) = {c * n * root:g}", beta, of=of, reference=by
        )
    t = math.sqrt(-2.0 * math.log(left))
    return MaxInformation._bound(
        bits=rounding.up(n * big_c * (epsilon * epsilon + root) + 6.0 * t * epsilon * math.sqrt(n)), beta=beta
    )


def sharp_approximate(epsilon: float, delta: float, n: float, beta: float, *, of: str) -> MaxInformation:
    """Approximate DP on independent rows: the better of two clamps of the likelihood ratio (Holdfast).

    Clamping each row's likelihood ratio to an interval of log-length 2ε costs nδ of β, to one of log-length ε
    it costs n√δ. With what is left of β the pure bound holds for that length:
    log₂e (nε²/2 + ε √(2n ln(1/(β − nδ)))) and log₂e (nε²/8 + ε √(n ln(1/(β − n√δ))/2)).
    """
    by = "Holdfast, approximate DP"
    n, beta = _checked(n, beta, of, by)
    if not n * delta < 1.0:
        raise InvalidArgument("delta", f"below 1/n = {1.0 / n:g} for {n:g} rows", delta, of=of, reference=by)
    bounds = []
    for length, spent in ((2.0 * epsilon, n * delta), (epsilon, n * math.sqrt(delta))):
        left = rounding.down(beta - rounding.up(spent))
        if left > 0.0:
            bounds.append(n * length * length / 8.0 + length * math.sqrt(-n * math.log(left) / 2.0))
    if not bounds:
        raise InvalidArgument("beta", f"above n delta = {n * delta:g}", beta, of=of, reference=by)
    return MaxInformation._bound(bits=rounding.up(min(bounds) / LN2), beta=beta)
