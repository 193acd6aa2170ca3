"""``holdfast ask`` as people use it: one-shot, piped, as JSON, today and tomorrow."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.records import interval_words


def test_one_question_one_answer(people, holdfast):
    status, out, _ = holdfast("ask", "people.csv", "-q", "share(age > 40)")
    assert status == 0
    assert out.startswith("share(age > 40)\n")
    for part in ("in  [0.", "●", "━", "as guessed · cost 1.39 nats\n1.39 nats used.", "±"):
        assert part in out


def test_answers_are_the_guards_own(people, holdfast):
    questions = [
        "share(age > 40)",
        "mean(income, 0, 1e5)",
        "quantile(income, 0.5)",
        "share(sex = 'F', guess = 0.9)",
    ]
    flags = [part for question in questions for part in ("-q", question)]
    status, out, _ = holdfast("ask", "people.csv", "--json", *flags)
    document = json.loads(out)
    guard = Guard("people.csv")
    asked = guard.ask_all(questions)
    assert status == 0
    assert [(a["value"], a["low"], a["high"], a["cost"], a["confirmed"]) for a in document["answers"]] == [
        (a.value, a.low, a.high, a.cost, a.confirmed) for a in asked
    ]
    assert document["spent"] == guard.spent
    assert document["left"] == {"nats": None, **guard.left.to_dict()}
    assert document["certificate"]["statement"] == guard.certificate.statement
    assert document["certificate"]["numbers"]["questions"] == len(questions)


def test_a_surprise_is_called_one_and_a_repetition_is_free(people, holdfast):
    _, out, _ = holdfast("ask", "people.csv", "-q", "share(sex = 'F', guess = 0.9)", "-q", "share('F' = sex)")
    assert "a surprise: the protected rows disagree with the guess 0.9" in out
    assert "○" in out
    assert "asked before, free" in out


def test_the_account_is_kept_beside_the_data(people, holdfast, tmp_path):
    first = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(age > 40)")[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.csv", "people.csv.holdfast"]
    second = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(age > 50)")[1])
    assert second["certificate"]["numbers"]["questions"] == 2
    assert second["spent"] > first["spent"] > 0
    free = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(40 < age)")[1])
    assert free["spent"] == second["spent"]
    assert free["answers"][0] == first["answers"][0]


def test_no_ledger_keeps_nothing_and_ledger_says_where(people, holdfast, tmp_path):
    assert holdfast("ask", "people.csv", "--no-ledger", "-q", "share(age > 40)")[0] == 0
    assert holdfast("ask", "people.csv", "--ledger", "mine.book", "-q", "share(age > 40)")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.book", "people.csv"]
    status, _, err = holdfast("ask", "people.csv", "--ledger", "x", "--no-ledger", "-q", "share(age > 40)")
    assert status == 2
    assert "contradict" in err


@pytest.mark.parametrize(
    ("opened", "again", "says"),
    [
        (["--error", "0.2"], ["--error", "0.1"], "opened with --error 0.2"),
        ([], ["--error", "0.1"], "opened with no --error"),
        ([], ["--confidence", "0.9"], "opened with --confidence 0.95"),
        ([], ["--training-share", "0.3"], "opened with --training-share 0.333"),
        (["--split-seed", "4"], ["--split-seed", "5"], "opened with --split-seed 4"),
        (["--train", "people.csv"], [], "--train"),
        ([], ["--train", "people.csv"], "other terms"),
    ],
)
def test_other_terms_are_an_error_and_charge_nothing(people, holdfast, opened, again, says):
    assert holdfast("ask", "people.csv", *opened, "-q", "share(age > 40)")[0] == 0
    status, out, err = holdfast("ask", "people.csv", *again, "-q", "share(age > 50)")
    assert status == 2
    assert says in " ".join(err.split())
    assert out == ""
    status, out, _ = holdfast("ask", "people.csv", *again, "--json", "-q", "share(age > 50)")
    assert (status, json.loads(out)["error"]) == (2, "BookError")


def test_terms_that_are_not_repeated_are_those_of_the_account(people, holdfast):
    holdfast("ask", "people.csv", "--error", "0.2", "--confidence", "0.9", "-q", "share(age > 40)")
    status, out, _ = holdfast("ask", "people.csv", "--json", "-q", "share(age > 50)")
    document = json.loads(out)
    assert status == 0
    assert document["answers"][0]["confidence"] == 0.9
    assert document["left"]["words"].endswith("±0.2")
    assert document["left"]["nats"] > 0


def test_data_that_changed_is_not_the_same_data(people, holdfast):
    holdfast("ask", "people.csv", "-q", "share(age > 40)")
    people.assign(age=people.age + 1).to_csv("people.csv", index=False)
    status, _, err = holdfast("ask", "people.csv", "-q", "share(age > 40)")
    assert status == 2
    assert "data" in err


def test_a_refusal_in_the_middle_keeps_the_answers_before_it(people, holdfast):
    flags = ["-q", "share(age > 40)", "-q", "mean(income, 0, 1e5)", "-q", "share(age > 50)"]
    status, out, err = holdfast("ask", "people.csv", "--error", "0.15", *flags)
    assert status == 1
    assert out.startswith("share(age > 40)\n")
    assert "mean(income" not in out
    assert "cannot give ±0.15" in err
    status, out, _ = holdfast("ask", "people.csv", "--json", *flags)
    document = json.loads(out)
    assert status == 1
    assert [answer["query"] for answer in document["answers"]] == ["share(age > 40)"]
    assert document["error"] == "BudgetSpent"
    assert "cannot give ±0.15" in document["message"]
    assert document["spent"] > 0


def test_too_few_rows_are_a_refusal(people, holdfast):
    people.head(40).to_csv("few.csv", index=False)
    status, _, err = holdfast(
        "ask", "few.csv", "-q", "quantile(income, 0.5)", "-q", "quantile(income, 0.999)"
    )
    assert status == 1
    assert "rows" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.csv", "-q", "share(age > 40)"], "There is no file"),
        (["nowhere/nothing.csv", "-q", "share(age > 40)"], "There is no file 'nowhere/nothing.csv'"),
        (["nothing.csv", "--ledger", "mine.holdfast", "-q", "share(age > 40)"], "There is no file"),
        ([".", "-q", "share(age > 40)"], "There is no file"),
        (["people.csv", "-q", "share(agge > 40)"], "age"),
        (["people.csv", "-q", "how old are they"], "Cannot read the question"),
        (["people.csv", "-q", 'share("gross income" > 0)'], "gross income"),
        (["people.csv", "-q", "share(age > 40)", "--confidence", "1.5"], "confidence"),
        (["people.csv", "-q", "share(age > 40)", "--error", "nan"], "error"),
        (["people.csv", "-q", "share(age > 40)", "--split-seed", "-1"], "The --split-seed option must be"),
        (["people.csv", "-q", "share(age > 40)", "--train", "nothing.csv"], "nothing.csv"),
        (["*.csv", "-q", "share(age > 40)"], "--ledger"),
        (["people.csv", "--sure"], "No such option"),
    ],
)
def test_bad_input_leaves_with_status_two_and_writes_nothing(people, holdfast, tmp_path, arguments, says):
    status, out, err = holdfast("ask", *arguments)
    assert status == 2
    assert says in " ".join(err.split())
    spent = [path for path in tmp_path.iterdir() if path.suffix == ".holdfast"]
    if spent:
        assert json.loads(holdfast("ask", "people.csv", "--json")[1])["spent"] == 0
    else:
        assert out == ""


def test_a_typing_error_in_the_third_question_is_found_before_the_first_is_paid_for(people, holdfast):
    flags = ["-q", "share(age > 40)", "-q", "share(age > 50)", "-q", "share(agge > 60)"]
    assert holdfast("ask", "people.csv", *flags)[0] == 2
    document = json.loads(holdfast("ask", "people.csv", "--json")[1])
    assert (document["spent"], document["answers"]) == (0, [])
    status, out, _ = holdfast("ask", "people.csv", "--json", *flags)
    assert (status, json.loads(out)["answers"]) == (2, [])


def test_a_preview_asks_nothing(people, holdfast):
    status, out, _ = holdfast("ask", "people.csv", "--preview", "-q", "share(age > 40)")
    assert status == 0
    assert "cost 1.39 nats if confirmed" in out
    status, out, _ = holdfast("ask", "people.csv", "--preview", "--json", "-q", "share(age > 40)")
    document = json.loads(out)
    assert document["previews"][0]["query"] == "share(age > 40)"
    assert document["previews"][0]["allowed"] is True
    assert document["spent"] == 0
    holdfast("ask", "people.csv", "-q", "share(age > 40)")
    assert "free" in holdfast("ask", "people.csv", "--preview", "-q", "share(age > 40)")[1]
    out = holdfast(
        "ask", "people.csv", "--no-ledger", "--error", "1e-3", "--preview", "-q", "share(age > 40)"
    )[1]
    assert "refused" in out


def test_an_account_that_counts_answers_continues_and_is_shown_in_answers(people, holdfast):
    Guard("people.csv", strategy="grid-code", queries=5, ledger="few.book").close()
    flags = ["--ledger", "few.book", "-q", "share(age > 40)"]
    status, out, _ = holdfast("ask", "people.csv", "--preview", *flags)
    assert status == 0
    assert ", cost 1 answer\n0 answers used. Left: ████████████ 5 of 5 answers" in out
    status, out, _ = holdfast("ask", "people.csv", *flags)
    assert status == 0
    assert "no guess · cost 1 answer · 4 answers left\n" in out
    assert "1 answer used. Left: ██████████░░ 4 of 5 answers\n" in out
    assert "nats" not in out
    document = json.loads(holdfast("ask", "people.csv", "--json", *flags)[1])
    assert (document["spent"], document["unit"], document["left"]["answers"]) == (1, "answers", 4)
    assert (document["answers"][0]["cost"], document["answers"][0]["unit"]) == (1, "answers")
    assert "3 lines, 1 answer spent." in holdfast("verify", "few.book")[1]
    refused = holdfast("ask", "people.csv", "--ledger", "few.book", "-q", "quantile(age, 0.5)")
    assert refused[0] == 2


def test_a_preview_of_a_refusal_says_why(people, holdfast):
    Guard("people.csv", strategy="grid-code", queries=1, ledger="few.book").share("age > 40")
    out = holdfast("ask", "people.csv", "--ledger", "few.book", "--preview", "-q", "share(age > 50)")[1]
    assert "would be refused: share(age > 50) cannot be answered. The 1 answers" in " ".join(out.split())


def test_lines_that_are_piped_in_are_questions(people, holdfast):
    status, out, _ = holdfast("ask", "people.csv", piped="share(age > 40)\n\nshare(sex = 'M')\n")
    assert status == 0
    assert (out.count("as guessed"), out.count("near the guess")) == (1, 1)
    status, out, _ = holdfast("ask", "people.csv", "--json", piped="share(age > 40)\n")
    assert len(json.loads(out)["answers"]) == 1


def test_a_training_file_of_the_callers_own(people, holdfast):
    people.head(500).to_csv("train.csv", index=False)
    people.tail(1500).to_csv("rest.csv", index=False)
    out = holdfast("ask", "rest.csv", "--train", "train.csv", "--json", "-q", "share(sex = 'F')")[1]
    document = json.loads(out)
    assert document["answers"][0]["guess"] == pytest.approx((people.head(500).sex == "F").mean())
    assert document["certificate"]["numbers"]["protected rows"] == 1500


def test_help_loads_nothing_heavy():
    script = "import sys, holdfast.cli; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    heavy = {"duckdb", "ibis", "pandas", "pyarrow", "sqlglot", "matplotlib", "prompt_toolkit", "scipy.stats"}
    assert heavy & set(loaded.split()) == set()


def test_intervals_are_shown_rounded_outward(rng):
    for _ in range(300):
        low, width = rng.normal() * 10.0 ** rng.integers(-4, 6), 10.0 ** rng.uniform(-6, 5)
        high = low + width
        _, interval = interval_words((low + high) / 2, low, high)
        shown_low, shown_high = map(float, interval[1:-1].split(","))
        assert shown_low <= low + 1e-12 * abs(low)
        assert shown_high >= high - 1e-12 * abs(high)
        assert shown_high - shown_low <= 1.02 * width or shown_high - shown_low <= 2
    assert interval_words(1.0, -np.inf, np.inf) == ("1", "[-inf, inf]")


def test_an_interval_without_ends_is_written_and_not_drawn(holdfast, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": [-np.inf, np.inf] * 300}).to_parquet("wide.parquet")
    status, out, _ = holdfast("ask", "wide.parquet", "--no-ledger", "-q", "quantile(x, 0.5, guess = 1)")
    assert (status, out.splitlines()[1]) == (0, "  1  in  [-inf, inf]")
    assert not set("─━●") & set(out)
    status, out, _ = holdfast("ask", "wide.parquet", "--no-ledger", "-q", "share(x > 0)")
    assert status == 0
    assert set("─━●") <= set(out)


def test_a_question_by_groups_is_shown_as_a_table(people, holdfast):
    status, out, _ = holdfast(
        "ask", "people.csv", "-q", "share(age > 40, by = sex)", "-q", "std(income, 0, 1e5)"
    )
    assert status == 0
    assert "sex" in out
    assert "all others" in out
    assert "std(income, 0, 100000)" in out
    status, out, _ = holdfast("ask", "people.csv", "--json", "-q", "share(age > 40, by = sex)")
    (table,) = json.loads(out)["tables"]
    assert [row["group"] for row in table["rows"]] == [["F"], ["M"], ["all others"]]


def test_a_distribution_and_a_histogram_show_their_points(people, holdfast):
    questions = ("-q", "cdf(income)", "-q", "share(age > 40)", "-q", "histogram(income, 0, 2e4, 9e4)")
    status, out, _ = holdfast("ask", "people.csv", *questions)
    assert status == 0
    assert "at most" in out
    assert "(20000, 90000]" in out
    document = json.loads(holdfast("ask", "people.csv", "--json", *questions)[1])
    assert [row["group"] for row in document["tables"][0]["rows"]] == [["(0, 20000]"], ["(20000, 90000]"]]
    curve = document["answers"][0]["curve"]
    assert len(curve["points"]) == len(curve["low"]) == len(curve["high"])
    assert "at most" in holdfast("ask", "people.csv", "-q", "cdf(income)")[1]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A series: a machine that stays in its state for about twenty rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"runs": np.cumsum(rng.random(3_000) < 0.05) % 2, "coin": rng.random(3_000)})
    frame.to_csv("machine.csv", index=False)
    return frame


def test_a_diagnosis_is_free_and_prints_its_sentences(machine, holdfast):
    status, out, err = holdfast("ask", "machine.csv", "--diagnose")
    assert (status, err) == (0, "")
    assert out.startswith("Diagnosis of 1,000 training rows, free:\n- Neighbouring rows of 'runs' agree far")
    status, out, _ = holdfast("ask", "machine.csv", "--diagnose", "-q", "share(coin > 0.5)")
    assert (status, out.splitlines()[-1]) == (0, "- Nothing speaks against independent rows.")
    status, out, _ = holdfast("ask", "machine.csv", "--diagnose", "--json", "-q", "share(runs = 1)")
    document = json.loads(out)
    assert (status, document["spent"]) == (0, 0)
    (diagnosis,) = document["diagnoses"]
    assert diagnosis["query"] == "share(runs = 1)"
    assert diagnosis["neighbours"][0]["correlation"] > 0.5
    status, _, err = holdfast("ask", "machine.csv", "--diagnose", "--preview")
    assert status == 2
    assert "contradict" in err


def test_a_warning_is_one_line_on_stderr(machine, holdfast):
    status, out, err = holdfast(
        "ask", "machine.csv", "--json", "-q", "share(runs = 1)", "-q", "share(coin > 0)"
    )
    assert status == 0
    assert len(json.loads(out)["answers"]) == 2
    assert err.startswith(
        "holdfast: This guard assumes independent rows. Neighbouring rows of share(runs = 1)"
    )
    assert err.count("\n") == 1
    assert ".py" not in err
