"""CSV and JSON Lines."""

from __future__ import annotations

import csv
import json

import pytest

from holdfast.results import read_results


def _write(path, rows, columns):
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
    else:
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(params=["scores.csv", "scores.jsonl"])
def table(request, tmp_path):
    """Writes rows as CSV and as JSON Lines."""
    return lambda rows, columns=("task", "score"): _write(tmp_path / request.param, rows, columns)


def test_repeats_are_averaged_wherever_they_stand(table, rng):
    scores = {f"task {i}": rng.random(rng.integers(1, 5)).tolist() for i in range(30)}
    rows = [(task, score) for task, repeats in scores.items() for score in repeats]
    rng.shuffle(rows)
    results = read_results(table([(task, float(score)) for task, score in rows]))
    assert results.scores == pytest.approx({task: sum(s) / len(s) for task, s in scores.items()})
    assert results.repeats == {task: len(repeats) for task, repeats in scores.items()}
    assert results.outputs is None
    assert results.clusters is None


def test_columns_can_have_other_names(table):
    rows = [("a", 1, "x", "yes"), ("b", 0, "x", "no"), ("b", 1, "x", "no"), ("c", 0.25, "y", "no")]
    path = table(rows, ("id", "points", "family", "answer"))
    results = read_results(path, task="id", score="points", cluster="family", output="answer")
    assert results.scores == {"a": 1, "b": 0.5, "c": 0.25}
    assert results.clusters == {"a": "x", "b": "x", "c": "y"}
    assert results.outputs["b"] != results.outputs["c"], "two answers are not one"
    assert len({len(digest) for digest in results.outputs.values()} | {64}) == 1


def test_outputs_tell_where_the_repeats_differ(table):
    columns = ("task", "score", "answer")
    first = read_results(table([("a", 1, "xy"), ("a", 1, "z")], columns), output="answer")
    again = read_results(table([("a", 0, "xy"), ("a", 0, "z")], columns), output="answer")
    moved = read_results(table([("a", 1, "x"), ("a", 1, "yz")], columns), output="answer")
    assert first.outputs == again.outputs, "outputs do not depend on scores"
    assert first.outputs != moved.outputs


@pytest.mark.parametrize("score", [True, False, "true", "False", 1, 0, "0.5", " 1 ", 1.0, "1e-3"])
def test_what_is_a_score(table, score):
    expected = {"true": 1.0, "false": 0.0}.get(str(score).lower())
    results = read_results(table([("a", score)]))
    assert results.scores == {"a": float(score) if expected is None else expected}


@pytest.mark.parametrize(
    "bad", ["1.0073", "-0.0073", "nan", "inf", "", "C73", "0x1", "1_0", "7" * 400, "0,73"]
)
def test_a_bad_score_is_refused_without_a_word_about_it(table, refused, bad):
    path = table([("first", 0.5), ("secret task", bad), ("last", 1)])
    message = refused(path, bad or "secret task", "secret task", "0.5")
    assert message == "Every score must be a number from 0 to 1; at least one here is not."


@pytest.mark.parametrize("bad", [None, [0.731], {"a": 0.731}, float("nan"), 10**400, 731])
def test_a_json_value_that_is_no_score(tmp_path, refused, bad):
    path = _write(tmp_path / "scores.jsonl", [("first", 0.5), ("secret task", bad)], ("task", "score"))
    assert "from 0 to 1" in refused(path, "secret task", "731", "0.5")


def test_a_missing_column_is_named_with_those_there_are(table, refused):
    message = refused(table([("a", 0.731)], ("name", "score")), "0.731")
    assert "'task'" in message
    assert "'name', 'score'" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("task,score\na,0,731\n", "Every line of x.csv must have 2 fields"),
        ("task,score\na\n", "must have 2 fields"),
        ("a,0.731\nb,1\n", "Its first line must have the names of the columns"),
        ("task,0.731\nb,1\n", "Its first line must have the names of the columns"),
        ("secret,passed\nb,failed\n", "Its first line must have the names of the columns"),
        ('task,score\n"a,0.731\n', "not valid CSV"),
        ("task;score\na;0.731\n", "Separate columns by commas"),
        ("task,score,score\na,0.731,0\n", "2 columns named 'score'"),
        ("task,score\n", "There is no score in the file"),
        ("", "There is no score in the file"),
        ("task,score\n ,0.731\n", "Line 2 of x.csv: the task id must be a text"),
        ("task,score\n" + "a" * 200_000 + ",0.731\n", "For long texts use JSON Lines"),
    ],
)
def test_a_bad_csv_file_is_refused_with_a_sentence(tmp_path, refused, text, expected):
    path = tmp_path / "x.csv"
    path.write_text(text, encoding="utf-8")
    assert expected in refused(path, "0.731", "Line 3", "secret", "passed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"task": "a", "score": 0.731}\n{"task": "b", "sco',
            "At least one line of x.jsonl is not valid JSON",
        ),
        ('{"task": "a", "score": 0.731}\n[0.731]\n', "Line 2 of x.jsonl is not a JSON object"),
        ('{"task": "a", "score": 0.731}\n{"score": 0.731}\n', "Line 2 of x.jsonl has no key 'task'"),
        ('{"task": null, "score": 0.731}', "the task id must be a text"),
        ('{"task": true, "score": 0.731}', "the task id must be a text"),
        ('{"task": 0.731, "score": 1}', "the task id must be a text"),
        ('{"task": "a", "score": ' + "[" * 100_000 + "}", "nested too deeply"),
        ('{"task": "a", "score": ' + "7" * 5_000 + "}", "too long"),
    ],
)
def test_a_bad_json_lines_file_is_refused_with_a_sentence(tmp_path, refused, text, expected):
    path = tmp_path / "x.jsonl"
    path.write_text(text, encoding="utf-8")
    assert expected in refused(path, "0.731", "7" * 50, format="json-lines")


def test_numbers_can_be_task_ids(tmp_path):
    path = _write(tmp_path / "x.jsonl", [(1, 1), (1, 0), (2, 1)], ("task", "score"))
    assert read_results(path).scores == {"1": 0.5, "2": 1}


def test_a_task_has_one_cluster(table, refused):
    path = table([("a", 0.731, "x"), ("a", 0.731, "y")], ("task", "score", "cluster"))
    assert "'a' is in more than one cluster" in refused(path, "0.731", cluster="cluster")
    path = table([("a", 0.731, "")], ("task", "score", "cluster"))
    assert "the cluster must be a text" in refused(path, "0.731", cluster="cluster")


def test_texts_may_have_commas_blank_lines_and_a_mark_at_the_beginning(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes('\ufefftask,score,answer\r\n"a, b",1,"one\n\ntwo"\r\n\r\n"ç",0,x\r\n'.encode())
    results = read_results(path, output="answer")
    assert results.scores == {"a, b": 1, "ç": 0}


def test_a_file_must_be_utf8(tmp_path, refused):
    path = tmp_path / "x.csv"
    path.write_bytes("task,score\nçä,1\n".encode("latin-1"))
    assert "Line 2 of x.csv is not UTF-8" in refused(path)
