"""How many blocks, parts, strings and labelled rows make a private agnostic learner, with constants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.reductions._algorithm import Algorithm, Floats
from holdfast.reductions._amplify_delta import cheapest_parts
from holdfast.reductions._coins import cheapest
from holdfast.reductions._replicable import with_law_error
from holdfast.reductions._steady import steadiest
from holdfast.reductions._vote import expected_loss, fewest, log_bad, lost, reserve
from holdfast.stability import GoodCoins, Replicability

__all__ = ["AgnosticPlan", "agnostic_plan", "labelled_rows"]

# The share of blocks whose labelled rows may mislead: each is tried.
_MISLED = (0.01, 0.05)
_STRINGS = (1, 2, 4, 8)
_MOST_BLOCKS = 2**16


@dataclass(frozen=True, repr=False)
class AgnosticPlan(Record):
    """``blocks`` blocks of ``learner_rows`` + ``labelled`` rows, ``strings`` coins, then a vote of lists."""

    blocks: int
    parts: int
    learner_rows: int
    labelled: int
    strings: int
    list_size: int
    rho: float
    reserve: float | None
    failure: float

    @property
    def block_rows(self) -> int:
        """Rows of one block."""
        return self.learner_rows + self.labelled

    @property
    def runs(self) -> int:
        """Rows in all, for each part that the law is averaged over."""
        return -(-self.blocks * self.block_rows // self.parts)


def labelled_rows(list_size: int, misled: float, room: float) -> int:
    """Labelled rows on which a good hypothesis looks good, and no bad one on a list of this size does.

    Guarantee: T = ⌈2(√ln(2/q) + √ln(2L/q))²/room²⌉: with probability 1 − q the error of one hypothesis is
    overestimated by at most √(ln(2/q)/2T), and none of L is underestimated by more than √(ln(2L/q)/2T);
    together these are at most room/2.
    Assumes: independent rows that the hypotheses do not depend on.
    Reference: Hoeffding 1963.
    """
    both = math.sqrt(math.log(2.0 / misled)) + math.sqrt(math.log(2.0 * list_size / misled))
    return math.ceil(rounding.up(2.0 * both * both / (room * room)))


def agnostic_plan(
    algorithm: Algorithm,
    growth: Callable[[int], int],
    *,
    room: float,
    epsilon: float,
    delta: float,
    beta: float,
    of: str,
    by: str,
) -> AgnosticPlan:
    """The plan with the fewest rows that this search finds.

    Guarantee: with good coins (η, ν) of the learner made replicable, g its failure, q the share of misled
    blocks, s strings and t blocks: wrong or silent with probability at most (ν + g/(1 − η))^s + E[lost(t −
    U)], U ~ Bin(t, η + q), against wrong hypotheses with U votes each.
    Assumes: independent rows.
    Reference: SIS Theorem 6.5; the constants: Holdfast.
    """
    outcomes = len(algorithm.finite(of=of))
    failure = with_law_error(algorithm)
    ways = (0.0, delta) if delta > 0.0 else (0.0,)

    def plan_with(parts: int, below: float) -> AgnosticPlan:
        rho = steadiest(algorithm, parts, of=of).rho
        size = parts * algorithm.rows_needed
        most = checks.whole(growth(size), "growth", of=of, by=by)

        def plan_for(coins: GoodCoins, below: float) -> AgnosticPlan:
            best: AgnosticPlan | None = None
            for strings, misled, spent in itertools.product(_STRINGS, _MISLED, ways):
                plan = blocks_for(coins, strings, misled, spent, below)
                if plan is not None:
                    best, below = plan, plan.runs
            if best is None:
                expected = f"so small that {beta:g} can be reached"
                raise InvalidArgument("failure", expected, algorithm.failure, of=of, reference=by)
            return best

        def blocks_for(
            coins: GoodCoins, strings: int, misled: float, spent: float, below: float
        ) -> AgnosticPlan | None:
            no_good_string = (coins.nu + failure / (1.0 - coins.eta)) ** strings
            unlucky = coins.eta + misled
            if not (no_good_string < beta and unlucky < 0.5):
                return None
            size_of_list = strings * most
            held = None if spent == 0.0 else reserve(epsilon, spent, size_of_list)
            wrong = max(1, min(size_of_list, outcomes - 1))
            labelled = labelled_rows(size_of_list, misled, room)

            def missed(blocks: int) -> float:
                def loss(off: Floats) -> Floats:
                    bad = log_bad(epsilon, held, off, outcomes, wrong)
                    return np.asarray(lost(epsilon, held, blocks - off, bad))

                return float(expected_loss(blocks, unlucky, loss))

            def enough(blocks: int) -> bool:
                return missed(blocks) < (beta - no_good_string) * (1.0 - 1e-12)

            # As many blocks as would still be an improvement must be enough: one sum, where most plans end.
            improving = math.ceil(min(below * parts / (size + labelled), _MOST_BLOCKS + 1.0)) - 1
            blocks = fewest(enough, improving) if improving > 0 and enough(improving) else None
            if blocks is None:
                return None
            return AgnosticPlan(
                blocks=blocks,
                parts=parts,
                learner_rows=size,
                labelled=labelled,
                strings=strings,
                list_size=size_of_list,
                rho=rho,
                reserve=held,
                failure=rounding.probability(no_good_string + missed(blocks)),
            )

        return cheapest(Replicability(rho), plan_for, of=of, by=by, below=below)

    _, plan = cheapest_parts(lambda count: steadiest(algorithm, count, of=of).rho, plan_with, of=of, by=by)
    assert isinstance(plan, AgnosticPlan)
    return plan
