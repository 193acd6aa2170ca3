"""Replicable heavy hitters: all items above a shared random cutoff."""

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
from holdfast.replicable._design import Result, chance, enough_rows, least_whole
from holdfast.replicable._rounding import band_end, chernoff, share_gap
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = [
    "count_items",
    "heavy_hitters",
    "heavy_hitters_rows",
    "item_name",
    "item_order",
    "list_heavy_hitter",
    "list_heavy_hitter_rows",
    "listed_item",
]


_BY = "docs/theory/replicability.md, heavy hitters"


def heavy_hitters(
    items: Any,
    *,
    threshold: Any,
    rho: float,
    beta: float,
    tape: Tape,
    accuracy: float | None = None,
    best_effort: bool = False,
) -> Result:
    """The items that make up about ``threshold`` of the distribution or more, as a sorted tuple.

    Guarantee: two samples and one tape give different tuples with probability at most ρ. Except with
    probability β every item of share at least threshold + accuracy is there and none of share below
    threshold − accuracy. Any number of distinct items, known or not.
    Assumes: independent rows of one distribution; ``accuracy`` (by default half the threshold) is below the
    threshold.
    Reference: Holdfast, replicability; the problem is that of Impagliazzo, Lei, Pitassi and Sorrell 2022.

    >>> trees = ["oak", "elm", "ash", "oak"] * 5000
    >>> list(heavy_hitters(trees, threshold=0.4, rho=0.1, beta=0.01, tape=Tape("study-7")))
    ['oak']
    """
    of = "heavy_hitters"
    tape = tape_argument(tape, of=of)
    cut, slack, rho, beta = _promise(threshold, accuracy, rho, beta, of=of)
    plan = _plan(cut, slack, rho, beta)
    named, counts, rows = count_items(items, of=of)
    if not enough_rows(rows, plan.rows, best_effort=best_effort, what="A list with this promise"):
        rho, beta = plan.mismatch(rows), plan.failure(rows)
    uniform = float(tape.branch("heavy_hitters").uniforms(1)[0])
    cutoff = plan.low + (plan.high - plan.low) * uniform
    heavy = [named[name] for name, count in counts.items() if count / rows >= cutoff]
    details = {"threshold": cut, "cutoff": cutoff, "needed": plan.rows}
    return Result(
        tuple(sorted(heavy, key=item_order)), Replicability(rho), slack, beta, rows, str(tape), details
    )


def heavy_hitters_rows(*, threshold: Any, rho: float, beta: float, accuracy: float | None = None) -> int:
    """The rows that :func:`heavy_hitters` needs.

    Guarantee: the least n for which a cutoff uniform on a band [a, b] keeps both promises: the items'
    shares sum to 1, so Σ E|p1 − p2| ≤ E|p1 − p2| at p = a, divided by a, and this is at most ρ(b − a); and
    exp(−n kl(b ‖ t+α))/(t+α) + exp(−n kl(a ‖ t−α))/(t−α) ≤ β.
    Assumes: as :func:`heavy_hitters`.
    Reference: Holdfast, replicability.

    >>> heavy_hitters_rows(threshold=0.4, rho=0.1, beta=0.01)
    3641
    """
    return _plan(*_promise(threshold, accuracy, rho, beta, of="sample_size of heavy_hitters")).rows


@dataclass(frozen=True)
class _Plan:
    """What everyone with the same promise shares: the band of the cutoff and the size it needs."""

    threshold: float
    accuracy: float
    rows: int
    low: float
    high: float

    def mismatch(self, n: int) -> float:
        gap = share_gap(n, self.low * (1.0 - self.low)) / self.low
        return rounding.probability(gap / (self.high - self.low))

    def failure(self, n: int) -> float:
        lightest, heaviest = self.threshold - self.accuracy, self.threshold + self.accuracy
        if not n * (self.low - lightest) >= 1.0:  # the bound over all light items needs this much
            return 1.0
        failed = chernoff(n, self.low, lightest) / lightest
        if heaviest < 1.0:
            failed += chernoff(n, self.high, heaviest) / heaviest
        return rounding.probability(failed)


def _promise(
    threshold: Any, accuracy: Any, rho: Any, beta: Any, *, of: str
) -> tuple[float, float, float, float]:
    cut = checks.real(threshold, "threshold", "[1e-9, 1)", of=of, by=_BY)
    if accuracy is None:
        accuracy = cut / 2.0
    slack = checks.real(accuracy, "accuracy", "[1e-10, 1)", of=of, by=_BY)
    if not slack < cut:
        raise InvalidArgument("accuracy", f"below the threshold, {cut:g}", accuracy, of=of, reference=_BY)
    return cut, slack, chance(rho, "rho", of=of, by=_BY), chance(beta, "beta", of=of, by=_BY)


@lru_cache(maxsize=256)
def _plan(threshold: float, accuracy: float, rho: float, beta: float) -> _Plan:
    lightest, heaviest = threshold - accuracy, threshold + accuracy
    parts = 1 if heaviest >= 1.0 else 2

    def at(n: int) -> _Plan:
        high = band_end(n, threshold, heaviest, beta / parts * heaviest) if heaviest < 1.0 else 1.0
        least = band_end(n, threshold, lightest, beta / parts * lightest)
        # Lower cutoffs meet more items: below this root of 2a² − 3a + b = 0 a wider band no longer pays.
        pays = 0.25 * (3.0 - math.sqrt(9.0 - 8.0 * high))
        return _Plan(threshold, accuracy, n, max(least, min(pays, threshold)), high)

    def holds(n: int) -> bool:
        plan = at(n)
        return plan.low < plan.high and plan.failure(n) <= beta and plan.mismatch(n) <= rho

    needed = least_whole(holds)
    if needed is None:
        raise InvalidArgument("accuracy", "large enough for 2⁶² rows", accuracy, of="heavy_hitters")
    return at(needed)


