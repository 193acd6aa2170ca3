"""Questions that wait for one turn share scans and writes, and each has the account that those before it
leave."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context

import numpy as np
import pytest

from holdfast import Guard
from holdfast.asking import Session
from holdfast.coding import Account
from holdfast.engines import Rows
from holdfast.errors import BudgetSpent, HoldfastError, QueryRejected
from holdfast.guard import Asker
from holdfast.ledger import Balance, Book, BookError, SigningKey, export, verify
from holdfast.strategies import PreparedCode
from waiting import wait_until

QUESTIONS = [
    *(f"share(x > {limit / 50}, guess = {1 - limit / 50 + 0.02 * (limit % 3)})" for limit in range(1, 20)),
    *(f"share(x < {limit / 50})" for limit in range(20, 30)),
    *(f"mean(x * x, 0, 1, where = x > {limit / 50})" for limit in range(1, 6)),
    "quantile(x, 0.5)",
    *(f"mean(x, 0, 1, where = x > {limit / 50}, guess = 0.7)" for limit in range(10, 16)),
]
FEW = QUESTIONS[::3]
# No more than these share scans: a crash costs the worst prices of all that were being read.
MOST_JOINED = 16
# With a promised error questions pass one by one: to prepare one twice takes longer than to read it.
PROMISED = {"error": 0.6}


def table(rows=2000):
    return {"x": np.random.default_rng(3).random(rows)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "book"


def all_at_once(guard, questions, ask=None):
    """Everyone asks while somebody else has the turn. Returns the results in the order of the questions."""
    ask = ask or guard.ask
    with ThreadPoolExecutor(len(questions)) as people:
        with guard._session.turn():
            told = []
            for place, question in enumerate(questions):
                told.append(people.submit(ask, question))
                wait_until(lambda place=place: len(guard._session.waiting) > place)
        return [one.result(timeout=60) for one in told]


def said_by(ask):
    """The same, where a refusal is an answer too."""

    def person(*asked):
        try:
            return ask(*asked)
        except (HoldfastError, ValueError) as refused:
            return str(refused)

    return person


def events_of(path):
    book = Book(path)
    events = list(book.events())
    book.close()
    return events


def on_disk(path):
    balance = Balance()
    for event in events_of(path):
        balance.apply(event)
    return balance


def as_written(path, questions=QUESTIONS):
    """The questions of a book in the order of their releases, with the guess each came with."""
    events = events_of(path)
    texts = {event.sequence: event.body["text"] for event in events if event.kind == "reserve"}
    order = [texts[event.body["reservation"]] for event in events if event.kind == "release"]
    asked = {text.partition(", guess")[0].removesuffix(")"): text for text in questions}
    return [asked[text.partition(", guess")[0].removesuffix(")")] for text in order]


def one_by_one(questions, **promise):
    guard = Guard(table(), **promise)
    return {str(answer.query): answer for answer in map(guard.ask, questions)}, guard


def told_by(answers):
    return {str(answer.query): answer for answer in answers}


def test_they_get_the_answers_and_prices_they_would_have_got_one_by_one(path, written):
    guard = Guard(table(), ledger=path)
    together = told_by(all_at_once(guard, QUESTIONS))
    assert written.count(["reserve"] * MOST_JOINED) >= 2
    assert len(written) < len(QUESTIONS) / 3
    alone, expected = one_by_one(as_written(path))
    assert together == alone
    assert guard.spent == expected.spent
    assert guard.balance.to_dict() == expected.balance.to_dict()  # With what was learned, to the last digit.
    guard.close()


def test_one_thread_that_asks_for_several_people_gives_each_what_they_would_have_alone(path, written):
    guard = Guard(table(), ledger=path)
    told = guard.answer_apart([(question, Asker()) for question in QUESTIONS])
    assert [len(kinds) for kinds in written].count(MOST_JOINED) >= 2
    alone, expected = one_by_one(as_written(path))
    assert told_by(told) == alone
    assert guard.balance.to_dict() == expected.balance.to_dict()
    guard.close()


def test_each_refused_question_of_a_thread_has_its_own_error_with_its_own_traceback(path):
    guard, told = Guard(table(), ledger=path), []
    person = ContextVar("person", default="nobody")
    guard.on_answer(lambda answer: told.append((person.get(), str(answer.query))))

    def no_more(balance, price):
        raise BudgetSpent("no share is left", asked=0, spent=0, left=0)

    def asker(name, permit=None):
        context = copy_context()
        context.run(person.set, name)
        return Asker(name, permit=permit, context=context)

    first, again, mistake, refused, last = guard.answer_apart(
        [
            ("share(x > 0.1)", asker("ann")),
            ("share(x > 0.1)", asker("bob")),
            ("share(nothing > 0.1)", asker("cem")),
            ("share(x > 0.2)", asker("dee", no_more)),
            ("share(x > 0.3)", asker("eve")),
        ]
    )
    assert first == again == guard.ask("share(x > 0.1)")
    assert isinstance(mistake, QueryRejected)
    assert isinstance(refused, BudgetSpent)
    assert last == guard.ask("share(x > 0.3)")
    assert told == [("ann", "share(x > 0.1)"), ("eve", "share(x > 0.3)")]
    assert [event.body.get("by") for event in events_of(path) if event.kind == "reserve"] == ["ann", "eve"]
    guard.close()


@pytest.mark.parametrize("kept", ["all", "spent", "learned", "place"])
def test_the_comparison_notices_an_account_that_stands_still_between_them(path, monkeypatch, kept):
    """The twin: the next one is answered from an account without what the last one cost, or taught."""
    after = Account.after

    def still(self, micro_nats, **options):
        if kept == "all":
            return self
        changed = {"spent": {"micro_nats": 0}, "learned": {"learned": self.learned}, "place": {}}[kept]
        later = after(self, **{"micro_nats": micro_nats, **options, **changed})
        object.__setattr__(later, "steps", self.steps if kept == "place" else later.steps)
        return later

    alone = Guard(table())
    guard = Guard(table(), ledger=path)
    monkeypatch.setattr(Account, "after", still)
    together = told_by(all_at_once(guard, FEW[::2]))
    monkeypatch.undo()
    assert together != told_by(alone.ask(question) for question in as_written(path))
    guard.close()


def test_with_a_promised_error_they_pass_one_by_one(path, written):
    guard = Guard(table(), ledger=path, **PROMISED)
    together = told_by(all_at_once(guard, FEW))
    assert together == one_by_one(as_written(path), **PROMISED)[0]
    assert max(map(len, written)) == 1
    guard.close()


def test_rows_are_read_only_while_the_reservations_of_all_are_on_disk_and_no_other_is_open(path, monkeypatch):
    guard = Guard(table(), ledger=path)
    database, read = guard._setup.protected.rows._database, PreparedCode.read
    ask, scans, together, alone, parts = database.ask, [], [], [], []

    def open_now():
        return [body["subject"] for body in on_disk(path).open.values()]

    def scan(*asked):
        scans.append(open_now())
        assert scans[-1]
        return ask(*asked)

    def watched(self, part):
        assert self.question.key in open_now()
        if self.question.key in part.moments:
            assert self.question.key in scans[-1]  # It was on disk when the rows were read, too.
            together.append(self.question.key)
            if not any(part is earlier for earlier in parts):
                parts.append(part)
        else:
            alone.append(self.question.key)
            assert not (self.reading.by_sums and len(open_now()) > 1)
        return read(self, part)

    monkeypatch.setattr(database, "ask", scan)
    monkeypatch.setattr(PreparedCode, "read", watched)
    all_at_once(guard, QUESTIONS)
    guard.close()
    # What is read off sums shares scans; what is read off cells has a scan of its own.
    assert len(together) + len(alone) == len(QUESTIONS)
    assert len(parts) < len(together) / 3
    assert len(scans) < len(QUESTIONS)


def test_nothing_is_answered_before_its_lines_are_on_disk(path):
    guard = Guard(table(), ledger=path)

    def ask(question):
        answer = guard.ask(question)
        return answer.query, {event.subject for event in events_of(path) if event.kind == "release"}

    for query, released in all_at_once(guard, QUESTIONS[:12], ask):
        assert query.key in released
    guard.close()


def test_each_question_is_charged_to_the_person_who_asked_and_every_receipt_holds(path, tmp_path):
    key = SigningKey.generate()
    guard = Guard(table(), ledger=Book(path, key=key))
    people = [Asker(f"person {place % 3}", request=f"request {place}") for place in range(12)]

    def ask(place):
        return guard.ask(QUESTIONS[place], asker=people[place])

    answers = all_at_once(guard, range(12), ask)
    reserved = {event.subject: event for event in events_of(path) if event.kind == "reserve"}
    for person, answer in zip(people, answers, strict=True):
        assert reserved[answer.query.key].body["by"] == person.name
        assert reserved[answer.query.key].request == person.request
    spent = guard.balance.people
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
    assert sum(event.kind == "reserve" for event in events_of(path)) == 2
    guard.close()


def never(balance, price):
    raise BudgetSpent("not for you")


def broken(balance, price):
    raise ValueError("a mistake of its own")


@pytest.mark.parametrize(
    ("permit", "said", "others"),
    [
        (never, "not for you", (7, 12)),
        (never, "not for you", (1,)),
        (never, "not for you", range(1, 21)),
        (broken, "a mistake of its own", (7, 20)),
    ],
)
def test_a_refusal_and_a_mistake_reach_only_the_person_who_asked(path, permit, said, others):
    guard = Guard(table(), ledger=path)

    def ask(number):
        asker = Asker("bob", permit=permit) if number in others else Asker("ann")
        return guard.ask(f"share(x > {number / 50}, guess = 0.5)", asker=asker)

    told = all_at_once(guard, range(1, 21), said_by(ask))
    assert [answer == said for answer in told] == [number in others for number in range(1, 21)]
    assert set(guard.balance.people) == ({"ann"} if len(others) < 20 else set())
    assert guard.balance.open == {}
    reserved = [event for event in events_of(path) if event.kind == "reserve"]
    assert len(reserved) == 20 - len(others)
    guard.close()


def test_those_ahead_of_a_refusal_still_share_their_writes(path, written):
    guard = Guard(table(), ledger=path)

    def ask(number):
        asker = Asker("bob", permit=never) if number == 7 else Asker("ann")
        return guard.ask(f"share(x > {number / 50}, guess = 0.5)", asker=asker)

    all_at_once(guard, range(1, 21), said_by(ask))
    assert max(kinds.count("reserve") for kinds in written) >= 6
    guard.close()


def test_the_reader_does_not_get_the_refusal_of_another(path, monkeypatch):
    """Another process answered the first one's question meanwhile, so the first that is left is refused."""
    guard, other = Guard(table(), ledger=path), Guard(table(), ledger=path)
    read, once = Session.read, []

    def meanwhile(session):
        if session is guard._session and not once and len(session.waiting) > 1:
            once.append(other.ask("share(x > 0.02, guess = 0.5)"))
            once.append(other.ask("share(x > 0.04, guess = 0.5)"))
        read(session)

    def ask(number):
        asker = Asker("bob", permit=never) if number == 3 else Asker("ann")
        return guard.ask(f"share(x > {number / 50}, guess = 0.5)", asker=asker)

    monkeypatch.setattr(Session, "read", meanwhile)
    told = all_at_once(guard, range(1, 6), said_by(ask))
    assert [answer == "not for you" for answer in told] == [False, False, True, False, False]
    assert told[:2] == once
    for closed in (guard, other):
        closed.close()


