"""Inverting r ↦ H₁(C(r)) ‖ H₂(r): by a table, by a SAT solver, or by another method (SIS Definition 4.11)."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from holdfast.barriers._buckets import Bucket, solve
from holdfast.barriers._circuits import Circuit, Strings, ToeplitzHash
from holdfast.errors import InvalidArgument, MissingExtra

__all__ = ["Inverter", "OneAtATime", "SatInverter", "TableInverter"]


Preimages = npt.NDArray[np.int64]
_AT_ONCE = 2**19
_BYTE = 8


@runtime_checkable
class Inverter(Protocol):
    """What ``implicit_correlated_sample`` asks of an inverter; without one-way functions it could be fast."""

    def possible(self, circuit: Circuit, first: ToeplitzHash, values: Strings) -> npt.NDArray[np.bool_]:
        """For each function of ``first``: may it map some circuit(r) to its value? True is always safe.

        Args:
            circuit: The circuit that is sampled from.
            values: What the outer hash function must give.
        """
        ...

    def invert(
        self, circuit: Circuit, first: ToeplitzHash, value: int, second: ToeplitzHash, targets: Strings
    ) -> Preimages:
        """For each i a string r with first(circuit(r)) = ``value`` and second_i(r) = targets[i]; −1 where
        none is found.

        ``first`` is a single function. The answer must depend on nothing but the arguments.

        Args:
            second: The inner hash functions, of the string.
            targets: What each inner hash function must give.
        """
        ...


class TableInverter:
    """The inverter that looks at all strings: it never fails, and takes time in proportion to the candidates.

    Guarantee: a preimage wherever there is one.
    Assumes: a circuit of at most 16 inputs (checked by the circuit).
    Reference: SIS Definition 4.11 with error 0.

    >>> import numpy as np
    >>> word = lambda *bits: np.array(bits, dtype=np.uint64)
    >>> circuit = Circuit.of_counts([5, 3])
    >>> identity = ToeplitzHash(word(0b100), word(0), inputs=3, outputs=3)
    >>> parity = ToeplitzHash(word(1), word(0), inputs=1, outputs=1)
    >>> TableInverter().invert(circuit, parity, 1, identity, word(0b011)).tolist()
    [6]
    """

    def possible(self, circuit: Circuit, first: ToeplitzHash, values: Strings) -> npt.NDArray[np.bool_]:
        """Whether a value of the circuit is mapped there.

        Args:
            circuit: The circuit that is sampled from.
            first: The outer hash function, of the circuit's value.
            values: What the outer hash function must give.
        """
        hit: npt.NDArray[np.bool_] = (first(circuit.support[0]) == values[:, None]).any(axis=1)
        return hit

    def invert(
        self, circuit: Circuit, first: ToeplitzHash, value: int, second: ToeplitzHash, targets: Strings
    ) -> Preimages:
        """The first preimage in the order of the table of values.

        Args:
            circuit: The circuit that is sampled from.
            first: The outer hash function, of the circuit's value.
            value: What the outer hash function must give.
            second: The inner hash functions, of the string.
            targets: What each inner hash function must give.
        """
        preimages = np.full(len(second), -1, dtype=np.int64)
        places = np.flatnonzero(first(circuit.support[0])[0] == np.uint64(value))
        if len(places) == 0:
            return preimages
        strings = circuit.preimages(places)
        which, where = _matches(second, targets, strings)
        # Assigned in reverse order, so that of several matches the first one stays.
        preimages[where[::-1]] = strings[which[::-1]].astype(np.int64)
        return preimages

    def strings(self, circuit: Circuit, bucket: Bucket, most: int) -> Strings:
        """The strings of a bucket, or ``most`` + 1 of them where there are more.

        Args:
            circuit: The circuit that is sampled from.
            bucket: The bucket whose strings are listed.
        """
        places = np.flatnonzero(bucket.holds_value(circuit.support[0]))
        if len(places) == 0:
            return np.zeros(0, dtype=np.uint64)
        strings = circuit.preimages(places)
        return strings[bucket.holds_string(strings)][: most + 1]


def _matches(
    second: ToeplitzHash, targets: Strings, strings: Strings
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """All (string, function) with function(string) = target, by string; eight bits sort most out at once."""
    parts = [_last_bits(second, start, strings) for start in range(0, second.inputs, _BYTE)]
    goal = (targets ^ second.offsets).astype(np.uint8) & second.mask.astype(np.uint8)
    step = max(1, _AT_ONCE // len(second))
    hits = []
    for start in range(0, len(strings), step):
        block = slice(start, start + step)
        differ = goal
        for rows, place in parts:
            differ = rows[place[block]] ^ differ
        hits.append(np.flatnonzero(differ == 0) + start * len(second))
    which, where = np.divmod(np.concatenate(hits), len(second))
    right = second.at(where, strings[which]) == targets[where]
    return which[right], where[right]


def _last_bits(
    second: ToeplitzHash, start: int, strings: Strings
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.intp]]:
    """What eight bits of the strings, from ``start`` on, add to the last eight bits of every function.

    One row for each value that those bits take, and the row of each string.
    """
    mask = second.mask.astype(np.uint8)
    values, place = np.unique(strings >> np.uint64(start) & np.uint64(255), return_inverse=True)
    rows = np.zeros((len(values), len(second)), dtype=np.uint8)
    for bit in range(min(_BYTE, second.inputs - start)):
        moved = (second.seeds >> np.uint64(start + bit)).astype(np.uint8) & mask
        rows[(values >> np.uint64(bit) & np.uint64(1)).astype(bool)] ^= moved
    return rows, place


class OneAtATime:
    """Any inverter of single functions, Definition 4.11 word for word, as an ``Inverter``.

    ``invert(function, target, inputs)`` is given a vectorised function from ``inputs``-bit numbers to
    numbers, and a target; it returns a number or None. An answer is believed only after it was checked.
    Guarantee: an inverter that fails with probability ν' adds 6(m + 1)ν' to the accuracy (``implicit_plan``).
    Assumes: answers that depend on nothing but the arguments (not checkable).
    Reference: SIS Definition 4.11.

    >>> import numpy as np
    >>> def search(function, target, inputs):
    ...     hits = np.flatnonzero(function(np.arange(2**inputs, dtype=np.uint64)) == target)
    ...     return int(hits[0]) if len(hits) else None
    >>> word = lambda *bits: np.array(bits, dtype=np.uint64)
    >>> parity = ToeplitzHash(word(1), word(0), inputs=1, outputs=1)
    >>> OneAtATime(search).invert(Circuit.of_counts([5, 3]), parity, 1, parity, word(0)).tolist()
    [6]
    """

    def __init__(self, invert: Callable[[Callable[[Strings], Strings], int, int], int | None]) -> None:
        self._invert = invert

    def possible(self, circuit: Circuit, first: ToeplitzHash, values: Strings) -> npt.NDArray[np.bool_]:
        """Nothing is known before inverting.

        Args:
            circuit: The circuit that is sampled from.
            first: The outer hash function, of the circuit's value.
            values: What the outer hash function must give.
        """
        return np.ones(len(first), dtype=bool)

    def invert(
        self, circuit: Circuit, first: ToeplitzHash, value: int, second: ToeplitzHash, targets: Strings
    ) -> Preimages:
        """One call for each function of ``second``.

        Args:
            circuit: The circuit that is sampled from.
            first: The outer hash function, of the circuit's value.
            value: What the outer hash function must give.
            targets: What each inner hash function must give.
        """
        width = np.uint64(second.outputs)
        preimages = np.full(len(second), -1, dtype=np.int64)
        for i, target in enumerate(targets.tolist()):
            single = second.only(i)

            def both(strings: Strings, single: ToeplitzHash = single) -> Strings:
                images: Strings = first(circuit.table[strings])[0] << width | single(strings)[0]
                return images

            wanted = value << int(width) | target
            answer = self._invert(both, wanted, circuit.inputs)
            if answer is not None and int(both(np.array([answer], dtype=np.uint64))[0]) == wanted:
                preimages[i] = answer
        return preimages


_SOLVER = "minisat22"
# Sums are cut into pieces of this many wires, each with 2^(wires) clauses at most.
_PIECE = 4


class SatInverter:
    """Lists the strings of a bucket by a SAT solver, for a circuit whose ``clauses`` are given.

    Variables 1 … m are the input bits, the first one the last digit of the string; ``outputs`` are the
    literals of the output bits. ``Gates`` writes both. The equations of a bucket are brought to reduced form
    first, so that a bucket without candidates never reaches the solver.
    Guarantee: the whole bucket. Time is the solver's: short where few output bits depend on many inputs, and
    possibly exponential (an inverter that is always fast would break every one-way function).
    Assumes: clauses that hold exactly where the outputs are the circuit's values (listed strings are checked
    against the circuit; strings that wrong clauses forbid are not noticed).
    Reference: SIS Definition 4.11 with error 0. Needs the extra ``sat``.

    >>> from holdfast.barriers import Gates
    >>> gates = Gates(3)
    >>> total = gates.count(gates.inputs)
    >>> bucket = Bucket(first=(0b01, 0b10), value=0b10, second=(0b001,), target=1)
    >>> SatInverter(gates.clauses, total).strings(gates.circuit(total), bucket, most=5).tolist()
    [3, 5]
    """

    def __init__(self, clauses: Sequence[Sequence[int]], outputs: Sequence[int]) -> None:
        self._clauses = [[int(literal) for literal in clause] for clause in clauses]
        self._outputs = [int(literal) for literal in outputs]
        literals = [*itertools.chain.from_iterable(self._clauses), *self._outputs]
        if not self._outputs or 0 in literals:
            expected = "one literal that is not 0 for each output bit"
            raise InvalidArgument("outputs", expected, list(outputs), of="SatInverter")
        self._last = max(abs(literal) for literal in literals)
        self._solver: Any = _solver()

    def strings(self, circuit: Circuit, bucket: Bucket, most: int) -> Strings:
        """All models of the clauses and the bucket's equations, as strings of input bits.

        Args:
            circuit: The circuit that is sampled from.
            bucket: The bucket whose strings are listed.
            most: How many strings to list, at most; one more shows that there are more.
        """
        if len(self._outputs) != circuit.outputs:
            expected = f"one literal for each of {circuit.outputs} output bits"
            raise InvalidArgument("outputs", expected, self._outputs, of="SatInverter")
        values = solve(bucket.first, _bits(bucket.value, len(bucket.first)), circuit.outputs)
        inputs = solve(bucket.second, _bits(bucket.target, len(bucket.second)), circuit.inputs)
        if values is None or inputs is None:
            return np.zeros(0, dtype=np.uint64)
        clauses = list(self._clauses)
        last = max(self._last, circuit.inputs)
        for row, side in values.equations:
            last = _add_sum(clauses, [w for i, w in enumerate(self._outputs) if row >> i & 1], side, last)
        for row, side in inputs.equations:
            last = _add_sum(clauses, [i + 1 for i in range(circuit.inputs) if row >> i & 1], side, last)
        # The other bits of a string are determined by these.
        pivots = sum(row & -row for row, _ in inputs.equations)
        free = [i + 1 for i in range(circuit.inputs) if not pivots >> i & 1]
        listed: list[int] = []
        with self._solver(name=_SOLVER, bootstrap_with=clauses) as solver:
            while len(listed) <= most and solver.solve():
                model = solver.get_model()
                bits = model[: circuit.inputs] + [-1] * (circuit.inputs - len(model))
                listed.append(sum(1 << i for i, literal in enumerate(bits) if literal > 0))
                block = [-bits[wire - 1] if wire <= len(model) else wire for wire in free]
                if not block:
                    break
                solver.add_clause(block)
        return np.array(sorted(listed), dtype=np.uint64)


def _solver() -> Any:
    try:
        return importlib.import_module("pysat.solvers").Solver
    except ImportError:
        raise MissingExtra("sat", what="SatInverter") from None


def _bits(number: int, count: int) -> list[int]:
    return [number >> place & 1 for place in range(count)]


def _add_sum(clauses: list[list[int]], wires: list[int], side: int, last: int) -> int:
    """Clauses that hold exactly where the wires add up to ``side`` modulo 2; the last variable used."""
    while len(wires) > _PIECE:
        last += 1
        _add_piece(clauses, [*wires[: _PIECE - 1], last], 0)
        wires = [*wires[_PIECE - 1 :], last]
    _add_piece(clauses, wires, side)
    return last


def _add_piece(clauses: list[list[int]], wires: list[int], side: int) -> None:
    """One clause against every assignment of the wrong sum."""
    for signs in itertools.product((0, 1), repeat=len(wires)):
        if sum(signs) % 2 != side:
            clauses.append([-wire if sign else wire for sign, wire in zip(signs, wires, strict=True)])
