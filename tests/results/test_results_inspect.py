"""Logs of Inspect."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile

import pytest

from holdfast.errors import InvalidArgument
from holdfast.results import inspect_results, read_results

SUMS = [f"sum/{a}+{b}" for a in (1, 2, 3) for b in (10, 20, 30, 40)]


def _right(place: int, epoch: int) -> bool:
    """As the mock model of make_files.py answers."""
    return place % (2 + epoch) != 0


@pytest.mark.parametrize("name", ["inspect_epochs.eval", "inspect_epochs.json"])
def test_epochs_are_averaged(files, name):
    results = read_results(files / name)
    assert results.scores == {
        task: (_right(place, 1) + _right(place, 2)) / 2 for place, task in enumerate(SUMS)
    }
    assert set(results.repeats.values()) == {2}
    assert results.version == "2, inspect_ai 0.3.285"
    assert results.name == "mockllm/model"


def test_both_kinds_of_log_say_the_same(files):
    zipped, plain = (read_results(files / f"inspect_epochs.{kind}") for kind in ("eval", "json"))
    assert zipped == plain
    # Every sum was answered differently, and asked differently.
    assert len(set(zipped.outputs.values())) == len(set(zipped.contents.values())) == 12


def test_a_log_of_an_older_inspect(files):
    results = read_results(files / "inspect_old.eval")
    assert results.scores == {f"sum/{a}+{b}": float(a != 2) for a in (1, 2, 3) for b in (10, 20)}
    assert set(results.repeats.values()) == {2}
    assert results.version == "2, inspect_ai 0.3.100"
    assert len(set(results.outputs.values())) == 4, "two sums have the same wrong and right answers"


def test_the_scorer_has_to_be_chosen(files, refused):
    path = files / "inspect_scorers.eval"
    assert "several scorers: 'match', 'brevity', 'style'. Say which one" in refused(path)
    assert read_results(path, metric="match").scores == {
        task: float(_right(place, 1)) for place, task in enumerate(SUMS)
    }
    long = SUMS[5]
    assert read_results(path, metric="brevity").scores == pytest.approx(
        {task: 1 / (1 + (153 if task == long else 3)) for task in SUMS}
    )


def test_a_scorer_with_several_values_needs_the_key(files, refused):
    path = files / "inspect_scorers.eval"
    assert "metric='style/length'" in refused(path, metric="style")
    assert read_results(path, metric="style/length").scores == pytest.approx(
        {task: 1.0 if task == SUMS[5] else len("It is 11") / 100 for task in SUMS}
    )
    assert set(read_results(path, metric="style/polite").scores.values()) == {0}


@pytest.mark.parametrize("metric", ["nothing", "style/nothing", "match/length", "nothing/match"])
def test_a_scorer_that_is_not_there(files, metric):
    with pytest.raises(InvalidArgument, match="'metric' argument of read_results must be"):
        read_results(files / "inspect_scorers.eval", metric=metric)


def test_a_sample_with_an_error_is_a_missing_task(files, refused):
    message = refused(files / "inspect_sample_error.eval")
    assert message.startswith("1 of 12 tasks has no score, for example 'sum/2+20'.")


def test_an_evaluation_that_failed(files, refused):
    assert "has the status 'error', and not 'success'" in refused(files / "inspect_failed.eval")


def test_large_samples_are_kept_in_folders(files):
    whole = read_results(files / "inspect_scorers.eval", metric="match")
    chunked = read_results(files / "inspect_chunked.eval", metric="match")
    assert chunked.scores == whole.scores
    assert chunked.contents == whole.contents
    assert chunked.outputs is None, "messages are in other files, which are not read"


def _header(**changes):
    return lambda name, content: content | changes if name == "header.json" else content


@pytest.mark.parametrize("version", [1, 3, "2", None, True])
def test_another_version_is_refused_with_those_that_are_known(files, repacked, refused, version):
    path = repacked(files / "inspect_epochs.eval", _header(version=version))
    assert "Known versions: 2." in refused(path)
    log = json.loads((files / "inspect_epochs.json").read_text(encoding="utf-8")) | {"version": version}
    plain = path.with_name("copy.json")
    plain.write_text(json.dumps(log), encoding="utf-8")
    assert "Known versions: 2." in refused(plain)


def test_a_copy_that_is_compressed_in_the_old_way_says_the_same(files, repacked):
    path = repacked(files / "inspect_epochs.eval", _header())
    assert read_results(path) == read_results(files / "inspect_epochs.eval")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (_header(status="cancelled"), "status 'cancelled'"),
        (_header(status="started"), "status 'started'"),
        (_header(invalidated=True), "was declared invalid"),
        (_header(eval=None), "has no 'eval'"),
        (lambda name, content: None if name == "header.json" else content, "has not ended"),
        (lambda name, content: content if "samples" not in name else None, "There are no samples"),
        (
            lambda name, content: None if name == "samples/sum/1+20_epoch_2.json" else content,
            "1 of 12 tasks has no score, for example 'sum/1+20'",
        ),
        (
            lambda name, content: (
                content | {"epoch": 1} if name == "samples/sum/1+20_epoch_2.json" else content
            ),
            "'sum/1+20' is in copy.eval twice for epoch 1",
        ),
        (
            lambda name, content: (
                content | {"invalidation": {"reason": "x"}}
                if name == "samples/sum/1+20_epoch_2.json"
                else content
            ),
            "'sum/1+20' in copy.eval was declared invalid",
        ),
        (
            lambda name, content: (
                content | {"input": "?"} if name == "samples/sum/1+20_epoch_2.json" else content
            ),
            "Two different tasks have the id 'sum/1+20'",
        ),
    ],
)
def test_a_log_that_is_not_whole(files, repacked, refused, edit, expected):
    assert expected in refused(repacked(files / "inspect_epochs.eval", edit))


def _log(*values, **changes):
    samples = [
        {"id": f"task {i}", "epoch": 1, "scores": {"s": {"value": value}}} for i, value in enumerate(values)
    ]
    return {"version": 2, "status": "success", "eval": {"model": "m"}, "samples": samples, **changes}


def test_values_count_as_inspect_counts_them():
    values = {"C": 1, "I": 0, "P": 0.5, "N": 0, "yes": 1, "No": 0, "true": 1, "False": 0, "0.25": 0.25}
    log = _log(*values, True, False, 1, 0, 0.75)
    assert list(inspect_results(log).scores.values()) == [*values.values(), 1, 0, 1, 0, 0.75]


@pytest.mark.parametrize("value", ["X731", 1.731, -0.731, [0.731], "c731"])
def test_a_value_that_is_no_score(tmp_path, refused, value):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(_log(0.5, value)), encoding="utf-8")
    message = refused(path, "731", "task 1")
    assert message == "Every score must be a number from 0 to 1; at least one here is not."


@pytest.mark.parametrize("value", [float("nan"), None])
def test_a_sample_that_could_not_be_scored_is_missing(tmp_path, refused, value):
    path = tmp_path / "log.json"
    path.write_text(json.dumps(_log(0.731, value)), encoding="utf-8")
    assert "1 of 2 tasks has no score, for example 'task 1'" in refused(path, "731")


def test_outputs_see_what_an_agent_did():
    def outputs(command, text="done"):
        log = _log("C")
        log["samples"][0]["messages"] = [
            {"role": "user", "content": "go", "id": command},
            {"role": "assistant", "content": "", "tool_calls": [{"function": "bash", "arguments": command}]},
            {"role": "assistant", "content": [{"type": "text", "text": "attachment://1"}], "id": command},
        ]
        log["samples"][0]["attachments"] = {"1": text}
        return inspect_results(log).outputs

    assert outputs("ls") == outputs("ls")
    assert outputs("ls") != outputs("rm")
    assert outputs("ls") != outputs("ls", "not done")
    assert inspect_results(_log("C")).outputs is None


def _damage(path, offset, content):
    raw = bytearray(path.read_bytes())
    raw[offset : offset + len(content)] = content
    path.write_bytes(raw)


def test_a_damaged_log_is_refused(files, tmp_path, refused):
    source = files / "inspect_epochs.eval"
    path = tmp_path / "copy.eval"
    path.write_bytes(source.read_bytes()[:-30])
    assert "copy.eval is not a whole zip file" in refused(path)
    with zipfile.ZipFile(source) as archive:
        sample = archive.getinfo("samples/sum/3+10_epoch_1.json")
    shutil.copyfile(source, path)
    _damage(path, sample.header_offset + 200, bytes(20))
    assert "the file is damaged" in refused(path)


@pytest.mark.parametrize(
    ("size", "expected"), [(2**31, "at most 1,073,741,824 are read"), (10, "is damaged")]
)
def test_a_zip_file_cannot_be_larger_than_it_declares(files, tmp_path, refused, size, expected):
    path = tmp_path / "copy.eval"
    shutil.copyfile(files / "inspect_epochs.eval", path)
    entry = path.read_bytes().rindex(b"header.json") - 46
    _damage(path, entry + 24, struct.pack("<I", size))
    assert expected in refused(path)


def test_another_zip_file_is_no_log(tmp_path, refused):
    path = tmp_path / "x.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<x/>")
    assert "no log of Inspect" in refused(path)


def test_logs_of_one_run_are_read_together(files, tmp_path, repacked, refused):
    def task(name, run="r", model="m"):
        def edit(member, content):
            if member == "header.json":
                content["eval"] |= {"task": name, "run_id": run, "model": model}
            return content

        return edit

    folder = repacked(files / "inspect_epochs.eval", task("plus"), "1.eval").parent
    assert set(read_results(folder).scores) == set(SUMS)
    repacked(files / "inspect_epochs.eval", task("sums"), "2.eval")
    results = read_results(folder)
    assert set(results.scores) == {f"{name}/{task}" for name in ("plus", "sums") for task in SUMS}
    for name, expected in (
        (task("sums"), "2 tasks"),
        (task("x", "s"), "2 runs"),
        (task("x", "r", "n"), "2 models"),
    ):
        repacked(files / "inspect_epochs.eval", name, "3.eval")
        message = refused(folder)
        assert expected in message
        assert "Give the one log to read" in message
