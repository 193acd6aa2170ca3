"""Sampling by buckets: moments and listings exactly, the law and the agreement by seeded runs, 64 inputs."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from barriers_oracles import mismatch
from scipy import stats

from holdfast.barriers import (
    AffineInverter,
    Bucket,
    BucketPlan,
    Circuit,
    Gates,
    OneAtATime,
    SatInverter,
    TableInverter,
    _buckets,
    bucket_plan,
    implicit_correlated_sample,
)
from holdfast.barriers._buckets import solve, toeplitz_rows
from holdfast.errors import InvalidArgument
from holdfast.replicable import Tape

LEVEL = 1e-6


def affine(inputs: int, outputs: int, rng: np.random.Generator) -> Circuit:
    """A random affine circuit: parities of random sets of bits, and a random offset."""
    rows = rng.integers(2**64, size=outputs, dtype=np.uint64) >> np.uint64(64 - inputs)
    offset = rng.integers(2**outputs, dtype=np.uint64)

    def function(strings):
        parities = np.bitwise_count(strings[:, None] & rows) & 1
        return (parities.astype(np.uint64) << np.arange(outputs, dtype=np.uint64)).sum(axis=1) ^ offset

    return Circuit(function, inputs, outputs)


def counting(inputs: int) -> tuple[Gates, list[int]]:
    gates = Gates(inputs)
    return gates, gates.count(gates.inputs)


def test_equations_are_solved_as_by_trying_everything(rng):
    for _ in range(200):
        unknowns = int(rng.integers(1, 7))
        rows = [int(row) for row in rng.integers(2**unknowns, size=rng.integers(0, 8))]
        sides = [int(side) for side in rng.integers(2, size=len(rows))]
        right = [
            x
            for x in range(2**unknowns)
            if all((row & x).bit_count() % 2 == side for row, side in zip(rows, sides, strict=True))
        ]
        space = solve(rows, sides, unknowns)
        assert ([] if space is None else space.strings(99).tolist()) == right
        if space is not None and len(right) > 2:
            assert len(space.strings(2)) == 3


@pytest.mark.parametrize(("inputs", "width"), [(3, 0), (3, 1), (3, 2), (4, 3)])
def test_moments_of_a_bucket_over_all_hashes_and_targets(inputs, width):
    """E K = |A|/2^w and E K(K − 1) = |A|(|A| − 1)/4^w for every set A: what the proof needs."""
    hashes = [toeplitz_rows(seed, inputs, width) for seed in range(2 ** (inputs + width - 1) if width else 1)]
    for members in ([0], [0, 1], [1, 2, 3], list(range(2**inputs)), [0, 3, 5, 6]):
        counts, untargeted = [], []
        for rows, target in itertools.product(hashes, range(2**width)):
            bucket = Bucket((), 0, rows, target)
            strings = np.array(members, dtype=np.uint64)
            counts.append(int(bucket.holds_string(strings).sum()))
            untargeted.append(int(Bucket((), 0, rows, 0).holds_string(strings).sum()))
        size, cells = len(members), 2**width
        assert Fraction(sum(counts), len(counts)) == Fraction(size, cells)
        assert Fraction(sum(k * (k - 1) for k in counts), len(counts)) == Fraction(
            size * (size - 1), cells**2
        )
        if width and 0 in members:
            # A target that is not drawn: the string 0 is always there.
            assert Fraction(sum(untargeted), len(untargeted)) > Fraction(size, cells)


def random_buckets(circuit: Circuit, rng: np.random.Generator, count: int):
    for _ in range(count):
        widths = rng.integers(0, circuit.outputs + 2), rng.integers(0, circuit.inputs)
        rows = [
            tuple(int(row) for row in rng.integers(2**size, size=width))
            for width, size in zip(widths, (circuit.outputs, circuit.inputs), strict=True)
        ]
        values = [int(rng.integers(2**width)) for width in widths]
        yield Bucket(rows[0], values[0], rows[1], values[1])


def test_affine_circuits_are_listed_as_by_the_table(rng):
    for _ in range(10):
        circuit, inverter = affine(9, 4, rng), AffineInverter()
        for bucket in random_buckets(circuit, rng, 30):
            every = np.flatnonzero(bucket.holds(circuit, np.arange(512, dtype=np.uint64)))
            assert inverter.strings(circuit, bucket, 512).tolist() == every.tolist()
            assert sorted(TableInverter().strings(circuit, bucket, 512)) == every.tolist()


def test_clauses_are_listed_as_by_the_table(rng):
    pytest.importorskip("pysat")
    gates, total = counting(9)
    circuit, inverter = gates.circuit(total), SatInverter(gates.clauses, total)
    assert circuit.table.tolist() == [r.bit_count() for r in range(512)]
    sizes = set()
    for bucket in random_buckets(circuit, rng, 60):
        every = np.flatnonzero(bucket.holds(circuit, np.arange(512, dtype=np.uint64)))
        assert inverter.strings(circuit, bucket, 512).tolist() == every.tolist()
        assert len(inverter.strings(circuit, bucket, 1)) == min(2, len(every))
        sizes.add(len(every))
    assert len(sizes) > 5


def test_gates_compute_what_their_names_say(rng):
    gates = Gates(4)
    a, b, c, d = gates.inputs
    circuit = gates.circuit([gates.both(a, b), gates.either(a, -b), gates.differ(c, d), -c])
    for r in range(16):
        bits = [r >> place & 1 for place in range(4)]
        wanted = [bits[0] & bits[1], bits[0] | 1 - bits[1], bits[2] ^ bits[3], 1 - bits[2]]
        assert int(circuit.table[r]) == sum(bit << place for place, bit in enumerate(wanted))
    adder = Gates(9)
    circuit = adder.circuit(adder.add(adder.inputs[:5], adder.inputs[5:]))
    assert circuit.table.tolist() == [(r & 31) + (r >> 5) for r in range(512)]


def worst_of_two_points(g: float, size: int) -> float:
    """The largest E[mismatch] over laws on two points with mean g and variance g/N, on a grid of them.

    The lower point is no count, or a count of at least one string.
    """
    spread, reach = math.sqrt(g / size), math.sqrt(g * size)
    ratios = reach * np.geomspace(1e-3, 1.0, 801)
    low, high = g - spread * ratios, g + spread / ratios
    low[-1] = 0.0
    weight = ratios**2 / (1.0 + ratios**2)  # of the upper point: both moments are right
    assert np.allclose((1 - weight) * low + weight * high, g)
    assert np.allclose((1 - weight) * (low - g) ** 2 + weight * (high - g) ** 2, g / size)
    means = (1.0 - weight) * mismatch(low, g) + weight * mismatch(high, g)
    return float(means[(low * size >= 1.0) | (low == 0.0)].max())


@pytest.mark.parametrize("bits", [3, 6, 10])
def test_counting_costs_at_most_what_is_proved_even_for_the_worst_laws(bits):
    size = 2**bits
    proved = 4.76 / math.sqrt(size) + (bits + 7.1) / size
    for theta in np.linspace(0.5001, 1.0, 9):
        levels = [theta * 2.0**i for i in range(-30, 12)]
        worst = sum(worst_of_two_points(g, size) / g for g in levels)
        binomial = 0.0
        for g in levels:
            mean = g * size
            k = np.arange(
                max(0, int(mean - 12 * math.sqrt(mean) - 12)), int(mean + 12 * math.sqrt(mean) + 60)
            )
            binomial += (stats.poisson.pmf(k, mean) * mismatch(k / size, g)).sum() / g
        assert binomial <= proved
        assert worst <= proved
    assert worst > proved / 4


LAWS = {"two": [20, 12], "steps": [9, 4, 2, 1], "one": [0, 0, 16]}


@pytest.mark.parametrize("name", list(LAWS))
def test_samples_have_the_law_of_the_circuit(name, seed):
    circuit = Circuit.of_counts(LAWS[name])
    law, plan = circuit.probabilities, bucket_plan(circuit.inputs, circuit.outputs, 0.5)
    values = [
        implicit_correlated_sample(circuit, plan=plan, tape=Tape(f"{name} {seed}").branch(i)).value
        for i in range(150)
    ]
    shares = {x: values.count(x) / len(values) for x in (*law, None)}
    measured = sum(max(share - law.get(x, 0.0), 0.0) for x, share in shares.items())
    margin = math.sqrt((len(shares) * math.log(2) - math.log(LEVEL)) / (2 * len(values)))
    assert measured + margin <= plan.accuracy


def test_a_threshold_that_is_not_drawn_gives_another_law(seed, monkeypatch):
    circuit, plan = Circuit.of_counts([17, 15]), BucketPlan(5, 1, 5, slack=3, bits=5, rounds=600)

    def share_of_first() -> float:
        drawn = [
            implicit_correlated_sample(circuit, plan=plan, tape=Tape(seed).branch(i)).value
            for i in range(360)
        ]
        return drawn.count(0) / len(drawn)

    # Counts are exact where a bucket holds all strings: 17/32 up to the simulation.
    assert abs(share_of_first() - 17 / 32) < 5 * math.sqrt(0.25 / 360)
    rounds = _buckets._rounds
    # With a threshold of 1 both probabilities are rounded to powers of two, and 2/3 is expected.
    monkeypatch.setattr(
        _buckets, "_rounds", lambda *a: ((1.0, level, bucket) for _, level, bucket in rounds(*a))
    )
    assert abs(share_of_first() - 17 / 32) > 5 * math.sqrt(0.25 / 360)


def test_circuits_of_one_law_agree_though_they_compute_it_differently(rng, seed):
    first = affine(40, 6, rng)
    second = Circuit(lambda r: first.function(r ^ (r >> np.uint64(3)) ^ np.uint64(977)), 40, 6)
    plan, pairs = BucketPlan(40, 6, levels=10, slack=5, bits=10, rounds=1600), 20
    assert plan.round_error < 0.35
    mine, theirs = (
        [
            implicit_correlated_sample(
                circuit, plan=plan, tape=Tape(seed).branch(i), inverter=AffineInverter()
            ).value
            for i in range(pairs)
        ]
        for circuit in (first, second)
    )
    bound = plan.disagreement(0.0)
    differ = sum(a != b for a, b in zip(mine, theirs, strict=True))
    assert stats.binomtest(differ, pairs, bound, alternative="greater").pvalue > LEVEL
    # Each with a tape of its own: the same results, paired wrongly, differ more often than the bound.
    apart = sum(a != b for a, b in zip(mine[1:] + mine[:1], theirs, strict=True))
    assert stats.binomtest(apart, pairs, bound, alternative="greater").pvalue < 1e-2


@pytest.mark.parametrize("inputs", [40, 64])
def test_affine_circuits_of_many_inputs(inputs, rng, seed):
    circuit, inverter = affine(inputs, 2, rng), AffineInverter()
    values = [
        implicit_correlated_sample(circuit, accuracy=0.5, tape=Tape(seed).branch(i), inverter=inverter).value
        for i in range(16)
    ]
    counts = [values.count(x) for x in range(4)]
    # Uniform on four values but for the accuracy.
    for count in counts:
        assert stats.binomtest(count, 16, 0.25 + 0.5, alternative="greater").pvalue > LEVEL
    assert sum(count > 0 for count in counts) > 1
    wide = affine(inputs, 24, rng)
    sample = implicit_correlated_sample(wide, accuracy=0.5, tape=Tape(seed), inverter=inverter)
    assert sample.value is None or 0 <= sample.value < 2**24


@pytest.mark.parametrize("inputs", [40, pytest.param(64, marks=pytest.mark.slow)])
def test_clauses_of_many_inputs(inputs, seed):
    pytest.importorskip("pysat")
    gates = Gates(inputs)
    half = inputs // 2
    top = gates.add(gates.inputs[:half], gates.inputs[half:])[-3:]
    circuit, inverter = gates.circuit(top), SatInverter(gates.clauses, top)
    values = [
        implicit_correlated_sample(circuit, accuracy=0.5, tape=Tape(seed).branch(i), inverter=inverter).value
        for i in range(4)
    ]
    # The sum of two uniform numbers, in eighths of its range: triangular, the middle four have 3/4.
    middle = sum(value in (2, 3, 4, 5) for value in values)
    assert stats.binomtest(middle, 4, 0.75 - 0.5, alternative="less").pvalue > LEVEL
    assert all(value is None or 0 <= value < 8 for value in values)


def test_inverters_that_lie_are_not_believed(seed):
    circuit = Circuit.of_counts([20, 12])

    class Liar:
        def strings(self, circuit, bucket, most):
            return np.arange(4, dtype=np.uint64)

    class Shy:
        def strings(self, circuit, bucket, most):
            return np.zeros(0, dtype=np.uint64)

    plan = BucketPlan(5, 1, 5, slack=4, bits=5, rounds=100)
    for i in range(5):
        tape = Tape(seed).branch(i)
        told = implicit_correlated_sample(circuit, plan=plan, tape=tape, inverter=Liar())
        assert told.value in (0, None)  # strings 0 … 3 lead to 0: no other value is possible
        assert implicit_correlated_sample(circuit, plan=plan, tape=tape, inverter=Shy()).value is None


def test_plans_keep_their_accuracy_and_do_not_grow_with_the_strings():
    for inputs, outputs, accuracy in itertools.product((4, 16, 40, 64), (1, 8, 32), (0.05, 0.5, 0.9)):
        plan = bucket_plan(inputs, outputs, accuracy)
        assert plan.accuracy <= accuracy
        assert plan.levels <= min(inputs, outputs + 15)
    few, many = bucket_plan(40, 8, 0.5), bucket_plan(64, 8, 0.5)
    assert (few.rounds, few.strings) == (many.rounds, many.strings)
    assert BucketPlan(8, 4, 8, 4, 2, 100).round_error == 1.0
    # All strings of a small circuit fit into a bucket: counts are exact, and only collisions are left.
    assert BucketPlan(8, 4, 8, 4, 8, 100).round_error == pytest.approx(2.2 / 16)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Gates(65), "inputs"),
        (
            lambda: AffineInverter().strings(
                Circuit(lambda r: r & r >> np.uint64(1), 40, 40 - 8), Bucket((), 0, (), 0), 1
            ),
            "function",
        ),
        (
            lambda: AffineInverter().strings(
                Circuit(lambda r: (r & r >> np.uint64(1)) & np.uint64(3), 40, 2), Bucket((), 0, (), 0), 1
            ),
            "circuit",
        ),
        (lambda: Gates(2).both(1, 3), "right"),
        (lambda: Gates(2).circuit([]), "wires"),
        (lambda: Gates(2).circuit([4]), "wires"),
        (lambda: bucket_plan(40, 33, 0.5), "outputs"),
        (lambda: bucket_plan(40, 8, 0.001), "accuracy"),
        (lambda: BucketPlan(8, 4, 9, 4, 4, 100), "levels"),
        (lambda: BucketPlan(8, 4, 8, 4, 4, 100).disagreement(2), "total_variation"),
        (lambda: Circuit(lambda r: r, 40, 8).table, "inputs"),
        (
            lambda: implicit_correlated_sample(
                Circuit.of_counts([5, 3]), plan=BucketPlan(3, 2, 3, 4, 3, 9), tape=Tape("t")
            ),
            "plan",
        ),
        (
            lambda: implicit_correlated_sample(
                Circuit.of_counts([5, 3]),
                plan=bucket_plan(3, 1, 0.5),
                tape=Tape("t"),
                inverter=OneAtATime(lambda *a: None),
            ),
            "inverter",
        ),
        (
            lambda: implicit_correlated_sample(
                Circuit(lambda r: r & np.uint64(1), 40, 1), accuracy=0.5, tape=Tape("t")
            ),
            "inputs",
        ),
    ],
)
def test_bad_arguments_are_named(make, named):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == named


def bucket_shares(outputs, width, elements):
    """How often each set of elements is what a bucket holds, over all hashes and all places."""
    sets = Counter()
    for word in range(1 << (outputs + width - 1)):
        hashed = np.zeros(len(elements), dtype=np.int64)
        for place, row in enumerate(toeplitz_rows(word, outputs, width)):
            hashed |= (np.bitwise_count(elements & np.uint64(row)) & 1).astype(np.int64) << place
        sets.update(tuple(np.flatnonzero(hashed == value)) for value in set(hashed.tolist()))
    return {key: count / 2.0 ** (outputs + 2 * width - 1) for key, count in sets.items()}


@pytest.mark.parametrize("counts", [(4,), (3, 1), (2, 1, 1), (1, 1, 1, 1), (2, 2)])
def test_the_exact_law_of_a_round(counts):
    """All levels, thresholds, hashes and places, for circuits of two inputs whose counts are exact."""
    for slack in [1, 2, 3]:
        inputs, outputs = 2, 2
        plan = BucketPlan(inputs, outputs, levels=inputs, slack=slack, bits=inputs, rounds=1)
        elements = np.arange(len(counts), dtype=np.uint64)
        returned = np.zeros(len(counts))
        for level in range(inputs + 1):
            scaled = np.array(counts) / 2.0 ** (inputs - level)
            sets = bucket_shares(outputs, level + slack, elements)
            ends = sorted({1.0, 2.0, *(end for end in np.append(scaled, 2.0 * scaled) if 1.0 < end < 2.0)})
            for low, high in itertools.pairwise(ends):
                fits = (((low + high) / 4.0 < scaled) & (scaled <= (low + high) / 2.0)).tolist()
                for key, share in sets.items():
                    inside = [x for x in key if fits[x]]
                    if len(inside) == 1:
                        returned[inside[0]] += (high - low) * share / (inputs + 1)
        assert returned.sum() >= (1.0 - plan.round_error) / plan.mean_rounds
        law = np.array(counts) / 4.0
        assert 0.5 * np.abs(returned / returned.sum() - law).sum() <= plan.round_error
        # Without a drawn threshold elements would be returned in proportion to powers of two.
        assert np.allclose(returned / returned.sum(), law, atol=0.1)
