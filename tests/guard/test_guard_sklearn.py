"""scikit-learn: a scorer that searches can use, and a choice whose winner's interval holds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.tree import DecisionTreeClassifier

import holdfast.sklearn
from holdfast import Guard
from holdfast.engines import unsealed
from holdfast.errors import InvalidArgument
from holdfast.sklearn import GuardedScorer, select

FEATURES = ["a", "b"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(2_400, 2)), columns=FEATURES)
    frame["y"] = (rng.random(2_400) < 1 / (1 + np.exp(-2 * frame.a))).astype(int)
    frame["noise"] = rng.integers(0, 2, 2_400)
    return frame


def test_a_search_scores_on_the_protected_rows(table):
    guard = Guard(table)
    scorer = GuardedScorer(guard, "accuracy", target="y")
    search = GridSearchCV(
        DecisionTreeClassifier(random_state=0),
        {"max_depth": [1, 2, 3]},
        scoring=scorer,
        cv=ShuffleSplit(1, test_size=0.3, random_state=0),
        refit=False,
    ).fit(guard.train[FEATURES], guard.train.y)
    assert len(scorer.answers) == 3
    assert sorted(search.cv_results_["mean_test_score"]) == sorted(answer.value for answer in scorer.answers)
    assert [answer.guess for answer in scorer.answers] != [answer.value for answer in scorer.answers]
    assert guard.spent == pytest.approx(sum(answer.cost for answer in scorer.answers))


def test_losses_have_a_minus_sign_and_the_scorer_stays_in_its_process(table):
    guard = Guard(table)
    model = LogisticRegression().fit(guard.train[FEATURES], guard.train.y)
    assert GuardedScorer(guard, "log_loss", target="y")(model) < 0
    with pytest.raises(TypeError, match="n_jobs=1"):
        __import__("pickle").dumps(GuardedScorer(guard, "accuracy", target="y"))
    with pytest.raises(InvalidArgument, match="metric"):
        GuardedScorer(guard, "acuracy", target="y")


def test_the_target_is_the_only_column_that_a_model_does_not_use(table):
    guard = Guard(table[[*FEATURES, "y"]])
    model = LogisticRegression().fit(guard.train[FEATURES], guard.train.y)
    named, found = GuardedScorer(guard, "accuracy", target="y"), GuardedScorer(guard, "accuracy")
    assert found(model) == named(model)
    with pytest.raises(InvalidArgument, match=r"does not use \['y', 'noise'\]"):
        GuardedScorer(Guard(table), "accuracy")(model)
    nameless = LogisticRegression().fit(guard.train[FEATURES].to_numpy(), guard.train.y)
    with pytest.raises(InvalidArgument, match="not fitted on named columns"):
        GuardedScorer(guard, "accuracy")(nameless)


def test_the_winners_interval_holds_where_nothing_can_be_learned(table):
    """The best of twelve on pure noise: naive scores of the winner are above one half, the interval is
    not."""
    guard = Guard(table)
    models = {
        f"tree {depth}": DecisionTreeClassifier(max_depth=depth, random_state=depth) for depth in range(1, 13)
    }
    choice = select(models, guard, target="noise", features=FEATURES)
    assert choice.score == choice.answers[choice.best]
    assert choice.score.low < 0.5 < choice.score.high
    assert len(choice.to_frame()) == 12
    assert choice.to_frame().iloc[0]["model"] == choice.best
    assert set(choice.also_possible) < set(models)
    assert all(answer.certificate.numbers["asked together"] == 12 for answer in choice.answers.values())


def test_fitted_models_are_taken_as_they_are_and_losses_choose_the_least(table):
    guard = Guard(table)
    good = LogisticRegression().fit(guard.train[FEATURES], guard.train.y)
    choice = select(
        [good, DecisionTreeClassifier(max_depth=1)], guard, target="y", metric="brier", features=FEATURES
    )
    assert choice.best == "LogisticRegression"
    assert choice.model is good
    with unsealed():
        rows = guard._setup.protected.rows.frame()
    truth = np.mean((good.predict_proba(rows[FEATURES])[:, 1] - rows.y) ** 2)
    assert choice.score.low <= truth <= choice.score.high
    assert "best of 2" in repr(choice)


def test_nothing_to_choose_from_is_refused(table):
    with pytest.raises(InvalidArgument, match="at least one model"):
        select([], Guard(table), target="y")


def test_the_module_is_a_public_door():
    assert set(holdfast.sklearn.__all__) == {"GuardedScorer", "Selection", "select"}
