"""The tape: golden values that never change, purity, independence of branches, and exact laws."""

from __future__ import annotations

import hashlib
import math
import pickle
from copy import deepcopy

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument
from holdfast.replicable import (
    Tape,
    cantor_position,
    cantor_words,
    modular_position,
    modular_words,
    tape_argument,
)
from holdfast.replicable._tape import logarithm, sine_and_cosine_of_turn

KINDS = ("words", "uniforms", "exponentials", "normals", "laplaces")


def _philox(counter, key):
    """Philox4x64-10 in plain integers (Salmon et al. 2011)."""
    c, (k0, k1), mask = list(counter), key, 2**64 - 1
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(b >> 64) ^ c[1] ^ k0, b & mask, (a >> 64) ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c


def test_the_reference_philox_gives_the_published_vectors():
    assert _philox([0] * 4, [0] * 2) == [
        0x16554D9ECA36314C,
        0xDB20FE9D672D0FDC,
        0xD7E772CEE186176B,
        0x7E68B68AEC7BA23B,
    ]
    assert _philox([2**64 - 1] * 4, [2**64 - 1] * 2) == [
        0x87B092C3013FE90B,
        0x438C3C67BE8D0224,
        0x9CC7D7C69CD777B6,
        0xA09CAEBF594F0BA0,
    ]


def test_words_are_philox_blocks_keyed_by_the_hash_of_seed_branches_and_kind():
    message = b""
    for tag, text in ((b"v", "holdfast-1"), (b"s", "étude/7"), (b"b", "a"), (b"b", "bc"), (b"k", "words")):
        data = text.encode()
        message += tag + len(data).to_bytes(8, "big") + data
    digest = hashlib.sha256(message).digest()
    k0, k1, c2, c3 = (int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8))
    expected = [word for block in (1, 2, 3) for word in _philox([block, 0, c2, c3], [k0, k1])]
    tape = Tape("étude/7").branch("a").branch("bc")
    assert tape.words(12).tolist() == expected
    assert tape.words(5, start=6).tolist() == expected[6:11]


# These never change: a result printed with a tape must be reproducible for as long as the paper is read.
def test_golden_values_never_change():
    tape = Tape("study-7").branch("step 1")
    assert tape.words(3).tolist() == [13389362001755180334, 3250913728892232915, 2894954934522568442]
    hexes = {kind: [x.hex() for x in getattr(tape, kind)(3).tolist()] for kind in KINDS[1:]}
    assert hexes == {
        "uniforms": ["0x1.cbfdd34e13d0bp-1", "0x1.0dc9c618691a4p-3", "0x1.645ba0473fbafp-1"],
        "exponentials": ["0x1.a276b457efa31p-2", "0x1.2d2a44bac8e38p-4", "0x1.ef0adf49550b3p+0"],
        "normals": ["-0x1.d20914047f236p-3", "-0x1.cfd4db0347b17p-2", "0x1.0f6b760be5aa6p+0"],
        "laplaces": ["0x1.6deb63b2e33bbp-3", "0x1.1f3818823f68fp-1", "-0x1.3830a9e1b816fp+1"],
    }
    assert tape.integers(4, 10).tolist() == [6, 4, 6, 8]
    assert tape.integers(2, 2**63 - 5).tolist() == [7982670625867527746, 8175544036040895114]
    assert tape.permutation(6).tolist() == [0, 1, 3, 4, 5, 2]
    assert tape.named_words(["a", "b"]).tolist() == [18433402031303430424, 5166784451919896511]
    assert tape.named_exponentials(["a"])[0].hex() == "0x1.ecc234b081970p-3"
    assert tape.named_uniforms(["a"])[0].hex() == "0x1.71e9364ebebf4p-3"
    many = b"".join(np.ascontiguousarray(getattr(Tape(1), kind)(10_000)).tobytes() for kind in KINDS)
    assert (
        hashlib.sha256(many).hexdigest() == "f903f7794013a94f33a3e2acb4ecffa39217c10fb42780754e0dd57a6eff2706"
    )


@pytest.mark.parametrize("kind", KINDS)
@given(short=st.integers(0, 40), more=st.integers(0, 40))
def test_a_longer_draw_begins_with_the_shorter_and_drawing_moves_nothing(kind, short, more):
    tape = Tape("prefix")
    draw = getattr(tape, kind)
    first = draw(short).copy()
    assert np.array_equal(draw(short + more)[:short], first)
    assert np.array_equal(draw(short), first)


