"""One random string for many calls, by turns or by Cantor's pairing: what SIS Appendix C.1 describes.

Branches do the same with less: no call needs a number, and no word is skipped. This is for those who must use
one string, say one printed in a table of random numbers, and want the paper's allocation of it.
"""

from __future__ import annotations

import numpy as np

from holdfast import checks
from holdfast.replicable._tape import Tape, Words, tape_argument

__all__ = ["cantor_position", "cantor_words", "modular_position", "modular_words"]

_MOST = 2**19


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
    calls = checks.whole(calls, "calls", at_most=_MOST, of=of, by=by)
    call = checks.whole(call, "call", at_least=0, at_most=calls - 1, of=of, by=by)
    draw = checks.whole(draw, "draw", at_least=0, at_most=_MOST, of=of, by=by)
    return draw * calls + call


def modular_words(tape: Tape, call: int, count: int, calls: int) -> Words:
    """The first ``count`` words of the ``call``-th of ``calls`` calls, by turns from the tape's own words.

    Guarantee: as :func:`modular_position`; calls share no word.
    Assumes: nothing else draws ``words`` from this tape.
    Reference: SIS Lemma C.1.

    >>> tape = Tape("one string")
    >>> bool(modular_words(tape, call=1, count=2, calls=3)[1] == tape.words(5)[4])
    True
    """
    tape = tape_argument(tape, of="modular_words")
    count = checks.whole(count, "count", at_least=0, at_most=_MOST, of="modular_words")
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
    call = checks.whole(call, "call", at_least=0, at_most=_MOST, of=of, by=by)
    draw = checks.whole(draw, "draw", at_least=0, at_most=_MOST, of=of, by=by)
    diagonal = call + draw
    return diagonal * (diagonal + 1) // 2 + draw


def cantor_words(tape: Tape, call: int, count: int) -> Words:
    """The first ``count`` words of the ``call``-th call, from its places among the tape's own words.

    Guarantee: as :func:`cantor_position`; calls share no word.
    Assumes: nothing else draws ``words`` from this tape.
    Reference: SIS Lemma C.2.

    >>> tape = Tape("one string")
    >>> bool(cantor_words(tape, call=1, count=2)[0] == tape.words(2)[1])
    True
    """
    tape = tape_argument(tape, of="cantor_words")
    count = checks.whole(count, "count", at_least=0, at_most=_MOST, of="cantor_words")
    places = [cantor_position(call, draw) for draw in range(count)]
    return np.array([tape.words(1, start=place)[0] for place in places], dtype=np.uint64)
