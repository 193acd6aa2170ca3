"""The auditor never contradicts what a compiler promises, and catches each one that is off by two.

Privacy and generalisation are promised for any tape, or given the candidates: what the coins decide is found
once, and the draw at the end, where all protection comes from, is audited.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from reductions_algorithms import response, shaky
from reductions_ballots import election
from reductions_learner import CLASS, ROWS
from reductions_oracles import vote_law
from test_reductions_agnostic import ballots_of, tiny

from enumeration import hockey_stick
from holdfast import audit
from holdfast.mechanisms import _selection, exponential, select_mode
from holdfast.reductions import (
    Algorithm,
    _perfect,
    _private,
    amplify_delta,
    amplify_generalization,
    amplify_replicability,
    dp_to_replicable,
    item_to_user_level,
    perfect_to_replicable,
    replicable_to_dp,
    replicable_to_perfect,
)
from holdfast.reductions._vote import elect
from holdfast.replicable import Tape
from holdfast.stability import DP, GoodCoins, PerfectGeneralization, Replicability

Law = Callable[[np.random.Generator, int], list[Any]]
Sampler = Callable[[np.random.Generator, int], Any]
PURE = ["replicable_to_dp", "amplify_delta", "item_to_user_level", "private_agnostic"]
TAPE = Tape("public")
BATCH = 100


def drawn_by(mechanism: Callable[..., Any], *given: Any, **named: Any) -> Law:
    """Independent draws of a mechanism, each with a seed of its own."""
    return lambda rng, size: [
        mechanism(*given, seed=int(seed), **named) for seed in rng.integers(2**62, size=size)
    ]


def verdict(first: Law, second: Law, dp: Any, seed: int, draws: int) -> str:
    claim = {"epsilon": dp.epsilon, "delta": dp.delta, "confidence": 0.99}
    return audit.indistinguishability(first, second, draws // BATCH, batch=BATCH, seed=seed, **claim).verdict


def handed_to(module: Any, name: str, algorithm: Algorithm, rows: Any, back: Any = None) -> tuple[Any, ...]:
    """What ``algorithm`` hands to this function of its module on these rows, which gives ``back``."""
    seen: list[tuple[Any, ...]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, lambda *given, **named: seen.append(given) or back)
        algorithm(rows, TAPE)
    (one,) = seen
    return one


@dataclass(frozen=True)
class Voted:
    """A compiler that ends with a vote: what it made, and neighbouring rows on which votes are close."""

    private: Algorithm
    rows: Any
    neighbour: Any

    def judged(self, seed: int, draws: int, *, steeper: float = 1.0, reserved: float = 1.0) -> str:
        """What the auditor says of the vote, or of a twin with other constants."""

        def law(rows: Any) -> Law:
            vote = election(self.private, rows, TAPE)
            held = reserved * vote.reserve
            return drawn_by(elect, vote.ballots, steeper * vote.epsilon, reserve=held, outcomes=vote.outcomes)

        return verdict(law(self.rows), law(self.neighbour), self.private.guarantee, seed, draws)


def halves(count: int) -> tuple[np.ndarray, np.ndarray]:
    """As many zeros as ones, and one zero more."""
    assert count % 2 == 0
    rows = np.arange(count) % 2
    neighbour = rows.copy()
    neighbour[1] = 0
    return rows, neighbour


def distinct(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are all different, and one of them replaced by another one."""
    return np.arange(count), np.append(np.arange(1, count), count)


def told(guarantee: Any, outcomes: int = 2) -> Algorithm:
    """The row itself, whatever is declared: all privacy must come from the compiler."""
    return Algorithm(
        lambda rows, tape: int(rows[0]),
        rows_needed=1,
        guarantee=guarantee,
        outcomes=range(outcomes),
        probabilities=lambda rows: np.arange(outcomes) == rows[0],
    )


def by_users(rows: np.ndarray) -> list[tuple[int, ...]]:
    return [(int(row),) for row in rows]


