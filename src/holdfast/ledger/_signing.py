"""Ed25519 signatures: whoever keeps the book signs how it ends, and anyone with the public key can check."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, InvalidArgument, MissingExtra
from holdfast.records import Record

_PREFIX = "ed25519:"


class SigningKey:
    """A private key. It never leaves the machine that keeps the book; ``public`` is given to everyone.

    Guarantee: a receipt signed with it can be made only by who holds the key (Ed25519, RFC 8032).
    Assumes: the key file is read by its owner alone (it is written so).

    >>> key = SigningKey.generate()
    >>> key.public[:8]
    'ed25519:'
    """

    def __init__(self, private: Any) -> None:
        self._private = private
        raw: bytes = private.public_key().public_bytes_raw()
        self.public: str = _PREFIX + raw.hex()

    @classmethod
    def generate(cls) -> SigningKey:
        """A fresh key from the operating system's randomness."""
        return cls(_ed25519().Ed25519PrivateKey.generate())

    @classmethod
    def at(cls, path: str | Path) -> SigningKey:
        """The key in a file; a new one is made and written there, for its owner's eyes only, if there is
        none."""
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
        """The signature of a statement, in hexadecimal digits."""
        signature: bytes = self._private.sign(statement.encode())
        return signature.hex()

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public!r})"


@dataclass(frozen=True, repr=False)
class Receipt(Record):
    """A signed statement of how a book ended when an answer left it.

    Guarantee: any later export of the same book that lacks this line, or in which any line up to it was
    changed, removed or reordered, fails :func:`verify` against this receipt.
    Assumes: SHA-256 without collisions, Ed25519 without forgeries.

    ``book`` is the digest of the book's first line, ``digest`` that of line ``sequence``.
    """

    book: str
    sequence: int
    digest: str
    key: str
    signature: str

    @classmethod
    def sign(cls, key: SigningKey, book: str, sequence: int, digest: str) -> Receipt:
        """The receipt for a book that ends with this line."""
        return cls(book, sequence, digest, key.public, key.sign(head_statement(book, sequence, digest)))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Receipt:
        """The receipt that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        return cls._from_plain(values)

    def signed_by(self, public_key: str) -> bool:
        """Whether the holder of this key signed it."""
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
    # One signature has one text: capital digits would be another file with the same meaning.
    return raw.hex() == signature


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise MissingExtra("server", what="A signed account book") from None
    return ed25519
