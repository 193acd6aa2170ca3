"""Callbacks get every new answer once it is in the book, and their errors lose nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest

from holdfast import Guard
from holdfast.errors import BudgetSpent, InvalidArgument

QUESTIONS = ["share(flag)", "mean(x, 0, 10)", "share(x > 5)"]


@pytest.fixture
def table(rng):
    return pd.DataFrame({"x": rng.uniform(0, 10, 3_000), "flag": rng.random(3_000) < 0.3})


def test_a_callback_gets_a_new_answer_once_and_no_repeated_one(table, tmp_path):
    book = tmp_path / "book.holdfast"
    guard = Guard(table, ledger=book)
    before = guard.ask("share(flag)")
    told = []
    guard.on_answer(told.append)
    assert guard.ask("share(flag)") == before
    assert told == []
    answers = [guard.ask("mean(x, 0, 10)"), *guard.ask_all(QUESTIONS)]
    assert told == [answers[0], answers[3]]
    guard.close()
    again = Guard(table, ledger=book)
    again.on_answer(told.append)
    assert again.ask_all(QUESTIONS) == [before, *told]
    assert len(told) == 2


def test_the_answer_is_in_the_book_when_the_callback_is_called(table, tmp_path):
    book = tmp_path / "book.holdfast"
    guard = Guard(table, ledger=book)
    seen = []

    def look(answer):
        other = Guard(table, ledger=book)
        seen.append((answer, other.history, other.spent))
        other.close()

    guard.on_answer(look)
    answer = guard.ask("share(flag)")
    assert seen == [(answer, (answer,), guard.spent)]


def test_a_failing_callback_loses_nothing_and_nothing_is_charged_twice(table):
    guard, quiet, told = Guard(table), Guard(table), []

    def fail(answer):
        raise OSError(f"no tracker for {answer.query}")

    stop = guard.on_answer(fail)
    guard.on_answer(told.append)
    with pytest.raises(OSError, match=r"no tracker for share\(flag\)") as raised:
        guard.ask("share(flag)")
    assert "Ask again to get it for free" in raised.value.__notes__[-1]
    expected = quiet.ask("share(flag)")
    assert told == [expected]
    assert guard.spent == quiet.spent == expected.cost > 0
    assert guard.ask("share(flag)") == expected
    assert guard.spent == expected.cost
    stop()
    stop()
    assert guard.ask("mean(x, 0, 10)") == quiet.ask("mean(x, 0, 10)") == told[-1]


def test_callbacks_get_all_answers_of_a_batch_before_an_error_is_raised(table):
    guard, quiet, calls = Guard(table), Guard(table), []

    def fail(answer):
        calls.append(answer)
        raise OSError(str(answer.query))

    guard.on_answer(fail)
    with pytest.raises(OSError, match=r"^share\(flag\)") as raised:
        guard.ask_all(QUESTIONS)
    expected = quiet.ask_all(QUESTIONS)
    assert calls == expected
    assert [note for note in raised.value.__notes__ if "OSError: share(x > 5)" in note]
    assert guard.ask_all(QUESTIONS) == expected
    assert guard.spent == quiet.spent
    assert len(calls) == 3


def test_strategies_that_answer_one_by_one_stop_at_the_error_and_continue_later(table):
    guard, told = Guard(table, strategy="split", queries=3, error=0.5), []

    def fail_first(answer):
        told.append(answer)
        if len(told) == 1:
            raise OSError("busy")

    guard.on_answer(fail_first)
    with pytest.raises(OSError, match="busy"):
        guard.ask_all(QUESTIONS)
    assert guard.spent == 1
    assert guard.ask_all(QUESTIONS) == told
    assert guard.spent == len(told) == 3


def test_a_callback_gets_a_question_of_many_threads_once(table):
    guard, told = Guard(table), []
    guard.on_answer(told.append)
    with ThreadPoolExecutor(8) as people:
        answers = list(people.map(guard.ask, ["share(flag)", "share(x > 5)"] * 8))
    assert sorted(str(answer.query) for answer in told) == ["share(flag)", "share(x > 5)"]
    assert {answer.cost for answer in answers} == {answer.cost for answer in told}
    assert guard.spent == pytest.approx(sum(answer.cost for answer in told), abs=1e-9)


def test_a_callback_may_ask_further_questions(table):
    guard, told = Guard(table), []

    def ask_more(answer):
        told.append(str(answer.query))
        guard.ask("mean(x, 0, 10)")

    guard.on_answer(ask_more)
    guard.ask("share(flag)")
    assert told == ["share(flag)", "mean(x, 0, 10)"]


def test_callbacks_get_scores_tables_and_reports(table):
    guard, told = Guard(table), []
    guard.on_answer(told.append)
    scores = guard.score("x > 7", target="flag", metric=["accuracy", "f1"])
    groups = guard.share("x > 5", by="flag")
    assert told == [*scores.values(), *(row.answer for row in groups.rows if row.answer is not None)]
    count = len(told)
    report = guard.report(["share(flag)", "mean(x, 0, 10)"])
    assert told[count:] == list(report.answers)
    assert guard.report(["share(flag)", "mean(x, 0, 10)"]).answers == report.answers
    assert len(told) == count + 2


def test_callbacks_do_not_get_refusals(table):
    guard, told = Guard(table, error=0.01), []
    guard.on_answer(told.append)
    with pytest.raises(BudgetSpent):
        guard.ask("share(flag)")
    assert told == []


def test_a_callback_has_to_be_callable(table):
    with pytest.raises(InvalidArgument, match=r"'callback' argument of Guard\.on_answer"):
        Guard(table).on_answer("print")
