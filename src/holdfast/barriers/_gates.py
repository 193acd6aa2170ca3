"""Circuits written gate by gate: evaluated on strings, and told as clauses to a solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.barriers._circuits import MOST_INPUTS, MOST_OUTPUTS, Circuit, Strings
from holdfast.errors import InvalidArgument

__all__ = ["Gates"]

_BY = "Tseitin 1968"


class Gates:
    """A circuit in the making: wires are whole numbers, −w is the opposite of wire w.

    Wires 1 … ``inputs`` are the input bits, the first one the last digit of the string. Every gate has one
    wire, and three or four clauses that hold exactly where the wire has the value of the gate.
    Guarantee: ``circuit(wires)`` and ``clauses`` describe one function.
    Assumes: nothing.
    Reference: Tseitin 1968.

    >>> gates = Gates(40)
    >>> total = gates.add(gates.inputs[:20], gates.inputs[20:])
    >>> circuit = gates.circuit(total)
    >>> circuit.evaluate(np.array([5 | 7 << 20], dtype=np.uint64)).tolist()
    [12]
    """

    def __init__(self, inputs: Any) -> None:
        number = checks.whole(inputs, "inputs", at_most=MOST_INPUTS, of="Gates", by=_BY)
        self.inputs = list(range(1, number + 1))
        self._gates: list[tuple[str, int, int]] = []
        self.clauses: list[list[int]] = []

    def both(self, left: int, right: int) -> int:
        """The wire that is 1 where both are."""
        wire = self._gate("both", left, right)
        self.clauses += [[-wire, left], [-wire, right], [wire, -left, -right]]
        return wire

    def either(self, left: int, right: int) -> int:
        """The wire that is 1 where one of the two is, or both."""
        return -self.both(-left, -right)

    def differ(self, left: int, right: int) -> int:
        """The wire that is 1 where exactly one of the two is."""
        wire = self._gate("differ", left, right)
        self.clauses += [
            [-wire, left, right],
            [-wire, -left, -right],
            [wire, -left, right],
            [wire, left, -right],
        ]
        return wire

    def add(self, left: Sequence[int], right: Sequence[int]) -> list[int]:
        """The sum of two numbers, lowest bits first, with the carry as the highest bit."""
        longer, shorter = sorted((list(left), list(right)), key=len, reverse=True)
        total: list[int] = []
        carry: int | None = None
        for place, bit in enumerate(longer):
            if place < len(shorter):
                half, both = self.differ(bit, shorter[place]), self.both(bit, shorter[place])
            else:
                half, both = bit, None
            if carry is None:
                total.append(half)
                carry = both
            else:
                total.append(self.differ(half, carry))
                passed = self.both(half, carry)
                carry = passed if both is None else self.either(both, passed)
        return total if carry is None else [*total, carry]

    def count(self, wires: Sequence[int]) -> list[int]:
        """How many of the wires are 1, lowest bits first."""
        numbers = [[wire] for wire in wires]
        while len(numbers) > 1:
            pairs = [self.add(*numbers[i : i + 2]) for i in range(0, len(numbers) - 1, 2)]
            numbers = pairs + ([numbers[-1]] if len(numbers) % 2 else [])
        return numbers[0]

    def circuit(self, wires: Sequence[int]) -> Circuit:
        """The circuit whose outputs are these wires, the first one the last digit."""
        of = "Gates.circuit"
        outputs = [checks.whole(abs(wire), f"wires[{i}]", of=of, by=_BY) for i, wire in enumerate(wires)]
        last = len(self.inputs) + len(self._gates)
        if not 0 < len(outputs) <= MOST_OUTPUTS or max(outputs) > last:
            expected = f"1 to {MOST_OUTPUTS} wires of these gates, each from 1 to {last} or its negative"
            raise InvalidArgument("wires", expected, list(wires), of=of, reference=_BY)
        gates, inputs, chosen = tuple(self._gates), len(self.inputs), tuple(wires)
        return Circuit(lambda strings: _evaluate(gates, inputs, chosen, strings), inputs, len(chosen))

    def _gate(self, kind: str, left: int, right: int) -> int:
        last = len(self.inputs) + len(self._gates)
        for name, wire in (("left", left), ("right", right)):
            if not 1 <= abs(checks.whole(abs(wire), name, of="Gates", by=_BY)) <= last:
                raise InvalidArgument(name, f"a wire from 1 to {last}, or its negative", wire, of="Gates")
        self._gates.append((kind, left, right))
        return last + 1


def _evaluate(
    gates: tuple[tuple[str, int, int], ...], inputs: int, outputs: tuple[int, ...], strings: Strings
) -> Strings:
    wires: list[npt.NDArray[np.bool_]] = [
        (strings >> np.uint64(place) & np.uint64(1)).astype(bool) for place in range(inputs)
    ]

    def at(wire: int) -> npt.NDArray[np.bool_]:
        return wires[wire - 1] if wire > 0 else ~wires[-wire - 1]

    for kind, left, right in gates:
        wires.append(at(left) & at(right) if kind == "both" else at(left) ^ at(right))
    values = np.zeros(len(strings), dtype=np.uint64)
    for place, wire in enumerate(outputs):
        values |= at(wire).astype(np.uint64) << np.uint64(place)
    return values
