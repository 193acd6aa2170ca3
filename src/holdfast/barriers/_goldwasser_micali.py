"""Goldwasser and Micali's cryptosystem: a bit is hidden in whether a number is a square modulo N = pq.

For study, not for secrecy: keys and ciphertexts come from a simulation's generator, and nothing takes
constant time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast import checks
from holdfast.barriers._number_theory import Coins, coins_argument, is_prime, jacobi, part, prime, unit
from holdfast.errors import InvalidArgument
from holdfast.records import Record

__all__ = ["PrivateKey", "PublicKey", "bit_argument", "generate_key", "key_argument"]

_BY = "SIS Definition 4.7"


@dataclass(frozen=True, repr=False)
class PublicKey(Record):
    """What everyone may know: ``modulus`` N = pq and ``non_residue`` x, a square modulo neither p nor q.

    Guarantee: encryptions of 0 are the squares in Z_N*, encryptions of 1 are x times a square. Both are
    told from everything else by their Jacobi symbol +1, in public, and ``rerandomise`` is uniform on the
    class it is in.
    Assumes: an honest pair (not checkable from outside; ``PrivateKey.public`` gives one). For study, not
    for secrecy.
    Reference: SIS Definitions 4.2 and 4.7; with the verification of Definition 4.7 as printed, a unit
    alone, Lemma 4.8 is false: Z_N* has two more classes, which no encryption reaches.

    >>> key = PublicKey(modulus=77, non_residue=6)
    >>> key.verify(25), key.verify(2), key.verify(7)
    (True, False, False)
    """

    modulus: int
    non_residue: int

    def __post_init__(self) -> None:
        modulus = checks.whole(self.modulus, "modulus", at_least=15, huge=True, of="PublicKey", by=_BY)
        if modulus % 2 == 0:
            raise InvalidArgument("modulus", "odd", modulus, of="PublicKey", reference=_BY)
        x = checks.whole(
            self.non_residue, "non_residue", at_most=modulus - 1, huge=True, of="PublicKey", by=_BY
        )
        if jacobi(x, modulus) != 1:
            raise InvalidArgument("non_residue", "of Jacobi symbol 1", x, of="PublicKey", reference=_BY)
        object.__setattr__(self, "modulus", modulus)
        object.__setattr__(self, "non_residue", x)

    def verify(self, ciphertext: Any) -> bool:
        """Whether this is an encryption of some bit; anything may be asked, so that any row may be."""
        return (
            isinstance(ciphertext, int)
            and not isinstance(ciphertext, bool)
            and 0 < ciphertext < self.modulus
            and jacobi(ciphertext, self.modulus) == 1
        )

    def encrypt(self, bit: Any, coins: Coins) -> int:
        """A uniform encryption of ``bit``: u² x^bit mod N. One tape gives one u; take a branch for each."""
        bit = bit_argument(bit, of="PublicKey.encrypt")
        u = unit(self.modulus, coins_argument(coins, of="PublicKey.encrypt"))
        return u * u * (self.non_residue if bit else 1) % self.modulus

    def rerandomise(self, ciphertext: Any, coins: Coins) -> int:
        """A uniform encryption of the same bit, whatever it is: u² c mod N."""
        of = "PublicKey.rerandomise"
        if not self.verify(ciphertext):
            raise InvalidArgument("ciphertext", "one that the key verifies", ciphertext, of=of, reference=_BY)
        u = unit(self.modulus, coins_argument(coins, of=of))
        return u * u * int(ciphertext) % self.modulus


@dataclass(frozen=True, repr=False)
class PrivateKey(Record):
    """The primes behind a public key; ``repr`` and ``to_dict`` leave them out.

    Guarantee: ``decrypt`` gives the bit of everything that the public key verifies, and None for everything
    else.
    Assumes: distinct odd primes and a number that is a square modulo neither (checked). For study, not for
    secrecy.
    Reference: SIS Definition 4.7.

    >>> key = PrivateKey(7, 11, 6)
    >>> key.decrypt(25), key.decrypt(6), key.decrypt(2)
    (0, 1, None)
    >>> key
    PrivateKey(public=PublicKey(modulus=77, non_residue=6))
    """

    p: int = field(repr=False)
    q: int = field(repr=False)
    non_residue: int = field(repr=False)
    public: PublicKey = field(init=False, compare=False)

    def __post_init__(self) -> None:
        of = "PrivateKey"
        p, q = (
            checks.whole(getattr(self, name), name, at_least=3, huge=True, of=of, by=_BY)
            for name in ("p", "q")
        )
        for name, value in (("p", p), ("q", q)):
            if not is_prime(value):
                raise InvalidArgument(name, "an odd prime", value, of=of, reference=_BY)
        if p == q:
            raise InvalidArgument("q", "another prime than p", q, of=of, reference=_BY)
        x = checks.whole(self.non_residue, "non_residue", at_most=p * q - 1, huge=True, of=of, by=_BY)
        if not jacobi(x, p) == jacobi(x, q) == -1:
            raise InvalidArgument("non_residue", "a square modulo neither prime", x, of=of, reference=_BY)
        for name, value in (("p", p), ("q", q), ("non_residue", x)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "public", PublicKey(p * q, x))

    @property
    def class_size(self) -> int:
        """How many encryptions each bit has: a quarter of the units."""
        return (self.p - 1) * (self.q - 1) // 4

    def decrypt(self, ciphertext: Any) -> int | None:
        """The bit, or None where no encryption gives this number."""
        if not self.public.verify(ciphertext):
            return None
        return 0 if jacobi(int(ciphertext), self.p) == 1 else 1


def generate_key(bits: Any, coins: Coins) -> PrivateKey:
    """Two distinct random primes of ``bits`` bits each, and a random number that is a square modulo neither.

    Guarantee: primes uniform among those of this length, tested by GMP (Baillie–PSW and Miller–Rabin).
    Assumes: coins that nobody else knows; those of a simulation are not. For study, not for secrecy.
    Reference: SIS Definition 4.7.

    >>> import numpy as np
    >>> key = generate_key(64, np.random.default_rng(7))
    >>> key.decrypt(key.public.encrypt(1, np.random.default_rng(8)))
    1
    """
    of = "generate_key"
    bits = checks.whole(bits, "bits", at_least=3, at_most=8192, of=of, by=_BY)
    coins = coins_argument(coins, of=of)
    p = prime(bits, part(coins, "p"))
    q, attempt = p, 0
    while q == p:
        q, attempt = prime(bits, part(coins, f"q {attempt}")), attempt + 1
    x, attempt = 1, 0
    while not jacobi(x, p) == jacobi(x, q) == -1:
        x, attempt = unit(p * q, part(coins, f"x {attempt}")), attempt + 1
    return PrivateKey(p, q, x)


def bit_argument(bit: Any, *, of: str) -> int:
    """Return ``bit`` if it is 0 or 1."""
    return checks.whole(bit, "bit", at_least=0, at_most=1, of=of, by=_BY)


def key_argument(key: Any, *, of: str) -> PublicKey:
    """The public key, given either key of a pair."""
    if isinstance(key, PrivateKey):
        return key.public
    if not isinstance(key, PublicKey):
        raise InvalidArgument("key", "a PublicKey or a PrivateKey", key, of=of, reference=_BY)
    return key
