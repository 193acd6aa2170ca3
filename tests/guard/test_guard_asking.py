"""Asking as a person does: answers, refusals, the account, and that nothing is read before it is paid for."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from holdfast import Guard, queries
from holdfast.coding import Account
from holdfast.engines import Rows, unsealed
from holdfast.errors import BudgetSpent, InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.ledger import Book, BookError
from holdfast.tails import SubGaussian

ROWS = 8_000


@pytest.fixture
def table(rng):
    return {
        "age": rng.integers(18, 90, ROWS),
        "income": rng.normal(40_000, 9_000, ROWS),
        "group": rng.choice(["a", "b", "c"], ROWS, p=[0.6, 0.3, 0.1]),
        "flag": rng.random(ROWS) < 0.3,
        "missing": np.where(rng.random(ROWS) < 0.2, np.nan, 1.0),
    }


@pytest.fixture
def guard(table):
    return Guard(table)


class Watch:
    """Counts reads of the protected rows, or forbids them."""

    def __init__(self, monkeypatch, guard):
        self.reads = 0
        self.forbidden = False
        protected = guard._setup.protected.rows
        for name in ("sums", "order_statistics", "frame"):
            original = getattr(Rows, name)

            def watched(rows, *arguments, original=original, **options):
                if rows is protected:
                    self.reads += 1
                    if self.forbidden:
                        raise AssertionError("the protected rows were read")
                return original(rows, *arguments, **options)

            monkeypatch.setattr(Rows, name, watched)


@pytest.fixture
def watch(monkeypatch, guard):
    return Watch(monkeypatch, guard)


def test_every_kind_of_question_is_answered_around_the_truth(guard, table):
    frame = pd.DataFrame(table)
    asked = {
        guard.share("age > 40"): (frame.age > 40).mean(),
        guard.mean("income", bounds=(0, 1e5)): frame.income.clip(0, 1e5).mean(),
        guard.mean("income / 1000", bounds=(0, 100), where="group = 'b'", nulls=0): frame.income[
            frame.group == "b"
        ].mean()
        / 1e3,
        guard.share("flag", where="age < 30"): frame.flag[frame.age < 30].mean(),
        guard.quantile("income", 0.5): frame.income.median(),
        guard.quantile("income", 0.9, where="group = 'a'"): frame.income[frame.group == "a"].quantile(0.9),
        guard.score("age > 53", target="flag"): ((frame.age > 53) == frame.flag).mean(),
        guard.custom(
            lambda rows: rows.income.mean(), tail=SubGaussian(9_000).of_mean(ROWS // 2)
        ): frame.income.mean(),
    }
    for answer, truth in asked.items():
        assert answer.low <= truth <= answer.high, answer
        assert answer.low <= answer.value <= answer.high
        assert float(answer) == answer.value
        assert answer.cost > 0
        assert answer.confidence == 0.95
    assert guard.spent == pytest.approx(sum(answer.cost for answer in guard.history))
    assert len(guard.history) == len(asked)


def test_the_same_question_in_other_words_costs_nothing(guard, watch):
    first = guard.share("age > 40 and flag")
    reads, spent = watch.reads, guard.spent
    for again in (
        lambda: guard.share("flag AND 40 < age"),
        lambda: guard.share("age > 40 and flag", guess=0.9),
        lambda: guard.ask("share(flag and age>40)"),
        lambda: guard.ask(queries.share("flag and age > 40")),
    ):
        assert again() is first
    assert (watch.reads, guard.spent, len(guard.history)) == (reads, spent, 1)


def test_a_confirmed_guess_is_cheap_and_a_surprise_is_not(guard):
    confirmed = guard.share("flag")
    surprise = guard.share("not flag", guess=0.1)
    assert confirmed.confirmed
    assert confirmed.cost < 2.5
    assert not surprise.confirmed
    assert surprise.cost > 6
    assert surprise.low <= 0.7 <= surprise.high


def test_a_preview_never_reads_protected_rows_and_says_what_will_happen(guard, watch):
    watch.forbidden = True
    previews = [
        guard.cost_preview(text) for text in ("share(flag)", "mean(income, 0, 1e5)", "quantile(age, 0.5)")
    ]
    assert watch.reads == 0
    watch.forbidden = False
    spent = guard.spent
    assert spent == 0
    answer = guard.share("flag")
    assert answer.confirmed
    assert answer.cost >= previews[0].if_confirmed - 2e-6
    assert answer.half_width == pytest.approx(previews[0].half_width, rel=0.02)
    for preview in previews:
        assert preview.if_confirmed < preview.if_surprised < preview.at_most
    assert guard.cost_preview("share(flag)").known
    assert "costs nothing" in repr(guard.cost_preview("share(flag)"))


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda g: g.share("agge > 40"), "'age'"),
        (lambda g: g.ask("mean(income)"), "bounds"),
        (lambda g: g.mean("group", bounds=(0, 1)), "group"),
        (lambda g: g.share("age"), "age"),
        (lambda g: g.share("age > (select 3)"), "not allowed"),
        (lambda g: g.share("random() > 0.5"), "not allowed"),
        (lambda g: g.mean("avg(age)", bounds=(0, 100)), "not allowed"),
        (lambda g: g.share("missing > 0"), "missing"),
        (lambda g: g.mean("ln(age)", bounds=(0, 10)), "nulls"),
        (lambda g: g.score([1, 2, 3], target="flag"), "8,000"),
        (lambda g: g.score(np.zeros(ROWS), target="flagg"), "flagg"),
    ],
)
def test_what_cannot_be_asked_is_refused_without_a_read_or_a_charge(guard, watch, ask, says):
    watch.forbidden = True
    with pytest.raises(QueryRejected, match=says) as caught:
        ask(guard)
    assert guard.spent == 0
    assert watch.reads == 0
    if caught.value.spent is not None:
        assert caught.value.spent == 0
    assert guard.history == ()


def test_the_price_is_on_the_book_before_the_rows_are_read(guard, monkeypatch):
    protected, original, seen = guard._setup.protected.rows, Rows.sums, []

    def sums(rows, *arguments, **options):
        if rows is protected:
            seen.append((list(guard._session._book.events())[-1].kind, guard.spent))
        return original(rows, *arguments, **options)

    monkeypatch.setattr(Rows, "sums", sums)
    worst = guard.cost_preview("share(flag)").at_most
    answer = guard.share("flag")
    assert seen == [("reserve", pytest.approx(worst, abs=2e-6))]
    assert guard.spent == answer.cost < worst


def test_a_failure_on_protected_rows_is_charged_and_says_nothing_about_them(guard):
    def explode(frame):
        if len(frame) == guard.rows and explode.armed:
            raise RuntimeError(f"secret {frame.income.max()}")
        return 0.0

    explode.armed = False
    guess = 0.5
    explode.armed = True
    with pytest.raises(QueryRejected) as caught:
        guard.custom(explode, tail=SubGaussian(1.0), guess=guess)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert guard.spent > 4
    assert caught.value.spent == guard.spent
    assert guard.history == ()


def test_a_promised_error_is_kept_and_what_would_break_it_is_refused(table):
    guard = Guard(table, error=0.05)

    def ask_until_refused() -> BudgetSpent:
        for threshold in range(19, 90):
            try:
                assert guard.share(f"age > {threshold}", guess=0.5).half_width <= 0.05
            except BudgetSpent as refusal:
                return refusal
        raise AssertionError("nothing was refused")

    refusal = ask_until_refused()
    assert 2 <= len(guard.history) < 70
    assert refusal.left < 5
    assert refusal.spent == guard.spent
    assert "±0.05" in str(refusal)
    assert guard.share("age > 19").half_width <= 0.05


def test_what_is_left_shrinks_and_is_described_in_words(table):
    guard = Guard(table, error=0.05)
    before = guard.left
    assert (
        f"{before.confirmed:,} confirmed guesses or {before.surprises} surprises more at ±0.05"
        in before.words
    )
    guard.share("flag")
    assert guard.left < before
    guard.share("age > 60", guess=0.6)
    assert guard.left < before - 3
    assert math.isinf(Guard(table).left)
    assert "No maximum width was set, so no question is refused." in str(Guard(table).left)


def test_without_a_promise_nothing_is_refused_and_intervals_widen(table):
    guard = Guard(table)
    widths = [guard.share(f"age > {threshold}", guess=0.999).half_width for threshold in range(45, 65)]
    assert widths[-1] > 1.3 * widths[0]


def test_a_promise_no_rows_could_keep_is_refused_at_once_and_free(table):
    guard = Guard(table, error=0.001)
    with pytest.raises(BudgetSpent):
        guard.share("flag")
    assert guard.spent == 0
    assert not guard.cost_preview("share(flag)").allowed


def test_the_training_part_is_free_and_disjoint(table):
    frame = pd.DataFrame(table).assign(row=np.arange(ROWS))
    guard = Guard(frame)
    assert isinstance(guard.train, pd.DataFrame)
    assert len(guard.train) == round(ROWS / 3) == ROWS - guard.rows
    with unsealed():
        protected = guard._setup.protected.rows.frame()
    assert set(guard.train.row) | set(protected.row) == set(range(ROWS))
    assert guard.spent == 0
    other = Guard(frame, split_seed=1)
    assert set(other.train.row) != set(guard.train.row)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict", "csv", "parquet"])
def test_rows_of_every_kind_give_the_same_answer(table, tmp_path, kind):
    frame = pd.DataFrame({name: table[name] for name in ("age", "income", "group", "flag")})
    made = {
        "pandas": lambda: frame,
        "polars": lambda: pl.from_pandas(frame),
        "pyarrow": lambda: pa.Table.from_pandas(frame, preserve_index=False),
        "dict": lambda: {name: frame[name].to_numpy() for name in frame},
        "csv": lambda: (frame.to_csv(tmp_path / "t.csv", index=False), tmp_path / "t.csv")[1],
        "parquet": lambda: (frame.to_parquet(tmp_path / "t.parquet"), str(tmp_path / "t.parquet"))[1],
    }[kind]()
    guard = Guard(made)
    got = (
        guard.mean("income", bounds=(0, 1e5), where="flag"),
        guard.share("group = 'b'"),
        guard.quantile("age", 0.25),
    )
    expected = Guard(frame)
    want = (
        expected.mean("income", bounds=(0, 1e5), where="flag"),
        expected.share("group = 'b'"),
        expected.quantile("age", 0.25),
    )
    assert [(a.value, a.low, a.high, a.cost) for a in got] == [(a.value, a.low, a.high, a.cost) for a in want]


def test_a_training_part_of_the_callers_own(table):
    half = {name: values[: ROWS // 2] for name, values in table.items()}
    rest = {name: values[ROWS // 2 :] for name, values in table.items()}
    guard = Guard(rest, train=half)
    answer = guard.share("flag")
    assert answer.guess == half["flag"].mean()
    assert guard.rows == ROWS // 2
    assert any("supplied by the caller" in sentence for sentence in guard.certificate.assumed)
    del half["age"]
    with pytest.raises(QueryRejected, match="age"):
        Guard(rest, train=half)


def test_without_a_training_part_every_question_brings_its_guess(table):
    guard = Guard(table, training_share=0)
    assert guard.train is None
    assert guard.rows == ROWS
    with pytest.raises(QueryRejected, match="guess"):
        guard.share("flag")
    assert guard.share("flag", guess=0.3).confirmed
    assert guard.share("flag", where="age > 50", guess=0.3).low > 0.2
    assert guard.spent > 0


def test_scores_of_arrays_models_and_expressions_agree(table, rng):
    frame = pd.DataFrame({name: table[name] for name in ("age", "income", "flag")})

    class Rule:
        def predict(self, features):
            assert "flag" not in features
            return (features.age > 53).to_numpy()

    predictions = (frame.age > 53).to_numpy()
    by_array = Guard(frame).score(predictions, target="flag")
    by_model = Guard(frame).score(Rule(), target="flag", guess=by_array.guess)
    by_text = Guard(frame).score("age > 53", target="flag")
    assert by_array.guess == by_text.guess
    for other in (by_model, by_text):
        assert (other.value, other.low, other.high) == (by_array.value, by_array.low, by_array.high)
    guard = Guard(frame)
    assert guard.score(predictions, target="flag") is guard.score(predictions.copy(), target="flag")
    protected = predictions[guard._setup.protected.mask]
    unguessed = guard.score(protected, target="flag")
    assert unguessed.low < by_array.value < unguessed.high
    assert Guard(frame).score(protected, target="flag", guess=by_array.guess).value == by_array.value
    wrong = Guard(frame).score(predictions, target="flag", metric="error")
    assert wrong.value == pytest.approx(1 - by_array.value)
    brier = Guard(frame).score(np.full(ROWS, 0.3), target="flag", metric="brier")
    assert brier.low < 0.21 < brier.high
    with pytest.raises(InvalidArgument, match="accuracy"):
        guard.score(predictions, target="flag", metric="mcc")


@pytest.mark.parametrize(
    "stored",
    [
        lambda found: found.astype(bool),
        lambda found: found.astype(np.float32),
        lambda found: found.astype(np.uint8),
        lambda found: found.astype(object),
        lambda found: np.repeat(found, 2)[::2],
        lambda found: -0.0 + found * 1.0,
    ],
)
def test_predictions_are_the_same_question_however_they_are_stored(table, rng, stored):
    found = rng.integers(0, 2, len(table["age"]))
    guard = Guard({**table, "found": found ^ (rng.random(len(found)) < 0.1)})
    first = guard.score(found, target="found")
    again = guard.score(stored(found), target="found")
    assert (again.value, again.receipt) == (first.value, first.receipt)
    assert len(guard.history) == 1
    assert guard.score(1 - found, target="found").value != first.value


def test_texts_and_large_numbers_are_scored_as_they_are(rng):
    names = np.array(["left", "right"])[rng.integers(0, 2, 4000)]
    guard = Guard({"name": names, "number": np.full(4000, 2**53 + 1)}, training_share=0)
    assert guard.score(names, target="name", guess=1).value > 0.99
    assert guard.score(names.astype("<U99").astype(object), target="name", guess=1).value > 0.99
    assert len(guard.history) == 1
    assert guard.score(np.full(4000, 2**53), target="number", guess=0).value < 0.01
    assert guard.score(np.full(4000, 2**53 + 1), target="number", guess=1).value > 0.99


def test_batches_are_checked_before_the_first_is_asked_and_pay_nothing_for_each_other(guard, table):
    with pytest.raises(QueryRejected):
        guard.ask_all(["share(flag)", "share(nonsense)"])
    assert guard.spent == 0
    batch = guard.ask_all(["share(flag)", "share(age > 40)", "share(flag)"])
    assert batch[0] == batch[2]
    nats = [answer.certificate.numbers["nats of this interval"] for answer in batch]
    assert nats[0] == nats[1] == pytest.approx(Account(1 - 0.95).for_batch(2).nats())
    alone = Guard(table)
    alone.share("flag")
    assert batch[1].half_width < alone.share("age > 40").half_width
    assert guard.spent == pytest.approx(batch[0].cost + batch[1].cost)


def test_answers_and_certificates_read_well_everywhere(guard):
    answer = guard.mean("income", bounds=(0, 1e5), where="flag")
    assert "nats" in repr(answer)
    assert "clipped" in " ".join(answer.notes)
    assert json.loads(json.dumps(answer.to_dict()))["query"] == str(answer.query)
    assert "<code>" in answer._repr_html_()
    certificate = str(answer.certificate)
    for word in ("Theorem", "Assumed", "Checked", "independent", "nats of this interval"):
        assert word in certificate
    assert "<pre>" in answer.certificate._repr_html_()
    assert "protected rows" in repr(guard)
    with pytest.raises(AttributeError):
        answer.value = 0


def test_too_few_rows_are_said_in_numbers():
    with pytest.raises(NotEnoughRows):
        Guard({"x": [1.0, 2.0, 3.0]})
    with pytest.raises(QueryRejected, match=r"no rows|empty"):
        Guard({"x": np.array([], dtype=float)})
    small = Guard({"x": np.arange(40.0)})
    with pytest.raises(NotEnoughRows) as caught:
        small.quantile("x", 0.99)
    assert caught.value.needed > caught.value.got == 27
    assert small.spent == 0


@pytest.mark.parametrize(
    "options",
    [
        {"confidence": 1.0},
        {"confidence": math.nan},
        {"error": 0.0},
        {"error": -1},
        {"strategy": "magic"},
        {"dependence": "chain"},
        {"training_share": 1.0},
        {"split_seed": -1},
    ],
)
def test_bad_options_are_named(table, options):
    with pytest.raises(InvalidArgument) as caught:
        Guard(table, **options)
    assert caught.value.argument in options


def test_the_account_outlives_the_session(table, tmp_path):
    frame, path = pd.DataFrame(table), tmp_path / "account.holdfast"
    first = Guard(frame, ledger=path, error=0.08)
    answers = [first.share("flag"), first.mean("income", bounds=(0, 1), guess=0.5, where="age > 20", nulls=0)]
    again = Guard(frame, ledger=path, error=0.08)
    assert again.spent == first.spent
    assert [answer.to_dict() for answer in again.history] == [answer.to_dict() for answer in answers]
    assert again.share("flag").to_dict() == answers[0].to_dict()
    assert again.spent == first.spent
    with pytest.raises(BookError, match="error"):
        Guard(frame, ledger=path)
    with pytest.raises(BookError, match="data"):
        Guard(frame.iloc[:-1], ledger=path, error=0.08)


def test_a_reservation_that_is_not_settled_counts_as_spent_until_it_is_read_again(
    table, tmp_path, monkeypatch
):
    frame, path = pd.DataFrame(table), tmp_path / "account.holdfast"
    guard = Guard(frame, ledger=path)
    worst = guard.cost_preview("share(flag)").at_most

    def die(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(guard._session, "settle", die)
    with pytest.raises(KeyboardInterrupt):
        guard.share("flag")
    assert guard.spent == pytest.approx(worst, abs=2e-6)
    assert guard.history == ()
    monkeypatch.undo()
    reopened = Guard(frame, ledger=path)
    assert len(reopened.history) == 1
    assert 0 < reopened.share("flag").cost < worst
    assert reopened.spent == pytest.approx(reopened.history[0].cost, abs=2e-6)


def test_two_guards_on_one_book_share_one_account(table, tmp_path):
    frame, path = pd.DataFrame(table), tmp_path / "account.holdfast"
    one, two = Guard(frame, ledger=path), Guard(frame, ledger=Book(path))
    first = one.share("flag")
    assert two.share("flag").to_dict() == first.to_dict()
    second = two.share("age > 50")
    third = one.share("age > 60")
    assert third.certificate.numbers["question"] == 3
    assert one.spent == pytest.approx(first.cost + second.cost + third.cost)
    two._session.read()
    assert two.spent == one.spent


def test_a_picture_shows_what_was_released_and_reads_nothing(guard, watch):
    pytest.importorskip("matplotlib")
    guard.share("flag")
    guard.share("age > 30", guess=0.1)
    watch.forbidden = True
    figure = guard.plot()
    labels = {text.get_text() for text in figure.axes[0].get_legend().get_texts()}
    assert labels == {"guess", "as guessed", "a surprise"}


@pytest.mark.parametrize("kind", ["count", "variance"])
def test_two_tables_that_differ_in_the_width_class_alone_pay_for_it(kind):
    """Same guess, same cell; only how many rows pass, or how values vary, is not as training predicts."""
    rows = 4000
    place = np.arange(rows)
    usual = {"passes": place % 2 == 0, "value": 0.5 + 0.01 * np.where(place % 4 < 2, 1, -1)}
    other = dict(usual)
    if kind == "count":
        other["passes"] = place % 40 < 4
        ask = lambda guard: guard.share("value > 0.5", where="passes")  # noqa: E731
    else:
        other["value"] = 0.5 + 0.5 * np.where(place % 4 < 2, 1, -1)
        ask = lambda guard: guard.mean("value", bounds=(0, 1))  # noqa: E731
    expected, unexpected = ask(Guard(usual, train=usual)), ask(Guard(other, train=usual))
    for answer in (expected, unexpected):
        assert answer.certificate.numbers["cells from the guess"] == 0
    name = "class of the arms"
    assert expected.certificate.numbers[name] <= 0 < unexpected.certificate.numbers[name]
    assert expected.cost < 4 < unexpected.cost - 2
    assert unexpected.half_width > 1.5 * expected.half_width
