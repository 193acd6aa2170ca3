"""The replicable search: scikit-learn's own checks, and the same winner on fresh data."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.intervals import clopper_pearson
from holdfast.replicable import ReplicableSearchCV, sample_size

NATS = math.log(1e5)
TREES = DecisionTreeClassifier(random_state=0)


@parametrize_with_checks([ReplicableSearchCV(LogisticRegression(), {"C": [0.1, 1.0]})])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def sample(rng, rows):
    table = rng.uniform(-1, 1, size=(rows, 2))
    return table, (table[:, 0] * table[:, 1] > 0) ^ (rng.random(rows) < 0.1)


def test_the_better_candidate_wins(rng):
    ask = {"accuracy": 0.2, "rho": 0.2, "beta": 0.1}
    search = ReplicableSearchCV(TREES, {"max_depth": [1, 4]}, **ask, best_effort=False)
    rows = 2 * sample_size("choose", models=2, **ask)
    search.fit(*sample(rng, rows))
    assert search.best_params_ == {"max_depth": 4}
    assert search.guarantee_.rho == 0.2
    with pytest.raises(NotEnoughRows):
        search.fit(*sample(rng, rows - 2))
    assert 0.2 < search.set_params(best_effort=True).fit(*sample(rng, 40)).guarantee_.rho <= 1.0


def test_fresh_comparisons_keep_the_fitted_winner_and_private_coins_do_not(rng):
    """The training rows are shared; near-equal candidates differ only in how they were trained."""
    train = sample(rng, 60)
    grid = {"max_depth": [3, 4, 5, 6], "min_samples_leaf": [1, 2]}
    ask = {"accuracy": 0.3, "rho": 0.3, "beta": 0.2}
    rows = sample_size("choose", models=8, **ask)
    differ = apart = 0
    for i in range(40):
        searches = [
            ReplicableSearchCV(TREES, grid, **ask, tape=tape, best_effort=False).fit(
                *sample(rng, rows), X_train=train[0], y_train=train[1]
            )
            for tape in (f"{i}", f"{i}", f"{i} twin")
        ]
        fitted = [search.best_estimator_.predict(train[0]).tobytes() for search in searches]
        differ += searches[0].best_index_ != searches[1].best_index_
        apart += searches[0].best_index_ != searches[2].best_index_
        assert fitted[0] == fitted[1] or searches[0].best_index_ != searches[1].best_index_
    assert clopper_pearson(differ, 40, NATS).low <= 0.3
    assert clopper_pearson(apart, 40, NATS).low > 0.3


def test_blocks_are_the_observations_when_everything_is_fresh(rng):
    ask = {"accuracy": 0.4, "rho": 0.4, "beta": 0.3}
    blocks = sample_size("choose", models=2, **ask)
    search = ReplicableSearchCV(
        TREES, {"max_depth": [1, 4]}, **ask, fresh="everything", block_rows=40, best_effort=False
    )
    search.fit(*sample(rng, 40 * blocks))
    assert (search.result_.rows, search.guarantee_.rho) == (blocks, 0.4)
    assert search.best_params_ == {"max_depth": 4}
    with pytest.raises(NotEnoughRows):
        search.fit(*sample(rng, 40 * blocks - 1))
    with pytest.raises(InvalidArgument, match="block_rows"):
        search.fit(*sample(rng, 39))


def test_other_losses_and_regressors(rng):
    table = rng.uniform(-1, 1, size=(4000, 1))
    search = ReplicableSearchCV(
        DecisionTreeRegressor(random_state=0),
        {"max_depth": [1, 6]},
        loss=lambda truth, predicted: np.minimum(1.0, np.abs(truth - predicted)),
    )
    search.fit(table, np.sin(6 * table[:, 0]))
    assert search.best_params_ == {"max_depth": 6}
    assert search.score(table, np.sin(6 * table[:, 0])) > 0.9
    assert not hasattr(search, "predict_proba")
    with pytest.raises(InvalidArgument, match="loss"):
        search.set_params(loss="squared").fit(table, table[:, 0])


def test_training_rows_are_named_and_are_not_compared_on(rng):
    table, label = sample(rng, 200)
    search = ReplicableSearchCV(TREES, {"max_depth": [None, 20]}, train_share=0.25).fit(table, label)
    assert search.train_rows_.size == 50
    assert search.result_.rows == 150
    assert search.best_estimator_.score(table[search.train_rows_], label[search.train_rows_]) == 1.0
    assert search.mean_losses_[0] > 0.0


def test_pipelines_clones_and_pickles(rng):
    table, label = sample(rng, 200)
    search = ReplicableSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()), {"logisticregression__C": [0.1, 10.0]}
    )
    outer = make_pipeline(StandardScaler(), search).fit(table, label)
    again = pickle.loads(pickle.dumps(outer))
    assert (again.predict(table) == outer.predict(table)).all()
    assert again.predict_proba(table).shape == (*again[-1].decision_function(table).shape, 2)
    assert clone(search).get_params()["param_grid"] == search.param_grid
    assert again[-1].classes_.tolist() == [False, True]


@pytest.mark.parametrize(
    "changed", [{"fresh": "nothing"}, {"train_share": 1.0}, {"accuracy": math.nan}, {"rho": 0}, {"tape": 1.5}]
)
def test_bad_parameters_are_named(changed, rng):
    with pytest.raises(InvalidArgument) as refusal:
        ReplicableSearchCV(TREES, {"max_depth": [1, 2]}, **changed).fit(*sample(rng, 50))
    assert refusal.value.argument in changed
