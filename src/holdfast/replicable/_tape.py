"""Shared randomness by name: the same on every machine, in every version, in whatever order it is drawn.

The C libraries of two machines may differ in the last bit of ``log``, and a last bit is enough to make two
laboratories disagree. IEEE 754 fixes the bits of +, −, ×, ÷ and √, and ``frexp`` is exact; so the functions
here use nothing else, one array operation at a time, and have the same bits everywhere. Each is within 3
units in the last place of the true value, which the tests check against mpmath.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument

__all__ = [
    "LOSS",
    "Tape",
    "as_tape",
    "cantor_position",
    "cantor_words",
    "modular_position",
    "modular_words",
    "steady_exp",
    "tape_argument",
    "to_exponentials",
    "to_uniforms",
]


Floats = npt.NDArray[np.float64]

# ln 2 in two parts: the first ends in 25 zero bits, so that its product with an exponent is exact.
_LN2_HIGH = float.fromhex("0x1.62e42ffp-1")
_LN2_LOW = float.fromhex("-0x1.718432a1b0e26p-35")
_ATANH = [1.0 / (2 * j + 1) for j in range(13)]
_SINE = [(-1.0) ** j / math.factorial(2 * j + 1) for j in range(10)]
_COSINE = [(-1.0) ** j / math.factorial(2 * j) for j in range(10)]
_QUARTER_PI = float.fromhex("0x1.921fb54442d18p-1")
_AT_ONCE = 2**14  # numbers that stay in the fast memory of a core while the formula passes over them
_ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")


def _polynomial(coefficients: list[float], x: Floats) -> Floats:
    total = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        np.multiply(total, x, out=total)
        np.add(total, coefficient, out=total)
    return total


def logarithm(x: Floats) -> Floats:
    """ln x for positive normal numbers, by 2 artanh((m−1)/(m+1)) for the mantissa m in [√½, √2)."""
    result = np.empty_like(x)
    for begin in range(0, x.size, _AT_ONCE):
        result[begin : begin + _AT_ONCE] = _logarithm(x[begin : begin + _AT_ONCE])
    return result


def _logarithm(x: Floats) -> Floats:
    mantissa, exponent = np.frexp(x)
    small = mantissa < _ROOT_HALF
    mantissa = np.where(small, 2.0 * mantissa, mantissa)
    power = (exponent - small).astype(np.float64)
    above = mantissa - 1.0  # exact
    slope = above / (mantissa + 1.0)
    # 2 artanh(s) = f − s(f − 2s²(1/3 + s²/5 + …)): the leading term is exact, so cancellation costs nothing.
    square = slope * slope
    rest = 2.0 * (square * _polynomial(_ATANH[1:], square))
    fine = slope * (above - rest)
    return power * _LN2_HIGH + (above - (fine - power * _LN2_LOW))


def sine_and_cosine_of_turn(turn: Floats) -> tuple[Floats, Floats]:
    """(sin 2πt, cos 2πt) for t in [0, 1), reduced exactly to an eighth of a turn."""
    eighths = 8.0 * turn  # exact, as is everything up to the angle
    octant = np.floor(eighths)
    fraction = eighths - octant
    octant = octant.astype(np.int64)
    odd = (octant & 1).astype(bool)
    angle = np.where(odd, 1.0 - fraction, fraction) * _QUARTER_PI
    square = angle * angle
    sine = angle * _polynomial(_SINE, square)
    cosine = _polynomial(_COSINE, square)
    swapped = ((octant + 1) & 2).astype(bool)
    sine, cosine = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    sine = np.where(octant >= 4, -sine, sine)
    cosine = np.where((octant >= 2) & (octant < 6), -cosine, cosine)
    return sine, cosine


_BITS = 24
# A scale that keeps 24 bits is off by at most this factor, either way.
LOSS = 1.0 + 2.0**-23


def steady_exp(x: npt.ArrayLike) -> Floats:
    """e^x rounded to 24 bits: machines disagree about the last bits of ``exp``, not about these.

    >>> float(steady_exp(0.0))
    1.0
    """
    mantissa, exponent = np.frexp(np.exp(np.asarray(x, dtype=np.float64)))
    kept: Floats = np.ldexp(np.round(mantissa * 2.0**_BITS), exponent - _BITS)
    return kept


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
    return _ESCAPED.sub(lambda match: f"%{ord(match.group()):02X}", text)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 16)), text)


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

    Args:
        seed: A text or a whole number that both laboratories write.

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

        Args:
            text: What ``str`` printed.

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

        Args:
            name: The name of the branch.

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
        """Uniform 64-bit words at the positions ``start``, ``start`` + 1, …

        Args:
            count: How many numbers to draw.
        """
        return self._words("words", count, start, of="Tape.words")

    def uniforms(self, count: int, *, start: int = 0) -> Floats:
        """Uniform numbers in (0, 1), odd multiples of 2⁻⁵³, at the positions from ``start``.

        Args:
            count: How many numbers to draw.
        """
        return to_uniforms(self._words("uniforms", count, start, of="Tape.uniforms"))

    def exponentials(self, count: int, *, start: int = 0) -> Floats:
        """Exponential numbers of mean 1, −ln(1 − uniform), at the positions from ``start``.

        Args:
            count: How many numbers to draw.
        """
        return to_exponentials(self.exponential_quantiles(count, start=start))

    def exponential_quantiles(self, count: int, *, start: int = 0) -> Floats:
        """The uniforms behind ``exponentials``: a fast way to find the smallest few of very many.

        Args:
            count: How many numbers to draw.
            start: The position of the first.
        """
        return to_uniforms(self._words("exponentials", count, start, of="Tape.exponentials"))

    def normals(self, count: int) -> Floats:
        """Standard normal numbers, two from each pair of uniforms (Box and Muller).

        Args:
            count: How many numbers to draw.
        """
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
        """Laplace numbers of scale 1: an exponential with the sign of the word's last bit.

        Args:
            count: How many numbers to draw.
        """
        words = self._words("laplaces", count, 0, of="Tape.laplaces")
        size = to_exponentials(to_uniforms(words))
        return np.where((words & np.uint64(1)).astype(bool), -size, size)

    def integers(self, count: int, below: int) -> Whole:
        """Whole numbers in 0 … ``below`` − 1, each exactly as likely.

        Args:
            count: How many numbers to draw.
        """
        of = "Tape.integers"
        below = checks.whole(below, "below", at_most=2**63, of=of)
        words = self._words("integers", count, 0, of=of)
        # Words in the last, incomplete, round of ``below`` are drawn again at their own position.
        last = np.uint64(2**64 - 1 - 2**64 % below)
        attempt = 0
        while (rejected := words > last).any():
            attempt += 1
            words = np.where(rejected, self._words(f"integers again {attempt}", count, 0, of=of), words)
        return (words % np.uint64(below)).astype(np.int64)

    def permutation(self, n: int) -> Whole:
        """A random order of 0 … ``n`` − 1: the order of ``n`` words."""
        n = checks.whole(n, "n", at_least=0, at_most=_MOST, of="Tape.permutation")
        return np.argsort(self._words("permutation", n, 0, of="Tape.permutation"), kind="stable")

    def named_words(self, names: Iterable[str]) -> Words:
        """One word for each name, from the name alone: neither its place nor the other names matter.

        Args:
            names: The names; each has its own number.
        """
        return self._named("names", names, of="Tape.named_words")

    def named_uniforms(self, names: Iterable[str]) -> Floats:
        """One uniform number in (0, 1) for each name, from the name alone.

        Args:
            names: The names; each has its own number.
        """
        return to_uniforms(self._named("named uniforms", names, of="Tape.named_uniforms"))

    def named_exponentials(self, names: Iterable[str]) -> Floats:
        """One exponential number for each name, from the name alone.

        Args:
            names: The names; each has its own number.
        """
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


def tape_argument(tape: object, *, of: str) -> Tape:
    """Return ``tape`` if it is one; a seed alone is refused, so that nobody shares coins by accident."""
    if not isinstance(tape, Tape):
        raise InvalidArgument("tape", "a Tape, such as Tape('study-7')", tape, of=of)
    return tape


def as_tape(tape: Tape | str, *, of: str) -> Tape:
    """A tape as it is, or the tape with this seed."""
    return Tape(tape) if isinstance(tape, str) else tape_argument(tape, of=of)


# One random string for many calls, by turns or by Cantor's pairing (SIS Appendix C.1). Branches do the same
# with less: no call needs a number, and no word is skipped. This is for those who must use one string, say
# one printed in a table of random numbers, and want the paper's allocation of it.
_MOST_PLACES = 2**19


def modular_position(call: int, draw: int, calls: int) -> int:
    """The place in the one string of the ``draw``-th word of the ``call``-th of ``calls`` calls, from 0.

    Guarantee: every place belongs to exactly one pair: call i has the places i mod ``calls``. Calls of at
    most b words use places below ``calls``·b.
    Assumes: the number of calls is known, and they are numbered alike in every run.
    Reference: SIS Lemma C.1.

    >>> [modular_position(call, draw, 3) for draw in range(2) for call in range(3)]
    [0, 1, 2, 3, 4, 5]
    """
    of, by = "modular_position", "SIS Lemma C.1"
    calls = checks.whole(calls, "calls", at_most=_MOST_PLACES, of=of, by=by)
    call = checks.whole(call, "call", at_least=0, at_most=calls - 1, of=of, by=by)
    draw = checks.whole(draw, "draw", at_least=0, at_most=_MOST_PLACES, of=of, by=by)
    return draw * calls + call


def modular_words(tape: Tape, call: int, count: int, calls: int) -> Words:
    """The first ``count`` words of the ``call``-th of ``calls`` calls, by turns from the tape's own words.

    Guarantee: as :func:`modular_position`; calls share no word.
    Assumes: nothing else draws ``words`` from this tape.
    Reference: SIS Lemma C.1.

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> tape = Tape("one string")
    >>> bool(modular_words(tape, call=1, count=2, calls=3)[1] == tape.words(5)[4])
    True
    """
    tape = tape_argument(tape, of="modular_words")
    count = checks.whole(count, "count", at_least=0, at_most=_MOST_PLACES, of="modular_words")
    places = [modular_position(call, draw, calls) for draw in range(count)]
    return np.array([tape.words(1, start=place)[0] for place in places], dtype=np.uint64)


def cantor_position(call: int, draw: int) -> int:
    """The place in the one string of the ``draw``-th word of the ``call``-th call, both counted from 0.

    Guarantee: every place belongs to exactly one pair. k calls of at most b words use places below
    (k + b)²/2 + (k + b)/2, whatever their order and their lengths.
    Assumes: the calls are numbered alike in every run.
    Reference: SIS Lemma C.2.

    >>> [cantor_position(call, draw) for call, draw in [(0, 0), (1, 0), (0, 1), (2, 0), (1, 1)]]
    [0, 1, 2, 3, 4]
    """
    of, by = "cantor_position", "SIS Lemma C.2"
    call = checks.whole(call, "call", at_least=0, at_most=_MOST_PLACES, of=of, by=by)
    draw = checks.whole(draw, "draw", at_least=0, at_most=_MOST_PLACES, of=of, by=by)
    diagonal = call + draw
    return diagonal * (diagonal + 1) // 2 + draw


def cantor_words(tape: Tape, call: int, count: int) -> Words:
    """The first ``count`` words of the ``call``-th call, from its places among the tape's own words.

    Guarantee: as :func:`cantor_position`; calls share no word.
    Assumes: nothing else draws ``words`` from this tape.
    Reference: SIS Lemma C.2.

    Args:
        tape: The shared coins; both laboratories use the same.

    >>> tape = Tape("one string")
    >>> bool(cantor_words(tape, call=1, count=2)[0] == tape.words(2)[1])
    True
    """
    tape = tape_argument(tape, of="cantor_words")
    count = checks.whole(count, "count", at_least=0, at_most=_MOST_PLACES, of="cantor_words")
    places = [cantor_position(call, draw) for draw in range(count)]
    return np.array([tape.words(1, start=place)[0] for place in places], dtype=np.uint64)
