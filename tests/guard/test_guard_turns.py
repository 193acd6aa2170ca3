"""Questions that come together pass through one after the other, as if they had been asked so."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from holdfast.guard._turns import Turns

from holdfast import Guard
from holdfast.errors import BudgetSpent, QueryRejected
from holdfast.guard import Asker
from holdfast.guard._code import PreparedCode
from holdfast.ledger import Balance, Book, BookError, SigningKey, export, verify

QUESTIONS = [
    *(f"share(x > {limit / 50}, guess = {1 - limit / 50 + 0.02 * (limit % 3)})" for limit in range(1, 30)),
    *(f"share(x < {limit / 50})" for limit in range(30, 40)),
    *(f"mean(x * x, 0, 1, where = x > {limit / 50})" for limit in range(1, 6)),
    "quantile(x, 0.5)",
]


def table(rows=2000):
    return {"x": np.random.default_rng(3).random(rows)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book"


@pytest.fixture
def written(monkeypatch):
    """How many lines each transaction wrote."""
    sizes, append_all = [], Book.append_all

    def counted(self, entries, *, after):
        sizes.append(len(entries))
        return append_all(self, entries, after=after)

    monkeypatch.setattr(Book, "append_all", counted)
    return sizes


def asked_together(guard, questions, threads=6):
    with ThreadPoolExecutor(threads) as people:
        return list(people.map(guard.ask, questions))


def asked_in_turn(texts, **promise):
    guard = Guard(table(), **promise)
    return [guard.ask(text) for text in texts]


# With a promised error questions pass one by one; those without one that wait are answered together
# (test_guard_waiting.py).
PROMISED = {"error": 0.6}


def as_written(path):
    """The questions of a book in the order of their reservations, with the guess each came with."""
    book = Book(path)
    guesses = {question.partition(", guess")[0]: question for question in QUESTIONS}
    texts = [event.body["text"] for event in book.events() if event.kind == "reserve"]
    book.close()
    return [guesses.get(text.removesuffix(")"), text) for text in texts]


def test_together_they_get_the_answers_they_would_have_got_one_by_one(path, written):
    guard = Guard(table(), ledger=path, **PROMISED)
    together = {str(answer.query): answer for answer in asked_together(guard, QUESTIONS)}
    guard.close()
    order = as_written(path)
    assert len(order) == len(QUESTIONS)
    for answer in asked_in_turn(order, **PROMISED):
        assert together[str(answer.query)] == answer
    assert written.count(2) > len(QUESTIONS) / 4  # Settled and reserved in one transaction.


def test_the_comparison_notices_a_reservation_against_the_account_as_it_was(path, monkeypatch):
    monkeypatch.setattr(Balance, "after", lambda self, event: self)
    guard = Guard(table(), ledger=path, **PROMISED)
    together = {str(answer.query): answer for answer in asked_together(guard, QUESTIONS)}
    guard.close()
    assert any(
        together[str(answer.query)] != answer for answer in asked_in_turn(as_written(path), **PROMISED)
    )


def test_rows_are_read_only_while_the_reservation_is_on_disk_and_no_other_is_open(path, monkeypatch):
    read, seen = PreparedCode.read, []

    def watched(self, part):
        book, balance = Book(path), Balance()
        for event in book.events():
            balance.apply(event)
        book.close()
        seen.append([body["subject"] for body in balance.open.values()] == [self.question.key])
        return read(self, part)

    monkeypatch.setattr(PreparedCode, "read", watched)
    guard = Guard(table(), ledger=path, **PROMISED)
    asked_together(guard, QUESTIONS)
    guard.close()
    assert seen == [True] * len(QUESTIONS)


def test_two_guards_with_threads_each_share_one_account(path, tmp_path, written):
    key = SigningKey.generate()
    guards = [Guard(table(), ledger=Book(path, key=key), **PROMISED) for _ in range(2)]
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(lambda guard: asked_together(guard, QUESTIONS, threads=3), guards)
    assert first == second  # Whoever read it: each question has one answer.
    book = Book(path, key=key)
    export(book, tmp_path / "export")
    assert verify(tmp_path / "export", key.public, receipts=[a.receipt for a in first]).whole
    events = list(book.events())
    assert sum(event.kind == "release" for event in events) == len(QUESTIONS)
    assert sum(event.kind == "reserve" for event in events) == len(QUESTIONS)
    assert max(written) == 2
    for closed in (book, *guards):
        closed.close()


def test_a_refusal_is_told_to_who_asked_and_nothing_is_written_for_it(path):
    def never(balance, price):
        raise BudgetSpent("not for you")

    guard = Guard(table(), ledger=path)

    def ask(number):
        asker = Asker("bob", permit=never) if number % 3 == 0 else Asker("ann")
        try:
            return guard.ask(f"share(x > {number / 50}, guess = 0.5)", asker=asker)
        except BudgetSpent as refused:
            return str(refused)

    with ThreadPoolExecutor(6) as people:
        told = list(people.map(ask, range(1, 31)))
    assert [answer == "not for you" for answer in told] == [number % 3 == 0 for number in range(1, 31)]
    assert set(guard._session.balance.people) == {"ann"}
    assert guard._session.balance.open == {}
    guard.close()


def test_a_question_that_fails_lets_the_others_go_on(path, monkeypatch):
    read = PreparedCode.read

    def failing(self, part):
        if "0.5" in self.question.text:
            raise RuntimeError("a value of a row")
        return read(self, part)

    monkeypatch.setattr(PreparedCode, "read", failing)
    guard = Guard(table(), ledger=path)

    def ask(question):
        try:
            return guard.ask(question).value
        except QueryRejected as rejected:
            return str(rejected)

    with ThreadPoolExecutor(6) as people:
        told = list(people.map(ask, QUESTIONS[20:30]))
    failed = [said for said in told if isinstance(said, str)]
    assert len(failed) == sum("0.5" in question.partition(",")[0] for question in QUESTIONS[20:30]) > 0
    assert all("could not be computed" in said and "a value" not in said for said in failed)
    assert guard._session.balance.open == {}
    guard.close()


def test_a_book_that_breaks_while_settling_releases_nothing_and_frees_the_turn(path, monkeypatch):
    guard = Guard(table(), ledger=path)
    append_all = Book.append_all

    def broken(self, entries, *, after):
        if entries[0].kind == "release":
            raise BookError("no space left")
        return append_all(self, entries, after=after)

    monkeypatch.setattr(Book, "append_all", broken)
    with pytest.raises(BookError, match="no space"):
        guard.ask("share(x > 0.5)")
    monkeypatch.setattr(Book, "append_all", append_all)
    held = guard.spent
    assert held > 0
    answer = guard.ask("share(x > 0.25)")
    assert guard.spent == pytest.approx(held + answer.cost, abs=2e-6)
    guard.close()


def test_turns_come_in_the_order_of_the_queue_and_one_at_a_time():
    turns, began, now = Turns(), [], []

    def person(number):
        with turns.take(number):
            now.append(number)
            began.append(number)
            with turns.take("inner"):  # Who has the turn may take another inside it.
                time.sleep(0.001)
            assert now == [number]
            now.clear()

    with turns.take("first"):
        people = []
        for number in range(8):
            people.append(threading.Thread(target=person, args=(number,)))
            people[-1].start()
            while turns.next() is None or len(turns._waiting) <= number:
                time.sleep(0.001)
        assert turns.next().asked == 0
    for one in people:
        one.join()
    assert began == list(range(8))
    assert turns.next() is None


def test_who_is_interrupted_while_waiting_leaves_the_queue():
    turns, may_end = Turns(), threading.Event()

    def interrupt(*arguments):
        raise KeyboardInterrupt

    def slow():
        with turns.take():
            may_end.wait()

    other = threading.Thread(target=slow)
    other.start()
    while turns._holder is None:
        time.sleep(0.001)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt), turns.take():
            pass
    finally:
        signal.signal(signal.SIGALRM, before)
    assert turns.next() is None
    may_end.set()
    other.join()
    with turns.take():
        pass
