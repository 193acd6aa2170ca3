"""Replicability: the same answer from a fresh sample and the same coins (SIS definitions 1.1 and 2.11)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.stability._notion import Notion
from holdfast.typing import BoundForm

if TYPE_CHECKING:
    from holdfast.stability._generalization import PerfectGeneralization

_METHODS = ("paper", "sharp")


@dataclass(frozen=True, repr=False)
class Replicability(Notion):
    """Two runs, on independent samples with the same coins, differ with probability at most ``rho``.

    Guarantee: P(A(S; r) ≠ A(S'; r)) ≤ rho over S, S' and the shared coins r, for every distribution of the
    rows.
    Assumes: rows drawn independently; shared coins.
    Reference: SIS Definition 1.1 (Impagliazzo, Lei, Pitassi and Sorrell 2022).

    >>> Replicability(0.01).good_coins(0.1)
    GoodCoins(eta=0.0527864, nu=0.1)
    """

    rho: float

    def __post_init__(self) -> None:
        self._store(rho=checks.real(self.rho, "rho", "[0, 1]", of="Replicability", by="SIS Definition 1.1"))

    @property
    def vacuous(self) -> bool:
        """Whether ``rho`` has reached 1."""
        return self.rho >= 1.0

    def good_coins(self, nu: float, *, method: BoundForm = "sharp") -> GoodCoins:
        """All but a fraction ``nu`` of the coins have a canonical output.

        Guarantee: "paper": η = ρ/ν; "sharp": η = (1 − √(1 − 2ρ/ν))/2 where ν ≥ 2ρ, and ρ/ν elsewhere.
        Assumes: nothing further ("paper" is printed for ρ ≤ ν; beyond, η is 1).
        Reference: SIS Claim 2.12.1; sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.
        """
        of = "Replicability.good_coins"
        nu = checks.real(nu, "nu", "(0, 1]", of=of, by="SIS Claim 2.12")
        share = self.rho / nu
        if checks.choice(method, "method", _METHODS, of=of) == "sharp" and 2.0 * share <= 1.0:
            share /= 1.0 + math.sqrt(1.0 - 2.0 * share)
        return GoodCoins(rounding.probability(share), nu)

    def perfect_generalization(self, d: float | None = None) -> PerfectGeneralization:
        """The same algorithm, its coins drawn afresh, generalises perfectly both ways: (ρ/d, 0, d).

        Guarantee: for every d > 0, by default √ρ; the simulator is the law of the output over data and coins.
        Assumes: nothing further. The expected total variation from the simulator is at most ρ; then Markov.
        Reference: SIS 3.4 states it up to constants; the constants are Holdfast's.

        Args:
            d: A free parameter of the proof, in (0, 1]. None: √ρ.

        >>> Replicability(0.01).perfect_generalization()
        PerfectGeneralization(beta=0.1, epsilon=0, delta=0.1, kind='two-way')
        """
        from holdfast.stability._generalization import (
            PerfectGeneralization,
        )  # the two notions name each other

        of = "Replicability.perfect_generalization"
        d = math.sqrt(self.rho) if d is None else checks.real(d, "d", "(0, 1]", of=of)
        beta = rounding.probability(self.rho / d) if self.rho > 0.0 else 0.0
        return PerfectGeneralization(beta, 0.0, d)

    def compose(self, k: int) -> Replicability:
        """``k`` such analyses of the same rows, each chosen after seeing the results before it.

        Guarantee: all k results agree except with probability kρ, over the two samples and the shared coins.
        Assumes: coins of its own for each analysis; whoever chooses the next one looks at nothing but the
        results so far and shared coins; each analysis that may be chosen is ρ-replicable.
        Reference: SIS 1.4.3 (Impagliazzo, Lei, Pitassi and Sorrell 2022, Lemma A.7, there O(kρ)); the
        constant 1, on the same rows, is Holdfast's.

        >>> Replicability(0.001).compose(100)
        Replicability(rho=0.1)
        """
        k = checks.whole(k, "k", of="Replicability.compose", by="SIS 1.4.3")
        return self if k == 1 else Replicability(rounding.probability(k * self.rho))

    def under_shift(
        self,
        total_variation: float | None = None,
        m: int | None = None,
        *,
        everywhere: bool = True,
        shift: float | None = None,
        width: float | None = None,
    ) -> float:
        """How often runs on two distributions agree: a lower bound.

        Give the ``total_variation`` between two laws of a row and the number ``m`` of rows. For a statistic
        that is rounded to a shared grid or compared with a shared threshold, give the ``shift`` and the
        ``width`` of the grid (``result.details["width"]``) instead, or both.

        Guarantee: the larger of (1−δ)^{2m}(1−ρ) and (1−δ)^m − ρ; with a shift also 1 − ρ − shift/width.
        Rounded down, at least 0.
        Assumes: the first needs replicability for every distribution (it is used on the overlap of the two);
        with ``everywhere=False`` only the second is used, which needs it on one of the two. ``shift``: for a
        share, the difference of the two probabilities; for a mean, the Wasserstein distance of the two laws
        of a value, which is the difference of the means where one law lies above the other; for a list of
        heavy hitters, the sum over the items. The same number of rows on both sides.
        Reference: SIS Lemma C.3, which prints ρ for 1 − ρ; shift: Holdfast.

        >>> round(Replicability(0.1).under_shift(1e-4, m=100), 6)
        0.890049
        >>> round(Replicability(0.1).under_shift(shift=0.002, width=0.05), 6)
        0.86
        """
        of, by = "Replicability.under_shift", "SIS Lemma C.3"
        if (total_variation is None) != (m is None):
            name = "m" if m is None else "total_variation"
            raise InvalidArgument(name, "given with the other of the two", None, of=of, reference=by)
        if (shift is None) != (width is None):
            name = "width" if width is None else "shift"
            raise InvalidArgument(name, "given together with the other of the two", None, of=of)
        if total_variation is None and shift is None:
            expected = "given with m, or shift and width in its place"
            raise InvalidArgument("total_variation", expected, None, of=of, reference=by)
        agreement = 0.0
        if shift is not None:
            shift = checks.real(shift, "shift", "[0, inf)", of=of)
            width = checks.real(width, "width", "(0, inf)", of=of)
            agreement = 1.0 - self.rho - rounding.up(shift / width)
        if total_variation is not None:
            distance = checks.real(total_variation, "total_variation", "[0, 1]", of=of, by=by)
            agreement = max(
                agreement, self._overlapping(distance, checks.whole(m, "m", of=of, by=by), everywhere)
            )
        certain = agreement == 1.0 and self.rho == 0.0
        return 1.0 if certain else max(0.0, rounding.down(agreement))

    def _overlapping(self, distance: float, m: int, everywhere: bool) -> float:
        if distance == 0.0:
            return 1.0 - self.rho
        # The exponent is widened by its own rounding error, which grows with m.
        overlap = math.exp(m * math.log1p(-distance) * (1.0 + 1e-15)) if distance < 1.0 else 0.0
        agreement = overlap - self.rho
        return max(agreement, overlap * overlap * (1.0 - self.rho)) if everywhere else agreement


@dataclass(frozen=True, repr=False)
class GoodCoins(Notion):
    """Except with probability ``nu`` over the coins, one output has probability ≥ 1 − ``eta`` over the data.

    Guarantee: for every distribution of the rows.
    Assumes: rows drawn independently; shared coins.
    Reference: SIS Definition 2.11, there called (η, ν)-replicable.

    >>> GoodCoins(0.05, 0.1).replicability()
    Replicability(rho=0.18775)
    """

    eta: float
    nu: float

    def __post_init__(self) -> None:
        of, by = "GoodCoins", "SIS Definition 2.11"
        self._store(
            eta=checks.real(self.eta, "eta", "[0, 1]", of=of, by=by),
            nu=checks.real(self.nu, "nu", "[0, 1]", of=of, by=by),
        )

    @property
    def vacuous(self) -> bool:
        """Whether ``eta`` or ``nu`` has reached 1."""
        return self.eta >= 1.0 or self.nu >= 1.0

    def replicability(self, *, method: BoundForm = "sharp") -> Replicability:
        """Two runs agree unless the coins are bad or one of the runs leaves the canonical output.

        Guarantee: "sharp": ρ = 1 − (1−ν)(1−η)²; "paper": η + 2ν.
        Assumes: "paper": η ≤ ν (outside it the printed formula is false).
        Reference: SIS Claim 2.12.2; sharp: Holdfast.

        Args:
            method: "sharp" for the best constants, "paper" for those printed.
        """
        of = "GoodCoins.replicability"
        if checks.choice(method, "method", _METHODS, of=of) == "paper":
            if not self.eta <= self.nu:
                raise InvalidArgument(
                    "eta", f"at most nu = {self.nu:g}", self.eta, of=of, reference="SIS Claim 2.12"
                )
            return Replicability(rounding.probability(self.eta + 2.0 * self.nu))
        stays = 1.0 - self.eta
        return Replicability(rounding.probability(self.nu * stays * stays + self.eta * (1.0 + stays)))


def disagreement_bound(total_variation: float) -> float:
    """Correlated sampling from two laws at total variation d differs with probability at most 2d/(1+d).

    Guarantee: an upper bound over the shared coins, the best possible as a function of d alone.
    Assumes: both sides sample by argmin E_i/p_i with the same exponentials E_i.
    Reference: SIS 2.5 (Holenstein 2009).

    Args:
        total_variation: The total variation distance.

    >>> round(disagreement_bound(0.1), 6)
    0.181818
    """
    d = checks.real(
        total_variation, "total_variation", "[0, 1]", of="disagreement_bound", by="SIS Definition 2.17"
    )
    return rounding.probability(2.0 * d / (1.0 + d))


def collision_probability(p: Iterable[float], q: Iterable[float]) -> float:
    """The exact probability that correlated sampling from ``p`` and from ``q`` gives the same outcome.

    Guarantee: Σ_j 1/Σ_i max(p_i/p_j, q_i/q_j) over the j with p_j q_j > 0, for argmin E_i/p_i with shared
    exponentials.
    Assumes: ``p`` and ``q`` are probability vectors over the same outcomes (checked to 1e-9).
    Reference: Holdfast, correlated sampling.

    >>> round(collision_probability([0.5, 0.5], [0.6, 0.4]), 6)
    0.9
    """
    of = "collision_probability"
    first, second = (np.array(checks.reals(v, name, "[0, 1]", of=of)) for v, name in ((p, "p"), (q, "q")))
    if first.size != second.size:
        raise InvalidArgument("q", f"of the same length as p, {first.size}", second.size, of=of)
    for vector, name in ((first, "p"), (second, "q")):
        if not abs(vector.sum() - 1.0) <= 1e-9:
            raise InvalidArgument(name, "probabilities that sum to 1", float(vector.sum()), of=of)
    # Sorted by q/p, the larger ratio is p_i/p_j up to j and q_i/q_j beyond it: two running sums do.
    order = np.argsort(np.arctan2(second, first), kind="stable")
    first, second = first[order], second[order]
    below = np.cumsum(first)
    above = np.cumsum(second[::-1])[::-1] - second
    both = (first > 0.0) & (second > 0.0)
    met = 1.0 / (below[both] / first[both] + np.maximum(above[both], 0.0) / second[both])
    return min(1.0, float(met.sum()))
