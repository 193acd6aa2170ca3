"""An export verifies with nothing but the public key, and no damage to it goes unnoticed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from holdfast import Guard
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.ledger import Book, Receipt, SigningKey, export, read_receipts, verify


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A book of real answers, its export, its key and the receipts."""
    folder = tmp_path_factory.mktemp("export")
    rng = np.random.default_rng(5)
    key = SigningKey.at(folder / "key")
    guard = Guard({"x": rng.random(2000)}, ledger=Book(folder / "book", key=key))
    answers = [guard.share(f"x > {number / 8}") for number in range(4)]
    path = folder / "export.jsonl"
    count = export(guard._session._book, path)
    assert count == 9
    guard.close()
    return path, key, [answer.receipt for answer in answers]


def kinds(path, key, receipts=()):
    return {problem.kind for problem in verify(path, key.public, receipts=receipts).problems}


def rewritten(tmp_path, rows):
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"\n".join(rows) + b"\n")
    return damaged


def rows_of(path):
    return path.read_bytes().splitlines()


def test_a_whole_export_verifies(story):
    path, key, receipts = story
    found = verify(path, key.public, receipts=receipts)
    assert found.whole
    assert found.signed
    assert (found.lines, found.receipts) == (9, 4)
    assert found.spent > 0
    assert verify(path).whole


def test_every_change_of_one_byte_is_detected(story, tmp_path):
    path, key, _ = story
    text = path.read_bytes()
    damaged = tmp_path / "damaged.jsonl"
    rng = np.random.default_rng(1)
    for place, byte in enumerate(text):
        flips = {int(rng.integers(1, 256))} | ({0x20} if chr(byte).isalpha() else set())  # a, A
        for flip in flips:
            changed = bytearray(text)
            changed[place] ^= flip
            damaged.write_bytes(bytes(changed))
            assert not verify(damaged, key.public).whole, place


def test_every_removed_line_is_named_missing(story, tmp_path):
    path, key, _ = story
    rows = rows_of(path)
    for line in range(1, 9):
        found = verify(rewritten(tmp_path, rows[:line] + rows[line + 1 :]), key.public)
        assert (line, "missing") in {(problem.line, problem.kind) for problem in found.problems}


def test_every_swap_is_named_reordered(story, tmp_path):
    path, key, _ = story
    rows = rows_of(path)
    for first in range(1, 10):
        for second in range(first + 1, 10):
            swapped = list(rows)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            assert "reordered" in kinds(rewritten(tmp_path, swapped), key)


def test_a_repeated_line_and_an_added_one_are_detected(story, tmp_path):
    path, key, _ = story
    rows = rows_of(path)
    for line in range(11):
        assert not verify(rewritten(tmp_path, [*rows[:line], rows[line], *rows[line:]]), key.public).whole


def test_a_cut_tail_is_found_even_without_the_ending(story, tmp_path):
    path, key, _ = story
    rows = rows_of(path)
    for end in range(1, 10):
        assert "cut" in kinds(rewritten(tmp_path, rows[:end]), key)
        assert "cut" in kinds(rewritten(tmp_path, [*rows[:end], rows[-1]]), key)


def forged(tmp_path, path, key, *, keep, change=None):
    """A book that its own keeper rewrote: consistent, and signed again."""
    book = Book(tmp_path / "forged", key=key)
    for number, row in enumerate(rows_of(path)[1 : keep + 1]):
        line = json.loads(row)
        body = json.loads(line["body"])
        if number + 1 == change:
            body["micro_nats"] -= 1
        if change is not None and number + 1 > change and "before" in body:
            body["before"]["micro_nats"] -= 1
        book.append(line["kind"], body, after=number, subject=line["subject"], request=line["request"])
    target = tmp_path / "forged.jsonl"
    export(book, target)
    book.close()
    return target


def test_a_book_cut_and_signed_again_by_its_keeper_is_caught_by_any_later_receipt(story, tmp_path):
    path, key, receipts = story
    cut = forged(tmp_path, path, key, keep=5)
    assert verify(cut, key.public).whole  # Nobody could tell from the export alone.
    assert verify(cut, key.public, receipts=receipts[:2]).whole
    for receipt in receipts[2:]:
        assert kinds(cut, key, [receipt]) == {"cut"}


def test_a_line_rewritten_by_the_keeper_is_caught_by_any_later_receipt(story, tmp_path):
    path, key, receipts = story
    changed = forged(tmp_path, path, key, keep=9, change=5)
    assert verify(changed, key.public, receipts=receipts[:1]).whole
    for receipt in receipts[1:]:
        assert kinds(changed, key, [receipt]) == {"changed"}


def test_another_key_is_not_believed(story, tmp_path):
    path, key, receipts = story
    other = SigningKey.generate()
    assert kinds(path, other) == {"signature"}
    false = Receipt.sign(other, receipts[0].book, receipts[0].sequence, receipts[0].digest)
    assert kinds(path, key, [false]) == {"signature"}
    with pytest.raises(InvalidArgument, match="ed25519"):
        verify(path, "a key")


def test_a_book_without_a_signature_says_so(tmp_path):
    book = Book()
    book.append("open", {}, after=0)
    export(book, tmp_path / "plain")
    assert verify(tmp_path / "plain").whole
    assert kinds(tmp_path / "plain", SigningKey.generate()) == {"signature"}


def test_sums_that_do_not_add_up_are_named(tmp_path):
    key = SigningKey.generate()
    book = Book(key=key)
    book.append("open", {}, after=0)
    book.append("release", {"reservation": 1, "micro_nats": 5, "surprise": False, "released": None}, after=1)
    book.append("checkpoint", {"balance": {"micro_nats": 0}, "signature": None}, after=2)
    export(book, tmp_path / "sums")
    assert [problem.kind for problem in verify(tmp_path / "sums", key.public).problems] == ["sums", "sums"]


def test_a_key_is_kept_for_its_owner_only_and_read_again(tmp_path):
    key = SigningKey.at(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
    assert SigningKey.at(tmp_path / "key").public == key.public
    assert key.public in repr(key)
    (tmp_path / "other").write_text("no key")
    with pytest.raises(HoldfastError, match="signing key"):
        SigningKey.at(tmp_path / "other")


def test_receipts_are_read_from_a_file_however_they_are_listed(story, tmp_path):
    _, _, receipts = story
    plain = [receipt.to_dict() for receipt in receipts]
    for text in (json.dumps(plain), "\n".join(json.dumps(one) for one in plain) + "\n"):
        (tmp_path / "receipts").write_text(text)
        assert read_receipts(tmp_path / "receipts") == receipts
    (tmp_path / "receipts").write_text(json.dumps(plain[0]))
    assert read_receipts(tmp_path / "receipts") == receipts[:1]
    (tmp_path / "receipts").write_text("{}")
    with pytest.raises(HoldfastError, match="receipts"):
        read_receipts(tmp_path / "receipts")
