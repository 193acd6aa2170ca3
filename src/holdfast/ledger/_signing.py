"""What is signed about a book: receipts, marks and envelopes. The keeper of the book signs with an Ed25519
key, and anyone with the public key can check.

A receipt says how the book ends. A *mark* is the receipt for the newest line, kept outside the book. A book
that was restored from an old backup is whole, but it lacks what was spent since. Its mark shows that.

An *envelope* is the standard form that outsiders can verify without Holdfast: DSSE around an in-toto
statement. A DSSE envelope holds a payload, its type and signatures. What is signed is the *pre-authentication
encoding* of type and payload, so a signature for one type never counts for another. The payload here is an
in-toto Statement v1. Its subject is the book: the digest of its last line stands for all lines. Its predicate
is the receipt, with anything that is stated beside it.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, InvalidArgument, MissingExtra
from holdfast.ledger._lines import BookError, Event, Line, canonical
from holdfast.records import Record, plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from holdfast.ledger._book import Book, Lines


_PREFIX = "ed25519:"

# The seconds between two writes of a mark; it is also written when the book is closed. So an answer takes
# almost no longer, and the mark shows every loss except that of the last second.
EVERY = 1.0
_log = logging.getLogger("holdfast.ledger")
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
RECEIPT_TYPE = "urn:holdfast:receipt:1"


class SigningKey:
    """The key that signs receipts; ``private`` is a private key of the package ``cryptography``. It never
    leaves the machine that keeps the book. ``public`` is given to everyone.

    Guarantee: a receipt signed with it can be made only by the holder of the key (Ed25519, RFC 8032).
    Assumes: the key file is read by its owner alone (it is written so).

    >>> key = SigningKey.generate()
    >>> key.public[:8]
    'ed25519:'
    """

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        raw = private.public_key().public_bytes_raw()
        self.public: str = _PREFIX + raw.hex()

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key from the operating system's randomness."""
        return cls(_ed25519().Ed25519PrivateKey.generate())

    @classmethod
    def at(cls, path: str | Path) -> SigningKey:
        """The key in the file ``path``. If there is none, a new key is written there, and only its owner can
        read the file."""
        place = Path(path)
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls._read(place)
        key = cls.generate()
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key._private.private_bytes_raw().hex() + "\n")
            file.flush()
            os.fsync(file.fileno())
        return key

    @classmethod
    def _read(cls, path: Path) -> SigningKey:
        try:
            raw = bytes.fromhex(path.read_text(encoding="ascii").strip())
            return cls(_ed25519().Ed25519PrivateKey.from_private_bytes(raw))
        except (ValueError, UnicodeDecodeError):
            raise HoldfastError(
                f"{path} does not hold a signing key of Holdfast (64 hexadecimal digits)."
            ) from None

    def sign(self, statement: str) -> str:
        """The signature of a ``statement``, in hexadecimal digits."""
        return self._private.sign(statement.encode()).hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


