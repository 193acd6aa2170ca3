"""Any labels: exact privacy on all data of six labelled bits, accuracy by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from reductions_ballots import election
from reductions_oracles import hockey_stick, lower_limit
from scipy import stats
from test_reductions_vote import vote_law

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.reductions import Algorithm, _agnostic, private_agnostic
from holdfast.reductions._agnostic_plan import AgnosticPlan, labelled_rows
from holdfast.reductions._vote import reserve
from holdfast.replicable import Tape
from holdfast.stability import DP, Replicability

# A hypothesis is what it says of 0 and of 1.
CLASS = ((0, 0), (0, 1), (1, 0), (1, 1))
ROWS = list(itertools.product((0, 1), repeat=2))


def predict(hypothesis, x):
    return np.asarray(hypothesis)[np.asarray(x, dtype=int)[:, 0]]


def labelings(x):
    return np.unique([predict(hypothesis, x) for hypothesis in CLASS], axis=0)


def learner(rows: int, epsilon: float, failure: float = 0.0, declared: float | None = None) -> Algorithm:
    """The exponential mechanism on errors; with another ``declared`` ε it lies."""

    def law(block):
        block = np.asarray(block, dtype=int)
        errors = np.array([np.count_nonzero(predict(h, block[:, :-1]) != block[:, -1]) for h in CLASS])
        weights = np.exp(-epsilon * (errors - errors.min()) / 2.0)
        return weights / weights.sum()

    return Algorithm(
        lambda block, tape: CLASS[int(np.searchsorted(np.cumsum(law(block)), tape.uniforms(1)[0]))],
        rows_needed=rows,
        guarantee=DP(epsilon if declared is None else declared),
        failure=failure,
        outcomes=CLASS,
        probabilities=law,
    )


def agnostic(algorithm: Algorithm, **changes) -> Algorithm:
    arguments = {
        "labelings": labelings,
        "predict": predict,
        "growth": lambda size: 4,
        "accuracy": 0.4,
        "learner_accuracy": 0.05,
        "epsilon": 1.0,
        "simulation": True,
    }
    return private_agnostic(algorithm, **{**arguments, **changes})


def tiny(monkeypatch, epsilon: float, delta: float, strings: int) -> Algorithm:
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
    monkeypatch.setattr(_agnostic, "agnostic_plan", lambda *given, **named: plan)
    return agnostic(learner(1, 6.0, declared=0.5), epsilon=epsilon, delta=delta)


def ballots_of(private: Algorithm, tape: Tape) -> dict:
    """The ballot of each block of three labelled bits."""
    found = {}
    for block in itertools.product(ROWS, repeat=3):
        first, second = election(_agnostic, private, np.array(block * 2), tape).ballots
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
def test_exact_privacy_on_all_data_of_six_labelled_bits(epsilon, delta, strings, monkeypatch):
    private = tiny(monkeypatch, epsilon, delta, strings)
    assert (private.rows_needed, private.guarantee) == (6, DP(epsilon, delta))
    for name in range(3):
        ballots = ballots_of(private, Tape(name))
        used = election(_agnostic, private, np.array(ROWS + ROWS[:2]), Tape(name))
        assert (used.epsilon, used.outcomes is None) == (epsilon, delta > 0.0)
        assert frozenset(used.ballots[0]) == ballots[tuple(ROWS[:3])]
        assert private(np.array(ROWS + ROWS[:2]), Tape(name)) in private.outcomes
        assert max(len(ballot) for ballot in ballots.values()) <= 2 * strings
        held = used.reserve if delta > 0.0 else None
        assert worst_delta(ballots, epsilon, held) <= delta + 1e-9


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_weights_off_by_two_and_a_reserve_for_one_name_are_caught(epsilon, monkeypatch):
    tapes = [Tape(name) for name in range(6)]
    pure = [ballots_of(tiny(monkeypatch, epsilon, 0.0, 2), tape) for tape in tapes]
    assert max(worst_delta(ballots, epsilon, None, weight=2.0 * epsilon) for ballots in pure) > 1e-3
    delta = 0.001
    leaky = [ballots_of(tiny(monkeypatch, epsilon, delta, 2), tape) for tape in tapes]
    short = reserve(epsilon, delta)
    assert max(worst_delta(ballots, epsilon, short) for ballots in leaky) > 1.5 * delta
    half = reserve(epsilon, delta, 4) / 2.0
    assert max(worst_delta(ballots, epsilon, half) for ballots in leaky) > 2.0 * delta


def test_a_ballot_is_never_longer_than_privacy_allows(monkeypatch):
    private = tiny(monkeypatch, 1.0, 0.05, 1)
    many = agnostic(
        learner(1, 50.0, declared=0.5), labelings=lambda x: np.array([[0], [1]] * 9), epsilon=1.0, delta=0.05
    )
    for block in itertools.product(ROWS, repeat=3):
        for algorithm in (private, many):
            used = election(_agnostic, algorithm, np.array(block * 2), Tape("x"))
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
LEARNER_ROWS = 20
# Each of three others errs on c rows or more, c ~ Bin(20, ½), and is chosen with at most E[e^{−εc/2}].
LEARNER_FAILURE = 3.0 * ((1.0 + math.exp(-1.0)) / 2.0) ** LEARNER_ROWS


def labelled_data(rng, size: int, truth) -> np.ndarray:
    x = rng.integers(0, 2, size)
    return np.column_stack((x, np.asarray(truth)[x] ^ (rng.random(size) < 0.05)))


@pytest.mark.parametrize("name", TRUTHS)
def test_it_is_as_good_as_the_best_as_often_as_promised(name, seed):
    private = agnostic(learner(LEARNER_ROWS, 2.0, LEARNER_FAILURE), epsilon=4.0, beta=0.3)
    assert private.failure <= 0.3
    rng, trials, truth = np.random.default_rng(seed), 10, TRUTHS[name]
    found = [
        private(labelled_data(rng, private.rows_needed, truth), Tape(seed).branch(number))
        for number in range(trials)
    ]
    # Every other hypothesis errs on half of the rows at least: more than 0.05 + 0.4.
    failures = sum(hypothesis != truth for hypothesis in found)
    assert lower_limit(failures, trials) <= private.failure
    other = (truth[0], 1 - truth[1])
    assert lower_limit(sum(hypothesis != other for hypothesis in found), trials) > private.failure


def test_workers_change_nothing():
    told = []
    one, three = (
        agnostic(
            learner(LEARNER_ROWS, 2.0, LEARNER_FAILURE),
            epsilon=1.0,
            beta=0.45,
            workers=workers,
            progress=progress,
        )
        for workers, progress in ((1, False), (3, lambda done, total: told.append((done, total))))
    )
    rows = np.random.default_rng(0).integers(0, 2, (one.rows_needed, 2))
    found = [one(rows, Tape(name)) for name in range(4)]
    assert found == [three(rows, Tape(name)) for name in range(4)]
    assert len(set(found)) > 1
    assert told[-1][0] == told[-1][1]
    with pytest.raises(NotEnoughRows):
        one(rows[1:])


def test_the_plan_is_told():
    private = agnostic(learner(LEARNER_ROWS, 2.0, LEARNER_FAILURE), epsilon=4.0, beta=0.3)
    (step,) = private.steps
    used = step.parameters
    assert private.rows_needed == used["blocks"] * (used["learner rows"] + used["labelled rows"])
    assert used["list"] == 4 * used["strings"]
    assert used["learner rows"] % LEARNER_ROWS == 0
    assert "Theorem 6.5" in step.theorem


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
