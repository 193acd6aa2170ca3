"""Receipts in a standard envelope: verified by a script that cannot import Holdfast, and by OpenSSL."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from holdfast import Guard
from holdfast.errors import HoldfastError
from holdfast.ledger import Book, BookError, SigningKey, envelope, export, open_envelope, seal

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "verify-elsewhere.md"


@pytest.fixture
def story(tmp_path):
    """A signed book of two answers, its envelope and its export."""
    key = SigningKey.at(tmp_path / "key")
    book = Book(tmp_path / "book.holdfast", key=key)
    guard = Guard({"x": np.random.default_rng(0).random(500)}, ledger=book)
    guard.share("x > 0.5")
    guard.share("x > 0.25")
    sealed = envelope(book, certificate=guard.certificate.to_dict(), name="patients")
    (tmp_path / "envelope.json").write_text(json.dumps(sealed))
    export(book, tmp_path / "export.jsonl")
    yield tmp_path, key, sealed, guard
    guard.close()


@pytest.fixture
def script(tmp_path):
    """The script of the guide, in a file."""
    blocks = re.findall(r"^```\n(import base64.*?)^```", GUIDE.read_text(encoding="utf-8"), flags=re.S | re.M)
    assert len(blocks) == 1
    assert len(blocks[0].splitlines()) < 40
    path = tmp_path / "check.py"
    path.write_text(blocks[0])
    return path


def outsider(script, *arguments, options=()):
    """Run a script where Holdfast cannot be imported."""
    command = (
        "import runpy, sys; sys.modules['holdfast'] = None; del sys.argv[0]; runpy.run_path(sys.argv[0])"
    )
    return subprocess.run(
        [sys.executable, "-I", *options, "-c", command, str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_the_script_of_the_guide_verifies_without_holdfast(story, script):
    folder, key, _, _ = story
    done = outsider(script, folder / "envelope.json", key.public, folder / "export.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    assert "patients has 5 lines" in done.stdout
    assert "all of them, unchanged" in done.stdout


def test_the_script_refuses_another_key_a_changed_payload_and_a_changed_line(story, script):
    folder, key, sealed, _ = story
    other = SigningKey.generate().public
    assert "InvalidSignature" in outsider(script, folder / "envelope.json", other).stderr
    payload = base64.b64decode(sealed["payload"]).replace(b'"lines":5', b'"lines":4')
    changed = {**sealed, "payload": base64.b64encode(payload).decode()}
    (folder / "changed.json").write_text(json.dumps(changed))
    assert "InvalidSignature" in outsider(script, folder / "changed.json", key.public).stderr
    text = (folder / "export.jsonl").read_text()
    (folder / "export.jsonl").write_text(text.replace("x > 0.5", "x > 0.6", 1))
    done = outsider(script, folder / "envelope.json", key.public, folder / "export.jsonl")
    assert re.search(r"line \d was changed", done.stderr)
    # Python leaves assertions out with -O, or if PYTHONOPTIMIZE is set.
    done = outsider(script, folder / "envelope.json", key.public, folder / "export.jsonl", options=("-O",))
    assert done.returncode != 0
    assert "unchanged" not in done.stdout


def test_openssl_verifies_the_signature(story):
    if shutil.which("openssl") is None:
        pytest.skip("OpenSSL is not installed")
    folder, key, sealed, _ = story
    payload, kind = base64.b64decode(sealed["payload"]), sealed["payloadType"].encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    raw = bytes.fromhex("302a300506032b6570032100" + key.public.removeprefix("ed25519:"))
    pem = f"-----BEGIN PUBLIC KEY-----\n{base64.b64encode(raw).decode()}\n-----END PUBLIC KEY-----\n"
    (folder / "key.pem").write_text(pem)
    (folder / "signature.bin").write_bytes(base64.b64decode(sealed["signatures"][0]["sig"]))
    for content, status in ((signed, 0), (signed + b" ", 1)):
        (folder / "signed.bin").write_bytes(content)
        command = "pkeyutl -verify -pubin -inkey key.pem -rawin -in signed.bin -sigfile signature.bin"
        done = subprocess.run(["openssl", *command.split()], cwd=folder, capture_output=True)
        assert done.returncode == status


def test_the_statement_names_the_book_and_holds_receipt_and_certificate(story):
    _, key, sealed, guard = story
    statement = open_envelope(sealed, key.public)
    receipt = guard.history[-1].receipt.to_dict()
    assert statement["subject"] == [{"name": "patients", "digest": {"sha256": receipt["digest"]}}]
    assert statement["predicate"]["receipt"] == receipt
    assert set(statement["predicate"]["certificate"]) == set(guard.certificate.to_dict())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"payloadType": "application/json"}, "another type"),
        ({"payload": "%%%"}, "not a DSSE envelope"),
        ({"signatures": []}, "not signed with this key"),
        ({"signatures": [{"sig": "AAAA"}]}, "not signed with this key"),
    ],
)
def test_a_file_that_is_not_an_envelope_is_refused_with_a_sentence(story, change, words):
    _, key, sealed, _ = story
    with pytest.raises(HoldfastError, match=words):
        open_envelope({**sealed, **change}, key.public)


def test_a_signature_for_another_type_does_not_count(story):
    """The encoding separates type and payload: moving a byte between them breaks the signature."""
    _, key, sealed, _ = story
    with pytest.raises(HoldfastError, match="another type"):
        open_envelope({**sealed, "payloadType": sealed["payloadType"] + " "}, key.public)
    other = seal(key, [], "urn:holdfast:other:1", {})
    assert open_envelope(other, key.public)["predicateType"] == "urn:holdfast:other:1"


def test_a_book_without_a_key_or_without_lines_is_refused():
    with pytest.raises(HoldfastError, match="open the book with its key"):
        envelope(Book())
    with pytest.raises(BookError, match="nothing to sign"):
        envelope(Book(key=SigningKey.generate()))
