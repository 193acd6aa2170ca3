"""Questions asked together: nobody pays for the others, whoever comes after pays for all, and the worst of it
is on disk before a row is read."""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow as pa
import pytest

from contracts.engine import people
from contracts.questions import Questions
from holdfast import Guard
from holdfast.answers import Answer
from holdfast.asking import Session
from holdfast.coding import Account, Learned, Output, Weights
from holdfast.dependence import Clusters
from holdfast.engines import Rows, require_unsealed
from holdfast.errors import BudgetSpent, HoldfastError, QueryRejected
from holdfast.guard import Asker
from holdfast.ledger import Balance, Book, BookError, Closed, SigningKey, export, verify
from holdfast.mechanisms import Noise
from holdfast.strategies import PreparedCode

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
SOME = QUESTIONS[:15]
COUNTING = ("agreed-code", "grid-code", "split", "typical-gaussian", "typical-laplace", "transfer-gaussian")
FEW = [f"share(y > {place / 40})" for place in range(1, 6)]


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
    return [guard.ask(question) for question in questions]


def said_in(events):
    """What the lines say, without the times and places at which they say it."""
    return [
        (
            event.kind,
            event.subject,
            {name: said for name, said in event.body.items() if name != "reservation"},
        )
        for event in events
        if event.kind in ("release", "fail")
    ]


def events_of(guard):
    return list(guard._book.events())


def kinds(guard):
    return [event.kind for event in events_of(guard)]


def numbers_of(answers):
    return [answer.certificate.numbers for answer in answers]


def beta(guard):
    """What may fail: the rest of the confidence, less what the training split cost."""
    return 1 - guard.confidence - guard._setup.bias


