"""Which tables count as copies: independent ones never, by exact laws and by simulation; copies always."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import special, stats

from holdfast.guard import _earlier
from holdfast.guard._earlier import MISTAKEN, Sketch, commonest_share, identifies_table, numbered_rows_repeat


def digests(values):
    """Digests as a keyed hash would give them: one random number for each value."""
    return (np.asarray(values, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)


def p_value(hits, tries, chance):
    return float(special.betainc(hits, tries - hits + 1, chance)) if hits else 1.0


def _law_of_pairs(rates, most=40):
    """The exact joint law of (rows that straddle, rows that occur twice in one table) among values that occur
    exactly twice in both tables together; Poisson sizes, one pair of rates for each value."""
    law = {(0, 0): 1.0}
    for here, there in rates:
        both = stats.poisson.pmf(1, here) * stats.poisson.pmf(1, there)
        one = stats.poisson.pmf(2, here) * stats.poisson.pmf(0, there)
        one += stats.poisson.pmf(0, here) * stats.poisson.pmf(2, there)
        later = {}
        for (hits, misses), chance in law.items():
            for more, weight in (((1, 0), both), ((0, 1), one), ((0, 0), 1 - both - one)):
                place = hits + more[0], misses + more[1]
                later[place] = later.get(place, 0.0) + chance * weight
        law = later
    return law


RATES = {
    "one law": [(1.0, 1.0)] * 12,
    "larger tables": [(2.0, 2.0)] * 12,
    "tables of other sizes": [(0.2, 1.8)] * 12,
    "other laws": [(0.1 * i, 1.5 - 0.1 * i) for i in range(1, 13)],
    "a few common rows": [(5.0, 3.0)] * 2 + [(0.3, 0.4)] * 10,
}


def _worst(law, chance):
    """How much likelier than it says a small p-value is, at the worst threshold and given the worst number of
    tries."""
    worst = 0.0
    for tries in {sum(place) for place in law} - {0}:
        given = sorted((p_value(place[0], tries, chance), law[place]) for place in law if sum(place) == tries)
        total, whole = 0.0, sum(weight for _, weight in given)
        for value, weight in given:
            total += weight / whole
            worst = max(worst, total / value)
    return worst


@pytest.mark.parametrize("case", RATES)
def test_rows_that_occur_twice_straddle_at_most_half_of_the_time_whatever_the_laws(case):
    assert _worst(_law_of_pairs(RATES[case]), 0.5) <= 1 + 1e-9


def test_a_chance_that_is_a_little_too_small_is_caught():
    """The twin, by exact law."""
    assert _worst(_law_of_pairs(RATES["one law"]), 0.48) > 1.2


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0, 2.0, 5.0])
def test_no_row_occurs_exactly_once_more_often_than_in_one_of_e_tables(rate):
    law = {(hits, 10 - hits): float(stats.binom.pmf(hits, 10, rate * math.exp(-rate))) for hits in range(11)}
    assert _worst(law, _earlier._UNIQUE) <= 1 + 1e-9
    if rate == 1.0:
        assert _worst(law, 0.33) > 1.2


@pytest.mark.parametrize("rows", [1, 2, 10, 1_000, 10**6])
def test_fixed_sizes_make_nothing_likelier_than_by_e_times_the_root(rows):
    assert 1 / stats.poisson.pmf(rows, rows) <= math.e * math.sqrt(rows) * (1 + 1e-9)


def _straddling(old, new):
    """How many values straddle, and how many occur twice in one table, counted value by value."""
    pairs = list(zip(old, new, strict=True))
    return pairs.count((1, 1)), pairs.count((2, 0)) + pairs.count((0, 2))


def test_all_tables_of_five_rows_stay_within_what_fixed_sizes_can_do():
    """Every pair of tables of five rows over four values, under several laws, by enumeration: no p-value is
    likelier than it says by more than the factor for fixed sizes."""
    rows, values = 5, 4
    counts = sorted(
        {tuple(np.bincount(table, minlength=values)) for table in product(range(values), repeat=rows)}
    )
    laws = ([0.25] * 4, [0.4, 0.3, 0.2, 0.1], [0.7, 0.1, 0.1, 0.1])
    chances = [stats.multinomial.pmf(counts, rows, law) for law in laws]
    for here, there in product(chances, chances):
        law = {}
        for (old, weight), (new, other) in product(
            zip(counts, here, strict=True), zip(counts, there, strict=True)
        ):
            place = _straddling(old, new)
            law[place] = law.get(place, 0.0) + weight * other
        every = sorted((p_value(hits, hits + misses, 0.5), weight) for (hits, misses), weight in law.items())
        total = 0.0
        for value, weight in every:
            total += weight
            assert total <= value * math.e**2 * rows


def _tables(rng, kind, rows):
    """Two independent tables of a kind."""
    draw = {
        "unlike": lambda size: rng.integers(0, 2**62, size),
        "as many values as rows": lambda size: rng.integers(0, rows, size),
        "few values": lambda size: rng.integers(0, 7, size),
        "a long tail": lambda size: rng.zipf(1.5, size).clip(max=2**40),
    }[kind]
    return draw(rows), draw(int(rows * rng.uniform(0.2, 5)))


KINDS = ("unlike", "as many values as rows", "few values", "a long tail")


@pytest.mark.parametrize("kind", KINDS)
def test_independent_tables_are_accepted(rng, kind):
    for _ in range(40):
        old, new = (Sketch.of(digests(table)) for table in _tables(rng, kind, int(rng.integers(50, 3_000))))
        assert not old.occurs_in(new)
        assert not old.sampled(200).occurs_in(new)


def test_tables_of_other_laws_that_share_few_rows_are_accepted(rng):
    """One law draws each of 1,000 rows about once, the other has them all among many more."""
    for _ in range(20):
        old, new = rng.integers(0, 1_000, 1_000), rng.integers(0, 3_000, 9_000)
        assert not Sketch.of(digests(old)).occurs_in(Sketch.of(digests(new)))


def test_a_looser_limit_would_refuse_honest_tables(rng, monkeypatch):
    """The twin: what is allowed is what honest tables need. As many values as rows straddle in half of the
    pairs."""
    monkeypatch.setattr(_earlier, "MISTAKEN", 1e6)
    old, new = (Sketch.of(digests(rng.integers(0, 1_000, 1_000))) for _ in range(2))
    assert old.occurs_in(new)


@pytest.mark.parametrize("share", [0.12, 0.3, 1.0])
@pytest.mark.parametrize("kind", ["unlike", "a long tail"])
def test_copies_are_found_from_a_tenth_of_the_smaller_table_on(rng, kind, share):
    rows = 3_000
    unlike = rng.integers(0, 2**62, rows)
    tail = _tables(rng, kind, rows)[0]
    old = np.where(rng.random(rows) < 0.9, unlike, tail)
    copied = rng.permutation(old)[: int(share * rows)]
    new = np.concatenate([copied, rng.integers(0, 2**62, rows - len(copied))])
    assert Sketch.of(digests(old)).occurs_in(Sketch.of(digests(new)))
    assert Sketch.of(digests(new)).occurs_in(Sketch.of(digests(old)))


@pytest.mark.parametrize(
    ("old_rows", "copied", "fresh"), [(10**5, 5_000, 0), (10**5, 10**5, 10**6), (10**5, 10_000, 10_000)]
)
def test_a_sample_finds_copies_in_large_tables(rng, old_rows, copied, fresh):
    old = rng.integers(0, 2**62, old_rows)
    new = np.concatenate([rng.permutation(old)[:copied], rng.integers(0, 2**62, fresh)])
    kept = Sketch.of(digests(old)).sampled()
    assert abs(len(kept.digests) - 8_192) < 500
    assert kept.occurs_in(Sketch.of(digests(new)))


def test_a_sample_is_chosen_by_the_number_of_rows_alone(rng):
    for values in (rng.integers(0, 2**62, 50_000), rng.integers(0, 30_000, 50_000)):
        assert Sketch.of(digests(values)).sampled().below == 2**64 * 8_192 // 50_000 - 1
    few = Sketch.of(digests(np.arange(100)))
    assert few.sampled() is few


def test_numbered_tables_are_compared_by_what_their_numbers_do_not_say(rng):
    rows = 500
    values = [rng.integers(0, 2, rows) for _ in range(2)]
    number = np.arange(rows)
    tables = [Sketch.of(digests(2 * number + value)) for value in values]
    shares = tuple(commonest_share(digests(value)) for value in values)
    assert not numbered_rows_repeat(*tables, shares)
    assert numbered_rows_repeat(tables[0], tables[0], (shares[0],) * 2)
    assert not numbered_rows_repeat(tables[0], tables[0], (0.999, 0.999))


def test_the_order_of_rows_identifies_a_table_only_if_chance_hardly_ever_gives_it(rng):
    assert identifies_table(digests(rng.integers(0, 2, 60)))
    assert not identifies_table(digests(rng.integers(0, 2, 25)))
    assert not identifies_table(digests(np.zeros(10_000)))
    rare = np.arange(1_000) % 500 == 0
    assert not identifies_table(digests(rare))
    # Exactly: no law gives this sequence more than exp(−rows·entropy), and its own gives that.
    counts = np.array([30, 20, 10])
    sequence = np.repeat(np.arange(3), counts)
    own = math.exp(float((counts * np.log(counts / 60)).sum()))
    for law in ([0.5, 1 / 3, 1 / 6], [0.4, 0.4, 0.2], [0.98, 0.01, 0.01]):
        assert math.prod(np.array(law)[sequence]) <= own * (1 + 1e-9)
    assert identifies_table(digests(sequence)) == (own <= MISTAKEN)