@pytest.mark.parametrize("moment", ["before the account is taken", "after it"])
def test_a_foreign_question_before_the_reservations_is_paid_for_by_all_of_them(path, monkeypatch, moment):
    """Places are used once, and every question counts all that was reserved before it."""
    guard, other = Guard(table(), ledger=path), Guard(table(), ledger=path)
    reserve, once = Session.reserve, []

    def meanwhile(session, asked, **options):
        if session is guard._session and not once:
            once.append(other.ask("share(x > 0.99)"))
            if moment == "after it":
                session.read()
        return reserve(session, asked, **options)

    monkeypatch.setattr(Session, "reserve", meanwhile)
    answers = all_at_once(guard, FEW)
    numbers = [answer.certificate.numbers for answer in (*once, *answers)]
    assert sorted(promise["question"] for promise in numbers) == list(range(1, len(FEW) + 2))
    paid = 0.0
    for answer in sorted((*once, *answers), key=lambda one: one.certificate.numbers["question"]):
        assert answer.certificate.numbers["nats spent before"] >= paid - 2e-6
        paid += answer.cost
    assert guard.spent == pytest.approx(paid, abs=2e-6)
    for closed in (guard, other):
        closed.close()


def test_the_check_of_places_notices_an_account_from_before_the_foreign_question(path, monkeypatch):
    """The twin: those that are joined go on from the account as it was when they were collected."""
    guard, other = Guard(table(), ledger=path), Guard(table(), ledger=path)
    reserve, once = Session.reserve, []

    def stale(session, asked, **options):
        if session is not guard._session or once:
            return reserve(session, asked, **options)
        before = session.account
        once.append(other.ask("share(x > 0.99)"))
        reserved = reserve(session, asked, **options)
        for one in reserved.values():
            object.__setattr__(one, "before", before if one.before is not None else None)
        return reserved

    monkeypatch.setattr(Session, "reserve", stale)
    answers = all_at_once(guard, FEW)
    places = [answer.certificate.numbers["question"] for answer in (*once, *answers)]
    assert len(set(places)) < len(places)
    for closed in (guard, other):
        closed.close()


