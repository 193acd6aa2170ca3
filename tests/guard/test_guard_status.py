"""What a guard says before and between questions: previews agree with asking, the status line with the next
answer, and every number with its unit."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Guard
from holdfast.asking import Asker, Session
from holdfast.coding import Account, Experience, Output
from holdfast.dependence import GaussianRows, MarkovChain
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument
from holdfast.guard import Preview
from holdfast.intervals import clopper_pearson
from holdfast.ledger import Book, Closed, export, verify
from holdfast.readings import Question
from holdfast.strategies import CodeStrategy, PreparedCode

ROWS = 600
_RNG = np.random.default_rng(5)
TABLE = {f"c{j}": _RNG.integers(0, 2, ROWS) for j in range(10)}
STRATEGIES = {
    "code": {},
    "code with an error": {"error": 0.16},
    "agreed-code": {"strategy": "agreed-code", "queries": 6, "surprises": 2},
    "grid-code": {"strategy": "grid-code", "queries": 5},
    "grid-code with an error": {"strategy": "grid-code", "queries": 5, "error": 0.3},
    "split": {"strategy": "split", "queries": 5},
    "typical-gaussian": {"strategy": "typical-gaussian", "queries": 5},
    "typical-laplace": {"strategy": "typical-laplace", "queries": 5},
    "transfer-gaussian": {"strategy": "transfer-gaussian", "queries": 5},
}
COUNTED = [name for name in STRATEGIES if not name.startswith("code")]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 9),  # the column
        st.sampled_from([None, 0.5, 0.9]),  # the guess
        st.booleans(),  # with a filter
        st.integers(0, 1),  # the process that asks
    ),
    min_size=1,
    max_size=12,
)
LIMITS = st.sampled_from([2.0, 6.0, 12.0, 1e9])


@cache
def opened(name):
    """A guard of each strategy: opening one takes longer than all that is asked of it here."""
    return Guard(TABLE, **STRATEGIES[name])


def on_book(name, book):
    """The same guard with a fresh account in this book, as another process would have it."""
    account = opened(name)._opened
    session = Session(book, Account(account.session.account.failure), {})
    guard = Guard.__new__(Guard)
    guard._take(replace(account, session=session, book=book), assumed=True)
    return guard


def share_of(limit):
    """An asker whose share of the account is ``limit``, as a service makes one."""

    def permit(balance, price):
        if (spent := balance.spent_by("bob")) + price > limit * 1e6:
            raise BudgetSpent("The share of bob is used up.", asked=price / 1e6, spent=spent / 1e6)

    return Asker("bob", permit=permit)


def as_it_is(guard, question, asker):
    return guard.cost_preview(question, asker=asker)


def as_it_was(guard, question, asker):
    """The old preview: the account as this process saw it last, and no share."""
    asked = guard._questions.read(question)
    try:
        return guard._strategy.prepare(asked, guard._session.account).preview()
    except BudgetSpent:
        return Preview(question, math.nan, 0.0, 1.0, allowed=False)


def disagreements(name, steps, limit, preview_of=as_it_is):
    """Ask a book from two processes; returns the questions of which the preview and asking disagree."""
    book, wrong = Book(None), []
    guards = [on_book(name, book) for _ in range(2)]
    asker = share_of(limit)
    for column, guess, filtered, who in steps:
        guard = guards[who]
        where = ", where = c9 = 1" if filtered else ""
        question = f"share(c{column} = 1{where}{'' if guess is None else f', guess = {guess}'})"
        try:
            preview = preview_of(guard, question, asker)
        except HoldfastError as error:  # It cannot be asked as written: asking says the same.
            with pytest.raises(type(error)):
                guard.ask(question, asker=asker)
            continue
        settled = guard.balance.confirmed + guard.balance.surprised
        try:
            guard.ask(question, asker=asker)
            as_promised = preview.allowed
        except BudgetSpent:
            # A refusal that depends on the rows is an output and is charged; the preview says that it may be.
            charged = guard.balance.confirmed + guard.balance.surprised > settled
            as_promised = preview.allowed and preview.why != "" if charged else not preview.allowed
        if not as_promised:
            wrong.append(question)
    return wrong


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=4)
@given(steps=STEPS, limit=LIMITS)
def test_a_question_is_refused_if_and_only_if_its_preview_says_so(name, steps, limit):
    assert disagreements(name, steps, limit) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=150)
@given(steps=STEPS, limit=LIMITS)
def test_a_preview_and_asking_agree_at_many_states_of_the_account(name, steps, limit):
    assert disagreements(name, steps, limit) == []


@pytest.mark.parametrize("name", ["code", "code with an error", "grid-code"])
def test_the_old_preview_is_caught(name):
    """Another process used the account up, or the person's share is: the old preview knew of neither."""
    steps = [(j, 0.9, False, 0) for j in range(8)] + [(9, 0.9, False, 1)]
    limit = 9.0 if name == "code" else 1e9
    assert disagreements(name, steps, limit, as_it_was) != []
    assert disagreements(name, steps, limit) == []


