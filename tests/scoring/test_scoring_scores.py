"""Scores: what a Brier score is of, which model is the same, and what is refused before it is charged."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from contextlib import suppress
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from holdfast import Guard
from holdfast.engines import unsealed
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.scoring import score_question

ROWS = 2_000
OFFSET = 0.25  # a variable of this module that a model below uses


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, ROWS))
    y = (rng.random(ROWS) < 1 / (1 + np.exp(-1.5 * x))).astype(int)
    label = np.where(y == 1, "yes", "no")
    return pd.DataFrame({"x": x, "z": z, "y": y, "flag": y == 1, "label": label, "sign": 2 * y - 1})


@pytest.fixture(scope="module")
def guard(table):
    """A guard of which nothing is answered."""
    return Guard(table)


@pytest.fixture(scope="module")
def used_guard(table):
    return Guard(table)


@pytest.fixture(scope="module")
def digest(table):
    """The digest by which an account recognises a model, as its answers name it; None if it has none."""
    guard = Guard(table)

    def digest(model, target="y"):
        named = re.search(r"recognised by its digest, (\w{12})…", guard.score(model, target=target).notes[-1])
        return None if named is None else named[1]

    return digest


def fitted(guard, target, model=None, features=("x", "z")):
    model = LogisticRegression() if model is None else model
    return model.fit(guard.train[list(features)], guard.train[target])


def protected_rows(table, guard):
    return table[guard._setup.protected.mask]


@pytest.mark.parametrize("target", ["y", "flag", "label", "sign"])
def test_a_brier_score_is_of_the_probability_of_the_second_class(table, target):
    """The mean squared error of probabilities, whatever the two labels are; that of hard labels is another
    number, far outside the interval."""
    guard = Guard(table)
    model = fitted(guard, target)
    answer = guard.score(model, target=target, metric="brier")
    rows = protected_rows(table, guard)
    probability = model.predict_proba(rows[["x", "z"]])[:, 1]
    exact = float(np.mean((probability - rows["y"]) ** 2))
    assert answer.low <= exact <= answer.high
    hard = float(np.mean((model.predict(rows[["x", "z"]]) == model.classes_[1]) != rows["y"]))
    assert not answer.low <= hard <= answer.high  # What was scored before.
    shown = repr(model.classes_[1].item() if target != "label" else "yes")
    assert f"the probability that the model gives {shown}" in answer.notes[0]
    as_array = guard.score(model.predict_proba(table[["x", "z"]])[:, 1], target="y", metric="brier")
    assert as_array.value == pytest.approx(answer.value, abs=answer.half_width)


def test_the_exact_brier_score_of_every_row(table):
    """The sum that is read, against arithmetic by hand, missing values included."""
    rows = pd.DataFrame(
        {
            "p": [0.0, 0.25, 1.0, 0.5, 0.75, 0.1],
            "flag": pd.array([True, False, True, None, True, False], dtype="boolean"),
        }
    )
    tripled = pd.concat([rows] * 3, ignore_index=True)
    guard = Guard(tripled, training_share=0)

    class Says:
        classes_ = np.array([False, True])

        def predict_proba(self, frame):
            return np.column_stack([1 - frame["p"], frame["p"]])

    expected = (1.0 + 0.0625 + 0.0 + 1.0 + 0.0625 + 0.01) / 6  # The missing label counts as the worst.
    for given in (Says(), tripled["p"].to_numpy()):
        question = score_question(
            given, target="flag", metric="brier", guess=0.3, name=None, protected=guard._setup.protected
        )
        with unsealed():
            moments = question.moments(guard._setup.protected)
        assert moments.mean == pytest.approx(expected, abs=2.0**-23)


@pytest.mark.parametrize(
    ("model", "target", "metric", "says"),
    [
        (LinearRegression(), "y", "brier", "has no predict_proba"),
        (LinearSVC(), "y", "brier", "has no predict_proba"),
        (SVC(), "label", "brier", "has no predict_proba"),
        (LogisticRegression(), "third", "brier", "needs two classes, and this model has 3"),
        (DummyClassifier(), "constant", "brier", "needs two classes, and this model has 1"),
        (RandomForestClassifier(n_estimators=3), "two targets", "brier", "several targets"),
    ],
)
def test_models_without_one_probability_are_refused_before_anything_is_charged(
    table, model, target, metric, says
):
    rng = np.random.default_rng(0)
    frame = table.assign(third=rng.integers(0, 3, ROWS), constant=1)
    for guard in (Guard(frame), Guard(frame, training_share=0)):
        rows = frame.head(500)
        labels = rows[["y", "third"]] if target == "two targets" else rows[target]
        model.fit(rows[["x", "z"]], labels)
        against = "y" if target == "two targets" else target
        with pytest.raises(QueryRejected, match=says):
            guard.score(model, target=against, metric=metric, guess=0.2)
        assert (guard.spent, guard.history) == (0, ())


class Broken:
    def predict(self, frame):
        raise RuntimeError("no such thing")


class Column:
    def predict(self, frame):
        return np.zeros((len(frame), 1))


class OnlyProbabilities:
    def predict_proba(self, frame):
        return np.full(len(frame), 0.5)


def test_probabilities_without_classes_are_those_of_the_later_label(guard, table):
    question = guard.to_score(OnlyProbabilities(), target="label", metric="brier")
    assert "the probability that the model gives 'yes'" in question.notes[0]


class WildProbabilities:
    def predict_proba(self, frame):
        return np.full(len(frame), 1.5)


@pytest.mark.parametrize(
    ("make", "arguments", "says"),
    [
        (lambda guard: Broken(), {}, "RuntimeError: no such thing"),
        (lambda guard: Column(), {}, "shape"),
        (lambda guard: OnlyProbabilities(), {}, "has no predict, and accuracy needs it"),
        (lambda guard: WildProbabilities(), {"metric": "brier"}, "numbers from 0 to 1"),
        (lambda guard: np.full(ROWS, "yes"), {"metric": "brier", "target": "label"}, "of kind text"),
        (lambda guard: LogisticRegression(), {}, "not fitted"),
        (lambda guard: make_pipeline(StandardScaler(), LogisticRegression()), {}, "not fitted"),
        (lambda guard: LogisticRegression, {}, "is a class"),
        (lambda guard: fitted(guard, "y", features=("x", "flag")), {"target": "flag"}, "among its features"),
        (lambda guard: fitted(guard, "y"), {"target": "label"}, "of kind number and the column 'label'"),
        (lambda guard: fitted(guard, "label"), {"target": "flag"}, "of kind text and the column 'flag'"),
        (
            lambda guard: fitted(guard, "y"),
            {"target": "label", "metric": "brier"},
            "classes are 0 and 1, and the column 'label'",
        ),
        (lambda guard: np.full(ROWS, "yes"), {}, "of kind text and the column 'y'"),
        (lambda guard: np.ones(ROWS), {"target": "label"}, "of kind number and the column 'label'"),
        (lambda guard: np.full(ROWS, 1.5), {"metric": "brier"}, "numbers from 0 to 1"),
        (lambda guard: np.full(ROWS, np.nan), {"metric": "brier"}, "numbers from 0 to 1"),
        (lambda guard: [1] * (ROWS - 1) + [None], {}, "missing, or of another kind"),
        (lambda guard: [1] * (ROWS - 1) + ["a"], {}, "missing, or of another kind"),
        (lambda guard: [2**64] * ROWS, {}, "64 bits"),
        (lambda guard: [2**63] * (ROWS - 1) + [-1], {}, "64 bits"),
        (lambda guard: [2**60] * (ROWS - 1) + [0.5], {}, "64 bits"),
        (lambda guard: np.array([10**400] * ROWS, dtype=object), {"metric": "brier"}, "64 bits"),
        (lambda guard: [[1], [1, 2]], {}, "a list of lists"),
        (lambda guard: object(), {}, "array of shape ()"),
        (lambda guard: None, {}, "array of shape ()"),
    ],
)
def test_bad_predictions_are_refused_before_anything_is_charged(guard, make, arguments, says):
    predictions = make(guard)
    arguments = {"target": "y", "guess": 0.2, **arguments}
    with pytest.raises(QueryRejected, match=says.replace("(", r"\(").replace(")", r"\)")):
        guard.score(predictions, **arguments)
    assert (guard.spent, guard.history) == (0, ())


@pytest.mark.parametrize("bad", [{"guess": 10**400}, {"guess": 2**70}, {"name": 5}, {"metric": 2**70}])
def test_arguments_are_named(guard, bad):
    with pytest.raises(InvalidArgument) as refused:
        guard.score(np.ones(ROWS), **{"target": "y", **bad})
    assert refused.value.argument == next(iter(bad))
    assert guard.spent == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda guard: guard.share(f"x > {10**400}"),
        lambda guard: guard.share(f"x > {2**64}"),
        lambda guard: guard.share(f"y = {2**63}"),
        lambda guard: guard.share(f"y * {2**63 - 1} > 0"),
        lambda guard: guard.share(f"x > -{2**63} - {2**63}"),
        lambda guard: guard.ask(f"mean(x, 0, {10**400})"),
        lambda guard: guard.ask(f"mean(x, 0, {2**70})"),
        lambda guard: guard.ask(f"mean(x, 0, 1, guess = {10**400})"),
        lambda guard: guard.ask(f"quantile(x, {10**400})"),
        lambda guard: guard.ask(f"quantile(x, 0.5, guess = {2**70})"),
        lambda guard: guard.mean("x", bounds=(0, 10**400)),
        lambda guard: guard.mean("x", bounds=(-(2**70), 2**70)),
        lambda guard: guard.mean("x", bounds=(0, 1), guess=10**400),
        lambda guard: guard.mean("x", bounds=(0, 1), nulls=10**400),
        lambda guard: guard.quantile("x", 0.5, guess=10**400),
        lambda guard: guard.cost_preview(f"share(x > {10**400})"),
        lambda guard: guard.ask_all([f"share(x > {10**400})"]),
        lambda guard: guard.history_page(10**30, 10**30),
        lambda guard: guard.history_page(-(10**30)),
        lambda guard: guard.score(np.full(ROWS, 2**64 - 1, dtype=np.uint64), target="y"),
        lambda guard: guard.score(np.full(ROWS, 2**64 - 1, dtype=np.uint64), target="flag"),
        lambda guard: guard.score([2**63] * ROWS, target="y", guess=0),
        lambda guard: guard.score([-(2**63)] * ROWS, target="y", guess=0),
        lambda guard: guard.score(f"{2**64}", target="y"),
        lambda guard: guard.score(f"{10**400}", target="y", metric="brier"),
        lambda guard: Guard(guard.train, strategy="grid-code", queries=10**400),
        lambda guard: Guard(guard.train, strategy="split", queries=2**70),
        lambda guard: Guard(guard.train, strategy="typical-laplace", queries=2**70),
        lambda guard: Guard(guard.train, strategy="agreed-code", queries=2**70, surprises=2**69),
        lambda guard: Guard(guard.train, error=10**400),
        lambda guard: Guard(guard.train, seconds=10**400),
        lambda guard: Guard(guard.train, split_seed=2**70),
        lambda guard: Guard(guard.train, confidence=10**400),
    ],
)
def test_no_number_is_too_large_for_a_sentence(used_guard, call):
    """Any number is taken, or refused by an error of ours; never by one of Python's own."""
    with suppress(HoldfastError):
        call(used_guard)


