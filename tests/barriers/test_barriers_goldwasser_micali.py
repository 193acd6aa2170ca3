"""Goldwasser–Micali: every number of small Z_N by enumeration, and real primes."""

from __future__ import annotations

import math
import sys
from collections import Counter

import numpy as np
import pytest
from barriers_oracles import units
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from holdfast.barriers import PrivateKey, PublicKey, _goldwasser_micali, generate_key
from holdfast.barriers._goldwasser_micali import (
    _gmpy2,
    index_below,
    is_prime,
    jacobi,
    prime,
    prime_factors,
    unit,
)
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.replicable import Tape

# N = 15, 21 and 77, each with every non-residue that a key may hold.
TOYS = [
    PrivateKey(p, q, x)
    for p, q in ((3, 5), (3, 7), (7, 11))
    for x in range(1, p * q)
    if jacobi(x, p) == jacobi(x, q) == -1
]
ONE_OF_EACH = list({key.public.modulus: key for key in TOYS}.values())
LEVEL = 1e-6


def squares(modulus: int) -> set[int]:
    return {u * u % modulus for u in units(modulus)}


def law(monkeypatch, draw, modulus: int) -> Counter:
    """The exact law of ``draw``: it is called once with each unit in the place of the random one."""
    found = Counter()
    for u in units(modulus):
        monkeypatch.setattr(_goldwasser_micali, "unit", lambda *_, u=u: u)
        found[draw()] += 1
    return found


@pytest.mark.parametrize("key", TOYS, ids=lambda key: f"{key.public.modulus}-{key.non_residue}")
def test_the_table_of_residues_is_the_table_of_bits(key):
    modulus, x = key.public.modulus, key.non_residue
    zeros = squares(modulus)
    ones = {x * s % modulus for s in zeros}
    assert len(zeros) == len(ones) == key.class_size == len(units(modulus)) // 4
    for c in range(-modulus, 2 * modulus):
        bit = 0 if c in zeros else 1 if c in ones else None
        assert key.decrypt(c) == bit
        assert key.public.verify(c) == (bit is not None)


@pytest.mark.parametrize("key", TOYS, ids=lambda key: f"{key.public.modulus}-{key.non_residue}")
def test_encryptions_and_rerandomisations_are_exactly_uniform_on_their_class(key, monkeypatch, rng):
    public, modulus = key.public, key.public.modulus
    for bit in (0, 1):
        members = [c for c in range(modulus) if key.decrypt(c) == bit]
        uniform = Counter(dict.fromkeys(members, 4))
        assert law(monkeypatch, lambda bit=bit: public.encrypt(bit, rng), modulus) == uniform
        for c in members:
            assert law(monkeypatch, lambda c=c: public.rerandomise(c, rng), modulus) == uniform
        # Multiplying by a unit that is not squared leaves the class: the check sees it.
        assert Counter(u * members[0] % modulus for u in units(modulus)) != uniform


@pytest.mark.parametrize("key", ONE_OF_EACH, ids=lambda key: key.public.modulus)
def test_with_a_unit_as_the_only_test_two_ciphertexts_of_one_have_disjoint_rerandomisations(key):
    # Definition 4.7 as printed: V(c) = 1 iff gcd(c, N) = 1, and every unit that is no square decrypts to 1.
    modulus = key.public.modulus
    printed_ones = sorted(set(units(modulus)) - squares(modulus))
    laws = {c: Counter(u * u * c % modulus for u in units(modulus)) for c in printed_ones}
    honest, stray = key.non_residue, next(c for c in printed_ones if not key.public.verify(c))
    assert set(laws[honest]).isdisjoint(laws[stray])
    assert len({frozenset(law) for law in laws.values()}) == 3
    # Verified ones have one law.
    assert len({frozenset(laws[c]) for c in printed_ones if key.public.verify(c)}) == 1


@pytest.mark.parametrize("kind", ["generator", "tape"])
@pytest.mark.parametrize("modulus", [15, 77])
def test_units_are_uniform(kind, modulus, seed):
    draws, rng, tape = 6000, np.random.default_rng(seed), Tape(seed)
    coins = (lambda i: rng) if kind == "generator" else tape.branch
    found = Counter(unit(modulus, coins(i)) for i in range(draws))
    assert set(found) == set(units(modulus))
    assert stats.chisquare(list(found.values())).pvalue > LEVEL


def test_units_of_many_words_fill_their_range(seed):
    modulus = 2**200 - 2**190 + 1
    drawn = [unit(modulus, Tape(seed).branch(i)) / modulus for i in range(2000)]
    assert stats.kstest(drawn, "uniform").pvalue > LEVEL


