"""Correlated sampling from a circuit of many inputs: list the strings of a small random bucket, and count.

The plan says how long this must run, and what that promises (SIS Lemmas 4.14 and 4.16).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.barriers._circuits import MOST_INPUTS, MOST_OUTPUTS, Circuit, Strings
from holdfast.errors import InvalidArgument
from holdfast.records import Record
from holdfast.replicable import Tape

__all__ = [
    "AffineInverter",
    "AffineSpace",
    "Bucket",
    "BucketInverter",
    "BucketPlan",
    "bucket_plan",
    "sample_by_buckets",
    "solve",
    "toeplitz_rows",
]


_AT_ONCE = 128
_WORDS = 8
_ROWS_AT_ONCE = 8
_PROBES = 64


@dataclass(frozen=True, eq=False)
class Bucket:
    """The strings r for which ``first`` maps circuit(r) to ``value`` and ``second`` maps r to ``target``.

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
        """Which of these strings are in the bucket.

        Args:
            strings: Strings of the circuit.
        """
        return self.holds_value(circuit.evaluate(strings)) & self.holds_string(strings)

    def holds_value(self, values: Strings) -> npt.NDArray[np.bool_]:
        """Which values of the circuit ``first`` maps to ``value``.

        Args:
            values: Values of the circuit.
        """
        return _mapped_to(self.first, self.value, values)

    def holds_string(self, strings: Strings) -> npt.NDArray[np.bool_]:
        """Which strings ``second`` maps to ``target``.

        Args:
            strings: Strings of the circuit.
        """
        return _mapped_to(self.second, self.target, strings)