def check_account(guard, batches):
    """Every answer has the δ that "Asked together" gives it, and prices go through in order.

    ``batches`` are lists of answers in the order in which they were asked.
    """
    steps, spent = 0, 0
    for answers in batches:
        nats = -math.log(beta(guard)) + guard._session._start.weights.nats(steps + 1, len(answers))
        for numbers in numbers_of(answers):
            assert numbers["nats of this interval"] == pytest.approx(nats + spent / 1e6, abs=1e-9)
            assert numbers["nats spent before"] == spent / 1e6
            assert numbers["question"] == steps + 1
            assert numbers.get("asked together", 1) == len(answers)
        steps += len(answers)
        spent += round(sum(answer.cost for answer in answers) * 1e6)
    assert guard.spent == pytest.approx(spent / 1e6, abs=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"confidence": 0.5},
        {"expect": 20},
        {"promise": "each"},
        {"train": "half"},
        {"training_share": 0.2, "split_seed": 4},
        {"dependence": Clusters([3] * (ROWS // 3))},
        {"error": 0.5},
    ],
    ids=["plain", "low confidence", "expect", "each", "train", "share", "clusters", "error"],
)
def test_questions_of_a_batch_do_not_pay_for_each_other_and_later_ones_pay_for_all(table, options):
    if options.get("train"):
        options = {"train": {name: values[:500] for name, values in table.items()}}
    guard = Guard(table, **options)
    first = [guard.ask("share(x > 0.9)")]
    answers = guard.ask_all(SOME)
    new = list({answer.query.key: answer for answer in answers}.values())
    later = [guard.ask("share(x > 0.91)")]
    assert [answer.query for answer in answers] == [guard.ask(question).query for question in SOME]
    assert answers[1] is answers[3]
    assert answers[0] is answers[10]
    assert len(new) == len(set(SOME)) - 1
    check_account(guard, [first, new, later])
    assert [answer.query for answer in guard.history] == [answer.query for answer in (*first, *new, *later)]


@pytest.mark.parametrize("sabotaged", ["spent", "weights", "place"])
def test_the_check_of_the_account_notices_a_batch_that_is_given_too_much(table, monkeypatch, sabotaged):
    """The twins: a batch that forgets what was spent before it, that has the first place's weight for each,
    or that takes one place only."""
    if sabotaged == "weights":
        monkeypatch.setattr(Account, "for_batch", lambda self, questions: self)
    guard = Guard(table)
    first = [guard.ask("share(x > 0.9, guess = 0.5)")]
    original = Session.account_before

    def wrong(session, batch, learned, experience):
        changed = {"spent": {"micro_nats": 0}, "weights": {"questions": 1}, "place": {"steps": 0}}[sabotaged]
        return original(session, {**batch, **changed}, learned, experience)

    monkeypatch.setattr(Session, "account_before", wrong)
    answers = guard.ask_all(FEW)
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        check_account(guard, [first, answers])


def test_outputs_and_what_they_teach_go_in_order(table, monkeypatch):
    read, seen = PreparedCode.read, []

    def noted(self, part):
        outcome = read(self, part)
        seen.append((self.alphabet.learned, outcome))
        return outcome

    monkeypatch.setattr(PreparedCode, "read", noted)
    guard = Guard(table)
    guard.ask_all(QUESTIONS)
    learned, total = Learned(), 0.0
    released = [event.body for event in events_of(guard) if event.kind == "release"]
    for (before, outcome), body in zip(seen, released, strict=True):
        assert before == learned  # Priced by what those before it taught.
        learned, total = outcome.learned, total + outcome.price
        assert body["learned"] == learned.to_list()
        assert body["released"] == outcome.released
    assert guard.balance.micro_nats == math.ceil(total * 1e6)
    assert guard.balance.learned == learned.to_list()
    assert guard._session.account.learned == learned


def test_a_batch_that_learns_nothing_on_its_way_is_noticed(table, monkeypatch):
    """The twin of the test above: all are priced by what was known before the batch."""
    after, seen, read = Account.after, [], PreparedCode.read
    monkeypatch.setattr(
        Account,
        "after",
        lambda self, nats, **options: after(self, nats, **{**options, "learned": self.learned}),
    )

    def noted(self, part):
        seen.append(self.alphabet.learned)
        return read(self, part)

    monkeypatch.setattr(PreparedCode, "read", noted)
    Guard(table).ask_all(FEW)
    assert all(learned == Learned() for learned in seen)
    assert len(seen) == len(FEW)


def test_the_last_of_many_is_as_narrow_as_the_first_and_narrower_than_one_by_one(table):
    questions = [f"share(y > {place / 100}, guess = {0.5 + (place % 2) / 5})" for place in range(30, 70)]
    together, alone = Guard(table), Guard(table)
    answers, single = together.ask_all(questions), one_by_one(alone, questions)
    nats = {numbers["nats of this interval"] for numbers in numbers_of(answers)}
    assert len(nats) == 1
    assert numbers_of(single)[-1]["nats of this interval"] > nats.pop() + 5
    assert answers[-1].half_width < single[-1].half_width


def outcome(ask):
    try:
        return [answer.to_dict() for answer in ask()]
    except HoldfastError as refusal:
        return type(refusal), str(refusal), getattr(refusal, "spent", None), getattr(refusal, "left", None)


def compare(make, questions):
    """Both ways on two guards alike; returns the one that was asked together."""
    alone, together = make(), make()
    assert outcome(lambda: together.ask_all(questions)) == outcome(lambda: one_by_one(alone, questions))
    assert said_in(events_of(together)) == said_in(events_of(alone))
    assert together.balance.to_dict() == alone.balance.to_dict()
    assert together.history == alone.history
    assert (together.spent, together.left) == (alone.spent, alone.left)
    return together


@pytest.mark.parametrize(
    ("strategy", "queries"),
    [
        *((strategy, 10) for strategy in COUNTING),
        *(pytest.param(strategy, 60, marks=pytest.mark.slow) for strategy in COUNTING),
    ],
)
def test_strategies_that_count_answers_answer_as_one_by_one(table, strategy, queries, monkeypatch):
    """Users cannot choose the noise. Here it is zero, so that both ways can be compared."""
    monkeypatch.setattr(Noise, "add", lambda self, value: value)
    unwanted = ("where", "quantile", "skip") if strategy.endswith("code") else ("quantile",)
    questions = [question for question in QUESTIONS if not any(word in question for word in unwanted)]
    options = {"surprises": 4} if strategy == "agreed-code" else {}
    guard = compare(lambda: Guard(table, strategy=strategy, queries=queries, **options), questions)
    assert not any("batch" in event.body for event in events_of(guard))


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
    while len(asked) < 30:
        line = writer.line()
        try:
            probe.cost_preview(line)
        except HoldfastError:
            continue
        asked += [line, line] if len(asked) % 9 == 0 else [line]
    guard = Guard(table)
    answers = guard.ask_all(asked)
    assert len(answers) == len(asked)
    new = list({answer.query.key: answer for answer in answers}.values())
    assert len(new) > 15
    check_account(guard, [new])


def test_the_worst_prices_of_all_are_on_the_book_before_the_rows_are_read(table, tmp_path, monkeypatch):
    guard = Guard(table, ledger=tmp_path / "book")
    database, seen = guard._setup.protected.rows._database, []
    original = database.ask

    def watched(*asked):
        book = Book(tmp_path / "book")
        reserved = [event for event in book.events() if event.kind == "reserve"]
        seen.append((len(reserved), guard.spent))
        book.close()
        return original(*asked)

    monkeypatch.setattr(database, "ask", watched)
    questions = [f"share(y > {place / 40})" for place in range(1, 11)]
    answers = guard.ask_all(questions)
    ((reserved, spent),) = seen  # One statement for all of them.
    assert reserved == 10
    worst = [guard.cost_preview(f"share(y > {place / 41})").at_most for place in range(1, 11)]
    assert spent > 0.8 * sum(worst)
    assert guard.spent == pytest.approx(sum(answer.cost for answer in answers), abs=1e-9)
    assert guard.spent < 0.2 * spent


def test_two_writes_and_few_scans(table, written, monkeypatch):
    guard = Guard(table)
    database, scans = guard._setup.protected.rows._database, []
    original = database.ask
    monkeypatch.setattr(database, "ask", lambda *asked: scans.append(asked) or original(*asked))
    written.clear()
    guard.ask_all(FEW)
    assert written == [["reserve"] * 5, ["release"] * 5]
    assert len(scans) == 1


def test_a_reservation_covers_the_most_expensive_output_whatever_earlier_ones_were(table):
    """Many guesses that are confirmed, and then one that is as far off as can be; and the other way round."""
    near = [f"share(y > {place / 100})" for place in range(20, 80)]
    far = ["share(x >= 0, guess = 0)", "share(x < 0, guess = 1)"]
    for questions in ([*near, *far], [*far, *near], [*far, *near[:2]]):
        guard = Guard(table)
        guard.ask_all(questions)
        reserved = {event.sequence: event.body for event in events_of(guard) if event.kind == "reserve"}
        for event in events_of(guard):
            if event.kind == "release":
                assert event.body["micro_nats"] < reserved[event.body["reservation"]]["micro_nats"]


def test_a_refusal_comes_before_anything_is_charged(table, written):
    guard = Guard(table, error=0.04)
    written.clear()
    questions = ["share(x > 0.5)", "mean(y, 0, 1)", "share(x > 0.6, where = x > 0.99)"]
    with pytest.raises(BudgetSpent, match=r"0\.99"):
        guard.ask_all(questions)
    with pytest.raises(QueryRejected):
        guard.ask_all(["share(x > 0.5)", "share(nonsense)"])
    assert written == []
    assert guard.spent == 0
    assert len(guard.ask_all(questions[:2])) == 2


@pytest.mark.parametrize("error", [0.2, 0.06, 0.01])
def test_a_batch_keeps_a_promised_error_or_is_refused(table, error):
    guard = Guard(table, error=error)
    questions = [question for question in QUESTIONS if "quantile" not in question]
    try:
        answers = guard.ask_all(questions)
    except BudgetSpent as refused:
        paid = "charged as an answer" in str(refused)
        assert (guard.spent > 0) == paid
    else:
        assert max(answer.half_width for answer in answers) <= error


def test_an_answer_that_would_break_the_promise_is_charged_and_stops_no_other(rng):
    rows = 20_000
    usual = {"x": rng.random(rows), "passes": np.arange(rows) % 2 == 0}
    other = {**usual, "passes": np.arange(rows) % 50 == 0}
    questions = [
        "share(x > 0.2)",
        "share(x > 0.5, where = passes)",
        "share(x > 0.7)",
        "share(x > 0.8)",
    ]
    guard = Guard(other, train=usual, error=0.06)
    with pytest.raises(BudgetSpent, match="charged as an answer"):
        guard.ask_all(questions)
    assert kinds(guard) == ["open", *["reserve"] * 4, *["release"] * 4]
    assert len(guard.history) == 3
    spent = guard.spent
    each = guard.answer_each([(question, Asker()) for question in questions])
    assert [isinstance(one, BudgetSpent) for one in each] == [False, True, False, False]
    with pytest.raises(BudgetSpent, match="charged as an answer"):
        guard.ask(questions[1])
    assert guard.spent == spent


def never(balance, price):
    raise BudgetSpent("not for you")


def for_people(questions, refused):
    return [
        (question, Asker("bob", permit=never) if place in refused else Asker("ann"))
        for place, question in enumerate(questions)
    ]


@pytest.mark.parametrize("refused", [(), (0,), (2, 4), range(5)])
def test_each_has_its_answer_or_its_refusal_in_its_place(table, written, refused):
    guard = Guard(table)
    written.clear()
    told = guard.answer_each(for_people(FEW, refused))
    assert [str(one) == "not for you" for one in told] == [place in refused for place in range(5)]
    answers = [one for one in told if isinstance(one, Answer)]
    assert len(written) == (2 if answers else 0)
    check_account(guard, [answers] if answers else [])  # As if the others had not been asked.
    assert set(guard.balance.people) == ({"ann"} if answers else set())
    assert guard.balance.open == {}


@pytest.mark.parametrize("refused", [0, 2, 4])
def test_with_stop_nothing_is_asked_after_the_first_refusal(table, refused):
    guard = Guard(table)
    told = guard.answer_each(for_people(FEW, [refused]), stop=True)
    assert len(told) == refused + 1
    assert isinstance(told[-1], BudgetSpent)
    assert len(guard.history) == refused
    check_account(guard, [told[:-1]] if refused else [])


def test_with_stop_nothing_is_asked_after_the_first_refusal_where_answers_are_counted(table):
    guard = Guard(table, strategy="split", queries=5)
    told = guard.answer_each(for_people(FEW[:3], [1]), stop=True)
    assert [type(one) for one in told] == [Answer, BudgetSpent]
    assert guard.spent == 1


def test_a_refusal_that_does_not_hold_at_the_second_try_is_forgotten(table, tmp_path, monkeypatch):
    """Another process writes between preparing and reserving; then what was refused is allowed."""
    guard, other = Guard(table, ledger=tmp_path / "book"), Guard(table, ledger=tmp_path / "book")
    tries = []

    def at_first(balance, price):
        tries.append(price)
        if len(tries) == 1:
            other.ask("share(x > 0.9)")
            raise BudgetSpent("not yet")

    told = guard.answer_each([(FEW[0], Asker("ann")), (FEW[1], Asker("bob", permit=at_first))])
    assert len(tries) >= 2
    assert all(isinstance(one, Answer) for one in told)


@pytest.mark.parametrize("stop", [False, True])
def test_a_closed_account_refuses_new_questions_in_their_places_and_repeats_known_answers(table, stop):
    guard = Guard(table)
    known = guard.ask_all(FEW[:2])
    guard.close_account()
    told = guard.answer_each(for_people(FEW[:4], ()), stop=stop)
    assert told[:2] == known
    assert [type(one) for one in told[2:]] == [Closed] * (1 if stop else 2)


def test_a_closed_account_refuses_new_questions_and_answers_old_ones_together_too(table):
    guard = Guard(table)
    known = guard.ask_all(QUESTIONS[:3])
    guard.close_account()
    assert guard.ask_all(QUESTIONS[:3]) == known
    with pytest.raises(BookError, match="closed"):
        guard.ask_all(["share(x > 0.9)", "share(x > 0.91)"])


def in_clean_room():
    try:
        require_unsealed()
    except RuntimeError:
        return False
    return True


@pytest.fixture
def failing(monkeypatch):
    """Questions with 0.6 fail on the protected rows, and say something about them."""
    original, read = Rows.values_tree, PreparedCode.read

    def values_tree(rows, question, *unit):
        if "0.6" in str(question.query) and in_clean_room():
            raise RuntimeError("a secret")
        return original(rows, question, *unit)

    def failing(self, part):
        if "0.6" in self.question.text:
            raise RuntimeError("a secret")
        return read(self, part)

    monkeypatch.setattr(Rows, "values_tree", values_tree)
    monkeypatch.setattr(PreparedCode, "read", failing)


@pytest.mark.usefixtures("failing")
def test_a_question_that_fails_is_charged_and_stops_no_other(table):
    guard = Guard(table)
    questions = ["share(x > 0.5)", "share(x > 0.6)", "share(x > 0.7)"]
    with pytest.raises(QueryRejected, match="could not be computed") as caught:
        guard.ask_all(questions)
    assert "secret" not in str(caught.value)
    assert kinds(guard) == ["open", *["reserve"] * 3, "release", "fail", "release"]
    assert "secret" not in str([event.body for event in events_of(guard)])
    told = guard.answer_each([(question, Asker()) for question in ("share(x > 0.5)", "share(x > 0.7)")])
    assert all(isinstance(one, Answer) for one in told)
    (failed,) = (event.body["micro_nats"] for event in events_of(guard) if event.kind == "fail")
    assert guard.spent == pytest.approx(sum(one.cost for one in told) + failed / 1e6)
    assert numbers_of(told)[1]["nats spent before"] == 0  # Nobody of the batch pays for the failure.
    spent = guard.spent
    assert guard.ask("share(x > 0.8)").certificate.numbers["nats spent before"] == spent


@pytest.mark.usefixtures("failing")
def test_a_failure_in_a_batch_is_final_and_reported_in_its_place(table):
    guard = Guard(table)
    questions = ["share(x > 0.6)", "share(y > 0.6)"]
    for _ in range(2):
        told = guard.answer_each([(question, Asker()) for question in questions])
        assert [type(one) for one in told] == [QueryRejected] * 2
    assert kinds(guard) == ["open", "reserve", "reserve", "fail", "fail"]
    told = guard.answer_each([(question, Asker()) for question in [*questions, "share(x > 0.5)"]])
    assert [type(one) for one in told] == [QueryRejected, QueryRejected, Answer]
    assert kinds(guard).count("fail") == 2


@pytest.mark.usefixtures("failing")
def test_a_question_that_failed_by_itself_does_not_cut_a_batch_short(table):
    guard = Guard(table)
    with pytest.raises(QueryRejected):
        guard.ask("share(x > 0.6)")
    with pytest.raises(QueryRejected, match="could not be computed"):
        guard.ask_all(["share(x > 0.6)", "share(x > 0.5)"])
    told = guard.answer_each(
        [(question, Asker()) for question in ("share(x > 0.6)", "share(x > 0.7)", FEW[0])]
    )
    assert [type(one) for one in told] == [QueryRejected, Answer, Answer]
    assert kinds(guard).count("fail") == 1


def test_two_guards_on_one_book_share_what_is_asked_together(table, tmp_path):
    one, two = Guard(table, ledger=tmp_path / "book"), Guard(table, ledger=tmp_path / "book")
    first = one.ask_all(QUESTIONS[:6])
    second = two.ask_all(QUESTIONS)
    assert [answer.to_dict() for answer in second[:6]] == [answer.to_dict() for answer in first]
    assert one.spent == two.spent
    assert len({event.subject for event in events_of(one) if event.kind == "release"}) == len(one.history)
    new = {answer.query.key: answer for answer in second if answer not in first}
    check_account(two, [first[:3] + first[4:], list(new.values())])


def test_a_foreign_question_in_between_pays_for_all_that_is_reserved(table, tmp_path, monkeypatch):
    ours, theirs = Guard(table, ledger=tmp_path / "book"), Guard(table, ledger=tmp_path / "book")
    answers, database = [], ours._setup.protected.rows._database
    original = database.ask

    def interrupted(*asked):
        if not answers:
            answers.append(theirs.share("x > 0.9"))
        return original(*asked)

    monkeypatch.setattr(database, "ask", interrupted)
    together = ours.ask_all(QUESTIONS[:3])
    (foreign,) = answers
    assert foreign.certificate.numbers["question"] == 4
    assert [numbers["question"] for numbers in numbers_of(together)] == [1, 1, 1]
    assert foreign.certificate.numbers["nats spent before"] > 20
    alone = Guard(table).ask_all(QUESTIONS[:3])
    assert [answer.value for answer in alone] == [answer.value for answer in together]
    assert ours.spent == pytest.approx(sum(answer.cost for answer in (*together, foreign)), abs=2e-6)


def stopped(*arguments, **options):
    raise KeyboardInterrupt


@pytest.fixture
def left_behind(table, tmp_path, monkeypatch):
    """A book in which a batch was reserved, and whose process died."""
    guard = Guard(table, ledger=tmp_path / "book")
    with monkeypatch.context() as broken:
        broken.setattr(guard._session, "settle", stopped)
        with pytest.raises(KeyboardInterrupt):
            guard.ask_all(FEW)
    return tmp_path / "book"


READ_AGAIN = ["open", *["reserve"] * 5, *["again"] * 5, *["release"] * 5]


def test_a_stopped_batch_is_read_again_at_the_next_start_for_what_it_costs(table, left_behind):
    again, whole = Guard(table, ledger=left_behind), Guard(table)
    assert again.history == tuple(whole.ask_all(FEW))
    assert kinds(again) == READ_AGAIN
    assert again.spent == whole.spent
    assert again.balance.open == {}
    assert again.share("x > 0.25").certificate.numbers["question"] == 6


def test_asking_the_same_batch_again_costs_nothing(table, left_behind):
    again, whole = Guard(table, ledger=left_behind), Guard(table)
    assert again.ask_all(FEW) == whole.ask_all(FEW)
    assert kinds(again) == READ_AGAIN


def test_asking_a_longer_batch_after_a_crash_charges_what_the_questions_cost(table, left_behind):
    again = Guard(table, ledger=left_behind)
    more = ["share(x > 0.4)", FEW[3], "share(x > 0.3)", *FEW[:3], FEW[4]]
    answers = {str(answer.query): answer for answer in again.ask_all(more)}
    assert kinds(again) == [*READ_AGAIN, *["reserve"] * 2, *["release"] * 2]
    order = [str(answer.query) for answer in again.history]
    old = [answers[text] for text in order[:5]]
    check_account(again, [old, [answers[text] for text in order[5:]]])


def test_one_of_a_batch_that_was_left_behind_keeps_its_place_by_itself(table, left_behind, monkeypatch):
    # As for an array of scores: nothing but asking again brings the questions back.
    monkeypatch.setattr(Session, "interrupted", lambda session: [])
    again = Guard(table, ledger=left_behind)
    alone = again.ask(FEW[2])
    assert alone.certificate.numbers["asked together"] == 5
    assert alone.certificate.numbers["nats spent before"] == 0
    assert kinds(again) == ["open", *["reserve"] * 5, "again", "release"]
    answers = again.ask_all(FEW)
    assert answers[2] == alone
    assert len(again.history) == 5
    check_account(again, [answers])


def test_a_refusal_of_something_new_does_not_hold_up_what_was_left_behind(table, left_behind):
    again = Guard(table, ledger=left_behind)
    told = again.answer_each([*for_people(["share(x > 0.4)"], [0]), *for_people(FEW, ())])
    assert [type(one) for one in told] == [BudgetSpent, *[Answer] * 5]
    assert again.balance.open == {}


def assert_taught_by_what_is_recorded(guard):
    """Every line of a batch follows from the lines before it: what it taught, and its price."""
    events = events_of(guard)
    batches = {event.sequence: event.body.get("batch") for event in events if event.kind == "reserve"}
    questions = {question.key: question for question in map(guard._questions.read, FEW)}
    learned, experience, nats = Learned(), Account(0.05).experience, 0.0
    for event in events:
        if event.kind == "release":
            now = guard._session.account_before(batches[event.body["reservation"]], learned, experience)
            ready = guard._strategy.prepare(questions[event.subject], now)
            output = Output(event.body["released"]["numbers"]["cells from the guess"])
            learned, nats = ready.alphabet.after(output), nats + ready.price(output)
            assert event.body["learned"] == learned.to_list()
    assert guard.balance.micro_nats == pytest.approx(nats * 1e6, abs=10)


@pytest.mark.parametrize(
    ("taken", "sabotaged"), [([0], False), ([1, 3], False), (range(5), False), ([1], True)]
)
def test_what_another_process_settled_meanwhile_is_not_built_on(
    table, tmp_path, monkeypatch, taken, sabotaged
):
    """Another process gave the reservations back. What was read here was priced from outputs that are not
    recorded. It is read again, so that only recorded answers leave.

    The twin records everything that is still open.
    """
    ours, theirs = Guard(table, ledger=tmp_path / "book"), Guard(table, ledger=tmp_path / "book")
    settle, once, later = Session.settle, [], time.time() + 3_600

    def meanwhile(session, settled, **options):
        if session is ours._session and not once:
            monkeypatch.setattr(time, "time", lambda: later)
            once.extend(theirs.ask(FEW[place]) for place in taken)
            session.read()
            if sabotaged:
                settled = [one for one in settled if session.is_open(one.line)]
        return settle(session, settled, **options)

    monkeypatch.setattr(Session, "settle", meanwhile)
    answers = ours.ask_all(FEW)
    assert [answers[place] for place in taken] == once
    check_account(ours, [answers])
    if sabotaged:
        with pytest.raises(AssertionError):
            assert_taught_by_what_is_recorded(ours)
        return
    assert_taught_by_what_is_recorded(ours)
    assert ours.balance.open == {}


def test_a_signed_book_with_batches_verifies_and_every_answer_has_its_receipt(table, tmp_path):
    key = SigningKey.generate()
    guard = Guard(table, ledger=Book(tmp_path / "book", key=key), error=0.5)
    answers = guard.ask_all([question for question in QUESTIONS if "guess" not in question])
    export(guard._book, tmp_path / "export")
    receipts = [answer.receipt for answer in answers]
    found = verify(tmp_path / "export", key.public, receipts=receipts)
    assert found.whole
    assert found.spent == pytest.approx(guard.spent, abs=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        {"micro_nats": 0},
        {"steps": 0},
        {"questions": 1},
        {"questions": 6},
        {"place": 1},
    ],
    ids=str,
)
def test_a_book_whose_batch_claims_another_account_is_refused(table, change):
    guard = Guard(table)
    guard.ask("share(x > 0.9)")
    guard.ask_all(FEW)
    balance = Balance()
    with pytest.raises(BookError, match="does not fit"):  # noqa: PT012
        for event in events_of(guard):
            if event.kind == "reserve" and "batch" in event.body:
                event.body["batch"].update(change)
            balance.apply(event)


def test_a_book_that_gives_back_what_was_not_reserved_does_not_verify(table, tmp_path):
    guard = Guard(table, ledger=tmp_path / "book")
    guard._book.append("return", {"reservation": 7}, after=1, subject="s")
    export(guard._book, tmp_path / "export")
    assert [problem.kind for problem in verify(tmp_path / "export").problems] == ["sums"]


def test_nothing_at_all_is_answered_with_nothing(table, written):
    guard = Guard(table)
    written.clear()
    assert guard.ask_all([]) == []
    assert guard.answer_each([]) == []
    assert written == []


def test_weights_of_a_batch_are_those_of_its_places():
    for step in (1, 7, 1_000):
        for questions in (1, 2, 50):
            evenly = questions * math.exp(-Weights().nats(step, questions))
            single = math.fsum(math.exp(-Weights().nats(step + place)) for place in range(questions))
            assert evenly == pytest.approx(single, rel=1e-12)
