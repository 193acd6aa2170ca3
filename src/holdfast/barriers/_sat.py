"""Inverting circuits that are written as clauses, by a SAT solver."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.barriers._buckets import Bucket
from holdfast.barriers._circuits import Circuit, Strings
from holdfast.barriers._gf2 import solve
from holdfast.errors import InvalidArgument, MissingExtra

__all__ = ["SatInverter"]

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
        """All models of the clauses and the bucket's equations, as strings of input bits."""
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