def test_the_same_fitted_model_is_the_same_question(table):
    guard = Guard(table)
    model = fitted(guard, "y", RandomForestClassifier(n_estimators=3, random_state=0))
    first = guard.score(model, target="y")
    spent = guard.spent
    for same in (
        model,
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        fitted(guard, "y", RandomForestClassifier(n_estimators=3, random_state=0)),
    ):
        assert guard.score(same, target="y") is first
    assert guard.score(model, target="y", name="forest") is first
    assert (guard.spent, len(guard.history)) == (spent, 1)
    for other in (
        fitted(guard, "y", RandomForestClassifier(n_estimators=3, random_state=1)),
        fitted(guard, "y", RandomForestClassifier(n_estimators=4, random_state=0)),
        RandomForestClassifier(n_estimators=3, random_state=0).fit(
            guard.train[["x", "z"]].head(499), guard.train["y"].head(499)
        ),
    ):
        assert guard.score(other, target="y") is not first
    assert len(guard.history) == 4
    assert guard.score(model, target="y", metric="error") is not first
    assert guard.score(model, target="y", metric="brier") is not first
    assert guard.score(model, target="flag") is not first


def test_a_name_is_a_label_and_never_an_old_answer(table, digest):
    guard = Guard(table)
    good, bad = fitted(guard, "y"), fitted(guard, "y", features=("z",))
    first = guard.score(good, target="y", name="mine")
    second = guard.score(bad, target="y", name="mine")
    assert second.value < first.value - 0.1
    assert len(guard.history) == 2
    assert all(str(answer.query).startswith("score(mine, ") for answer in guard.history)
    assert first.notes != second.notes  # Each names its model's digest.
    assert digest(good) in first.notes[-1]
    assert digest(good) != digest(bad)
    assert guard.score(good, target="y", name="mine") is first


