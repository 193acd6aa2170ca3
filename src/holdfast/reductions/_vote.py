"""A private vote whose weights grow with the votes: few votes are enough, and pure privacy is possible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from holdfast import rounding
from holdfast.errors import InvalidArgument
from holdfast.mechanisms import exponential
from holdfast.records import Record
from holdfast.reductions._algorithm import Floats
from holdfast.stability import GoodCoins

__all__ = ["VotePlan", "elect", "expected_loss", "fewest", "log_bad", "lost", "reserve", "vote_plan"]

_CHOICES = 40
# A plan that needs more runs than this times the votes that decide is not worth having.
_LONGEST = 50
# Counts farther than this many √t from their mean are not summed one by one; Hoeffding bounds all of them.
_REACH = 5.0
_BEYOND = 2.0 * math.exp(-2.0 * _REACH**2)


@dataclass(frozen=True, repr=False)
class VotePlan(Record):
    """``seeds`` coin sequences, each run on ``parts`` fresh samples, then ``elect``.

    ``reserve`` is the weight of "nobody" as a number of votes; None where the outcomes are listed and the
    vote is purely private. ``wrong`` is the number of wrong outputs that the analysis is not prepared for; 0
    where it takes all that are not canonical for wrong.
    """

    seeds: int
    parts: int
    reserve: float | None
    wrong: int
    failure: float

    @property
    def runs(self) -> int:
        """Runs of the algorithm, each on fresh rows."""
        return self.seeds * self.parts


def reserve(epsilon: float, delta: float, size: int = 1) -> float:
    """How many votes "nobody" has, so that a vote among whatever occurs is (ε, δ)-private.

    Guarantee: R with e^{εR/2} ≥ L·max(1/(e^{ε/2} − 1), 1/δ − 1), L = ``size`` being the most items that one
    ballot names.
    Assumes: 0 < δ < 1.
    Reference: Holdfast, private vote.

    >>> round(reserve(1.0, 1e-6), 9)
    27.631019116
    """
    steep = max(-math.log(math.expm1(epsilon / 2.0)), math.log(1.0 / delta - 1.0))
    return max(0.0, rounding.up(2.0 * (math.log(size) + steep) / epsilon))


def elect(
    ballots: Iterable[Iterable[Hashable]],
    epsilon: float,
    *,
    reserve: float = 0.0,
    outcomes: tuple[Any, ...] | None = None,
    seed: int | None = None,
) -> Any:
    """An item that almost as many ballots name as any other, or None.

    With ``outcomes``, one of them, chosen with weight e^{εc/2}, c being its votes. Otherwise, among the items
    that occur, with weight e^{εc/2} − 1, against e^{ε·reserve/2}(e^{ε/2} − 1) for None.

    Guarantee: ε-DP when one ballot is replaced, with ``outcomes``; otherwise (ε, δ)-DP, where ``reserve`` is
    that of δ and of the longest ballot.
    Assumes: ``seed`` is None; a seed is for simulation, and protects nothing.
    Reference: Holdfast, private vote.

    >>> elect([("oak",)] * 60 + [("elm",)], 1.0, reserve=reserve(1.0, 1e-6))
    'oak'
    """
    counts = Counter(item for ballot in ballots for item in dict.fromkeys(ballot))
    coins: dict[str, Any] = {} if seed is None else {"simulation": True, "seed": seed}
    if outcomes is not None:
        return outcomes[exponential([float(counts[item]) for item in outcomes], epsilon, 1.0, **coins)]
    # e^{θc} − 1 is (e^θ − 1)(1 + e^θ + … + e^{θ(c−1)}): an item with c votes stands on c rungs, each of which
    # is chosen with the weight of an ordinary exponential mechanism.
    items = list(counts)
    votes = np.fromiter(counts.values(), dtype=np.int64, count=len(items))
    rungs = np.arange(votes.sum()) - np.repeat(np.cumsum(votes) - votes, votes)
    chosen = exponential(np.append(rungs.astype(float), reserve), epsilon, 1.0, **coins)
    return None if chosen == len(rungs) else items[int(np.searchsorted(np.cumsum(votes), chosen, "right"))]


def expected_loss(trials: int, share: float, loss: Callable[[Floats], Floats]) -> Floats:
    """The expectation of ``loss``, at most 1, of a binomial count; ``loss`` may have several lines."""
    if share <= 0.0 or share >= 1.0:
        return loss(np.array([float(trials if share >= 1.0 else 0)]))[..., 0]
    reach = _REACH * math.sqrt(trials)
    low, high = max(0, math.floor(trials * share - reach)), min(trials, math.ceil(trials * share + reach))
    k = np.arange(low, high + 1.0)
    ways = gammaln(trials + 1.0) - gammaln(k + 1.0) - gammaln(trials - k + 1.0)
    law = np.exp(ways + k * math.log(share) + (trials - k) * math.log1p(-share))
    # Logarithms of factorials lose digits as they grow.
    found: Floats = (loss(k) @ law + _BEYOND) * (1.0 + 1e-9 + 1e-14 * trials)
    return found


def log_bad(epsilon: float, held: float | None, votes: Any, outcomes: int | None, size: int = 1) -> Any:
    """The logarithm of the weight of None and of ``size`` wrong items with ``votes`` votes each.

    Wrong items without votes weigh something only where outcomes are listed.
    """
    theta = epsilon / 2.0
    with np.errstate(divide="ignore"):
        voted = theta * votes + np.log(-np.expm1(-theta * votes)) + math.log(size)
        if held is None:
            assert outcomes is not None
            return np.logaddexp(np.log(float(outcomes - 1)), voted)
    return np.logaddexp(theta * held + math.log(math.expm1(theta)), voted)


def lost(epsilon: float, held: float | None, votes: Any, bad: Any) -> Any:
    """How likely None or a wrong item is chosen, if a right one has ``votes`` votes."""
    theta = epsilon / 2.0
    with np.errstate(divide="ignore", over="ignore"):
        good = theta * votes
        if held is not None:
            good = good + np.log(-np.expm1(-theta * votes))
        # Without a vote, and without anybody against it, an item may still not win.
        return np.where(votes > 0.0, 1.0 / (1.0 + np.exp(np.where(votes > 0.0, good, 0.0) - bad)), 1.0)


def vote_plan(
    coins: GoodCoins,
    *,
    epsilon: float,
    delta: float,
    outcomes: int | None,
    beta: float,
    failure: float,
    of: str,
    by: str,
    below: float = math.inf,
) -> VotePlan:
    """The fewest runs, fewer than ``below``, for which a vote is wrong or silent with probability ``beta``.

    Guarantee: with good coins (η, ν), s seeds and t parts, wrong or None with probability at most ν^s + gst/w
    + E[lost(M)], M ~ Bin(t, 1 − η), for every w ≥ 1, ``failure`` = g being that of the algorithm; M < w
    counts as lost. With g = 0, w = 1 at no cost. With one seed also ν + g/(1 − η) + E[lost(M)] against t − M
    wrong votes.
    Assumes: good coins; independent rows.
    Reference: SIS Theorem 3.1; the vote and the constants: Holdfast.
    """
    if not (coins.nu < 1.0 and coins.eta < 1.0):
        raise InvalidArgument("coins", "GoodCoins with nu < 1 and eta < 1", coins, of=of, reference=by)
    held = None if delta == 0.0 else reserve(epsilon, delta)
    vote = _Vote(coins.eta, epsilon, held, outcomes, failure)
    decisive = 10.0 + (2.0 / epsilon) * (5.0 - math.log(beta) + float(log_bad(epsilon, held, 0.0, outcomes)))
    longest = math.ceil(_LONGEST * max(10.0, decisive))
    best: VotePlan | None = None
    bad_coins = 1.0
    for seeds in itertools.count(1):
        # More seeds than this gain next to nothing, or cost more than they may.
        if bad_coins < beta / 1000.0 or seeds * failure / (1.0 - coins.eta) >= beta:
            break
        bad_coins = coins.nu**seeds
        if bad_coins >= beta:
            continue
        room, most = (beta - bad_coins) * (1.0 - 1e-12), longest
        if below < math.inf:
            # Most numbers of seeds are done with here, by one sum: as many parts as would still be an
            # improvement must be enough. More seeds would have fewer parts, and no more room than β.
            most = math.ceil(below / seeds) - 1
            missed = vote.missed(seeds, most)[0] if most > 0 else 1.0
            if missed >= beta:
                break
            if missed >= room:
                continue
        parts = vote.fewest_parts(seeds, room, most)
        if parts is not None:
            missed, wrong = vote.missed(seeds, parts)
            best = VotePlan(seeds, parts, held, wrong, rounding.probability(bad_coins + missed))
            below = best.runs
    if best is None:
        expected = f"so small that {beta:g} can be reached: with s seeds it costs about s·failure/(1 − eta)"
        raise InvalidArgument("failure", expected, failure, of=of, reference=by)
    return best


@dataclass(frozen=True)
class _Vote:
    """What decides how often a vote is lost, besides the numbers of seeds and parts."""

    eta: float
    epsilon: float
    held: float | None
    outcomes: int | None
    failure: float

    def fewest_parts(self, seeds: int, room: float, most: int) -> int | None:
        """The fewest parts, at most ``most``, for which what is missed fits into ``room``."""
        return fewest(lambda parts: self.missed(seeds, parts)[0] < room, most)

    def missed(self, seeds: int, parts: int) -> tuple[float, int]:
        """How often good coins are outvoted or wrong, and the wrong outputs that this is not prepared for."""
        # Every number of them is a bound, so a few are tried.
        wrong = np.array([1])
        if self.failure > 0.0:
            wrong = np.unique(np.linspace(1, parts, _CHOICES).astype(int))
        bad = log_bad(self.epsilon, self.held, wrong - 1.0, self.outcomes)[:, None]

        def loss(votes: Floats) -> Floats:
            return np.where(votes < wrong[:, None], 1.0, lost(self.epsilon, self.held, votes, bad))

        total = expected_loss(parts, 1.0 - self.eta, loss) + self.failure * seeds * parts / wrong
        place = int(np.argmin(total))
        if seeds > 1 or self.failure == 0.0:
            return float(total[place]), int(wrong[place])

        def loss_to_rest(votes: Floats) -> Floats:
            bad = log_bad(self.epsilon, self.held, parts - votes, self.outcomes)
            return np.asarray(lost(self.epsilon, self.held, votes, bad))

        rest = float(expected_loss(parts, 1.0 - self.eta, loss_to_rest)) + self.failure / (1.0 - self.eta)
        return (rest, 0) if rest < total[place] else (float(total[place]), int(wrong[place]))


def fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """The least count, at most ``most``, that is enough, found by doubling and bisection; None if none is."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if low >= most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high if high <= most else None