@dataclass(frozen=True, repr=False)
class Receipt(Record):
    """A signed statement of how a book ended when an answer left it.

    Guarantee: any later export of the same book that lacks this line, or in which any line up to it was
    changed, removed or reordered, fails :func:`verify` against this receipt.
    Assumes: SHA-256 without collisions, Ed25519 without forgeries.

    ``book`` is the digest of the book's first line, ``digest`` that of line ``sequence``. ``key`` is the
    public key, and ``signature`` what it verifies.
    """

    book: str
    sequence: int
    digest: str
    key: str
    signature: str

    @classmethod
    def sign(cls, key: SigningKey, book: str, sequence: int, digest: str) -> Receipt:
        """The receipt, signed with ``key``, for a book that ends with this line."""
        return cls(book, sequence, digest, key.public, key.sign(head_statement(book, sequence, digest)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Receipt:
        """The receipt that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        return cls._from_plain(values)

    def signed_by(self, public_key: str) -> bool:
        """Whether the holder of ``public_key`` signed it."""
        statement = head_statement(self.book, self.sequence, self.digest)
        return self.key == public_key and signed(public_key, statement, self.signature)


def head_statement(book: str, sequence: int, digest: str) -> str:
    """What is signed: which book, how many lines, and the digest that stands for all of them."""
    return f"holdfast head 1\n{book}\n{sequence}\n{digest}"


def public_key_of(text: str) -> Any:
    """The public key that a text stands for."""
    try:
        return _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(text.removeprefix(_PREFIX)))
    except ValueError:
        raise InvalidArgument(
            "public_key", "'ed25519:' and 64 hexadecimal digits", text, of="verify"
        ) from None


def signed(public_key: str, statement: str, signature: str) -> bool:
    """Whether the signature of this statement is the public key's."""
    public = public_key_of(public_key)
    from cryptography.exceptions import InvalidSignature

    try:
        raw = bytes.fromhex(signature)
        public.verify(raw, statement.encode())
    except (InvalidSignature, ValueError):
        return False
    # A signature has exactly one text. Capital digits would give another file with the same meaning.
    return raw.hex() == signature


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra("server", what="A signed account book") from None
    return ed25519


@dataclass(frozen=True)
class Marks:
    """A folder with one mark for each book, by the book's name."""

    folder: Path

    def read(self, name: str) -> Receipt | None:
        """The mark of a book; None where there is none yet."""
        path = self.path(name)
        try:
            mark = Receipt(**json.loads(path.read_text(encoding="ascii")))
            genuine = mark.signed_by(mark.key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError):
            genuine = False
        if not genuine:
            raise BookError(
                f"The mark of the account book {name!r} ({path.name}) cannot be read, or was changed. "
                "Compare the book with a receipt (holdfast verify BOOK --receipt FILE). If it is whole, "
                "delete the mark, and a new one is written."
            )
        return mark

    def write(self, name: str, mark: Receipt) -> None:
        """Replace the mark, unless the old one is for a later line: another process wrote that."""
        before = self.read(name)
        if before is not None and before.book == mark.book and before.sequence >= mark.sequence:
            return
        self.replace(name, mark)

    def replace(self, name: str, mark: Receipt) -> None:
        """Replace the mark by this one. It is on disk when this returns."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.path(name)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            json.dump(mark.to_dict(), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def path(self, name: str) -> Path:
        """The file of a book's mark."""
        return self.folder / f"{name}.json"


def require_reached(lines: Lines, name: str, mark: Receipt | None) -> None:
    """Refuse a book that lacks the line of its mark."""
    if mark is None:
        return
    at_mark = lines.page(mark.sequence, 1)
    if at_mark and (at_mark[0].sequence, at_mark[0].digest) == (mark.sequence, mark.digest):
        return
    raise BookError(
        f"The account book {lines.name} runs behind its mark: it had {mark.sequence:,} lines, and line "
        f"{mark.sequence:,} is missing or different. The book was restored from an old backup, or was "
        "changed. What was spent since is not in it. Restore the newest book. If that is lost, "
        f"close the account after this: holdfast serve HOME --accept-restored {name}"
    )


class Marker:
    """Marks one book as it grows."""

    def __init__(self, marks: Marks, name: str, key: SigningKey) -> None:
        self._marks, self._book, self._key = marks, name, key
        self._lock = Lock()
        self._newest: tuple[str, Line] | None = None
        self._next = 0.0

    def note(self, identity: str, newest: Line) -> None:
        """A line was written to the book of this identity: mark it, if the last mark is a second old."""
        with self._lock:
            self._newest = identity, newest
            if time.monotonic() >= self._next:
                self._write()

    def close(self) -> None:
        """Write the last mark."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        """Mark the newest line. A mark that cannot be written is only logged: the lines are safe."""
        if self._newest is None:
            return
        identity, newest = self._newest
        self._newest, self._next = None, time.monotonic() + EVERY
        try:
            mark = Receipt.sign(self._key, identity, newest.sequence, newest.digest)
            self._marks.write(self._book, mark)
        except (OSError, BookError) as error:
            _log.error("the mark of %s could not be written: %s", self._book, type(error).__name__)


def restored_line(mark: Receipt, lines: int) -> dict[str, Any]:
    """The line of a book that its owner restored from an old backup: how many lines it had before."""
    return {
        "lines": lines,
        "had": mark.sequence,
        "digest": mark.digest,
        "note": "The book was restored from a backup. What the lost lines spent is not known here.",
    }


def envelope(
    book: Book, *, certificate: Mapping[str, Any] | None = None, name: str | None = None
) -> dict[str, Any]:
    """How a book ends, as a signed DSSE envelope around an in-toto statement.

    Guarantee: a person who verifies it with the public key knows that the holder of the private key signed a
    book that ends with this line. Any export that passes :func:`holdfast.ledger.verify` and ends with the
    same digest is that book. The envelope has released facts only: the receipt, the number of lines, and the
    certificate.
    Assumes: SHA-256 without collisions, Ed25519 without forgeries; the public key came from its owner.

    Args:
        book: an open book with a key.
        certificate: what all answers rest on (``guard.certificate.to_dict()``), stated beside the receipt.
        name: what the book is called in the statement (default: its identity).

    >>> from holdfast.ledger import Book, SigningKey
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
    """Any in-toto statement in a DSSE envelope.

    Args:
        key: The key that signs.
        subject: What the statement is about: names and digests, as in-toto has them.
        predicate_type: The address that says what kind of statement this is.
        predicate: What is stated.
    """
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
        signatures = [base64.b64decode(entry["sig"], validate=True).hex() for entry in sealed["signatures"]]
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
    """The last line. Reading starts at the last checkpoint, not at the beginning of a long book."""
    _, checkpoint = book.start()
    newest = deque(book.events(after=checkpoint), maxlen=1)
    if newest:
        return newest[0]
    if not checkpoint:
        raise BookError(f"The account book {book.name} has no lines yet: there is nothing to sign.")
    return book.at(checkpoint)
