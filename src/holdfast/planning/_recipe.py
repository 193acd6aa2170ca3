"""What a score on a used-up test set is still worth, if its winner can be written down in a few bytes.

A recipe of L nats under a prior that was fixed before the rows were drawn is one of few: a union bound over
all recipes, each at its share e^−L of the error probability, holds whatever was looked at. The prior here is
a length code for compressed bytes. Theory: ``docs/theory/planning.md``, "Recipes".
"""

from __future__ import annotations

import bz2
import lzma
import math
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast import checks, intervals, rounding, search
from holdfast.errors import InvalidArgument
from holdfast.planning._method import MOST_ROWS
from holdfast.records import Record

_SOURCE = "docs/theory/planning.md, Recipes"
_OF = "recipe"
_LN2 = math.log(2.0)
_MOST_BYTES = 2**21
_MOST_DIGITS = 15
_HALF_WIDTHS = (0.05, 0.1)
_BEST = "best"

# A decoder must be fixed to the last parameter: the prior is over the streams that it reads.
_LZMA = [
    {
        "id": lzma.FILTER_LZMA1,
        "dict_size": 2**21,
        "lc": 3,
        "lp": 0,
        "pb": 0,
        "mode": lzma.MODE_NORMAL,
        "nice_len": 64,
        "mf": lzma.MF_BT4,
        "depth": 48,
    }
]


def _deflate(content: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS, 9)
    return stream.compress(content) + stream.flush()


@dataclass(frozen=True)
class _Compressor:
    compress: Callable[[bytes], bytes]
    decompress: Callable[[bytes], bytes]


_COMPRESSORS = {
    "none": _Compressor(bytes, bytes),
    "deflate": _Compressor(_deflate, lambda stream: zlib.decompress(stream, -zlib.MAX_WBITS)),
    "bzip2": _Compressor(lambda content: bz2.compress(content, 9), bz2.decompress),
    "lzma": _Compressor(
        lambda content: lzma.compress(content, format=lzma.FORMAT_RAW, filters=_LZMA),
        lambda stream: lzma.decompress(stream, format=lzma.FORMAT_RAW, filters=_LZMA),
    ),
}

#: The names that :func:`recipe` takes for its ``compressor``.
COMPRESSORS = (_BEST, *_COMPRESSORS)


@dataclass(frozen=True, repr=False)
class RecipeLimit(Record):
    """The longest recipe with which the same score on the same rows has this half-width.

    ``nats`` is None if no recipe is short enough: the rows are too few even for a single one. ``length`` is
    the same in bytes after compression, 0 if not even one byte is short enough.

    Args:
        half_width: Half the width of the interval.
    """

    half_width: float
    nats: float | None
    length: int


@dataclass(frozen=True, repr=False)
class RecipeLeak(Record):
    """What a score says about the true score of a recipe, whatever was looked at before.

    ``nats`` is the length L of the recipe under the prior: from ``length`` bytes, which ``compressor`` made
    of ``file_bytes``, or from ``choices`` configurations. The true score is between ``low`` and ``high`` with
    probability ``confidence``, for all recipes at once.

    ``limits``: the longest recipes worth writing for ±0.05 and ±0.1. ``nothing``: the longest one whose
    interval still leaves out ``baseline``, the score that takes no skill; a longer one could have got its
    score by luck. ``assumptions``: what must be true; the program can check none of it.

    Args:
        rows: How many rows there are.
        binary: Whether every row scores 0 or 1.
    """

    rows: int
    score: float
    confidence: float
    binary: bool
    baseline: float
    file_bytes: int | None
    compressor: str | None
    length: int | None
    choices: int | None
    nats: float
    low: float
    high: float
    limits: tuple[RecipeLimit, ...]
    nothing: RecipeLimit
    assumptions: tuple[str, ...]

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    @property
    def vacuous(self) -> bool:
        """Whether the interval contains the baseline: the score could be luck."""
        return self.low <= self.baseline <= self.high


