"""Toeplitz hashing by going through all its functions, and circuits as laws."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.barriers import Circuit, ToeplitzHash
from holdfast.errors import InvalidArgument


def words(values) -> np.ndarray:
    return np.array(list(values), dtype=np.uint64)


def family(inputs: int, outputs: int) -> ToeplitzHash:
    """All functions: every seed of inputs + outputs − 1 bits with every offset."""
    seeds, offsets = zip(
        *itertools.product(range(1 << (inputs + outputs - 1)), range(1 << outputs)), strict=True
    )
    return ToeplitzHash(words(seeds), words(offsets), inputs, outputs)


def is_pairwise_independent(hashed: np.ndarray, outputs: int) -> bool:
    """Whether every two columns take every pair of values equally often; one row is one function."""
    every = len(hashed) / 4**outputs
    for first, second in itertools.combinations(range(hashed.shape[1]), 2):
        counts = Counter(zip(hashed[:, first].tolist(), hashed[:, second].tolist(), strict=True))
        if len(counts) != 4**outputs or set(counts.values()) != {every}:
            return False
    return True


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (2, 1), (2, 3), (3, 2), (3, 3), (4, 2), (5, 1)])
def test_the_family_is_pairwise_independent(inputs, outputs):
    functions = family(inputs, outputs)
    hashed = functions(words(range(1 << inputs)))
    assert is_pairwise_independent(hashed, outputs)
    # Without the offset 0 goes to 0; with one row of the matrix in all places the bits repeat each other.
    unmoved = hashed ^ functions.offsets[:, None]
    assert not is_pairwise_independent(unmoved, outputs)
    if outputs > 1:
        repeated = (unmoved & np.uint64(1)) * np.uint64(2**outputs - 1) ^ functions.offsets[:, None]
        assert not is_pairwise_independent(repeated, outputs)


@given(
    st.integers(1, 32),
    st.integers(0, 32),
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)), min_size=1, max_size=4),
    st.data(),
)
def test_every_bit_is_a_parity(inputs, outputs, drawn, data):
    seeds, offsets = zip(*drawn, strict=True)
    functions = ToeplitzHash(words(seeds), words(offsets), inputs, outputs)
    strings = data.draw(st.lists(st.integers(0, 2**inputs - 1), min_size=1, max_size=5))
    hashed = functions(words(strings))
    for i, seed in enumerate(seeds):
        for j, r in enumerate(strings):
            expected = sum(((seed >> a & r & (2**inputs - 1)).bit_count() & 1) << a for a in range(outputs))
            assert int(hashed[i, j]) == expected ^ (offsets[i] & (2**outputs - 1))
    which = np.arange(len(seeds)) % len(seeds)
    column = words([strings[0]] * len(seeds))
    assert functions.at(which, column).tolist() == hashed[:, 0].tolist()
    assert functions.only(0)(words(strings)).tolist() == hashed[:1].tolist()


@pytest.mark.parametrize("inputs", [9, 13, 16, 20])
def test_many_strings_are_hashed_as_few_are(inputs, rng):
    functions = ToeplitzHash(
        *rng.integers(2**64, size=(2, 6), dtype=np.uint64), inputs, np.array([1, 4, 9, 16, 3, 28])
    )
    strings = rng.integers(2**inputs, size=700, dtype=np.uint64)
    few = np.concatenate([functions(part) for part in np.array_split(strings, 7)], axis=1)
    assert (functions(strings) == few).all()


def test_a_whole_matrix_collides_more_often_than_claim_4_20_prints():
    # 16 elements at their level, k = 8: the claim bounds "H₁ has a collision among them" by 2^(4 − 2k). Two
    # elements collide with probability 2^−(ℓ+k), not its square.
    level, slack = 4, 8
    seeds = words(range(1 << (4 + level + slack - 1)))
    functions = ToeplitzHash(seeds, np.zeros_like(seeds), 4, level + slack)
    hashed = functions(words(range(1, 16)))
    collides = Fraction(int((hashed == 0).any(axis=1).sum()), len(seeds))
    assert collides == 8 * Fraction(1, 2 ** (2 * slack - 4))
    # What the algorithm needs is true: that two of them meet at the value u that was drawn.
    pairs = math.comb(16, 2)
    assert Fraction(pairs, 4 ** (level + slack)) < Fraction(1, 2 ** (2 * slack - 4))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"inputs": 0}, "inputs"),
        ({"inputs": 65}, "inputs"),
        ({"outputs": 33}, "outputs"),
        ({"inputs": 50, "outputs": 16}, "outputs"),
        ({"outputs": np.array([1, 2])}, "seeds"),
        ({"seeds": np.array([1.0])}, "seeds"),
        ({"offsets": np.array([[1]], dtype=np.uint64)}, "offsets"),
    ],
)
def test_bad_hashes_are_named(change, named):
    with pytest.raises(InvalidArgument) as caught:
        ToeplitzHash(**{"seeds": words([1]), "offsets": words([1]), "inputs": 4, "outputs": 4, **change})
    assert caught.value.argument == named


@given(st.integers(0, 2**32))
def test_total_variation_is_the_largest_difference_of_events(seed):
    rng, size = np.random.default_rng(seed), 32
    first = Circuit(lambda r: r % np.uint64(5), 5, 3)
    table = rng.integers(5, size=size).astype(np.uint64)
    second = Circuit(lambda r: table[r], 5, 3)
    p, q = first.probabilities, second.probabilities
    events = [set(e) for n in range(6) for e in itertools.combinations(range(5), n)]
    largest = max(sum(p.get(x, 0) - q.get(x, 0) for x in event) for event in events)
    assert first.total_variation(second) == second.total_variation(first) == largest
    assert first.total_variation(first) == 0.0


def test_counts_become_a_law_and_preimages():
    circuit = Circuit.of_counts([5, 0, 2, 1])
    assert circuit.probabilities == {0: 5 / 8, 2: 2 / 8, 3: 1 / 8}
    assert (circuit.inputs, circuit.outputs) == (3, 2)
    assert circuit.preimages(np.array([1, 2])).tolist() == [5, 6, 7]
    shuffled = Circuit(lambda r: circuit.table[r ^ np.uint64(5)], 3, 2)
    assert shuffled.total_variation(circuit) == 0.0
    assert sorted(shuffled.preimages(np.array([0])).tolist()) == [1, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Circuit(3, 2, 2), "function"),
        (lambda: Circuit(lambda r: r, 65, 2), "inputs"),
        (lambda: Circuit(lambda r: r, 2, 0), "outputs"),
        (lambda: Circuit(lambda r: r, 2, math.nan), "outputs"),
        (lambda: Circuit(lambda r: r, 3, 2).table, "function"),
        (lambda: Circuit(lambda r: r[:2], 3, 3).table, "function"),
        (lambda: Circuit(lambda r: r / 2, 3, 3).table, "function"),
        (lambda: Circuit(lambda r: -r.astype(int), 3, 3).table, "function"),
        (lambda: Circuit.of_counts([3, 2]), "counts"),
        (lambda: Circuit.of_counts([1]), "counts"),
        (lambda: Circuit.of_counts([-1, 3]), "counts[0]"),
        (lambda: Circuit.of_counts([1, 1]).total_variation(3), "circuit"),
    ],
)
def test_bad_circuits_are_named(make, named):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == named
