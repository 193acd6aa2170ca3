"""A question that fails on the protected rows: paid for where failures have a price, the end of the account
where they have none."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

import guard_workers
from holdfast import Guard, engines
from holdfast.errors import QueryRejected
from holdfast.ledger import Book, Closed
from holdfast.tails import BoundedDifferences

ROWS = 400
NOISY = ("typical-gaussian", "typical-laplace", "transfer-gaussian")
PRICED = ({"strategy": "code"}, {"strategy": "agreed-code", "surprises": 5}, {"strategy": "grid-code"})


@pytest.fixture
def table(rng):
    labels = rng.integers(0, 2, ROWS)
    return {"label": labels, "copy": labels, "x": rng.random(ROWS)}


class Spy:
    """A model that fails if the label of one row is 1."""

    def __init__(self, row):
        self.row = row

    def predict(self, rows):
        if rows["copy"].iloc[self.row] == 1:
            raise ValueError("the label is 1")
        return np.zeros(len(rows), dtype=int)


class Fails:
    """A model that fails on rows it has not seen."""

    def __init__(self, seen=()):
        self.seen = list(seen)

    def predict(self, rows):
        if not rows["x"].isin(self.seen).all():
            raise ValueError("a secret")
        return np.zeros(len(rows), dtype=int)


def labels_read(guard, labels):
    """How many labels an analyst learns for sure from failures, row after row; stops where she must."""
    read = 0
    for row in range(40):
        try:
            guard.score(Spy(row), target="label", name=f"spy {row}")
        except Closed:
            break
        except QueryRejected:
            assert labels[row] == 1
            read += 1
        else:
            assert labels[row] == 0
            read += 1
    return read


@pytest.mark.parametrize("strategy", NOISY)
def test_failures_reveal_only_where_the_session_ended(table, strategy):
    guard = Guard(table, strategy=strategy, queries=60)
    first = int(np.flatnonzero(table["label"])[0])
    assert labels_read(guard, table["label"]) == first + 1
    assert guard.closed
    assert len(guard.history) == first


@pytest.mark.parametrize("strategy", NOISY)
def test_an_account_that_continued_after_a_failure_would_reveal_every_label(table, strategy, monkeypatch):
    """The twin: the same analyst reads all labels where a failure closes nothing."""
    guard = Guard(table, strategy=strategy, queries=60)
    monkeypatch.setattr(type(guard._strategy), "failure_closes", False)
    assert labels_read(guard, table["label"]) == 40


@pytest.mark.parametrize("strategy", NOISY)
def test_the_error_says_that_the_account_is_closed_and_everyone_sees_it(table, strategy, tmp_path):
    options = {"strategy": strategy, "queries": 10, "ledger": tmp_path / "book"}
    guard, other = Guard(table, **options), Guard(table, **options)
    before = guard.share("x > 0.5")
    with pytest.raises(QueryRejected, match="account is closed now, for everyone") as caught:
        guard.score(Fails(), target="label")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.left == 0
    for person in (guard, other, Guard(table, **options)):
        with pytest.raises(Closed, match="could not be computed"):
            person.share("x > 0.6")
        assert person.closed
        assert person.share("x > 0.5").to_dict() == before.to_dict()


def test_the_failure_and_the_close_are_written_in_one_step_before_the_error(table, tmp_path, monkeypatch):
    guard = Guard(table, strategy="typical-gaussian", queries=10, ledger=tmp_path / "book")
    written, append_all = [], Book.append_all

    def watched(book, entries, *, after):
        events = append_all(book, entries, after=after)
        written.append([event.kind for event in events])
        return events

    monkeypatch.setattr(Book, "append_all", watched)
    with pytest.raises(QueryRejected):
        guard.score(Fails(), target="label")
    assert written == [["reserve"], ["fail", "close"]]


@pytest.fixture
def failing(monkeypatch):
    """Questions with 0.6 fail, however they are read."""
    original = engines.Rows.sums

    def failing(rows, question, **options):
        if "0.6" in str(question.query):
            raise RuntimeError("a secret")
        return original(rows, question, **options)

    monkeypatch.setattr(engines.Rows, "sums", failing)


def refused(ask):
    with pytest.raises(QueryRejected, match="could not be computed") as caught:
        ask()
    assert "secret" not in str(caught.value)
    return str(caught.value)


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("strategy", [*NOISY, "split", "grid-code"])
def test_questions_asked_together_end_at_the_one_that_fails_where_answers_are_counted(table, strategy):
    """As one by one: the caller gets the failure, and nothing is asked after it."""
    alone, together = (Guard(table, strategy=strategy, queries=10) for _ in range(2))
    questions = ["share(x > 0.5)", "share(x > 0.6)", "share(x > 0.7)"]
    expected = refused(lambda: [alone.ask(question) for question in questions])
    assert refused(lambda: together.ask_all(questions)) == expected
    kinds = [event.kind for event in together._book.events()]
    closes = ["close"] if strategy in NOISY else []
    assert kinds == ["open", "reserve", "release", "reserve", "fail", *closes]
    assert together.closed == (strategy in NOISY)
    assert len(together.history) == 1


@pytest.mark.usefixtures("failing")
@pytest.mark.parametrize("strategy", NOISY)
def test_nothing_is_answered_after_one_of_several_failed(table, strategy):
    guard = Guard(table, strategy=strategy, queries=10)
    with pytest.raises((QueryRejected, Closed)):
        guard.ask_all(["share(x > 0.5)", "share(x > 0.6)", "share(x > 0.7)"])
    assert [event.kind for event in guard._book.events()] == [
        "open", "reserve", "release", "reserve", "fail", "close",
    ]  # fmt: skip
    with pytest.raises(Closed):
        guard.share("x > 0.7")


@pytest.mark.parametrize("options", PRICED, ids=lambda options: options["strategy"])
def test_a_failure_that_has_a_price_is_paid_and_the_account_continues(table, options):
    queries = {} if options["strategy"] == "code" else {"queries": 10}
    guard = Guard(pd.DataFrame(table), **options, **queries)
    seen = () if guard.train is None else guard.train["x"]
    with pytest.raises(QueryRejected, match="That it failed cost"):
        guard.score(Fails(seen), target="label", guess=0.5)
    assert guard.spent > 0
    assert not guard.closed
    assert guard.share("x > 0.5", guess=0.5)


def test_a_failure_where_every_question_has_rows_of_its_own_uses_up_these_rows_only(table, monkeypatch):
    read, original = [], engines.Rows.sums

    def failing(rows, question, **options):
        read.append(rows.frame(["x"])["x"].tolist())
        if "0.6" in str(question.query):
            raise RuntimeError("a secret")
        return original(rows, question, **options)

    monkeypatch.setattr(engines.Rows, "sums", failing)
    guard = Guard(table, strategy="split", queries=4)
    with pytest.raises(QueryRejected, match="could not be computed"):
        guard.share("x > 0.6")
    for threshold in (0.5, 0.7, 0.8):
        guard.share(f"x > {threshold}")
    assert guard.left == 0
    assert len({value for rows in read for value in rows}) == sum(map(len, read)) == ROWS


def die_while_reading(place, asked):
    """A process that ends in the middle of a question, as a model can make it."""
    table = {"label": np.arange(ROWS) % 2, "x": np.arange(ROWS) / ROWS}

    class Deadly:
        def predict(self, rows):
            asked.send("reading")
            time.sleep(60)  # It is killed long before.

    Guard(table, strategy="typical-gaussian", queries=10, ledger=place).score(Deadly(), target="label")


def test_a_process_that_is_killed_while_it_reads_ends_the_account(tmp_path):
    here, there = guard_workers.people.Pipe(duplex=False)
    process = guard_workers.people.Process(target=die_while_reading, args=(tmp_path / "book", there))
    process.start()
    assert here.recv() == "reading"
    process.kill()
    process.join()
    table = {"label": np.arange(ROWS) % 2, "x": np.arange(ROWS) / ROWS}
    guard = Guard(table, strategy="typical-gaussian", queries=10, ledger=tmp_path / "book")
    with pytest.raises(Closed, match="process ended while it read"):
        guard.share("x > 0.5")
    assert guard.closed
    with pytest.raises(Closed, match="process ended while it read"):
        guard.share("x > 0.5")


class Slow:
    """A model that takes until it may go on."""

    reading, go_on = threading.Event(), threading.Event()

    def predict(self, rows):
        self.reading.set()
        assert self.go_on.wait(60)
        return np.zeros(len(rows), dtype=int)


def test_no_question_is_reserved_while_another_process_reads(table, tmp_path):
    """What it asks next must not depend on whether the other one fails."""
    options = {"strategy": "typical-gaussian", "queries": 10, "ledger": tmp_path / "book"}
    first, second = Guard(table, **options), Guard(table, **options)
    threads = [threading.Thread(target=first.score, args=(Slow(),), kwargs={"target": "label"})]
    threads[0].start()
    assert Slow.reading.wait(60)
    threads.append(threading.Thread(target=second.share, args=("x > 0.75",)))
    threads[1].start()
    threads[1].join(0.2)
    assert [event.kind for event in Book(tmp_path / "book").events()] == ["open", "reserve"]
    Slow.go_on.set()
    for thread in threads:
        thread.join(60)
    kinds = [event.kind for event in Book(tmp_path / "book").events()]
    assert kinds == ["open", "reserve", "release", "reserve", "release"]


def test_a_reading_elsewhere_that_is_never_settled_stops_the_account_until_it_is(table, tmp_path):
    """On another machine nobody can tell whether a process died or is slow: nothing is answered, and nothing
    is decided for it."""
    guard = Guard(table, strategy="typical-gaussian", queries=10, ledger=tmp_path / "book")
    book = Book(tmp_path / "book")
    long_ago = int(time.time()) - 3_600
    held = {"text": "share(x > 0.1)", "micro_nats": 10**6, "at": long_ago, "reader": "elsewhere:1:ab"}
    line = book.append("reserve", held, after=1, subject="elsewhere")
    with pytest.raises(Closed, match="for minutes, or died"):
        guard.share("x > 0.5")
    assert not guard.closed
    settled = {"reservation": line.sequence, "micro_nats": 10**6, "surprise": False, "released": None}
    book.append("release", settled, after=line.sequence, subject="elsewhere")
    assert guard.share("x > 0.5").low < 0.5


def test_a_book_of_an_earlier_version_in_which_a_question_failed_is_closed_when_it_is_opened(table, tmp_path):
    options = {"strategy": "typical-gaussian", "queries": 10, "ledger": tmp_path / "book"}
    made = Guard(table, strategy="typical-gaussian", queries=10)
    opening = {name: term for name, term in made._book.opening.body.items() if name != "failure"}
    secret = Book(tmp_path / "book").secret
    opening["data"] = made._setup.facts["data"].under(secret)
    book = Book(tmp_path / "book")
    book.append("open", opening, after=0)
    guard = Guard(table, **options)
    guard.share("x > 0.5")
    held = {"text": "custom(f)", "micro_nats": 10**6, "at": 0, "reader": "elsewhere:1:ab"}
    line = book.append("reserve", held, after=3, subject="key")
    failed = {"reservation": line.sequence, "micro_nats": 10**6, "surprise": True, "released": None}
    book.append("fail", failed, after=line.sequence, subject="key")
    again = Guard(table, **options)
    assert again.closed
    assert again.share("x > 0.5").to_dict() == guard.history[0].to_dict()
    with pytest.raises(Closed, match="could not be computed"):
        again.share("x > 0.6")


def test_the_preview_warns(table):
    noisy = Guard(table, strategy="typical-gaussian", queries=10).cost_preview("share(x > 0.5)")
    assert noisy.failure_closes
    assert "the account is closed" in repr(noisy)
    plain = Guard(table).cost_preview("share(x > 0.5)")
    assert not plain.failure_closes
    assert "closed" not in repr(plain)


def test_a_constant_in_place_of_a_failure_has_neither_the_tail_nor_the_sensitivity():
    """Why a failure is not answered with noise around a constant: "0 if one label is 1, else the mean of
    ones" is within no radius of its mean, and one row moves it by 1, whatever the noise was made for."""
    rows, labels = 2_500, (0, 1)
    statistic = [float(label == 0) for label in labels]  # both labels are as likely
    mean = sum(statistic) / 2
    radius = BoundedDifferences.of_mean(0, 1, rows).radius(1e-6)
    assert all(abs(value - mean) == 0.5 > radius for value in statistic)
    for strategy in NOISY:
        guard = Guard({"x": np.zeros(rows)}, strategy=strategy, queries=60)
        prepared = guard._strategy.prepare(guard._questions.read("share(x = 0)"), guard._session.account)
        # A value of 0 or 1 with this noise tells the label in nearly all cases.
        assert prepared.calibrated.noise.scale < 0.2


