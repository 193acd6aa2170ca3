"""The grid: what each of our strategies and each peer certifies, and how many rows the same promise takes.

k adaptive means of values in [0, 1] on n independent rows, all within the error with probability .95, for
three promises: no guess from the training part surprises, ten do, or any number may. Also the one chain on
which a published theorem says anything.

    python benchmarks/certified.py
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from typing import Any

from machine import keep
from peers import PEERS, Peer, chain_error, non_adaptive_error

from holdfast.coding import Weights, training_share
from holdfast.dependence import MarkovChain
from holdfast.planning import Plan, plan
from holdfast.planning._guarded import expected_width
from holdfast.stability import split_error
from holdfast.tails import BoundedDifferences

BETA = 0.05
ROWS = (10**3, 10**4, 10**5, 10**6)
QUERIES = (1, 10, 10**2, 10**3, 10**4, 10**5)
PROMISES: dict[str, int | None] = {"no surprise": 0, "ten surprises": 10, "any surprises": None}
NOTHING = 0.5  # whoever always answers ½ is never farther from the truth
TARGET = 0.1
FLIP = 0.25
CHAIN_ROWS, CHAIN_QUERIES = (10**4, 10**5, 10**6), (10, 10**2, 10**3, 10**4)
# Ours are rounded up, and keep room for values that enter as whole multiples of 2⁻²⁴ of their range. What
# differs by less is the same number.
SLACK = 2.0**-23

Progress = Callable[[int, int], None]


def ours(rows: int, queries: int, surprises: int) -> dict[str, float]:
    """The error of each of our strategies; one that needs a training part on top has half of the rows."""
    errors = _errors(plan(queries=queries, confidence=1 - BETA, rows=rows, surprises=surprises))
    half = plan(queries=queries, confidence=1 - BETA, rows=rows - rows // 2, surprises=surprises)
    errors["reusable-holdout"] = half.method("reusable-holdout").error
    return {name: min(NOTHING, error) for name, error in errors.items()}


def _errors(planned: Plan) -> dict[str, float]:
    return {
        entry.name: entry.error for entry in planned.table if entry.recommendable and entry.name != "naive"
    }


def theirs(rows: int, queries: int, promise: int | None) -> dict[str, float]:
    """The error of each peer whose promise is that of the grid.

    Peers that need guesses are left out where any number of them may be off: on half of the rows, and with a
    price for every failure, they certify less than rounding does on all.
    """
    return {
        peer.name: min(NOTHING, peer.error(rows, queries, BETA, min(promise or 0, queries)))
        for peer in _asked(promise)
    }


def _asked(promise: int | None) -> list[Peer]:
    return [peer for peer in PEERS if peer.comparable and not (peer.guesses and promise is None)]


def _best(errors: dict[str, float]) -> str:
    return min(errors, key=errors.__getitem__)


def point(rows: int, queries: int, promise: str) -> dict[str, Any]:
    """One place of the grid."""
    stated = PROMISES[promise]
    mine = ours(rows, queries, queries if stated is None else min(stated, queries))
    others = theirs(rows, queries, stated)
    best, rival = _best(mine), _best(others)
    return {
        "promise": promise,
        "rows": rows,
        "queries": queries,
        "ours": mine,
        "peers": others,
        "best": best,
        "error": mine[best],
        "best peer": rival,
        "peer error": others[rival],
        "ratio": mine[best] / others[rival],
        "at most the peer": mine[best] <= others[rival] + SLACK,
        "limit": non_adaptive_error(rows, queries, BETA),
    }


def grid(progress: Progress = lambda done, total: None) -> list[dict[str, Any]]:
    """Every place of the grid."""
    places = [(rows, queries, promise) for promise in PROMISES for rows in ROWS for queries in QUERIES]
    points = []
    for place in places:
        points.append(point(*place))
        progress(len(points), len(places))
    return points


def least_rows(error_of: Callable[[int], float], target: float, most: int = 10**13) -> int | None:
    """The fewest rows with which an error that falls with the rows is within the target, to a thousandth."""
    low, high = 1, 16
    while error_of(high) > target:
        low, high = high, 4 * high
        if high > most:
            return None
    while high - low > max(1, high // 1000):
        middle = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
        low, high = (low, middle) if error_of(middle) <= target else (middle, high)
    return high


def rows_needed(queries: int, promise: str, target: float = TARGET) -> dict[str, Any]:
    """The rows that each method needs for all answers within ``target``, a training part included."""
    stated = PROMISES[promise]
    surprises = queries if stated is None else min(stated, queries)
    planned = plan(queries=queries, confidence=1 - BETA, error=target, surprises=surprises)
    mine = {
        entry.name: entry.rows for entry in planned.table if entry.recommendable and entry.name != "naive"
    }
    mine["reusable-holdout"] = _doubled(mine.get("reusable-holdout"))
    others: dict[str, int | None] = {}
    for peer in _asked(stated):
        if peer.name == "noise, Jung et al.":
            others[peer.name] = planned.method("transfer-gaussian").variants["jung"].rows
        else:
            others[peer.name] = least_rows(_at(peer, queries, min(stated or 0, queries)), target)
    best, rival = _fewest(mine), _fewest(others)
    needed, rivals = mine[best], others[rival]
    return {
        "promise": promise,
        "queries": queries,
        "error": target,
        "ours": mine,
        "peers": others,
        "best": best,
        "best peer": rival,
        "ratio": None if needed is None or rivals is None else needed / rivals,
    }


def _at(peer: Peer, queries: int, surprises: int) -> Callable[[int], float]:
    return lambda rows: peer.error(rows, queries, BETA, surprises)


def _doubled(rows: int | None) -> int | None:
    return None if rows is None else 2 * rows


def _fewest(rows: dict[str, int | None]) -> str:
    return min(rows, key=lambda name: math.inf if rows[name] is None else float(rows[name] or 0))


def chains() -> list[dict[str, Any]]:
    """The symmetric two-state chain that flips with probability ¼, ten surprises: ours, and the one published
    theorem that speaks of chains, on every t-th row with the best t. No other peer's promise holds there."""
    points = []
    for rows in CHAIN_ROWS:
        chain = MarkovChain([[1 - FLIP, FLIP], [FLIP, 1 - FLIP]], rows)
        for queries in CHAIN_QUERIES:
            mine = _errors(plan(queries=queries, confidence=1 - BETA, dependence=chain, surprises=10))
            mine = {name: min(NOTHING, error) for name, error in mine.items()}
            best = _best(mine)
            correlated = min(NOTHING, chain_error(rows, queries, BETA, FLIP))
            points.append(
                {
                    "rows": rows,
                    "queries": queries,
                    "ours": mine,
                    "best": best,
                    "error": mine[best],
                    "Kontorovich et al.": correlated,
                    "ratio": mine[best] / correlated,
                    "not valid": [peer.name for peer in PEERS],
                }
            )
    return points


