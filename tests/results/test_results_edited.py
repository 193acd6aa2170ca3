"""Real files with one part replaced by something else: read or refused, and never a crash or a score."""

from __future__ import annotations

import copy
import json
import shutil

import pytest

from holdfast.errors import HoldfastError
from holdfast.results import Results, inspect_results, read_results

INSTEAD = (
    None,
    0.731,
    1.731,
    -1,
    True,
    "731x",
    "",
    [],
    {},
    [0.731],
    {"a": 0.731},
    [{}],
    10**400,
    float("nan"),
)


def _places(value, place=()):
    """Every place in a JSON value."""
    yield place
    if isinstance(value, (dict, list)):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(child, (*place, key))


def _edited(value, place, instead):
    edited = copy.deepcopy(value)
    parent = edited
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = instead
    return edited


def _is_read(place, read, *arguments, **options) -> bool:
    """Whether it was read, and not refused. Any error that is not one of ours fails the test."""
    message = ""
    try:
        results = read(*arguments, **options)
    except HoldfastError as error:
        message = str(error)
    if message:
        # Ids, names and versions may be shown, and scores not.
        assert "scores" not in place or "731" not in message
        return False
    assert isinstance(results, Results)
    assert all(0 <= score <= 1 for score in results.scores.values())
    return True


@pytest.fixture
def small_log(files):
    """The first samples of a real log, without what is not read."""
    log = json.loads((files / "inspect_epochs.json").read_text(encoding="utf-8"))
    log["samples"] = log["samples"][:4]
    for sample in log["samples"]:
        del sample["events"], sample["events_data"]
    log["eval"]["dataset"]["sample_ids"] = list(dict.fromkeys(sample["id"] for sample in log["samples"]))
    log["eval"]["config"]["epochs"] = max(sample["epoch"] for sample in log["samples"])
    return {name: log[name] for name in ("version", "status", "eval", "invalidated", "samples")}


def test_an_inspect_log_with_one_part_replaced(small_log, tmp_path, rng):
    assert inspect_results(small_log).scores
    places = [place for place in _places(small_log) if place]
    outcomes = set()
    for turn in range(200):
        place = places[rng.integers(len(places))]
        log = _edited(small_log, place, INSTEAD[rng.integers(len(INSTEAD))])
        path = tmp_path / "log.json"
        path.write_text(json.dumps(log), encoding="utf-8")
        if turn % 2:
            outcomes.add(_is_read(place, inspect_results, log))
        else:
            outcomes.add(_is_read(place, read_results, path, format="inspect"))
    assert outcomes == {True, False}


@pytest.mark.parametrize("start", ["results", "samples_laugh"])
def test_a_file_of_the_harness_with_one_part_replaced(files, tmp_path, rng, start):
    shutil.copytree(files / "lm_eval", tmp_path / "run")
    (path,) = (tmp_path / "run").glob(f"{start}_*")
    text = path.read_text(encoding="utf-8")
    whole = [json.loads(text)] if start == "results" else [json.loads(line) for line in text.splitlines()]
    places = [place for place in _places(whole) if place]
    options = {"metric": "acc", "filter": "whole", "format": "lm-evaluation-harness"}
    outcomes = set()
    for _ in range(150):
        place = places[rng.integers(len(places))]
        lines = _edited(whole, place, INSTEAD[rng.integers(len(INSTEAD))])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        about = ("scores",) if place[-1] == "exact_match" else place
        outcomes.add(_is_read(about, read_results, tmp_path / "run", **options))
    assert outcomes == {True, False}
