"""A question without its constants: questions that differ in nothing else share one compiled statement."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from holdfast import engines
from holdfast.queries._canonical import COMPARISONS
from holdfast.queries._compile import is_exact
from holdfast.queries._nodes import Call, Column, Literal, Node, text_of

__all__ = ["Pattern"]

# Whole numbers that floats hold exactly, and fractions, that nobody asks about; a question with anything that
# could be taken for one, be it a text or the name of a column, is compiled as it is.
_WHOLE = 4_503_599_627_370_001
_FRACTION = "5e-290"
_TAKEN_FOR_ONE = ("4503599627", "e-28")


@dataclass(frozen=True)
class Pattern:
    """The expressions of a question with stand-ins for the numbers that columns are compared with.

    Nothing else about such a number shows in the compiled statement but whether floats hold it as a whole
    number, and the stand-in is one exactly if it is. ``numbers`` are what the stand-ins stand for.
    """

    nodes: tuple[tuple[str, Node], ...]
    numbers: tuple[float, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, nodes: Mapping[str, Node], columns: Mapping[str, engines.Column]) -> Pattern:
        """The pattern of named expressions; with every number in place where one could be taken for a
        stand-in."""
        texts = [text_of(node) for node in nodes.values()]
        if any(part in text for text in texts for part in _TAKEN_FOR_ONE):
            return cls(tuple(nodes.items()))
        numbers: list[float] = []
        lifted = tuple((name, _lift(node, columns, numbers)) for name, node in nodes.items())
        return cls(lifted, tuple(numbers))

    def fill(self, statement: str) -> str:
        """The statement that was compiled with stand-ins, with the numbers in their place."""
        if not self.numbers:
            return statement
        texts = self._texts
        return re.sub("|".join(map(re.escape, texts)), lambda found: texts[found.group()], statement)

    @cached_property
    def _texts(self) -> dict[str, str]:
        """What each stand-in looks like in a statement, as a float and as an integer, and what belongs
        there."""
        texts = {}
        for place, number in enumerate(self.numbers):
            stand_in = _stand_in(place, number)
            texts[f"'{stand_in!r}'"] = f"'{number!r}'"
            if is_exact(number):
                texts[str(int(stand_in))] = str(int(number))
        return texts


def _stand_in(place: int, number: float) -> float:
    return float(_WHOLE + place) if is_exact(number) else float(f"{place + 1}{_FRACTION}")


def _lift(node: Node, columns: Mapping[str, engines.Column], numbers: list[float]) -> Node:
    if not isinstance(node, Call):
        return node
    if node.op in COMPARISONS and any(_is_number_column(arg, columns) for arg in node.args):
        return Call(node.op, tuple(_replaced(arg, numbers) for arg in node.args))
    return Call(node.op, tuple(_lift(arg, columns, numbers) for arg in node.args))


def _is_number_column(node: Node, columns: Mapping[str, engines.Column]) -> bool:
    return isinstance(node, Column) and columns[node.name].kind == "number"


def _replaced(node: Node, numbers: list[float]) -> Node:
    if not (isinstance(node, Literal) and isinstance(node.value, float) and math.isfinite(node.value)):
        return node
    numbers.append(node.value)
    return Literal(node.kind, _stand_in(len(numbers) - 1, node.value))
