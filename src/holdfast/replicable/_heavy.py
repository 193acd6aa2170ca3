"""Replicable heavy hitters: all items above a shared random cutoff, or one item that many lists share.

Items are texts, numbers and tuples of them. Each has a name and a place in one order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._design import Band, Result, chance, promise_arguments, smallest_design
from holdfast.replicable._rounding import band_end, chernoff, share_gap
from holdfast.replicable._tape import Tape, tape_argument

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


Item = TypeVar("Item", bound=Hashable)

_BY = "docs/theory/replicability.md, heavy hitters"


def heavy_hitters(
    items: Iterable[Item],
    *,
    threshold: float,
    rho: float,
    beta: float,
    tape: Tape,
    accuracy: float | None = None,
    best_effort: bool = False,
) -> Result[tuple[Item, ...]]:
    """The items that make up about ``threshold`` of the distribution or more, as a sorted tuple.

    Guarantee: two samples and one tape give different tuples with probability at most ρ. Except with
    probability β every item of share at least threshold + accuracy is there and none of share below
    threshold − accuracy. Any number of distinct items, known or not.
    Assumes: independent rows of one distribution; ``accuracy`` (by default half the threshold) is below the
    threshold.
    Reference: Holdfast, replicability; the problem is that of Impagliazzo, Lei, Pitassi and Sorrell 2022.

    Args:
        items: The items, one for each row: texts, numbers or tuples of them.
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> trees = ["oak", "elm", "ash", "oak"] * 5000
    >>> list(heavy_hitters(trees, threshold=0.4, rho=0.1, beta=0.01, tape=Tape("study-7")))
    ['oak']
    """
    of = "heavy_hitters"
    tape = tape_argument(tape, of=of)
    design = _design(*_promise(threshold, accuracy, rho, beta, of=of))
    named, counts, rows = count_items(items, of=of)
    kept_design = design.kept_by(rows, best_effort=best_effort, what="A list with this promise")
    cutoff = float(design.cutoffs(tape.branch("heavy_hitters").uniforms(1))[0])
    heavy = [named[name] for name, count in counts.items() if count / rows >= cutoff]
    details = {"threshold": design.threshold, "cutoff": cutoff, "needed": design.rows}
    return kept_design.result(tuple(sorted(heavy, key=item_order)), tape, details)


def heavy_hitters_rows(*, threshold: float, rho: float, beta: float, accuracy: float | None = None) -> int:
    """The rows that :func:`heavy_hitters` needs.

    Guarantee: the least n for which a cutoff uniform on a band [a, b] keeps both promises: the items'
    shares sum to 1, so Σ E|p1 − p2| ≤ E|p1 − p2| at p = a, divided by a, and this is at most ρ(b − a); and
    exp(−n kl(b ‖ t+α))/(t+α) + exp(−n kl(a ‖ t−α))/(t−α) ≤ β.
    Assumes: as :func:`heavy_hitters`.
    Reference: Holdfast, replicability.

    >>> heavy_hitters_rows(threshold=0.4, rho=0.1, beta=0.01)
    3641
    """
    return _design(*_promise(threshold, accuracy, rho, beta, of="sample_size of heavy_hitters")).rows


@dataclass(frozen=True)
class HeavyDesign(Band):
    """The band of the cutoff about ``threshold``."""

    threshold: float

    def mismatch(self, rows: int) -> float:
        gap = share_gap(rows, self.low * (1.0 - self.low)) / self.low
        return rounding.probability(gap / (self.high - self.low))

    def failure(self, rows: int) -> float:
        assert self.accuracy is not None
        lightest, heaviest = self.threshold - self.accuracy, self.threshold + self.accuracy
        if not rows * (self.low - lightest) >= 1.0:  # the bound over all light items needs this much
            return 1.0
        failed = chernoff(rows, self.low, lightest) / lightest
        if heaviest < 1.0:
            failed += chernoff(rows, self.high, heaviest) / heaviest
        return rounding.probability(failed)


def _promise(
    threshold: float, accuracy: float | None, rho: float, beta: float, *, of: str
) -> tuple[float, float, float, float]:
    cut = checks.real(threshold, "threshold", "[1e-9, 1)", of=of, by=_BY)
    if accuracy is None:
        accuracy = cut / 2.0
    slack, rho, beta = promise_arguments(accuracy, rho, beta, "[1e-10, 1)", of=of, by=_BY)
    if not slack < cut:
        raise InvalidArgument("accuracy", f"below the threshold, {cut:g}", accuracy, of=of, reference=_BY)
    return cut, slack, rho, beta


@lru_cache(maxsize=256)
def _design(threshold: float, accuracy: float, rho: float, beta: float) -> HeavyDesign:
    """The band that keeps the promise with the fewest rows."""
    lightest, heaviest = threshold - accuracy, threshold + accuracy
    parts = 1 if heaviest >= 1.0 else 2

    def at(n: int) -> HeavyDesign:
        high = band_end(n, threshold, heaviest, beta / parts * heaviest) if heaviest < 1.0 else 1.0
        least = band_end(n, threshold, lightest, beta / parts * lightest)
        # A lower cutoff is exceeded by more items. Below this root of 2a² − 3a + b = 0 a wider band is no
        # better.
        lowest_useful = 0.25 * (3.0 - math.sqrt(9.0 - 8.0 * high))
        return HeavyDesign(accuracy, rho, beta, n, max(least, min(lowest_useful, threshold)), high, threshold)

    return smallest_design(at, "accuracy", accuracy, of="heavy_hitters")


_BY_LIST = "SIS Theorem 6.7"
_EULER = 0.5772156649015329
_MISSES = (0.5, 0.1, 0.03, 0.01)
_LIST_SIZE = 32  # part of the promise: both sides must have the same, so it may never follow the rows
_MOST_LISTED = 2**900


def list_heavy_hitter(
    lists: Iterable[Iterable[Item]],
    *,
    eta: float,
    rho: float,
    beta: float,
    tape: Tape,
    list_size: int = _LIST_SIZE,
    best_effort: bool = False,
) -> Result[Item | None]:
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

    Args:
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.
        tape: The shared coins; both laboratories use the same.
        best_effort: With too few rows, promise what they allow instead of refusing.

    >>> lists = [["a", "b"], ["a", "c"], ["d", "a"], ["e", "f"]] * 10_000
    >>> list_heavy_hitter(lists, eta=0.6, rho=0.1, beta=0.01, tape=Tape("study-7")).value
    'a'
    """
    of = "list_heavy_hitter"
    tape = tape_argument(tape, of=of)
    design = _list_design(*_list_promise(eta, list_size, rho, beta, of=of))
    if isinstance(lists, np.ndarray):
        lists = lists.tolist()
    if isinstance(lists, (str, bytes)) or not isinstance(lists, Iterable):
        raise InvalidArgument("lists", "a sequence of lists of items", lists, of=of, reference=_BY_LIST)
    used_lists = list(lists)[: design.rows]
    named, counts = _occurrences(used_lists, design.list_size, of=of)
    return _first_heavy(design, named, counts, len(used_lists), tape, best_effort=best_effort)


