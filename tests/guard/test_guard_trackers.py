"""MLflow and Optuna, the real packages: what is logged, what a trial says, and what happens when the account
refuses."""

from __future__ import annotations

import doctest
import importlib
import sys
import warnings

import numpy as np
import optuna
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from holdfast import Guard
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.mlflow import log_answers, metric_name
from holdfast.optuna import GuardedObjective, stop_when_spent

ROWS = 3_000
ENDINGS = ("", ".low", ".high", ".cost")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(11)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=list("abc"))
    frame["y"] = (frame.a + 0.5 * frame.b + rng.normal(size=ROWS) > 0).astype(int)
    return frame


@pytest.fixture(autouse=True)
def quiet_optuna():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """MLflow with a database of the tests' own. It takes seconds to make, so all tests share it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        environment.setenv("DO_NOT_TRACK", "true")
        import mlflow
        from sqlalchemy.exc import SADeprecationWarning

        folder = tmp_path_factory.mktemp("mlflow")
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(f"sqlite:///{folder / 'runs.db'}")
        with warnings.catch_warnings():
            # MLflow's own tables use it.
            warnings.filterwarnings("ignore", "The ``noload`` loader strategy", SADeprecationWarning)
            experiment = mlflow.create_experiment("tests", artifact_location=str(folder / "artifacts"))
        mlflow.set_experiment(experiment_id=experiment)
        yield mlflow
        mlflow.set_tracking_uri(before)


def fitted(guard, depth, kind=DecisionTreeClassifier):
    return kind(max_depth=depth, random_state=0).fit(guard.train[["a", "b", "c"]], guard.train["y"])


def logged(answer):
    name = metric_name(answer.query)
    return dict(
        zip(
            (f"{name}{ending}" for ending in ENDINGS),
            (answer.value, answer.low, answer.high, answer.cost),
            strict=True,
        )
    )


def test_mlflow_has_every_answer_with_its_interval_and_cost(store, table):
    guard = Guard(table)
    with store.start_run() as run:
        log_answers(guard)
        score = guard.score(fitted(guard, 2), target="y", name="tree")
        share, mean = guard.ask_all(["share(a > 0, guess = 0.5)", "mean(b * c, -5, 5)"])
        guard.ask("share(a > 0)")
    data = store.get_run(run.info.run_id).data
    assert data.metrics == {**logged(score), **logged(share), **logged(mean)}
    assert {"accuracy of tree for y", "share a above 0.low", "mean b times c -5 5.cost"} <= set(data.metrics)
    assert data.tags["holdfast.statement"] == score.certificate.statement
    assert "0.95" in data.tags["holdfast.statement"]
    history = store.MlflowClient().get_metric_history
    steps = [history(run.info.run_id, metric_name(one.query)) for one in (score, share, mean)]
    assert [[point.step for point in points] for points in steps] == [[0], [1], [2]]


def test_mlflow_logs_to_the_run_that_was_named_until_it_is_stopped(store, table):
    guard, client = Guard(table), store.MlflowClient()
    run_id = client.create_run(store.get_experiment_by_name("tests").experiment_id).info.run_id
    log = log_answers(guard, run_id)
    with store.start_run() as other:
        first = guard.ask("share(a > 0)")
        log.stop()
        second = guard.ask("share(b > 0)")
    assert client.get_run(run_id).data.metrics == logged(first)
    assert client.get_run(other.info.run_id).data.metrics == {}
    log(second)
    assert client.get_run(run_id).data.metrics == {**logged(first), **logged(second)}


def test_mlflow_starts_a_run_where_none_is_active(store, table):
    guard = Guard(table)
    log_answers(guard)
    assert store.active_run() is None
    answer = guard.ask("share(a > 0)")
    run = store.active_run()
    store.end_run()
    assert store.get_run(run.info.run_id).data.metrics == logged(answer)


def test_when_mlflow_fails_the_answer_is_kept_and_can_be_logged_later(store, table):
    guard, client = Guard(table), store.MlflowClient()
    log = log_answers(guard, "0" * 32)
    with pytest.raises(store.exceptions.MlflowException, match="not found") as raised:
        guard.ask("share(a > 0)")
    assert "Ask again" in raised.value.__notes__[-1]
    spent = guard.spent
    answer = guard.ask("share(a > 0)")
    assert guard.spent == spent == answer.cost
    log.stop()
    with store.start_run() as run:
        again = log_answers(guard)
        for earlier in guard.history:
            again(earlier)
    assert client.get_run(run.info.run_id).data.metrics == logged(answer)


TEXTS = (
    "share(a > 0)",
    "share(a >= 0)",
    "share(a < 0)",
    "share(a = 0)",
    "share(a <> 0)",
    "share(arm = 'b')",
    "share(arm = b)",
    "mean((a + b) * c, 0, 1)",
    "mean(a + b * c, 0, 1)",
    "mean(a / b, 0, 1)",
    "share(größe > 2)",
    "score(tree, target = y, metric = rmse, bounds = [0, 5])",
    "score(tree, target = y, metric = error) - score(logit, target = y, metric = error)",
    "..",
    "../a",
    "/a",
    "a",
    "???",
    "",
    "x" * 400,
    "x" * 401,
)


def test_names_of_metrics_are_allowed_by_mlflow_and_differ(store):
    from mlflow.utils.validation import _validate_length_limit, _validate_metric_name

    names = [metric_name(text) for text in TEXTS]
    assert len(set(names)) == len(TEXTS)
    for name in names:
        for ending in ENDINGS:
            _validate_metric_name(name + ending)
            _validate_length_limit("Metric name", 250, name + ending)


def test_names_of_metrics_read_like_the_question():
    assert metric_name("share(a >= 0)") == "share a at least 0"
    assert metric_name("score(tree, target = y, metric = auc, positive = 1)") == (
        "auc of tree for y positive is 1"
    )
    compared = "score(tree, target = y, metric = error) - score(logit, target = y, metric = error)"
    assert metric_name(compared) == "error of tree for y - error of logit for y"


def test_an_infinite_end_is_left_out(store, table):
    from dataclasses import replace

    guard = Guard(table)
    log = log_answers(guard)
    with store.start_run() as run:
        answer = guard.ask("share(a > 0)")
        log.stop()
    with store.start_run() as other:
        log(replace(answer, high=float("inf")))
    kept = store.get_run(run.info.run_id).data.metrics
    kept.pop("share a above 0.high")
    assert store.get_run(other.info.run_id).data.metrics == kept


def study_of(objective, trials, **options):
    sampler = optuna.samplers.RandomSampler(seed=3)
    study = optuna.create_study(direction=objective.direction, sampler=sampler)
    study.optimize(objective, n_trials=trials, **options)
    return study


def test_each_trial_has_its_score_and_its_interval(table):
    guard, twin = Guard(table), Guard(table)
    objective = GuardedObjective(
        guard, lambda trial: fitted(guard, trial.suggest_int("depth", 1, 6)), target="y", cv=2
    )
    study = study_of(objective, 5)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 5
    for trial in study.trials:
        answer = twin.score(fitted(twin, trial.params["depth"]), target="y", cv=2)
        assert trial.value == answer.value
        assert trial.user_attrs == {"low": answer.low, "high": answer.high, "cost": answer.cost}
    assert guard.spent == twin.spent
    assert study.best_value == max(answer.value for answer in guard.history)
    assert len(guard.history) == len({trial.params["depth"] for trial in study.trials})


def test_trials_in_threads_share_the_account(table):
    guard = Guard(table)
    objective = GuardedObjective(
        guard, lambda trial: fitted(guard, trial.suggest_int("depth", 1, 6)), target="y", cv=2
    )
    study = study_of(objective, 6, n_jobs=3)
    answers = {answer.value: answer.cost for answer in guard.history}
    assert {trial.value: trial.user_attrs["cost"] for trial in study.trials} == answers
    assert guard.spent == pytest.approx(sum(answer.cost for answer in guard.history), abs=1e-9)


def test_losses_are_minimized_and_a_study_that_does_not_is_refused(table):
    guard = Guard(table)

    def build(trial):
        return fitted(guard, trial.suggest_int("depth", 1, 3), DecisionTreeRegressor)

    objective = GuardedObjective(guard, build, target="y", metric="mse", bounds=(0, 1))
    assert objective.direction == "minimize"
    assert GuardedObjective(guard, build, target="y").direction == "maximize"
    wrong = optuna.create_study(direction="maximize")
    with pytest.raises(InvalidArgument, match=r"must be 'minimize' for mse, as objective\.direction says"):
        wrong.optimize(objective, n_trials=1)
    assert guard.spent == 0
    study = study_of(objective, 2)
    assert study.best_value == min(answer.value for answer in guard.history) > 0
    fixed = optuna.trial.FixedTrial(study.best_params)
    assert objective(fixed) == study.best_value
    assert set(fixed.user_attrs) == {"low", "high", "cost"}


def test_when_the_budget_is_spent_the_trial_is_pruned_and_the_study_stops(table):
    guard = Guard(table, strategy="agreed-code", queries=2, surprises=2)

    def build(trial):
        return fitted(guard, trial.suggest_int("depth", 1, 3))

    objective = GuardedObjective(guard, build, target="y")
    study = optuna.create_study(
        direction=objective.direction, sampler=optuna.samplers.GridSampler({"depth": [1, 2, 3]}, seed=0)
    )
    study.enqueue_trial({"depth": 1})
    study.enqueue_trial({"depth": 1})
    study.optimize(objective, n_trials=10, callbacks=[stop_when_spent])
    depths = [trial.params["depth"] for trial in study.trials]
    states = [trial.state.name for trial in study.trials]
    assert depths[:2] == [1, 1]
    assert len(set(depths)) == 3
    assert states == ["COMPLETE"] * (len(states) - 1) + ["PRUNED"]
    last = study.trials[-1]
    assert set(last.user_attrs) == {"refused"}
    assert last.value is None
    assert guard.spent == 2


def test_when_the_account_is_closed_the_trial_is_pruned_and_only_the_callback_stops_the_study(table):
    guard = Guard(table)
    objective = GuardedObjective(
        guard, lambda trial: fitted(guard, trial.suggest_int("depth", 1, 6)), target="y"
    )
    guard.close_account()
    study = study_of(objective, 2)
    assert [trial.state.name for trial in study.trials] == ["PRUNED"] * 2
    assert "closed" in study.trials[0].user_attrs["refused"]
    assert len(study_of(objective, 5, callbacks=[stop_when_spent]).trials) == 1


def test_a_trial_that_the_caller_prunes_does_not_stop_the_study(table):
    def give_up(trial):
        raise optuna.TrialPruned("not promising")

    study = study_of(GuardedObjective(Guard(table), give_up, target="y"), 3, callbacks=[stop_when_spent])
    assert len(study.trials) == 3


def test_an_unknown_metric_is_refused_at_once(table):
    with pytest.raises(InvalidArgument, match="'metric' argument of GuardedObjective"):
        GuardedObjective(Guard(table), None, target="y", metric="acuracy")


@pytest.mark.parametrize(
    ("package", "use"),
    [("mlflow", log_answers), ("optuna", lambda guard: GuardedObjective(guard, None, target="y"))],
)
def test_a_package_that_is_not_installed_is_named(package, use, table, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'holdfast-guard\[{package}\]'"):
        use(Guard(table))


@pytest.mark.parametrize("module", ["holdfast.mlflow", "holdfast.optuna"])
def test_examples_in_docstrings_run(module):
    results = doctest.testmod(importlib.import_module(module))
    assert results.attempted > 0
    assert results.failed == 0