@given(count=st.integers(0, 30), below=st.sampled_from([1, 2, 7, 2**62 + 1, 2**63 - 1, 2**63]))
def test_integers_are_in_range_and_extend_though_some_are_drawn_again(count, below):
    tape = Tape("integers")
    longer = tape.integers(count + 9, below)
    assert np.array_equal(longer[:count], tape.integers(count, below))
    assert all(0 <= int(value) < below for value in longer)


@given(start=st.integers(0, 100), count=st.integers(0, 30))
def test_a_draw_from_a_later_position_is_the_end_of_the_whole_draw(start, count):
    tape = Tape("positions")
    for kind in ("words", "uniforms", "exponentials"):
        whole = getattr(tape, kind)(start + count)
        assert np.array_equal(getattr(tape, kind)(count, start=start), whole[start:])


def test_kinds_branches_and_seeds_share_no_words():
    tapes = [
        Tape("a"),
        Tape("b"),
        Tape("a").branch("b"),
        Tape("b").branch("a"),
        Tape("a").branch("b").branch("c"),
    ]
    tapes += [Tape("a").branch("bc"), Tape("ab").branch("c"), Tape("a/b"), Tape("a%2Fb")]
    seen = {word for tape in tapes for word in tape.words(64).tolist()}
    assert len(seen) == 64 * len(tapes)
    kinds = [Tape("a").words(8) * 2.0**-64, Tape("a").uniforms(8), 1 - np.exp(-Tape("a").exponentials(8))]
    kinds.append(1 - np.exp(-np.abs(Tape("a").laplaces(8))))
    assert len(set(np.round(np.concatenate(kinds), 9).tolist())) == 32


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(seed=NAMES, path=st.lists(NAMES, max_size=3))
def test_the_text_form_names_the_tape(seed, path):
    tape = Tape(seed)
    for name in path:
        tape = tape.branch(name)
    text = str(tape)
    assert text.startswith("tape:holdfast-1:")
    assert "\n" not in text
    assert text.count("/") == len(path)
    for twin in (Tape.parse(text), pickle.loads(pickle.dumps(tape)), deepcopy(tape)):
        assert twin == tape
        assert hash(twin) == hash(tape)
        assert str(twin) == text
    assert eval(repr(tape), {"Tape": Tape}) == tape


def test_spellings_that_print_alike_are_the_same_tape_and_numbers_are_texts():
    assert Tape("e\u0301tude") == Tape("\u00e9tude")
    assert Tape(7) == Tape("7") == Tape(np.int64(7))
    assert Tape("a").branch(3) == Tape("a").branch("3")
    assert Tape("a") != Tape("b")
    assert Tape("a") != "a"
    assert str(Tape("50%/day").branch("a\tb")) == "tape:holdfast-1:50%25%2Fday/a%09b"


def test_a_tape_does_not_change():
    tape = Tape("fixed")
    with pytest.raises(AttributeError, match="branch"):
        tape._seed = "other"
    with pytest.raises(AttributeError, match="branch"):
        del tape._seed
    assert tape.seed == "fixed"
    assert tape.path == ()


@pytest.mark.parametrize("seed", [None, True, 1.5, "", b"x", "\ud800", math.nan])
def test_a_bad_seed_or_branch_is_refused_by_name(seed):
    with pytest.raises(InvalidArgument, match="'seed' argument of Tape"):
        Tape(seed)
    with pytest.raises(InvalidArgument, match=r"'name' argument of Tape\.branch"):
        Tape("a").branch(seed)


@pytest.mark.parametrize(
    "text", ["study-7", "tape:holdfast-2:a", "tape:holdfast-1:", "tape:holdfast-1:a//b", 7, None]
)
def test_a_text_that_is_no_tape_is_refused(text):
    with pytest.raises(InvalidArgument, match="'text' argument"):
        Tape.parse(text)


def test_bad_counts_and_bad_names_are_refused():
    tape = Tape("a")
    for bad in (-1, 1.5, math.nan, "3", None):
        for kind in KINDS:
            with pytest.raises(InvalidArgument, match="'count'"):
                getattr(tape, kind)(bad)
    for bad in (0, -1, 2**63 + 1, math.inf):
        with pytest.raises(InvalidArgument, match="'below'"):
            tape.integers(3, bad)
    for names in ("abc", [1], 3):
        with pytest.raises(InvalidArgument, match="'names'"):
            tape.named_words(names)
    with pytest.raises(InvalidArgument, match="'tape' argument of mean"):
        tape_argument("study-7", of="mean")


