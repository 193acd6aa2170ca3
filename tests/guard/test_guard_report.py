"""The report of an account: closed first, exact values, one line in the book."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaincinv

from holdfast import Guard
from holdfast.coding import Account, Weights
from holdfast.engines import Rows
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.intervals import clopper_pearson
from holdfast.ledger import Book, Closed, SigningKey, export, verify

ROWS = 3000
QUESTIONS = ("share(flag)", "mean(x, 0, 10)", "share(flag, where = x > 5)", "quantile(x, 0.5)")


@pytest.fixture
def table(rng):
    return pd.DataFrame({"x": rng.uniform(0, 10, ROWS), "flag": rng.random(ROWS) < 0.3})


def protected(guard, table):
    kept = table.drop(index=guard.train.index) if guard.train is not None else table
    assert len(kept) == guard.rows
    return kept


def ends(interval):
    return interval.low, interval.high


def test_values_are_exact_and_the_intervals_those_of_a_fixed_list(table):
    guard = Guard(table)
    report = guard.report(QUESTIONS)
    rows = protected(guard, table)
    assert report.answers[0].value == pytest.approx(rows.flag.mean(), abs=1e-12)
    assert report.answers[1].value == pytest.approx(rows.x.mean(), abs=1e-5)
    assert report.answers[2].value == pytest.approx(rows.flag[rows.x > 5].mean(), abs=1e-12)
    nats = Account(0.05).last_nats(len(QUESTIONS))
    share = clopper_pearson(int(rows.flag.sum()), len(rows), nats)
    assert (report.answers[0].low, report.answers[0].high) == pytest.approx(
        (share.low, share.high), abs=1e-12
    )
    filtered = rows.flag[rows.x > 5]
    share = clopper_pearson(int(filtered.sum()), len(filtered), nats)
    assert (report.answers[2].low, report.answers[2].high) == pytest.approx(
        (share.low, share.high), abs=1e-12
    )
    assert all(answer.low < answer.value < answer.high for answer in report.answers)
    assert guard.spent == 0


def test_the_account_is_closed_first_and_for_everyone(table, tmp_path, monkeypatch):
    guard = Guard(table, ledger=tmp_path / "book.holdfast")
    other = Guard(table, ledger=tmp_path / "book.holdfast")
    closed = []
    real = Rows.sums
    part = guard._setup.protected.rows

    def watched(rows, *arguments, **options):
        if rows is part:
            closed.append(other.closed)
        return real(rows, *arguments, **options)

    monkeypatch.setattr(Rows, "sums", watched)
    guard.report(["share(flag)"])
    assert closed == [True]
    for each in (guard, other):
        with pytest.raises(Closed, match="report"):
            each.share("x > 3")


def test_a_report_is_given_once_and_again_for_the_asking(table, tmp_path):
    guard = Guard(table, ledger=tmp_path / "book.holdfast")
    report = guard.report(QUESTIONS)
    lines = len(list(guard._book.events()))
    assert guard.report(QUESTIONS) == guard.reported == report
    assert len(list(guard._book.events())) == lines
    again = Guard(table, ledger=tmp_path / "book.holdfast")
    assert again.report(QUESTIONS).to_dict() == report.to_dict()
    with pytest.raises(QueryRejected, match=r"fixed before, with other questions: share\(flag\)"):
        again.report(["share(x > 1)"])


def test_earlier_answers_are_paid_for(table):
    guard, fresh = Guard(table), Guard(table)
    guard.share("x > 2")
    guard.share("x > 3")
    later, first = guard.report(["share(flag)"]), fresh.report(["share(flag)"])
    assert later.answers[0].value == first.answers[0].value
    assert later.answers[0].half_width > first.answers[0].half_width
    numbers = later.answers[0].certificate.numbers
    expected = -np.log(1 - 0.95) + Weights().last_nats(2, 1) + guard.spent
    assert numbers["nats of this interval"] == pytest.approx(expected)
    assert numbers["questions asked before"] == 2
    assert "2 questions had been answered before" in later.text


def test_a_preregistration_uses_all_rows_and_needs_no_guess(table):
    guard = Guard(table, training_share=0)
    report = guard.report(QUESTIONS)
    assert guard.rows == ROWS
    assert report.answers[0].value == pytest.approx(table.flag.mean(), abs=1e-12)
    explored = Guard(table).report(QUESTIONS)
    assert all(
        all_rows.half_width < some.half_width
        for all_rows, some in zip(report.answers, explored.answers, strict=True)
    )


def test_each_answer_of_a_report_has_the_whole_probability(table):
    report = Guard(table, promise="each").report(QUESTIONS)
    alone = Guard(table, promise="each").report(QUESTIONS[:1])
    assert report.answers[0].half_width == alone.answers[0].half_width
    assert report.certificate.statement.startswith("Each interval")
    assert "Each of these intervals holds with probability 0.95" in report.text


def test_a_crash_after_the_account_was_closed_is_recovered(table, tmp_path, monkeypatch):
    guard = Guard(table, ledger=tmp_path / "book.holdfast")

    def die(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.guard._report.read_report", die)
    with pytest.raises(KeyboardInterrupt):
        guard.report(["share(flag)"])
    monkeypatch.undo()
    assert guard.closed
    assert guard.reported is None
    again = Guard(table, ledger=tmp_path / "book.holdfast")
    with pytest.raises(QueryRejected, match="other questions"):
        again.report(["share(x > 2)"])
    assert again.report(["share(flag)"]).answers[0].value > 0


def test_mistakes_are_reported_before_anything_is_closed(table):
    guard = Guard(table)
    for wrong, error in (
        ([], InvalidArgument),
        (["share(nothing)"], QueryRejected),
        (["share(flag)", "share(flag"], QueryRejected),
        (["quantile(x, 0.9999)"], NotEnoughRows),
        ([3], InvalidArgument),
    ):
        with pytest.raises(error):
            guard.report(wrong)
    assert not guard.closed
    assert guard.spent == 0
    assert guard.reported is None


def test_a_closed_account_gives_no_report(table):
    guard = Guard(table)
    guard.close_account()
    with pytest.raises(Closed, match="closed"):
        guard.report(["share(flag)"])


def test_strategies_that_count_answers_give_no_report(table):
    with pytest.raises(InvalidArgument, match="code"):
        Guard(table, strategy="grid-code", queries=5).report(["share(flag)"])


def test_a_question_that_cannot_be_computed_leaves_the_others(table, monkeypatch):
    guard = Guard(table)
    real = Rows.order_statistics

    def broken(rows, *arguments):
        if rows is guard._setup.protected.rows:
            raise RuntimeError("secret 7")
        return real(rows, *arguments)

    monkeypatch.setattr(Rows, "order_statistics", broken)
    report = guard.report(QUESTIONS)
    assert report.answers[3] is None
    assert report.answers[0].value > 0
    assert "could not be computed" in str(report)
    assert "secret" not in json.dumps(report.to_dict())


def test_a_report_can_be_read_sent_and_verified(table, tmp_path):
    key = SigningKey.generate()
    guard = Guard(table, ledger=Book(tmp_path / "book.holdfast", key=key))
    guard.share("x > 2")
    report = guard.report(QUESTIONS)
    assert list(report.to_frame().columns) == ["question", "value", "low", "high", "half_width"]
    assert len(report.to_frame()) == len(QUESTIONS)
    assert "| `share(flag)` |" in report.to_markdown()
    assert report._repr_html_().count("<tr>") == len(QUESTIONS) + 1
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["questions"] == list(QUESTIONS)
    assert report.text in str(report)
    path = tmp_path / "export.jsonl"
    export(guard._book, path)
    verify(path, public_key=key.public, receipts=[report.receipt])


def test_a_report_is_recorded_with_its_values_after_the_account_is_closed(table):
    guard = Guard(table)
    report = guard.report(QUESTIONS)
    *_, close, fixed, told = guard._book.events()
    assert [close.kind, fixed.subject, told.subject] == ["close", "report", "report answers"]
    assert [answer["value"] for answer in told.body["answers"]] == [answer.value for answer in report.answers]


def rejected(run):
    """Whether a session of explore, ask, report misses; the questions of the report follow from answers."""
    rng = np.random.default_rng([7, run])
    coins = rng.integers(0, 2, (400, 12))
    guard = Guard({f"c{j}": coins[:, j] for j in range(12)}, confidence=0.8)
    answers = guard.ask_all([f"share(c{j} = 1)" for j in range(12)])
    best = np.argsort([-answer.value for answer in answers])[:3]
    report = guard.report([f"share(c{j} = 1)" for j in best])
    return not all(answer.low <= 0.5 <= answer.high for answer in (*answers, *report.answers))


@pytest.mark.slow
def test_reports_of_what_looked_best_hold():
    runs = 300
    missed = sum(map(rejected, range(runs)))
    assert float(betaincinv(missed + 1, runs - missed, 0.001)) <= 0.2 or missed == 0
