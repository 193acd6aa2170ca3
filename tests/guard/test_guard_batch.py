"""Questions asked together: answers, prices and account as one by one, reserved before the rows are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from contracts.engine import people
from contracts.questions import Questions
from holdfast import Guard, engines
from holdfast.dependence import Clusters
from holdfast.errors import BudgetSpent, HoldfastError, QueryRejected
from holdfast.guard import _together
from holdfast.ledger import Balance, Book, BookError, SigningKey, export, verify
from holdfast.mechanisms import Noise

ROWS = 3_600
QUESTIONS = [
    "share(x > 0.25)",
    "share(x > 0.5)",
    "mean(y, 0, 1)",
    "share(0.5 < x)",  # repeated, in other words
    "share(x > 0.6, where = flag)",
    "mean(x * y, 0, 1, where = x > 0.1)",
    "share(flag, guess = 0.9)",
    "quantile(x, 0.5)",
    "mean(m, 0, 1, nulls = skip)",
    "mean(m, 0, 1, nulls = 0.5)",
    "share(x > 0.25)",
    "mean(y, 0.4, 0.6)",
    "share(x > 0.75, guess = 0.1)",
    "mean(narrow, 0, 1)",
    *(f"share(y > {place / 40})" for place in range(1, 17)),
]


@pytest.fixture(autouse=True)
def every_scan_is_shared(monkeypatch):
    """These tables are too small to be worth it where an error is promised; how it is done is tested all the
    same."""
    monkeypatch.setattr(_together, "_WORTH_SHARING", 0)


@pytest.fixture
def table(rng):
    return {
        "x": rng.random(ROWS),
        "y": rng.random(ROWS),
        "m": np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS)),
        "narrow": 0.5 + 0.01 * rng.random(ROWS),
        "flag": rng.random(ROWS) < 0.4,
    }


def one_by_one(guard, questions):
    answers = []
    for question in questions:
        answers.append(guard.ask(question))
    return answers


def account_book(guard):
    """What the lines say, without the times and places at which they say it."""
    lines = []
    for event in guard._book.events():
        if event.kind in ("release", "fail"):
            body = {name: value for name, value in event.body.items() if name != "reservation"}
            lines.append((event.kind, event.subject, body))
    balance = Balance()
    for event in guard._book.events():
        balance.apply(event)
    return lines, balance.to_dict()


def outcome(ask):
    try:
        return [answer.to_dict() for answer in ask()]
    except HoldfastError as refusal:
        return type(refusal), str(refusal), getattr(refusal, "spent", None), getattr(refusal, "left", None)


def compare(make, questions):
    """Both ways on two guards alike; returns the one that was asked together."""
    alone, together = make(), make()
    assert outcome(lambda: together.ask_all(questions)) == outcome(lambda: one_by_one(alone, questions))
    assert account_book(together) == account_book(alone)
    assert together.history == alone.history
    assert (together.spent, together.left) == (alone.spent, alone.left)
    return together


def kinds(guard):
    return [event.kind for event in guard._book.events()]


def test_the_answers_and_the_account_are_those_of_one_by_one_to_the_last_bit(table):
    guard = compare(lambda: Guard(table), QUESTIONS)
    said = kinds(guard)
    assert said[:4] == ["open", "reserve", "reserve", "reserve"]
    assert said.count("release") == len(set(QUESTIONS)) - 1
    assert said.count("return") == 0
    assert guard.history[5].confirmed is False


@pytest.mark.parametrize(
    "options",
    [
        {"confidence": 0.5},
        {"train": "half"},
        {"training_share": 0.2, "split_seed": 4},
        {"dependence": Clusters([3] * (ROWS // 3))},
        {"strategy": "agreed-code", "queries": 60, "surprises": 4},
        {"strategy": "grid-code", "queries": 60},
        {"strategy": "split", "queries": 60},
    ],
    ids=["low confidence", "train", "share", "clusters", "agreed", "grid", "split"],
)
def test_whatever_the_guard_was_told(table, options):
    questions = list(QUESTIONS)
    if options.get("train"):
        options = {**options, "train": {name: values[:500] for name, values in table.items()}}
    if options.get("strategy") in ("agreed-code", "grid-code"):
        questions = [
            one for one in QUESTIONS if not any(word in one for word in ("where", "quantile", "skip"))
        ]
    compare(lambda: Guard(table, **options), questions)


@pytest.mark.parametrize("strategy", ["typical-gaussian", "typical-laplace", "transfer-gaussian"])
def test_strategies_with_noise(table, strategy, monkeypatch):
    """The noise is nobody's to choose; here it is nothing, so that both ways can be compared."""
    monkeypatch.setattr(Noise, "add", lambda self, value: value)
    questions = [one for one in QUESTIONS if "quantile" not in one]
    compare(lambda: Guard(table, strategy=strategy, queries=80), questions)
    refused = compare(lambda: Guard(table, strategy=strategy, queries=10), questions)
    assert refused.left == 0