@runtime_checkable
class BucketInverter(Protocol):
    """What sampling by buckets asks of an inverter: all strings of a bucket, not only one of them."""

    def strings(self, circuit: Circuit, bucket: Bucket, most: int) -> Strings:
        """The strings of the bucket, in any order, or any ``most`` + 1 of them where there are more.

        Args:
            circuit: The circuit that is sampled from.
            bucket: The bucket whose strings are listed.
        """
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
        """All solutions of the equations of the bucket, one elimination for each question.

        Args:
            circuit: The circuit that is sampled from.
            bucket: The bucket whose strings are listed.
            most: How many strings to list, at most; one more shows that there are more.
        """
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
    times the usual number of strings there, x is returned. β is uniform on [1, 2].
    """
    for number, (threshold, level, bucket) in enumerate(_rounds(plan, tape)):
        usual = 1 << min(plan.bits, plan.inputs - level)
        strings = inverter.strings(circuit, bucket, CROWDED * usual)
        if not 0 < len(strings) <= CROWDED * usual:
            continue
        # Check every string that the inverter returns, and count none twice.
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
    # The first few rows rule out most strings. Later rows look only at the strings that remain.
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = np.array(rows[start : start + _ROWS_AT_ONCE], dtype=np.uint64)
        wanted = np.array([value >> start + place & 1 for place in range(len(some))], dtype=np.uint8)
        sums = np.bitwise_count(strings[places, None] & some) & 1
        places = places[(sums == wanted).all(axis=1)]
        if len(places) == 0:
            return right
    right[places] = True
    return right


_BY = "Holdfast, buckets"
_LEAST_BITS, _MOST_BITS = 3, 24
_MOST_SLACK = 16
# A bucket with more strings than this multiple of its usual number is skipped.
CROWDED = 8


@dataclass(frozen=True, repr=False)
class BucketPlan(Record):
    """``rounds`` rounds at ``levels`` + 1 levels for ``inputs`` = m and ``outputs`` = n bits.

    An element x is looked at with probability 2^(−level − ``slack``); 2^``bits`` strings of it are expected
    in the bucket at the level that fits its probability.
    Guarantee: see ``accuracy`` and ``disagreement``; any numbers may be given, bad ones promise nothing.
    Assumes: an inverter that lists the whole bucket.
    Reference: Holdfast, after SIS Algorithms 6 and 7.

    >>> round(BucketPlan(inputs=40, outputs=8, levels=16, slack=7, bits=12, rounds=20_000).accuracy, 4)
    0.1009
    """

    inputs: int
    outputs: int
    levels: int
    slack: int
    bits: int
    rounds: int

    def __post_init__(self) -> None:
        limits = {
            "inputs": (1, MOST_INPUTS),
            "outputs": (1, MOST_OUTPUTS),
            "levels": (0, self.inputs),
            "slack": (0, _MOST_SLACK),
            "bits": (0, min(_MOST_BITS, self.inputs)),
            "rounds": (1, 2**53),
        }
        for name, (least, most) in limits.items():
            number = checks.whole(
                getattr(self, name), name, at_least=least, at_most=most, of="BucketPlan", by=_BY
            )
            object.__setattr__(self, name, number)

    @property
    def mean_rounds(self) -> int:
        """(levels + 1) 2^slack: how many rounds pass before an ideal one returns, on average."""
        return (self.levels + 1) << self.slack

    @property
    def round_error(self) -> float:
        """e: how often a round that decides differs from the ideal one; 1 where nothing is proved.

        With N = 2^bits ≥ 8, e = 4.76/√N + (log₂ N + 9.1)/N + 2.2·2^{−slack}, and 2^{n−levels} more where
        there are fewer levels than inputs. Where bits = inputs, counts are exact and the terms with N are 0.
        """
        return _round_error(self.inputs, self.outputs, self.levels, self.slack, self.bits)

    @property
    def silence(self) -> float:
        """(1 − (1 − e)/((levels + 1)2^slack))^rounds: how often nothing is returned, at most."""
        rate = (1.0 - self.round_error) / self.mean_rounds
        return rounding.probability(math.exp(self.rounds * math.log1p(-rate)) if rate < 1.0 else 0.0)

    @property
    def accuracy(self) -> float:
        """e + silence: the total variation between what is returned and the circuit's law, at most."""
        return rounding.probability(self.round_error + self.silence)

    def disagreement(self, total_variation: float) -> float:
        """How often two circuits whose laws are ``total_variation`` = d apart give different results.

        Guarantee: (6d + 2e)/(1 + 3d) on one tape, for circuits with the same numbers of inputs and outputs;
        two circuits that are the same function never differ.
        Assumes: a tape that does not depend on the circuits.
        Reference: SIS Lemma 4.16; constants ours.

        >>> plan = BucketPlan(inputs=40, outputs=8, levels=16, slack=7, bits=12, rounds=20_000)
        >>> round(plan.disagreement(0.01), 4)
        0.2536
        """
        d = checks.real(total_variation, "total_variation", "[0, 1]", of="BucketPlan.disagreement")
        return rounding.probability((6.0 * d + 2.0 * self.round_error) / (1.0 + 3.0 * d))

    @property
    def strings(self) -> int:
        """(levels + 1)·2^bits: about how many strings are listed before a result."""
        return (self.levels + 1) << self.bits


