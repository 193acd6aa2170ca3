"""``holdfast report`` as people use it, and the terms that make answers narrower."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from holdfast import Guard
from holdfast.cli import main

QUESTIONS = ("share(age > 40)", "mean(income, 0, 1e5)")


def spent(holdfast):
    return json.loads(holdfast("ask", "people.csv", "--json")[1])["spent"]


def test_a_report_is_the_guards_own_and_ends_the_account(people, holdfast):
    assert holdfast("ask", "people.csv", "-q", "share(age > 50)")[0] == 0
    status, out, err = holdfast("report", "people.csv", *QUESTIONS, "--json", "--yes")
    assert (status, err) == (0, "")
    document = json.loads(out)
    guard = Guard("people.csv")
    guard.share("age > 50")
    expected = guard.report(QUESTIONS)
    assert [(a["value"], a["low"], a["high"]) for a in document["answers"]] == [
        (a.value, a.low, a.high) for a in expected.answers
    ]
    assert document["questions"] == list(expected.questions)
    assert "1 question had been answered before" in document["text"]
    assert document["spent"] == guard.spent
    status, _, err = holdfast("ask", "people.csv", "-q", "share(age > 60)")
    assert (status, "closed" in err) == (1, True)
    status, out, _ = holdfast("ask", "people.csv", "-q", "share(age > 60)", "--json")
    assert (status, json.loads(out)["error"]) == (1, "Closed")


def test_a_report_is_a_table_with_a_text_and_is_shown_again(people, holdfast):
    status, out, err = holdfast("report", "people.csv", *QUESTIONS, "--yes", "--html", "report.html")
    assert (status, err) == (0, "")
    assert out.startswith("question")
    for part in (*QUESTIONS[:1], "mean(income, 0, 100000)", "Nothing had been asked before.", "account book"):
        assert part in " ".join(out.split())
    page = Path("report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Report on people.csv" in page
    assert "share(age &gt; 40)" in page
    # What was given needs no confirmation, whether the questions are repeated or not.
    assert holdfast("report", "people.csv")[1] == out
    assert holdfast("report", "people.csv", *QUESTIONS)[1] == out
    markdown = holdfast("report", "people.csv", "--markdown")[1]
    assert markdown.startswith("| question | value | interval |\n|---|---|---|\n| `share(age > 40)` | ")
    status, _, err = holdfast("report", "people.csv", "share(age > 41)", "--yes")
    assert status == 2
    assert "fixed before, with other questions: share(age > 40)" in " ".join(err.split())


def test_a_book_with_a_report_is_whole(people, holdfast):
    holdfast("ask", "people.csv", "-q", "share(age > 50)")
    holdfast("report", "people.csv", *QUESTIONS, "--yes")
    status, out, _ = holdfast("verify", "people.csv.holdfast", "--export", "book.jsonl")
    assert (status, out.startswith("Intact: ")) == (0, True)
    status, out, _ = holdfast("verify", "book.jsonl", "--json")
    assert (status, json.loads(out)["whole"]) == (0, True)
    text = Path("book.jsonl").read_text(encoding="utf-8")
    value = str(json.loads(holdfast("report", "people.csv", "--json")[1])["answers"][0]["value"])
    assert value in text
    Path("other.jsonl").write_text(text.replace(value, "0.5"), encoding="utf-8")
    assert holdfast("verify", "other.jsonl")[0] == 1


def test_a_preregistration_protects_all_rows(people, holdfast):
    status, out, _ = holdfast("report", "people.csv", QUESTIONS[0], "--preregister", "--yes", "--json")
    document = json.loads(out)
    assert status == 0
    assert "1 question on 2,000 protected rows, fixed" in document["text"]
    explored = holdfast("report", "people.csv", QUESTIONS[0], "--ledger", "b", "--yes", "--json")[1]
    answers = [document["answers"][0], json.loads(explored)["answers"][0]]
    widths = [answer["high"] - answer["low"] for answer in answers]
    assert widths[0] < widths[1]


def test_bad_input_leaves_with_status_two_and_closes_nothing(people, holdfast):
    for arguments, says in (
        ([*QUESTIONS], "Add --yes"),
        ([*QUESTIONS, "--json"], "Add --yes"),
        (["--yes"], "at least one question"),
        (["how old are they", "--yes"], "Cannot read the question"),
        ([*QUESTIONS, "--yes", "--json", "--markdown"], "contradict"),
        ([*QUESTIONS, "--yes", "--html", "nowhere/page.html"], "nowhere"),
        ([*QUESTIONS, "--yes", "--preregister", "--train", "people.csv"], "no training rows"),
        ([*QUESTIONS, "--yes", "--expect", "0"], "The --expect option must be"),
        ([*QUESTIONS, "--yes", "--promise", "some"], "'some' is not one of"),
    ):
        status, out, err = holdfast("report", "people.csv", *arguments)
        assert status == 2
        assert says in " ".join((out + err).split())
        assert [path.name for path in Path().iterdir()] == ["people.csv"]
    for question, says in (("share(agge > 40)", "age"), ('share("gross income" > 0)', "gross income")):
        for _ in range(2):  # A new account, and one that is there.
            status, out, err = holdfast("report", "people.csv", question, "--yes")
            assert (status, out, says in err) == (2, "", True)
    assert holdfast("ask", "people.csv", "-q", "share(age > 40)")[0] == 0


def test_an_account_that_was_asked_is_no_preregistration(people, holdfast):
    holdfast("ask", "people.csv", "--training-share", "0", "-q", "share(age > 40, guess = 0.6)")
    before = spent(holdfast)
    status, _, err = holdfast("report", "people.csv", QUESTIONS[0], "--preregister", "--yes")
    assert status == 2
    assert "This account has answered 1 question before" in " ".join(err.split())
    assert spent(holdfast) == before
    assert holdfast("report", "people.csv", QUESTIONS[0], "--yes")[0] == 0


def test_a_closed_account_has_no_report(people, holdfast):
    guard = Guard("people.csv", ledger="people.csv.holdfast")
    guard.close_account()
    guard.close()
    for yes in ([], ["--yes"]):
        status, out, err = holdfast("report", "people.csv", QUESTIONS[0], *yes)
        assert (status, out) == (1, "")
        assert "The account is closed" in err
    status, out, _ = holdfast("report", "people.csv", "--json")
    assert (status, "error" in json.loads(out)) == (2, True)


@pytest.mark.parametrize(("said", "status"), [("y\n", 0), ("n\n", 1), ("", 130)])
def test_a_person_at_a_terminal_is_asked_first(people, holdfast, capsys, monkeypatch, said, status):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for _ in range(2):  # A new account and one that is there.
        monkeypatch.setattr(sys, "stdin", Terminal(said))
        with pytest.raises(SystemExit) as left:
            main(["report", "people.csv", *QUESTIONS])
        told = capsys.readouterr()
        assert left.value.code == status
        if status == 0:
            assert "question" in told.out
            break
        assert "closes the account for good" in told.err
        assert told.out == ""
        assert holdfast("ask", "people.csv", "-q", "share(age > 40)")[0] == 0


def test_terms_stay_those_of_the_account(people, holdfast):
    for ledger, opened, again, says in (
        ("a", ["--expect", "20"], ["--expect", "5"], "opened with --expect 20, and now --expect is 5"),
        ("b", [], ["--expect", "5"], "opened with no --expect"),
        ("b", [], ["--promise", "each"], "opened with --promise all, and now --promise is each"),
        ("c", ["--promise", "each"], ["--promise", "all"], "opened with --promise each"),
    ):
        place = ["ask", "people.csv", "--ledger", ledger]
        assert holdfast(*place, *opened, "-q", "share(age > 40)")[0] == 0
        status, out, err = holdfast(*place, *again, "-q", "share(age > 50)")
        assert (status, out) == (2, "")
        assert says in " ".join(err.split())


def test_expect_and_each_give_the_answers_of_the_guard_and_stay_in_the_account(people, holdfast):
    terms = ["--expect", "5", "--promise", "each"]
    first = json.loads(holdfast("ask", "people.csv", *terms, "--json", "-q", "share(age > 40)")[1])
    second = json.loads(holdfast("ask", "people.csv", "--json", "-q", "share(age > 50)")[1])
    guard = Guard("people.csv", expect=5, promise="each")
    for document, question in ((first, "share(age > 40)"), (second, "share(age > 50)")):
        answer = guard.ask(question)
        told = document["answers"][0]
        assert (told["low"], told["high"]) == (answer.low, answer.high)
        assert told["cost"] == pytest.approx(answer.cost, abs=2e-6)  # A book has whole micro-nats.
    assert second["certificate"]["statement"] == guard.certificate.statement


def test_nats_buy_a_finer_answer(people, holdfast):
    finer = ["--nats", "3"]
    question = ["--no-ledger", "--json", "-q", "share(age > 40)"]
    usual = json.loads(holdfast("ask", "people.csv", *question)[1])["answers"][0]
    finest = json.loads(holdfast("ask", "people.csv", *question, *finer)[1])["answers"][0]
    assert finest["high"] - finest["low"] < usual["high"] - usual["low"]
    assert finest["cost"] > usual["cost"]
    asked = Guard("people.csv").ask("share(age > 40)", nats=3)
    assert (finest["low"], finest["high"]) == (asked.low, asked.high)
    assert json.loads(holdfast("ask", "people.csv", *question, "--precise")[1])["answers"][0] == finest
    usual, finest = (
        json.loads(holdfast("ask", "people.csv", "--preview", *question, *more)[1])["previews"][0]
        for more in ([], finer)
    )
    assert finest["high"] - finest["low"] < usual["high"] - usual["low"]


def test_bad_options_for_prices_and_hints_charge_nothing(people, holdfast):
    for arguments, status, says in (
        (["--nats", "2", "--precise"], 2, "contradict"),
        (["--expect", "0"], 2, "The --expect option must be"),
        (["--expect", "inf"], 2, "The --expect option must be"),
        (["--expect", "few"], 2, "not a valid float"),
        (["--nats", "0"], 2, "The --nats option must be"),
        (["--nats", "nan"], 2, "The --nats option must be"),
        (["--nats", "1000", "--error", "0.2", "--ledger", "promised"], 1, "cannot be given 1000 nats"),
    ):
        told = holdfast("ask", "people.csv", *arguments, "-q", "share(age > 40)")
        assert (told[0], told[1]) == (status, "")
        assert says in " ".join(told[2].split())
    for place in ([], ["--ledger", "promised"]):
        assert json.loads(holdfast("ask", "people.csv", "--json", *place)[1])["spent"] == 0
