"""Real error under the sign attack: how far answers really are from the truth, beside what was certified.

The analyst asks how often each of k − 1 fair coins agrees with a target, turns each the way its answer points
and asks how often their majority agrees; the truth is always ½. Every method meets the same coins. Counts of
columns and of the majority are all that is kept, block by block, so the table is never in memory. Beyond
n·k = 10⁹ the attack is left out.

    python benchmarks/attacked.py [--work 200000000]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from machine import keep
from numpy.typing import NDArray
from peers import (
    GuessAndCheck,
    Rounding,
    best_rounding,
    guess_and_check_error,
    honest_distance,
    jung_error,
    non_adaptive_error,
    rogers_choice,
    subsampling_choice,
)
from scipy import stats

from holdfast.audit._counted import CountedGuard, CountedShare
from holdfast.errors import BudgetSpent
from holdfast.planning import plan
from holdfast.stability import transfer_error

BETA = 0.05
ROWS = (10**3, 10**4, 10**5, 10**6)
QUERIES = (10, 10**2, 10**3, 10**4, 10**5)
MOST = 10**9
MOST_GUARDED = 10**3
BLOCK = 4_000_000
FAILURES = 10

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Seen:
    """Shares of a block of questions on all rows, on the two halves, and on rows of their own."""

    all: Floats
    training: Floats
    holdout: Floats
    own: Floats


class Method:
    """Answers a block of questions; ``certified`` is the error it promises for all of them."""

    def __init__(self, name: str, certified: Callable[[int, int], float]) -> None:
        self.name, self.certified = name, cache(certified)

    def start(self, rows: int, queries: int, rng: np.random.Generator) -> Callable[[Seen], Floats]:
        """A fresh account."""
        raise NotImplementedError


class Naive(Method):
    def start(self, rows, queries, rng):
        return lambda seen: seen.all


class Split(Method):
    def start(self, rows, queries, rng):
        return lambda seen: seen.own


class Rounded(Method):
    choice = staticmethod(cache(lambda rows, queries: best_rounding(rows, queries, BETA)))

    def start(self, rows, queries, rng):
        grid: Rounding = self.choice(rows, queries)[1]
        return lambda seen: grid.answers(seen.all)


class Noisy(Method):
    """Noise of a law and size that the certificate names."""

    def __init__(self, name, certified, size: Callable[[int, int], float], law: str = "normal") -> None:
        super().__init__(name, certified)
        self.size, self.law = cache(size), law

    def start(self, rows, queries, rng):
        scale, draw = self.size(rows, queries), getattr(rng, self.law)
        return lambda seen: np.clip(seen.all + draw(scale=scale, size=len(seen.all)), 0.0, 1.0)


class Subsampled(Method):
    choice = staticmethod(cache(lambda rows, queries: subsampling_choice(rows, queries, BETA)))

    def start(self, rows, queries, rng):
        votes = self.choice(rows, queries)[1]
        return lambda seen: rng.binomial(votes, seen.all) / votes


class Checked(Method):
    """Guesses from half of the rows, checked on the other half; once it refuses, nothing is answered."""

    def start(self, rows, queries, rng):
        check, width = GuessAndCheck(rows - rows // 2, BETA), self.certified(rows, queries)

        def answers(seen: Seen) -> Floats:
            found = np.full(len(seen.all), np.nan)
            for place, (guess, value) in enumerate(zip(seen.training, seen.holdout, strict=True)):
                try:
                    found[place] = check.answer(float(guess), width, float(value))
                except BudgetSpent:
                    break
            return found

        return answers


class Guarded(Method):
    """The code guard itself: every answer comes with an interval of its own, and that is what is judged."""

    def start(self, rows, queries, rng):
        half = rows // 2
        guard = CountedGuard(rows - half, half)

        def answers(seen: Seen) -> Floats:
            found = np.empty(len(seen.all))
            for place, (guess, value) in enumerate(zip(seen.training, seen.holdout, strict=True)):
                question = CountedShare(
                    protected=round(float(value) * (rows - half)), training=round(float(guess) * half)
                )
                interval, _ = guard.ask(question)
                found[place] = (interval.low + interval.high) / 2
                self.missed |= not interval.contains(0.5)
                self.widest = max(self.widest, interval.half_width)
            return found

        self.missed, self.widest = False, 0.0
        return answers


def _planned(name: str) -> Callable[[int, int], float]:
    return lambda rows, queries: min(1.0, _plan(rows, queries).method(name).error)


@cache
def _plan(rows: int, queries: int) -> Any:
    return plan(queries=queries, confidence=1 - BETA, rows=rows, surprises=0)


def _scale(name: str) -> Callable[[int, int], float]:
    key = "sd" if name == "transfer-gaussian" else "scale"
    return lambda rows, queries: float(_plan(rows, queries).method(name).parameters[key])


def _checked(rows: int, queries: int) -> float:
    half, failures = rows - rows // 2, min(FAILURES, queries - 1)
    honest = honest_distance(half, queries, BETA, failures)
    return guess_and_check_error(half, queries, BETA, failures, honest)


METHODS: tuple[Method, ...] = (
    Naive("naive reuse", lambda n, k: non_adaptive_error(n, k, BETA)),
    Split("split", _planned("split")),
    Rounded("rounding", lambda n, k: best_rounding(n, k, BETA)[0]),
    Noisy(
        "noise, Rogers et al.",
        lambda n, k: rogers_choice(n, k, BETA)[0],
        lambda n, k: rogers_choice(n, k, BETA)[1],
    ),
    Noisy(
        "noise, Jung et al.",
        lambda n, k: jung_error(n, k, BETA),
        lambda n, k: transfer_error(n, k, BETA, method="jung").sd,
    ),
    Subsampled("subsampling, Blanc", lambda n, k: subsampling_choice(n, k, BETA)[0]),
    Checked("Guess and Check", _checked),
    Noisy("transfer-gaussian", _planned("transfer-gaussian"), _scale("transfer-gaussian")),
    Noisy("typical-gaussian", _planned("typical-gaussian"), _scale("typical-gaussian")),
    Noisy("typical-laplace", _planned("typical-laplace"), _scale("typical-laplace"), "laplace"),
    Guarded("code", _planned("code")),
)
INVALID = ("naive reuse",)


def _blocks(rows: int, columns: int, rng: np.random.Generator) -> Iterator[NDArray[np.uint8]]:
    """Fair coins, some columns at a time: one line a column."""
    size = max(1, BLOCK // rows)
    for start in range(0, columns, size):
        count = min(size, columns - start)
        bits = np.unpackbits(np.frombuffer(rng.bytes((count * rows + 7) // 8), dtype=np.uint8))
        yield bits[: count * rows].reshape(count, rows)


def _seen(bits: NDArray[np.uint8], first: int, part: int) -> Seen:
    """The shares of these columns; column j's own rows are the j-th part."""
    rows = bits.shape[1]
    half = rows // 2
    training, holdout = bits[:, :half].sum(axis=1, dtype=np.int64), bits[:, half:].sum(axis=1, dtype=np.int64)
    own = [
        float(line[j * part : (j + 1) * part].mean()) if part else 0.5 for j, line in enumerate(bits, first)
    ]
    return Seen((training + holdout) / rows, training / half, holdout / (rows - half), np.array(own))