def voted(name: str) -> Voted:
    pure, leaky = {"epsilon": 2.0, "simulation": True}, {"epsilon": 2.0, "delta": 0.01, "simulation": True}
    few, many = DP(0.3), DP(1e-4)
    if name == "replicable_to_dp":
        private = replicable_to_dp(told(GoodCoins(0.0, 0.0)), beta=0.02, **pure)
        return Voted(private, *halves(private.rows_needed))
    if name == "amplify_delta":
        private = amplify_delta(told(replace(few, delta=1e-3)), beta=0.5, **pure)
        return Voted(private, *halves(private.rows_needed))
    if name == "amplify_delta, δ":
        private = amplify_delta(told(many, 2000), beta=0.3, **leaky)
        return Voted(private, *distinct(private.rows_needed))
    if name == "item_to_user_level":
        private = item_to_user_level(told(few), rows_a_user=1, beta=0.6, **pure)
        return Voted(private, *map(by_users, halves(private.rows_needed)))
    if name == "item_to_user_level, δ":
        private = item_to_user_level(told(many, 2000), rows_a_user=1, beta=0.3, **leaky)
        return Voted(private, *map(by_users, distinct(private.rows_needed)))
    return Voted(tiny(2.0, 0.0, 2), *telling_blocks(4.0))


