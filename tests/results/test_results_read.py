"""Recognising files, folders, arguments, and what a result shows of itself."""

from __future__ import annotations

import doctest
import importlib
import os
import shutil

import pytest

import holdfast
from holdfast.errors import InvalidArgument
from holdfast.results import FORMATS, Results, read_results

REAL = {
    "inspect_epochs.eval": ("inspect", {}),
    "inspect_epochs.json": ("inspect", {}),
    "junit_words.xml": ("junit", {}),
    "lm_eval": ("lm-evaluation-harness", {"metric": "acc", "filter": "whole"}),
}


@pytest.mark.parametrize("module", ["_record", "_read", "_inspect"])
def test_the_examples_run(module):
    done = doctest.testmod(importlib.import_module(f"holdfast.results.{module}"))
    assert done.attempted
    assert done.failed == 0


@pytest.mark.parametrize("name", REAL)
def test_a_real_file_is_recognised(files, name):
    kind, options = REAL[name]
    results = read_results(files / name, **options)
    assert results.format == kind
    assert kind in FORMATS
    assert results == read_results(str(files / name), format=kind, **options)


@pytest.mark.parametrize("name", [name for name in REAL if "." in name])
def test_a_file_is_recognised_by_its_content(files, tmp_path, name):
    path = tmp_path / "report"
    shutil.copyfile(files / name, path)
    assert read_results(path).format == REAL[name][0]


def test_json_lines_need_no_suffix(tmp_path):
    path = tmp_path / "scores"
    path.write_text('{"task": "a", "score": 1}\n', encoding="utf-8")
    assert read_results(path).format == "json-lines"


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x89PNG\r\n", b'[{"task": "a"}]', b'{"a":\n 1}'])
def test_a_file_that_is_nothing_known(tmp_path, refused, content):
    path = tmp_path / "report"
    path.write_bytes(content)
    message = refused(path)
    assert all(repr(name) in message for name in FORMATS)


def test_scores_are_not_shown(files):
    results = read_results(files / "inspect_epochs.eval")
    shown = repr(results) + repr(results.to_dict()) + results._repr_html_() + str(results)
    assert "tasks=12" in shown
    assert "0.5" not in shown
    assert "1+20" not in shown
    assert not any(digest in shown for digest in results.outputs.values())
    with pytest.raises(AttributeError):
        results.scores = {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"format": "xml"}, "'format' argument"),
        ({"metric": "acc"}, "'metric' argument"),
        ({"filter": "none"}, "'filter' argument"),
        ({"task": "id"}, "'task' argument"),
        ({"cluster": "file"}, "'cluster' argument"),
        ({"output": "answer"}, "'output' argument"),
    ],
)
def test_an_argument_that_does_nothing_is_refused(files, arguments, expected):
    with pytest.raises(InvalidArgument, match=expected):
        read_results(files / "junit_words.xml", **arguments)


@pytest.mark.parametrize("path", [None, 3, b"x.csv", "no-such-file.csv"])
def test_a_path_that_does_not_exist(path):
    with pytest.raises(InvalidArgument, match="'path' argument of read_results must be"):
        read_results(path)


def test_folders_that_are_not_clear(files, tmp_path, refused):
    assert "no result file in the folder" in refused(tmp_path)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("task,score\nx,0.731\n", encoding="utf-8")
    assert "2 files that may be results: 'a.csv', 'b.csv'. Give the one" in refused(tmp_path, "0.731")
    (tmp_path / "b.csv").unlink()
    (tmp_path / "notes.txt").write_text("x", encoding="utf-8")
    (tmp_path / "settings.json").write_text('{\n"a": 1\n}', encoding="utf-8")
    assert read_results(tmp_path).scores == {"x": 0.731}
    shutil.copyfile(files / "junit_words.xml", tmp_path / "words.xml")
    assert "several formats: 'csv', 'junit'" in refused(tmp_path, "0.731")
    assert read_results(tmp_path, format="csv").format == "csv"


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.xml", "x.json"])
def test_a_huge_file_is_not_read(tmp_path, refused, name):
    path = tmp_path / name
    start = {"x.json": b'{"version": 2, "status": "success", ', "x.jsonl": b'{"task": "a", "score": 0}\n'}
    path.write_bytes(start.get(name, b""))
    os.truncate(path, 2**30 + 1)  # A file with a hole, which takes no room.
    assert "at most 1,073,741,824 are read" in refused(path)


def test_the_room_is_open_from_the_front():
    assert holdfast.results.Results is Results