def recipe(
    file: bytes | str | os.PathLike[str] | None = None,
    *,
    rows: float,
    score: float,
    confidence: float = 0.95,
    binary: bool = True,
    digits: float | None = None,
    compressor: str = _BEST,
    choices: float | None = None,
    baseline: float = 0.5,
) -> RecipeLeak:
    """How far the score of a recipe on ``rows`` rows can be from its true score, after any number of looks at
    those rows.

    Guarantee: with probability ``confidence``, for all recipes at once and however they were chosen,
    n·kl(score‖true) ≤ L + ln(2/β). L is 8 ln 2 for each of the ℓ compressed bytes, ln(ℓ(ℓ+1)) for their
    number, and ln 4 for the best of the four compressors; or ln(choices). If every row scores 0 or 1, the
    interval is Clopper and Pearson's at error probability βe^−L, which is narrower.
    Assumes: the sentences in ``assumptions`` of the result (not checkable).
    Reference: Occam's razor (Blumer et al. 1987) with Kraft's inequality; ``docs/theory/planning.md``.

    Args:
        file: The recipe: the path of a file, or its content as bytes. Everything that depends on the rows
            must be in it: code, settings, seeds, and weights that were fitted to them.
        rows: How many rows the score is an average over.
        score: The average score of the rows, from 0 to 1.
        confidence: The probability with which the interval holds.
        binary: Every row scores 0 or 1. Say False if rows score fractions.
        digits: To how many digits after the point the score was rounded; None if it is exact.
        compressor: "best" (one of all, which costs ln 4), or one that was fixed beforehand: "none",
            "deflate", "bzip2" or "lzma".
        choices: Instead of a file: the winner is one of this many configurations, listed beforehand.
        baseline: The score that takes no skill, for example the share of the most frequent class.

    >>> leak = recipe(choices=5e21, rows=10_000, score=0.95)
    >>> round(leak.nats), round(leak.low, 3), round(leak.high, 3)
    (50, 0.925, 0.969)
    >>> recipe(b"C=0.1;gamma=2;seed=7", rows=10_000, score=0.95).half_width < 0.05
    True
    """
    rows = checks.whole(rows, "rows", at_most=MOST_ROWS, of=_OF, by=_SOURCE)
    score = checks.real(score, "score", "[0, 1]", of=_OF)
    confidence = checks.real(confidence, "confidence", "(0, 1)", of=_OF)
    baseline = checks.real(baseline, "baseline", "(0, 1)", of=_OF)
    compressor = checks.choice(compressor, "compressor", COMPRESSORS, of=_OF)
    if digits is not None:
        digits = checks.whole(digits, "digits", at_least=0, at_most=_MOST_DIGITS, of=_OF)
    if (file is None) == (choices is None):
        got = "neither" if file is None else "both"
        raise InvalidArgument("file", "given, or else choices, and not both", got, of=_OF)
    at_nats = _interval(rows, score, digits, binary=binary)
    content, name, length = None, None, None
    if choices is not None:
        choices = checks.whole(choices, "choices", huge=True, of=_OF)
        nats = math.log(choices)
    else:
        content = _read(file)
        name, length = _shortest(content, compressor)
        nats = _nats(length, _tried(compressor))
    nats = rounding.up(nats)
    certainty = -math.log1p(-confidence)
    interval = at_nats(rounding.up(nats + certainty))

    def limit_of(holds: Callable[[intervals.Interval], bool], half_width: float | None) -> RecipeLimit:
        most = _most_nats(lambda extra: holds(at_nats(extra + certainty)))
        if half_width is None:
            end = at_nats(certainty + (most or 0.0))
            half_width = (end.high - end.low) / 2
        return RecipeLimit(half_width, most, _most_bytes(most, _tried(compressor)))

    return RecipeLeak(
        rows=rows,
        score=score,
        confidence=confidence,
        binary=bool(binary),
        baseline=baseline,
        file_bytes=None if content is None else len(content),
        compressor=name,
        length=length,
        choices=choices,
        nats=nats,
        low=interval.low,
        high=interval.high,
        limits=tuple(limit_of(_narrow(width), width) for width in _HALF_WIDTHS),
        nothing=limit_of(lambda end: not end.low <= baseline <= end.high, None),
        assumptions=_assumptions(compressor, binary=binary, choices=choices),
    )


def _read(file: bytes | str | os.PathLike[str] | None) -> bytes:
    """The content of the recipe. An empty one has no length ℓ ≥ 1 without a compressor, and is a mistake."""
    if isinstance(file, (bytes, bytearray)):
        content = bytes(file)
    elif isinstance(file, (str, os.PathLike)):
        with Path(file).open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
    else:
        raise InvalidArgument("file", "a path, or the content as bytes", file, of=_OF)
    if not 1 <= len(content) <= _MOST_BYTES:
        expected = f"a recipe of 1 to {_MOST_BYTES:,} bytes"
        got = f"{len(content)} bytes" if not content else f"more than {_MOST_BYTES:,} bytes"
        raise InvalidArgument("file", expected, got, of=_OF)
    return content


