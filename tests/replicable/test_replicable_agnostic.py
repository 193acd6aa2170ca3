"""Agnostic learning from a realizable learner: the same hypothesis on fresh rows, almost the best."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from learning_lists import law_of, run_pairs

from contracts.examples import thinned
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import Tape, agnostic, sample_size
from holdfast.replicable._agnostic import _kept, _plan, _tried

NATS = math.log(1e5)
SETTING = {"learner_rows": 30, "most_labelings": 5, "accuracy": 0.4, "rho": 0.4, "beta": 0.3}


def smallest(x, labels, tape):
    """The least threshold that agrees with the labels, all points below it being 1."""
    return int(x[labels].max()) + 1 if labels.any() else 0


def coin(x, labels, tape):
    """One of the thresholds that agree with the labels, by the shared coins."""
    low = int(x[labels].max()) + 1 if labels.any() else 0
    high = int(x[~labels].min()) if not labels.all() else 4
    return low + int(toss(tape) * max(1, high - low + 1))


@cache
def toss(tape):
    return float(tape.uniforms(1)[0])


def thresholds(x):
    return np.unique(x < np.arange(5)[:, None], axis=0)


def below(hypothesis, x):
    return x < hypothesis


def draw(rng, rows, noise):
    x = rng.integers(0, 4, rows)
    return x, (x < 2) ^ (rng.random(rows) < noise)


def learn(learner, rng, tape, *, noise=0.05, **changed):
    rows = sample_size("agnostic", **SETTING)
    x, y = draw(rng, rows, noise)
    return agnostic(learner, x, y, labelings=thresholds, predict=below, tape=tape, **{**SETTING, **changed})


@pytest.mark.parametrize(("learner", "noise"), thinned([(smallest, 0.35), (coin, 0.05)], 2))
def test_two_laboratories_learn_the_same_and_it_is_good(learner, noise, rng):
    """Each hypothesis is on almost all lists or on almost none here, so only the tape decides."""
    found = [int(learn(learner, rng, Tape("agnostic"), noise=noise)) for _ in range(2)]
    assert found[0] == found[1]
    assert abs(found[0] - 2) / 4 * (1 - 2 * noise) <= 0.4


@pytest.mark.parametrize(("learner", "noise"), [(smallest, 0.05), (coin, 0.05), (smallest, 0.48)])
def test_ten_thousand_pairs_agree_through_the_law_of_the_lists(learner, noise, rng):
    """The law of a block's list is measured once for these strings; both laboratories draw from it."""
    plan = _plan(*SETTING.values(), 0.1, 0.01, of="agnostic")
    strings = [Tape("agnostic").branch("strings").branch(i) for i in range(plan.strings)]

    def block():
        x, y = draw(rng, plan.list_rows, noise)
        return _kept(_tried(learner, thresholds, x[:30], strings, plan), below, x[30:], y[30:], plan.margin)

    ask = {"eta": plan.eta, "rho": plan.list_rho, "beta": plan.list_beta, "list_size": plan.list_size}
    kinds, chances = law_of(block, 400)
    hypotheses, (first, second) = run_pairs(kinds, chances, rng, 10_000, **ask)
    differ = int((first != second).sum())
    assert clopper_pearson(differ, 10_000, NATS).high <= 0.4
    excess = np.abs(np.array(hypotheses)[first] - 2) / 4 * (1 - 2 * noise)
    wrong = int(((first < 0) | (excess > 0.4)).sum())
    assert clopper_pearson(wrong, 10_000, NATS).high <= 0.3
    if noise == 0.48:  # all thresholds are nearly equal, so private coins must show
        _, (first, second) = run_pairs(kinds, chances, rng, 2000, **ask, private=True)
        assert clopper_pearson(int((first != second).sum()), 2000, NATS).low > 0.4


def test_rows_that_do_not_suffice(rng):
    rows = sample_size("agnostic", **SETTING)
    x, y = draw(rng, rows - 1, 0.1)
    ask = {"labelings": thresholds, "predict": below, "tape": Tape("study-7"), **SETTING}
    with pytest.raises(NotEnoughRows) as refusal:
        agnostic(smallest, x, y, **ask)
    assert refusal.value.needed == rows
    half = agnostic(smallest, x[: rows // 2], y[: rows // 2], **ask, best_effort=True)
    assert 0.4 < half.guarantee.rho <= 1.0


def test_a_smaller_class_and_a_better_learner_need_fewer_rows():
    rows = sample_size("agnostic", **SETTING)
    assert sample_size("agnostic", **SETTING, learner_rho=0.01) < rows
    assert sample_size("agnostic", **{**SETTING, "most_labelings": 2}) < rows
    assert sample_size("agnostic", **{**SETTING, "accuracy": 0.8}) < rows


@pytest.mark.parametrize(
    "changed",
    [
        {"learner_beta": 0.2},
        {"learner_rho": 0.5},
        {"accuracy": 0},
        {"rho": math.nan},
        {"most_labelings": 0},
        {"learner_rows": 2.5},
    ],
)
def test_bad_arguments_are_named(changed):
    with pytest.raises(InvalidArgument) as refusal:
        sample_size("agnostic", **{**SETTING, **changed})
    assert refusal.value.argument in changed


def test_labelings_must_be_labelings_and_rows_must_have_labels(rng):
    rows = sample_size("agnostic", **SETTING)
    x, y = draw(rng, rows, 0.1)
    ask = {"predict": below, "tape": Tape("study-7"), **SETTING}
    with pytest.raises(InvalidArgument, match="labelings"):
        agnostic(smallest, x, y, labelings=lambda x: np.zeros((9, len(x))), **ask)
    with pytest.raises(InvalidArgument, match="label for each row"):
        agnostic(smallest, x, y[:-1], labelings=thresholds, **ask)