def test_a_model_is_the_same_after_it_was_scored(table, digest):
    """Models that count or keep what they predict: what is scored is a copy, so the caller's model stays as
    it was, and keeps nothing of the protected rows."""

    class Keeps:
        def __init__(self):
            self.kept = []

        def predict(self, frame):
            self.kept.append(frame)
            return (frame["x"] > 0).astype(int).to_numpy()

    guard = Guard(table)
    neighbours = fitted(guard, "y", KNeighborsClassifier(3))
    before = digest(neighbours)
    neighbours.predict(guard.train[["x", "z"]])
    assert None not in (before, digest(neighbours))
    assert digest(neighbours) != before  # It counts its queries.
    for model in (Keeps(), neighbours):
        key, size = digest(model), len(guard.history)
        first = guard.score(model, target="y")
        assert digest(model) == key is not None
        assert guard.score(model, target="y") is first
        assert len(guard.history) == size + 1
    keeps = Keeps()
    guard.score(keeps, target="flag")
    assert keeps.kept == []


def test_a_model_that_cannot_be_recognised_is_a_new_question_each_time(table):
    class Locked:
        def __init__(self):
            self.lock = threading.Lock()

        def predict(self, frame):
            return (frame["x"] > 0).astype(int).to_numpy()

    class Restless(Locked):
        def __init__(self):
            self.times = 0

        def __getstate__(self):
            self.times += 1
            return {"times": self.times}

    for model in (Locked(), Restless()):
        guard = Guard(table)
        first = guard.score(model, target="y", name="mine")
        second = guard.score(model, target="y", name="mine")
        assert len(guard.history) == 2
        assert first.guess == second.guess
        assert first.confirmed
        assert second.confirmed
        for answer in (first, second):
            assert "cannot be recognised" in answer.notes[-1]
        assert guard.spent == pytest.approx(first.cost + second.cost)
    assert not any("cannot be" in note for note in guard.score(fitted(guard, "y"), target="y").notes)