def test_indices_are_uniform_from_both_kinds_of_coins(seed):
    rng, tape = np.random.default_rng(seed), Tape(seed)
    for coins in (lambda i: rng, tape.branch):
        found = Counter(index_below(7, coins(i)) for i in range(4000))
        assert set(found) == set(range(7))
        assert stats.chisquare(list(found.values())).pvalue > LEVEL


def test_primes_are_uniform_among_those_of_their_length(rng):
    of_six_bits = [37, 41, 43, 47, 53, 59, 61]
    found = Counter(prime(6, rng) for _ in range(3000))
    assert sorted(found) == of_six_bits
    assert stats.chisquare([found[p] for p in of_six_bits]).pvalue > LEVEL


@pytest.mark.parametrize("bits", [3, 4, 16, 64, 512])
def test_keys_of_every_size(bits, seed):
    key = generate_key(bits, np.random.default_rng(seed))
    assert key.p != key.q
    for factor_ in (key.p, key.q):
        assert is_prime(factor_)
        assert factor_.bit_length() == bits
    rng = np.random.default_rng(seed + 1)
    for bit in (0, 1, 1, 0):
        c = key.public.encrypt(bit, rng)
        again = key.public.rerandomise(c, rng)
        assert key.decrypt(c) == key.decrypt(again) == bit
        assert key.public.verify(c)
        assert key.public.verify(again)


def test_a_tape_gives_everyone_the_same_key():
    assert generate_key(128, Tape("study-7")) == generate_key(128, Tape("study-7"))
    assert generate_key(128, Tape("study-7")) != generate_key(128, Tape("study-8"))


def test_a_real_key_takes_two_thousand_bits(seed):
    key = generate_key(1024, np.random.default_rng(seed))
    assert key.public.modulus.bit_length() in (2047, 2048)
    assert key.decrypt(key.public.encrypt(1, np.random.default_rng(seed))) == 1


@given(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.integers(0, 2**32))
def test_products_encrypt_the_parity(bits, seed):
    key, rng = PrivateKey(10007, 10009, 7), np.random.default_rng(seed)
    product = math.prod(key.public.encrypt(bit, rng) for bit in bits) % key.public.modulus
    assert key.decrypt(product) == sum(bits) % 2


@given(st.integers(2, 20), st.integers(2, 20), st.integers(0, 2**32))
def test_toy_moduli_are_factored(first, second, seed):
    rng = np.random.default_rng(seed)
    p, q = prime(first, rng), prime(second, rng)
    if p == q or 2 in (p, q):
        return
    assert prime_factors(p * q, of="test") == (min(p, q), max(p, q))


def test_the_primes_are_not_printed():
    key = PrivateKey(10007, 10009, 7)
    assert "10007" not in repr(key)
    assert set(key.to_dict()) == {"public"}
    assert not key.public.verify("5")
    assert not key.public.verify(True)
    assert not key.public.verify(None)


def test_without_gmpy2_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gmpy2", None)
    _gmpy2.cache_clear()
    with pytest.raises(MissingExtra, match=r"holdfast-guard\[barriers\]"):
        generate_key(16, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: PrivateKey(9, 11, 2), "p"),
        (lambda: PrivateKey(7, 561, 6), "q"),  # a Carmichael number
        (lambda: PrivateKey(7, 7, 3), "q"),
        (lambda: PrivateKey(2, 7, 3), "p"),
        (lambda: PrivateKey(7, 11, 2), "non_residue"),
        (lambda: PrivateKey(7, 11, 4), "non_residue"),
        (lambda: PrivateKey(7, 11, 83), "non_residue"),
        (lambda: PublicKey(76, 5), "modulus"),
        (lambda: PublicKey(math.nan, 5), "modulus"),
        (lambda: PublicKey(77, 7), "non_residue"),
        (lambda: PublicKey(77, 6).encrypt(2, Tape("t")), "bit"),
        (lambda: PublicKey(77, 6).encrypt(True, Tape("t")), "bit"),
        (lambda: PublicKey(77, 6).encrypt(1, 7), "coins"),
        (lambda: PublicKey(77, 6).rerandomise(2, Tape("t")), "ciphertext"),
        (lambda: generate_key(2, Tape("t")), "bits"),
        (lambda: generate_key(math.inf, Tape("t")), "bits"),
        (lambda: prime_factors(2**61 - 1, of="test"), "key"),
        (lambda: prime_factors(3 * 5 * 7, of="test"), "key"),
        (lambda: prime_factors(10007, of="test"), "key"),
    ],
)
def test_bad_arguments_are_named(make, named):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.argument == named