def listed_item(
    counts: Mapping[Item, int],
    lists: int,
    *,
    eta: float,
    rho: float,
    beta: float,
    list_size: int,
    tape: Tape,
    best_effort: bool,
) -> Result[Item | None]:
    """What :func:`list_heavy_hitter` returns, from how many of the ``lists`` each item is on."""
    design = _list_design(*_list_promise(eta, list_size, rho, beta, of="list_heavy_hitter"))
    named = {item_name(item): item for item in counts}
    by_name = {item_name(item): count for item, count in counts.items()}
    return _first_heavy(design, named, by_name, lists, tape, best_effort=best_effort)


def _first_heavy(
    design: ListDesign,
    named: Mapping[str, Item],
    counts: Mapping[str, int],
    lists: int,
    tape: Tape,
    *,
    best_effort: bool,
) -> Result[Item | None]:
    """The first item, in the tape's order of names, whose share reaches the tape's cutoff."""
    kept_design = design.kept_by(lists, best_effort=best_effort, what="An item with this promise")
    own = tape.branch("list_heavy_hitter")
    cutoff = float(design.cutoffs(own.uniforms(1))[0])
    able = [name for name, count in counts.items() if count / lists >= cutoff]
    first = min(zip(own.named_words(able).tolist(), able, strict=True), default=None)
    value = None if first is None else named[first[1]]
    details = {"eta": design.eta, "cutoff": cutoff, "list_size": design.list_size, "needed": design.rows}
    return kept_design.result(value, tape, details)


