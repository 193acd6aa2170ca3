"""Bayesian differential privacy: what one row reveals when rows may depend on each other (BDP)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._dp import DP
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

    def compose(self, k: Any, *, model: Any) -> BayesianDP:
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
        bayesian_dp = getattr(model, "bayesian_dp", None)
        if not callable(bayesian_dp):
            expected = "a dependence model with bayesian_dp, such as MarkovChain(...)"
            raise InvalidArgument("model", expected, model, of=of)
        if k == 1:
            return self
        return cast(BayesianDP, bayesian_dp(DP(self.epsilon).compose(k, method="basic")))

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
