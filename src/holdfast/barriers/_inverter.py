"""Inverting r ↦ H₁(C(r)) ‖ H₂(r): by a table, or by whatever else one believes in (SIS Definition 4.11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from holdfast.barriers._buckets import Bucket
from holdfast.barriers._circuits import Circuit, Strings
from holdfast.barriers._hashing import ToeplitzHash

__all__ = ["Inverter", "OneAtATime", "TableInverter"]

Found = npt.NDArray[np.int64]
_AT_ONCE = 2**19
_BYTE = 8


@runtime_checkable
class Inverter(Protocol):
    """What ``implicit_correlated_sample`` asks of an inverter; without one-way functions it could be fast."""

    def possible(self, circuit: Circuit, first: ToeplitzHash, values: Strings) -> npt.NDArray[np.bool_]:
        """For each function of ``first``: may it map some circuit(r) to its value? True is always safe."""
        ...

    def invert(
        self, circuit: Circuit, first: ToeplitzHash, value: int, second: ToeplitzHash, targets: Strings
    ) -> Found:
        """For each i a string r with first(circuit(r)) = ``value`` and second_i(r) = targets[i]; −1 where
        none is found.

        ``first`` is a single function. The answer must depend on nothing but the arguments.
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
        """Whether a value of the circuit is mapped there."""
        hit: npt.NDArray[np.bool_] = (first(circuit.support[0]) == values[:, None]).any(axis=1)
        return hit

    def invert(
        self, circuit: Circuit, first: ToeplitzHash, value: int, second: ToeplitzHash, targets: Strings
    ) -> Found:
        """The first preimage in the order of the table of values."""
        found = np.full(len(second), -1, dtype=np.int64)
        places = np.flatnonzero(first(circuit.support[0])[0] == np.uint64(value))
        if len(places) == 0:
            return found
        strings = circuit.preimages(places)
        which, where = _matches(second, targets, strings)
        # Written backwards, so that the first of several stays.
        found[where[::-1]] = strings[which[::-1]].astype(np.int64)
        return found

    def strings(self, circuit: Circuit, bucket: Bucket, most: int) -> Strings:
        """The strings of a bucket, or ``most`` + 1 of them where there are more."""
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
        """Nothing is known before inverting."""
        return np.ones(len(first), dtype=bool)

    def invert(
        self, circuit: Circuit, first: ToeplitzHash, value: int, second: ToeplitzHash, targets: Strings
    ) -> Found:
        """One call for each function of ``second``."""
        width = np.uint64(second.outputs)
        found = np.full(len(second), -1, dtype=np.int64)
        for i, target in enumerate(targets.tolist()):
            one = second.only(i)

            def both(strings: Strings, one: ToeplitzHash = one) -> Strings:
                images: Strings = first(circuit.table[strings])[0] << width | one(strings)[0]
                return images

            wanted = value << int(width) | target
            answer = self._invert(both, wanted, circuit.inputs)
            if answer is not None and int(both(np.array([answer], dtype=np.uint64))[0]) == wanted:
                found[i] = answer
        return found
