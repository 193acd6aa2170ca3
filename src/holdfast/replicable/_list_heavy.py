"""A replicable item that many lists have in common."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._arguments import chance, enough_rows
from holdfast.replicable._deviation import band_end, chernoff
from holdfast.replicable._items import item_name
from holdfast.replicable._least import least_whole
from holdfast.replicable._result import Result
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["list_heavy_hitter", "list_heavy_hitter_rows", "listed_item"]

_BY = "SIS Theorem 6.7"
_EULER = 0.5772156649015329
_MISSES = (0.5, 0.1, 0.03, 0.01)
_LIST_SIZE = 32  # part of the promise: both sides must have the same, so it may never follow the rows
_MOST_LISTED = 2**900


def list_heavy_hitter(
    lists: Any,
    *,
    eta: float,
    rho: float,
    beta: float,
    tape: Tape,
    list_size: Any = _LIST_SIZE,
    best_effort: bool = False,
) -> Result:
    """An item that occurs in a share of at least ``eta``/2 of all lists, where some item occurs in ``eta``.

    Guarantee: two samples of lists and one tape give different items with probability at most ρ, and the
    item occurs in a share of at least η/2 of the distribution's lists except with probability β. Among the
    items whose sample share reaches a shared random cutoff, the first in a shared random order of all names
    is returned; None if there is none. The size grows with the squared logarithm of ``list_size``.
    Assumes: independent lists of one distribution with an item of share η (not checkable), none with more
    than ``list_size`` distinct items (checked); both sides use the first ``sample_size`` lists and the same
    ``list_size``. It sets the band of the cutoff, so it is agreed on like ρ, before the lists are seen: 32
    unless said otherwise, and never the longest list at hand. Longer lists are refused.
    Reference: SIS Algorithm 11 and Theorem 6.7, which leave the constants open.

    >>> lists = [["a", "b"], ["a", "c"], ["d", "a"], ["e", "f"]] * 10_000
    >>> list_heavy_hitter(lists, eta=0.6, rho=0.1, beta=0.01, tape=Tape("study-7")).value
    'a'
    """
    of = "list_heavy_hitter"
    tape = tape_argument(tape, of=of)
    eta, size, rho, beta = _promise(eta, list_size, rho, beta, of=of)
    plan = _plan(eta, size, rho, beta)
    if isinstance(lists, np.ndarray):
        lists = lists.tolist()
    if isinstance(lists, (str, bytes)) or not isinstance(lists, Iterable):
        raise InvalidArgument("lists", "a sequence of lists of items", lists, of=of, reference=_BY)
    taken = list(lists)[: plan.rows]
    named, counts = _occurrences(taken, size, of=of)
    return _settled(plan, named, counts, len(taken), rho, beta, tape, best_effort=best_effort)


def listed_item(
    counts: Mapping[Any, int],
    lists: int,
    *,
    eta: float,
    rho: float,
    beta: float,
    list_size: int,
    tape: Tape,
    best_effort: bool,
) -> Result:
    """What :func:`list_heavy_hitter` returns, from how many of the ``lists`` each item is on."""
    plan = _plan(*_promise(eta, list_size, rho, beta, of="list_heavy_hitter"))
    named = {item_name(item): item for item in counts}
    by_name = {item_name(item): count for item, count in counts.items()}
    return _settled(plan, named, by_name, lists, rho, beta, tape, best_effort=best_effort)


def _settled(
    plan: _Plan,
    named: Mapping[str, Any],
    counts: Mapping[str, int],
    lists: int,
    rho: float,
    beta: float,
    tape: Tape,
    *,
    best_effort: bool,
) -> Result:
    """The first item, in the tape's order of names, whose share reaches the tape's cutoff."""
    if not enough_rows(lists, plan.rows, best_effort=best_effort, what="An item with this promise"):
        rho, beta = plan.mismatch(lists), plan.failure(lists)
    own = tape.branch("list_heavy_hitter")
    cutoff = plan.low + (plan.high - plan.low) * float(own.uniforms(1)[0])
    able = [name for name, count in counts.items() if count / lists >= cutoff]
    first = min(zip(own.named_words(able).tolist(), able, strict=True), default=None)
    value = None if first is None else named[first[1]]
    details = {"eta": plan.eta, "cutoff": cutoff, "list_size": plan.list_size, "needed": plan.rows}
    return Result(value, Replicability(rho), plan.eta / 2.0, beta, lists, str(tape), details)


def list_heavy_hitter_rows(*, eta: float, rho: float, beta: float, list_size: Any = _LIST_SIZE) -> int:
    """The lists that :func:`list_heavy_hitter` needs.

    Guarantee: the least n for which a cutoff uniform on a band [a, b] within [η/2, η] keeps both promises;
    the mismatch is at most [E|W|/(2n) · H(M/a) + ln Φ · e^{2θ}/(2nθ)]/(b − a) + exp(−2n kl(b ‖ η)), with W a
    walk of 2nb steps, θ = √(2/(π(2nb + 6))), M = ``list_size``, H the harmonic number and Φ ≈ M/a.
    Assumes: as :func:`list_heavy_hitter`.
    Reference: SIS Theorem 6.7 up to constants; the constants are Holdfast's.

    >>> list_heavy_hitter_rows(eta=0.6, rho=0.1, beta=0.01)
    37567
    >>> list_heavy_hitter_rows(eta=0.6, rho=0.1, beta=0.01, list_size=2)
    7814
    """
    return _plan(*_promise(eta, list_size, rho, beta, of="sample_size of list_heavy_hitter")).rows


@dataclass(frozen=True)
class _Plan:
    """What everyone with the same promise shares: the band of the cutoff and the size it needs."""

    eta: float
    list_size: int
    rows: int
    low: float
    high: float

    def mismatch(self, n: int) -> float:
        if not self.low < self.high:
            return 1.0
        steps = math.ceil(2.0 * n * self.high) + 1
        theta = math.sqrt(2.0 / (math.pi * (steps + 6)))
        apart = math.sqrt(2.0 * (steps + 1) / math.pi) / (2.0 * n)
        # Items at or above the cutoff leave one by one: the k-th is missed among k or more.
        leaving = apart * _harmonic(self.list_size / self.low)
        # Items below it join, e^θ times as many for each step down: the logarithm of their number counts.
        rare = 2.0 * n * math.exp(-2.0 * n * theta * (self.low - 0.5 / n))
        joining = math.log(max(1.0, self.list_size * max(1.0 / self.low, rare)))
        joining *= math.exp(2.0 * theta) / (2.0 * n * theta)
        return rounding.probability(
            (leaving + joining) / (self.high - self.low) + chernoff(2 * n, self.high, self.eta)
        )

    def failure(self, n: int) -> float:
        lightest = self.eta / 2.0
        if not n * (self.low - lightest) >= 1.0:  # the bound over all light items needs this much
            return 1.0
        light = chernoff(n, self.low, lightest) * self.list_size / lightest
        return rounding.probability(light + chernoff(n, self.high, self.eta))


def _harmonic(count: float) -> float:
    """1 + 1/2 + … + 1/⌊count⌋, from above."""
    whole = max(1, math.floor(count))
    return math.log(whole) + _EULER + 0.5 / whole


def _promise(eta: Any, list_size: Any, rho: Any, beta: Any, *, of: str) -> tuple[float, int, float, float]:
    return (
        checks.real(eta, "eta", "[1e-9, 1)", of=of, by=_BY),
        checks.whole(list_size, "list_size", at_most=_MOST_LISTED, of=of, by=_BY),
        chance(rho, "rho", of=of, by=_BY),
        chance(beta, "beta", of=of, by=_BY),
    )


@lru_cache(maxsize=256)
def _plan(eta: float, list_size: int, rho: float, beta: float) -> _Plan:
    lightest = eta / 2.0

    def at(n: int) -> _Plan:
        middle = 0.75 * eta
        low = band_end(n, middle, lightest, beta / 2.0 * lightest / list_size)
        # A wider band mixes better, a narrower one is left less often by the heavy item: the best of a few.
        ends = (band_end(n, middle, eta, min(part, beta / 2.0)) for part in _MISSES)
        return min((_Plan(eta, list_size, n, low, high) for high in ends), key=lambda plan: plan.mismatch(n))

    def holds(n: int) -> bool:
        plan = at(n)
        return plan.low < plan.high and plan.failure(n) <= beta and plan.mismatch(n) <= rho

    needed = least_whole(holds)
    if needed is None:
        raise InvalidArgument("eta", "large enough for 2⁶² lists", eta, of="list_heavy_hitter", reference=_BY)
    return at(needed)


def _occurrences(lists: list[Any], size: int, *, of: str) -> tuple[dict[str, Any], Counter[str]]:
    """Each name's item, and in how many of the lists it occurs."""
    named: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for items in lists:
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise InvalidArgument("lists", "a sequence of lists of items", items, of=of, reference=_BY)
        names = {item_name(item): item for item in items}
        if len(names) > size:
            expected = f"a bound that both sides agree on beforehand, and a list here has {len(names)} items"
            raise InvalidArgument("list_size", expected, size, of=of, reference=_BY)
        named.update(names)
        counts.update(names.keys())
    return named, counts
