"""Recipes: the prior sums to one, the interval is the stated one, and the best of all recipes keeps to it."""

from __future__ import annotations

import bisect
import bz2
import itertools
import json
import lzma
import math
import zlib
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from holdfast import intervals
from holdfast.errors import InvalidArgument
from holdfast.planning import COMPRESSORS, recipe

LN2 = math.log(2.0)


def test_the_stated_example():
    """n = 10⁴, p̂ = .95, L = 50: −.026 / +.019 from the relative entropy, and a little less for 0/1 rows."""
    choices = round(math.exp(50))
    fractions = recipe(choices=choices, rows=10**4, score=0.95, binary=False)
    assert (round(0.95 - fractions.low, 3), round(fractions.high - 0.95, 3)) == (0.026, 0.019)
    counted = recipe(choices=choices, rows=10**4, score=0.95)
    assert fractions.low < counted.low < 0.95 < counted.high < fractions.high
    exact = intervals.clopper_pearson(9500, 10**4, 50 + math.log(20))
    assert (counted.low, counted.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@pytest.mark.parametrize(("low", "high", "side"), [(0.9, 0.95, "low"), (0.95, 0.98, "high")])
def test_the_ends_solve_the_inequality(low, high, side):
    """n·kl(p̂‖p) = L + ln(2/β) at both ends, found by other code."""
    leak = recipe(b"\x00" * 9, rows=5000, score=0.95, binary=False, compressor="none", confidence=0.9)
    end = getattr(leak, side)
    assert low < end < high
    divergence = 0.95 * math.log(0.95 / end) + 0.05 * math.log(0.05 / (1 - end))
    assert 5000 * divergence == pytest.approx(72 * LN2 + math.log(90) + math.log(2 / 0.1), rel=1e-9)


def test_the_price_of_bytes_lengths_and_compressors():
    content = bytes(range(40))
    named = recipe(content, rows=100, score=0.5, compressor="none")
    assert (named.file_bytes, named.length, named.compressor) == (40, 40, "none")
    assert named.nats == pytest.approx(320 * LN2 + math.log(40 * 41))
    best = recipe(content, rows=100, score=0.5)
    assert best.compressor == "none"  # nothing repeats
    assert best.nats == pytest.approx(named.nats + math.log(len(COMPRESSORS) - 1))
    assert recipe(choices=1, rows=100, score=0.5).nats == 0
    assert recipe(choices=10**400, rows=100, score=0.5).nats == pytest.approx(400 * math.log(10))


def decoded(name, stream):
    """The file a decoder makes of a stream, by other code; None for what is no complete stream."""
    lzma_filter = {"id": lzma.FILTER_LZMA1, "dict_size": 2**21, "lc": 3, "lp": 0, "pb": 0}
    decoders = {
        "deflate": lambda: zlib.decompressobj(-15),
        "bzip2": bz2.BZ2Decompressor,
        "lzma": lambda: lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[lzma_filter]),
    }
    if name == "none":
        return stream
    decoder = decoders[name]()
    try:
        content = decoder.decompress(stream)
    except (zlib.error, OSError, lzma.LZMAError):
        return None
    return content if decoder.eof and not decoder.unused_data else None


@pytest.mark.parametrize("name", COMPRESSORS[1:])
@pytest.mark.parametrize("content", [b"a", b"ab" * 500, bytes(range(256)) * 3, "Häuser und Bäume".encode()])
def test_a_length_is_that_of_a_stream_which_gives_the_file_back(name, content):
    compressed = {
        "none": content,
        "deflate": zlib.compress(content, 9, wbits=-15),
        "bzip2": bz2.compress(content),
    }
    leak = recipe(content, rows=100, score=0.5, compressor=name)
    assert leak.compressor == name
    if name in compressed:
        assert decoded(name, compressed[name]) == content
        assert leak.length <= len(compressed[name]) + 1
    best = recipe(content, rows=100, score=0.5)
    assert best.length <= leak.length


@lru_cache
def nats_of(length, compressor="best"):
    """The price of so many bytes, through the public door: bytes that no compressor makes shorter."""
    leak = recipe(bytes(range(length)), rows=2, score=0.5, compressor=compressor)
    assert (leak.length, leak.compressor) == (length, "none")
    return leak.nats


def prior_mass(price, lengths=(1, 2)):
    """What all pairs of a decoder and a stream of these lengths weigh together."""
    decoders = len(COMPRESSORS) - 1
    return sum(decoders * 256**length * math.exp(-price(length)) for length in lengths)


