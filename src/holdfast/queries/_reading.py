"""Texts that differ in nothing but the numbers that something is compared with are parsed once.

Who looks for a threshold asks ``age > 37``, ``age > 38``, ..., and parsing takes longer than all else that is
done with the text of a question. So a text is parsed with two sets of numbers in these places; where the
trees differ in just these leaves, they are what the tree of any other numbers differs in. All other texts are
parsed as they are, those that are refused among them: a refusal quotes the text.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from operator import add

from holdfast.errors import QueryRejected
from holdfast.queries._measure import MOST_CHARACTERS
from holdfast.queries._nodes import Call, Literal, Node, number
from holdfast.queries._reader import is_float, read_nodes, read_tree

__all__ = ["read_text"]

_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\""
_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
# Quoted texts and names are passed over; what goes on otherwise than a plain decimal does is no number.
_COMPARED = re.compile(rf"{_QUOTED}|(?<=[<>=])(\s*-?\s*)({_NUMBER})(?![\w.])")
# Comments, and quotes that end otherwise than those above; the mark is nobody's to write.
_MARK = "\0"
_UNCERTAIN = re.compile(rf"--|/[*/]|[#$\\`{_MARK}]")


def read_text(text: str) -> Node:
    """The nodes of a text, as :func:`read_nodes` makes them from its tree."""
    numbers: list[float] = []
    exact = True

    def lifted(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        nonlocal exact
        numbers.append(float(found[2]))
        exact = exact and (not math.isfinite(numbers[-1]) or is_float(found[2], numbers[-1]))
        return f"{found[1]}{_MARK}"

    if len(text) <= MOST_CHARACTERS and not _UNCERTAIN.search(text):
        marked = _COMPARED.sub(lifted, text)
        if numbers and exact and all(map(math.isfinite, numbers)):
            pattern = _pattern(marked)
            if pattern is not None:
                return _filled(pattern, numbers)
    return read_nodes(read_tree(text))


@lru_cache(1_000)
def _pattern(marked: str) -> Node | None:
    """The nodes of a text with places for its numbers; None where other numbers might give another tree."""
    start, *rest = marked.split(_MARK)
    whole = [f"{7_000_001 + place}" for place in range(len(rest))]
    broken = [f"{place + 1}.25e-9" for place in range(len(rest))]
    texts = [start + "".join(map(add, said, rest)) for said in (whole, broken)]
    places = {(float(one), float(other)): i for i, (one, other) in enumerate(zip(whole, broken, strict=True))}
    try:
        first, second = (read_nodes(read_tree(text)) for text in texts)
        return _with_places(first, second, places)
    except (QueryRejected, RecursionError, _Differs):
        return None


class _Differs(Exception):
    """Two trees differ in more than the numbers that were compared with."""


def _with_places(first: Node, second: Node, places: dict[tuple[float, float], int]) -> Node:
    if first == second:
        return first
    if isinstance(first, Call) and isinstance(second, Call):
        if (first.op, len(first.args)) == (second.op, len(second.args)):
            pairs = zip(first.args, second.args, strict=True)
            return Call(first.op, tuple(_with_places(*pair, places) for pair in pairs))
    elif isinstance(first, Literal) and isinstance(second, Literal):
        values = first.value, second.value
        if isinstance(values[0], float) and isinstance(values[1], float) and values in places:
            return Literal("place", float(places[values]))
    raise _Differs


def _filled(node: Node, numbers: list[float]) -> Node:
    if isinstance(node, Call):
        return Call(node.op, tuple(_filled(arg, numbers) for arg in node.args))
    if isinstance(node, Literal) and node.kind == "place" and isinstance(node.value, float):
        return number(numbers[int(node.value)])
    return node
