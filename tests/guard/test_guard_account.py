"""One account for several people, threads and processes: charged once, never twice, never lost."""

from __future__ import annotations

import multiprocessing
import threading

import numpy as np
import pytest

from holdfast import Guard
from holdfast.asking import _answering, _session, may_be_alive, reader
from holdfast.errors import BudgetSpent, QueryRejected
from holdfast.guard import Asker
from holdfast.ledger import Book, BookError, SigningKey, verify
from holdfast.ledger import export as export_book
from holdfast.strategies import PreparedCode


def table(rows=2000):
    return {"x": np.random.default_rng(3).random(rows)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book"


def kinds(path):
    book = Book(path)
    found = [event.kind for event in book.events()]
    book.close()
    return found


def _ask_all(path, thresholds):
    guard = Guard(table(), ledger=path)
    for threshold in thresholds:
        guard.share(f"x > {threshold}")
    guard.close()


def test_processes_that_ask_the_same_questions_at_once_pay_once_for_each(path):
    thresholds = [round(0.05 * i, 2) for i in range(1, 15)]
    context = multiprocessing.get_context("spawn")
    people = [context.Process(target=_ask_all, args=(path, thresholds)) for _ in range(3)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert [person.exitcode for person in people] == [0, 0, 0]
    guard = Guard(table(), ledger=path)
    assert kinds(path).count("release") == kinds(path).count("reserve") == len(thresholds)
    assert len(guard.history) == len(thresholds)
    assert guard.spent == pytest.approx(sum(answer.cost for answer in guard.history), abs=1e-9)
    guard.close()


def test_threads_that_ask_the_same_question_get_one_answer(path):
    guard, answers = Guard(table(), ledger=path), []
    people = [threading.Thread(target=lambda: answers.append(guard.share("x > 0.3"))) for _ in range(8)]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert len(answers) == 8
    assert len({answer.value for answer in answers}) == 1
    assert kinds(path) == ["open", "reserve", "release"]
    guard.close()


def test_a_question_whose_reader_was_stopped_is_read_again_and_charged_once(path, monkeypatch):
    guard = Guard(table(), ledger=path)

    def stopped(*settled, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(guard._session, "settle", stopped)
    with pytest.raises(KeyboardInterrupt):
        guard.share("x > 0.5")
    held = guard.spent  # The open reservation counts as spent.
    monkeypatch.undo()
    again = Guard(table(), ledger=path)
    answer = again.share("x > 0.5")
    assert 0 < answer.cost < held
    assert again.spent == pytest.approx(answer.cost, abs=2e-6)
    guard.close()
    again.close()


def test_a_name_and_a_request_are_recorded_and_a_request_is_for_one_question(path):
    guard = Guard(table(), ledger=path)
    ann = Asker(name="ann", request="r1")
    first = guard.ask("share(x > 0.5)", asker=ann)
    assert guard.ask("share(0.5 < x)", asker=ann) == first
    with pytest.raises(QueryRejected, match="made before") as refused:
        guard.ask("share(x > 0.6)", asker=ann)
    assert refused.value.spent == guard.spent
    guard.ask("share(x > 0.7)", asker=Asker(name="bob"))
    balance = guard._session.balance
    assert balance.spent_by("ann") == pytest.approx(first.cost * 1e6, abs=1)
    assert balance.spent_by("ann") + balance.spent_by("bob") == balance.micro_nats
    guard.close()


def test_permission_is_asked_before_anything_is_reserved(path):
    guard, seen = Guard(table(), ledger=path), []

    def never(balance, price):
        seen.append((balance.spent_by("ann"), price))
        raise BudgetSpent("not for you")

    with pytest.raises(BudgetSpent, match="not for you"):
        guard.ask("share(x > 0.5)", asker=Asker(name="ann", permit=never))
    assert kinds(path) == ["open"]
    assert seen[0][0] == 0
    assert seen[0][1] == pytest.approx(guard.cost_preview("share(x > 0.5)").at_most * 1e6, abs=1)
    guard.close()


def test_a_closed_account_answers_what_it_answered_and_nothing_else(path):
    one, two = Guard(table(), ledger=path), Guard(table(), ledger=path)
    known = one.share("x > 0.5")
    one.close_account()
    one.close_account()
    assert kinds(path).count("close") == 1
    assert two.share("x > 0.5") == known
    for guard in (one, two):
        with pytest.raises(BookError, match="closed"):
            guard.share("x > 0.6")
        guard.close()


def test_what_was_reserved_before_the_account_was_closed_is_settled_after(path, monkeypatch, tmp_path):
    key = SigningKey.generate()
    guard, read = Guard(table(), ledger=Book(path, key=key)), PreparedCode.read

    def closing(self, part):
        guard.close_account()
        return read(self, part)

    monkeypatch.setattr(PreparedCode, "read", closing)
    answer = guard.share("x > 0.5")
    assert kinds(path) == ["open", "reserve", "close", "release"]
    with pytest.raises(BookError, match="closed"):
        guard.share("x > 0.6")
    guard.close()
    again = Guard(table(), ledger=Book(path, key=key))
    assert again.spent == pytest.approx(answer.cost, abs=1e-9)
    assert again.share("x > 0.5") == answer
    export_book(again._session._book, tmp_path / "export")
    assert verify(tmp_path / "export", key.public, receipts=[answer.receipt]).whole
    again.close()


def test_an_account_that_is_closed_while_people_ask_answers_nothing_reserved_later(path):
    guard, told, refusals = Guard(table(), ledger=path), [], []

    def ask(number):
        try:
            told.append(guard.share(f"x > {number / 100}"))
        except BookError as refused:
            refusals.append(str(refused))

    people = [threading.Thread(target=ask, args=(number,)) for number in range(1, 25)]
    for person in people[:12]:
        person.start()
    guard.close_account()
    for person in people[12:]:
        person.start()
    for person in people:
        person.join()
    found = kinds(path)
    assert "reserve" not in found[found.index("close") :]
    assert found.count("release") == found.count("reserve") == len(told) == 24 - len(refusals)
    assert all("closed" in refusal for refusal in refusals)
    guard.close()


def test_a_long_account_starts_from_its_checkpoint_and_forgets_nothing(path, monkeypatch, tmp_path):
    monkeypatch.setattr(_session, "_CHECKPOINT_EVERY", 10)
    monkeypatch.setattr(_answering, "_REMEMBERED", 3)
    key = SigningKey.generate()
    guard = Guard(table(), ledger=Book(path, key=key))
    answers = [guard.share(f"x > {i / 20}") for i in range(1, 20)]
    spent, left = guard.spent, guard.left
    assert len(guard._answering._recent) <= 4
    assert guard.history == tuple(answers)
    guard.close()
    assert kinds(path).count("checkpoint") == 3
    book = Book(path, key=key)
    read = []
    monkeypatch.setattr(
        Book,
        "events",
        lambda self, after=0: read.append(after) or iter([line.event() for line in self.lines(after)]),
    )
    again = Guard(table(), ledger=book)
    assert read[0] > 30  # The start read only what came after the last checkpoint.
    assert (again.spent, again.left) == (spent, left)
    assert again.share("x > 0.05") == answers[0]
    assert export_book(book, tmp_path / "export") == 1 + 2 * 19 + 3
    assert verify(tmp_path / "export", key.public, receipts=[answer.receipt for answer in answers]).whole
    again.close()


def test_readings_are_known_to_be_alive_until_they_end():
    with reader() as name:
        assert may_be_alive(name)
        host, process, rest = name.split(":")
        assert may_be_alive(f"{'0' * 12}:{process}:{rest}")  # Elsewhere: nobody can tell.
        assert may_be_alive(f"{host}:1:{rest}")  # Another process that runs.
    assert not may_be_alive(name)
    dead = multiprocessing.get_context("spawn").Process(target=int)
    dead.start()
    dead.join()
    assert not may_be_alive(f"{host}:{dead.pid}:{rest}")
