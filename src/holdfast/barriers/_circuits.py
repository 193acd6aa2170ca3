"""Circuits: functions of a few random bits, each standing for the law of its output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument

__all__ = ["MOST_INPUTS", "MOST_OUTPUTS", "MOST_TABLE", "Circuit", "Strings", "circuit_argument"]

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
    def of_counts(cls, counts: Any) -> Circuit:
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
            expected = f"at most {MOST_TABLE} for a table; give an accuracy and an inverter that needs none"
            raise InvalidArgument("inputs", expected, self.inputs, of="Circuit.table", reference=_BY)
        return self.evaluate(np.arange(1 << self.inputs, dtype=np.uint64))

    def evaluate(self, strings: Strings) -> Strings:
        """The values at these strings, checked.

        >>> Circuit.of_counts([5, 3]).evaluate(np.array([4, 5], dtype=np.uint64)).tolist()
        [0, 1]
        """
        values = np.asarray(self.function(strings))
        whole = values.shape == strings.shape and values.dtype.kind in "biu"
        if not whole or (len(values) and (values.min() < 0 or int(values.max()) >> self.outputs)):
            expected = f"a function with one whole number of {self.outputs} bits for each string"
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
        """All strings that lead to the values at these places of the support."""
        return np.concatenate([self._by_value[place] for place in which])

    @property
    def probabilities(self) -> dict[int, float]:
        """The law of the output."""
        values, counts = self.support
        return dict(zip(values.tolist(), np.ldexp(counts, -self.inputs).tolist(), strict=True))

    def total_variation(self, other: Circuit) -> float:
        """How far the two laws are apart; how the circuits compute them does not matter."""
        mine, theirs = self.probabilities, circuit_argument(other, of="Circuit.total_variation").probabilities
        return sum(max(p - theirs.get(x, 0.0), 0.0) for x, p in mine.items())


def circuit_argument(circuit: Any, *, of: str) -> Circuit:
    """Return ``circuit`` if it is one."""
    if not isinstance(circuit, Circuit):
        raise InvalidArgument("circuit", "a Circuit", circuit, of=of, reference=_BY)
    return circuit
