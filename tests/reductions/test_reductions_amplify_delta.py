"""A smaller δ: exact privacy on all data of up to six binary rows, failure by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from reductions_ballots import election
from reductions_oracles import LEVEL
from scipy import stats

from enumeration import data, exact_epsilon, hockey_stick
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import Algorithm, amplify_delta
from holdfast.reductions._amplify import cheapest_parts
from holdfast.replicable import Tape
from holdfast.stability import DP, Replicability
from limits import lower_limit

TAPES = ("a", "b", "c")


def echo(dp: DP, rows: int = 1, outcomes: int = 2, truth: float = 1.0) -> Algorithm:
    """The first row, with probability ``truth``. What it declares is false: privacy must not need it."""

    def law(block):
        shares = np.zeros(outcomes)
        shares[1 - int(block[0])] = 1.0 - truth
        shares[int(block[0])] = truth
        return shares

    return Algorithm(
        lambda block, tape: int(block[0]),
        rows_needed=rows,
        guarantee=dp,
        outcomes=tuple(range(outcomes)),
        probabilities=law,
    )


# Declared privacy, rows, outcomes, then what is asked for: ε, δ, β.
PURE = {
    "two seeds": (DP(0.5), 1, 2, 3.0, 0.0, 0.4),
    "rows in pairs": (DP(0.05, 0.01), 2, 2, 3.0, 0.0, 0.4),
    "averaged laws": (DP(0.5, 0.01), 1, 2, 6.0, 0.0, 0.8),
    "a small budget": (DP(0.05, 0.001), 1, 2, 1.0, 0.0, 0.45),
}
LEAKY = {
    "many outcomes": (DP(0.001, 0.0001), 1, 2000, 4.0, 0.02, 0.3),
    "a large δ": (DP(0.01, 0.001), 1, 500, 3.0, 0.2, 0.3),
}


def compiled(case, truth: float = 1.0, **more) -> Algorithm:
    dp, rows, outcomes, epsilon, delta, beta = case
    return amplify_delta(echo(dp, rows, outcomes, truth), epsilon=epsilon, delta=delta, beta=beta, **more)


def table(private: Algorithm, tape: str, **constants) -> np.ndarray:
    """The exact law of the output given the tape, one line for all data of so many binary rows."""
    lines = data(private.rows_needed)
    return np.array([election(private, rows, Tape(tape)).law((0, 1), **constants) for rows in lines])


@pytest.mark.parametrize("truth", [1.0, 0.8])
@pytest.mark.parametrize("name", PURE)
def test_exact_pure_privacy_on_all_data_given_any_tape(name, truth):
    private, epsilon = compiled(PURE[name], truth), PURE[name][3]
    assert private.rows_needed <= 6
    assert private.guarantee == DP(epsilon)
    for tape in TAPES:
        assert exact_epsilon(table(private, tape), private.rows_needed) <= epsilon + 1e-9
    if truth == 1.0:
        assert max(
            exact_epsilon(table(private, t, weight=2.0 * epsilon), private.rows_needed) for t in TAPES
        ) > (epsilon + 1e-3)


def worst_delta(private: Algorithm, tape: str, epsilon: float, **constants) -> float:
    """The exact δ at this ε over all data with rows 0 … 3, and all replacements of a row."""
    names = range(4)
    laws = {
        rows: election(private, rows, Tape(tape)).law(tuple(names), **constants)
        for rows in itertools.product(names, repeat=private.rows_needed)
    }
    return max(
        hockey_stick(law, laws[(*rows[:place], other, *rows[place + 1 :])], epsilon)
        for rows, law in laws.items()
        for place in range(len(rows))
        for other in names
    )


@pytest.mark.parametrize("name", LEAKY)
def test_exact_approximate_privacy_on_all_data_given_any_tape(name):
    private = compiled(LEAKY[name])
    *_, epsilon, delta, _ = LEAKY[name]
    assert private.rows_needed <= 6
    assert private.guarantee == DP(epsilon, delta)
    assert private.outcomes[-1] is None
    assert worst_delta(private, "a", epsilon) <= delta + 1e-9


def test_a_reserve_or_weights_off_by_two_are_caught():
    private = compiled(LEAKY["many outcomes"])
    *_, epsilon, delta, _ = LEAKY["many outcomes"]
    held = private.explain().steps[-1].parameters["reserve"]
    assert worst_delta(private, "a", epsilon, reserve=held / 2.0) > delta + 1e-2
    # Nobody's weight grows with ε and the reserve: steeper weights alone are no danger to data this small.
    assert worst_delta(private, "a", epsilon, weight=2.0 * epsilon, reserve=held / 2.0) > delta + 1e-2


def test_the_compiled_algorithm_has_the_law_that_was_checked(seed):
    private = compiled(PURE["two seeds"], simulation=True)
    rows = [0, 1, 0, 0]
    law = election(private, rows, Tape("a")).law((0, 1))
    drawn = np.array([private(rows, Tape(seed).branch(number)) for number in range(600)])
    counts = np.bincount(drawn, minlength=2)
    assert stats.chisquare(counts, counts.sum() * law).pvalue > LEVEL
    twin = election(private, rows, Tape("a")).law((0, 1), weight=1.5)
    assert stats.chisquare(counts, counts.sum() * twin).pvalue < LEVEL


def majority(rows: int, epsilon: float, delta: float, share: float) -> Algorithm:
    """Which of 0 and 1 is the more frequent: (ε, δ)-private, as with probability δ it tells the first row.

    Wrong, where a share of the rows is 1, exactly as often as it says.
    """
    ones = np.arange(rows + 1)
    right = 1.0 / (1.0 + np.exp(-epsilon * (2.0 * ones - rows) / 2.0))

    def law(block):
        one = (1.0 - delta) * right[int(np.sum(block))] + delta * float(block[0])
        return [1.0 - one, one]

    honest = float(stats.binom.pmf(ones, rows, share) @ right)
    return Algorithm(
        lambda block, tape: int(tape.uniforms(1)[0] < law(block)[1]),
        rows_needed=rows,
        guarantee=DP(epsilon, delta),
        failure=1.0 - (1.0 - delta) * honest - delta * share,
        outcomes=(0, 1),
        probabilities=law,
    )


def test_it_fails_no_more_often_than_it_says(seed):
    leaky = majority(40, 0.5, 0.01, 0.9)
    private = amplify_delta(leaky, epsilon=2.0, beta=0.25, simulation=True)
    assert private.guarantee == DP(2.0)
    assert leaky.failure < private.failure <= 0.25
    rng, trials = np.random.default_rng(seed), 150
    failures = sum(
        private((rng.random(private.rows_needed) < 0.9).astype(int), Tape(seed).branch(number)) != 1
        for number in range(trials)
    )
    assert lower_limit(failures, trials) <= private.failure
    # The same vote on data of which it is not true: the check can fail.
    failures = sum(
        private((rng.random(private.rows_needed) < 0.1).astype(int), Tape(seed).branch(number)) != 1
        for number in range(20)
    )
    assert lower_limit(failures, 20) > private.failure


def test_one_changed_row_changes_one_ballot():
    private = compiled(PURE["averaged laws"], 0.8)
    for rows in data(private.rows_needed):
        first = election(private, rows, Tape("x")).ballots
        for place in range(private.rows_needed):
            changed = rows.copy()
            changed[place] ^= 1
            second = election(private, changed, Tape("x")).ballots
            assert sum(a != b for a, b in zip(first, second, strict=True)) <= 1


def test_the_steps_are_listed():
    private = compiled(PURE["two seeds"])
    assert [type(step.result) for step in private.steps] == [Replicability, DP]
    assert "Theorem 6.2" in str(private.explain())
    with pytest.raises(NotEnoughRows):
        private([0] * (private.rows_needed - 1))


def test_no_number_of_parts_on_the_grid_is_cheaper():
    class Plan:
        def __init__(self, parts, below=0.0):
            self.runs = 1 + math.ceil(5000.0 / parts**1.5)

    parts, plan = cheapest_parts(lambda count: 1.0 / count, Plan, of="", by="")
    cost = parts * plan.runs
    assert parts >= 3
    for step in range(25):
        other = round(3 * 4096 ** (step / 24))
        assert cost <= other * Plan(other).runs


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"beta": 0.0}, "beta"),
        ({"workers": 0}, "workers"),
        ({"simulation": 1}, "simulation"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=Replicability(0.1))}, "algorithm"),
        ({"algorithm": Algorithm(lambda r, t: 0, rows_needed=1, guarantee=DP(0.1))}, "outcomes"),
        ({"algorithm": majority(4, 0.5, 0.0, 0.5), "beta": 0.05}, "failure"),
    ],
)
def test_bad_arguments_are_named(change, named):
    arguments = {"algorithm": echo(DP(0.1)), "epsilon": 1.0, **change}
    with pytest.raises(InvalidArgument) as caught:
        amplify_delta(arguments.pop("algorithm"), **arguments)
    assert caught.value.argument == named


def test_laws_too_rough_to_agree_on_are_refused():
    rough = Algorithm(
        lambda rows, tape: 0,
        rows_needed=1,
        guarantee=DP(0.1),
        outcomes=(0, 1),
        probabilities=lambda rows: [1, 0],
        law_error=0.4,
    )
    with pytest.raises(InvalidArgument) as caught:
        amplify_delta(rough, epsilon=1.0)
    assert caught.value.argument == "law_error"