def test_a_preview_of_a_refusal_says_why_and_charges_nothing():
    guard = Guard(TABLE, strategy="grid-code", queries=2)
    guard.share("c0 = 1")
    guard.share("c1 = 1")
    preview = guard.cost_preview("share(c2 = 1)")
    assert not preview.allowed
    with pytest.raises(BudgetSpent) as refused:
        guard.share("c2 = 1")
    assert preview.why == str(refused.value)
    assert preview.why in repr(preview)
    assert (refused.value.unit, refused.value.asked, refused.value.spent, refused.value.left) == (
        "answers",
        1,
        2,
        0,
    )


def test_a_preview_of_a_closed_account_is_not_allowed():
    guard = Guard(TABLE)
    answer = guard.share("c0 = 1")
    guard.close_account()
    preview = guard.cost_preview("share(c1 = 1)")
    assert not preview.allowed
    assert "closed" in preview.why
    with pytest.raises(Closed):
        guard.share("c1 = 1")
    assert guard.cost_preview("share(c0 = 1)").known
    assert guard.share("c0 = 1") == answer
    assert (guard.left, guard.left.fraction) == (0, 0)
    assert "The account is closed" in str(guard.left)


def test_a_question_that_was_too_wide_is_previewed_as_refused_again():
    """The training rows all pass the filter and the protected ones hardly: that is found out once, for a
    price, and afterwards the preview says what asking says."""
    protected = {"x": np.arange(4000) % 2, "f": (np.arange(4000) < 40).astype(int)}
    train = {"x": np.arange(4000) % 2, "f": np.ones(4000, dtype=int)}
    guard = Guard(protected, train=train, error=0.05)
    question = "share(x = 1, where = f = 1)"
    assert guard.cost_preview(question).allowed
    assert "could be wider than the promised ±0.05" in guard.cost_preview(question).why
    with pytest.raises(BudgetSpent, match="the rows do not support"):
        guard.ask(question)
    spent = guard.spent
    assert spent > 0
    preview = guard.cost_preview(question)
    assert not preview.allowed
    assert "the rows do not support" in preview.why
    with pytest.raises(BudgetSpent):
        guard.ask(question)
    assert guard.spent == spent


def promised_width(guard):
    """The half-width that the status line names."""
    (width,) = re.findall(r"^A share asked now gets about ±([\d.e-]+); ", guard.left.words)
    return float(width)