class Rule:
    """A model that is all code."""

    scale = 2.0

    def __init__(self, limit):
        self.limit = limit

    def predict(self, frame):
        return shifted(frame["x"] * self.scale) > self.limit + OFFSET


def shifted(values):
    return values + 1


def test_a_model_is_what_it_does_and_not_what_it_is_called(monkeypatch, digest):
    module = sys.modules[__name__]
    key = digest(Rule(1), "flag")
    assert key == digest(Rule(1), "flag") is not None
    changes = [
        (Rule, "scale", 2.5),
        (Rule, "predict", lambda self, frame: frame["x"] > self.limit),
        (module, "OFFSET", 0.5),
        (module, "shifted", lambda values: values + 2),
    ]
    for place, name, value in changes:
        with monkeypatch.context() as changed:
            changed.setattr(place, name, value)
            assert digest(Rule(1), "flag") not in (key, None), name
        assert digest(Rule(1), "flag") == key
    assert digest(Rule(2), "flag") != key
    # The digest of a pickle, the twin: it takes a rewritten model for the old one.
    with monkeypatch.context() as changed:
        pickled = pickle.dumps(Rule(1))
        changed.setattr(Rule, "predict", lambda self, frame: frame["x"] > self.limit)
        assert pickle.dumps(Rule(1)) == pickled


def test_how_a_model_lies_in_memory_does_not_matter(table, digest):
    model = LogisticRegression().fit(table[["x", "z"]], table["y"])
    other = copy.deepcopy(model)
    other.coef_ = np.asfortranarray(np.repeat(other.coef_, 2, axis=0))[::2]
    assert digest(other) == digest(model) is not None
    other.coef_ = other.coef_ + 1e-12
    assert digest(other) != digest(model)
    other.coef_ = model.coef_.astype(np.float32)
    assert digest(other) != digest(model)


