"""Typical stability in its two forms (TS definitions 2.2 and 2.3), and its adaptive composition.

The printed composition theorems and the sharp one return (η*, τ*, ν*) in oracle form. Everything exponential
is summed in logarithms, so that k = 10⁶, ν = 1e−300 and a slack of 1e−200 do not overflow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability import _composition
from holdfast.stability._notion import Notion, exp_up, log
from holdfast.typing import BoundForm

_METHODS = ("paper", "sharp")
# Shares of the room of τ that a composition in two-sample form tries to spend on ν.
_SPLITS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7)
_OF = "TypicalStability.compose"
# The smallest positive float is exp(−745): once an exponent is this large, no positive ν can hold τ* below 1.
_HOPELESS = 3000.0
_MOST_TERMS = 4_000_000


@dataclass(frozen=True, repr=False)
class _Typical(Notion):
    """Three numbers: indistinguishable up to (eta, tau), except with probability nu over the data."""

    eta: float
    tau: float = 0.0
    nu: float = 0.0

    def __post_init__(self) -> None:
        of = type(self).__name__
        self._store(
            eta=checks.real(self.eta, "eta", "[0, inf)", of=of, by="TS Definition 2.1"),
            tau=checks.real(self.tau, "tau", "[0, 1)", of=of, by="TS Definition 2.1"),
            nu=checks.real(self.nu, "nu", "[0, 1)", of=of, by="TS Definition 2.2"),
        )

    @property
    def vacuous(self) -> bool:
        """Whether ``tau`` or ``nu`` has reached 1, or ``eta`` infinity."""
        return self.tau >= 1.0 or self.nu >= 1.0 or math.isinf(self.eta)

    def _printed_domain(self, of: str, by: str) -> None:
        for name, value, limit in (("eta", self.eta, 1.0), ("nu", self.nu, 0.1)):
            if not value < limit:
                raise InvalidArgument(name, f"a number in [0, {limit:g})", value, of=of, reference=by)

    def failure(self, query_tail: float, method: BoundForm = "sharp") -> float:
        """A query chosen by this algorithm misses its radius with at most this probability.

        ``query_tail`` is ν_q, the probability with which a query fixed in advance misses that radius.

        Guarantee: P(|q(X) − E q| > α) ≤ e^η ν_q + ν + τ over data and coins, for the q that the algorithm
        returned; "paper" adds 4ν more, and with ν_q = ν it is the printed (e^η + 5)ν + τ.
        Assumes: every query it can return has tail ν_q at its radius (not checkable). "paper": η < 1 and ν <
        1/10.
        Reference: TS Theorem 3.4, whose conditions η < 1 and ν < 1/10 are missing in print; sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.

        >>> round(TypicalStability(0.5, nu=1e-6).failure(1e-6), 9)
        2.649e-06
        """
        of = f"{type(self).__name__}.failure"
        query_tail = checks.real(query_tail, "query_tail", "[0, 1]", of=of)
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            self._printed_domain(of, "TS Theorem 3.4")
        added = 5.0 * self.nu if method == "paper" else self.nu
        return rounding.probability(exp_up(self.eta, log(query_tail)) + added + self.tau)


@dataclass(frozen=True, repr=False)
class TypicalStability(_Typical):
    """Oracle form: A(X) is (eta, tau)-indistinguishable from an oracle W(P), except with probability nu.

    Guarantee: with probability ≥ 1 − ν over X ~ P, both P[A(X) ∈ O] ≤ e^η P[W ∈ O] + τ and the reverse, for
    every O.
    Assumes: P from the family the mechanism was built for; rows may depend on each other.
    Reference: TS Definition 2.2 (TS1 Definition 2.3). Post-processing is free (TS Lemma 3.1).

    Args:
        eta: η, at least 0: how far the logarithm of a likelihood ratio may be from 0.
        tau: τ in [0, 1]: the probability of outputs that the bound by η leaves out.
        nu: ν in [0, 1]: the probability of samples for which nothing is promised.

    >>> TypicalStability(0.01, nu=1e-12).compose(100, slack=1.65e-5)
    TypicalStability(eta=0.341271, tau=1.65e-05, nu=1.68808e-05)
    """

    def compose(self, k: int, *, slack: float, method: BoundForm = "sharp") -> TypicalStability:
        """``k`` such steps, each chosen after seeing the outputs before it.

        Guarantee: "sharp": (ε, slack, ν + 2(k − 1)ν e^ε / slack), ε the smallest with exact composed δ_k(ε) ≤
        slack/2. "paper": TS Theorem 4.2 if tau is 0, else TS Theorem 4.8 (η ≤ 3/2, τ ≤ η/50), with τ' =
        slack. One step is itself, with both methods.
        Assumes: each step, with the outputs before it held fixed, is (η, τ, ν)-typically stable in oracle
        form. "sharp" needs slack/2 ≥ 1 − (1 − τ)^k if k ≥ 2; a smaller slack is refused, and the message
        names one that suffices.
        Reference: TS Theorems 4.2 and 4.8; sharp: Holdfast with Kairouz, Oh and Viswanath's exact
        composition.

        Args:
            slack: The probability that composition may spend.
            method: "sharp" for the best constants, "paper" for those printed.

        >>> TypicalStability(0.01, nu=1e-12).compose(100, slack=1e-9, method="paper")
        TypicalStability(eta=1.96152, tau=0.0158237, nu=0.0158237)
        """
        of = "TypicalStability.compose"
        k = checks.whole(k, "k", of=of, by="TS Theorem 4.2")
        slack = checks.real(slack, "slack", "(0, 1)", of=of, by="TS Theorem 4.2")
        checks.choice(method, "method", _METHODS, of=of)
        if k == 1 or self.vacuous:
            # Nothing is composed. TS 4.2 is printed for k ≥ 2; extended to k = 1 it is false for η > 25/ν.
            return self
        if method == "sharp":
            eta, tau, nu = compose_sharp(self.eta, self.tau, self.nu, k, slack)
        elif self.tau == 0.0:
            eta, tau, nu = compose_pure(self.eta, self.nu, k, slack)
        else:
            eta, tau, nu = compose_approximate(self.eta, self.tau, self.nu, k, slack)
        return TypicalStability._bound(eta=eta, tau=tau, nu=nu)

    def compose_nonadaptive(self, k: int) -> TypicalStability:
        """``k`` such algorithms, all fixed in advance, with independent coins: (kη, kτ, kν).

        Guarantee: oracle form, each probability capped at 1.
        Assumes: no algorithm is chosen after seeing an output of another.
        Reference: TS Lemma 3.2.

        >>> TypicalStability(0.1, nu=1e-9).compose_nonadaptive(10)
        TypicalStability(eta=1, tau=0, nu=1e-08)
        """
        k = checks.whole(k, "k", of="TypicalStability.compose_nonadaptive", by="TS Lemma 3.2")
        if k == 1:
            return self
        return TypicalStability._bound(
            eta=rounding.up(k * self.eta),
            tau=rounding.probability(k * self.tau),
            nu=rounding.probability(k * self.nu),
        )

    def two_sample(self) -> TwoSampleStability:
        """The same algorithm in two-sample form: (2η, (1 + e^η)τ, 2ν).

        Guarantee: A(X) ≈ A(Y) with those numbers, X and Y independent.
        Assumes: nothing further.
        Reference: TS 2.1; the printed 3τ holds only for η ≤ ln 2.

        >>> TypicalStability(0.1, 1e-6, 1e-9).two_sample()
        TwoSampleStability(eta=0.2, tau=2.10517e-06, nu=2e-09)
        """
        return TwoSampleStability._bound(
            eta=rounding.up(2.0 * self.eta),
            tau=rounding.probability(self.tau + exp_up(self.eta, log(self.tau))),
            nu=rounding.probability(2.0 * self.nu),
        )


@dataclass(frozen=True, repr=False)
class TwoSampleStability(_Typical):
    """Two-sample form: A(X) and A(Y) are (eta, tau)-indistinguishable, except with probability nu.

    Guarantee: with probability ≥ 1 − ν over independent X, Y, each of A(X), A(Y) is within (η, τ) of the
    other.
    Assumes: P from the family the mechanism was built for; rows may depend on each other.
    Reference: TS Definition 2.3. TS1 Definition 2.2 asks for a set of data all of whose pairs are close,
    which is more.

    Args:
        eta: η, at least 0: how far the logarithm of a likelihood ratio may be from 0.
        tau: τ in [0, 1]: the probability of outputs that the bound by η leaves out.
        nu: ν in [0, 1]: the probability of samples for which nothing is promised.

    >>> TwoSampleStability(0.2, nu=1e-9).near_independence()
    (0.2, 1e-09)
    """

    def oracle(self, d: float | None = None) -> TypicalStability:
        """The same algorithm in oracle form, the oracle being A(Y) for a fresh Y: (η, τ + d, ν/d).

        Guarantee: for every d > 0, by default √ν.
        Assumes: nothing further; any law of the rows. At most a share ν/d of the data have more than a share
        d of bad partners; for the others, average over the partner.
        Reference: SIS Lemma 3.6, whose proof needs no independence.

        Args:
            d: A free parameter of the proof, in (0, 1). None: √ν.

        >>> TwoSampleStability(0.1, 0.0, 1e-8).oracle()
        TypicalStability(eta=0.1, tau=0.0001, nu=0.0001)
        """
        of, by = "TwoSampleStability.oracle", "SIS Lemma 3.6"
        d = math.sqrt(self.nu) if d is None else checks.real(d, "d", "(0, 1)", of=of, by=by)
        return TypicalStability._bound(
            eta=self.eta,
            tau=rounding.probability(self.tau + d) if d > 0.0 else self.tau,
            nu=rounding.probability(self.nu / d) if self.nu > 0.0 else 0.0,
        )

    def compose(self, k: int, *, slack: float) -> TwoSampleStability:
        """``k`` such steps, each chosen after seeing the outputs before it.

        Guarantee: through the oracle form and back, at the best split d of ν on a grid.
        Assumes: each step, with the outputs before it held fixed, is (η, τ, ν)-stable in two-sample form;
        ``slack`` as for ``TypicalStability.compose``, which composes it.
        Reference: SIS Lemma 3.6, TS 2.1 and Holdfast, sharp composition.

        >>> TwoSampleStability(0.01, nu=1e-20).compose(10, slack=1e-5)
        TwoSampleStability(eta=0.190332, tau=2.09984e-05, nu=7.91885e-06)
        """
        of = "TwoSampleStability.compose"
        k = checks.whole(k, "k", of=of, by="TS Theorem 4.2")
        slack = checks.real(slack, "slack", "(0, 1)", of=of, by="TS Theorem 4.2")
        if k == 1 or self.vacuous:
            return self
        if self.nu == 0.0:
            return self.oracle().compose(k, slack=slack).two_sample()
        # Half of the slack must cover 1 − (1 − τ − d)^k. This is the largest d that it covers.
        room = -math.expm1(math.log1p(-slack / 2.0) / k) - self.tau
        if not room > 0.0:
            enough = -2.0 * math.expm1(k * math.log1p(-self.tau)) * (1.0 + 1e-9)
            expected = f"above {enough:.6g} for k = {k}, so that ν has room"
            raise InvalidArgument("slack", expected, slack, of=of, reference="Holdfast, sharp composition")
        composed = [
            self.oracle(share * room).compose(k, slack=slack).two_sample()
            for share in _SPLITS
            if share * room < 1.0
        ]
        return min(composed, key=lambda stability: (stability.nu >= 1.0, stability.eta, stability.nu))

    def near_independence(self, method: BoundForm = "sharp") -> tuple[float, float]:
        """Data and output are almost independent: (η, additive term).

        Guarantee: P[(X, A(X)) ∈ O] ≤ e^η P[(X, A(Y)) ∈ O] + τ + ν for every O, with Y an independent copy of
        X; "paper" has τ + 5ν.
        Assumes: "paper": η < 1 and ν < 1/10; "sharp": nothing.
        Reference: TS Lemma 3.3 (TS1 Lemma 2.6 prints τ + 4ν); sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.
        """
        of = "TwoSampleStability.near_independence"
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            self._printed_domain(of, "TS Lemma 3.3")
            return self.eta, rounding.probability(self.tau + 5.0 * self.nu)
        if self.tau == 0.0 or self.nu == 0.0:
            return self.eta, self.tau + self.nu
        return self.eta, rounding.probability(math.fsum((self.tau, self.nu)))


@dataclass(frozen=True, repr=False)
class SetStability(_Typical):
    """Set form: a set of data, all pairs of which give (eta, tau)-indistinguishable outputs.

    Guarantee: there is a set S with A(x) ≈ A(y) for all x, y in S, and two independent samples are both in S
    with probability ≥ 1 − ν.
    Assumes: P from the family the mechanism was built for; rows may depend on each other.
    Reference: TS1 Definition 2.2. TS1 calls the two-sample form equivalent; it is weaker.

    Args:
        eta: η, at least 0: how far the logarithm of a likelihood ratio may be from 0.
        tau: τ in [0, 1]: the probability of outputs that the bound by η leaves out.
        nu: ν in [0, 1]: the probability of samples for which nothing is promised.

    >>> SetStability(0.2, nu=1e-9).two_sample()
    TwoSampleStability(eta=0.2, tau=0, nu=1e-09)
    """

    def two_sample(self) -> TwoSampleStability:
        """The two-sample form, with the same numbers: a pair in the set is a good pair.

        Guarantee: as :class:`TwoSampleStability`.
        Assumes: nothing further.
        Reference: TS1 2.1.
        """
        return TwoSampleStability._bound(eta=self.eta, tau=self.tau, nu=self.nu)

    def near_independence(self, method: BoundForm = "sharp") -> tuple[float, float]:
        """Data and output are almost independent: (η, additive term).

        Guarantee: P[(X, A(X)) ∈ O] ≤ e^η P[(X, A(Y)) ∈ O] + τ + ν for every O; "paper" has τ + 4ν.
        Assumes: "paper": η < 1 and ν < 1/10; "sharp": nothing.
        Reference: TS1 Lemma 2.6; sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.

        >>> eta, added = SetStability(0.2, nu=0.001).near_independence(method="paper")
        >>> eta, round(added, 9)
        (0.2, 0.004)
        """
        of = "SetStability.near_independence"
        if checks.choice(method, "method", _METHODS, of=of) == "sharp":
            return self.two_sample().near_independence()
        self._printed_domain(of, "TS1 Lemma 2.6")
        return self.eta, rounding.probability(self.tau + 4.0 * self.nu)


def conditioned(
    epsilon: float, delta: float, kept: float, *, same_marginal: bool = False
) -> tuple[float, float]:
    """From closeness of two pairs to closeness given one part of them: (ε', how often it fails).

    Guarantee: if (U, V) and (U', V') are (ε, δ)-indistinguishable, then U given V = t and U' given V' = t are
    (ε', ``kept``)-indistinguishable except with the returned probability over t ~ V. In general ε' = 3ε and
    it is 2δ/kept + 2δ/(1 − e^−ε). With ``same_marginal=True``: ε' = ε and 2δ/kept.
    Assumes: ``same_marginal``: V and V' have the same law. Otherwise ε > 0.
    Reference: TS Lemma 4.6 (Kasiviswanathan and Smith 2014); for equal marginals: Holdfast.

    Args:
        epsilon: ε in nats, at least 0: how far the logarithm of a likelihood ratio may be from 0.
        delta: δ in [0, 1]: the probability of outputs that the bound by ε leaves out.

    >>> epsilon, failure = conditioned(0.1, 1e-8, 1e-4, same_marginal=True)
    >>> epsilon, round(failure, 9)
    (0.1, 0.0002)
    """
    of, by = "conditioned", "TS Lemma 4.6"
    delta = checks.real(delta, "delta", "[0, 1)", of=of, by=by)
    kept = checks.real(kept, "kept", "(0, 1]", of=of, by=by)
    if not isinstance(same_marginal, bool):
        raise InvalidArgument("same_marginal", "True or False", same_marginal, of=of)
    epsilon = checks.real(epsilon, "epsilon", "[0, inf)" if same_marginal else "(0, inf)", of=of, by=by)
    failure = 2.0 * delta / kept
    if same_marginal:
        return epsilon, rounding.probability(failure)
    return rounding.up(3.0 * epsilon), rounding.probability(failure - 2.0 * delta / math.expm1(-epsilon))


def _expm1(value: float) -> float:
    return math.expm1(value) if value < 709.0 else math.inf


def _printed(
    width: float, drift: float, step_cost: float, divisor: float, nu: float, k: int, slack: float
) -> tuple[float, float, float]:
    """The shape both printed theorems share.

    η_j = width √(2j ln(1/slack)) + j drift, η* = 3 η_k and τ* = ν* = 5 √((k step_cost + ν + ν Σ_{t<k}
    e^{η_t}) / divisor).
    """
    spread = width * math.sqrt(-2.0 * math.log(slack))
    eta = rounding.up(3.0 * (spread * math.sqrt(k) + k * drift))
    inside = log(k) + log(step_cost)
    if nu > 0.0:
        last = spread * math.sqrt(k - 1) + (k - 1) * drift if k > 1 else 0.0
        if not last < _HOPELESS:
            return eta, 1.0, 1.0
        # With more terms than this, every term of a block counts as much as the last and largest one of the
        # block: an upper bound.
        blocks = min(k - 1, _MOST_TERMS)
        ends = (
            np.arange(1.0, blocks + 1.0)
            if blocks == k - 1
            else np.ceil(np.linspace(0.0, k - 1.0, blocks + 1)[1:])
        )
        grown = (k - 1) / max(blocks, 1) * np.exp(spread * np.sqrt(ends) + ends * drift - last).sum()
        inside = np.logaddexp(inside, log(nu) + np.logaddexp(0.0, last + log(float(grown))))
    tau = exp_up(math.log(5.0), 0.5 * float(inside), -0.5 * math.log(divisor))
    return eta, tau, tau


def compose_pure(eta: float, nu: float, k: int, slack: float) -> tuple[float, float, float]:
    """TS Theorem 4.2, k steps of (η, 0, ν): the printed exponent "ηt" is read as η_t, as its Lemma 4.7 shows.

    Printed for k ≥ 2; k = 1 is the base case of its induction (Lemma 4.5).
    """
    if not eta > 0.0:
        raise InvalidArgument("eta", "a number in (0, inf)", eta, of=_OF, reference="TS Theorem 4.2")
    drift = eta * _expm1(eta) if math.isfinite(eta) else math.inf
    return _printed(eta, drift, slack, eta, nu, k, slack)


def compose_approximate(
    eta: float, tau: float, nu: float, k: int, slack: float
) -> tuple[float, float, float]:
    """TS Theorem 4.8, k steps of (η, τ, ν), for η in (0, 3/2] and τ in (0, η/50]."""
    by = "TS Theorem 4.8"
    if not 0.0 < eta <= 1.5:
        raise InvalidArgument("eta", "a number in (0, 1.5]", eta, of=_OF, reference=by)
    if not 0.0 < tau <= eta / 50.0:
        raise InvalidArgument(
            "tau", f"a number in (0, eta/50] = (0, {eta / 50.0:g}]", tau, of=_OF, reference=by
        )
    tau_hat = 2.0 * tau / -math.expm1(-eta)
    e = math.exp(eta)
    psi = tau * (2.0 * e + 1.0) + tau**2 * (
        1.0 + 2.0 * e**2 / math.expm1(eta) ** 2 * (4.0 * e**2 + 4.0 * e - 3.0 - 2.0 / e + 1.0 / e**2)
    )
    drift = 2.0 * eta * (math.expm1(2.0 * eta) + tau_hat) / (1.0 - tau_hat) + psi
    return _printed(2.0 * eta, drift, tau_hat + slack, 2.0 * eta, nu, k, slack)


def _pure_part(tau: float, k: int, share: float) -> float:
    """What ``share`` leaves for the pure part of k steps (η, τ): 1 − (1 − share)/(1 − τ)^k, rounded down."""
    spent = -k * math.log1p(-tau) if tau > 0.0 else 0.0
    offered = -math.log1p(-share)
    left = offered - spent - 4.0 * np.finfo(float).eps * (offered + spent) if spent else offered
    if not left >= 0.0:
        enough = -2.0 * math.expm1(-spent) * (1.0 + 1e-12)
        advice = (
            f"at least {enough:.6g} for k = {k}" if enough < 1.0 else f"larger than 1, so k = {k} is too many"
        )
        raise InvalidArgument(
            "slack",
            f"{advice}: half of it must cover 1 − (1 − tau)^k",
            2.0 * share,
            of=_OF,
            reference="Holdfast, sharp composition",
        )
    return share if not spent else rounding.down(-math.expm1(-left))


def compose_sharp(eta: float, tau: float, nu: float, k: int, slack: float) -> tuple[float, float, float]:
    """k ≥ 2 steps are (ε, δ_k(ε) + e^ε s, ν + (k−1)ν/s) for every ε and s; here δ_k(ε) = e^ε s = slack/2.

    So τ* = slack. δ_k is the exact composition of (η, τ): 1 − (1 − τ)^k (1 − δ of the pure part), Kairouz, Oh
    and Viswanath. The first step has no history, so its bad data are bad in both worlds and cost ν itself.
    """
    share = slack / 2.0
    epsilon = _composition.optimal_epsilon(eta, k, _pure_part(tau, k, share))
    epsilon = min(epsilon, rounding.up(k * eta))
    later = exp_up(log(k - 1), log(nu), epsilon, math.log(2.0), -math.log(slack))
    return epsilon, slack, rounding.probability(nu + later)
