"""Sample files of the LM Evaluation Harness."""

from __future__ import annotations

import json
import shutil

import pytest

from holdfast.errors import InvalidArgument
from holdfast.results import read_results

REPLIES = ["lol", "haha", "l", "lol", "no", "l", "lol", "ha"]  # The dummy model always says "lol".


@pytest.fixture
def run(files, tmp_path):
    """A copy of the folder that the harness wrote."""
    folder = tmp_path / "example__words"
    shutil.copytree(files / "lm_eval", folder)
    return folder


def _file(folder, start):
    (path,) = folder.glob(f"{start}_*")
    return path


def _edit(path, change):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in change(lines)), encoding="utf-8")


def test_one_sample_file(files):
    path = _file(files / "lm_eval", "samples_laugh")
    whole = read_results(path, filter="whole")
    assert whole.scores == {f"laugh/{i}": float(reply == "lol") for i, reply in enumerate(REPLIES)}
    letter = read_results(path, filter="first-letter", metric="exact_match")
    assert letter.scores == {f"laugh/{i}": float(reply == "l") for i, reply in enumerate(REPLIES)}
    assert whole.format == "lm-evaluation-harness"
    assert whole.version == "0.4.13"
    assert whole.name == "example/words"
    assert whole.contents == letter.contents
    assert set(whole.outputs.values()) != set(letter.outputs.values())
    assert set(whole.repeats.values()) == {1}, "the harness scores once, though it asked twice"


def test_the_scores_average_to_what_the_harness_says(files):
    summary = json.loads(_file(files / "lm_eval", "results").read_text(encoding="utf-8"))["results"]
    path = _file(files / "lm_eval", "samples_capitals")
    for metric in ("acc", "acc_norm"):
        scores = read_results(path, metric=metric).scores
        assert sum(scores.values()) / len(scores) == pytest.approx(summary["capitals"][f"{metric},none"])


@pytest.mark.parametrize("place", [".", "results", ".."])
def test_all_tasks_of_a_run(run, place):
    path = {".": run, "..": run.parent}.get(place) or _file(run, place)
    results = read_results(path, metric="acc", filter="whole")
    assert len(results.scores) == 18
    capitals = read_results(_file(run, "samples_capitals"), metric="acc").scores
    laughs = read_results(_file(run, "samples_laugh"), filter="whole").scores
    assert results.scores == capitals | laughs


def test_what_is_not_clear_has_to_be_chosen(files, refused):
    folder = files / "lm_eval"
    assert "Say which metric counts" in refused(folder, filter="whole")
    assert "several: 'acc', 'acc_norm', 'brier_score'" in refused(folder, filter="whole")
    assert "several: 'first-letter', 'whole'" in refused(folder, metric="acc")
    for argument in ({"metric": "f1"}, {"filter": "strict"}):
        with pytest.raises(InvalidArgument, match="that the file has"):
            read_results(folder, **argument)


def test_lower_is_better_is_refused(files, run, refused):
    assert "higher is better" in refused(_file(files / "lm_eval", "samples_capitals"), metric="brier_score")
    _file(run, "results").unlink()
    message = refused(_file(run, "samples_capitals"), metric="brier_score")
    assert "not one number for each document" in message


def test_a_sample_file_without_its_summary(run):
    _file(run, "results").unlink()
    results = read_results(_file(run, "samples_laugh"), filter="whole")
    assert len(results.scores) == 8
    assert (results.version, results.name) == ("", None)


def test_another_version_is_refused_with_those_that_are_known(run, refused):
    path = _file(run, "results")
    summary = json.loads(path.read_text(encoding="utf-8"))
    for version in ("0.5.0", "1.0", "0.40.1", ""):
        path.write_text(json.dumps(summary | {"lm_eval_version": version}), encoding="utf-8")
        assert "Known versions: 0.4.x" in refused(run, metric="acc", filter="whole")


def test_two_runs_in_one_folder(run, refused):
    for path in list(run.iterdir()):
        shutil.copyfile(path, run / path.name.replace("2026-11-", "2026-12-"))
    message = refused(run, metric="acc", filter="whole")
    assert "files of 2 runs" in message
    newest = max(run.glob("results_*"))
    assert newest.name in message
    assert len(read_results(newest, metric="acc", filter="whole").scores) == 18


def test_a_run_without_one_of_its_files(run, refused):
    _file(run, "samples_laugh").unlink()
    assert "without a sample file: 'laugh'" in refused(run, metric="acc")
    _file(run, "samples_capitals").unlink()
    assert "Run lm_eval with --log_samples" in refused(run)


def _with(document, **changes):
    return lambda lines: [line | changes if line["doc_id"] == document else line for line in lines]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda lines: lines[:-1], "has 9 documents, and the run had 10"),
        (lambda lines: [*lines, lines[3]], "'capitals/3' is in"),
        (lambda lines: [*lines[:-1], {"x": 1}], "Line 10 of"),
        (lambda lines: [], "is empty"),
        (_with(4, acc=None), "1 of 10 tasks has no score, for example 'capitals/4'"),
    ],
)
def test_a_file_that_is_not_whole(run, refused, change, expected):
    path = _file(run, "samples_capitals")
    _edit(path, change)
    assert expected in refused(path, metric="acc", format="lm-evaluation-harness")


@pytest.mark.parametrize("score", [1.731, -0.731, float("nan"), "1.731"])
def test_a_bad_score_is_refused_without_a_word_about_it(run, refused, score):
    path = _file(run, "samples_capitals")
    _edit(path, _with(4, acc=score))
    message = refused(path, "731", "capitals/4", metric="acc")
    assert message == "Every score must be a number from 0 to 1; at least one here is not."


def test_a_file_of_an_older_version_does_not_list_its_metrics(run):
    path = _file(run, "samples_capitals")
    expected = read_results(path, metric="acc").scores
    _edit(path, lambda lines: [{k: v for k, v in line.items() if k != "metrics"} for line in lines])
    assert read_results(path, metric="acc").scores == expected


def test_another_document_with_the_same_number_is_another_task(run):
    path = _file(run, "samples_capitals")
    before = read_results(path, metric="acc").contents
    _edit(path, _with(4, doc_hash="another"))
    after = read_results(path, metric="acc").contents
    assert [task for task in before if before[task] != after[task]] == ["capitals/4"]


def test_the_name_of_the_file_says_the_task(run, refused):
    path = _file(run, "samples_laugh").rename(run / "laugh.jsonl")
    assert "does not say which task" in refused(path)
