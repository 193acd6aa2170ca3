"""An account book continues with the rows it was opened for and refuses others, wherever they come from."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from holdfast import Guard
from holdfast.engines import Rows, open_rows
from holdfast.guard import Board, Content
from holdfast.ledger import Book, BookError, export, verify

ROWS = 400
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "dict": dict,
    "arrow in chunks": lambda table: pa.concat_tables(
        [pa.table(table).slice(0, 7), pa.table(table).slice(7)]
    ),
}


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    return {
        "x": rng.random(ROWS),
        "n": rng.integers(0, 5, ROWS),
        "name": rng.choice(["a", "bb", "ccc", ""], ROWS),
    }


@pytest.fixture
def path(tmp_path):
    return tmp_path / "account.holdfast"


def _changed(table, column, row, value):
    values = table[column].copy()
    values[row] = value
    return {**table, column: values}


def _others(table):
    """Tables with the same columns and as many rows, each of them another one."""
    shuffled = np.random.default_rng(1).permutation(ROWS)
    return {
        "other values": {**table, "x": 1 - table["x"]},
        "another order": {name: values[shuffled] for name, values in table.items()},
        "one value": _changed(table, "x", ROWS - 1, 0.5),
        "one bit of one value": _changed(table, "x", 3, np.nextafter(table["x"][3], 2)),
        "one text": _changed(table, "name", 0, "zz"),
        "one missing": _changed(table, "x", 9, np.nan),
        "columns that change places": {**table, "x": table["n"] * 1.0, "n": table["x"]},
    }


OTHERS = tuple(_others({"x": np.zeros(ROWS), "n": np.zeros(ROWS), "name": np.full(ROWS, "ccc")}))


def test_other_rows_in_memory_are_refused(path):
    """What an account said about zeros is no answer about ones."""
    zeros = Guard({"x": np.zeros(1000)}, ledger=path).share("x > 0.5")
    assert zeros.high < 0.1
    with pytest.raises(BookError, match="data"):
        Guard({"x": np.ones(1000)}, ledger=path)
    assert Guard({"x": np.zeros(1000)}, ledger=path).share("x > 0.5").to_dict() == zeros.to_dict()


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_are_the_same_in_any_kind_of_table(table, path, kind):
    Guard(pd.DataFrame(table), ledger=path).close()
    Guard(KINDS[kind](table), ledger=path).close()
    with pytest.raises(BookError, match="data"):
        Guard(KINDS[kind](_others(table)["another order"]), ledger=path)


@pytest.mark.parametrize("other", OTHERS)
def test_any_other_value_or_order_is_refused(table, path, other):
    Guard(table, ledger=path).close()
    with pytest.raises(BookError, match="data"):
        Guard(_others(table)[other], ledger=path)


def test_a_digest_that_forgets_the_order_is_caught(table, path, monkeypatch):
    """The twin of the test above: rows in another order are other parts, and a sum of rows does not see
    it."""

    def sums(rows):
        return sha256(rows.frame(["n"]).sum().to_json().encode()).digest()

    monkeypatch.setattr(Rows, "content", sums)
    first = Guard(table, ledger=path)
    first.share("n > 0")
    first.close()
    assert len(Guard(_others(table)["another order"], ledger=path).history) == 1


def test_a_shuffled_table_would_have_unprotected_what_was_answered_about(table):
    """Why the order is part of the rows: half of the training part of one order is protected in another."""
    shuffled = _others(table)["another order"]
    seen, later = (set(Guard(rows).train["x"]) for rows in (table, shuffled))
    assert len(seen - later) > ROWS / 8


def test_other_training_rows_are_refused(table, path):
    train = {name: values[:50] for name, values in table.items()}
    Guard(table, train=train, ledger=path).close()
    Guard(table, train=pl.DataFrame(train), ledger=path).close()
    with pytest.raises(BookError, match="training"):
        Guard(table, train={**train, "x": 1 - train["x"]}, ledger=path)


def test_missing_values_and_widths_are_the_same_in_every_kind():
    moment = np.datetime64("1960-02-03T04:05:06.000007")
    table = {
        "f": [1.5, None, float("nan"), 2.0],
        "n": [1, None, 3, 2**40],
        "s": ["a", None, "", "ä€"],
        "b": [True, None, False, True],
        "d": [moment, None, np.datetime64("2020-01-01T00:00:00"), moment],
        "o": [b"a", None, b"\x00", b""],
    }
    times = pa.array([None if one is None else one.astype("M8[us]").item() for one in table["d"]])
    plain = pa.table({**table, "d": times})
    same = [
        plain,
        pl.from_arrow(plain),
        plain.to_pandas(),
        plain.set_column(4, "d", times.cast(pa.timestamp("ns"))),
        plain.set_column(1, "n", pa.array([1.0, None, 3.0, 2.0**40])),
        plain.set_column(2, "s", pa.array(table["s"]).dictionary_encode()),
    ]
    assert len({open_rows(one).content() for one in same}) == 1
    changed = [
        plain.set_column(0, "f", pa.array([1.5, 0.0, None, 2.0])),
        plain.set_column(2, "s", pa.array(["a", "", None, "ä€"])),
        plain.set_column(2, "s", pa.array(["aä", None, "", "€"])),
        plain.set_column(3, "b", pa.array([True, False, False, True])),
        plain.set_column(5, "o", pa.array([b"a", None, b"\x01", b""])),
        plain.set_column(4, "d", times.cast(pa.timestamp("us")).take([2, 1, 0, 3])),
    ]
    contents = {open_rows(one).content() for one in [plain, *changed]}
    assert len(contents) == len(changed) + 1


def test_whole_numbers_that_floats_cannot_tell_apart_are_told_apart():
    near = np.array([2**53, 2**53 + 1, 0])
    assert open_rows({"i": near}).content() != open_rows({"i": near[[1, 0, 2]]}).content()
    huge = np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64)
    assert open_rows({"i": huge}).content() != open_rows({"i": huge[::-1].copy()}).content()


def test_a_moment_is_the_same_in_every_time_zone(monkeypatch):
    there = pd.DataFrame({"t": pd.to_datetime(["2020-01-01", "2021-07-01"]).tz_localize("Europe/Berlin")})
    assert (
        open_rows(there).content()
        == open_rows(there.assign(t=there["t"].dt.tz_convert("Asia/Tokyo"))).content()
    )
    assert open_rows(there).content() != open_rows(there.iloc[::-1]).content()


def test_a_file_named_from_home_is_looked_into(table, tmp_path, path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    Guard("~/t.csv", ledger=path).close()
    Guard(tmp_path / "t.csv", ledger=path).close()
    pd.DataFrame(_others(table)["other values"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(BookError, match="data"):
        Guard("~/t.csv", ledger=path)


def _plain_digests(file: Path, data, rows) -> list[str]:
    """Everything that someone who guesses the table right can compute from it."""
    shape = f"{rows.count} {rows.schema!r}".encode()
    taken = [rows.content(), b"" if file is None else file.read_bytes()]
    whole = Content.of(data, rows)
    return [
        whole.digest.hex(),
        *(sha256(before + one).hexdigest() for before in (b"", shape) for one in taken),
    ]


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_an_export_does_not_confirm_guessed_rows(table, path, tmp_path, kind):
    file = tmp_path / "t.csv"
    pd.DataFrame(table).to_csv(file, index=False)
    data = pd.DataFrame(table) if kind == "memory" else str(file)
    book = Book(path)
    first = Guard(data, ledger=book)
    first.share("x > 0.5")
    first.next_epoch(_others(table)["other values"], ledger=tmp_path / "second.holdfast")
    export(book, tmp_path / "export.jsonl")
    text = (tmp_path / "export.jsonl").read_text()
    assert verify(tmp_path / "export.jsonl").whole
    assert book.secret.hex() not in text
    rows = open_rows(data)
    computable = _plain_digests(file, data, rows)
    later = _others(table)["other values"]
    computable += _plain_digests(file, later, open_rows(later))
    assert not [digest for digest in computable if digest in text]
    # The twin: books once said the digest of a file as it is.
    assert [one for one in computable if one in json.dumps({"data": Content.of(data, rows).digest.hex()})]
    # Two books about the same rows do not say the same about them.
    other = Book()
    Guard(data, ledger=other)
    assert book.opening.body["data"] != other.opening.body["data"]
    other.close()


def _as_before(book: Book, agreed: dict) -> None:
    """Write the first line of a book as it was written before contents were looked after."""
    body = {name: term for name, term in agreed.items() if name != "nonce"}
    book.append("open", {**body, "nonce": "0" * 32}, after=0)


@pytest.fixture
def former(table, path, tmp_path):
    """A book about a table in memory, as it was written before contents were looked after."""
    scratch = Book()
    guard = Guard(table, ledger=scratch)
    agreed = dict(scratch.opening.body)
    agreed["data"] = Content.of(table, open_rows(table)).former
    guard.close()
    book = Book(path)
    _as_before(book, agreed)
    book.close()
    return path


def test_a_book_of_an_earlier_version_adopts_the_first_rows_it_is_opened_with(former, table):
    guard = Guard(table, ledger=former)
    answer = guard.share("x > 0.5")
    guard.close()
    again = Guard(pl.DataFrame(table), ledger=former)
    assert again.share("x > 0.5").to_dict() == answer.to_dict()
    for other in OTHERS[:3]:
        with pytest.raises(BookError, match="data"):
            Guard(_others(table)[other], ledger=former)
    with pytest.raises(BookError, match="data"):
        Guard({name: values[1:] for name, values in table.items()}, ledger=former)


def test_what_books_said_before_is_still_what_is_compared_with_them(table, tmp_path):
    """Of a file its content, of a table in memory its shape: as it stands in books that exist."""
    file = tmp_path / "t.csv"
    pd.DataFrame(table).to_csv(file, index=False)
    shape = f"{ROWS} Schema(x: number, n: number, name: text)".encode()
    rows = open_rows(str(file))
    assert Content.of(str(file), rows).former == sha256(shape + file.read_bytes()).hexdigest()
    assert Content.of(table, open_rows(table)).former == sha256(shape).hexdigest()


def test_a_board_continues_with_its_labels_and_refuses_others(path):
    labels = {"id": np.arange(100), "y": np.arange(100) % 2}
    guesses = {"id": np.arange(100), "prediction": np.zeros(100, dtype=int)}
    first = Board(labels, id="id", target="y", ledger=path)
    said = first.submit(guesses)
    first.close()
    again = Board(pd.DataFrame(labels), id="id", target="y", ledger=path)
    assert again.spent == pytest.approx(said.cost)
    again.close()
    with pytest.raises(BookError, match="labels"):
        Board({**labels, "y": 1 - labels["y"]}, id="id", target="y", ledger=path)


def test_a_board_of_an_earlier_version_continues_too(path):
    labels = {"id": np.arange(100), "y": np.arange(100) % 2}
    scratch = Book()
    board = Board(labels, id="id", target="y", ledger=scratch)
    agreed = {name: term for name, term in scratch.opening.body.items() if name != "labels"}
    board.close()
    book = Book(path)
    _as_before(book, agreed)
    book.close()
    Board(labels, id="id", target="y", ledger=path).close()
    with pytest.raises(BookError, match="labels"):
        Board({**labels, "y": 1 - labels["y"]}, id="id", target="y", ledger=path)


def test_a_secret_is_made_once_and_kept_beside_the_lines(path):
    books = [Book(path), Book(path), Book()]
    mine, same, other = (book.secret for book in books)
    assert mine == same != other
    assert len(mine) == 32
    assert not list(books[0].lines())
    for book in books:
        book.close()
    reopened = Book(path)
    assert reopened.secret == mine
    reopened.close()
