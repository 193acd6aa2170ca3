"""Trials: the same finding for any number of workers, after any interruption, and silently unless asked."""

from __future__ import annotations

import json

import audit_parts
import numpy as np
import pytest

from holdfast.audit import coverage, indistinguishability, replicability, stability
from holdfast.errors import InvalidArgument

HEIGHTS = np.random.default_rng(0).normal(0.1, 1.0, 60)
AUDITS = {
    "replicability": lambda **how: replicability(audit_parts.rounded_mean, audit_parts.coin_rows, 60, **how),
    "indistinguishability": lambda **how: indistinguishability(
        audit_parts.noisy_zero, audit_parts.noisy_one, 60, **how
    ),
    "coverage": lambda **how: coverage(audit_parts.plain_interval, audit_parts.asks_once, 60, **how),
    "stability": lambda **how: stability(audit_parts.sign_of_mean, HEIGHTS, 60, **how),
}


@pytest.mark.parametrize("name", AUDITS)
def test_any_number_of_workers_finds_the_same(name, seed):
    alone = AUDITS[name](seed=seed)
    assert AUDITS[name](seed=seed, workers=2) == alone
    assert AUDITS[name](seed=seed + 1) != alone


def test_what_cannot_be_sent_to_a_process_runs_in_threads(seed):
    found = [
        coverage(lambda rng: rng.random(), lambda u: [((0.1, 1.0), u)], 200, seed=seed, workers=workers)
        for workers in (1, 3)
    ]
    assert found[0].details == found[1].details
    assert found[0].details["broken"] > 0


@pytest.mark.parametrize("name", AUDITS)
def test_an_interrupted_audit_continues_where_it_stopped(name, seed, tmp_path):
    whole = AUDITS[name](seed=seed)
    file = tmp_path / "trials.jsonl"
    assert AUDITS[name](seed=seed, resume=file) == whole
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 61
    file.write_text("".join(lines[:20]) + lines[20][:7])  # killed in the middle of a line
    assert AUDITS[name](seed=seed, resume=file) == whole
    again = file.read_text().splitlines(keepends=True)
    assert sorted(map(str, map(json.loads, again))) == sorted(map(str, map(json.loads, lines)))


def test_finished_trials_are_not_run_again(tmp_path):
    calls = []

    def counting(rng):
        calls.append(1)
        if len(calls) == 31:
            raise RuntimeError("the machine stops")
        return rng.random()

    def run():
        return coverage(counting, lambda u: [((0, 1), u)], 50, resume=tmp_path / "trials")

    with pytest.raises(RuntimeError, match="stops"):
        run()
    kept = len((tmp_path / "trials").read_text().splitlines()) - 1
    assert 20 <= kept <= 30
    assert run().trials == 50
    assert len(calls) == 31 + 50 - kept


def test_more_trials_extend_fewer(tmp_path):
    file = tmp_path / "trials"
    replicability(audit_parts.rounded_mean, audit_parts.coin_rows, 20, resume=file)
    extended = replicability(audit_parts.rounded_mean, audit_parts.coin_rows, 60, resume=file)
    assert extended == AUDITS["replicability"](seed=0)


@pytest.mark.parametrize("wrong", ["seed", "function", "text"])
def test_the_file_of_another_audit_is_refused(wrong, tmp_path):
    file = tmp_path / "trials"
    AUDITS["replicability"](seed=1 if wrong == "seed" else 0, resume=file)
    if wrong == "text":
        file.write_text("not ours\n")
    audit = AUDITS["coverage" if wrong == "function" else "replicability"]
    before = file.read_text()
    with pytest.raises(InvalidArgument, match="resume"):
        audit(seed=0, resume=file)
    assert file.read_text() == before


def test_progress_is_reported_on_request_and_not_by_default(capsys, seed):
    told = []
    AUDITS["replicability"](seed=seed, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (0, 60)
    assert told[-1] == (60, 60)
    assert told == sorted(told)
    assert capsys.readouterr() == ("", "")
    AUDITS["replicability"](seed=seed, progress=True)
    assert capsys.readouterr().out == ""  # a bar goes to stderr


def test_each_trial_has_a_generator_of_its_own(tmp_path):
    file = tmp_path / "trials"
    found = stability(lambda rows, rng: rng.random(), HEIGHTS, 300, seed=3, resume=file)
    finished = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert [line["trial"] for line in finished] == list(range(300))
    assert len({line["result"] for line in finished}) == 300
    assert found.details["different conclusions"] == 300


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None, float("nan")])
def test_workers_and_seeds_are_checked(wrong):
    with pytest.raises(InvalidArgument, match="workers"):
        AUDITS["replicability"](workers=wrong)
    if wrong != 0:
        with pytest.raises(InvalidArgument, match="seed"):
            AUDITS["stability"](seed=wrong)


@pytest.mark.parametrize(
    ("function", "wants"),
    [
        (lambda rows: 0, False),
        (lambda rows, tape: 0, True),
        (lambda rows, tape=None: 0, True),
        (lambda rows, axis=0: 0, False),
        (np.mean, False),
        (max, False),
    ],
)
def test_a_function_with_two_parameters_gets_a_second_argument(function, wants):
    found = replicability(function, lambda rng: rng.random(3), 1)
    assert (found.details["tape"] is not None) is wants
