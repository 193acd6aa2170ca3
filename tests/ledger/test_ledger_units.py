"""A book says what its prices are: nats or answers. Books that were written before go on to be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from holdfast import Guard
from holdfast.cli.books import verify as verify_command
from holdfast.ledger import Balance, Book, BookError, Event, export, verify

# Written by a version whose lines have no unit: two answers of strategy="split" about TABLE, five agreed.
BEFORE = Path(__file__).parent / "books" / "split-without-units.sqlite"
TABLE = {"x": np.arange(2_000) % 10}


def units(book):
    """What the lines with a price say they are, by kind."""
    return {(event.kind, event.body.get("unit")) for event in book.events() if "micro_nats" in event.body}


@pytest.fixture
def before(tmp_path):
    return Path(shutil.copy(BEFORE, tmp_path / "book.holdfast"))


@pytest.mark.parametrize(
    ("strategy", "in_book", "counted"),
    [
        ({}, "nats", "nats"),
        ({"strategy": "split", "queries": 5}, "answers", "answers"),
        ({"strategy": "typical-gaussian", "queries": 5}, "answers", "answers"),
        ({"strategy": "agreed-code", "queries": 5, "surprises": 1}, "nats", "answers"),
    ],
)
def test_every_price_has_its_unit(strategy, in_book, counted, tmp_path):
    book = Book(tmp_path / "book")
    guard = Guard(TABLE, ledger=book, **strategy)
    guard.share("x < 3")
    assert units(book) == {("reserve", in_book), ("release", in_book)}
    assert guard.balance.unit == in_book
    export(book, tmp_path / "export")
    verification = verify(tmp_path / "export")
    assert verification.whole
    assert (verification.unit, guard.unit) == (counted, counted)
    assert verification.spent == pytest.approx(guard.certificate.numbers[f"{counted} spent"])


def test_a_book_without_units_verifies_and_continues(before, tmp_path):
    assert units(Book(before)) == {("reserve", None), ("release", None)}
    export(Book(before), tmp_path / "export")
    verification = verify(tmp_path / "export")
    assert (verification.whole, verification.spent, verification.unit) == (True, 2.0, "answers")

    guard = Guard(TABLE, strategy="split", queries=5, ledger=before)
    assert [answer.value for answer in guard.history] == [0.3675, 0.4975]
    assert guard.share("x < 3").cost == 1.0
    guard.share("x < 7")
    assert (guard.spent, float(guard.left)) == (3.0, 2.0)
    assert guard.certificate.numbers["answers spent"] == 3.0
    assert units(Book(before)) >= {("reserve", "answers"), ("release", "answers"), ("release", None)}
    guard.close()
    printed = CliRunner().invoke(verify_command, [str(before)])
    assert printed.exit_code == 0
    assert "3 answers spent" in printed.output


def line(sequence, kind, **body):
    return Event(sequence, kind, body, "", "question")


def test_prices_of_two_units_do_not_add_up():
    balance = Balance()
    reserved = {"micro_nats": 5, "text": "t", "at": 0, "reader": "r"}
    balance.apply(line(1, "reserve", unit="answers", **reserved))
    settled = {"reservation": 1, "micro_nats": 5, "surprise": False, "released": None}
    with pytest.raises(BookError, match="does not fit"):
        balance.copy().apply(line(2, "release", unit="nats", **settled))
    balance.apply(line(2, "release", unit="answers", **settled))
    for unit in ("nats", "euros"):
        with pytest.raises(BookError, match="does not fit"):
            balance.copy().apply(line(3, "reserve", unit=unit, **reserved))
    assert Balance(balance.to_dict()).unit == "answers"
    balance.apply(line(3, "reserve", **reserved))
    assert balance.unit == "answers"


def test_a_unit_that_the_strategy_does_not_count_is_a_problem(tmp_path):
    book = Book(tmp_path / "book")
    Guard(TABLE, strategy="split", queries=5, ledger=book)
    reserved = {"micro_nats": 5, "unit": "nats", "text": "t", "at": 0, "reader": "r"}
    book.append("reserve", reserved, after=1, subject="question")
    export(book, tmp_path / "export")
    assert [problem.kind for problem in verify(tmp_path / "export").problems] == ["unit"]