def list_heavy_hitter_rows(*, eta: float, rho: float, beta: float, list_size: int = _LIST_SIZE) -> int:
    """The lists that :func:`list_heavy_hitter` needs.

    Guarantee: the least n for which a cutoff uniform on a band [a, b] within [η/2, η] keeps both promises.
    The mismatch is at most [E|W|/(2n) · H(M/a) + ln Φ · e^{2θ}/(2nθ)]/(b − a) + exp(−2n kl(b ‖ η)). Here W is
    a walk of 2nb steps, θ = √(2/(π(2nb + 6))), M = ``list_size``, H the harmonic number and Φ ≈ M/a.
    Assumes: as :func:`list_heavy_hitter`.
    Reference: SIS Theorem 6.7 up to constants; the constants are Holdfast's.

    >>> list_heavy_hitter_rows(eta=0.6, rho=0.1, beta=0.01)
    37567
    >>> list_heavy_hitter_rows(eta=0.6, rho=0.1, beta=0.01, list_size=2)
    7814
    """
    return _list_design(*_list_promise(eta, list_size, rho, beta, of="sample_size of list_heavy_hitter")).rows


@dataclass(frozen=True)
class ListDesign(Band):
    """The band of the cutoff between ``eta``/2 and ``eta``, for lists of at most ``list_size`` items."""

    eta: float
    list_size: int

    def mismatch(self, rows: int) -> float:
        if not self.low < self.high:
            return 1.0
        steps = math.ceil(2.0 * rows * self.high) + 1
        theta = math.sqrt(2.0 / (math.pi * (steps + 6)))
        apart = math.sqrt(2.0 * (steps + 1) / math.pi) / (2.0 * rows)
        # Items at or above the cutoff leave one by one: the k-th is missed among k or more.
        leaving = apart * _harmonic(self.list_size / self.low)
        # Items below it join, e^θ times as many for each step down: the logarithm of their number counts.
        rare = 2.0 * rows * math.exp(-2.0 * rows * theta * (self.low - 0.5 / rows))
        joining = math.log(max(1.0, self.list_size * max(1.0 / self.low, rare)))
        joining *= math.exp(2.0 * theta) / (2.0 * rows * theta)
        return rounding.probability(
            (leaving + joining) / (self.high - self.low) + chernoff(2 * rows, self.high, self.eta)
        )

    def failure(self, rows: int) -> float:
        lightest = self.eta / 2.0
        if not rows * (self.low - lightest) >= 1.0:  # the bound over all light items needs this much
            return 1.0
        light = chernoff(rows, self.low, lightest) * self.list_size / lightest
        return rounding.probability(light + chernoff(rows, self.high, self.eta))


def _harmonic(count: float) -> float:
    """1 + 1/2 + … + 1/⌊count⌋, from above."""
    whole = max(1, math.floor(count))
    return math.log(whole) + _EULER + 0.5 / whole


def _list_promise(
    eta: float, list_size: int, rho: float, beta: float, *, of: str
) -> tuple[float, int, float, float]:
    return (
        checks.real(eta, "eta", "[1e-9, 1)", of=of, by=_BY_LIST),
        checks.whole(list_size, "list_size", at_most=_MOST_LISTED, of=of, by=_BY_LIST),
        chance(rho, "rho", of=of, by=_BY_LIST),
        chance(beta, "beta", of=of, by=_BY_LIST),
    )


@lru_cache(maxsize=256)
def _list_design(eta: float, list_size: int, rho: float, beta: float) -> ListDesign:
    """The band that keeps the promise with the fewest lists."""
    lightest = eta / 2.0

    def at(n: int) -> ListDesign:
        middle = 0.75 * eta
        low = band_end(n, middle, lightest, beta / 2.0 * lightest / list_size)
        # With a wider band two samples agree more often; with a narrower one the heavy item fails less often.
        # Take the best of a few.
        ends = (band_end(n, middle, eta, min(part, beta / 2.0)) for part in _MISSES)
        designs = [ListDesign(lightest, rho, beta, n, low, high, eta, list_size) for high in ends]
        return min(designs, key=lambda design: design.mismatch(n))

    return smallest_design(at, "eta", eta, of="list_heavy_hitter", by=_BY_LIST, unit="lists")


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
