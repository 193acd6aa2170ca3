"""Bayesian differential privacy: what one row reveals when rows may depend on each other (BDP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast import checks, rounding
from holdfast.stability._information import MaxInformation, printed_bayesian, sharp_pure
from holdfast.stability._notion import Notion


@dataclass(frozen=True, repr=False)
class BayesianDP(Notion):
    """Who knows some rows learns at most a factor e^epsilon about another, whatever the dependence.

    Guarantee: P[y | x_i, x_K] ≤ e^ε P[y | x_i', x_K] for every row i, every set K of known rows and all
    values.
    Assumes: the dependence model under which ε was established (``holdfast.dependence``).
    Reference: BDP Definition 2.

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

    def max_information(self, n: Any, beta: Any, *, method: str = "sharp") -> MaxInformation:
        """Max-information between ``n`` rows and the output, under any correlation.

        Guarantee: "sharp": log₂e (nε²/8 + ε√(n ln(1/β)/2)) bits; "paper": log₂e (2ε²n + ε√(2n ln(2/β))).
        Assumes: the dependence model of this record.
        Reference: BDP Theorem 3, whose (46)–(47) move a logarithm through an expectation; sharp: Holdfast.
        """
        of = "BayesianDP.max_information"
        if checks.choice(method, "method", ("paper", "sharp"), of=of) == "paper":
            return printed_bayesian(self.epsilon, n, beta, of=of)
        return sharp_pure(self.epsilon, n, beta, of=of)

    def mutual_information(self, n: Any) -> float:
        """Mutual information between ``n`` rows and the output, at most nε²/8 nats.

        Guarantee: an upper bound in nats.
        Assumes: the dependence model of this record.
        Reference: Holdfast.

        >>> round(BayesianDP(0.1).mutual_information(1000), 9)
        1.25
        """
        n = float(checks.whole(n, "n", of="BayesianDP.mutual_information"))
        return rounding.up(n * self.epsilon * self.epsilon / 8.0)
