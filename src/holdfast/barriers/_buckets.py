"""Correlated sampling from a circuit of many inputs: list the strings of a small random bucket, and count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from holdfast.barriers._bucket_plan import CROWDED, BucketPlan
from holdfast.barriers._circuits import Circuit, Strings
from holdfast.barriers._gf2 import solve, toeplitz_rows
from holdfast.errors import InvalidArgument
from holdfast.replicable._tape import Tape

__all__ = ["AffineInverter", "Bucket", "BucketInverter", "sample_by_buckets"]

_AT_ONCE = 128
_WORDS = 8
_ROWS_AT_ONCE = 8
_PROBES = 64


@dataclass(frozen=True, eq=False)
class Bucket:
    """The strings r for which ``first`` of circuit(r) is ``value`` and ``second`` of r is ``target``.

    Both are matrices over GF(2): a row is a whole number, whose bits say which bits are added. Bit a of
    ``value`` is the sum that row a must have.

    >>> import numpy as np
    >>> bucket = Bucket(first=(0b1,), value=1, second=(0b011, 0b100), target=0b10)
    >>> circuit = Circuit.of_counts([5, 3])
    >>> bucket.holds(circuit, np.arange(8, dtype=np.uint64)).tolist()
    [False, False, False, False, False, False, False, True]
    """

    first: tuple[int, ...]
    value: int
    second: tuple[int, ...]
    target: int

    def holds(self, circuit: Circuit, strings: Strings) -> npt.NDArray[np.bool_]:
        """Which of these strings are in the bucket."""
        return self.holds_value(circuit.evaluate(strings)) & self.holds_string(strings)

    def holds_value(self, values: Strings) -> npt.NDArray[np.bool_]:
        """Which values of a circuit ``first`` takes where it must."""
        return _mapped_to(self.first, self.value, values)

    def holds_string(self, strings: Strings) -> npt.NDArray[np.bool_]:
        """Which strings ``second`` takes where it must."""
        return _mapped_to(self.second, self.target, strings)


@runtime_checkable
class BucketInverter(Protocol):
    """What sampling by buckets asks of an inverter: all strings of a bucket, not only one of them."""

    def strings(self, circuit: Circuit, bucket: Bucket, most: int) -> Strings:
        """The strings of the bucket, in any order, or any ``most`` + 1 of them where there are more."""
        ...


class AffineInverter:
    """Lists the strings of a bucket by linear algebra, for circuits that are affine over GF(2).

    A circuit of m inputs is evaluated at 0 and at every single bit, which tells what an affine circuit is,
    and at 64 more strings: a circuit that is not affine is refused if it shows there.
    Guarantee: the whole bucket, in time polynomial in inputs and outputs.
    Assumes: circuit(r) = Mr + c over GF(2) (checked on some strings; not checkable as a whole).
    Reference: Gauss; SIS Definition 4.11 with error 0.

    >>> import numpy as np
    >>> parity = Circuit(lambda r: np.bitwise_count(r) & np.uint8(1), inputs=40, outputs=1)
    >>> bucket = Bucket(first=(1,), value=1, second=tuple(1 << i for i in range(1, 40)), target=5)
    >>> AffineInverter().strings(parity, bucket, most=10).tolist()
    [11]
    """

    def __init__(self) -> None:
        self._circuit: Circuit | None = None
        self._rows: tuple[int, ...] = ()
        self._offset = 0

    def strings(self, circuit: Circuit, bucket: Bucket, most: int) -> Strings:
        """All solutions of the equations of the bucket, one elimination for each question."""
        self._read(circuit)
        rows, sides = [], []
        for place, outputs in enumerate(bucket.first):
            row = offset = 0
            for bit, output in enumerate(self._rows):
                if outputs >> bit & 1:
                    row ^= output
                    offset ^= self._offset >> bit & 1
            rows.append(row)
            sides.append(bucket.value >> place & 1 ^ offset)
        rows.extend(bucket.second)
        sides.extend(bucket.target >> place & 1 for place in range(len(bucket.second)))
        space = solve(rows, sides, circuit.inputs)
        return np.zeros(0, dtype=np.uint64) if space is None else space.strings(most)

    def _read(self, circuit: Circuit) -> None:
        """What the circuit does with 0 and with every single bit: once for each circuit."""
        if circuit is self._circuit:
            return
        units = np.uint64(1) << np.arange(circuit.inputs, dtype=np.uint64)
        values = [int(value) for value in circuit.evaluate(np.append(units, np.uint64(0)))]
        self._offset = values.pop()
        columns = [value ^ self._offset for value in values]
        self._rows = tuple(
            sum((column >> bit & 1) << place for place, column in enumerate(columns))
            for bit in range(circuit.outputs)
        )
        probes = Tape("affine probes").words(_PROBES) >> np.uint64(64 - circuit.inputs)
        expected = np.full(_PROBES, self._offset, dtype=np.uint64)
        for bit, row in enumerate(self._rows):
            odd = (np.bitwise_count(probes & np.uint64(row)) & 1).astype(np.uint64)
            expected ^= odd << np.uint64(bit)
        if (circuit.evaluate(probes) != expected).any():
            self._circuit = None
            wanted = "affine over GF(2): sums of its bits, and a constant; see SatInverter for others"
            raise InvalidArgument("circuit", wanted, circuit, of="AffineInverter")
        self._circuit = circuit


def sample_by_buckets(
    circuit: Circuit, plan: BucketPlan, tape: Tape, inverter: BucketInverter
) -> tuple[int | None, int | None]:
    """The value and the number of the first round that returns one; None and None if all are silent.

    A round looks at the strings r of a random bucket. If exactly one x = circuit(r) has between β/2 and β
    times the usual number of strings there, β uniform on [1, 2], x is returned.
    """
    for number, (threshold, level, bucket) in enumerate(_rounds(plan, tape)):
        usual = 1 << min(plan.bits, plan.inputs - level)
        strings = inverter.strings(circuit, bucket, CROWDED * usual)
        if not 0 < len(strings) <= CROWDED * usual:
            continue
        # An answer is believed only after it was checked, and counted once.
        strings = np.unique(strings)
        elements, counts = np.unique(
            circuit.evaluate(strings[bucket.holds(circuit, strings)]), return_counts=True
        )
        scaled = counts / usual
        inside = elements[(threshold / 2.0 < scaled) & (scaled <= threshold)]
        if len(inside) == 1:
            return int(inside[0]), number
    return None, None


def _rounds(plan: BucketPlan, tape: Tape) -> Iterator[tuple[float, int, Bucket]]:
    """The threshold, the level and the bucket of each round: from the tape and the plan alone."""
    for start in range(0, plan.rounds, _AT_ONCE):
        block = tape.branch("buckets").branch(start)
        thresholds = 1.0 + block.uniforms(_AT_ONCE)
        levels = block.integers(_AT_ONCE, plan.levels + 1).tolist()
        words = block.words(_WORDS * _AT_ONCE).reshape(_AT_ONCE, _WORDS).tolist()
        for place in range(min(_AT_ONCE, plan.rounds - start)):
            yield float(thresholds[place]), levels[place], _bucket(plan, levels[place], words[place])


def _bucket(plan: BucketPlan, level: int, words: list[int]) -> Bucket:
    """H₁ from n to level + slack bits, H₂ from m to m − level − bits bits, and where they must lead."""
    first_width = level + plan.slack
    second_width = max(0, plan.inputs - level - plan.bits)
    pairs = [words[place] | words[place + 1] << 64 for place in range(0, _WORDS, 2)]
    return Bucket(
        toeplitz_rows(pairs[0], plan.outputs, first_width),
        pairs[1] & ((1 << first_width) - 1),
        toeplitz_rows(pairs[2], plan.inputs, second_width),
        pairs[3] & ((1 << second_width) - 1),
    )


def _mapped_to(rows: tuple[int, ...], value: int, strings: Strings) -> npt.NDArray[np.bool_]:
    """Which strings have the sums that the bits of ``value`` ask for."""
    if len(rows) == 0:
        return np.ones(len(strings), dtype=bool)
    right = np.zeros(len(strings), dtype=bool)
    places = np.arange(len(strings))
    # Each few rows leave a small share of the strings: the rest is not looked at again.
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = np.array(rows[start : start + _ROWS_AT_ONCE], dtype=np.uint64)
        wanted = np.array([value >> start + place & 1 for place in range(len(some))], dtype=np.uint8)
        sums = np.bitwise_count(strings[places, None] & some) & 1
        places = places[(sums == wanted).all(axis=1)]
        if len(places) == 0:
            return right
    right[places] = True
    return right
