"""The published arrows between notions: figure 1 of SIS, the lemmas around it, and those of TS and BDP.

To add one, append to ``ARROWS``; ``convert`` and ``explain`` find it. Composition is an arrow within one
notion, from one analysis of the rows to several: ``explain(notion, to, analyses=k)`` puts one on every path,
at the place where it costs least. ``tightness`` says how much a notion still says as one number; it orders
the paths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast import rounding
from holdfast.stability._compilers import (
    chance_disagreement,
    coin_disagreement,
    mean_distance,
    perfect_plan,
    private_plan,
)
from holdfast.stability._dp import DP
from holdfast.stability._generalization import LN2, MaxInformation, PerfectGeneralization
from holdfast.stability._notion import EFFICIENT, EXPLICIT, SAME, Notion
from holdfast.stability._replicability import GoodCoins, Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability

Setting = Mapping[str, Any]
Window = tuple[float, float]
INDEPENDENT = "independent rows"
FINITE = "finitely many outcomes"
SHARED = "shared coins"
SAMPLE = "independent rows from one distribution, and the claim for every such distribution"
__all__ = ["COMPOSITIONS"]

_HISTORY = "each analysis keeps its promise with the outputs before it held fixed"


@dataclass(frozen=True)
class Applied:
    """What an arrow gives: the notion, its factor in rows, numbers to show, and the theorem if it varies.

    ``new_outcomes`` is the number of outcomes that the transformed algorithm has and the original had not.
    """

    notion: Notion
    rows: int = 1
    shown: Mapping[str, Any] = field(default_factory=dict)
    theorem: str = ""
    new_outcomes: int = 0

    def context_after(self, at: Setting) -> dict[str, Any]:
        """The context in which the next arrow is applied: more rows, perhaps more outcomes."""
        after = dict(at)
        if "n" in after:
            after["n"] *= self.rows
        if "outcomes" in after:
            after["outcomes"] += self.new_outcomes
        return after


def _everywhere(notion: Any, at: Setting) -> tuple[Window, ...]:
    return ((0.0, 1.0),)


@dataclass(frozen=True)
class Arrow:
    """An implication; ``needs`` must be in the context, ``free`` is optimised where it is left open.

    ``theorem`` is where it is published, ``sharp`` says where its sharp form comes from, if it has one of its
    own; one that is not ``printed`` at all has no other. After a ``milestone`` a single number holds, or
    numbers that do not depend on what came before. ``windows`` gives the intervals outside of which no value
    of the open parameter makes the result say anything: one for each form that the bound has.
    """

    source: str
    target: str
    theorem: str
    kind: str
    apply: Callable[[Any, Setting], Applied]
    conditions: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    free_if_sharp: tuple[str, ...] = ()
    sharp: str = ""
    printed: bool = True
    milestone: bool = False
    windows: Callable[[Any, Setting], tuple[Window, ...]] = _everywhere

    def source_of(self, method: str) -> str:
        """Where the form of this method comes from."""
        return f"{self.theorem}; {self.sharp}" if method == "sharp" and self.sharp else self.theorem

    def open(self, method: str) -> tuple[str, ...]:
        """The parameters that are free under this method."""
        return self.free + (self.free_if_sharp if method == "sharp" else ())


def _dp_information(dp: DP, at: Setting) -> Applied:
    if dp.delta > 0.0 and at["method"] == "paper":
        information = dp.max_information(at["n"], at["beta"], method="sis", c=at.get("c"), C=at.get("C"))
        return Applied(information, theorem="SIS Lemma 3.11")
    if dp.delta > 0.0:
        theorem = "Holdfast, approximate DP"
    else:
        theorem = (
            "Dwork et al. 2015" if at["method"] == "paper" else "Holdfast, sharp form of Dwork et al. 2015"
        )
    return Applied(dp.max_information(at["n"], at["beta"], method=at["method"]), theorem=theorem)


def _information_windows(dp: DP, at: Setting) -> tuple[Window, ...]:
    """β pays for δ before it pays for anything else; the two clamps charge nδ and n√δ."""
    if dp.delta == 0.0:
        return _everywhere(dp, at)
    n = at["n"]
    if at["method"] == "paper":
        spent = at.get("c", 0.0) * n * math.sqrt(dp.delta / dp.epsilon) if dp.epsilon > 0.0 else 0.0
        return ((spent, 1.0),)
    return ((n * dp.delta, 1.0), (n * math.sqrt(dp.delta), 1.0))


def _sampled_replicability(perfect: PerfectGeneralization, at: Setting) -> Applied:
    """Algorithm 2; where the outcomes are counted, k of them differ no more often than 1 − 1/k."""
    replicable = perfect.replicability(method=at["method"])
    if at["method"] == "paper" or "outcomes" not in at:
        return Applied(replicable)
    outcomes = at["outcomes"]
    rho = min(replicable.rho, chance_disagreement(outcomes))
    return Applied(Replicability._bound(rho=rho), shown={"outcomes": outcomes})


def _dp_replicability(dp: DP, at: Setting) -> Applied:
    outcomes = at.get("outcomes")
    distance = mean_distance(dp, at["n"], outcomes=outcomes)
    shown = {} if outcomes is None else {"outcomes": outcomes}
    return Applied(Replicability._bound(rho=coin_disagreement(distance, outcomes)), shown=shown)


def _near_independence(two: TwoSampleStability, at: Setting) -> Applied:
    eta, added = two.near_independence(method=at["method"])
    return Applied(MaxInformation._bound(bits=rounding.up(eta / LN2), beta=added))


def _as_perfect(kind: str) -> Callable[[Any, Setting], Applied]:
    def apply(notion: Any, at: Setting) -> Applied:
        return Applied(
            PerfectGeneralization._bound(beta=notion.nu, epsilon=notion.eta, delta=notion.tau, kind=kind)
        )

    return apply


def _as_typical(form: type[TypicalStability] | type[TwoSampleStability]) -> Callable[[Any, Setting], Applied]:
    def apply(notion: Any, at: Setting) -> Applied:
        return Applied(form._bound(eta=notion.epsilon, tau=notion.delta, nu=notion.beta))

    return apply


def _private(coins: Any, at: Setting) -> Applied:
    plan = private_plan(
        at["epsilon"],
        at["delta"],
        coins=coins,
        beta=at.get("failure", 0.05),
        failure=at.get("algorithm_failure", 0.0),
    )
    # The selection of Algorithm 1 may return nothing: an outcome that the original algorithm does not have.
    return Applied(
        plan.guarantee,
        plan.runs,
        {"seeds": plan.seeds, "parts": plan.parts, "failure": plan.failure},
        new_outcomes=1,
    )


def _perfect(coins: Any, at: Setting) -> Applied:
    plan = perfect_plan(at["epsilon"], at["delta"], coins=coins, failure=at.get("algorithm_failure", 0.0))
    return Applied(
        plan.guarantee, plan.runs, {"seeds": plan.seeds, "parts": plan.parts, "failure": plan.failure}
    )


ARROWS = (
    Arrow(
        "dp",
        "max-information",
        "Dwork et al. 2015; SIS Lemma 3.11",
        SAME,
        _dp_information,
        conditions=(INDEPENDENT,),
        needs=("n",),
        free=("beta",),
        windows=_information_windows,
    ),
    Arrow(
        "bayesian-dp",
        "max-information",
        "BDP Theorem 3",
        SAME,
        lambda notion, at: Applied(notion.max_information(at["n"], at["beta"], method=at["method"])),
        conditions=("the dependence model under which epsilon was established",),
        needs=("n",),
        free=("beta",),
        sharp="sharp form: Holdfast",
    ),
    Arrow(
        "max-information",
        "one-way",
        "SIS Lemma 3.14",
        SAME,
        lambda notion, at: Applied(notion.one_way(at.get("d"), method=at["method"])),
        conditions=(SAMPLE,),
        free_if_sharp=("d",),
        sharp="sharp form: Holdfast",
        windows=lambda notion, at: ((notion.beta, 1.0),),
    ),
    Arrow(
        "dp",
        "perfect-generalization",
        "SIS Theorem 3.9",
        SAME,
        lambda notion, at: Applied(
            notion.perfect_generalization(at["n"], at["beta"], at["outcomes"], method=at["method"])
        ),
        conditions=(SAMPLE,),
        needs=("n", "outcomes"),
        free=("beta",),
        sharp="sharp form: Holdfast",
    ),
    Arrow(
        "dp",
        "replicable",
        "Holdfast, expected distance (SIS Algorithm 2, correlated sampling)",
        EXPLICIT,
        _dp_replicability,
        conditions=(SAMPLE, FINITE, SHARED),
        needs=("n",),
        printed=False,
        milestone=True,
    ),
    Arrow(
        "one-way",
        "perfect-generalization",
        "SIS Lemma 3.8",
        SAME,
        lambda notion, at: Applied(notion.two_way(method=at["method"])),
        sharp="sharp form: Holdfast",
    ),
    Arrow(
        "perfect-generalization",
        "one-way",
        "SIS Definition 3.7 (one half of the definition)",
        SAME,
        lambda notion, at: Applied(notion.one_way()),
    ),
    Arrow(
        "perfect-generalization",
        "sample",
        "SIS Lemma 3.5, corrected",
        SAME,
        lambda notion, at: Applied(notion.sample(method=at["method"])),
    ),
    Arrow(
        "sample",
        "perfect-generalization",
        "SIS Lemma 3.6",
        SAME,
        lambda notion, at: Applied(notion.two_way(at.get("d"), method=at["method"])),
        free_if_sharp=("d",),
        windows=lambda notion, at: ((notion.beta, 1.0 - notion.delta),),
    ),
    Arrow(
        "one-way",
        "replicable",
        "SIS Theorem 3.17 (Algorithm 2, correlated sampling)",
        EXPLICIT,
        _sampled_replicability,
        conditions=(FINITE, SHARED),
        sharp="sharp form: Holdfast",
        milestone=True,
    ),
    Arrow(
        "replicable",
        "perfect-generalization",
        "Holdfast (Markov on the expected total variation)",
        SAME,
        lambda notion, at: Applied(notion.perfect_generalization(at.get("d"))),
        conditions=("the coins are drawn afresh for each run",),
        free=("d",),
        windows=lambda notion, at: ((notion.rho, 1.0),),
    ),
    Arrow(
        "replicable",
        "good-coins",
        "SIS Claim 2.12.1",
        SAME,
        lambda notion, at: Applied(notion.good_coins(at["nu"], method=at["method"])),
        free=("nu",),
        sharp="sharp form: Holdfast",
        windows=lambda notion, at: ((notion.rho, 1.0),),
    ),
    Arrow(
        "good-coins",
        "replicable",
        "SIS Claim 2.12.2",
        SAME,
        lambda notion, at: Applied(notion.replicability(method=at["method"])),
        sharp="sharp form: Holdfast",
        milestone=True,
    ),
    Arrow(
        "good-coins",
        "sample",
        "SIS Theorem 3.19 (Algorithm 3), constants: Holdfast",
        EFFICIENT,
        _perfect,
        conditions=(SAMPLE,),
        needs=("epsilon", "delta"),
        milestone=True,
    ),
    Arrow(
        "good-coins",
        "dp",
        "SIS Theorem 3.1 (Algorithm 1), with constants",
        EFFICIENT,
        _private,
        conditions=("independent samples for accuracy; none for privacy",),
        needs=("epsilon", "delta"),
        milestone=True,
    ),
    Arrow(
        "typical",
        "two-sample",
        "TS 2.1, corrected",
        SAME,
        lambda notion, at: Applied(notion.two_sample()),
    ),
    Arrow(
        "two-sample",
        "typical",
        "SIS Lemma 3.6 for any law of the rows",
        SAME,
        lambda notion, at: Applied(notion.oracle(at.get("d"))),
        free=("d",),
        windows=lambda notion, at: ((notion.nu, 1.0 - notion.tau),),
    ),
    Arrow(
        "two-sample",
        "max-information",
        "TS Lemma 3.3",
        SAME,
        _near_independence,
        sharp="sharp form: Holdfast",
    ),
    Arrow(
        "typical",
        "perfect-generalization",
        "TS Definition 2.2 is SIS Definition 1.2 on product distributions",
        SAME,
        _as_perfect("two-way"),
        conditions=(
            "typical stability for every distribution with independent, identically distributed rows",
        ),
    ),
    Arrow(
        "perfect-generalization",
        "typical",
        "SIS Definition 1.2 is TS Definition 2.2 on product distributions",
        SAME,
        _as_typical(TypicalStability),
        conditions=("the family of distributions with independent, identically distributed rows",),
    ),
    Arrow(
        "two-sample",
        "sample",
        "TS Definition 2.3 is SIS Definition 3.4 on product distributions",
        SAME,
        _as_perfect("sample"),
        conditions=(
            "typical stability for every distribution with independent, identically distributed rows",
        ),
    ),
    Arrow(
        "sample",
        "two-sample",
        "SIS Definition 3.4 is TS Definition 2.3 on product distributions",
        SAME,
        _as_typical(TwoSampleStability),
        conditions=("the family of distributions with independent, identically distributed rows",),
    ),
)


def _composed(compose: Callable[[Any, int, Setting], Notion]) -> Callable[..., Applied]:
    def apply(notion: Any, at: Setting) -> Applied:
        k = at["analyses"]
        # A transcript of k analyses has as many outcomes as there are k-tuples.
        more = at["outcomes"] ** k - at["outcomes"] if "outcomes" in at else 0
        return Applied(compose(notion, k, at), new_outcomes=more)

    return apply


def _arrow(
    name: str,
    theorem: str,
    compose: Callable[[Any, int, Setting], Notion],
    *,
    slack: bool = False,
    conditions: tuple[str, ...] = (_HISTORY,),
    printed: bool = True,
) -> Arrow:
    return Arrow(
        name,
        name,
        theorem,
        SAME,
        _composed(compose),
        conditions=conditions,
        needs=("analyses",),
        free=("slack",) if slack else (),
        printed=printed,
    )


def _with_slack(notion: Any, k: int, at: Setting) -> Notion:
    composed: Notion = notion.compose(k, slack=at["slack"])
    return composed


COMPOSITIONS = (
    _arrow("dp", "basic composition", lambda notion, k, at: notion.compose(k, method="basic")),
    _arrow("dp", "Kairouz, Oh and Viswanath 2015", _with_slack, slack=True),
    _arrow(
        "typical",
        "TS Theorems 4.2 and 4.8",
        lambda notion, k, at: notion.compose(k, slack=at["slack"], method=at["method"]),
        slack=True,
    ),
    _arrow("two-sample", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow("perfect-generalization", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow("one-way", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow("sample", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow(
        "max-information",
        "Holdfast, composition of max-information",
        lambda notion, k, at: notion.compose(k, at["slack"]),
        slack=True,
        printed=False,
    ),
    _arrow(
        "replicable",
        "SIS 1.4.3; constant: Holdfast",
        lambda notion, k, at: notion.compose(k),
        conditions=(
            "coins of its own for each analysis, chosen from earlier results and shared coins alone",
        ),
    ),
)


def _lost(probability: float) -> float:
    """Nats lost to an event of this probability: −ln(1 − p)."""
    return -math.log1p(-probability) if probability < 1.0 else math.inf


def _both_ways(epsilon: float, delta: float) -> float:
    """−ln(1 − v), v the largest total variation between laws that are (ε, δ)-indistinguishable both ways."""
    return epsilon + math.log1p(math.exp(-epsilon)) - LN2 + _lost(delta)


def strain(notion: Any) -> float:
    """−ln(1 − p), p the total variation or failure that the notion still allows; infinite if vacuous."""
    match notion:
        case Replicability():
            return _lost(notion.rho)
        case GoodCoins():
            return _lost(notion.nu) + 2.0 * _lost(notion.eta)
        case MaxInformation():
            return notion.bits * LN2 + _lost(notion.beta)
        case PerfectGeneralization(kind="one-way"):
            return notion.epsilon + _lost(notion.delta) + _lost(notion.beta)
        case PerfectGeneralization():
            return _both_ways(notion.epsilon, notion.delta) + _lost(notion.beta)
        case TypicalStability() | TwoSampleStability():
            return _both_ways(notion.eta, notion.tau) + _lost(notion.nu)
        case _:
            return _both_ways(notion.epsilon, getattr(notion, "delta", 0.0))


def looseness(strained: float) -> float:
    """The same as a probability: p = 1 − e^−strain."""
    return -math.expm1(-strained)