@pytest.mark.parametrize("fails", ["protected", "training"])
@pytest.mark.parametrize("error", [RuntimeError, QueryRejected])
def test_what_cannot_be_read_together_is_read_one_by_one_and_fails_as_it_does_alone(
    path, monkeypatch, fails, error
):
    guard = Guard(table(), ledger=path)
    database = {"protected": guard._setup.protected, "training": guard._setup.training}[fails].rows._database
    ask, read, sums, one_question = database.ask, PreparedCode.read, Rows.sums, threading.local()

    def broken(*asked):
        if not getattr(one_question, "is_read", False):
            raise error("a value of a row")
        return ask(*asked)

    def failing(self, part):
        if "0.42" in self.question.text:
            raise RuntimeError("a value of a row")
        return read(self, part)

    def unlocked(rows, *arguments, **options):
        # Others may look at the account while the free rows are looked at.
        assert rows is not guard._setup.training.rows or not guard._session._lock._is_owned()
        one_question.is_read = True
        try:
            return sums(rows, *arguments, **options)
        finally:
            one_question.is_read = False

    monkeypatch.setattr(database, "ask", broken)
    monkeypatch.setattr(PreparedCode, "read", failing)
    monkeypatch.setattr(Rows, "sums", unlocked)
    questions = QUESTIONS[15:25]
    told = all_at_once(guard, questions, said_by(lambda question: guard.ask(question).value))
    failed = [question for question, said in zip(questions, told, strict=True) if isinstance(said, str)]
    assert failed == [question for question in questions if "0.42" in question]
    assert all("could not be computed" in said for said in told if isinstance(said, str))
    assert all("a value" not in said for said in told if isinstance(said, str))
    kinds = [event.kind for event in events_of(path)]
    assert kinds.count("fail") == 1
    assert kinds.count("return") == 0  # Nothing is given back because of the rows.
    assert kinds.count("reserve") == len(questions)
    assert guard.balance.open == {}
    guard.close()