TWINS = {
    "forgets which compressor": lambda length: nats_of(length, "none"),
    "forgets the length": lambda length: 8 * length * LN2 + math.log(len(COMPRESSORS) - 1),
    "counts seven bits a byte": lambda length: nats_of(length) - length * LN2,
}


def test_krafts_sum_telescopes_to_one():
    """All streams of up to m bytes weigh 1 − 1/(m + 1), so all streams of any length weigh 1."""
    for most in (1, 2, 3, 8, 40):
        weight = prior_mass(nats_of, range(1, most + 1))
        assert weight == pytest.approx(1 - 1 / (most + 1), abs=1e-12)
        assert weight <= 1
    assert prior_mass(TWINS["forgets which compressor"]) > 1
    assert prior_mass(TWINS["forgets the length"]) > 1
    assert prior_mass(TWINS["counts seven bits a byte"]) > 1


def test_every_file_with_a_short_stream_weighs_at_most_one_together():
    """Every stream of one and two bytes goes through every real decoder. A file is priced by its shortest
    stream, so the files weigh no more than the streams."""
    prices: dict[bytes, float] = {}
    for name in COMPRESSORS[1:]:
        for length in (1, 2):
            for stream in map(bytes, itertools.product(range(256), repeat=length)):
                content = decoded(name, stream)
                if content is not None:
                    prices[content] = min(prices.get(content, math.inf), nats_of(length))
    assert len(prices) > 65_000
    assert sum(math.exp(-price) for price in prices.values()) <= 1


def failure(price, rows, beta, lengths=(1, 2)):
    """The chance that some recipe's interval leaves out the truth ½, exactly, if each of the decoders makes
    an independent coin-flipping recipe of every stream."""
    decoders = len(COMPRESSORS) - 1
    counts = np.arange(rows + 1)
    log_safe = 0.0
    for length in lengths:
        fails = counts[failing_counts(price(length), rows, beta)]
        one_fails = float(stats.binom.pmf(fails, rows, 0.5).sum())
        log_safe += decoders * 256**length * math.log1p(-one_fails)
    return -math.expm1(log_safe)


