"""The replicable classifier: scikit-learn's own checks, and the same rule on fresh data."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import ReplicableClassifier, Tape, choose

NATS = math.log(1e5)


@parametrize_with_checks([ReplicableClassifier(), ReplicableClassifier(bounds=(-5, 5), thresholds=9)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def said_by(rule, table):
    """What a rule says of each row; a constant rule has no feature."""
    feature, threshold, low, high = rule
    if feature is None:
        return np.full(len(table), low)
    return np.where(table[:, feature] <= threshold, low, high)


def test_errors_are_those_of_the_rules_one_by_one(rng):
    """The choice from the mistakes of all rules, counted one by one, is what is fitted, whatever the tape."""
    labels = ["a", "b", "c"]
    pairs = [(low, high) for low in labels for high in labels if low != high]
    rules = [(None, None, label, label) for label in labels]
    rules += [(feature, cut, *pair) for feature in (0, 2) for cut in (-1.0, 0.5, 1.0) for pair in pairs]
    assert len(set(rules)) == 3 + 2 * 3 * 6
    promise = {"accuracy": 0.5, "rho": 0.5, "beta": 0.5, "best_effort": True}
    chosen = set()
    for place in range(300):
        table, own = rng.normal(size=(60, 3)), np.array(labels)[rng.integers(0, 3, 60)]
        table[:10, 0] = 0.5  # on a threshold
        tape = Tape(f"stumps {place}")
        model = ReplicableClassifier(features=[0, 2], thresholds=[1.0, -1.0, 0.5], tape=tape, **promise)
        rule = model.fit(table, own).rule_
        mistakes = np.column_stack([said_by(each, table) != own for each in rules])
        expected = choose(mistakes, tape=tape, **promise)
        assert model.result_ == expected
        assert model.result_.details == expected.details
        assert (rule.feature, rule.threshold, rule.low, rule.high) == rules[int(expected)]
        assert (model.predict(table) == said_by(rules[int(expected)], table)).all()
        chosen.add(int(expected))
    assert len(chosen) > 30


def thresholds_tried(table, own, **ask):
    """All thresholds on each feature that are chosen with one of many tapes."""
    tried = [set() for _ in table.T]
    for place in range(500):
        model = ReplicableClassifier(**ask, accuracy=0.9, rho=0.9, beta=0.9, tape=f"{place}")
        rule = model.fit(table, own).rule_
        if rule.feature is not None:
            tried[rule.feature].add(rule.threshold)
    return tried


def test_grids_are_fixed_in_advance(rng):
    table, own = rng.uniform(-80, 80, (40, 2)), rng.integers(0, 2, 40)
    assert thresholds_tried(table, own, thresholds=3, bounds=(0, 4)) == [{1, 2, 3}] * 2
    assert thresholds_tried(table, own, thresholds=1, bounds=[(0, 4), (-1, 1)]) == [{2}, {0}]
    powers = thresholds_tried(table[:, :1], own)[0]
    assert powers == {0.0, *(sign * 2.0**power for sign in (-1, 1) for power in range(-6, 7))}


def sample(rng, rows):
    """Near-equal rules: two features carry the label about as well, and neighbouring thresholds do too."""
    label = rng.integers(0, 2, rows)
    table = label[:, None] + rng.normal(scale=[1.0, 1.0, 5.0], size=(rows, 3))
    return table, label


def test_two_laboratories_find_the_same_rule_and_private_coins_do_not(rng):
    ask = {"bounds": (-2, 3), "thresholds": 5, "accuracy": 0.2, "rho": 0.3, "beta": 0.2}
    rows = ReplicableClassifier(**ask).rows_needed(3)
    differ = apart = 0
    for i in range(60):
        rules = [ReplicableClassifier(**ask, tape=f"{i}").fit(*sample(rng, rows)).rule_ for _ in range(2)]
        twin = ReplicableClassifier(**ask, tape=f"{i} twin").fit(*sample(rng, rows)).rule_
        differ += rules[0] != rules[1]
        apart += rules[0] != twin
    assert clopper_pearson(differ, 60, NATS).low <= 0.3
    assert clopper_pearson(apart, 60, NATS).low > 0.3


def test_the_promise_is_on_the_fitted_model(rng):
    ask = {"bounds": (-2, 3), "thresholds": 5, "accuracy": 0.2, "rho": 0.3, "beta": 0.2}
    rows = ReplicableClassifier(**ask).rows_needed(3)
    table, label = sample(rng, rows)
    model = ReplicableClassifier(**ask, best_effort=False).fit(table, label)
    assert model.guarantee_.rho == 0.3
    assert model.score(table, label) > 0.5
    with pytest.raises(NotEnoughRows) as refusal:
        model.fit(table[:-1], label[:-1])
    assert refusal.value.needed == rows
    small = ReplicableClassifier(**ask).fit(table[:40], label[:40])
    assert small.guarantee_.rho == 1.0


def test_pipelines_clones_and_pickles(rng):
    table, label = sample(rng, 300)
    model = ReplicableClassifier(features=[0, 1], tape=Tape("study-7").branch("rule"))
    pipe = make_pipeline(MaxAbsScaler(), model).fit(table, np.where(label, "yes", "no"))
    again = pickle.loads(pickle.dumps(pipe))
    assert (again.predict(table) == pipe.predict(table)).all()
    assert set(again.predict(table)) <= {"yes", "no"}
    assert clone(model).get_params()["tape"] == Tape("study-7").branch("rule")


@pytest.mark.parametrize(
    "changed",
    [
        {"features": [5]},
        {"features": []},
        {"bounds": (1, 1)},
        {"bounds": (0, math.inf)},
        {"thresholds": 0},
        {"thresholds": [0.0, math.nan]},
        {"accuracy": 0.0},
        {"rho": 2},
        {"tape": 7.5},
    ],
)
def test_bad_parameters_are_named(changed, rng):
    with pytest.raises(InvalidArgument) as refusal:
        ReplicableClassifier(**changed).fit(*sample(rng, 50))
    assert refusal.value.argument.split("[")[0] in changed


@pytest.mark.parametrize("name", ["ReplicableClassifier", "ReplicableSearchCV"])
def test_without_scikit_learn_the_message_names_the_extra(name):
    script = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from holdfast.errors import MissingExtra\n"
        "import holdfast.replicable\n"
        "try:\n"
        f"    holdfast.replicable.{name}\n"
        "except MissingExtra as missing:\n"
        "    print(missing)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"{name} needs")
    assert "pip install 'holdfast-guard[sklearn]'" in said
