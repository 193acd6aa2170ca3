"""Migration of books: the mechanism, tried with an older format that is made for the test."""

from __future__ import annotations

import inspect
import sqlite3

import numpy as np
import pytest

from holdfast import Guard
from holdfast.errors import HoldfastError
from holdfast.ledger import FORMATS, Book, BookError, Entry, FormatStep, export, migrate, verify

# What this version reads and writes, and the steps it has.
OWN = {name: option.default for name, option in inspect.signature(migrate).parameters.items()}
CURRENT = OWN["current"]
OLD, NEW = CURRENT, CURRENT + 1


def _renamed(event):
    """The made-up next format calls the prices of settled questions by another name."""
    body = dict(event.body)
    if event.kind == "act":
        body["remark"] = body.pop("note", "")
    return Entry(event.kind, body, event.subject, event.request)


STEP = FormatStep(OLD, "acts have remarks instead of notes", _renamed)
NEXT = {"steps": (STEP,), "current": NEW, "readable": frozenset({NEW})}


@pytest.fixture
def path(tmp_path):
    """A book of two answers, an act and bytes beside the lines."""
    path = tmp_path / "people.holdfast"
    guard = Guard({"x": np.random.default_rng(0).random(500)}, ledger=str(path))
    guard.share("x > 0.5")
    guard.share("x > 0.25")
    guard.close()
    book = Book(path)
    book.append("act", {"note": "hello"}, after=5, subject="note")
    book.keep("bytes", b"beside")
    assert book.secret
    book.close()
    return path


def spent(path, folder):
    book = Book(path)
    export(book, folder / "export.jsonl")
    book.close()
    return verify(folder / "export.jsonl")


def test_a_book_of_the_current_format_is_verified_and_left_as_it_is(path):
    before = path.read_bytes()
    for dry_run in (True, False):
        result = migrate(path, dry_run=dry_run)
        assert (result.before, result.after, result.lines, result.steps) == (CURRENT, CURRENT, 6, ())
        assert not result.done
    assert path.read_bytes() == before


def test_a_dry_run_says_the_steps_and_changes_nothing(path):
    before = path.read_bytes()
    result = migrate(path, dry_run=True, **NEXT)
    assert result.steps == (STEP.words,)
    assert (result.done, result.kept) == (False, None)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_migrated_book_has_the_same_sums_and_the_old_one_stays(path, tmp_path):
    old = spent(path, tmp_path)
    secret = Book(path).secret
    result = migrate(path, **NEXT)
    assert result.done
    new = spent(path, tmp_path)
    assert new.whole
    assert (new.lines, new.spent) == (old.lines, old.spent)
    kept = Book(result.kept)
    book = Book(path)
    opening = book.opening.body
    assert (kept.opening.body["format"], opening["format"]) == (OLD, NEW)
    assert [migrate(one, dry_run=True, **NEXT).before for one in (result.kept, path)] == [OLD, NEW]
    assert opening["migrated"]["digest"] == kept.at(6).digest
    assert opening["migrated"]["book"] == kept.identity
    assert book.at(6).body == {"remark": "hello"}
    assert (book.secret, book.kept("bytes")) == (secret, b"beside")
    for one in (kept, book):
        one.close()
    with pytest.raises(HoldfastError, match="knows formats up to"):
        migrate(path)
    assert migrate(path, **NEXT).done is False  # Once is enough.


def test_a_step_that_loses_money_is_refused(path):
    """The sabotaged twin: a step that halves prices changes nothing."""

    def cheaper(event):
        body = dict(event.body)
        if event.kind == "release":
            body["micro_nats"] //= 2
        return Entry(event.kind, body, event.subject, event.request)

    before = path.read_bytes()
    with pytest.raises(BookError, match=r"Nothing was changed|is not whole"):
        migrate(path, **{**NEXT, "steps": (FormatStep(OLD, "cheaper", cheaper),)})
    assert path.read_bytes() == before


def test_a_damaged_book_a_missing_step_and_a_kept_book_are_refused(path):
    with pytest.raises(HoldfastError, match="There is no step from format"):
        migrate(path, **{**NEXT, "steps": ()})
    path.with_name(f"{path.name}.format-{OLD}").write_text("")
    with pytest.raises(HoldfastError, match="exists already"):
        migrate(path, **NEXT)
    database = sqlite3.connect(path)
    database.execute("DROP TRIGGER no_update")
    database.execute("UPDATE events SET body = '{}' WHERE sequence = 6")
    database.commit()
    database.close()
    with pytest.raises(BookError, match="line 6"):
        migrate(path, dry_run=True, **NEXT)


def test_a_book_of_several_epochs_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    guard = Guard({"x": rng.random(500)}, ledger=str(tmp_path / "people.holdfast"))
    later = guard.next_epoch({"x": rng.random(500)})
    later.close()
    guard.close()
    for name in ("people.holdfast", "people.epoch-2.holdfast"):
        with pytest.raises(HoldfastError, match="one epoch of several"):
            migrate(tmp_path / name, **NEXT)


def test_the_guard_writes_the_format_that_is_called_current(path):
    book = Book(path)
    assert book.opening.body["format"] == CURRENT
    book.close()
    assert migrate(path, dry_run=True).before == CURRENT
    assert max(FORMATS) == CURRENT
    assert CURRENT in OWN["readable"]
    assert all(step.after <= CURRENT for step in OWN["steps"])