def attack(rows: int, queries: int, methods: tuple[Method, ...], rng: np.random.Generator) -> list[float]:
    """The real error of each method in one run: of its worst answer."""
    accounts = [method.start(rows, queries, rng) for method in methods]
    scores = np.zeros((len(methods), rows), dtype=np.float32)
    worst = np.zeros(len(methods))
    part, first = rows // queries, 0
    for bits in _blocks(rows, queries - 1, rng):
        seen = _seen(bits, first, part)
        first += len(bits)
        answers = np.array([account(seen) for account in accounts])
        worst = np.fmax(worst, np.nanmax(np.abs(answers - 0.5), axis=1, initial=0.0))
        signs = np.where(answers >= 0.5, 1, -1).astype(np.float32)
        scores += signs @ (2 * bits.astype(np.float32) - 1)
    ties = scores == 0
    votes = np.where(ties, rng.integers(0, 2, scores.shape), scores > 0).astype(np.uint8)
    for place, account in enumerate(accounts):
        last = account(_seen(votes[place : place + 1], queries - 1, part))
        if np.isfinite(last[0]):
            worst[place] = max(worst[place], abs(float(last[0]) - 0.5))
    return [float(error) for error in worst]


def point(rows: int, queries: int, runs: int, seed: int = 0) -> list[dict[str, Any]]:
    """Every method at one place: the largest and the mean real error, and how often the certificate was
    exceeded, with the exact 95 % limits."""
    methods = tuple(m for m in METHODS if queries <= MOST_GUARDED or not isinstance(m, Guarded))
    errors, missed = [], np.zeros(len(methods), dtype=int)
    certified = [method.certified(rows, queries) for method in methods]
    for run in range(runs):
        errors.append(attack(rows, queries, methods, np.random.default_rng([seed, rows, queries, run])))
        for place, method in enumerate(methods):
            beyond = method.missed if isinstance(method, Guarded) else errors[-1][place] > certified[place]
            missed[place] += beyond
    found = np.array(errors)
    return [
        {
            "rows": rows,
            "queries": queries,
            "method": method.name,
            "valid": method.name not in INVALID,
            "certified": method.widest if isinstance(method, Guarded) else certified[place],
            "mean real error": float(found[:, place].mean()),
            "largest real error": float(found[:, place].max()),
            "runs": runs,
            "beyond": int(missed[place]),
            "beyond, at least": _limits(int(missed[place]), runs)[0],
            "beyond, at most": _limits(int(missed[place]), runs)[1],
        }
        for place, method in enumerate(methods)
    ]


def _limits(count: int, runs: int) -> tuple[float, float]:
    """One-sided 95 % Clopper–Pearson limits."""
    low = 0.0 if count == 0 else float(stats.beta.ppf(0.05, count, runs - count + 1))
    high = 1.0 if count == runs else float(stats.beta.isf(0.05, count + 1, runs - count))
    return low, high


def runs_for(rows: int, queries: int, work: int) -> int:
    """As many runs as the work allows, at most 200 and at least two; fewer where the guard answers each
    question by itself."""
    most = 200 if queries < MOST_GUARDED else 20
    return max(2, min(most, math.ceil(work / (rows * queries))))


def attacked(work: int, progress: Progress = lambda done, total: None) -> dict[str, Any]:
    """Every place of the grid within 10⁹ entries, and the places left out."""
    places = [(rows, queries) for rows in ROWS for queries in QUERIES]
    inside = [place for place in places if place[0] * place[1] <= MOST]
    points = []
    for done, (rows, queries) in enumerate(inside):
        points += point(rows, queries, runs_for(rows, queries, work))
        progress(done + 1, len(inside))
    exceeded = [line for line in points if line["valid"] and line["beyond, at least"] > BETA]
    return {
        "beta": BETA,
        "points": points,
        "left out": [{"rows": n, "queries": k} for n, k in places if n * k > MOST],
        "code guard up to": MOST_GUARDED,
        "valid methods beyond their certificate": exceeded,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=float, default=2e8, help="Entries a place of the grid may draw.")
    keep("attacked", attacked(int(parser.parse_args().work)))


if __name__ == "__main__":
    main()
