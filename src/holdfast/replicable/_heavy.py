"""Replicable heavy hitters: all items above a shared random cutoff."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.replicable._arguments import chance, enough_rows
from holdfast.replicable._deviation import band_end, chernoff, share_gap
from holdfast.replicable._items import count_items, item_order
from holdfast.replicable._least import least_whole
from holdfast.replicable._result import Result
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["heavy_hitters", "heavy_hitters_rows"]

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
