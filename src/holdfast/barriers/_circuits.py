"""Circuits: functions of a few random bits, each standing for the law of its output.

``Gates`` writes a circuit gate by gate, to be evaluated on strings and given as clauses to a solver.
``ToeplitzHash`` is pairwise independent hashing over GF(2): a random Toeplitz matrix and a random offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument

__all__ = [
    "MOST_INPUTS",
    "MOST_OUTPUTS",
    "MOST_TABLE",
    "Circuit",
    "Gates",
    "Strings",
    "ToeplitzHash",
    "circuit_argument",
    "products",
]


MOST_INPUTS = 64
MOST_OUTPUTS = 32
# Inputs of a circuit whose table can be written down.
MOST_TABLE = 16
_BY = "SIS Definition 4.10"

# Strings of bits as whole numbers, the first bit the last digit.
Strings = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Circuit:
    """``function`` takes an array of ``inputs``-bit numbers to an array of ``outputs``-bit numbers.

    Its law gives x the share of the 2^inputs strings that are mapped to x: an element of probability p has
    p·2^inputs preimages. The table of all values is computed once, when it is first needed, and only for
    circuits of at most 16 inputs; larger ones, up to 64, are evaluated and inverted.
    Guarantee: ``probabilities`` and ``total_variation`` are exact (multiples of 2^-16 at most).
    Assumes: a function that gives equal answers to equal questions (not checkable).
    Reference: SIS Definition 4.10.

    >>> import numpy as np
    >>> coin = Circuit(lambda r: (r < 3).astype(np.uint64), inputs=3, outputs=1)
    >>> coin.probabilities
    {0: 0.625, 1: 0.375}
    >>> coin.total_variation(Circuit(lambda r: r & np.uint64(1), inputs=3, outputs=1))
    0.125
    """

    function: Callable[[Strings], npt.NDArray[Any]]
    inputs: int
    outputs: int

    def __post_init__(self) -> None:
        of = "Circuit"
        if not callable(self.function):
            raise InvalidArgument("function", "a function of an array", self.function, of=of, reference=_BY)
        for name, most in (("inputs", MOST_INPUTS), ("outputs", MOST_OUTPUTS)):
            number = checks.whole(getattr(self, name), name, at_most=most, of=of, by=_BY)
            object.__setattr__(self, name, number)

    @classmethod
    def of_counts(cls, counts: Iterable[int]) -> Circuit:
        """The circuit that maps ``counts[x]`` strings to x, in order; the counts add up to a power of two.

        >>> Circuit.of_counts([5, 3]).probabilities
        {0: 0.625, 1: 0.375}
        """
        of = "Circuit.of_counts"
        counts = [checks.whole(c, f"counts[{i}]", at_least=0, of=of, by=_BY) for i, c in enumerate(counts)]
        total = sum(counts)
        inputs = max(total.bit_length() - 1, 1)
        if total != 1 << inputs or inputs > MOST_TABLE:
            expected = f"numbers that add up to 2, 4, 8, … or 2^{MOST_TABLE}"
            raise InvalidArgument("counts", expected, counts, of=of, reference=_BY)
        table = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
        return cls(lambda r: table[r], inputs, max((len(counts) - 1).bit_length(), 1))

    @cached_property
    def table(self) -> Strings:
        """The value at every string, in order."""
        if self.inputs > MOST_TABLE:
            expected = f"at most {MOST_TABLE}; for more give an accuracy and an inverter that needs no table"
            raise InvalidArgument("inputs", expected, self.inputs, of="Circuit.table", reference=_BY)
        return self.evaluate(np.arange(1 << self.inputs, dtype=np.uint64))

    def evaluate(self, strings: Strings) -> Strings:
        """The values at these strings, checked.

        Args:
            strings: Inputs, as whole numbers.

        >>> Circuit.of_counts([5, 3]).evaluate(np.array([4, 5], dtype=np.uint64)).tolist()
        [0, 1]
        """
        values = np.asarray(self.function(strings))
        whole = values.shape == strings.shape and values.dtype.kind in "biu"
        if not whole or (len(values) and (values.min() < 0 or int(values.max()) >> self.outputs)):
            expected = f"a function that returns one whole number of {self.outputs} bits for each string"
            raise InvalidArgument("function", expected, values, of="Circuit", reference=_BY)
        return values.astype(np.uint64)

    @cached_property
    def support(self) -> tuple[Strings, npt.NDArray[np.int64]]:
        """The values that occur, and how many strings lead to each."""
        return np.unique(self.table, return_counts=True)

    @cached_property
    def _by_value(self) -> list[Strings]:
        order = np.argsort(self.table, kind="stable").astype(np.uint64)
        return np.split(order, np.cumsum(self.support[1])[:-1])

    def preimages(self, which: npt.NDArray[np.intp]) -> Strings:
        """All strings that lead to the values at these places of the support.

        Args:
            which: Places in the list of values.
        """
        return np.concatenate([self._by_value[place] for place in which])

    @property
    def probabilities(self) -> dict[int, float]:
        """The law of the output."""
        values, counts = self.support
        return dict(zip(values.tolist(), np.ldexp(counts, -self.inputs).tolist(), strict=True))

    def total_variation(self, other: Circuit) -> float:
        """How far the two laws are apart; how the circuits compute them does not matter.

        Args:
            other: A circuit with as many outputs.
        """
        mine, theirs = self.probabilities, circuit_argument(other, of="Circuit.total_variation").probabilities
        return sum(max(p - theirs.get(x, 0.0), 0.0) for x, p in mine.items())


def circuit_argument(circuit: object, *, of: str) -> Circuit:
    """Return ``circuit`` if it is one."""
    if not isinstance(circuit, Circuit):
        raise InvalidArgument("circuit", "a Circuit", circuit, of=of, reference=_BY)
    return circuit


_BY_GATES = "Tseitin 1968"


class Gates:
    """A circuit under construction: wires are whole numbers, −w is the opposite of wire w.

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

    def __init__(self, inputs: int) -> None:
        number = checks.whole(inputs, "inputs", at_most=MOST_INPUTS, of="Gates", by=_BY_GATES)
        self.inputs = list(range(1, number + 1))
        self._gates: list[tuple[str, int, int]] = []
        self.clauses: list[list[int]] = []

    def both(self, left: int, right: int) -> int:
        """The wire that is 1 where both are.

        Args:
            left: One wire.
            right: The other wire.
        """
        wire = self._gate("both", left, right)
        self.clauses += [[-wire, left], [-wire, right], [wire, -left, -right]]
        return wire

    def either(self, left: int, right: int) -> int:
        """The wire that is 1 where one of the two is, or both.

        Args:
            left: One wire.
            right: The other wire.
        """
        return -self.both(-left, -right)

    def differ(self, left: int, right: int) -> int:
        """The wire that is 1 where exactly one of the two is.

        Args:
            left: One wire.
            right: The other wire.
        """
        wire = self._gate("differ", left, right)
        self.clauses += [
            [-wire, left, right],
            [-wire, -left, -right],
            [wire, -left, right],
            [wire, left, -right],
        ]
        return wire

    def add(self, left: Sequence[int], right: Sequence[int]) -> list[int]:
        """The sum of two numbers, lowest bits first, with the carry as the highest bit.

        Args:
            left: The wires of one number, the last digit first.
            right: Those of the other.
        """
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
        outputs = [
            checks.whole(abs(wire), f"wires[{i}]", of=of, by=_BY_GATES) for i, wire in enumerate(wires)
        ]
        last = len(self.inputs) + len(self._gates)
        if not 0 < len(outputs) <= MOST_OUTPUTS or max(outputs) > last:
            expected = f"1 to {MOST_OUTPUTS} wires of these gates, each from 1 to {last} or its negative"
            raise InvalidArgument("wires", expected, list(wires), of=of, reference=_BY_GATES)
        gates, inputs, chosen = tuple(self._gates), len(self.inputs), tuple(wires)
        return Circuit(lambda strings: _evaluate(gates, inputs, chosen, strings), inputs, len(chosen))

    def _gate(self, kind: str, left: int, right: int) -> int:
        last = len(self.inputs) + len(self._gates)
        for name, wire in (("left", left), ("right", right)):
            if not 1 <= abs(checks.whole(abs(wire), name, of="Gates", by=_BY_GATES)) <= last:
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