def honest() -> list[dict[str, Any]]:
    """The mean width of sessions in which guesses are as good as fresh ones: the code guard, untold and told
    how many questions there are, beside a list that was fixed in advance on half of the rows (Bonferroni; the
    other half was explored) and splitting."""
    points = []
    for rows in ROWS:
        for queries in QUERIES:
            widths = {}
            for name, hinted in (("code", False), ("code, expect=k", True)):
                share = training_share(Weights(expect=float(queries) if hinted else None))
                training = round(share * rows)
                kept = rows - training
                forecast = expected_width(
                    tail=BoundedDifferences.of_mean(0, 1, kept),
                    k=queries,
                    beta=BETA,
                    rows_a_training_row=kept / training,
                    expecting=hinted,
                )
                widths[name] = min(NOTHING, forecast.mean)
            widths["a fixed list on half"] = min(NOTHING, non_adaptive_error(rows // 2, queries, BETA))
            widths["split"] = min(NOTHING, split_error(rows, queries, BETA))
            points.append({"rows": rows, "queries": queries, **widths})
    return points


def certified(progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """The whole comparison as plain values."""
    points = grid(progress)
    behind = [
        {
            key: place[key]
            for key in ("promise", "rows", "queries", "best", "error", "best peer", "peer error")
        }
        for place in points
        if not place["at most the peer"]
    ]
    return {
        "beta": BETA,
        "points": points,
        "behind a peer": behind,
        "rows needed": [rows_needed(queries, promise) for promise in PROMISES for queries in QUERIES],
        "chains": chains(),
        "honest sessions": honest(),
        "other promises": _others(),
    }


def _others() -> list[dict[str, Any]]:
    """Peers whose promise is another one, or none."""
    return [
        {
            "name": peer.name,
            "source": peer.source,
            "why": peer.invalid or peer.about,
            "errors": [
                {"rows": rows, "queries": queries, "error": peer.error(rows, queries, BETA, 0)}
                for rows in ROWS
                for queries in QUERIES
            ],
        }
        for peer in _not_comparable(PEERS)
    ]


def _not_comparable(peers: Iterable[Peer]) -> list[Peer]:
    return [peer for peer in peers if not peer.comparable]


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    keep("certified", certified())


if __name__ == "__main__":
    main()