def telling_blocks(weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Two blocks of private_agnostic, and one row replaced, that tell weights this steep apart best."""
    ballots = ballots_of(2, TAPE)

    def law(*both: tuple[Any, ...]) -> np.ndarray:
        counts = [sum(hypothesis in ballots[block] for block in both) for hypothesis in CLASS]
        return vote_law(counts, weight, None)

    alike = list({ballot: block for block, ballot in ballots.items()}.values())
    block, changed, other = max(
        (
            (block, (*block[:place], row, *block[place + 1 :]), other)
            for block in ballots
            for place in range(3)
            for row in ROWS
            for other in alike
        ),
        key=lambda blocks: hockey_stick(law(blocks[0], blocks[2]), law(*blocks[1:]), 2.0),
    )
    return np.array(block + other), np.array(changed + other)


@pytest.mark.parametrize("name", PURE)
def test_votes_are_as_private_as_promised_and_weights_off_by_two_are_caught(name, seed):
    vote = voted(name)
    assert vote.private.guarantee == DP(2.0)
    assert vote.judged(seed, 1_600) == "not refuted"
    assert vote.judged(seed, 1_600, steeper=2.0) == "refuted"


@pytest.mark.parametrize(
    "name", ["amplify_delta, δ", pytest.param("item_to_user_level, δ", marks=pytest.mark.slow)]
)
def test_votes_for_whatever_occurs_are_as_private_as_promised_and_half_a_reserve_is_caught(name, seed):
    vote = voted(name)
    assert vote.private.guarantee == DP(2.0, 0.01)
    assert vote.judged(seed, 4_000) == "not refuted"
    assert vote.judged(seed, 4_000, reserved=0.5) == "refuted"


def test_a_selected_mode_is_as_private_as_promised_and_noise_or_truncation_off_by_two_is_caught(seed):
    dp = DP(2.0, 0.1)
    private = replicable_to_dp(told(GoodCoins(0.0, 0.0)), epsilon=dp.epsilon, delta=dp.delta, simulation=True)
    assert private.guarantee == dp
    votes = [handed_to(_private, "select_mode", private, rows)[0] for rows in halves(private.rows_needed)]
    scale_and_bound = _selection.noise_steps

    def judged(narrower: int, shorter: int) -> str:
        def twin(*given: Any) -> tuple[int, int]:
            scale, bound = scale_and_bound(*given)
            return scale // narrower, bound // shorter

        first, second = (drawn_by(select_mode, vote, dp.epsilon, dp.delta, simulation=True) for vote in votes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_selection, "noise_steps", twin)
            return verdict(first, second, dp, seed, 3_000)

    assert judged(1, 1) == "not refuted"
    assert judged(2, 1) == judged(1, 2) == "refuted"


PERFECT = {
    "replicable_to_perfect": lambda: replicable_to_perfect(
        told(GoodCoins(0.0, 0.05)), epsilon=2.0, delta=0.05, method="seeds"
    ),
    "amplify_generalization": lambda: amplify_generalization(
        told(PerfectGeneralization(0.0, 0.01, 0.0, kind="one-way")), epsilon=4.0, delta=0.5, method="seeds"
    ),
}


@pytest.mark.parametrize(
    "name",
    ["replicable_to_perfect", pytest.param("amplify_generalization", marks=pytest.mark.slow)],
)
def test_candidates_are_chosen_as_promised_and_a_sensitivity_off_by_two_is_caught(name, seed):
    perfect = PERFECT[name]()
    step = next(step for step in perfect.steps if "sensitivity" in step.parameters)
    used, promised = step.parameters, step.result
    assert isinstance(promised, PerfectGeneralization)
    assert (used["seeds"], promised.kind) == (2, "sample")
    parts, most = used["parts"], math.floor(used["sensitivity"])

    def scores(*votes: int) -> list[int]:
        """The rows of the first coins are mostly 1, those of the second mostly 0: one candidate each."""
        ones, zeros = (np.arange(parts) < count for count in votes)
        rows = np.concatenate([ones, ~zeros]).astype(int)
        scored, *constants = handed_to(_perfect, "exponential", perfect, rows, back=0)
        assert (scored, constants) == (list(votes), [promised.epsilon, used["sensitivity"]])
        return list(votes)

    # Two samples as far apart as frequencies can be: one candidate has fewer votes, the other one more.
    even = scores(parts * 3 // 4, parts * 3 // 4)
    apart = scores(even[0] - most, even[1] + most)

    def judged(sensitivity: float) -> str:
        first, second = (
            drawn_by(exponential, votes, promised.epsilon, sensitivity, simulation=True)
            for votes in (even, apart)
        )
        return verdict(first, second, promised, seed, 2_000 if promised.epsilon < 4.0 else 4_000)

    assert judged(used["sensitivity"]) == "not refuted"
    assert judged(used["sensitivity"] / 2.0) == "refuted"


def agreement(steady: Algorithm, sampler: Sampler, rho: float, seed: int, trials: int) -> audit.Finding:
    """What the auditor finds about a promise of ρ."""
    return audit.replicability(
        steady, lambda rng: sampler(rng, steady.rows_needed), trials, rho=rho, confidence=0.99, seed=seed
    )


def bits(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(0, 2, size)


def rarely_telling(share: float) -> Algorithm:
    """Rows below ``share`` are revealed, in hundreds; for all others the law is the same."""

    def law(rows: Any) -> np.ndarray:
        return np.arange(101) == (1 + int(100 * rows[0] / share) if rows[0] < share else 0)

    return Algorithm(
        lambda rows, tape: int(np.argmax(law(rows))),
        rows_needed=1,
        guarantee=PerfectGeneralization(share, 0.0, 0.0, kind="one-way"),
        outcomes=range(101),
        probabilities=law,
    )


STEADY = {
    # One part: ρ = sinh(ε/2)/√2, and fair rows are told apart by half of tanh(ε/2).
    "dp_to_replicable": (lambda: dp_to_replicable(response(0.82), rho=0.3), bits),
    "perfect_to_replicable": (
        lambda: perfect_to_replicable(rarely_telling(0.1)),
        lambda rng, size: rng.random(size),
    ),
}


@pytest.mark.parametrize("name", STEADY)
def test_coins_agree_as_promised_and_a_constant_off_by_two_is_caught(name, seed):
    make, sampler = STEADY[name]
    steady = make()
    rho = steady.guarantee.rho
    found = agreement(steady, sampler, rho, seed, 3_000)
    assert not found.refuted
    assert found.low > rho / 2.0


def test_private_coins_are_caught(seed):
    steady, coins = dp_to_replicable(response(0.82), rho=0.3), iter(range(10**9))
    alone = replace(steady, run=lambda rows, tape: steady.run(rows, Tape(seed).branch(next(coins))))
    assert agreement(alone, bits, 0.3, seed, 300).refuted


def test_more_replicability_is_as_promised_and_the_plain_algorithm_is_caught(seed):
    plain = shaky(Replicability(0.1), bad=0.2)
    steady = amplify_replicability(plain, rho=0.05)
    assert not agreement(steady, bits, 0.05, seed, 100).refuted
    assert agreement(plain, bits, 0.05, seed, 1_000).refuted