def test_named_draws_depend_on_the_name_alone():
    tape = Tape("names")
    assert np.array_equal(tape.named_uniforms(["a", "b", "c"])[::-1], tape.named_uniforms(["c", "b", "a"]))
    assert tape.named_words([]).shape == (0,)
    assert len(set(tape.named_words(map(str, range(1000))).tolist())) == 1000


def _ulps(computed, exact):
    return max(
        abs(float((mpmath.mpf(float(c)) - e) / float(np.spacing(abs(c)))))
        for c, e in zip(computed, exact, strict=True)
    )


def test_the_elementary_functions_are_within_three_units_in_the_last_place(rng):
    u = np.concatenate(
        [rng.random(400), 1 - 1e-9 * rng.random(200), 1e-12 * rng.random(200), [2.0**-53, 1 - 2.0**-53]]
    )
    with mpmath.workprec(160):
        assert _ulps(logarithm(u), [mpmath.log(mpmath.mpf(float(x))) for x in u]) <= 3
        turn = Tape(int(rng.integers(1000))).uniforms(500)
        sine, cosine = sine_and_cosine_of_turn(turn)
        assert _ulps(sine, [mpmath.sin(2 * mpmath.pi * mpmath.mpf(float(t))) for t in turn]) <= 3
        assert _ulps(cosine, [mpmath.cos(2 * mpmath.pi * mpmath.mpf(float(t))) for t in turn]) <= 3


LAWS = {
    "uniforms": lambda x: x,
    "exponentials": lambda x: -np.expm1(-x),
    "normals": lambda x: np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x]),
    "laplaces": lambda x: np.where(x < 0, 0.5 * np.exp(-np.abs(x)), 1 - 0.5 * np.exp(-np.abs(x))),
}


def _kolmogorov(uniform):
    """The p-value of Kolmogorov and Smirnov, and that of the correlation between neighbours."""
    from scipy import stats

    neighbours = abs(np.corrcoef(uniform[:-1], uniform[1:])[0, 1]) * math.sqrt(len(uniform) - 1)
    return stats.kstest(uniform, "uniform").pvalue, 2 * stats.norm.sf(neighbours)


@pytest.mark.parametrize("kind", LAWS)
def test_draws_have_their_law(kind, seed):
    draws = getattr(Tape(seed).branch("law"), kind)(20_000)
    assert min(_kolmogorov(LAWS[kind](draws))) > 1e-6
    assert min(_kolmogorov(LAWS[kind](1.15 * draws + 0.02) % 1)) < 1e-6  # a law wrong by 15 % must fail


def test_integers_and_permutations_are_uniform(seed):
    from scipy import stats

    tape = Tape(seed)
    assert stats.chisquare(np.bincount(tape.integers(60_000, 6), minlength=6)).pvalue > 1e-6
    orders = [tuple(tape.branch(i).permutation(3)) for i in range(3000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-6


def test_places_by_turns_are_each_used_once_and_within_the_papers_bound():
    calls, longest = 5, 7
    places = [modular_position(call, draw, calls) for call in range(calls) for draw in range(longest)]
    assert sorted(places) == list(range(calls * longest))
    tape = Tape("one string")
    string = tape.words(calls * longest)
    assert modular_words(tape, 3, longest, calls).tolist() == string[3::calls].tolist()
    # Draws of another length change nothing; without turns they would.
    assert modular_words(tape, 3, 2, calls).tolist() == string[3::calls][:2].tolist() != string[3:5].tolist()
    with pytest.raises(InvalidArgument, match="call"):
        modular_position(5, 0, 5)


def test_cantors_places_are_each_used_once_and_within_the_papers_bound():
    calls, longest = 30, 40
    places = {cantor_position(call, draw) for call in range(calls) for draw in range(longest)}
    assert len(places) == calls * longest
    assert max(places) < (calls + longest) ** 2 / 2 + (calls + longest) / 2
    whole = {cantor_position(call, diagonal - call) for diagonal in range(50) for call in range(diagonal + 1)}
    assert whole == set(range(50 * 51 // 2))


def test_words_by_cantors_pairing_do_not_depend_on_what_other_calls_draw():
    tape = Tape("one string")
    string = tape.words(500)
    for call in range(5):
        words = cantor_words(tape, call, 20)
        assert words.tolist() == [int(string[cantor_position(call, draw)]) for draw in range(20)]
        assert np.array_equal(cantor_words(tape, call, 7), words[:7])
    for bad in (-1, 1.5, math.nan, 2**20):
        with pytest.raises(InvalidArgument, match="'call'"):
            cantor_words(tape, bad, 1)
