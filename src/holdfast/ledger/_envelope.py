"""The standard envelope for what a book says: DSSE around an in-toto statement, which outsiders can verify
without Holdfast.

A DSSE envelope holds a payload, its type and signatures. What is signed is the *pre-authentication encoding*
of type and payload, so a signature for one type never counts for another. The payload here is an in-toto
Statement v1: its subject is the book (the digest of its last line stands for all lines), and its predicate
is the receipt, with whatever is stated beside it.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger._book import Book
from holdfast.ledger._event import BookError, Event, canonical
from holdfast.ledger._signing import SigningKey, public_key_of, signed
from holdfast.records import plain

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
RECEIPT_TYPE = "urn:holdfast:receipt:1"


def envelope(
    book: Book, *, certificate: Mapping[str, Any] | None = None, name: str | None = None
) -> dict[str, Any]:
    """How a book ends, as a signed DSSE envelope around an in-toto statement.

    Guarantee: whoever verifies it with the public key knows that the holder of the private key signed a book
    that ends with this line; any export that passes :func:`holdfast.ledger.verify` and ends with the same
    digest is that book. It holds released facts only: the receipt, the number of lines, and the certificate.
    Assumes: SHA-256 without collisions, Ed25519 without forgeries; the public key came from its owner.

    Args:
        book: an open book with a key.
        certificate: what all answers rest on (``guard.certificate.to_dict()``), stated beside the receipt.
        name: what the book is called in the statement (default: its identity).

    >>> from holdfast.ledger import SigningKey
    >>> book = Book(key=SigningKey.generate())
    >>> event = book.append("open", {"rows": 100}, after=0)
    >>> open_envelope(envelope(book), book.key.public)["predicate"]["lines"]
    1
    """
    if book.key is None:
        raise HoldfastError("An envelope is signed: open the book with its key, Book(place, key=…).")
    last = _last_event(book)
    receipt = book.receipt(last)
    assert receipt is not None
    predicate: dict[str, Any] = {"receipt": receipt.to_dict(), "lines": last.sequence}
    if certificate is not None:
        predicate["certificate"] = plain(dict(certificate))
    subject = {"name": name or book.identity, "digest": {"sha256": receipt.digest}}
    return seal(book.key, [subject], RECEIPT_TYPE, predicate)


def seal(
    key: SigningKey, subject: Sequence[Mapping[str, Any]], predicate_type: str, predicate: Mapping[str, Any]
) -> dict[str, Any]:
    """Any in-toto statement in a DSSE envelope that this key signs."""
    statement = canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": list(subject),
            "predicateType": predicate_type,
            "predicate": dict(predicate),
        }
    )
    signature = bytes.fromhex(key.sign(_encoded(PAYLOAD_TYPE, statement)))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(statement.encode()).decode(),
        "signatures": [{"keyid": key.public, "sig": base64.b64encode(signature).decode()}],
    }


def open_envelope(sealed: Mapping[str, Any], public_key: str) -> dict[str, Any]:
    """The statement in an envelope, if the holder of this public key signed it; raises
    :class:`~holdfast.errors.HoldfastError` if not.

    Guarantee: what it returns is, byte for byte, what was signed with the private key.

    Args:
        sealed: the envelope, as JSON has it.
        public_key: "ed25519:" and 64 hexadecimal digits, as its owner gives it out.
    """
    public_key_of(public_key)
    try:
        if sealed["payloadType"] != PAYLOAD_TYPE:
            raise HoldfastError(f"The envelope must hold {PAYLOAD_TYPE}. It holds another type.")
        text = base64.b64decode(sealed["payload"], validate=True).decode("ascii")
        signatures = [base64.b64decode(one["sig"], validate=True).hex() for one in sealed["signatures"]]
        statement = json.loads(text)
    except (KeyError, TypeError, ValueError):
        raise HoldfastError(
            "This is not a DSSE envelope: it needs payloadType, payload and signatures, with payload and "
            "signatures in base64."
        ) from None
    if not any(signed(public_key, _encoded(PAYLOAD_TYPE, text), signature) for signature in signatures):
        raise HoldfastError(
            "The envelope is not signed with this key. Ask the owner of the book for the public key, or for "
            "the envelope again."
        )
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT_TYPE:
        raise HoldfastError("The envelope does not hold an in-toto Statement v1.")
    return statement


def _encoded(payload_type: str, payload: str) -> str:
    """The pre-authentication encoding (PAE) of DSSE version 1; both parts are ASCII, so characters are
    bytes."""
    return f"DSSEv1 {len(payload_type)} {payload_type} {len(payload)} {payload}"


def _last_event(book: Book) -> Event:
    """The last line, from the last checkpoint on: a long book is not read from its beginning."""
    _, checkpoint = book.start()
    newest = deque(book.events(after=checkpoint), maxlen=1)
    if newest:
        return newest[0]
    if not checkpoint:
        raise BookError(f"The account book {book.name} has no lines yet: there is nothing to sign.")
    return book.at(checkpoint)
