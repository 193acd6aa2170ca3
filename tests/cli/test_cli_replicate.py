"""``holdfast replicate``: the statistic of the library, its promise, its tape, its citation, and refusals."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from holdfast import replicable
from holdfast.replicable import Tape

ROWS = 16_000


@pytest.fixture
def survey(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(40_000, 9_000, ROWS).round(2),
            "sex": rng.choice(["F", "M"], ROWS),
            "home town": rng.choice(["Riga", "Oslo", "Bern"], ROWS, p=[0.6, 0.3, 0.1]),
            "gap": np.where(rng.random(ROWS) < 0.05, np.nan, 1.0),
        }
    )
    frame.to_csv("survey.csv", index=False)
    return frame


TAPE = Tape("study-7")
PROMISE = {"rho": 0.05, "beta": 0.05, "tape": TAPE}


def _asked(holdfast, *arguments):
    status, out, err = holdfast("replicate", "survey.csv", *arguments, "--tape", "study-7", "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def test_a_mean_is_that_of_the_library(survey, holdfast):
    found = _asked(holdfast, "mean(income)", "--bounds", "0", "100000")
    wanted = replicable.mean(survey.income.clip(0, 1e5), accuracy=5000, bounds=(0, 1e5), **PROMISE)
    assert found["value"] == wanted.value
    assert found["guarantee"] == {"rho": 0.05}
    assert found["tape"] == "tape:holdfast-1:study-7"
    assert found["question"] == "mean(income, 0, 100000)"
    assert _asked(holdfast, "mean(income, 0, 1e5)")["value"] == wanted.value


def test_a_share_with_a_filter_counts_the_rows_that_pass(survey, holdfast):
    found = _asked(holdfast, "share(age > 40, where = sex = 'F')", "--accuracy", "0.1")
    passing = survey[survey.sex == "F"]
    wanted = replicable.mean(passing.age > 40, accuracy=0.1, **PROMISE)
    assert (found["value"], found["rows"]) == (wanted.value, len(passing))


def test_quantiles_and_medians_are_those_of_the_library(survey, holdfast):
    options = ("--bounds", "0", "128", "--resolution", "8", "--accuracy", "0.25")
    domain = {"bounds": (0, 128), "resolution": 8, "accuracy": 0.25}
    wanted = replicable.quantile(survey.age, 0.25, **domain, **PROMISE)
    assert _asked(holdfast, "quantile(age, 0.25)", *options)["value"] == wanted.value
    median = _asked(holdfast, "median(age)", *options)
    assert median["value"] == replicable.median(survey.age, **domain, **PROMISE).value
    assert median["question"] == "median(age)"


def test_heavy_hitters_and_the_mode_are_those_of_the_library(survey, holdfast):
    found = _asked(holdfast, "heavy_hitters(home town, 0.4)")
    wanted = replicable.heavy_hitters(survey["home town"].tolist(), threshold=0.4, **PROMISE)
    assert found["value"] == list(wanted)
    mode = _asked(holdfast, 'mode("home town", 0.6)')
    assert mode["value"] == "Riga"
    assert _asked(holdfast, "heavy_hitters(sex, 0.45)", "--accuracy", "0.2")["value"] == ["F", "M"]


@pytest.mark.parametrize(
    "asked",
    [
        ["mean(age, 0, 120, where = sex = 'F')", "--accuracy", "12"],
        [
            "quantile(age, 0.9)",
            "--bounds",
            "0",
            "128",
            "--resolution",
            "8",
            "--accuracy",
            "0.2",
            "--best-effort",
        ],
        ["heavy_hitters(sex, 0.4)"],
        ["mode(sex, 0.5)", "--rho", "0.2"],
    ],
)
def test_the_command_to_repeat_it_repeats_it(survey, holdfast, asked):
    found = _asked(holdfast, *asked)
    program, *again = shlex.split(found["again"])
    assert program == "holdfast"
    status, out, _ = holdfast(*again, "--json")
    assert status == 0
    assert json.loads(out) == found
    assert found["tape"] in found["cite"]


def test_another_sample_with_the_same_tape_prints_the_same_and_another_tape_does_not(survey, holdfast):
    rng = np.random.default_rng(1)
    values = set()
    for _ in range(3):
        pd.DataFrame({"x": rng.random(ROWS)}).to_csv("survey.csv", index=False)
        values.add(_asked(holdfast, "mean(x, 0, 1)")["value"])
    assert len(values) == 1
    _, out, _ = holdfast("replicate", "survey.csv", "mean(x, 0, 1)", "--tape", "study-8", "--json")
    assert json.loads(out)["value"] not in values


def test_it_prints_result_promise_tape_and_citation(survey, holdfast):
    status, out, err = holdfast("replicate", "survey.csv", "share(age > 40)", "--tape", "study-7")
    assert (status, err) == (0, "")
    value = str(_asked(holdfast, "share(age > 40)")["value"])
    lines = out.splitlines()
    assert lines[0] == "share(age > 40)"
    assert lines[1].strip() == value
    assert "give exactly this with probability 0.95 or more" in out
    assert "it is within 0.05 of the truth with probability 0.95 or more" in out
    assert "tape  tape:holdfast-1:study-7" in out
    assert f"cite  share(age > 40) = {value} (rho = 0.05" in out
    assert "again holdfast replicate survey.csv" in out


def test_the_text_of_a_tape_is_a_tape(survey, holdfast):
    tape = "tape:holdfast-1:study-7/ages"
    status, out, _ = holdfast("replicate", "survey.csv", "mean(age, 0, 120)", "--tape", tape, "--json")
    assert status == 0
    assert json.loads(out)["tape"] == tape
    wanted = replicable.mean(
        survey.age, accuracy=6, bounds=(0, 120), **{**PROMISE, "tape": TAPE.branch("ages")}
    )
    assert json.loads(out)["value"] == wanted.value


def test_missing_values_are_skipped_or_counted_as_said(survey, holdfast):
    skipped = _asked(holdfast, "mean(gap, 0, 1, nulls = skip)")
    assert skipped["rows"] == survey.gap.notna().sum()
    filled = _asked(holdfast, "mean(gap, 0, 1, nulls = 0)")
    assert filled["value"] == replicable.mean(survey.gap.fillna(0), accuracy=0.05, **PROMISE).value
    status, _, err = holdfast("replicate", "survey.csv", "mean(gap, 0, 1)", "--tape", "a")
    assert status == 2
    assert "nulls" in err


def test_too_few_rows_are_a_refusal_and_a_best_effort_is_not(survey, holdfast):
    question = ("replicate", "survey.csv", "mean(age, 0, 120)", "--accuracy", "1", "--tape", "study-7")
    status, _, err = holdfast(*question)
    assert status == 1
    assert "needs at least" in err
    assert f"Your {ROWS:,} rows can promise ±" in err.replace("\n", " ").replace("  ", " ")
    status, out, _ = holdfast(*question, "--json")
    assert status == 1
    assert json.loads(out)["got"] == ROWS
    status, out, _ = holdfast(*question, "--best-effort", "--json")
    assert status == 0
    assert json.loads(out)["guarantee"]["rho"] > 0.05
    status, out, _ = holdfast(*question, "--best-effort")
    assert "fewer than" in out


def test_a_difference_of_groups_is_that_of_the_library(survey, holdfast):
    question = "difference(age, sex = 'F', sex = 'M')"
    found = _asked(holdfast, question, "--bounds", "0", "120")
    groups = [survey.age[survey.sex == sex] for sex in ("F", "M")]
    wanted = replicable.difference(*groups, accuracy=12, bounds=(0, 120), **PROMISE)
    assert (found["value"], found["rows"]) == (wanted.value, min(map(len, groups)))
    assert found["question"] == question
    assert found["warning"] is None
    assert found["value"] == _asked(holdfast, "difference(age, sex = 'F', sex = 'M', 0, 120)")["value"]
    assert (
        _asked(holdfast, *shlex.split(found["again"])[3:4], "--bounds", "0", "120")["value"] == found["value"]
    )


def test_a_slope_is_that_of_the_library(survey, holdfast):
    terms = ("--bounds", "0", "80000", "--x-bounds", "0", "100", "--least-variance", "300", "--rho", "0.3")
    found = _asked(holdfast, "slope(income, age)", *terms, "--accuracy", "2400")
    wanted = replicable.slope(
        survey.income.clip(0, 80_000),
        survey.age,
        accuracy=2400,
        bounds=((0, 80_000), (0, 100)),
        least_variance=300,
        **{**PROMISE, "rho": 0.3},
    )
    assert found["value"] == wanted.value
    again = shlex.split(found["again"])
    status, out, _ = holdfast(*again[1:], "--json")
    assert status == 0
    assert json.loads(out)["value"] == wanted.value


def test_a_histogram_is_that_of_the_library_and_prints_a_table(survey, holdfast):
    found = _asked(
        holdfast, "histogram(home town, 'Riga', 'Oslo', 'Bern')", "--accuracy", "0.3", "--rho", "0.2"
    )
    towns = ["Riga", "Oslo", "Bern"]
    expected = replicable.histogram(survey["home town"], towns, accuracy=0.3, rho=0.2, beta=0.05, tape=TAPE)
    assert found["value"] == expected.value.tolist()
    question = (
        "replicate",
        "survey.csv",
        "histogram(sex, 'F', 'M')",
        "--accuracy",
        "0.3",
        "--tape",
        "study-7",
    )
    _, out, _ = holdfast(*question)
    assert re.search(r"category +share", out)
    assert re.search(r"F +0\.\d+\n +M +0\.\d+", out)
    assert "total variation" in out


def test_the_rows_at_hand_say_what_they_can_promise(survey, holdfast):
    found = _asked(holdfast, "share(age > 40)")
    assert found["powers"]["0.1"] == replicable.power("mean", rows=ROWS, rho=0.1, beta=0.05)
    status, out, _ = holdfast("replicate", "survey.csv", "share(age > 40)", "--tape", "study-7")
    assert status == 0
    assert f"With your {ROWS:,} rows" in out
    assert f"±{found['powers']['0.1']:.3g}" in out
    options = ("--bounds", "0", "128", "--resolution", "8", "--accuracy", "0.25")
    assert _asked(holdfast, "median(age)", *options)["powers"] == {}


def test_a_poor_best_effort_says_so_before_the_result(survey, holdfast):
    question = ("replicate", "survey.csv", "mean(age, 0, 120)", "--accuracy", "0.1", "--tape", "study-7")
    status, out, _ = holdfast(*question, "--best-effort")
    assert status == 0
    assert out.startswith("NO PROMISE: 16,000 rows are fewer than")
    assert re.search(r"±\S+ with\s+rho = 0\.1", out)
    weak = ("replicate", "survey.csv", "mean(age, 0, 120)", "--accuracy", "2.5", "--tape", "study-7")
    status, out, _ = holdfast(*weak, "--best-effort", "--json")
    assert json.loads(out)["warning"].startswith("WEAK PROMISE")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["max(age)", "--tape", "a"], "heavy_hitters(column, threshold)"),
        (["mean(age)", "--tape", "a"], "bounds"),
        (["mean(aeg, 0, 1)", "--tape", "a"], "aeg"),
        (["share(age)", "--tape", "a"], "age"),
        (["heavy_hitters(sex)", "--tape", "a"], "Give the least share"),
        (["heavy_hitters(town, 0.3)", "--tape", "a"], "home town"),
        (["share(age > 40)", "--tape", "tape:holdfast-9:a"], "'text'"),
        (["share(age > 40)", "--tape", ""], "The --tape option must be"),
        (["share(age > 40)", "--tape", "a", "--rho", "0"], "The --rho option must be"),
        (["share(age > 40)", "--tape", "a", "--rho", "nan"], "The --rho option must be"),
        (["share(age > 40)", "--tape", "a", "--accuracy", "0.6"], "The --accuracy option must be"),
        (["quantile(age, 0.5)", "--tape", "a", "--resolution", "1"], "The --resolution option must be"),
        (["share(age > 40)"], "--tape"),
        (["difference(age, sex = 'F')", "--tape", "a"], "difference(expression, condition, condition)"),
        (["difference(age, sex = 'F', sex = 'M')", "--tape", "a"], "--bounds"),
        (["difference(age, sex = 'F', sex = 'M', a, b)", "--tape", "a"], "not numbers"),
        (["slope(age, income)", "--tape", "a"], "--least-variance"),
        (["histogram(sex)", "--tape", "a"], "List the categories"),
        (["histogram(sex, F, M)", "--tape", "a"], "in quotes"),
        (["histogram(sex, 'F', 'X')", "--tape", "a", "--best-effort"], "categories"),
        (["slope(age)", "--tape", "a"], "slope(y, x)"),
        (
            [
                "slope(age, sex)",
                "--tape",
                "a",
                "--bounds",
                "0",
                "9",
                "--x-bounds",
                "0",
                "9",
                "--least-variance",
                "1",
            ],
            "column of numbers",
        ),
    ],
)
def test_bad_input_is_refused_kindly(survey, holdfast, arguments, said):
    status, _, err = holdfast("replicate", "survey.csv", *arguments)
    assert status == 2
    assert said in err.replace("\n", " ")


def test_a_missing_file_is_bad_input(survey, holdfast):
    status, _, err = holdfast("replicate", "nothing.csv", "share(age > 40)", "--tape", "a")
    assert status == 2
    assert "nothing.csv" in err


GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "replicate.md"


def test_the_guide_shows_what_the_command_prints(holdfast, tmp_path, monkeypatch):
    text = GUIDE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    space = {}
    with contextlib.redirect_stdout(io.StringIO()):
        for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M):
            exec(block, space)
    assert f"The share was {float(space['result']):.4g} (" in text
    (shown,) = re.findall(r"^```console\n(.*?)^```", text, flags=re.S | re.M)
    command, _, wanted = shown.partition("\n")
    status, out, _ = holdfast(*shlex.split(command)[2:])
    assert status == 0
    assert out == wanted
