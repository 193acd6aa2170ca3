"""Metrics: what each score is, for arrays, models and expressions, and how two models are compared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

from holdfast import Guard
from holdfast.engines import Rows, unsealed
from holdfast.errors import InvalidArgument, QueryRejected

ROWS = 3_000
FEATURES = ["a", "b"]
SPAN = (-8.0, 8.0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 2)), columns=FEATURES)
    frame["p"] = 1 / (1 + np.exp(-1.5 * frame.a - frame.b))
    frame["y"] = (rng.random(ROWS) < frame.p).astype(int)
    frame["label"] = np.where(frame.y == 1, "yes", "no")
    frame["said"] = (frame.p > 0.5).astype(int)
    frame["three"] = np.digitize(frame.a + rng.normal(size=ROWS) / 2, [-0.5, 0.5])
    frame["t"] = 2 * frame.a + rng.normal(size=ROWS)
    frame["guess"] = 2 * frame.a
    return frame


def protected(guard):
    with unsealed():
        return guard._setup.protected.rows.frame()


def fit(guard, model, target):
    return model.fit(guard.train[FEATURES], guard.train[target])


LABELS = {
    "accuracy": metrics.accuracy_score,
    "error": lambda y, said: 1 - metrics.accuracy_score(y, said),
    "balanced_accuracy": metrics.balanced_accuracy_score,
    "precision": metrics.precision_score,
    "recall": metrics.recall_score,
    "f1": metrics.f1_score,
}
CHANCES = {
    "auc": metrics.roc_auc_score,
    "log_loss": metrics.log_loss,
    "brier": metrics.brier_score_loss,
}
NUMBERS = {
    "mae": metrics.mean_absolute_error,
    "mse": metrics.mean_squared_error,
    "rmse": metrics.root_mean_squared_error,
    "r2": metrics.r2_score,
}


def test_every_metric_of_every_kind_of_prediction_is_that_of_scikit_learn(table):
    """A report tells the score of the protected rows as it is."""
    guard = Guard(table)
    logit, line = fit(guard, LogisticRegression(), "y"), fit(guard, LinearRegression(), "t")
    rows = protected(guard)
    asked, expected = [], []

    def ask(predictions, metric, target, truth, **options):
        asked.append(guard.to_score(predictions, target=target, metric=metric, **options))
        expected.append((metric, type(predictions).__name__, truth))

    for metric, score in LABELS.items():
        ask(logit, metric, "y", score(rows.y, logit.predict(rows[FEATURES])))
        ask(table.said.to_numpy(), metric, "y", score(rows.y, rows.said))
        ask("said", metric, "y", score(rows.y, rows.said))
    chance = logit.predict_proba(rows[FEATURES])[:, 1]
    for metric, score in CHANCES.items():
        ask(logit, metric, "y", score(rows.y, chance))
        ask(table.p.to_numpy(), metric, "y", score(rows.y, rows.p))
        ask("p", metric, "y", score(rows.y, rows.p))
    clipped = rows.t.clip(*SPAN)
    for metric, score in NUMBERS.items():
        ask(line, metric, "t", score(clipped, line.predict(rows[FEATURES]).clip(*SPAN)), bounds=SPAN)
        ask(table.guess.to_numpy(), metric, "t", score(clipped, rows.guess.clip(*SPAN)), bounds=SPAN)
        ask("guess", metric, "t", score(clipped, rows.guess.clip(*SPAN)), bounds=SPAN)
    report = guard.report(asked)
    for answer, (metric, kind, truth) in zip(report.answers, expected, strict=True):
        assert answer.value == pytest.approx(truth, abs=1e-4), (metric, kind)
        assert answer.low <= truth <= answer.high, (metric, kind)


def test_texts_as_classes_and_more_than_two(table):
    guard = Guard(table)
    logit, three = fit(guard, LogisticRegression(), "label"), fit(guard, LogisticRegression(), "three")
    rows = protected(guard)
    said = logit.predict(rows[FEATURES])
    asked = [
        guard.to_score(logit, target="label", metric="recall"),
        guard.to_score(logit, target="label", metric="precision", positive="no"),
        guard.to_score(logit, target="label", metric="auc", positive="no"),
        guard.to_score(three, target="three", metric="balanced_accuracy"),
        guard.to_score(three, target="three", metric="log_loss"),
    ]
    truths = [
        metrics.recall_score(rows.label, said, pos_label="yes"),
        metrics.precision_score(rows.label, said, pos_label="no"),
        metrics.roc_auc_score(rows.label == "no", logit.predict_proba(rows[FEATURES])[:, 0]),
        metrics.balanced_accuracy_score(rows.three, three.predict(rows[FEATURES])),
        metrics.log_loss(rows.three, three.predict_proba(rows[FEATURES])),
    ]
    for answer, truth in zip(guard.report(asked).answers, truths, strict=True):
        assert answer.value == pytest.approx(truth, abs=1e-4)


def test_a_score_without_probabilities_is_ranked_by_its_decision(table):
    guard = Guard(table)
    machine = fit(guard, LinearSVC(), "y")
    rows = protected(guard)
    (answer,) = guard.report([guard.to_score(machine, target="y", metric="auc")]).answers
    assert answer.value == pytest.approx(
        metrics.roc_auc_score(rows.y, machine.decision_function(rows[FEATURES])), abs=1e-4
    )


def test_several_metrics_are_one_batch(table):
    guard = Guard(table)
    logit = fit(guard, LogisticRegression(), "y")
    told = guard.score(logit, target="y", metric=["accuracy", "auc", "f1"])
    assert list(told) == ["accuracy", "auc", "f1"]
    assert all(answer.certificate.numbers["asked together"] == 3 for answer in told.values())
    spent = guard.spent
    assert guard.score(logit, target="y", metric="auc") == told["auc"]
    assert guard.spent == spent


def test_the_guess_of_a_model_is_not_its_score_on_its_own_rows(table):
    guard = Guard(table.drop(index=range(1500)), train=table.iloc[:1500])
    forest = fit(guard, RandomForestClassifier(n_estimators=20, random_state=0), "y")
    own = forest.score(guard.train[FEATURES], guard.train.y)
    answer = guard.score(forest, target="y")
    assert own > 0.95
    assert answer.guess < 0.85
    assert any("3 cross-validation folds" in note for note in answer.notes)
    told = guard.score(fit(guard, LogisticRegression(C=0.1), "y"), target="y", guess=0.75)
    assert told.guess == 0.75
    assert any("5 cross" in note for note in guard.score(forest, target="y", metric="f1", cv=5).notes)


class Memory:
    """No model of scikit-learn: it knows its own rows by heart."""

    def __init__(self, frame, target):
        self.known = dict(zip(map(tuple, frame[FEATURES].to_numpy()), frame[target], strict=True))

    def predict(self, frame):
        return np.array([self.known.get(tuple(row), float(row[0] > 0)) for row in frame.to_numpy()])


def test_a_model_that_cannot_be_fitted_again_is_not_judged_by_its_own_rows(table):
    training, rest = table[:1_000], table[1_000:].reset_index(drop=True)
    guard = Guard(rest, train=training)
    answer = guard.score(Memory(training, "y"), target="y")
    assert answer.guess < 0.9  # It is right about all of its own rows.
    assert answer.low < ((rest.a > 0) == rest.y).mean() < answer.high
    expected = "There is no guess: the model cannot be fitted again"
    assert any(note.startswith(expected) for note in answer.notes)
    assert answer.cost < 8
    brought = Guard(rest, train=training).score(Memory(training, "y"), target="y", guess=0.75)
    assert brought.guess == 0.75
    assert Guard(rest, train=training).score(Memory(training, "t"), target="t", metric="r2").high < 1


def test_an_array_over_protected_rows_needs_no_guess(table):
    guard = Guard(table.drop(index=range(1000)), train=table.iloc[:1000])
    rows = protected(guard)
    answer = guard.score(table.said.to_numpy()[1000:], target="y")
    assert answer.low <= (rows.said == rows.y).mean() <= answer.high
    assert answer.half_width < 0.05
    assert any("guess" in note for note in answer.notes)


def test_two_models_are_compared_row_by_row(table):
    guard = Guard(table)
    good, bad = fit(guard, LogisticRegression(), "y"), table.y.sample(frac=1, random_state=0).to_numpy()
    rows = protected(guard)
    asked = guard.to_compare(good, table.said.to_numpy(), target="y")
    recall = guard.to_compare(table.said.to_numpy(), bad, target="y", metric="recall")
    balanced = guard.to_compare(table.said.to_numpy(), bad, target="y", metric="balanced_accuracy")
    loss = guard.to_compare(table.guess.to_numpy(), np.zeros(ROWS), target="t", metric="mae", bounds=SPAN)
    answers = guard.report([asked, recall, balanced, loss]).answers
    first = (good.predict(rows[FEATURES]) == rows.y).mean() - (rows.said == rows.y).mean()
    assert answers[0].value == pytest.approx(first, abs=1e-6)
    with unsealed():
        mask = guard._setup.protected.mask
    other = bad[mask]
    truths = [
        score(rows.y, rows.said) - score(rows.y, other)
        for score in (metrics.recall_score, metrics.balanced_accuracy_score)
    ]
    assert [answers[1].value, answers[2].value] == pytest.approx(truths, abs=1e-6)
    clipped = rows.t.clip(*SPAN)
    assert answers[3].value == pytest.approx(
        (clipped - rows.guess.clip(*SPAN)).abs().mean() - clipped.abs().mean(), abs=1e-4
    )


def test_a_paired_difference_is_narrower_than_two_scores(table):
    near = np.where(np.arange(ROWS) % 20 == 0, 1 - table.said, table.said)
    paired = Guard(table, expect=1).compare(table.said.to_numpy(), near, target="y").half_width
    single = Guard(table, expect=2).score_all([table.said.to_numpy(), near], target="y")
    assert paired < 0.4 * sum(answer.half_width for answer in single)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "acuracy"}, "'accuracy'"),
        ({"metric": ["accuracy", "acuracy"]}, "'accuracy'"),
        ({"metric": "log_loss", "predictions": np.full(ROWS, 2.0)}, "from 0 to 1"),
        ({"metric": "recall", "positive": 7}, "No training row has 7"),
        ({"metric": "brier", "predictions": "a * 3"}, "outside"),
        ({"metric": "log_loss", "predictions": "2"}, "outside"),
        ({"metric": "accuracy", "predictions": np.full(ROWS, 3)}, "hold 3"),
        ({"metric": "f1", "target": "label", "predictions": np.full(ROWS, "yess")}, "hold 'yess'"),
        ({"metric": "precision", "predictions": np.zeros(ROWS)}, "no precision"),
        ({"metric": "precision", "predictions": "0 * y"}, "enters"),
        ({"metric": "brier", "positive": 7}, "no class 7"),
        ({"metric": "r2", "target": "label"}, "target of numbers"),
        ({"metric": "f1", "target": "three", "predictions": np.ones(ROWS)}, "positive="),
        ({"metric": "auc", "predictions": np.full(ROWS, "yes")}, "numbers"),
        ({"metric": "accuracy", "target": "nothing"}, "There is no column"),
        ({"metric": "mae", "target": "t", "bounds": (1, 0)}, "lo < hi"),
        ({"metric": ["accuracy", "f1"], "guess": 0.5}, "left out"),
        ({"metric": "accuracy", "cv": 1}, "cv"),
    ],
)
def test_what_is_wrong_is_said_and_costs_nothing(table, options, words):
    guard = Guard(table)
    predictions = options.pop("predictions", None)
    predictions = fit(guard, LogisticRegression(), "y") if predictions is None else predictions
    with pytest.raises((QueryRejected, InvalidArgument), match=words):
        guard.score(predictions, **{"target": "y", **options})
    assert guard.spent == 0


def test_another_positive_label_is_another_question(table):
    guard, truth = Guard(table), table.label
    for metric in ("log_loss", "brier"):
        for predictions in (table.p.to_numpy(), "p"):
            ask = {"target": "label", "metric": metric}
            yes, no = (guard.score(predictions, positive=label, **ask) for label in ("yes", "no"))
            assert yes.value < no.value
            assert guard.score(predictions, **ask) == yes
    for label in ("yes", "no"):
        model = fit(guard, LogisticRegression(), "label")
        answer = guard.score(model, target="label", metric="brier", positive=label)
        chance = model.predict_proba(table[FEATURES])[:, list(model.classes_).index(label)]
        assert answer.low < np.mean((chance - (truth == label)) ** 2) < answer.high


def test_labels_that_are_meant_are_scored_with_a_guess(table):
    guard = Guard(table)
    predictions = np.where(table.said == 1, 1, 3)
    answer = guard.score(predictions, target="y", guess=0.4)
    assert answer.low < np.mean(predictions == table.y) < answer.high
    assert guard.score(predictions, target="y") == answer  # It was answered before.


@pytest.mark.parametrize("metric", ["accuracy", "error", "brier", "log_loss"])
def test_two_expressions_are_compared_as_two_arrays_are(table, metric):
    frame = table.assign(half=np.where(np.arange(ROWS) % 7 == 0, np.nan, table.said))
    columns = ("said", "half") if metric in ("accuracy", "error") else ("p", "half")
    guard = Guard(frame)
    answer = guard.compare(*columns, target="y", metric=metric)
    scores = guard.ask_all([guard.to_score(name, target="y", metric=metric) for name in columns])
    assert answer.low < scores[0].value - scores[1].value < answer.high
    # A missing prediction counts as wrong, as it does in the scores.
    assert abs(answer.value - (scores[0].value - scores[1].value)) < 0.05 * answer.query.bounds[1]


@pytest.mark.parametrize("metric", ["mae", "mse"])
def test_two_expressions_of_numbers_are_compared(table, metric):
    guard = Guard(table)
    answer = guard.compare("guess", "0", target="t", metric=metric, bounds=SPAN)
    arrays = guard.compare(table.guess.to_numpy(), np.zeros(ROWS), target="t", metric=metric, bounds=SPAN)
    assert answer.high < 0
    assert abs(answer.value - arrays.value) < arrays.half_width


def test_one_class_only_is_refused():
    guard = Guard(pd.DataFrame({"x": np.arange(900.0), "y": 1}))
    with pytest.raises(QueryRejected, match="one class"):
        guard.score(np.ones(900), target="y", metric="balanced_accuracy")
    assert guard.spent == 0


def test_metrics_that_are_no_mean_are_not_compared(table):
    guard = Guard(table)
    with pytest.raises(QueryRejected, match="not compared row by row"):
        guard.compare(table.said.to_numpy(), 1 - table.said.to_numpy(), target="y", metric="f1")


def test_fifty_scores_read_as_much_for_the_last_as_for_the_first(table, monkeypatch):
    guard, reads = Guard(table), []
    for name in ("frame", "sums", "cells"):
        method = getattr(Rows, name)

        def noted(rows, *args, method=method, name=name, **options):
            reads[-1].append((name, rows.count))
            return method(rows, *args, **options)

        monkeypatch.setattr(Rows, name, noted)
    for cut in np.linspace(0.3, 0.7, 50):
        reads.append([])
        guard.score((table.p > cut).astype(int).to_numpy(), target="y")
    assert reads[0] == reads[-1]
    assert len(guard.history) == 50
