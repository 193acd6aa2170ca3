"""Uploads are read the same in this process and in one of its own, and only the latter dies of them."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fastapi.exceptions import RequestValidationError

from holdfast import isolated
from holdfast.errors import QueryRejected
from holdfast.isolated import Exhausted, run_isolated
from holdfast.registry._boards import read_result_file
from holdfast.server import _requests
from holdfast.server._requests import (
    PARQUET,
    CandidateBody,
    GateBody,
    read_body,
    read_predictions,
)

pytestmark = pytest.mark.skipif(not isolated.is_supported(), reason="this platform limits no process")


def eat(bytes_wanted):
    yield len(bytearray(bytes_wanted))


def spin():
    while True:
        pass
    yield


def refuse():
    raise QueryRejected("Write something else.")
    yield


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def here(name):
    return f"{__name__}:{name}"


@pytest.fixture(autouse=True, scope="module")
def importable():
    """The process of its own finds the functions above."""
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    isolated._starter.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(folders))
        yield
    isolated._starter.stop()


def test_a_process_of_its_own_keeps_within_its_limits():
    assert list(run_isolated(here("eat"), 2**24)) == [2**24]
    for name, arguments in (("eat", (2**29,)), ("die", ()), ("spin", ())):
        with pytest.raises(Exhausted):
            list(run_isolated(here(name), *arguments, memory=2**28, seconds=1.0))
    with pytest.raises(Exhausted):  # What comes back is limited as well.
        list(run_isolated("holdfast.isolated:_count", 100_000, most_bytes=1_000))
    with pytest.raises(QueryRejected, match="Write something else"):
        list(run_isolated(here("refuse")))
    assert list(run_isolated("holdfast.isolated:_count", 2)) == [0, 1]


def test_the_process_that_forks_is_started_again():
    assert list(run_isolated("holdfast.isolated:_count", 2)) == [0, 1]
    process = isolated._starter._process
    process.kill()
    process.wait()
    assert list(run_isolated("holdfast.isolated:_count", 2)) == [0, 1]


@pytest.mark.parametrize("kind", ["text/csv", PARQUET, "application/json"])
@pytest.mark.parametrize("text", [False, True])
def test_predictions_are_the_same_wherever_they_are_read(kind, text):
    rng = np.random.default_rng(0)
    values = rng.choice(["no", "yes"], 50_000) if text else rng.random(50_000)
    table = pd.DataFrame({"id": np.arange(50_000), "prediction": values})
    if kind == PARQUET:
        content = table.to_parquet(index=False)
    else:
        written = table.to_csv(index=False) if kind == "text/csv" else json.dumps(table.to_dict("list"))
        content = written.encode()
    apart = read_predictions(kind, content, ids=50_000, text=text)
    (together,) = _requests.table_pieces(kind, content, 60_000, text, at_once=True)
    pd.testing.assert_frame_equal(apart, together)
    assert list(apart["prediction"]) == list(values) or kind == "application/json"
    with pytest.raises(QueryRejected, match="more than 10,000 rows"):
        read_predictions(kind, content, ids=10_000, text=text)


def test_categories_and_texts_that_are_too_long():
    table = pd.DataFrame({"id": range(4), "prediction": pd.Categorical(["no", "yes", "no", "no"])})
    plain = read_predictions(PARQUET, table.to_parquet(index=False), ids=4, text=True)
    assert plain["prediction"].tolist() == ["no", "yes", "no", "no"]
    long = table.assign(prediction="x" * 20_000).to_parquet(index=False)
    with pytest.raises(QueryRejected, match="a text of 20,000 bytes"):
        read_predictions(PARQUET, long, ids=4, text=True)


@pytest.mark.parametrize("value", [[0] * 10_000, {"a": 1}, b"x" * 9_000])
def test_columns_that_are_no_predictions_are_not_read(value):
    """A few kilobytes of lists were hundreds of megabytes in the service."""
    buffer = io.BytesIO()
    pd.DataFrame({"id": range(2_000), "prediction": [value] * 2_000}).to_parquet(buffer, index=False)
    assert len(buffer.getvalue()) < 100_000
    with pytest.raises(QueryRejected, match="a column of lists, records or bytes"):
        read_predictions(PARQUET, buffer.getvalue(), ids=2_000, text=False)


def test_a_body_is_the_same_wherever_it_is_parsed():
    scores = {f"task {number}": number % 2 for number in range(30_000)}
    outputs = {task: f"answer {task}" for task in scores}
    body = {"name": "v2", "scores": scores, "outputs": outputs}
    apart = read_body(CandidateBody, json.dumps(body).encode())
    assert apart == CandidateBody.model_validate(body)
    gate = {"name": "g", "results": {"scores": scores, "clusters": dict.fromkeys(scores, "a")}, "rate": 5}
    assert read_body(GateBody, json.dumps(gate).encode()) == GateBody.model_validate(gate)
    small = {"name": "g", "source": "a.csv"}
    assert read_body(GateBody, json.dumps(small).encode()) == GateBody.model_validate(small)


@pytest.mark.parametrize("padding", [0, 100_000])
def test_errors_in_a_body_are_the_same_in_both_processes(padding):
    for content, place in (
        (json.dumps({"name": 3, "scores": {"a": 1}}), ("body", "name")),
        (json.dumps({"name": "v2", "scores": {"a": 1}, "more": 1}), ("body", "more")),
        ("{", ("body",)),
        ("[" * 50_000, ("body",)),
    ):
        with pytest.raises(RequestValidationError) as refused:
            read_body(CandidateBody, content.encode() + b" " * padding)
        assert refused.value.errors()[0]["loc"] == place


def test_results_are_read_apart(tmp_path):
    file = tmp_path / "scores.csv"
    tasks = [f"task {number}" for number in range(25_000)]
    pd.DataFrame({"task": tasks, "score": 1}).to_csv(file, index=False)
    results = read_result_file(str(file), {})
    assert results.scores == dict.fromkeys(tasks, 1.0)
    assert results.outputs is None
    file.write_text("task,points\na,1\n")
    with pytest.raises(QueryRejected, match="no column 'score'"):
        read_result_file(str(file), {})
