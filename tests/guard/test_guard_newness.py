"""Rows of an earlier epoch are not let in again: as they were, in another order, in part, or in another kind
of table. What a refusal says about protected rows is paid for."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

from holdfast import Guard
from holdfast.coding import Weights, _account, look_nats
from holdfast.dependence import MDependent
from holdfast.engines import unsealed
from holdfast.errors import InvalidArgument
from holdfast.guard import _epoch
from holdfast.guard._earlier import KEPT
from holdfast.ledger import BookError, export

ROWS, FEATURES = 240, 3
AGAIN = r"has rows of epoch [12] again"


def people(rng, rows=ROWS):
    """Features that tell people apart, and a label that has nothing to do with them."""
    table = {f"x{i}": rng.normal(size=rows).round(3) for i in range(FEATURES)}
    return pd.DataFrame(
        {**table, "name": rng.choice(["Ann", "Bob", "7"], rows), "y": rng.integers(0, 2, rows)}
    )


def joined(*tables):
    return pd.concat(tables, ignore_index=True)


def shuffled(table):
    return table.sample(frac=1, random_state=1).reset_index(drop=True)


def protected_rows(guard):
    with unsealed():
        return guard._setup.protected.rows.frame()


class Chain:
    """Three epochs to be: the first two are open, and a third table is brought."""

    def __init__(self, rng, *, close, ledger=None):
        self.first, self.second, self.new = (people(rng) for _ in range(3))
        self.guards = [Guard(self.first, ledger=ledger)]
        if close:
            self.guards[0].close_account()
        self.guards.append(self.guards[0].next_epoch(self.second))
        if close:
            self.guards[1].close_account()

    @property
    def brought(self):
        """Tables that have earlier rows in them, by name."""
        hidden, shown = protected_rows(self.guards[0]), self.guards[0].train
        return {
            "the grown table": joined(self.first, self.second, self.new),
            "the first table": self.first,
            "the first table and new rows": joined(self.first, self.new),
            "the second table": self.second,
            "the earlier protected rows": hidden,
            "the earlier training rows": shown,
            "half of the earlier protected rows": hidden[: len(hidden) // 2],
            "earlier protected rows among new ones": joined(self.new, hidden[:60]),
            "every row twice": joined(hidden, hidden),
            "a column less": self.first.drop(columns="x0"),
        }

    def bring(self, table):
        return self.guards[-1].next_epoch(table)

    def look(self, table):
        """The look alone, as ``next_epoch`` takes it when nothing else is wrong."""
        guard = self.guards[-1]
        _epoch.Arrival(
            table, guard._setup, guard._book, guard._opened.accounts, guard._opened.trains
        ).require_new()


BROUGHT = (
    "the grown table",
    "the first table",
    "the first table and new rows",
    "the second table",
    "the earlier protected rows",
    "the earlier training rows",
    "half of the earlier protected rows",
    "earlier protected rows among new ones",
    "every row twice",
    "a column less",
)


def test_earlier_rows_are_refused_at_epoch_three(rng):
    chain = Chain(rng, close=True)
    assert set(chain.brought) == set(BROUGHT)
    for table in chain.brought.values():
        with pytest.raises(InvalidArgument, match=AGAIN):
            chain.look(table)
    with pytest.raises(InvalidArgument, match=AGAIN):
        chain.bring(chain.first)
    assert chain.bring(chain.new).epoch.number == 3


@pytest.mark.parametrize("close", [True, False], ids=["closed", "open"])
def test_earlier_rows_in_another_order_are_refused_too(rng, close):
    chain = Chain(rng, close=close)
    for name in BROUGHT[0], BROUGHT[4], BROUGHT[5], BROUGHT[7]:
        with pytest.raises(InvalidArgument, match=AGAIN):
            chain.look(shuffled(chain.brought[name]))
    chain.look(shuffled(chain.new))


@pytest.mark.parametrize(
    "kind",
    ["csv", "polars", "other types", "more columns", "columns in another order"],
)
def test_the_kind_of_table_does_not_matter(rng, tmp_path, kind):
    guard = Guard(people(rng))
    hidden = shuffled(protected_rows(guard))
    guard.close_account()
    types = {"y": "float64", "x0": "Float64", "name": "category"}
    again = {
        "csv": lambda: hidden.to_csv(tmp_path / "again.csv", index=False) or tmp_path / "again.csv",
        "polars": lambda: pl.from_pandas(hidden),
        "other types": lambda: hidden.astype(types),
        "more columns": lambda: hidden.assign(more=rng.random(len(hidden))),
        "columns in another order": lambda: hidden[hidden.columns[::-1]],
    }[kind]()
    with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
        guard.next_epoch(again, **({"train": hidden.assign(more=0.0)} if kind == "more columns" else {}))


def nearest(known, table):
    """The label of the nearest person who is known."""
    features = [f"x{i}" for i in range(FEATURES)]
    away = ((table[features].to_numpy()[:, None] - known[features].to_numpy()[None]) ** 2).sum(2)
    return known["y"].to_numpy()[away.argmin(1)]


def _misses(rng, name, monkeypatch):
    """Whether the interval of a nearest-neighbour score misses one half, where nobody looks at the rows."""
    with monkeypatch.context() as change:
        change.setattr(_epoch.Arrival, "require_new", lambda self: None)
        chain = Chain(rng, close=True)
        table = chain.brought[name] if name in BROUGHT else chain.new
        answer = chain.bring(table).score(
            nearest(joined(chain.first, chain.second), table), target="y", guess=0.9
        )
    return not answer.low <= 0.5 <= answer.high


@pytest.mark.parametrize("name", BROUGHT[4:5])
def test_what_is_known_about_old_rows_breaks_an_epoch_that_has_them(rng, name, monkeypatch):
    """The twin: without the look, each of these is let in and the score of a coin is certified wrongly. Three
    misses in three runs at 95 % have probability 1.25e-4."""
    assert all(_misses(rng, name, monkeypatch) for _ in range(3))


@pytest.mark.slow
@pytest.mark.parametrize("name", BROUGHT[:6])
def test_old_rows_break_an_epoch_in_12_of_12_runs_and_new_rows_never(rng, name, monkeypatch):
    assert all(_misses(rng, name, monkeypatch) for _ in range(12))
    assert sum(_misses(rng, "new rows", monkeypatch) for _ in range(12)) <= 4


def test_rows_that_cannot_be_told_apart_are_accepted(rng):
    """Few values, in another order: no look can tell. In the same order it can."""
    coins = {"y": rng.integers(0, 2, 400)}
    guard = Guard(coins)
    guard.close_account()
    with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
        guard.next_epoch(coins)
    with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
        guard.next_epoch({"y": np.append(coins["y"], [0, 1, 1])})
    assert guard.next_epoch({"y": rng.permutation(coins["y"])}).rows == 400


def test_rows_with_running_numbers_are_new_and_copies_of_them_are_not(rng):
    """A running number makes rows unlike within a table, and alike between tables."""

    def numbered(rows=400):
        return pd.DataFrame({"row": np.arange(rows), "y": rng.integers(0, 2, rows)})

    first = numbered()
    guard = Guard(first)
    guard.close_account()
    for again in (shuffled(first), protected_rows(guard), shuffled(protected_rows(guard)), guard.train):
        with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
            guard.next_epoch(again)
    assert guard.next_epoch(numbered()).rows == 400
    rare = [pd.DataFrame({"row": np.arange(400), "y": rng.random(400) < 0.01}) for _ in range(2)]
    assert Guard(rare[0]).next_epoch(rare[1]).rows == 400


def lines(guard, kind):
    return [event for event in guard._book.events() if event.kind == kind]


def test_public_rows_are_compared_free_of_charge(rng, tmp_path):
    """Training rows are free to look at, and so are the protected rows of a closed account."""
    guard = Guard(people(rng), ledger=tmp_path / "book")
    hidden = protected_rows(guard)
    with pytest.raises(InvalidArgument, match="training rows"):
        guard.next_epoch(guard.train)
    assert [event.kind for event in guard._book.events()] == ["open"]
    guard.close_account()
    with pytest.raises(InvalidArgument, match="protected rows") as refused:
        guard.next_epoch(hidden)
    assert "nats" not in str(refused.value)
    assert [event.kind for event in guard._book.events()] == ["open", "close"]


def test_a_refusal_about_rows_that_can_be_asked_is_paid_for_and_new_rows_are_free(rng, tmp_path):
    guard = Guard(people(rng), ledger=tmp_path / "book")
    answer = guard.share("y = 1", guess=0.5)
    hidden = protected_rows(guard)
    assert f"{look_nats(1):.3g}" == "13.4"
    with pytest.raises(InvalidArgument, match=r"cost 13\.4 nats in their account"):
        guard.next_epoch(hidden)
    assert guard.spent == pytest.approx(answer.cost + look_nats(1), abs=2e-6)
    spent = guard.spent
    with pytest.raises(InvalidArgument, match=r"cost 14\.5 nats"):
        guard.next_epoch(hidden[:100])
    assert guard.spent == pytest.approx(spent + look_nats(2), abs=2e-6)
    spent = guard.spent
    later = guard.next_epoch(people(rng))
    assert (guard.spent, later.spent) == (spent, 0)
    assert len(lines(guard, "fail")) == 2
    assert len(lines(guard, "return")) == 1
    assert guard.history == (answer,)
    assert Guard(guard.train, ledger=tmp_path / "other", training_share=0).spent == 0


def test_every_account_that_is_open_pays_for_what_is_said_about_its_own_rows(rng):
    chain = Chain(rng, close=False)
    with pytest.raises(InvalidArgument, match="epoch 1 again"):
        chain.bring(protected_rows(chain.guards[0]))
    with pytest.raises(InvalidArgument, match="epoch 2 again"):
        chain.bring(chain.second)
    # The first one was looked at when the second epoch opened, and twice since.
    paid = [guard.spent for guard in chain.guards]
    assert paid == pytest.approx([look_nats(2), look_nats(1)], abs=2e-6)
    assert len(lines(chain.guards[0], "return")) == 2


@pytest.mark.parametrize("strategy", ["typical-gaussian", "grid-code", "split"])
def test_where_nothing_can_pay_for_a_refusal_it_closes_the_account(rng, strategy):
    table = people(rng)
    guard = Guard(table, strategy=strategy, queries=2)
    assert guard.next_epoch(people(rng)).left == 2
    assert not guard.closed
    other = Guard(table, strategy=strategy, queries=2)
    with pytest.raises(InvalidArgument, match="closed their account"):
        other.next_epoch(shuffled(table))
    assert other.closed


def test_the_look_comes_last_so_that_a_bad_argument_never_buys_one(rng, tmp_path):
    guard = Guard(people(rng), ledger=tmp_path / "book")
    hidden = protected_rows(guard)
    for options in ({"confidence": 2.0}, {"together": 2.0}, {"strategy": "split"}, {"split_seed": -1}):
        with pytest.raises(InvalidArgument, match=next(iter(options)).replace("strategy", "queries")):
            guard.next_epoch(hidden, **options)
    with pytest.raises(InvalidArgument, match="dependence"):
        guard.next_epoch(hidden, dependence=MDependent(7, 1))
    assert [event.kind for event in guard._book.events()] == ["open"]


def test_an_open_epoch_continues_without_another_comparison_of_rows(rng, tmp_path):
    guard, new = Guard(people(rng), ledger=tmp_path / "book"), people(rng)
    guard.next_epoch(new)
    before = len(list(guard._book.events()))
    assert guard.next_epoch(new).epoch.number == 2
    with pytest.raises(BookError, match="followed by another epoch"):
        guard.next_epoch(protected_rows(guard))
    assert len(list(guard._book.events())) == before


def _weights_up_to(steps):
    return math.fsum(math.exp(-Weights().nats(step)) for step in range(1, steps + 1))


def test_questions_and_looks_together_weigh_less_than_one(monkeypatch):
    """Kraft's sum with every question and every look in it. 1/((j+1) ln²(j+1)) is convex, so its sum from
    j = N on is at most its integral from N − ½ on."""
    steps = 200_000
    rest = 1 / (_account._SERIES_SUM * math.log(steps + 1.5))
    questions = _weights_up_to(steps) + rest

    def looks():
        return math.fsum(math.exp(-look_nats(look)) for look in range(1, 10_000)) * 1.001

    assert questions + looks() / (1 - looks()) < 1
    monkeypatch.setattr(_account, "_FOR_LOOKS", 3.5e-6)
    assert questions + looks() / (1 - looks()) > 1  # The twin: there is no room for more.


def test_earlier_rows_are_kept_beside_the_book_and_in_no_export(rng, tmp_path):
    chain = Chain(rng, close=False, ledger=tmp_path / "book.holdfast")
    second = chain.guards[1]._book
    content = second.kept(KEPT)
    export(second, tmp_path / "export.jsonl")
    text = (tmp_path / "export.jsonl").read_text()
    assert KEPT in text
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert head["key"] not in text
    assert {part["name"] for part in head["epochs"][0]["parts"]} == {
        "training rows",
        "protected rows",
        "table",
    }
    assert not any(part["begins"] and part["begins"] in text for part in head["epochs"][0]["parts"])
    # Another book has another key, so that digests of one say nothing about another.
    other = Chain(rng, close=False).guards[1]._book.kept(KEPT)
    assert head["key"].encode() not in other


def test_a_book_that_lost_its_earlier_rows_is_noticed(rng, tmp_path):
    chain = Chain(rng, close=True, ledger=tmp_path / "book.holdfast")
    book = chain.guards[1]._book
    kept = book.kept(KEPT)
    book.keep(KEPT, kept[:-1] + b"\xff")
    with pytest.raises(BookError, match="lost or changed"):
        chain.bring(chain.new)
    book.keep(KEPT, kept)
    assert chain.bring(chain.new).epoch.number == 3


def test_what_is_kept_is_bounded_and_large_tables_are_compared_by_a_sample(rng):
    rows = 30_000
    first = pd.DataFrame({"x": rng.random(rows), "y": rng.integers(0, 2, rows)})
    second, third = (
        pd.DataFrame({"x": rng.random(rows // 10), "y": rng.integers(0, 2, rows // 10)}) for _ in range(2)
    )
    guard = Guard(first)
    guard.close_account()
    later = guard.next_epoch(second)
    later.close_account()
    # Two parts of two samples each, for a column of whole numbers may number the rows.
    assert len(later._book.kept(KEPT)) < 2 * 2 * 9 * 9_192 + 5_000
    hidden = protected_rows(guard)
    for again in (first, hidden, shuffled(hidden)[:2_000], joined(shuffled(hidden)[:1_000], third)):
        with pytest.raises(InvalidArgument, match="has rows of epoch 1 again"):
            later.next_epoch(again)


def test_an_account_that_is_not_at_hand_is_asked_for(rng, tmp_path):
    chain = Chain(rng, close=False, ledger=tmp_path / "book.holdfast")
    place = tmp_path / "book.epoch-2.holdfast"
    alone = Guard(chain.second, train=chain.guards[0].train, ledger=place)
    with pytest.raises(
        BookError, match="account of epoch 1 may still be asked, and its book is not open here"
    ):
        alone.next_epoch(chain.new)
    chain.guards[0].close()
    with pytest.raises(
        BookError, match="account of epoch 1 may still be asked, and its book is not open here"
    ):
        chain.bring(chain.new)
    again = Guard(chain.first, ledger=tmp_path / "book.holdfast").next_epoch(chain.second)
    assert again.next_epoch(chain.new).epoch.number == 3


def test_an_account_in_memory_that_is_gone_counts_as_closed(rng):
    chain = Chain(rng, close=False)
    hidden = protected_rows(chain.guards[0])
    chain.guards[0].close()
    with pytest.raises(InvalidArgument, match="epoch 1 again") as refused:
        chain.bring(hidden)
    assert "nats" not in str(refused.value)
    assert chain.bring(chain.new).epoch.number == 3


def test_an_epoch_of_an_earlier_version_continues_and_says_what_was_not_compared(rng, tmp_path, monkeypatch):
    """Books that keep no earlier rows: the newest epoch and its training part are compared, and the
    certificate names the others."""
    from holdfast.guard import _opening

    def as_before(following, account, agreed):
        link = following.announce(agreed)
        session = _opening._session(following.book, account, agreed, link)
        following.record_opening()
        return following.book, session, link

    with monkeypatch.context() as change:
        change.setattr(_opening, "_open_next", as_before)
        chain = Chain(rng, close=True, ledger=tmp_path / "book.holdfast")
    assert "opened by an earlier version" in str(chain.guards[1].certificate)
    for name in BROUGHT[:6]:  # A closed account's rows are its successor's training part.
        with pytest.raises(InvalidArgument, match="has rows of epoch 2 again"):
            chain.look(chain.brought[name])
    third = chain.bring(chain.new)
    assert "not compared with those of epoch 1:" in str(third.certificate)
    assert "not compared" not in str(Chain(rng, close=True).guards[1].certificate)


def test_a_look_shows_no_value_whatever_the_types_are(rng):
    """The column that holds texts now held numbers before, and the other way round: nothing is cast, so
    nothing fails and quotes a value."""
    rows = 60
    names = pd.DataFrame({"who": [f"person{i}" for i in range(rows)], "y": np.arange(rows) % 2})
    numbers = pd.DataFrame({"who": np.arange(rows), "y": np.arange(rows) % 2})
    for first, second in ((names, numbers), (numbers, names)):
        assert Guard(first).next_epoch(second, train=second[:4]).rows == rows


def test_protected_rows_that_cannot_be_read_are_refused_without_their_values(rng, monkeypatch):
    from holdfast.engines import Rows

    guard = Guard(people(rng))

    def fail(self, key, columns):
        raise ValueError(f"Could not convert {self.frame().iloc[0].to_list()}")

    monkeypatch.setattr(Rows, "row_digests", fail)
    with pytest.raises(BookError, match="could not be read") as refused:
        guard.next_epoch(people(rng))
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_protected_rows_are_digested_in_the_clean_room_only(rng):
    rows = Guard(people(rng))._setup.protected.rows
    for read in (lambda: rows.row_digests(b"key", ["y"]), rows.numbering, lambda: rows.plain(["y"])):
        with pytest.raises(RuntimeError, match="sealed"):
            read()
