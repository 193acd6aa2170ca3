"""A process that ends between reserving and recording: its question is read again, once, as planned."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

from holdfast import Guard
from holdfast.asking import Session, _clean_room, _records, _session
from holdfast.errors import BudgetSpent
from holdfast.guard._questions import Questions
from holdfast.ledger import Balance, Book, BookError, Closed, export, verify
from holdfast.strategies import _code

ROWS = 6_000
QUESTION = "mean(x, 0, 1)"


@pytest.fixture
def table(seed):
    rng = np.random.default_rng(seed)
    return {"x": rng.random(ROWS), "y": rng.random(ROWS)}


class Ended(BaseException):
    """The end of a process, as its code sees it: nothing more is written."""


@contextlib.contextmanager
def process(table, place, *, dies=True, **terms):
    """A guard whose process ends when it would record its first answer; ``dies=False``: one that lives."""
    guard = Guard(table, ledger=place, **terms)
    if not dies:
        yield guard
        guard.close()
        return

    def die(*arguments, **options):
        raise Ended

    guard._session.settle = die
    with contextlib.suppress(Ended):
        yield guard
    guard.close()


def assert_same(answer, other):
    """The same answer; prices are rounded up on a running total, so they may differ by a micro-nat."""
    assert answer.cost == pytest.approx(other.cost, abs=2e-6)
    assert {**answer.to_dict(), "cost": 0, "certificate": 0} == {
        **other.to_dict(),
        "cost": 0,
        "certificate": 0,
    }


def kinds(guard):
    return [event.kind for event in guard._book.events()]


def test_a_promised_account_outlives_an_interruption(table, tmp_path):
    with process(table, tmp_path / "book", error=0.05) as first:
        first.ask(QUESTION)
    with process(table, tmp_path / "other", dies=False, error=0.05) as whole:
        answer, left = whole.ask(QUESTION), float(whole.left)
    again = Guard(table, ledger=tmp_path / "book", error=0.05)
    assert again.history == (answer,)
    assert float(again.left) == left
    assert kinds(again) == ["open", "reserve", "again", "release"]
    assert again.ask(QUESTION) == answer
    assert kinds(again) == ["open", "reserve", "again", "release"]


def test_the_certificate_says_what_is_assumed_then_and_only_then(table, tmp_path):
    with process(table, tmp_path / "book") as first:
        before = first.certificate
        first.ask(QUESTION)
    after = Guard(table, ledger=tmp_path / "book").certificate
    (added,) = set(after.assumed) - set(before.assumed)
    assert "interrupted" in added
    assert after.numbers["read again after an interruption"] == 1
    assert "read again after an interruption" not in before.numbers


@pytest.mark.parametrize(
    "questions",
    [
        ["share(x > 0.3)", "mean(y, 0, 1)", "quantile(x, 0.5)", "correlation(x, y, 0, 1, 0, 1)", "cdf(y)"],
        ["share(x > 0.3, guess = 0.2)", "share(x > 0.3, where = y > 0.5)", "std(x, 0, 1)"],
    ],
    ids=["without guesses", "with guesses"],
)
def test_a_session_in_which_every_question_is_interrupted_is_the_same_session(table, tmp_path, questions):
    """Answers, prices and what is learned: nothing tells that a process ended before each record."""
    for place, question in enumerate(questions):
        with process(table, tmp_path / "book") as interrupted:
            interrupted.ask(question)
        whole = Guard(table, ledger=tmp_path / "whole")
        answer = whole.ask(question)
        # Who asks again may bring another guess; the plan that was reserved is what is read.
        again = Guard(table, ledger=tmp_path / "book")
        bare = question.split(", guess")[0].removesuffix(")") + ")"
        retried = again.ask(bare) if place % 2 else again.history[-1]
        assert retried.to_dict() == answer.to_dict()
        assert again.spent == whole.spent
        assert again.balance.learned == whole.balance.learned
        again.close()
        whole.close()


def test_asking_an_interrupted_question_with_another_guess_uses_the_reserved_plan(
    table, tmp_path, monkeypatch
):
    with process(table, tmp_path / "book") as first:
        first.ask("share(x > 0.3, guess = 0.2)")
    monkeypatch.setattr(Questions, "of_reservation", lambda questions, interrupted: None)
    again = Guard(table, ledger=tmp_path / "book")
    answer = again.ask("share(x > 0.3, guess = 0.7)")
    assert answer == Guard(table).ask("share(x > 0.3, guess = 0.2)")


def test_questions_in_between_count_it_at_its_worst_and_it_keeps_its_plan(table, tmp_path, monkeypatch):
    with process(table, tmp_path / "book") as first:
        first.ask(QUESTION)
    again = Guard.__new__(Guard)
    with monkeypatch.context() as elsewhere:  # A machine that cannot tell whether the first one lives.
        elsewhere.setattr(_session, "may_be_alive", lambda name: True)
        again.__init__(table, ledger=tmp_path / "book")
        worst = again.spent
        between = again.ask("share(y > 0.4)")
        assert between.certificate.numbers["nats spent before"] == pytest.approx(worst)
        assert between.certificate.numbers["question"] == 2
    taken_up = again.ask(QUESTION)
    assert_same(taken_up, Guard(table).ask(QUESTION))
    assert again.spent == pytest.approx(between.cost + taken_up.cost, abs=2e-6)
    learned = [event.body.get("learned") for event in again._book.events() if event.kind == "release"]
    assert learned[0] is not None
    assert learned[1] is None  # What was learned in between stays.
    assert again.balance.learned == learned[0]


def test_a_second_interruption_costs_the_worst_price_and_no_more(table, tmp_path, monkeypatch):
    with process(table, tmp_path / "book") as first:
        first.ask(QUESTION)
    with monkeypatch.context() as deadly:
        deadly.setattr(Session, "settle", lambda *arguments, **options: (_ for _ in ()).throw(Ended))
        with pytest.raises(Ended):
            Guard(table, ledger=tmp_path / "book")
    again = Guard(table, ledger=tmp_path / "book")
    assert kinds(again) == ["open", "reserve", "again", "fail"]
    reserved = again._book.at(2).body["micro_nats"]
    assert again.balance.micro_nats == reserved
    assert again.balance.open == {}
    answer = again.ask(QUESTION)
    assert answer.certificate.numbers["question"] == 2
    assert again.balance.micro_nats == reserved + round(answer.cost * 1e6)


def test_a_plan_that_comes_out_otherwise_is_not_read(table, tmp_path, monkeypatch):
    """As after an upgrade: the worst price is due, and nothing is underpaid."""
    with process(table, tmp_path / "book") as first:
        first.ask(QUESTION)
    reads, best = [], _code.best_half_cell
    monkeypatch.setattr(_code.PreparedCode, "read", lambda *arguments: reads.append(1))
    monkeypatch.setattr(_code, "best_half_cell", lambda *a, **o: best(*a, **o) * (1 + 1e-9))
    again = Guard(table, ledger=tmp_path / "book")
    assert kinds(again) == ["open", "reserve", "again", "fail"]
    assert not reads
    assert again.balance.micro_nats == again._book.at(2).body["micro_nats"]


def test_rows_that_changed_are_not_read_again(table, tmp_path):
    with process(table, tmp_path / "book") as first:
        first.ask(QUESTION)
    with pytest.raises(BookError, match="other terms"):
        Guard({**table, "x": table["x"] / 2}, ledger=tmp_path / "book")
    book, balance = Book(tmp_path / "book"), Balance()
    for event in book.events():
        balance.apply(event)
    assert len(balance.open) == 1


def attack(table, place, monkeypatch, counts):
    """Learn the first bits of the table from which questions end their process because memory runs out.

    Returns how many questions did, and the account.
    """
    bits, kills = [], [0]
    monkeypatch.setattr(_records, "memory_kills", lambda: ["start", kills[0] if counts else 0])
    monkeypatch.setattr(_clean_room, "_count_kills", lambda: ["start", kills[0] if counts else 0])
    for row in range(8):
        one = int(table["x"][row] > 0.5)
        with process(table, place, dies=bool(one)) as guard:
            guard.ask(f"share(x > {row / 100!r})")
        kills[0] += one
        bits.append(one)
    guard = Guard(table, ledger=place)
    return sum(bits), guard


@pytest.mark.parametrize("counts", [True, False], ids=["paid", "the twin that reads again free of charge"])
def test_a_process_that_dies_of_memory_is_a_failure_at_its_price(table, tmp_path, monkeypatch, counts):
    deaths, guard = attack(table, tmp_path / "book", monkeypatch, counts)
    assert deaths >= 2
    settled = [event for event in guard._book.events() if event.kind in ("release", "fail")]
    failures = [event for event in settled if event.kind == "fail"]
    assert len(failures) == (deaths if counts else 0)
    for event in failures:
        reserved = guard._book.at(event.body["reservation"]).body
        assert math.log(8) * 1e6 < event.body["micro_nats"] <= reserved["micro_nats"]


def test_a_model_is_not_read_again(table, tmp_path):
    """Its code may end the process because of what it sees."""
    labels = {**table, "late": (table["x"] > 0.5).astype(int)}

    class Model:
        def predict(self, frame):
            return np.ones(len(frame), dtype=int)

    with process(labels, tmp_path / "book") as first:
        first.score(Model(), target="late", guess=0.5)
    again = Guard(labels, ledger=tmp_path / "book")
    assert kinds(again) == ["open", "reserve"]
    assert len(again.balance.open) == 1


def test_interrupted_predictions_are_read_again_when_somebody_sends_them_again(table, tmp_path):
    labels = {**table, "late": (table["x"] > 0.5).astype(int)}
    predictions = np.ones(ROWS, dtype=int)
    with process(labels, tmp_path / "book") as first:
        first.score(predictions, target="late", guess=0.5)
    again = Guard(labels, ledger=tmp_path / "book")
    assert kinds(again) == ["open", "reserve"]
    answer = again.score(predictions, target="late", guess=0.5)
    assert kinds(again) == ["open", "reserve", "again", "release"]
    assert answer.to_dict() == Guard(labels).score(predictions, target="late", guess=0.5).to_dict()


TERMS = {"strategy": "typical-gaussian", "queries": 5}


def test_with_noise_an_interruption_does_not_end_the_account(table, tmp_path):
    with process(table, tmp_path / "book", **TERMS) as first:
        first.ask(QUESTION)
    again = Guard(table, ledger=tmp_path / "book", **TERMS)
    assert kinds(again) == ["open", "reserve", "again", "release"]
    assert len(again.history) == 1
    again.ask("share(y > 0.5)")


def test_with_noise_a_second_interruption_ends_it(table, tmp_path, monkeypatch):
    with process(table, tmp_path / "book", **TERMS) as first:
        first.ask(QUESTION)
    with monkeypatch.context() as deadly:
        deadly.setattr(Session, "settle", lambda *arguments, **options: (_ for _ in ()).throw(Ended))
        with pytest.raises(Ended):
            Guard(table, ledger=tmp_path / "book", **TERMS)
    again = Guard(table, ledger=tmp_path / "book", **TERMS)
    with pytest.raises(Closed):
        again.ask("share(y > 0.5)")


@pytest.mark.parametrize("learned_since", [False, True])
def test_a_claim_is_read_again_while_nothing_was_learned_since(table, tmp_path, monkeypatch, learned_since):
    claim = "mean(x, 0, 1) > 0.2"
    with process(table, tmp_path / "book") as first:
        first.discover(claim)
    if learned_since:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(_session, "may_be_alive", lambda name: True)
            Guard(table, ledger=tmp_path / "book").ask("share(y > 0.4)")
    again = Guard(table, ledger=tmp_path / "book")
    assert again.balance.open == {}
    if learned_since:
        assert kinds(again)[-1] == "fail"
        assert again.discoveries == ()
    else:
        assert again.discoveries == (Guard(table).discover(claim),)


def test_a_book_reads_nothing_a_third_time(table, tmp_path):
    with process(table, tmp_path / "book") as first:
        first.ask(QUESTION)
    Guard(table, ledger=tmp_path / "book").close()
    book = Book(tmp_path / "book")
    events = list(book.events())
    again = next(event for event in events if event.kind == "again")
    balance = Balance()
    for event in events[:3]:
        balance.apply(event)
    with pytest.raises(BookError, match="does not fit"):
        balance.apply(again)
    export(book, tmp_path / "export")
    assert verify(tmp_path / "export").problems == ()


@pytest.mark.parametrize("change", [{"steps": 1}, {"micro_nats": -1}, {"confirmed": 2}], ids=str)
def test_a_book_whose_reservation_claims_another_account_is_refused(table, change):
    guard = Guard(table)
    guard.ask(QUESTION)
    balance = Balance()
    with pytest.raises(BookError, match="does not fit"):  # noqa: PT012
        for event in guard._book.events():
            if event.kind == "reserve":
                event.body["before"].update(change)
            balance.apply(event)


def test_a_refusal_reserves_nothing_and_leaves_nothing_to_read_again(table, tmp_path):
    guard = Guard(table, ledger=tmp_path / "book", error=0.05)
    with pytest.raises(BudgetSpent):
        guard.ask("quantile(x, 0.5)", nats=1e6)
    assert kinds(guard) == ["open"]