def test_what_is_reserved_too_low_is_given_back_and_asked_by_itself(path, monkeypatch):
    """What a question may cost once it is prepared again is covered by its reservation, or nothing is used of
    what was read."""
    append_all = Book.append_all

    def too_low(book, entries, *, after):
        """Less is reserved for those that wait than the first of them is expected to leave."""
        for place, entry in enumerate(entries[1:]):
            if entry.kind == "reserve":
                entry.body["micro_nats"] -= 13_000_000
                entry.body["before"]["micro_nats"] -= 13_000_000 * place
        return append_all(book, entries, after=after)

    monkeypatch.setattr(Book, "append_all", too_low)
    guard = Guard(table(), ledger=path)
    together = told_by(all_at_once(guard, FEW))
    monkeypatch.undo()
    assert together == one_by_one(as_written(path))[0]
    events = events_of(path)
    assert any(event.kind == "return" for event in events)
    reserved = {event.sequence: event.body["micro_nats"] for event in events if event.kind == "reserve"}
    for event in events:
        if event.kind == "release":
            assert event.body["micro_nats"] <= reserved[event.body["reservation"]]
    assert guard.balance.open == {}
    guard.close()


def test_a_book_that_breaks_while_reserving_charges_nobody(path, monkeypatch):
    guard = Guard(table(), ledger=path)
    append_all = Book.append_all

    def broken(self, entries, *, after):
        if entries[0].kind == "reserve":
            raise BookError("no space left")
        return append_all(self, entries, after=after)

    monkeypatch.setattr(Book, "append_all", broken)
    assert all_at_once(guard, QUESTIONS[:6], said_by(guard.ask)) == ["no space left"] * 6
    monkeypatch.undo()
    assert guard.spent == 0
    assert len(told_by(all_at_once(guard, QUESTIONS[:6]))) == 6
    guard.close()