_BY_LIST = "SIS Theorem 6.7"
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
    eta, size, rho, beta = _list_promise(eta, list_size, rho, beta, of=of)
    plan = _list_plan(eta, size, rho, beta)
    if isinstance(lists, np.ndarray):
        lists = lists.tolist()
    if isinstance(lists, (str, bytes)) or not isinstance(lists, Iterable):
        raise InvalidArgument("lists", "a sequence of lists of items", lists, of=of, reference=_BY_LIST)
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
    plan = _list_plan(*_list_promise(eta, list_size, rho, beta, of="list_heavy_hitter"))
    named = {item_name(item): item for item in counts}
    by_name = {item_name(item): count for item, count in counts.items()}
    return _settled(plan, named, by_name, lists, rho, beta, tape, best_effort=best_effort)


def _settled(
    plan: _ListPlan,
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
    return _list_plan(*_list_promise(eta, list_size, rho, beta, of="sample_size of list_heavy_hitter")).rows


@dataclass(frozen=True)
class _ListPlan:
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


def _list_promise(
    eta: Any, list_size: Any, rho: Any, beta: Any, *, of: str
) -> tuple[float, int, float, float]:
    return (
        checks.real(eta, "eta", "[1e-9, 1)", of=of, by=_BY_LIST),
        checks.whole(list_size, "list_size", at_most=_MOST_LISTED, of=of, by=_BY_LIST),
        chance(rho, "rho", of=of, by=_BY_LIST),
        chance(beta, "beta", of=of, by=_BY_LIST),
    )


@lru_cache(maxsize=256)
def _list_plan(eta: float, list_size: int, rho: float, beta: float) -> _ListPlan:
    lightest = eta / 2.0

    def at(n: int) -> _ListPlan:
        middle = 0.75 * eta
        low = band_end(n, middle, lightest, beta / 2.0 * lightest / list_size)
        # A wider band mixes better, a narrower one is left less often by the heavy item: the best of a few.
        ends = (band_end(n, middle, eta, min(part, beta / 2.0)) for part in _MISSES)
        return min(
            (_ListPlan(eta, list_size, n, low, high) for high in ends), key=lambda plan: plan.mismatch(n)
        )

    def holds(n: int) -> bool:
        plan = at(n)
        return plan.low < plan.high and plan.failure(n) <= beta and plan.mismatch(n) <= rho

    needed = least_whole(holds)
    if needed is None:
        raise InvalidArgument(
            "eta", "large enough for 2⁶² lists", eta, of="list_heavy_hitter", reference=_BY_LIST
        )
    return at(needed)


def _occurrences(lists: list[Any], size: int, *, of: str) -> tuple[dict[str, Any], Counter[str]]:
    """Each name's item, and in how many of the lists it occurs."""
    named: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for items in lists:
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise InvalidArgument("lists", "a sequence of lists of items", items, of=of, reference=_BY_LIST)
        names = {item_name(item): item for item in items}
        if len(names) > size:
            expected = f"a bound that both sides agree on beforehand, and a list here has {len(names)} items"
            raise InvalidArgument("list_size", expected, size, of=of, reference=_BY_LIST)
        named.update(names)
        counts.update(names.keys())
    return named, counts


_EXPECTED = "texts, numbers or tuples of them"


def item_name(item: Any) -> str:
    """A text that names the item and no other; numbers that are equal have one name.

    >>> item_name("1"), item_name(1), item_name(1.0), item_name(("a", 2))
    ('t1', 'i1', 'i1', '(2:ta2:i2)')
    """
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, str):
        return "t" + item
    if item is None:
        return "none"
    if isinstance(item, (bool, int)) or (isinstance(item, float) and item.is_integer()):
        return f"i{int(item)}"
    if isinstance(item, float) and math.isfinite(item):
        return "f" + item.hex()
    if isinstance(item, tuple):
        parts = map(item_name, item)
        return "(" + "".join(f"{len(part)}:{part}" for part in parts) + ")"
    raise InvalidArgument("items", _EXPECTED, item)


def item_order(item: Any) -> tuple[int, Any]:
    """A key that sorts numbers before texts before the rest, whatever the sample looks like."""
    if isinstance(item, (bool, int, float)):
        return (0, item)
    return (1, item) if isinstance(item, str) else (2, item_name(item))


def count_items(items: Any, *, of: str) -> tuple[dict[str, Any], Counter[str], int]:
    """Each name's item, how often each name occurs, and the number of items."""
    if isinstance(items, np.ndarray):
        items = items.tolist()
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InvalidArgument("items", f"a sequence of {_EXPECTED}", items, of=of)
    try:
        seen = Counter(items)
    except TypeError:
        raise InvalidArgument("items", f"a sequence of {_EXPECTED}", items, of=of) from None
    named: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for item, count in seen.items():
        name = item_name(item)
        named.setdefault(name, item.item() if isinstance(item, np.generic) else item)
        counts[name] += count
    return named, counts, counts.total()