class Analyst:
    """The best of all analysts against three fair rows, by going through every question she can ask.

    A question is a pattern of labels, and its answer how many rows agree with it (the truth is 1.5 of 3),
    with noise of -1, 0 or 1; or a spy on one row, which fails if its label is 1. Her value is the chance that
    the last question is answered and off by more than 2.
    """

    def __init__(self, failure):
        self.failure = failure  # "closes", "goes on", or "none": what a spy does where the label is 1

    def value(self, weights, left):
        """The most that can be reached in so many further questions, for rows of these weights."""
        if not weights:
            return 0.0
        patterns = itertools.product((0, 1), repeat=3)
        asked = max(self._asked(weights, left, pattern) for pattern in patterns)
        return asked if left == 1 else max(asked, *(self._spied(weights, left, row) for row in range(3)))

    def _asked(self, weights, left, pattern):
        reached, seen = 0.0, defaultdict(dict)
        for labels, weight in weights.items():
            agreeing = sum(map(int.__eq__, labels, pattern))
            for noise in (-1, 0, 1):
                reached += weight / 3 if left == 1 and abs(agreeing + noise - 1.5) > 2 else 0.0
                seen[agreeing + noise][labels] = weight / 3
        return reached if left == 1 else sum(self.value(rest, left - 1) for rest in seen.values())

    def _spied(self, weights, left, row):
        if self.failure == "none":
            return self.value(weights, left - 1)
        failed = {labels: weight for labels, weight in weights.items() if labels[row]}
        lasting = {labels: weight for labels, weight in weights.items() if not labels[row]}
        later = self.value(failed, left - 1) if self.failure == "goes on" else 0.0
        return self.value(lasting, left - 1) + later


def test_no_analyst_gains_by_failing_where_a_failure_closes():
    """Every analyst with three questions, exactly; and the twin that goes on after a failure."""
    worlds = dict.fromkeys(itertools.product((0, 1), repeat=3), 1 / 8)
    closing, total, going_on = (
        Analyst(failure).value(worlds, 3) for failure in ("closes", "none", "goes on")
    )
    assert closing <= total + 1e-12
    assert going_on > 1.1 * total
