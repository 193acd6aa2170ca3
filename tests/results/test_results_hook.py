"""``holdfast.inspect``: real evaluations of Inspect, with its mock model."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.inspect
from holdfast.errors import InvalidArgument, MissingExtra

SCORES = {f"plus/{i}": float(i < 4) for i in range(6)}


class Gate:
    def submit(self, scores, name=None, *, outputs=None, sealed=False):
        raise NotImplementedError


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What happened in the evaluations of results_hook_runs.py, and what they wrote to the terminal."""
    if importlib.util.find_spec("inspect_ai") is None:
        pytest.skip("inspect_ai is not installed")
    folder = tmp_path_factory.mktemp("inspect")
    script = Path(__file__).with_name("results_hook_runs.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    terminal = {part.split("\n")[0]: part for part in done.stderr.split("run ")[1:]}
    return json.loads((folder / "runs.json").read_text(encoding="utf-8")), terminal, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("label", "name", "scores"),
    [
        ("epochs", "v2", SCORES),
        ("limit", "v2", {f"plus/{i}": 1.0 for i in range(3)}),
        ("eval set", "new prompt", SCORES),
    ],
)
def test_scores_go_to_the_gate(runs, label, name, scores):
    run = runs[0][label]
    (given,) = run["given"]
    assert given["scores"] == scores
    assert given["name"] == name
    assert given["sealed"]
    assert {"scores": given["scores"], "outputs": given["outputs"]} == run["read"], "as in the log"
    assert run["verdicts"] == [["not shown to be better"]]
    assert run["refusals"] == [[]]
    assert runs[1][label].count(f"holdfast: {name}: not shown to be better") == 1


def test_the_scorer_is_chosen(runs):
    run = runs[0]["scorers"]
    assert [given["scores"] for given in run["given"]] == [SCORES]
    assert [len(verdicts) for verdicts in run["verdicts"]] == [0, 1]
    assert "several scorers: 'match', 'polite'" in run["refusals"][0][0]


@pytest.mark.parametrize(
    ("label", "expected"),
    [("missing", "1 of 6 tasks has no score, for example 'plus/2'"), ("failed", "status 'error'")],
)
def test_an_evaluation_that_is_not_whole_is_not_submitted(runs, label, expected):
    run = runs[0][label]
    assert run["given"] == []
    assert run["verdicts"] == [[]]
    assert expected in run["refusals"][0][0]
    assert "was not judged" in runs[1][label]


@pytest.mark.parametrize(
    ("label", "sentence"),
    [("rejected", "These are other tasks."), ("broken gate", "The gate failed with KeyError.")],
)
def test_a_gate_that_fails_does_not_stop_the_evaluation(runs, label, sentence):
    run = runs[0][label]
    assert run["status"] == "success"
    assert run["refusals"] == [[sentence]]
    assert sentence in runs[1][label]


def test_no_score_is_shown(runs):
    assert "0.731" not in runs[2]


def test_a_hook_that_was_stopped_does_nothing(runs):
    run = runs[0]["stopped"]
    assert run["status"] == "success"
    assert run["given"] == []
    assert "holdfast:" not in runs[1]["stopped"]


def test_a_real_gate_promotes_what_a_real_evaluation_shows(runs):
    ((verdict,),) = runs[0]["gate"]["verdicts"]
    assert verdict.startswith("Promoted: 'v2' is better than 'v1'")
    assert f"holdfast: v2: {verdict}" in runs[1]["gate"]


@pytest.mark.parametrize(
    ("gate", "options"),
    [(None, {}), (3, {}), (Gate(), {"name": 3}), (Gate(), {"name": None}), (Gate(), {"metric": 3})],
)
def test_bad_arguments(gate, options):
    with pytest.raises(InvalidArgument, match="of submit_to must be"):
        holdfast.inspect.submit_to(gate, **{"name": "v2", **options})


def test_without_inspect_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    monkeypatch.setitem(sys.modules, "inspect_ai.hooks", None)
    with pytest.raises(MissingExtra, match=r"pip install 'holdfast-guard\[inspect\]'"):
        holdfast.inspect.submit_to(Gate(), name="v2")