def test_a_model_has_the_same_digest_in_another_process(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            import pandas as pd
            from holdfast import Guard
            from sklearn.ensemble import RandomForestClassifier
            from sklearn.pipeline import make_pipeline
            from sklearn.preprocessing import FunctionTransformer

            WORDS = {"some", "words", "in", "a", "set"}

            def halved(values):
                return values / 2 if "set" in {"set", "of", "texts"} | WORDS else values

            def model():
                x = pd.DataFrame(np.linspace(0, 1, 200).reshape(-1, 2), columns=["x", "z"])
                forest = RandomForestClassifier(n_estimators=4, random_state=0)
                return make_pipeline(FunctionTransformer(halved), forest).fit(x, x["x"] > 0.4)

            def guard():
                x = np.linspace(0, 1, 1_000)
                return Guard({"x": x, "z": x, "y": x > 0.4}, ledger="book")

            def scored(account):
                answer = account.score(model(), target="y")
                return [answer.value, answer.notes[-1], account.spent, len(account.history)]
            """
        )
    )
    script = "import json, mine; print(json.dumps(mine.scored(mine.guard())))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.chdir(tmp_path)
    mine = import_module("mine")
    assert mine.scored(mine.guard()) == json.loads(elsewhere)
    assert "recognised by its digest" in json.loads(elsewhere)[1]
    monkeypatch.setattr(mine, "WORDS", {"other", "words"})
    again = mine.scored(mine.guard())
    assert again[3] == json.loads(elsewhere)[3] + 1  # Another model is another question.


def test_an_account_continues_with_the_scores_of_the_process_before(table, tmp_path):
    guard = Guard(table, ledger=tmp_path / "book")
    model = fitted(guard, "y")
    first = guard.score(model, target="y", metric="brier")
    guard.close()
    again = Guard(table, ledger=tmp_path / "book")
    assert again.score(pickle.loads(pickle.dumps(model)), target="y", metric="brier") == first
    assert again.spent == first.cost


def test_a_model_sees_the_columns_it_was_fitted_on(table):
    guard = Guard(table)
    model = LogisticRegression().fit(guard.train[["z", "x"]], guard.train["y"])
    rows = protected_rows(table, guard)
    exact = float(np.mean(model.predict(rows[["z", "x"]]) == rows["y"]))
    answer = guard.score(model, target="y")
    assert answer.low <= exact <= answer.high
    encoder = make_column_transformer((OneHotEncoder(), ["label"]), ("passthrough", ["x"]))
    piped = make_pipeline(encoder, LogisticRegression()).fit(guard.train, guard.train["y"])
    with pytest.raises(QueryRejected, match="among its features"):
        guard.score(piped, target="y")
    with pytest.raises(QueryRejected, match="that the rows do not have: w"):
        guard.score(LogisticRegression().fit(guard.train[["x"]].assign(w=1), guard.train["y"]), target="y")
    assert len(guard.history) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "agreed-code", "queries": 4, "surprises": 1},
        {"strategy": "grid-code", "queries": 4},
        {"strategy": "typical-gaussian", "queries": 4},
        {"strategy": "transfer-gaussian", "queries": 4},
    ],
)
def test_every_strategy_that_scores_recognises_models(table, options):
    guard = Guard(table, **options)
    model = LogisticRegression().fit(table[["x", "z"]].head(500), table["y"].head(500))
    answer = guard.score(model, target="y", metric="brier")
    assert guard.score(copy.deepcopy(model), target="y", metric="brier") is answer
    assert guard.spent == 1
    rows = table if guard.train is None else protected_rows(table, guard)
    exact = float(np.mean((model.predict_proba(rows[["x", "z"]])[:, 1] - rows["y"]) ** 2))
    assert answer.low <= exact <= answer.high


@pytest.mark.parametrize("metric", ["accuracy", "error", "brier"])
def test_a_missing_label_counts_as_wrong_however_predictions_are_given(metric):
    """By an expression, an array and a model: the same score, with a third of the labels missing."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, ROWS).astype(float)
    label[rng.random(ROWS) < 1 / 3] = np.nan
    frame = pd.DataFrame({"p": label.copy(), "label": label})
    frame["p"] = np.where(np.isnan(label), 1.0, label)

    class Copies:
        classes_ = np.array([0, 1])

        def predict(self, rows):
            return rows["p"].to_numpy()

        def predict_proba(self, rows):
            return np.column_stack([1 - rows["p"], rows["p"]])

    wrong = 1 / 3 if metric != "accuracy" else 2 / 3
    values = [
        Guard(frame).score(given, target="label", metric=metric, guess=wrong)
        for given in ("p", frame["p"].to_numpy(), Copies())
    ]
    assert values[0].low <= wrong <= values[0].high
    for other in values[1:]:
        assert (other.value, other.low, other.high) == (values[0].value, values[0].low, values[0].high)


def test_a_model_that_uses_a_module_of_the_callers_own_is_a_new_question_each_time(tmp_path, monkeypatch):
    """What such a module holds may change, and is no part of the model."""
    (tmp_path / "own_settings.py").write_text("flip = False\n")
    monkeypatch.syspath_prepend(tmp_path)
    import own_settings

    class Flips:
        def predict(self, frame):
            return ((frame["x"] > 0) != own_settings.flip).astype(int).to_numpy()

    x = np.random.default_rng(0).normal(size=2_000)
    guard = Guard(pd.DataFrame({"x": x, "y": (x > 0).astype(int)}))
    assert guard.score(Flips(), target="y").value > 0.9
    own_settings.flip = True
    assert guard.score(Flips(), target="y").value < 0.1
