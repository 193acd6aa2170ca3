"""Questions that wait while another is read are answered together, as if they had been asked one by one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from holdfast.guard._ahead import Ahead
from holdfast.guard._turns import Turns

from holdfast import Guard
from holdfast.engines import Rows
from holdfast.errors import BudgetSpent, HoldfastError, QueryRejected
from holdfast.guard import Asker, _together
from holdfast.guard._code import PreparedCode
from holdfast.ledger import Balance, Book, BookError, SigningKey, export, verify

QUESTIONS = [
    *(f"share(x > {limit / 50}, guess = {1 - limit / 50 + 0.02 * (limit % 3)})" for limit in range(1, 20)),
    *(f"share(x < {limit / 50})" for limit in range(20, 30)),
    *(f"mean(x * x, 0, 1, where = x > {limit / 50})" for limit in range(1, 6)),
    "quantile(x, 0.5)",
    *(f"mean(x, 0, 1, where = x > {limit / 50}, guess = 0.7)" for limit in range(10, 16)),
]


def table(rows=2000):
    return {"x": np.random.default_rng(3).random(rows)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book"


@pytest.fixture
def written(monkeypatch):
    """What each transaction wrote."""
    kinds, append_all = [], Book.append_all

    def noted(self, entries, *, after):
        kinds.append([entry.kind for entry in entries])
        return append_all(self, entries, after=after)

    monkeypatch.setattr(Book, "append_all", noted)
    return kinds


def all_at_once(guard, questions, ask=None):
    """Everyone comes while somebody else has the turn; what each was told, in the order of the questions."""
    ask = ask or guard.ask
    with ThreadPoolExecutor(len(questions)) as people:
        with guard._session.turn():
            told = []
            for place, question in enumerate(questions):
                told.append(people.submit(ask, question))
                while len(guard._session.waiting()) <= place:
                    time.sleep(0.001)
        return [one.result() for one in told]


def on_disk(path):
    balance, book = Balance(), Book(path)
    for event in book.events():
        balance.apply(event)
    book.close()
    return balance


def test_they_get_the_answers_and_prices_they_would_have_got_one_by_one(path, written):
    guard, alone = Guard(table(), ledger=path), Guard(table())
    assert all_at_once(guard, QUESTIONS) == [alone.ask(question) for question in QUESTIONS]
    assert guard.spent == alone.spent
    assert guard._session.balance.to_dict() == alone._session.balance.to_dict()
    assert max(map(len, written)) == _together.MOST_TOGETHER
    guard.close()


def test_the_comparison_notices_an_account_that_stands_still_between_them(path, monkeypatch):
    monkeypatch.setattr(Ahead, "settle", lambda self, nats, most, surprise: None)
    guard, alone = Guard(table(), ledger=path), Guard(table())
    assert all_at_once(guard, QUESTIONS) != [alone.ask(question) for question in QUESTIONS]
    guard.close()


def test_rows_are_read_only_while_the_reservations_of_all_are_on_disk_and_no_other_is_open(path, monkeypatch):
    read_all, read_one, seen = _together._read, PreparedCode.read, []

    def watched(part, questions, squared):
        open_now = [body["subject"] for body in on_disk(path).open.values()]
        seen.append((len(questions), open_now == [question.key for question in questions]))
        return read_all(part, questions, squared)

    def watched_alone(self, part):
        if not isinstance(part.rows, _together._ReadAhead):
            open_now = [body["subject"] for body in on_disk(path).open.values()]
            seen.append((1, open_now == [self.question.key]))
        return read_one(self, part)

    monkeypatch.setattr(_together, "_read", watched)
    monkeypatch.setattr(PreparedCode, "read", watched_alone)
    guard = Guard(table(), ledger=path)
    all_at_once(guard, QUESTIONS)
    guard.close()
    assert all(right for _, right in seen)
    assert sum(number for number, _ in seen) == len(QUESTIONS)
    assert len(seen) < len(QUESTIONS) / 4


def test_nobody_is_told_before_everything_about_it_is_on_disk(path):
    guard = Guard(table(), ledger=path)

    def ask(question):
        answer = guard.ask(question)
        return answer.query, {event.subject for event in Book(path).events() if event.kind == "release"}

    for query, released in all_at_once(guard, QUESTIONS[:12], ask):
        assert query.key in released
    guard.close()


def test_each_is_charged_to_who_asked_and_every_receipt_holds(path, tmp_path):
    key = SigningKey.generate()
    guard = Guard(table(), ledger=Book(path, key=key))
    people = [Asker(f"person {place % 3}", request=f"request {place}") for place in range(12)]

    def ask(place):
        return guard.ask(QUESTIONS[place], asker=people[place])

    answers = all_at_once(guard, range(12), ask)
    events = list(Book(path).events())
    reserved = {event.subject: event for event in events if event.kind == "reserve"}
    for person, answer in zip(people, answers, strict=True):
        assert reserved[answer.query.key].body["by"] == person.name
        assert reserved[answer.query.key].request == person.request
    spent = guard._session.balance.people
    for name in spent:
        paid = sum(a.cost for p, a in zip(people, answers, strict=True) if p.name == name)
        assert spent[name] == pytest.approx(paid * 1e6)
    assert set(spent) == {person.name for person in people}
    book = Book(path, key=key)
    export(book, tmp_path / "export")
    assert verify(tmp_path / "export", key.public, receipts=[a.receipt for a in answers]).whole
    for closed in (book, guard):
        closed.close()


def test_the_same_question_of_several_people_is_read_and_charged_once(path):
    guard = Guard(table(), ledger=path)
    answers = all_at_once(guard, ["share(x > 0.5)", "share(x > 0.25)", "share(0.5 < x)"])
    assert answers[0] == answers[2]
    assert sum(event.kind == "reserve" for event in Book(path).events()) == 2
    guard.close()


def test_a_refusal_is_told_to_who_asked_and_the_others_go_on(path, written):
    def never(balance, price):
        raise BudgetSpent("not for you")

    guard = Guard(table(), ledger=path)

    def ask(number):
        asker = Asker("bob", permit=never) if number in (7, 12) else Asker("ann")
        try:
            return guard.ask(f"share(x > {number / 50}, guess = 0.5)", asker=asker)
        except BudgetSpent as refused:
            return str(refused)

    told = all_at_once(guard, range(1, 21), ask)
    assert [answer == "not for you" for answer in told] == [number in (7, 12) for number in range(1, 21)]
    assert set(guard._session.balance.people) == {"ann"}
    assert guard._session.balance.open == {}
    assert ["reserve"] * 6 in written  # Everyone ahead of the first refusal.
    guard.close()


def test_a_mistake_in_one_question_is_nobody_elses(path):
    def broken(balance, price):
        raise ValueError("a mistake of its own")

    guard = Guard(table(), ledger=path)

    def ask(number):
        try:
            asker = Asker("bob", permit=broken) if number == 3 else Asker("ann")
            return guard.ask(f"share(x > {number / 50}, guess = 0.5)", asker=asker).value
        except ValueError:
            return None

    told = all_at_once(guard, range(1, 9), ask)
    assert [value is None for value in told] == [number == 3 for number in range(1, 9)]
    guard.close()


@pytest.mark.parametrize("fails", ["protected", "training"])
def test_what_cannot_be_read_together_is_read_one_by_one_and_fails_as_it_does_alone(path, monkeypatch, fails):
    sums_of_all, read = _together.sums_of_all, PreparedCode.read
    guard = Guard(table(), ledger=path)
    chosen = getattr(guard._setup, fails).rows

    def broken(rows, questions, squares):
        if rows is chosen:
            raise RuntimeError("a value of a row")
        return sums_of_all(rows, questions, squares)

    def failing(self, part):
        if "0.42" in self.question.text:
            raise RuntimeError("a value of a row")
        return read(self, part)

    def unlocked(rows, *arguments, **options):
        # Others may look at the account while the free rows are looked at.
        assert rows is not guard._setup.training.rows or not guard._session._lock._is_owned()
        return sums(rows, *arguments, **options)

    sums = Rows.sums
    monkeypatch.setattr(_together, "sums_of_all", broken)
    monkeypatch.setattr(PreparedCode, "read", failing)
    monkeypatch.setattr(Rows, "sums", unlocked)

    def ask(question):
        try:
            return guard.ask(question).value
        except QueryRejected as rejected:
            return str(rejected)

    questions = QUESTIONS[15:25]
    told = all_at_once(guard, questions, ask)
    failed = [question for question, said in zip(questions, told, strict=True) if isinstance(said, str)]
    assert failed == [question for question in questions if "0.42" in question]
    assert all("could not be computed" in said for said in told if isinstance(said, str))
    kinds = [event.kind for event in Book(path).events()]
    assert kinds.count("fail") == 1
    # Nothing is given back because of the rows; those behind the one that failed are asked anew.
    behind = len(questions) - 1 - questions.index(failed[0])
    assert kinds.count("return") == (behind if fails == "protected" else 0)
    assert guard._session.balance.open == {}
    guard.close()


def test_a_book_that_breaks_releases_nothing_to_anyone_and_lets_everyone_go(path, monkeypatch):
    guard = Guard(table(), ledger=path)
    append_all = Book.append_all

    def broken(self, entries, *, after):
        if entries[0].kind == "release":
            raise BookError("no space left")
        return append_all(self, entries, after=after)

    def ask(question):
        try:
            return guard.ask(question)
        except HoldfastError as error:
            return str(error)

    monkeypatch.setattr(Book, "append_all", broken)
    assert all_at_once(guard, QUESTIONS[:6], ask) == ["no space left"] * 6
    monkeypatch.setattr(Book, "append_all", append_all)
    assert not any(event.kind == "release" for event in Book(path).events())
    held = guard.spent
    assert held > 0
    answers = all_at_once(guard, QUESTIONS[:6])
    assert guard.spent == pytest.approx(held + sum(answer.cost for answer in answers), abs=1e-5)
    guard.close()


def test_where_another_process_asks_too_little_is_held_at_a_time(path, written):
    guard, other = Guard(table(), ledger=path), Guard(table(), ledger=path)
    other.ask("share(x > 0.9)")
    assert guard.spent > 0  # It has seen the other one.
    written.clear()
    all_at_once(guard, QUESTIONS[:10])
    assert max(map(len, written)) <= 2
    guard._session._others_reserved_at -= 61
    written.clear()
    all_at_once(guard, QUESTIONS[10:15])
    assert max(map(len, written)) == 5
    for closed in (guard, other):
        closed.close()


def test_who_is_answered_by_another_goes_without_a_turn():
    turns, told, may_end = Turns(), [], threading.Event()

    def person(number):
        with turns.take(number) as turn:
            told.append((number, turn.answered))
            may_end.wait(0.01)

    with turns.take("first"):
        people = []
        for number in range(4):
            people.append(threading.Thread(target=person, args=(number,)))
            people[-1].start()
            while len(turns.waiting()) <= number:
                time.sleep(0.001)
        second = turns.waiting()[1]
        turns.answer(second, "done")
        turns.answer(second, "again")  # They have left: nothing happens.
        people[1].join()
        assert told == [(1, "done")]
        assert [turn.asked for turn in turns.waiting()] == [0, 2, 3]
    for one in people:
        one.join()
    assert told[1:] == [(0, None), (2, None), (3, None)]
    with turns.take():
        assert turns.waiting() == []