@lru_cache
def failing_counts(nats, rows, beta):
    """Which counts of right rows have an interval that leaves out ½; ``choices`` has the same nats."""
    choices = round(math.exp(nats))

    def fails(count):
        return not recipe(choices=choices, rows=rows, score=count / rows, confidence=1 - beta).vacuous

    edge = bisect.bisect_left(range(rows // 2), True, key=lambda count: not fails(count))
    assert fails(edge - 1)
    assert not fails(edge)
    counts = np.arange(rows + 1)
    return np.minimum(counts, rows - counts) < edge


ROWS, BETA = 768, 0.3


def test_coverage_of_the_best_of_all_recipes_exactly():
    assert failure(nats_of, ROWS, BETA) <= prior_mass(nats_of) * BETA
    for twin in TWINS.values():
        assert failure(twin, ROWS, BETA) > BETA


def test_coverage_against_an_attacker_who_tries_every_recipe(rng):
    """263,168 recipes of one or two bytes for four decoders, random labels; the attacker wins if any recipe's
    interval leaves out ½. Each wrong price lets the attacker win more often than promised."""
    runs, words = 250, ROWS // 64
    decoders = len(COMPRESSORS) - 1
    books = {
        length: rng.integers(0, 2**64, (decoders * 256**length, words), dtype=np.uint64) for length in (1, 2)
    }
    prices = {"right": nats_of, **TWINS}
    bad = {
        name: {length: failing_counts(price(length), ROWS, BETA) for length in books}
        for name, price in prices.items()
    }
    wins = dict.fromkeys(prices, 0)
    for _ in range(runs):
        labels = rng.integers(0, 2**64, words, dtype=np.uint64)
        counts = {
            length: np.bincount(np.bitwise_count(book ^ labels).sum(axis=1), minlength=ROWS + 1)
            for length, book in books.items()
        }
        for name, of_length in bad.items():
            wins[name] += any(counts[length][of_length[length]].any() for length in books)
    assert wins["right"] <= stats.binom.ppf(0.999, runs, BETA)
    assert wins["forgets which compressor"] > BETA * runs
    assert wins["forgets the length"] > BETA * runs
    for twin in TWINS:
        assert wins[twin] > wins["right"]


@settings(max_examples=60)
@given(
    st.integers(1, 10**7),
    st.floats(0, 1),
    st.integers(1, 10**30),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.booleans(),
)
def test_laws(rows, fraction, choices, confidence, binary):
    score = round(fraction * rows) / rows
    leak = recipe(choices=choices, rows=rows, score=score, confidence=confidence, binary=binary)
    assert 0 <= leak.low <= score <= leak.high <= 1
    longer = recipe(choices=2 * choices, rows=rows, score=score, confidence=confidence, binary=binary)
    assert longer.low <= leak.low
    assert leak.high <= longer.high
    assert longer.limits == leak.limits
    assert longer.nothing == leak.nothing
    for limit in leak.limits:
        assert (limit.nats is not None and leak.nats <= limit.nats) == (leak.half_width <= limit.half_width)
    if leak.nothing.nats is None:
        assert leak.vacuous
    else:
        assert leak.vacuous == (leak.nats > leak.nothing.nats)


def test_a_recipe_with_a_table_of_the_labels_proves_nothing():
    """All rows right takes n ln 2 nats to look up: one bit a row. Below that something was understood."""
    leak = recipe(choices=1, rows=10_000, score=1.0)
    assert leak.nothing.nats == pytest.approx(10_000 * LN2 - math.log(2 / 0.05), abs=0.01)
    assert recipe(choices=2**10_000, rows=10_000, score=1.0).vacuous
    assert not recipe(choices=2**9_990, rows=10_000, score=1.0).vacuous


def test_the_length_worth_writing_is_the_longest_one(rng):
    for compressor in ("none", "best"):
        limits = recipe(b"x", rows=5000, score=0.9, compressor=compressor).limits
        assert [limit.half_width for limit in limits] == [0.05, 0.1]
        for limit in limits:
            just, over = (rng.bytes(limit.length + more) for more in (0, 1))
            kept = recipe(just, rows=5000, score=0.9, compressor=compressor)
            assert (kept.length, kept.compressor) == (limit.length, "none")
            assert kept.half_width <= limit.half_width
            assert recipe(over, rows=5000, score=0.9, compressor=compressor).half_width > limit.half_width


def test_too_few_rows_for_any_recipe():
    leak = recipe(b"abc", rows=20, score=0.9)
    assert [limit.nats for limit in leak.limits] == [None, None]
    assert [limit.length for limit in leak.limits] == [0, 0]
    assert leak.vacuous


def test_a_rounded_score_is_any_that_rounds_to_it():
    leak = recipe(b"abc", rows=1234, score=0.9498, digits=4)
    exact = recipe(b"abc", rows=1234, score=1172 / 1234)
    assert (leak.low, leak.high) == (exact.low, exact.high)
    coarse = recipe(b"abc", rows=1234, score=0.95, digits=2)
    counts = [count for count in range(1235) if 0.945 <= count / 1234 <= 0.955]
    lowest, highest = (recipe(b"abc", rows=1234, score=count / 1234) for count in (counts[0], counts[-1]))
    assert (coarse.low, coarse.high) == (lowest.low, highest.high)
    wide = recipe(b"abc", rows=1234, score=0.95, digits=1, binary=False)
    assert wide.low == pytest.approx(recipe(b"abc", rows=1234, score=0.9, binary=False).low)


def test_a_file_and_its_content_are_the_same(tmp_path):
    path = tmp_path / "recipe.txt"
    path.write_bytes(b"depth = 3\n" * 30)
    leak = recipe(path, rows=1000, score=0.8)
    assert leak == recipe(str(path), rows=1000, score=0.8) == recipe(path.read_bytes(), rows=1000, score=0.8)
    assert leak.length < leak.file_bytes == 300
    assert any("seeds" in sentence for sentence in leak.assumptions)
    assert json.loads(json.dumps(leak.to_dict()))["limits"][0]["half_width"] == 0.05


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"file": b""}, "file"),
        ({"file": b"x" * (2**21 + 1)}, "file"),
        ({"file": 3}, "file"),
        ({"file": None}, "file"),
        ({"choices": 5}, "file"),
        ({"file": None, "choices": 0}, "choices"),
        ({"rows": 0}, "rows"),
        ({"rows": 2.5}, "rows"),
        ({"score": 1.5}, "score"),
        ({"score": math.nan}, "score"),
        ({"score": 0.955}, "score"),
        ({"score": 0.955, "digits": 3}, "score"),
        ({"confidence": 1.0}, "confidence"),
        ({"baseline": 0.0}, "baseline"),
        ({"compressor": "zip"}, "compressor"),
        ({"digits": -1}, "digits"),
    ],
)
def test_bad_arguments_are_named(arguments, name):
    with pytest.raises(InvalidArgument) as caught:
        recipe(**{"file": b"abc", "rows": 100, "score": 0.5, **arguments})
    assert caught.value.argument == name


def test_an_impossible_count_says_which_are_near():
    with pytest.raises(InvalidArgument, match=r"95/100 = 0\.95 and 96/100 = 0\.96.*binary=False"):
        recipe(b"abc", rows=100, score=0.955)
