"""Max-information: how far the joint law of data and output is from independent (SIS definition 3.10).

The formulas here return bits; the notions of privacy in ``_dp.py`` and ``_bayesian.py`` call them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._generalization import PerfectGeneralization
from holdfast.stability._notion import Notion, exp_up, log

LN2 = math.log(2.0)
_METHODS = ("paper", "sharp")
# What the composition of max-information spends of β where none is given.
_DEFAULT_SPLIT = 1e-6


@dataclass(frozen=True, repr=False)
class MaxInformation(Notion):
    """β-approximate max-information of at most ``bits`` between the data and the output.

    Guarantee: P[(X, Y) ∈ O] ≤ 2^bits P[X ⊗ Y ∈ O] + beta for every O, X ⊗ Y having the same marginals,
    independent.
    Assumes: what the theorem it came from assumed about the rows.
    Reference: SIS Definition 3.10 (Dwork, Feldman, Hardt, Pitassi, Reingold and Roth 2015).

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

    def failure(self, p: Any) -> float:
        """An event of probability ``p`` were data and output independent really has at most this probability.

        Guarantee: min(1, 2^bits p + beta).
        Assumes: ``p`` bounds the event for every output held fixed, the data drawn afresh (not checkable).
        Reference: SIS Definition 3.10.
        """
        p = checks.real(p, "p", "[0, 1]", of="MaxInformation.failure")
        return rounding.probability(exp_up(self.bits * LN2, log(p)) + self.beta)

    def compose(self, k: Any, d: Any = None, *, any_data: bool = False) -> MaxInformation:
        """``k`` such analyses of the same rows, each chosen after seeing the outputs before it.

        Guarantee: with κ = bits, kκ + log₂(1/d) bits at β(1 + 2^κ + … + 2^{(k−1)κ}) + d, for every d > 0; by
        default d = β, and 10⁻⁶ where β is 0. With ``any_data=True``: kκ bits at kβ.
        Assumes: each analysis, with the outputs before it held fixed, has this max-information with the rows.
        ``any_data=True``: for every law of the rows, dependent ones included, as outputs of few bits have (an
        output of b bits has b bits of max-information at β = 0). Bounds for independent rows are not of that
        kind: given an output, the rows depend on each other.
        Reference: Dwork et al. 2015 for every law; for a fixed law of the rows: Holdfast.

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

    def one_way(self, d: Any = None, *, method: str = "sharp") -> PerfectGeneralization:
        """The same algorithm generalises perfectly, one way, with the law of its output as simulator.

        Guarantee: "sharp": (β/d, bits · ln 2, d) for every d > 0, by default d = √β. "paper": (β̂, 2 bits ·
        ln 2, β̂) with β̂ = √(β/(1 − 2^−bits)).
        Assumes: rows drawn independently from one distribution, for every such distribution. "paper": bits >
        0.
        Reference: SIS Lemma 3.14 (its printed 2·bits reads bits as nats: valid, looser); sharp: Holdfast.

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


def sharp_pure(epsilon: float, n: Any, beta: Any, *, of: str) -> MaxInformation:
    """log₂e (nε²/8 + ε √(n ln(1/β)/2)): pure DP on independent rows, Bayesian DP on any (Holdfast)."""
    n, beta = _checked(n, beta, of, "Holdfast, sharp max-information")
    nats = n * epsilon * epsilon / 8.0 + epsilon * math.sqrt(-n * math.log(beta) / 2.0)
    return MaxInformation._bound(bits=rounding.up(nats / LN2), beta=beta)


def printed_dp(epsilon: float, n: Any, beta: Any, *, of: str) -> MaxInformation:
    """log₂e (ε²n/2 + ε √(n ln(2/β)/2)): pure DP on independent rows (Dwork et al. 2015)."""
    n, beta = _checked(n, beta, of, "Dwork et al. 2015, Theorem 20")
    nats = n * epsilon * epsilon / 2.0 + epsilon * math.sqrt(n * math.log(2.0 / beta) / 2.0)
    return MaxInformation._bound(bits=rounding.up(nats / LN2), beta=beta)


def printed_bayesian(epsilon: float, n: Any, beta: Any, *, of: str) -> MaxInformation:
    """log₂e (2ε²n + ε √(2n ln(2/β))): Bayesian DP (BDP Theorem 3)."""
    n, beta = _checked(n, beta, of, "BDP Theorem 3")
    nats = 2.0 * n * epsilon * epsilon + epsilon * math.sqrt(2.0 * n * math.log(2.0 / beta))
    return MaxInformation._bound(bits=rounding.up(nats / LN2), beta=beta)


def printed_approximate(
    epsilon: float, delta: float, n: Any, beta: Any, c: Any, big_c: Any, *, of: str
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


def sharp_approximate(epsilon: float, delta: float, n: Any, beta: Any, *, of: str) -> MaxInformation:
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