def bucket_plan(inputs: int, outputs: int, accuracy: float) -> BucketPlan:
    """The numbers with which sampling by buckets is within ``accuracy`` of the circuit's law.

    Guarantee: ``plan.accuracy`` ≤ ``accuracy``, with the fewest rounds and strings together that the search
    finds. Nothing grows with 2^inputs.
    Assumes: accuracy in [0.01, 0.9].
    Reference: Holdfast, buckets.

    Args:
        inputs: How many input bits the circuit has.
        outputs: How many output bits it has.

    >>> bucket_plan(40, 6, 0.5)
    BucketPlan(inputs=40, outputs=6, levels=12, slack=5, bits=8, rounds=2333)
    """
    of = "bucket_plan"
    inputs = checks.whole(inputs, "inputs", at_most=MOST_INPUTS, of=of, by=_BY)
    outputs = checks.whole(outputs, "outputs", at_most=MOST_OUTPUTS, of=of, by=_BY)
    accuracy = checks.real(accuracy, "accuracy", "[0.01, 0.9]", of=of, by=_BY)
    best: BucketPlan | None = None
    for levels in sorted({min(inputs, outputs + more) for more in range(1, 16)}):
        for slack in range(_MOST_SLACK + 1):
            for bits in range(min(_LEAST_BITS, inputs), min(_MOST_BITS, inputs) + 1):
                # Silence takes a tenth of the accuracy.
                error = _round_error(inputs, outputs, levels, slack, bits)
                if error <= 0.9 * accuracy:
                    rounds = math.ceil(((levels + 1) << slack) * math.log(11.0 / accuracy) / (1.0 - error))
                    plan = BucketPlan(inputs, outputs, levels, slack, bits, rounds)
                    if best is None or plan.rounds + plan.strings < best.rounds + best.strings:
                        best = plan
                    break
    if best is None or best.accuracy > accuracy:
        raise InvalidArgument(
            "accuracy", "an accuracy that some plan reaches", accuracy, of=of, reference=_BY
        )
    return best


def _round_error(inputs: int, outputs: int, levels: int, slack: int, bits: int) -> float:
    error = 2.2 * 2.0**-slack
    if bits < inputs:
        if bits < _LEAST_BITS:
            return 1.0
        size = 2.0**bits
        error += 4.76 / math.sqrt(size) + (bits + 9.1) / size
    if levels < inputs:
        error += 2.0 ** min(0, outputs - levels)
    return rounding.probability(error)


@dataclass(frozen=True)
class AffineSpace:
    """All ``point`` + sums of ``basis``; the equations that cut it out have one pivot each.

    ``equations`` are (row, right side) in reduced form: the pivot of a row occurs in no other row.
    """

    point: int
    basis: tuple[int, ...]
    equations: tuple[tuple[int, int], ...]

    def strings(self, most: int) -> Strings:
        """The members, or ``most`` + 1 of them where there are more.

        >>> solve([0b011], [1], 3).strings(10).tolist()
        [1, 2, 5, 6]
        """
        members = np.array([self.point], dtype=np.uint64)
        for vector in self.basis:
            if len(members) > most:
                break
            members = np.concatenate((members, members ^ np.uint64(vector)))
        return np.sort(members[: most + 1])


def solve(rows: Sequence[int], sides: Sequence[int], unknowns: int) -> AffineSpace | None:
    """All solutions of row·x = side, modulo 2; None if there are none.

    >>> solve([0b11, 0b01], [1, 1], 2).point
    1
    >>> solve([0b11, 0b11], [1, 0], 2) is None
    True
    """
    side_bit = 1 << unknowns
    pivots: list[tuple[int, int]] = []
    for row, side in zip(rows, sides, strict=True):
        equation = row | (side_bit if side else 0)
        for pivot, earlier in pivots:
            if equation & pivot:
                equation ^= earlier
        left = equation & (side_bit - 1)
        if left == 0:
            if equation:
                return None
            continue
        pivot = left & -left
        pivots = [(p, e ^ equation if e & pivot else e) for p, e in pivots]
        pivots.append((pivot, equation))
    point = sum(pivot for pivot, equation in pivots if equation & side_bit)
    determined = sum(pivot for pivot, _ in pivots)
    basis = []
    for place in range(unknowns):
        free = 1 << place
        if not determined & free:
            basis.append(free | sum(pivot for pivot, equation in pivots if equation & free))
    equations = tuple((equation & (side_bit - 1), int(bool(equation & side_bit))) for _, equation in pivots)
    return AffineSpace(point, tuple(basis), equations)


def toeplitz_rows(seed: int, inputs: int, outputs: int) -> tuple[int, ...]:
    """The rows of the Toeplitz matrix of a seed with inputs + outputs − 1 bits.

    >>> toeplitz_rows(0b1101, 3, 2)
    (5, 6)
    """
    mask = (1 << inputs) - 1
    return tuple(seed >> place & mask for place in range(outputs))