def status_without_the_cell(guard):
    """The half-width that the status line named before: the fixed-query interval, and no cell."""
    nats = guard._session.account.nats()
    return clopper_pearson(guard.rows // 2, guard.rows, nats).half_width


def agrees(promised, answered):
    """Whether two half-widths agree: two digits, of a share that is not exactly one half."""
    return abs(promised - answered) <= 0.08 * answered


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_the_status_line_promises_what_a_confirmed_share_gets(share, rng):
    """At every state of the account: after confirmed guesses, after surprises, with and without training."""
    table = {f"c{j}": rng.integers(0, 2, 3000) for j in range(40)}
    guard = Guard(table, training_share=share)
    compared = 0
    for j in range(20):
        promised, exact = promised_width(guard), guard.left.share_half_width
        without = status_without_the_cell(guard)
        guess = {} if share else {"guess": 0.5}
        answer = guard.share(f"c{j} = 1", **guess)
        if answer.confirmed:
            compared += 1
            assert agrees(promised, answer.half_width), (j, promised, answer)
            assert not agrees(without, answer.half_width)  # The old line is caught by the same check.
            assert exact == pytest.approx(answer.half_width, rel=0.02)
        if j % 4 == 3:
            guard.share(f"c{20 + j} = 1", guess=0.9)
    assert compared >= 10


def test_the_width_after_more_questions_is_what_honest_ones_bring(rng):
    """A forecast: the mean over a few sessions of fair coins."""
    asked, widths = 15, []
    for _ in range(6):
        table = {f"c{j}": rng.integers(0, 2, 6000) for j in range(asked + 1)}
        guard = Guard(table)
        forecast, now = guard.left.share_half_width_after(asked), guard.left.share_half_width
        for j in range(asked):
            guard.share(f"c{j} = 1")
        widths.append(guard.left.share_half_width)
    assert forecast == pytest.approx(np.mean(widths), rel=0.1)
    assert guard.left.share_half_width_after(0) == guard.left.share_half_width
    assert forecast > 1.5 * now  # The width of now is no forecast.
    assert math.isnan(Guard(table, strategy="grid-code", queries=5).left.share_half_width_after(3))
    with pytest.raises(InvalidArgument, match="questions"):
        guard.left.share_half_width_after(-1)


def test_a_preview_says_when_an_answer_would_be_the_whole_range(rng):
    guard = Guard({"x": rng.random(90), "few": np.arange(90) % 45 == 0})
    useless, useful = guard.cost_preview("share(x > 0.5, where = few)"), guard.cost_preview("share(x > 0.5)")
    assert "This would tell you nothing: the interval would cover " in useless.why
    assert useless.why in repr(useless)
    assert useful.why == ""
    assert useful.expected_half_width == useful.half_width < 0.4 < useless.expected_half_width


def test_the_status_line_knows_the_model_of_the_rows():
    states = np.cumsum(np.random.default_rng(4).random(6000) < 0.25) % 2
    guard = Guard({"s": states}, dependence=MarkovChain([[0.75, 0.25], [0.25, 0.75]], 6000))
    expected = guard.left.share_half_width
    answer = guard.share("s = 1")
    assert answer.confirmed
    assert answer.half_width == pytest.approx(expected, rel=0.05)
    model = GaussianRows(0.01 * np.eye(200))
    gauss = Guard({"x": np.linspace(-0.2, 0.2, 200)}, dependence=model, training_share=0)
    (width,) = re.findall(r"^The mean of the rows asked now gets about ±([\d.]+); ", gauss.left.words)
    assert math.isnan(gauss.left.share_half_width)
    answer = gauss.custom(lambda rows: rows["x"].mean(), tail=model.mean_tail(), guess=0.0)
    assert answer.half_width == pytest.approx(float(width), rel=0.06)


def test_under_a_promise_the_status_line_and_the_next_share_agree_to_the_end(rng):
    """While the status says that a share would be answered it is, and once it says that it would not it is
    not; the fraction left falls to nothing."""
    table = {f"c{j}": rng.integers(0, 2, 1500) for j in range(60)}
    guard = Guard(table, error=0.085, training_share=0)
    fractions = [guard.left.fraction]
    assert fractions == [1.0]
    for j in range(60):
        left = guard.left
        if left.confirmed == 0:
            break
        assert left.share_half_width <= 0.085
        assert guard.share(f"c{j} = 1", guess=0.5).half_width <= 0.085
        fractions.append(guard.left.fraction)
    else:
        pytest.fail("nothing was ever refused")
    assert fractions == sorted(fractions, reverse=True)
    assert (float(left), left.surprises, left.fraction) == (0.0, 0, 0.0)
    assert left.words == "A share would be refused now: its interval would be wider than ±0.085"
    with pytest.raises(BudgetSpent):
        guard.share("c59 = 1", guess=0.5)


def all_outputs(prepared):
    """Every output that a share of all rows can have, with its half-width."""
    rows = prepared.reading.rows
    cells = {prepared.grid.index(count / rows) for count in range(rows + 1)}
    return {cell: prepared.interval(Output(cell)).half_width for cell in cells}


def kept_by_the_cell_itself(prepared, places, *, likely=True):
    """The old check: the interval of the cell at each place, and not of the cells beside it."""
    outputs = (Output(prepared.grid.index(place)) for place in places)
    return all(prepared.interval(output).half_width <= prepared.error for output in outputs)


class Share(Question):
    """A share that is prepared and never read."""

    def moments(self, part, *, squares=False):
        raise AssertionError

    @property
    def record(self):
        return self.text


def too_wide_outputs(rows, error, guess, spent):
    """What a prepared share promises and breaks: outputs near the guess, and any where it says it is sure."""
    account = Account(0.05, steps=spent, micro_nats=spent * 10**6, experience=Experience(spent, 0))
    question = Share(key="", text="A share", low=0.0, high=1.0, guess=guess, kind="share")
    try:
        prepared = CodeStrategy(rows, None, None, None, error).prepare(question, account)
    except BudgetSpent:
        return []
    sure = prepared.preview().why == ""
    return [
        cell for cell, width in all_outputs(prepared).items() if width > error and (sure or abs(cell) <= 2)
    ]


PROMISES = {
    "rows": st.integers(20, 900),
    "error": st.floats(0.03, 0.4),
    "guess": st.floats(0, 1),
    "spent": st.integers(0, 30),
}


@settings(max_examples=40)
@given(**PROMISES)
def test_no_output_that_was_promised_is_refused(rows, error, guess, spent):
    """By enumeration of every number of rows: within two cells of the guess, and everywhere if a preview has
    no doubt, the interval keeps the promise, and nothing is charged for a refusal there."""
    assert too_wide_outputs(rows, error, guess, spent) == []


@pytest.mark.slow
@settings(max_examples=1500)
@given(**PROMISES)
def test_no_output_that_was_promised_is_refused_at_many_states(rows, error, guess, spent):
    assert too_wide_outputs(rows, error, guess, spent) == []


def test_the_old_check_of_cells_is_caught(monkeypatch):
    """It looked at every second cell: the ones between touched one row more."""
    states = [(rows, 0.085, 0.5, spent) for rows in (1000, 1200, 1500) for spent in range(8)]
    assert not any(too_wide_outputs(*state) for state in states)
    monkeypatch.setattr(PreparedCode, "keeps", kept_by_the_cell_itself)
    assert any(too_wide_outputs(*state) for state in states)


@pytest.mark.parametrize("name", COUNTED)
def test_what_counts_answers_speaks_of_answers_only(name, tmp_path):
    guard = Guard(TABLE, ledger=tmp_path / "book", **STRATEGIES[name])
    texts = [repr(guard), str(guard.left), repr(guard.cost_preview("share(c0 = 1)"))]
    answer = guard.share("c0 = 1")
    total = STRATEGIES[name]["queries"]
    assert (answer.cost, answer.unit, guard.spent, guard.left, guard.left.total) == (
        1,
        "answers",
        1,
        total - 1,
        total,
    )
    assert guard.left.fraction == (total - 1) / total
    assert guard.certificate.numbers["answers spent"] == 1
    texts += [repr(guard), str(guard.left), repr(answer), answer._repr_html_(), repr(guard.history)]
    while guard.left:
        j = int(guard.spent)
        guard.share(f"c{j} = 1")
    with pytest.raises(BudgetSpent) as refused:
        guard.share("c9 = 1")
    assert (refused.value.unit, refused.value.spent, refused.value.left) == ("answers", guard.spent, 0)
    texts += [str(refused.value), repr(guard.cost_preview("share(c9 = 1)"))]
    for text in texts:
        assert "nats" not in text
    assert sum(answer.cost for answer in guard.history) == guard.spent
    export(guard._book, tmp_path / "export")
    found = verify(tmp_path / "export")
    assert (found.spent, found.unit) == (guard.spent, "answers")


def test_what_counts_nats_says_so(tmp_path):
    guard = Guard(TABLE, ledger=tmp_path / "book")
    answer = guard.share("c0 = 1", guess=0.9)
    assert (guard.unit, answer.unit, guard.left.unit) == ("nats", "nats", "nats")
    assert f"cost {answer.cost:.3g} nats" in repr(answer)
    export(guard._book, tmp_path / "export")
    found = verify(tmp_path / "export")
    assert (found.spent, found.unit) == (guard.spent, "nats")


def test_a_failure_names_its_price_in_the_unit_of_the_account():
    class FailsOnManyRows:
        def predict(self, frame):
            if len(frame) > 500:
                raise RuntimeError("no")
            return np.zeros(len(frame))

    for name, words in (("grid-code", "cost 1 answer."), ("code", "nats. Try it")):
        guard = Guard(TABLE, training_share=0.1, **STRATEGIES[name])
        with pytest.raises(HoldfastError, match=words) as refused:
            guard.score(FailsOnManyRows(), target="c1", guess=0.5)
        assert refused.value.unit == guard.unit
        assert refused.value.spent == guard.spent


def test_a_preview_without_a_guess_names_none():
    for name in ("grid-code", "split", "typical-gaussian"):
        guard = Guard(TABLE, **STRATEGIES[name])
        preview = guard.cost_preview("share(c0 = 1)")
        assert math.isnan(preview.guess)
        assert preview.to_dict()["guess"] is None
        assert "guess" not in repr(preview)
        assert " for 1 answer" in repr(preview)
        assert guard.share("c0 = 1").half_width <= 1.0001 * preview.half_width


def test_a_preview_of_a_filter_does_not_promise_the_width_of_all_rows():
    for name in ("split", "typical-gaussian"):
        guard = Guard(TABLE, **STRATEGIES[name])
        question = "share(c0 = 1, where = c1 = 1)"
        preview = guard.cost_preview(question)
        assert "the fewer pass the filter, the wider it is" in repr(preview)
        assert guard.ask(question).half_width > 1.1 * preview.half_width
    split = Guard(TABLE, strategy="split", queries=2, error=0.2)
    quantile = split.cost_preview("quantile(c0 + c1, 0.5)")
    assert "unknown width for 1 answer" in repr(quantile)
    assert "could be wider than the promised ±0.2" in quantile.why
    assert split.cost_preview("share(c0 = 1)").why == ""


def test_answers_say_what_was_left_out_and_what_was_not_used():
    values = np.where(np.arange(ROWS) % 10 == 0, np.nan, 0.5)
    guard = Guard({"m": values, "c": np.arange(ROWS) % 2})
    skipped, filtered = "Rows without a value do not enter.", "Rows for which the filter is false or null"
    notes = {
        where: " ".join(guard.mean("m", bounds=(0, 1), nulls="skip", where=where).notes)
        for where in (None, "c = 1")
    }
    assert skipped in notes[None]
    assert filtered not in notes[None]
    assert skipped in notes["c = 1"]
    assert filtered in notes["c = 1"]
    grid = Guard(TABLE, strategy="grid-code", queries=2)
    assert "guess was not used" in grid.share("c0 = 1", guess=0.9).notes[-1]
    assert grid.share("c1 = 1").notes == ()


def test_a_wider_interval_around_the_guess_is_called_that():
    """Fewer rows pass the filter than in the training part: the value is as guessed, the width is not."""
    protected = {"x": np.arange(2000) % 2, "f": (np.arange(2000) < 20).astype(int)}
    train = {"x": np.arange(2000) % 2, "f": np.ones(2000, dtype=int)}
    answer = Guard(protected, train=train).share("x = 1", where="f = 1")
    assert not answer.confirmed
    assert answer.value == answer.guess
    assert "(a surprise: as guessed, but wider than expected; cost " in repr(answer)


def test_a_picture_names_the_unit_and_shows_a_guess_only_if_there_is_one():
    pytest.importorskip("matplotlib")
    for name, unit, label in (("code", "nats", "as guessed"), ("grid-code", "answers", "answer")):
        guard = Guard(TABLE, **STRATEGIES[name])
        guard.share("c0 = 1")
        axes = guard.plot().axes
        assert axes[-1].get_ylabel() == f"{unit} spent"
        labels = [text.get_text() for text in axes[0].get_legend().get_texts()]
        assert label in labels
        assert ("guess" in labels) == (name == "code")


@pytest.mark.parametrize("question", ["share(age > 40)", "mean(income, 0, 100000)"])
def test_a_promise_that_so_few_rows_cannot_keep_is_refused_with_one_that_they_can(question):
    source = np.random.default_rng(7)
    people = {"age": source.integers(18, 90, 258), "income": source.normal(40_000, 9_000, 258)}
    with pytest.raises(
        BudgetSpent, match=r": 172 protected rows cannot give ±0\.01; the best here is about ±"
    ) as refused:
        Guard(people, error=0.01).ask(question)
    assert refused.value.spent == 0
    best = float(re.search(r"about ±([\d.,]*\d)", str(refused.value))[1].replace(",", ""))
    assert Guard(people, error=1.2 * best).ask(question).half_width <= 1.2 * best
    with pytest.raises(BudgetSpent):
        Guard(people, error=0.8 * best).ask(question)


def test_a_guard_says_at_once_that_so_few_rows_cannot_keep_its_promise():
    """From public facts only, the number of rows. After the first answer the words are about the account."""
    people = {"age": np.random.default_rng(7).integers(18, 90, 258)}
    words = Guard(people, error=0.01).left.words
    assert re.fullmatch(r"172 protected rows cannot give ±0\.01; the best here is about ±0\.\d+", words)
    older = {"age": people["age"] + 100}
    assert Guard(older, error=0.01).left.words == words
    best = float(words.rpartition("±")[2])
    assert "confirmed guesses" in Guard(people, error=1.2 * best).left.words


def test_a_share_given_as_training_rows_names_the_right_argument():
    with pytest.raises(InvalidArgument, match=r"write training_share=0\.25\. Got 0\.3 instead"):
        Guard({"age": np.arange(300)}, train=0.3)