@pytest.mark.parametrize("kind", ["before", "after"])
def test_a_book_that_breaks_while_settling_releases_nothing_and_lets_everyone_go(path, monkeypatch, kind):
    """Whether the lines were written before it broke or not: nobody gets an answer, and asking again gives
    what is on disk."""
    guard = Guard(table(), ledger=path)
    append_all = Book.append_all

    def broken(self, entries, *, after):
        if entries[0].kind != "release":
            return append_all(self, entries, after=after)
        if kind == "after":
            append_all(self, entries, after=after)
        raise BookError("no space left")

    monkeypatch.setattr(Book, "append_all", broken)
    assert all_at_once(guard, QUESTIONS[:6], said_by(guard.ask)) == ["no space left"] * 6
    monkeypatch.undo()
    events = events_of(path)
    assert sum(event.kind == "reserve" for event in events) == 6
    assert sum(event.kind == "release" for event in events) == (6 if kind == "after" else 0)
    held = guard.spent
    assert held > 0
    answers = all_at_once(guard, QUESTIONS[:6], guard.ask) if kind == "before" else [*guard.history]
    # What was reserved is read again, for what it really costs.
    assert guard.spent == pytest.approx(sum(answer.cost for answer in answers), abs=1e-5)
    assert len(guard.ask_all(QUESTIONS[:6])) == 6
    guard.close()


def test_an_interrupted_reader_does_not_interrupt_the_others(path, monkeypatch):
    """Between reading and recording: the next one reads again what all of them had reserved."""
    guard, settle, once = Guard(table(), ledger=path), Session.settle, []

    def interrupted(session, settled, **options):
        if not once:
            once.append(len(settled))
            raise KeyboardInterrupt
        return settle(session, settled, **options)

    def person(question):
        try:
            return guard.ask(question)
        except KeyboardInterrupt:
            return None

    monkeypatch.setattr(Session, "settle", interrupted)
    told = all_at_once(guard, FEW[:6], person)
    assert [answer is None for answer in told].count(True) == 1
    assert once == [6]
    assert guard.balance.open == {}
    assert guard.balance.interrupted == 6
    assert len(guard.history) == 6
    monkeypatch.undo()
    assert len(guard.ask_all(FEW[:6])) == 6
    guard.close()


