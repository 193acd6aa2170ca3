"""Shared randomness by name: the same on every machine, in every version, in whatever order it is drawn."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.replicable._elementary import Floats, logarithm, sine_and_cosine_of_turn

__all__ = ["Tape", "tape_argument", "to_exponentials", "to_uniforms"]

_VERSION = "holdfast-1"
_PREFIX = f"tape:{_VERSION}:"
_MOST = 2**40
_ESCAPED = re.compile(r"[%/\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")

Words = npt.NDArray[np.uint64]
Whole = npt.NDArray[np.int64]


def _framed(tag: bytes, text: str) -> bytes:
    """A tag, the length and the bytes: no two lists of parts have the same encoding."""
    data = text.encode("utf-8")
    return tag + len(data).to_bytes(8, "big") + data


def _checked_text(value: Any, argument: str, *, of: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidArgument(argument, "a non-empty text", value, of=of)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(argument, "a text that UTF-8 can write", value, of=of) from None
    # A letter with its accent has two spellings that print alike; both mean the same tape.
    return unicodedata.normalize("NFC", value)


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda found: f"%{ord(found.group()):02X}", text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), text)


def to_uniforms(words: Words) -> Floats:
    """Odd multiples of 2⁻⁵³: never 0 or 1, symmetric, and one minus any of them is exact."""
    odd = words >> np.uint64(11)
    np.bitwise_or(odd, np.uint64(1), out=odd)
    uniforms = odd.astype(np.float64)
    uniforms *= 2.0**-53
    return uniforms


def to_exponentials(uniforms: Floats) -> Floats:
    """−ln(1 − uniform), the same bits everywhere."""
    return -logarithm(1.0 - uniforms)


class Tape:
    """Shared coins by name: two laboratories that write the same seed draw the same numbers.

    Every draw is a pure function of the seed, the branches taken, the kind of draw and the position: drawing
    twice gives the same numbers, a longer draw begins with the shorter one, and no draw moves another. Take a
    ``branch`` for each independent use.

    Guarantee: the same bits on every machine and in every version (the tests hold golden values); distinct
    (seed, branches, kind) give streams that are independent as far as SHA-256 and Philox are.
    Assumes: both sides use the same seed and neither has seen the data when choosing it (not checkable).
    Reference: SIS Appendix C.1; Salmon, Moraes, Dror and Shaw 2011 (Philox4x64-10).

    >>> tape = Tape("study-7").branch("step 1")
    >>> str(tape)
    'tape:holdfast-1:study-7/step 1'
    >>> Tape.parse("tape:holdfast-1:study-7/step 1") == tape
    True
    >>> tape.uniforms(2).tolist()
    [0.8984209091958361, 0.1317325092505942]
    """

    __slots__ = ("_path", "_seed")
    _seed: str
    _path: tuple[str, ...]

    def __init__(self, seed: str | int) -> None:
        if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
            seed = str(int(seed))
        if not isinstance(seed, str):
            raise InvalidArgument("seed", "a text or a whole number, such as 'study-7'", seed, of="Tape")
        object.__setattr__(self, "_seed", _checked_text(seed, "seed", of="Tape"))
        object.__setattr__(self, "_path", ())

    @classmethod
    def parse(cls, text: str) -> Tape:
        """The tape that ``str(tape)`` printed.

        >>> Tape.parse("tape:holdfast-1:study-7")
        Tape('study-7')
        """
        if not isinstance(text, str) or not text.startswith(_PREFIX):
            raise InvalidArgument("text", f"a text such as {_PREFIX + 'study-7'!r}", text, of="Tape.parse")
        parts = text.removeprefix(_PREFIX).split("/")
        if not all(parts):
            raise InvalidArgument("text", "without empty names between slashes", text, of="Tape.parse")
        seed, *path = map(_unescape, parts)
        tape = cls(seed)
        for name in path:
            tape = tape.branch(name)
        return tape

    @property
    def seed(self) -> str:
        """The seed as text; ``Tape(7)`` and ``Tape("7")`` are the same tape."""
        return self._seed

    @property
    def path(self) -> tuple[str, ...]:
        """The branches taken from the root."""
        return self._path

    def branch(self, name: str | int) -> Tape:
        """An independent tape, named from this one.

        >>> Tape("study-7").branch("bootstrap").branch(3)
        Tape('study-7').branch('bootstrap').branch('3')
        """
        if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
            name = str(int(name))
        child = object.__new__(type(self))
        object.__setattr__(child, "_seed", self._seed)
        object.__setattr__(child, "_path", (*self._path, _checked_text(name, "name", of="Tape.branch")))
        return child

    def words(self, count: int, *, start: int = 0) -> Words:
        """Uniform 64-bit words at the positions ``start``, ``start`` + 1, …"""
        return self._words("words", count, start, of="Tape.words")

    def uniforms(self, count: int, *, start: int = 0) -> Floats:
        """Uniform numbers in (0, 1), odd multiples of 2⁻⁵³, at the positions from ``start``."""
        return to_uniforms(self._words("uniforms", count, start, of="Tape.uniforms"))

    def exponentials(self, count: int, *, start: int = 0) -> Floats:
        """Exponential numbers of mean 1, −ln(1 − uniform), at the positions from ``start``."""
        return to_exponentials(self.exponential_quantiles(count, start=start))

    def exponential_quantiles(self, count: int, *, start: int = 0) -> Floats:
        """The uniforms behind ``exponentials``: a fast way to find the smallest few of very many."""
        return to_uniforms(self._words("exponentials", count, start, of="Tape.exponentials"))

    def normals(self, count: int) -> Floats:
        """Standard normal numbers, two from each pair of uniforms (Box and Muller)."""
        count = checks.whole(count, "count", at_least=0, at_most=_MOST, of="Tape.normals")
        pairs = (count + 1) // 2
        uniforms = to_uniforms(self._words("normals", 2 * pairs, 0, of="Tape.normals"))
        radius = np.sqrt(2.0 * to_exponentials(uniforms[0::2]))
        sine, cosine = sine_and_cosine_of_turn(uniforms[1::2])
        both = np.empty(2 * pairs)
        both[0::2] = radius * cosine
        both[1::2] = radius * sine
        return both[:count]

    def laplaces(self, count: int) -> Floats:
        """Laplace numbers of scale 1: an exponential with the sign of the word's last bit."""
        words = self._words("laplaces", count, 0, of="Tape.laplaces")
        size = to_exponentials(to_uniforms(words))
        return np.where((words & np.uint64(1)).astype(bool), -size, size)

    def integers(self, count: int, below: int) -> Whole:
        """Whole numbers in 0 … ``below`` − 1, each exactly as likely."""
        of = "Tape.integers"
        below = checks.whole(below, "below", at_most=2**63, of=of)
        words = self._words("integers", count, 0, of=of)
        # Words in the last, incomplete, round of ``below`` are drawn again at their own position.
        last = np.uint64(2**64 - 1 - 2**64 % below)
        attempt = 0
        while (again := words > last).any():
            attempt += 1
            words = np.where(again, self._words(f"integers again {attempt}", count, 0, of=of), words)
        return (words % np.uint64(below)).astype(np.int64)

    def permutation(self, n: int) -> Whole:
        """A random order of 0 … ``n`` − 1: the order of ``n`` words."""
        n = checks.whole(n, "n", at_least=0, at_most=_MOST, of="Tape.permutation")
        return np.argsort(self._words("permutation", n, 0, of="Tape.permutation"), kind="stable")

    def named_words(self, names: Iterable[str]) -> Words:
        """One word for each name, from the name alone: neither its place nor the other names matter."""
        return self._named("names", names, of="Tape.named_words")

    def named_uniforms(self, names: Iterable[str]) -> Floats:
        """One uniform number in (0, 1) for each name, from the name alone."""
        return to_uniforms(self._named("named uniforms", names, of="Tape.named_uniforms"))

    def named_exponentials(self, names: Iterable[str]) -> Floats:
        """One exponential number for each name, from the name alone."""
        words = self._named("named exponentials", names, of="Tape.named_exponentials")
        return to_exponentials(to_uniforms(words))

    def _digest(self, kind: str) -> hashlib._Hash:
        parts = [_framed(b"v", _VERSION), _framed(b"s", self._seed)]
        parts += [_framed(b"b", name) for name in self._path]
        return hashlib.sha256(b"".join(parts) + _framed(b"k", kind))

    def _words(self, kind: str, count: int, start: int, *, of: str) -> Words:
        count = checks.whole(count, "count", at_least=0, at_most=_MOST, of=of)
        start = checks.whole(start, "start", at_least=0, at_most=_MOST, of=of)
        digest = self._digest(kind).digest()
        key = np.frombuffer(digest[:16], dtype="<u8")
        block, skipped = divmod(start, 4)
        # The counter is (position, 0, and the other half of the digest); numpy steps it before each block.
        counter = np.concatenate([np.array([block, 0], dtype="<u8"), np.frombuffer(digest[16:], dtype="<u8")])
        words: Words = np.random.Philox(key=key, counter=counter).random_raw(skipped + count)
        return words[skipped:]

    def _named(self, kind: str, names: Iterable[str], *, of: str) -> Words:
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            raise InvalidArgument("names", "a sequence of texts", names, of=of)
        begun = self._digest(kind)
        digests = []
        for name in names:
            if not isinstance(name, str):
                raise InvalidArgument("names", "a sequence of texts", name, of=of)
            ended = begun.copy()
            ended.update(_framed(b"n", name))
            digests.append(ended.digest()[:8])
        return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)

    def __str__(self) -> str:
        return _PREFIX + "/".join(map(_escape, (self._seed, *self._path)))

    def __repr__(self) -> str:
        return f"Tape({self._seed!r})" + "".join(f".branch({name!r})" for name in self._path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tape):
            return NotImplemented
        return (self._seed, self._path) == (other._seed, other._path)

    def __hash__(self) -> int:
        return hash((Tape, self._seed, self._path))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a tape does not change; take a branch")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a tape does not change; take a branch")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (Tape.parse, (str(self),))


def tape_argument(tape: Any, *, of: str) -> Tape:
    """Return ``tape`` if it is one; a seed alone is refused, so that nobody shares coins by accident."""
    if not isinstance(tape, Tape):
        raise InvalidArgument("tape", "a Tape, such as Tape('study-7')", tape, of=of)
    return tape