@pytest.mark.parametrize("error", [0.2, 0.06, 0.01])
def test_a_promised_error_is_refused_at_the_same_question(table, error):
    compare(lambda: Guard(table, error=error), [one for one in QUESTIONS if "quantile" not in one])


def test_random_questions(seed):
    """Nulls, ties, values far outside the bounds, filters that few rows pass, quantiles, repetitions."""
    columns = people(seed, 1_500)
    types = dict(
        zip(
            "xykbsd",
            (pa.float64(), pa.float64(), pa.int32(), pa.bool_(), pa.string(), pa.date32()),
            strict=True,
        )
    )
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    writer, asked, probe = Questions(seed, frozenset()), [], Guard(table)
    while len(asked) < 40:
        line = writer.line()
        try:
            probe.cost_preview(line)
        except HoldfastError:
            continue
        asked += [line, line] if len(asked) % 9 == 0 else [line]
    guard = compare(lambda: Guard(table), asked)
    assert len(guard.history) > 20


def test_a_large_promise_is_reserved_together_and_a_tight_one_one_by_one(table, monkeypatch):
    scans = []
    original = _together.sums_of_all

    def counted(rows, questions, squares):
        scans.append(len(questions))
        return original(rows, questions, squares)

    monkeypatch.setattr(_together, "sums_of_all", counted)
    questions = [f"share(y > {place / 40})" for place in range(1, 13)]
    Guard(table, error=0.3).ask_all(questions)
    assert scans == [12, 12]  # The training rows and the protected ones.
    scans.clear()
    guard = Guard(table, error=0.045)
    guard.ask_all(questions[:6])
    assert len(scans) > 1
    assert max(scans[1::2]) < 6


def test_an_answer_that_would_break_the_promise_stops_the_rest_and_gives_their_reservations_back(rng):
    rows = 20_000
    usual = {"x": rng.random(rows), "passes": np.arange(rows) % 2 == 0}
    other = {**usual, "passes": np.arange(rows) % 50 == 0}
    questions = [
        "share(x > 0.2)",
        "share(x > 0.5, where = passes)",
        "share(x > 0.7)",
        "share(x > 0.8)",
    ]
    guard = compare(lambda: Guard(other, train=usual, error=0.06), questions)
    with pytest.raises(BudgetSpent, match="charged as an answer"):
        guard.ask(questions[1])
    assert kinds(guard).count("return") == 2
    assert len(guard.history) == 1
    assert guard.share("x > 0.7").cost > 0


def test_a_question_that_fails_fails_as_it_does_alone(table, monkeypatch):
    original = engines.Rows.sums

    def failing(rows, question, **options):
        if rows is not failing.training and "0.6" in str(question.query):
            raise RuntimeError("a secret")
        return original(rows, question, **options)

    def make():
        guard = Guard(table)
        failing.training = guard._setup.training.rows
        return guard

    monkeypatch.setattr(engines.Rows, "sums", failing)
    monkeypatch.setattr(
        _together,
        "sums_of_all",
        lambda rows, asked, squares: [
            rows.sums(one, squares=wanted) for one, wanted in zip(asked, squares, strict=True)
        ],
    )
    alone, together = make(), None
    questions = ["share(x > 0.5)", "share(x > 0.6)", "share(x > 0.7)"]
    failing.training = alone._setup.training.rows
    expected = outcome(lambda: one_by_one(alone, questions))
    together = make()
    assert outcome(lambda: together.ask_all(questions)) == expected
    assert expected[0] is QueryRejected
    assert "secret" not in expected[1]
    assert account_book(together) == account_book(alone)
    assert kinds(together) == [
        "open", "reserve", "reserve", "reserve", "release", "fail", "return",
    ]  # fmt: skip


def test_the_worst_prices_of_all_are_on_the_book_before_the_rows_are_read(table, tmp_path, monkeypatch):
    guard = Guard(table, ledger=tmp_path / "book")
    protected, seen, original = guard._setup.protected.rows, [], _together.sums_of_all

    def watched(rows, questions, squares):
        if rows is protected:
            book = Book(tmp_path / "book")
            reserved = [event for event in book.events() if event.kind == "reserve"]
            seen.append((len(reserved), len(questions), guard.spent))
            book.close()
        return original(rows, questions, squares)

    monkeypatch.setattr(_together, "sums_of_all", watched)
    questions = [f"share(y > {place / 40})" for place in range(1, 11)]
    answers = guard.ask_all(questions)
    ((reserved, asked, spent),) = seen
    assert reserved == asked == 10
    worst = [guard.cost_preview(f"share(y > {place / 41})").at_most for place in range(1, 11)]
    assert spent > 0.8 * sum(worst)
    assert guard.spent == pytest.approx(sum(answer.cost for answer in answers), abs=1e-9)
    assert guard.spent < 0.1 * spent


