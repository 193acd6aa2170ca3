"""`holdfast verify`: a whole book passes, damage is named, and the exit status says which."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from holdfast import Guard
from holdfast.ledger import Book, SigningKey, open_envelope


@pytest.fixture
def signed(tmp_path, monkeypatch):
    """A signed book of two answers, and the receipt of the second in a file."""
    monkeypatch.chdir(tmp_path)
    key = SigningKey.generate()
    guard = Guard({"x": np.random.default_rng(0).random(500)}, ledger=Book("book", key=key))
    guard.share("x > 0.5")
    receipt = guard.share("x > 0.25").receipt
    (tmp_path / "receipt.json").write_text(json.dumps(receipt.to_dict()))
    guard.close()
    return key


def test_an_account_kept_by_ask_is_whole(people, holdfast):
    holdfast("ask", "people.csv", "-q", "share(age > 40)")
    status, out, _ = holdfast("verify", "people.csv.holdfast")
    assert status == 0
    assert "Intact: 3 lines" in out
    assert "does not show who wrote it" in out


def test_an_export_passes_with_the_public_key_and_the_receipts(signed, holdfast):
    # The book itself carries no signature of its last line for someone who has no private key.
    status, out, _ = holdfast("verify", "book", "--export", "export.jsonl", "--json")
    assert (status, json.loads(out)["lines"]) == (0, 5)
    book = Book("book", key=signed)
    from holdfast.ledger import export

    export(book, "export.jsonl")
    book.close()
    status, out, _ = holdfast("verify", "export.jsonl", "--key", signed.public, "--receipt", "receipt.json")
    assert status == 0
    assert "Receipts that match: 1." in out


def test_damage_is_named_and_leaves_with_status_1(signed, holdfast):
    holdfast("verify", "book", "--export", "export.jsonl")
    with open("export.jsonl", encoding="utf-8") as file:
        rows = file.read().splitlines(keepends=True)
    with open("export.jsonl", "w", encoding="utf-8") as file:
        file.writelines(rows[:3] + rows[4:])
    status, out, _ = holdfast("verify", "export.jsonl", "--receipt", "receipt.json")
    assert status == 1
    assert "missing    line 3" in out
    status, out, _ = holdfast("verify", "export.jsonl", "--json")
    assert status == 1
    assert not json.loads(out)["whole"]


def test_a_book_damaged_behind_its_triggers_is_named(signed, holdfast):
    with sqlite3.connect("book") as connection:
        connection.executescript("DROP TRIGGER no_update; UPDATE events SET body = '{}' WHERE sequence = 3;")
    connection.close()
    status, out, _ = holdfast("verify", "book")
    assert status == 1
    assert "line 3" in out


@pytest.mark.parametrize(
    "wrong", [["nowhere"], ["book", "--key", "mine"], ["book", "--receipt", "book"]], ids="".join
)
def test_bad_input_leaves_with_status_2(signed, holdfast, wrong):
    assert holdfast("verify", *wrong)[0] == 2


def test_a_wrong_key_is_said_of_the_option(signed, holdfast):
    status, _, err = holdfast("verify", "book", "--key", "mine")
    assert status == 2
    assert "The --key option must be 'ed25519:'" in err


def test_a_file_that_is_no_book_is_not_called_consistent_nor_shown_line_by_line(people, holdfast):
    status, out, _ = holdfast("verify", "people.csv")
    assert status == 1
    assert "consistent" not in out
    assert len(out.splitlines()) == 21
    assert out.splitlines()[-1].startswith("… and 1,9")
    assert len(json.loads(holdfast("verify", "people.csv", "--json")[1])["problems"]) > 1_900


def test_the_epochs_of_a_growing_table_are_verified_in_a_row(tmp_path, monkeypatch, holdfast):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    first = Guard({"x": rng.random(500)}, ledger="account.holdfast")
    second = first.next_epoch({"x": rng.random(300)})
    second.share("x > 0.5")
    first.close()
    second.close()
    status, out, _ = holdfast("verify", "account.holdfast", "account.epoch-2.holdfast")
    assert status == 0
    # The opening, a comparison of rows free of charge, and two lines about the next epoch.
    assert "Intact: 6 lines" in out
    assert "Epoch 2, intact: 3 lines" in out
    status, out, _ = holdfast("verify", "account.holdfast", "account.epoch-2.holdfast", "--json")
    assert [one["epoch"] for one in json.loads(out)] == [1, 2]
    status, out, _ = holdfast("verify", "account.epoch-2.holdfast", "account.holdfast")
    assert status == 1
    assert "epoch      line 1" in out
    assert holdfast("verify", "account.holdfast", "account.epoch-2.holdfast", "--export", "e")[0] == 2


def test_a_witness_shows_a_book_that_went_back(signed, holdfast, tmp_path):
    """The book as it was at an earlier time is whole, and lacks what the witness saw."""
    from holdfast.ledger import Witness

    (tmp_path / "books").mkdir()
    shutil.copy("book", tmp_path / "books" / "people.holdfast")
    witness = str(tmp_path / "witness.jsonl")
    Witness(witness, tmp_path / "books", signed).note()
    status, out, _ = holdfast("verify", "book", "--witness", witness)
    assert status == 0
    assert "Checkpoints of the witness that match: 1." in out
    Path("empty.jsonl").touch()
    status, out, _ = holdfast("verify", "book", "--witness", "empty.jsonl")
    assert status == 0
    assert "The witness saw nothing of a book that is checked here." in " ".join(out.split())
    now, older = Book("book"), Book("older")
    for event in list(now.events())[:3]:
        older.append(event.kind, event.body, after=event.sequence - 1, subject=event.subject)
    now.close()
    older.close()
    assert holdfast("verify", "older")[0] == 0
    status, out, _ = holdfast("verify", "older", "--witness", witness)
    assert status == 1
    assert "a witness saw 5 lines" in " ".join(out.split())


def test_an_envelope_is_exported_and_replaces_nothing(signed, holdfast, tmp_path):
    private = signed._private.private_bytes_raw().hex()
    (tmp_path / "key").write_text(private)
    given = ("export", "book", "book.dsse.json", "--format", "in-toto", "--signing-key", "key")
    status, out, _ = holdfast(*given, "--json")
    assert (status, json.loads(out)["key"]) == (0, signed.public)
    statement = open_envelope(json.loads((tmp_path / "book.dsse.json").read_text()), signed.public)
    assert statement["predicate"]["lines"] == 5
    assert private not in (tmp_path / "book.dsse.json").read_text()
    status, _, err = holdfast(*given)
    assert status == 2
    assert "exists already" in err
    status, _, err = holdfast("export", "book", "other", "--format", "in-toto")
    assert status == 2
    assert "--signing-key" in err
    assert holdfast("export", "book", "export.jsonl", "--signing-key", "key")[0] == 0
    assert holdfast("verify", "export.jsonl", "--key", signed.public)[0] == 0
