"""Any labels: exact privacy on all data of six labelled bits, accuracy by simulation."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reductions_ballots import election
from reductions_learner import CLASS, ROWS, SAYS, WRONG, agnostic, hypotheses, labelings, law_of, learner
from reductions_oracles import vote_law
from scipy import stats

from contracts.examples import examples
from enumeration import hockey_stick
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import Algorithm, _agnostic
from holdfast.reductions._agnostic import AgnosticPlan, agnostic_plan, labelled_rows
from holdfast.reductions._vote import reserve
from holdfast.replicable import Tape, correlated_choice
from holdfast.stability import DP, Replicability
from limits import lower_limit


def tiny(epsilon: float, delta: float, strings: int, labelings=labelings) -> Algorithm:
    """Two blocks of three rows, far too few to learn anything: privacy must not need what the plan is for."""
    held = None if delta == 0.0 else reserve(epsilon, delta, 2 * strings)
    plan = AgnosticPlan(
        blocks=2,
        parts=1,
        learner_rows=1,
        labelled=2,
        strings=strings,
        list_size=2 * strings,
        rho=0.5,
        reserve=held,
        failure=1.0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_agnostic, "agnostic_plan", lambda *given, **named: plan)
        return agnostic(learner(1, 6.0, declared=0.5), epsilon=epsilon, delta=delta, labelings=labelings)


@lru_cache
def ballots_of(strings: int, tape: Tape) -> dict:
    """The ballot of each block of three labelled bits, whatever ε and δ are."""
    private, found = tiny(1.0, 0.0, strings), {}
    for block in itertools.product(ROWS, repeat=3):
        first, second = election(private, np.array(block * 2), tape).ballots
        assert first == second
        found[block] = frozenset(first)
    return found


def worst_delta(ballots: dict, epsilon: float, held: float | None, weight: float | None = None) -> float:
    """The exact δ at this ε over all data of six labelled bits, and all replacements of a row.

    A row is in one block, and both blocks vote alike: every change of one ballot, whatever the other is.
    """
    changes = {
        (ballots[block], ballots[(*block[:place], row, *block[place + 1 :])])
        for block in ballots
        for place in range(3)
        for row in ROWS
    }

    def law(*both):
        counts = [sum(hypothesis in ballot for ballot in both) for hypothesis in CLASS]
        return vote_law(counts, epsilon if weight is None else weight, held)

    return max(
        hockey_stick(law(before, other), law(after, other), epsilon)
        for before, after in changes
        for other in set(ballots.values())
    )


@pytest.mark.parametrize("strings", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (3.0, 0.0), (1.0, 0.05), (3.0, 0.001)])
def test_exact_privacy_on_all_data_of_six_labelled_bits(epsilon, delta, strings):
    private = tiny(epsilon, delta, strings)
    assert (private.rows_needed, private.guarantee) == (6, DP(epsilon, delta))
    for tape in (Tape(0), Tape(1), Tape(2)):
        ballots = ballots_of(strings, tape)
        used = election(private, np.array(ROWS + ROWS[:2]), tape)
        assert (used.epsilon, used.outcomes is None) == (epsilon, delta > 0.0)
        assert frozenset(used.ballots[0]) == ballots[ROWS[:3]]
        assert frozenset(used.ballots[1]) == ballots[(*ROWS[3:], *ROWS[:2])]
        assert private(np.array(ROWS + ROWS[:2]), tape) in private.outcomes
        assert max(len(ballot) for ballot in ballots.values()) <= 2 * strings
        held = used.reserve if delta > 0.0 else None
        assert worst_delta(ballots, epsilon, held) <= delta + 1e-9


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_weights_off_by_two_and_a_reserve_for_one_name_are_caught(epsilon):
    every = [ballots_of(2, Tape(number)) for number in range(6)]
    assert max(worst_delta(ballots, epsilon, None, weight=2.0 * epsilon) for ballots in every) > 1e-3
    delta = 0.001
    short = reserve(epsilon, delta)
    assert max(worst_delta(ballots, epsilon, short) for ballots in every) > 1.5 * delta
    half = reserve(epsilon, delta, 4) / 2.0
    assert max(worst_delta(ballots, epsilon, half) for ballots in every) > 2.0 * delta


def test_a_ballot_is_never_longer_than_privacy_allows():
    # The labellings are the caller's: nine times as many as it says there are must not count.
    private = tiny(1.0, 0.05, 1, labelings=lambda x: np.array([[0], [1]] * 9))
    for block in itertools.product(ROWS, repeat=3):
        used = election(private, np.array(block * 2), Tape("x"))
        assert all(len(ballot) <= 2 for ballot in used.ballots)


def misled(labelled: int, wrong: int, low: float, high: float) -> float:
    """How likely a hypothesis of error ``low`` is dropped for, or keeps company with, one of ``wrong``
    independent ones of error ``high`` that should be dropped: exactly."""
    counts = np.arange(labelled + 1)
    good = stats.binom.pmf(counts, labelled, low)
    kept = stats.binom.cdf(np.floor(counts + (high - low) / 2.0 * labelled), labelled, high)
    return float(good @ (1.0 - (1.0 - kept) ** wrong))


@pytest.mark.parametrize(("size", "share", "accuracy"), [(16, 0.05, 0.5), (64, 0.05, 0.5), (500, 0.01, 0.2)])
def test_labelled_rows_mislead_no_more_blocks_than_planned(size, share, accuracy):
    rows = labelled_rows(size, share, accuracy)
    low, high = 0.5 - accuracy / 2.0, 0.5 + accuracy / 2.0
    assert misled(rows, size - 1, low, high) <= share
    # An accuracy of twice that needs a quarter of the rows, which are too few.
    fewer = labelled_rows(size, share, 2.0 * accuracy)
    assert misled(fewer, size - 1, low, high) > share


# What is right, for x = 0 and x = 1, before one label in twenty is flipped.
TRUTHS = {"identity": (0, 1), "always one": (1, 1)}
FLIPPED = 0.05
LEARNER_ROWS, LEARNER_EPSILON, COPIES = 400, 0.05, 2500
# Each of three others errs on c rows or more, c ~ Bin(400, ½), and is chosen with at most E[e^{−εc/2}].
LEARNER_FAILURE = 3.0 * ((1.0 + math.exp(-LEARNER_EPSILON / 2.0)) / 2.0) ** LEARNER_ROWS
# Pure privacy must outweigh 10,000 hypotheses; with δ > 0, only those that blocks can name.
BUDGETS = {"pure": {"epsilon": 4.0, "beta": 0.25}, "δ": {"epsilon": 1.0, "delta": 0.05, "beta": 0.25}}


@lru_cache
def learned(budget: str) -> Algorithm:
    algorithm = learner(LEARNER_ROWS, LEARNER_EPSILON, LEARNER_FAILURE, copies=COPIES)
    return agnostic(algorithm, **BUDGETS[budget])


def labelled_data(rng, size: int, truth) -> np.ndarray:
    x = rng.integers(0, 2, size)
    return np.column_stack((x, np.asarray(truth)[x] ^ (rng.random(size) < FLIPPED)))


def ballot(ones: np.ndarray, cells: np.ndarray, choose) -> frozenset:
    """What a block votes for, given the ones among the x of each part and the cells (x, y) of its labels.

    ``choose(laws)`` is what all strings make of laws over SAYS, one a line: hypotheses.
    """
    counts = np.zeros((len(ones), 4, 4))
    for place, says in enumerate(SAYS):
        counts[:, place, says[0]] = LEARNER_ROWS - ones
        counts[:, place, 2 + says[1]] = ones
    tried = choose(law_of(counts, LEARNER_EPSILON).mean(axis=0))
    errors = dict(zip(SAYS, (WRONG @ cells).tolist(), strict=True))
    # Accuracy is 0.4: hypotheses may be worse than the best one by half of that.
    most = min(errors[hypothesis[:2]] for hypothesis in tried) + 0.2 * cells.sum()
    return frozenset(hypothesis for hypothesis in tried if errors[hypothesis[:2]] <= most)


@pytest.mark.parametrize("budget", BUDGETS)
def test_blocks_vote_as_their_counts_say(budget, seed):
    private = learned(budget)
    used = private.steps[-1].parameters
    learning, block_rows = used["learner rows"], used["learner rows"] + used["labelled rows"]
    rows = labelled_data(np.random.default_rng(seed), private.rows_needed, (0, 1))
    found = election(private, rows, tape := Tape(seed)).ballots
    coins = [tape.branch(f"string {string}").branch("choice") for string in range(used["strings"])]

    def choose(laws):
        wide = np.repeat(laws / COPIES, COPIES, axis=1)
        return {hypotheses(COPIES)[int(correlated_choice(law, coin))] for law in wide for coin in coins}

    for number in (0, used["blocks"] - 1):
        block = rows[number * block_rows : (number + 1) * block_rows]
        ones = block[:learning, 0].reshape(-1, LEARNER_ROWS).sum(axis=1)
        cells = np.bincount(block[learning:] @ [2, 1], minlength=4)
        assert frozenset(found[number]) == ballot(ones, cells, choose)


def losses(private: Algorithm, truth, rng, trials: int, shared: bool = True) -> int:
    """How often the vote does not end with what is right, through counts."""
    used, dp = private.steps[-1].parameters, private.guarantee
    parts, strings = used["learner rows"] // LEARNER_ROWS, used["strings"]
    held = None if dp.delta == 0.0 else reserve(dp.epsilon, dp.delta, used["list"])
    flips = np.array([FLIPPED if truth[x] != y else 1.0 - FLIPPED for x, y in ROWS])

    def coins():
        # Of each hypothesis' copies, the one with the least exponential, and that.
        least = rng.exponential(1.0 / COPIES, (strings, 4))
        whose = rng.integers(0, COPIES, (strings, 4)).tolist()

        def choose(laws):
            places = np.argmin(least / laws[:, None, :], axis=2).tolist()
            return {(*SAYS[p], whose[s][p]) for line in places for s, p in enumerate(line)}

        return choose

    lost = 0
    for _ in range(trials):
        ones = rng.binomial(LEARNER_ROWS, 0.5, (used["blocks"], parts))
        cells = rng.multinomial(used["labelled rows"], flips / 2.0, used["blocks"])
        choose = coins()
        votes = Counter(
            hypothesis
            for block in zip(ones, cells, strict=True)
            for hypothesis in ballot(*block, choose if shared else coins())
        )
        # Those without a vote weigh alike: 1 if they are listed, 0 if not.
        law = vote_law([*votes.values(), *np.zeros(4 * COPIES - len(votes))], dp.epsilon, held)
        right = [hypothesis[:2] == truth for hypothesis in votes]
        wins = law[: len(votes)][right].sum() + (COPIES - sum(right)) * law[len(votes)]
        lost += rng.random() >= wins
    return lost


@pytest.mark.parametrize("name", TRUTHS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_it_is_as_good_as_the_best_as_often_as_promised(budget, name, seed):
    private = learned(budget)
    assert private.guarantee == DP(BUDGETS[budget]["epsilon"], BUDGETS[budget].get("delta", 0.0))
    assert private.failure <= 0.25
    # Every other hypothesis errs on half of the rows at least: more than 0.05 + 0.4.
    rng, trials = np.random.default_rng(seed), 200
    assert lower_limit(losses(private, TRUTHS[name], rng, trials), trials) <= private.failure
    # Coins of their own: each block votes for its own copies, and nobody wins.
    assert lower_limit(losses(private, TRUTHS[name], rng, 60, shared=False), 60) > private.failure


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_plan_is_in_the_steps(budget):
    private = learned(budget)
    (step,) = private.steps
    used = step.parameters
    assert private.rows_needed == used["blocks"] * (used["learner rows"] + used["labelled rows"])
    assert used["list"] == 4 * used["strings"]
    assert used["learner rows"] % LEARNER_ROWS == 0
    assert "Theorem 6.5" in step.theorem
    assert (private.outcomes[-1] is None) == ("delta" in BUDGETS[budget])
    with pytest.raises(NotEnoughRows):
        private(np.zeros((private.rows_needed - 1, 2), dtype=int))


@lru_cache
def many_outcomes(count: int) -> Algorithm:
    """A learner that is only planned for."""
    return Algorithm(
        lambda rows, tape: 0,
        rows_needed=LEARNER_ROWS,
        guarantee=DP(LEARNER_EPSILON),
        failure=0.001,
        outcomes=range(count),
        probabilities=lambda rows: [],
    )


def planned(outcomes: int = 100_000, growth: int = 4, **changes) -> AgnosticPlan:
    arguments = {"room": 0.3, "epsilon": 1.0, "delta": 1e-3, "beta": 0.05, "of": "", "by": ""}
    return agnostic_plan(many_outcomes(outcomes), lambda size: growth, **{**arguments, **changes})


def proved_failure(plan: AgnosticPlan, blocks: int, wrong: float = 0.001) -> float:
    """The least that the theory page proves of so many blocks, over the shares of bad coins and of misled
    blocks: unlucky blocks all name the same wrong hypotheses, as many as fit on a list."""
    unlucky = np.arange(blocks + 1)
    counts = np.column_stack((blocks - unlucky, np.repeat(unlucky[:, None], plan.list_size, axis=1)))
    loses = np.array([1.0 - vote_law(line, 1.0, plan.reserve)[0] for line in counts])
    shares = np.geomspace(2.01 * plan.rho, 0.99, 1000)
    found = []
    for coins in map(Replicability(plan.rho).good_coins, shares):
        for misled in (0.01, 0.05):
            lost = stats.binom.pmf(unlucky, blocks, min(1.0, coins.eta + misled)) @ loses
            found.append((coins.nu + wrong / (1.0 - coins.eta)) ** plan.strings + lost)
    return min(found)


def test_a_plan_with_delta_is_lost_no_more_often_than_it_says():
    plan = planned()
    assert plan.reserve == reserve(1.0, 1e-3, plan.list_size)
    assert proved_failure(plan, plan.blocks) <= plan.failure + 1e-9 <= 0.05 + 1e-9
    # Half of the blocks are too few.
    assert proved_failure(plan, plan.blocks // 2) > plan.failure


@pytest.mark.parametrize("outcomes", [100, 10_000, 300_000])
def test_delta_is_spent_only_where_it_saves_rows(outcomes):
    plan, pure = planned(outcomes=outcomes), planned(outcomes=outcomes, delta=0.0)
    assert pure.reserve is None
    assert plan.blocks * plan.block_rows <= pure.blocks * pure.block_rows
    assert (plan.reserve is not None) == (outcomes > 10_000)


@given(st.floats(0.3, 4.0), st.floats(1e-9, 0.1), st.floats(0.02, 0.3), st.integers(2, 50))
@examples(4)
def test_more_room_needs_no_more_rows(epsilon, delta, beta, growth):
    def rows(**changes) -> int:
        asked = {"epsilon": epsilon, "delta": delta, "beta": beta, "growth": growth}
        plan = planned(**{**asked, **changes})
        assert plan.failure <= changes.get("beta", beta)
        return plan.blocks * plan.block_rows

    # The search is over grids, so that it may lose a little.
    here = 1.02 * rows()
    assert rows(epsilon=2.0 * epsilon) <= here
    assert rows(beta=2.0 * beta) <= here
    assert rows(delta=2.0 * delta) <= here
    assert rows(growth=growth // 2) <= here


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"beta": math.nan}, "beta"),
        ({"accuracy": 0.0}, "accuracy"),
        ({"learner_accuracy": 0.2}, "learner_accuracy"),
        ({"learner_accuracy": math.nan}, "learner_accuracy"),
        ({"labelings": 3}, "labelings"),
        ({"predict": None}, "predict"),
        ({"growth": 4}, "growth"),
        ({"growth": lambda size: 0}, "growth"),
        ({"workers": 0}, "workers"),
        ({"simulation": 1}, "simulation"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=Replicability(0.1))}, "algorithm"),
        ({"algorithm": learner(20, 2.0, failure=0.9)}, "failure"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": learner(20, 2.0), **change}
    with pytest.raises(InvalidArgument) as caught:
        agnostic(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named