_ONE = np.uint64(1)
_BYTE = 8


@dataclass(frozen=True, eq=False)
class ToeplitzHash:
    """Many hash functions at once, from ``inputs`` bits to ``outputs`` bits each (a number, or one for each
    function).

    Function i maps r to T_i r + b_i, arithmetic modulo 2: bit a of T_i r is the parity of the bits of r where
    ``seeds[i]``, moved down by a, has ones. A seed has inputs + outputs − 1 bits that count; higher ones
    are ignored.
    Guarantee: for uniform seeds and offsets, H(r) and H(r') are uniform and independent for every r ≠ r'.
    Assumes: inputs + outputs at most 65 and outputs at most 32 (checked).
    Reference: SIS Definition 4.12; Mansour, Nisan and Tiwari 1993.

    Args:
        offsets: What is added to each product.

    >>> import numpy as np
    >>> one = ToeplitzHash(np.array([0b1101], np.uint64), np.array([0b10], np.uint64), inputs=3, outputs=2)
    >>> one(np.arange(4, dtype=np.uint64)).tolist()
    [[2, 3, 0, 1]]
    """

    seeds: Strings
    offsets: Strings
    inputs: int
    outputs: int | npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        of, by = "ToeplitzHash", "SIS Definition 4.12"
        inputs = checks.whole(self.inputs, "inputs", at_most=64, of=of, by=by)
        widths = np.asarray(self.outputs)
        for width in (widths.min(), widths.max()):
            checks.whole(width, "outputs", at_least=0, at_most=min(32, 65 - inputs), of=of, by=by)
        for name in ("seeds", "offsets"):
            words = np.asarray(getattr(self, name))
            if words.dtype != np.uint64 or words.ndim != 1 or (widths.ndim and widths.shape != words.shape):
                raise InvalidArgument(name, "one 64-bit word for each function", words, of=of, reference=by)
        object.__setattr__(self, "offsets", self.offsets & self.mask)

    @cached_property
    def mask(self) -> Strings:
        """Ones in the places that an output has, for each function."""
        widths = np.broadcast_to(np.asarray(self.outputs, dtype=np.uint64), self.seeds.shape)
        return (_ONE << widths) - _ONE

    def __len__(self) -> int:
        return len(self.seeds)

    def __call__(self, strings: Strings) -> Strings:
        """Every function at every string: one row for each function."""
        if len(strings) <= 2**_BYTE:
            hashed = products(self.seeds[:, None], strings[None, :], self.inputs)
        else:
            hashed = _by_bytes(self.seeds, strings, self.inputs)
        return (hashed & self.mask[:, None]) ^ self.offsets[:, None]

    def at(self, which: npt.NDArray[np.intp], strings: Strings) -> Strings:
        """Function ``which[j]`` at ``strings[j]``."""
        hashed = products(self.seeds[which], strings, self.inputs)
        return (hashed & self.mask[which]) ^ self.offsets[which]

    def only(self, which: int) -> ToeplitzHash:
        """One of the functions, alone.

        Args:
            which: The place of one function.
        """
        widths = np.broadcast_to(np.asarray(self.outputs), self.seeds.shape)
        place = slice(which, which + 1)
        return ToeplitzHash(self.seeds[place], self.offsets[place], self.inputs, int(widths[which]))


def products(seeds: Strings, strings: Strings, inputs: int) -> Strings:
    """T r for every pair that broadcasting forms; bits above a hash's width are left for its mask."""
    images = np.zeros(np.broadcast_shapes(seeds.shape, strings.shape), dtype=np.uint64)
    for place in range(inputs):
        bit = np.uint64(place)
        # 0 − 1 is all ones: the moved seed where the string has a one in this place, nothing elsewhere.
        images ^= (seeds >> bit) & (np.uint64(0) - (strings >> bit & _ONE))
    return images


def _by_bytes(seeds: Strings, strings: Strings, inputs: int) -> Strings:
    """``products`` of all seeds and all strings: a table for each byte, so that many strings cost little."""
    images = np.zeros((len(seeds), len(strings)), dtype=np.uint64)
    for start in range(0, inputs, _BYTE):
        bits = min(_BYTE, inputs - start)
        every = np.arange(1 << bits, dtype=np.uint64)
        table = products(seeds[:, None] >> np.uint64(start), every[None, :], bits)
        images ^= table[:, strings >> np.uint64(start) & np.uint64((1 << bits) - 1)]
    return images
