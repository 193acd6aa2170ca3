"""Primes, symbols and units by gmpy2, and where their randomness comes from."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.replicable._tape import Tape

__all__ = ["Coins", "coins_argument", "factor", "index_below", "is_prime", "jacobi", "part", "prime", "unit"]

Coins = np.random.Generator | Tape

# 25 rounds of Miller and Rabin, after the Baillie–PSW test that GMP runs first.
_ROUNDS = 25
_FACTORED_AT_MOST = 2**40


@cache
def _gmpy2() -> Any:
    try:
        return importlib.import_module("gmpy2")
    except ImportError:
        raise MissingExtra("barriers", what="Number theory") from None


def coins_argument(coins: Any, *, of: str) -> Coins:
    """Return ``coins`` if numbers can be drawn from it."""
    if not isinstance(coins, (np.random.Generator, Tape)):
        raise InvalidArgument("coins", "a numpy Generator or a Tape", coins, of=of)
    return coins


def part(coins: Coins, name: str) -> Coins:
    """Coins for one use: a branch of a tape, whose draws are otherwise all the same; a generator goes on."""
    return coins.branch(name) if isinstance(coins, Tape) else coins


def index_below(size: int, coins: Coins) -> int:
    """One of 0 … ``size`` − 1, each exactly as likely."""
    return int(coins.integers(1, size)[0]) if isinstance(coins, Tape) else int(coins.integers(size))


def _numbers(bits: int, coins: Coins) -> Iterator[int]:
    """Uniform numbers of at most this many bits, one after another."""
    size, start = -(-bits // 64), 0
    while isinstance(coins, np.random.Generator) and bits < 64:
        yield int(coins.integers(1 << bits))
    while True:
        if isinstance(coins, Tape):
            words = coins.words(size, start=start)
        else:
            words = coins.integers(2**64, size=size, dtype=np.uint64)
        yield int.from_bytes(words.astype("<u8").tobytes(), "little") >> (-bits % 64)
        start += size


def unit(modulus: int, coins: Coins) -> int:
    """A uniform element of Z_N*, by rejection: exactly uniform."""
    return next(
        number
        for number in _numbers(modulus.bit_length(), coins)
        if 0 < number < modulus and math.gcd(number, modulus) == 1
    )


def prime(bits: int, coins: Coins) -> int:
    """A uniform prime among those of exactly this many bits."""
    high = 1 << (bits - 1)
    return next(high | low for low in _numbers(bits - 1, coins) if is_prime(high | low))


def is_prime(number: int) -> bool:
    """Whether GMP takes the number for a prime: an error has never been seen, and below 2⁶⁴ there is none."""
    return bool(_gmpy2().is_prime(number, _ROUNDS))


def jacobi(number: int, modulus: int) -> int:
    """The Jacobi symbol: 0 where the two share a factor, else ±1, computed without factoring."""
    return int(_gmpy2().jacobi(number, modulus))


def factor(modulus: int, *, of: str) -> tuple[int, int]:
    """The two primes of a toy modulus, by trial division; a real one is refused."""
    if modulus > _FACTORED_AT_MOST:
        raise InvalidArgument("key", "a toy, with a modulus of at most 2^40", modulus, of=of)
    odd = np.arange(3, math.isqrt(modulus) + 1, 2, dtype=np.int64)
    divisors = odd[modulus % odd == 0]
    if len(divisors) != 1 or not is_prime(int(divisors[0])) or not is_prime(modulus // int(divisors[0])):
        raise InvalidArgument("key", "a modulus that is a product of two distinct odd primes", modulus, of=of)
    return int(divisors[0]), modulus // int(divisors[0])