def test_an_interrupted_person_leaves_the_queue(path):
    guard, holds, may_end = Guard(table(), ledger=path), threading.Event(), threading.Event()
    session = guard._session

    def interrupt(*arguments):
        raise KeyboardInterrupt

    def slow():
        with session.turn():
            holds.set()
            may_end.wait(60)

    other = threading.Thread(target=slow)
    other.start()
    assert holds.wait(60)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            guard.ask("share(x > 0.5)")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not session.waiting
    may_end.set()
    other.join()
    guard.ask("share(x > 0.25)")
    assert [event.kind for event in events_of(path)] == ["open", "reserve", "release"]
    guard.close()


def test_two_guards_with_threads_each_share_one_account(path, tmp_path):
    key = SigningKey.generate()
    guards = [Guard(table(), ledger=Book(path, key=key)) for _ in range(2)]

    def people_of(guard):
        with ThreadPoolExecutor(6) as people:
            return list(people.map(guard.ask, QUESTIONS))

    with ThreadPoolExecutor(2) as both:
        first, second = both.map(people_of, guards)
    assert first == second  # Whoever read it: each question has one answer.
    book = Book(path, key=key)
    export(book, tmp_path / "export")
    assert verify(tmp_path / "export", key.public, receipts=[a.receipt for a in first]).whole
    events = list(book.events())
    assert sum(event.kind == "release" for event in events) == len(QUESTIONS)
    returned = sum(event.kind == "return" for event in events)
    assert sum(event.kind == "reserve" for event in events) == len(QUESTIONS) + returned
    assert guards[0].balance.open == {}
    by_place = sorted(first, key=lambda answer: answer.certificate.numbers["question"])
    for place, answer in enumerate(by_place, start=1):
        # Nobody has a better place than is theirs.
        assert answer.certificate.numbers["question"] >= place
    for closed in (book, *guards):
        closed.close()


def test_questions_do_not_wait_for_a_different_question_that_another_process_reads(path):
    guard, book = Guard(table(), ledger=path), Book(path)
    slow = guard._questions.read("share(x > 0.5)")
    held = {"text": slow.text, "micro_nats": 10**6, "at": int(time.time()), "reader": "elsewhere:1:ab"}
    line = book.append("reserve", held, after=1, subject=slow.key)
    with ThreadPoolExecutor(4) as people:
        with guard._session.turn():
            told = []
            for question in ("share(x > 0.25)", "share(x > 0.5)", "share(x > 0.75)"):
                told.append(people.submit(guard.ask, question))
                wait_until(lambda: len(guard._session.waiting) == len(told))
        first = told[0].result(timeout=20)
        returned = {"reservation": line.sequence}
        wait_until(lambda: any(event.kind == "release" for event in book.events()))
        end = list(book.events())[-1].sequence
        book.append("return", returned, after=end, subject=slow.key)
        answers = [first, *(one.result(timeout=20) for one in told[1:])]
    assert len({answer.query.key for answer in answers}) == 3
    assert guard.balance.open == {}
    for closed in (guard, book):
        closed.close()


def test_a_question_of_a_dead_batch_that_somebody_asks_while_others_wait_keeps_its_place(path, monkeypatch):
    dead = Guard(table(), ledger=path)

    def died(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(dead._session, "settle", died)
    with pytest.raises(KeyboardInterrupt):
        dead.ask_all(FEW[:4])
    monkeypatch.undo()
    # As for arrays of predictions: nothing but asking again brings the questions back.
    monkeypatch.setattr(Session, "interrupted", lambda session: [])
    guard = Guard(table(), ledger=path)
    answers = all_at_once(guard, [FEW[1], FEW[5], FEW[6], FEW[2]])
    numbers = [answer.certificate.numbers for answer in answers]
    assert [promise.get("asked together") for promise in numbers] == [4, None, None, 4]
    assert [promise["question"] for promise in numbers if "asked together" in promise] == [1, 1]
    assert sorted(promise["question"] for promise in numbers if "asked together" not in promise) == [5, 6]
    guard.ask_all(FEW[:4])
    assert guard.balance.open == {}
    for closed in (guard, dead):
        closed.close()
