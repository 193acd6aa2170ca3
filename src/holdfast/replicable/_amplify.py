"""From some replicability to as much as wanted, at the price of more rows (SIS Lemma 2.13)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.records import Record
from holdfast.replicable._design import Result
from holdfast.replicable._rounding import CountThreshold
from holdfast.replicable._tape import Tape, tape_argument
from holdfast.stability import Replicability

__all__ = ["Amplified", "amplify"]

# Shares of bad coins that are tried, in units of 2ρ; at 1 the good coins are as good as a fair vote.
_SHARES = (1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.5, 1.6, 1.8, 2.0, 2.5)
_MARGINS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
_EXHAUSTED = 1e-3


def amplify(
    algorithm: Callable[..., Any], *, rho: float, target: float, rows: int, beta: float = 0.0
) -> Amplified:
    """An algorithm with replicability ``target`` from one with ``rho`` on ``rows`` rows.

    ``algorithm(sample, tape)`` must be ``rho``-replicable on samples of ``rows`` rows and wrong with
    probability at most ``beta``. A sample is an array, a list, a data frame, or a tuple of these with
    equally many rows.

    Guarantee: the returned callable, on ``rows_needed`` rows, gives different outputs for two samples
    and one tape with probability at most ``target``, and is wrong with probability at most ``failure``.
    Assumes: independent rows, and what is declared of ``algorithm`` (not checkable); outputs that can be
    compared.
    Reference: SIS Lemma 2.13, which states Õ(m ln³(1/β)/(ρ²(½−η)²)) rows and failure 4(β + ρ); constants
    Holdfast.

    >>> from holdfast.replicable import histogram, sample_size
    >>> promise = {"accuracy": 0.2, "rho": 0.1, "beta": 0.01}
    >>> def shares(answers, tape):
    ...     return histogram(answers, ["no", "yes"], tape=tape, **promise)
    >>> rows = sample_size("histogram", categories=2, **promise)
    >>> stronger = amplify(shares, rho=0.1, target=0.05, rows=rows, beta=0.01)
    >>> stronger.guarantee, stronger.runs, stronger.rows_needed, round(stronger.failure, 4)
    (Replicability(rho=0.05), 547, 200749, 0.0278)
    """
    of, by = "amplify", "SIS Lemma 2.13"
    if not callable(algorithm):
        raise InvalidArgument("algorithm", "callable with a sample and a tape", algorithm, of=of)
    rho = checks.real(rho, "rho", "(0, 0.5)", of=of, by=by)
    target = checks.real(target, "target", "(0, 0.5)", of=of, by=by)
    if not target < rho:
        raise InvalidArgument("target", f"below rho = {rho:g}", target, of=of, reference=by)
    rows = checks.whole(rows, "rows", of=of, by=by)
    beta = checks.real(beta, "beta", "[0, 1)", of=of, by=by)
    plan = _plan(rho, target)
    return Amplified(
        Replicability(target),
        plan.runs * rows,
        _failure(plan, rho, beta),
        plan.runs,
        plan.branches,
        rows,
        algorithm,
        plan.threshold,
        (rho, beta),
    )


@dataclass(frozen=True, repr=False)
class Amplified(Record):
    """An algorithm run on ``runs`` blocks of ``rows`` rows, on one branch of the tape after another.

    A branch is accepted when all but a few of its runs agree; how few, the tape decides. The answer is
    what they agree on. Call it with the rows and the tape.
    """

    guarantee: Replicability
    rows_needed: int
    failure: float
    runs: int
    branches: int
    rows: int
    algorithm: Callable[..., Any] = field(repr=False)
    _threshold: CountThreshold | None = field(repr=False)
    _declared: tuple[float, float] = field(repr=False)

    def __call__(self, sample: Any, tape: Tape, *, best_effort: bool = False) -> Any:
        """The amplified output on at least ``rows_needed`` rows; only the first of them are read.

        With fewer rows ``best_effort`` gives the output of :meth:`reduced`.
        """
        tape = tape_argument(tape, of="amplify")
        got = _rows_of(sample)
        if got < self.rows_needed:
            if not best_effort or got < self.rows:
                raise NotEnoughRows(
                    self.rows if best_effort else self.rows_needed, got, what="The amplified algorithm"
                )
            return self.reduced(got)(sample, tape)
        blocks = [_block(sample, i * self.rows, (i + 1) * self.rows) for i in range(self.runs)]
        fallback: Any = None
        for number in range(self.branches):
            branch = tape.branch(f"amplify {number}")
            output, agreeing = self._vote(blocks, branch.branch("run"))
            if number == 0:
                fallback = output
            coin = branch.branch("threshold").uniforms(1)
            dissent = 0 if self._threshold is None else int(self._threshold(coin)[0])
            if self.runs - agreeing <= dissent:
                return self._signed(output, tape)
        return self._signed(fallback, tape)

    def reduced(self, available: int) -> Amplified:
        """What ``available`` rows allow, if they are too few: fewer runs and a weaker ``guarantee``.

        Where fewer runs promise no more than one run does, it is one run, with the declared ρ.
        """
        available = checks.whole(available, "available", at_least=self.rows, of="Amplified.reduced")
        runs = min(self.runs, available // self.rows)
        rho, beta = self._declared
        if runs == self.runs:
            return self
        best = _best(runs, rho, self.guarantee.rho)
        if best is None or best.rho >= rho:
            return replace(
                self,
                guarantee=Replicability(rho),
                rows_needed=self.rows,
                failure=beta,
                runs=1,
                branches=1,
                _threshold=None,
            )
        return replace(
            self,
            guarantee=Replicability(best.rho),
            rows_needed=runs * self.rows,
            failure=_failure(best, rho, beta),
            runs=runs,
            branches=best.branches,
            _threshold=best.threshold,
        )

    def _vote(self, blocks: list[Any], coins: Tape) -> tuple[Any, int]:
        """The most frequent output over the blocks, and how many blocks gave it."""
        outputs: dict[Hashable, Any] = {}
        votes: Counter[Hashable] = Counter()
        for block in blocks:
            output = self.algorithm(block, coins)
            votes[name := _name(output)] += 1
            outputs.setdefault(name, output)
        name, agreeing = votes.most_common(1)[0]
        return outputs[name], agreeing

    def _signed(self, output: Any, tape: Tape) -> Any:
        """A result says what is promised of it now."""
        if not isinstance(output, Result):
            return output
        return replace(
            output, guarantee=self.guarantee, beta=self.failure, rows=self.rows_needed, tape=str(tape)
        )


@dataclass(frozen=True, repr=False)
class _Plan(Record):
    """``runs`` blocks of rows, ``branches`` of the tape, and what comes of them."""

    runs: int
    branches: int
    nu: float
    low: int
    high: int
    rho: float

    @property
    def threshold(self) -> CountThreshold:
        return CountThreshold(self.runs, self.low, self.high)


def _branches(nu: float, target: float) -> int:
    """Enough branches that all of them are bad with probability at most a thousandth of the target."""
    return max(1, math.ceil(math.log(_EXHAUSTED * target) / math.log(nu)))


def _bound(threshold: CountThreshold, eta: float, nu: float, branches: int) -> float:
    """Bad coins before the first good ones, a good branch that is refused, or no good branch at all."""
    stranger = threshold.below(0.5)
    bad = max(threshold.mismatch + 2.0 * stranger, 4.0 * stranger)
    return nu / (1.0 - nu) * bad + 2.0 * threshold.above(eta) + nu**branches


@lru_cache(maxsize=4096)
def _best(runs: int, rho: float, target: float) -> _Plan | None:
    """The plan with the least ρ for this many runs."""
    best: _Plan | None = None
    for share in _SHARES:
        nu = 2.0 * rho * share
        if not nu < 0.99:
            break
        eta = Replicability(rho).good_coins(nu).eta
        branches = _branches(nu, target)
        for margin in _MARGINS:
            root = math.sqrt(runs)
            low = math.ceil(eta * runs + margin * root * math.sqrt(eta * (1.0 - eta)))
            high = math.floor(runs / 2 - margin * root / 2) - 1
            if high <= low:
                continue
            reached = _bound(CountThreshold(runs, low, high), eta, nu, branches)
            if best is None or reached < best.rho:
                best = _Plan(runs, branches, nu, low, high, rounding.probability(reached))
    return best


@lru_cache(maxsize=256)
def _plan(rho: float, target: float) -> _Plan:
    def enough(runs: int) -> bool:
        best = _best(runs, rho, target)
        return best is not None and best.rho <= target

    runs = search.least_whole(enough, most=2**40)
    best = _best(runs, rho, target) if runs is not None else None
    if best is None:
        raise InvalidArgument("target", "reachable with fewer than 2⁴⁰ runs", target, of="amplify")
    return best


def _block(sample: Any, start: int, stop: int) -> Any:
    """Rows ``start`` … ``stop`` − 1 of a table, an array, a list, or of each part of a tuple (x, y)."""
    if isinstance(sample, tuple):
        return tuple(_block(part, start, stop) for part in sample)
    return sample.iloc[start:stop] if hasattr(sample, "iloc") else sample[start:stop]


def _rows_of(sample: Any) -> int:
    return min(_rows_of(part) for part in sample) if isinstance(sample, tuple) else len(sample)


def _name(output: Any) -> Hashable:
    """Two outputs have the same name if they are the same."""
    value = output.value if isinstance(output, Result) else output
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *map(_name, value))
    if isinstance(value, Hashable):
        return value
    raise InvalidArgument("algorithm", "an algorithm whose outputs can be compared", output, of="amplify")


def _failure(plan: _Plan, rho: float, beta: float) -> float:
    """A wrong majority on some branch up to the first good one, a good branch refused, or none at all."""
    agreeing = (plan.runs - plan.high) / plan.runs
    refused = plan.threshold.above(Replicability(rho).good_coins(plan.nu).eta)
    wrong = beta / (agreeing * (1.0 - plan.nu))
    return rounding.probability(wrong + refused + plan.nu**plan.branches)