def _shortest(content: bytes, compressor: str) -> tuple[str, int]:
    """The compressor whose stream is shortest, and the stream's length in bytes.

    A stream counts only if the decoder gives the content back: the guarantee rests on the decoder alone.
    """
    names = tuple(_COMPRESSORS) if compressor == _BEST else (compressor,)
    lengths = {}
    for name in names:
        stream = _COMPRESSORS[name].compress(content)
        if _COMPRESSORS[name].decompress(stream) == content:
            lengths[name] = len(stream)
    best = min(lengths, key=lambda name: lengths[name])
    return best, lengths[best]


def _tried(compressor: str) -> int:
    return len(_COMPRESSORS) if compressor == _BEST else 1


def _nats(length: int, tried: int) -> float:
    """−ln of the prior of one stream of ``length`` ≥ 1 bytes for one of ``tried`` decoders.

    The lengths have weights 1/(ℓ(ℓ+1)), which sum to 1; each of the 256^ℓ streams has an equal share.
    """
    return 8.0 * _LN2 * length + math.log(length) + math.log(length + 1) + math.log(tried)


def _most_bytes(nats: float | None, tried: int) -> int:
    """The greatest length that costs at most so many nats; 0 if one byte costs more."""
    if nats is None:
        return 0
    # One byte costs more than 8 ln 2 nats, so this length costs too much.
    too_long = int(nats / (8.0 * _LN2)) + 1
    shortest = search.least_whole(lambda length: _nats(length, tried) > nats, start=too_long, most=too_long)
    return too_long if shortest is None else shortest - 1


def _narrow(half_width: float) -> Callable[[intervals.Interval], bool]:
    return lambda end: end.high - end.low <= 2.0 * half_width


def _most_nats(holds: Callable[[float], bool]) -> float | None:
    """The most nats, rounded down, for which something holds that fails from some point on; None for none."""
    return search.greatest_real(holds, relative=2.0**-48) if holds(0.0) else None


def _interval(
    rows: int, score: float, digits: int | None, *, binary: bool
) -> Callable[[float], intervals.Interval]:
    """The interval for the true score as a function of ln(1/δ); it covers every score that rounds to this."""
    radius = 0.0 if digits is None else 0.5 * 10.0**-digits
    if not binary:
        least, most = max(0.0, score - radius), min(1.0, score + radius)
        return lambda nats: intervals.kl(least, rows, nats, most=most)
    slack = 1e-15 * rows + 1e-9
    fewest = max(0, math.ceil((score - radius) * rows - slack))
    most_right = min(rows, math.floor((score + radius) * rows + slack))
    if fewest > most_right:
        below, above = math.floor(score * rows), math.ceil(score * rows)
        rounded = "" if digits is None else f" rounded to {digits} digits"
        expected = (
            f"a number of rows divided by {rows:,}{rounded}, because every row scores 0 or 1. The nearest "
            f"are {below:,}/{rows:,} = {below / rows:.6g} and {above:,}/{rows:,} = {above / rows:.6g}. If "
            "the score was rounded, give digits; if rows score fractions, say binary=False (--fractions)"
        )
        raise InvalidArgument("score", expected, score, of=_OF)
    return lambda nats: intervals.clopper_pearson(fewest, rows, nats, most=most_right)


def _assumptions(compressor: str, *, binary: bool, choices: int | None) -> tuple[str, ...]:
    scores = "Every row scores 0 or 1." if binary else "Every row scores between 0 and 1."
    law = " of one distribution" if binary else ""
    common = (
        f"The rows are independent draws{law}, and the true score is about that population.",
        f"{scores} The score is the average over all rows.",
    )
    if choices is not None:
        listed = (
            "The configuration was fixed before anyone looked at the rows."
            if choices == 1
            else f"All {choices:,} configurations were listed before anyone looked at the rows, and the "
            "winner is one of them."
        )
        return (
            *common,
            listed,
            "Each configuration, with everything that it reads, was fixed independently of the rows; it is "
            "deterministic, so its random seeds belong to it.",
        )
    fixed = "" if compressor == _BEST else f" The compressor {compressor} was chosen beforehand."
    return (
        *common,
        "The recipe is deterministic: its random seeds are in the file.",
        "Everything else that it reads (weights, data, libraries, the interpreter of its language) was fixed "
        f"independently of the rows.{fixed}",
    )