def test_what_was_read_is_used_only_where_the_reservation_covers_it(table, monkeypatch):
    """A reservation that turns out too small: the sums are forgotten and the question is asked by itself."""
    monkeypatch.setattr(_together, "_ROOM", -3.0)
    guard = compare(lambda: Guard(table), QUESTIONS)
    events = list(guard._book.events())
    returned = [event for event in events if event.kind == "return"]
    assert returned
    reserved = {event.sequence: event for event in events if event.kind == "reserve"}
    for event in events:
        if event.kind == "release":
            assert event.body["micro_nats"] <= reserved[event.body["reservation"]].body["micro_nats"]


def test_the_reservations_cover_what_questions_turn_out_to_be(table, rng):
    """Surprises, confirmations and many questions: nothing has to be asked by itself."""
    guesses = ["", ", guess = 0.99", ", guess = 0.5"]
    for _ in range(4):
        guard = Guard(table)
        asked = [f"share(y > {number:.6f}{guesses[rng.integers(3)]})" for number in rng.random(40)]
        guard.ask_all(asked)
        assert "return" not in kinds(guard)


def test_two_guards_on_one_book_share_what_is_asked_together(table, tmp_path):
    one, two = Guard(table, ledger=tmp_path / "book"), Guard(table, ledger=tmp_path / "book")
    first = one.ask_all(QUESTIONS[:6])
    second = two.ask_all(QUESTIONS)
    assert [answer.to_dict() for answer in second[:6]] == [answer.to_dict() for answer in first]
    assert one.spent == two.spent
    assert len({event.subject for event in one._book.events() if event.kind == "release"}) == len(one.history)


def test_a_foreign_question_in_between_pays_for_all_that_is_reserved(table, tmp_path, monkeypatch):
    ours, theirs = Guard(table, ledger=tmp_path / "book"), Guard(table, ledger=tmp_path / "book")
    original, answers = _together.sums_of_all, []

    def interrupted(rows, questions, squares):
        if rows is ours._setup.protected.rows:
            answers.append(theirs.share("x > 0.9"))
        return original(rows, questions, squares)

    monkeypatch.setattr(_together, "sums_of_all", interrupted)
    together = ours.ask_all(QUESTIONS[:3])
    (foreign,) = answers
    assert foreign.certificate.numbers["question"] == 4
    assert [answer.certificate.numbers["question"] for answer in together] == [1, 2, 3]
    assert foreign.certificate.numbers["nats spent before"] > 20
    alone = one_by_one(Guard(table), QUESTIONS[:3])
    assert [answer.value for answer in alone] == [answer.value for answer in together]
    assert ours.spent == pytest.approx(sum(answer.cost for answer in (*together, foreign)), abs=2e-6)


def test_a_stopped_batch_leaves_its_reservations_as_spent_and_nothing_released(table, tmp_path, monkeypatch):
    guard = Guard(table, ledger=tmp_path / "book")

    def stopped(*settled):
        raise KeyboardInterrupt

    monkeypatch.setattr(guard._session, "settle_all", stopped)
    with pytest.raises(KeyboardInterrupt):
        guard.ask_all(QUESTIONS[:3])
    monkeypatch.undo()
    again = Guard(table, ledger=tmp_path / "book")
    assert again.history == ()
    assert kinds(again) == ["open", "reserve", "reserve", "reserve"]
    assert again.spent == guard.spent > 20
    assert again.share("x > 0.25").certificate.numbers["question"] == 4


def test_a_closed_account_refuses_new_questions_and_answers_old_ones_together_too(table):
    guard = Guard(table)
    known = guard.ask_all(QUESTIONS[:3])
    guard.close_account()
    assert guard.ask_all(QUESTIONS[:3]) == known
    with pytest.raises(BookError, match="closed"):
        guard.ask_all(["share(x > 0.9)", "share(x > 0.91)"])


def test_signed_books_with_batches_verify_and_every_answer_has_its_receipt(table, tmp_path):
    key = SigningKey.generate()
    guard = Guard(table, ledger=Book(tmp_path / "book", key=key), error=0.3)
    answers = guard.ask_all([one for one in QUESTIONS[:7] if "guess" not in one])
    export(guard._book, tmp_path / "export")
    receipts = [answer.receipt for answer in answers]
    assert verify(tmp_path / "export", key.public, receipts=receipts).whole


def test_a_book_that_gives_back_what_was_not_reserved_does_not_verify(table, tmp_path):
    guard = Guard(table, ledger=tmp_path / "book")
    guard._book.append("return", {"reservation": 7}, after=1, subject="s")
    export(guard._book, tmp_path / "export")
    assert [problem.kind for problem in verify(tmp_path / "export").problems] == ["sums"]


@pytest.mark.parametrize(("error", "writes"), [(None, 2), (0.3, 8)])
def test_few_rows_are_read_by_themselves_where_an_error_is_promised(table, monkeypatch, error, writes):
    monkeypatch.undo()
    written, append_all = [], Book.append_all

    def counted(book, entries, **options):
        written.append(len(entries))
        return append_all(book, entries, **options)

    guard = Guard(table, error=error)
    monkeypatch.setattr(Book, "append_all", counted)
    guard.ask_all([f"share(x > 0.{digit})" for digit in range(1, 5)])
    assert len(written) == writes
