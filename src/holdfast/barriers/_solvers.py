"""Two solvers to set the adversary on: one that cheats by factoring a toy key, and the private algorithm."""

from __future__ import annotations

from typing import Any

from holdfast import checks, rounding
from holdfast.barriers._goldwasser_micali import PrivateKey, key_argument
from holdfast.barriers._number_theory import factor
from holdfast.barriers._rerandomised import dp_rand_enc
from holdfast.replicable._tape import Tape
from holdfast.stability import Replicability

__all__ = ["FactoringSolver", "PrivateSolver"]


class FactoringSolver:
    """A replicable solver that no honest one can be: it factors the modulus, so the key must be a toy.

    It decrypts the first row and encrypts the bit again with coins from the tape alone. ``slip`` and
    ``wobble`` spoil it in the two ways that Lemma 4.5 counts: with probability 2·``slip`` the tape orders
    an encryption of the tape's own bit, whatever the rows say (wrong with probability ``slip``); otherwise,
    with probability ``wobble`` over the first row, the first row itself comes back (right, and different
    for other rows).
    Guarantee: ``guarantee`` = Replicability((1 − 2·slip)(1 − (1 − wobble)²)), ``failure`` = slip. The
    adversary's advantage is 1 − 2β − ρ up to 4/φ(N), the chance of meeting a ciphertext twice: Lemma 4.5 is
    tight.
    Assumes: rows that encrypt one bit; a modulus of at most 2^40 (checked).
    Reference: SIS Lemma 4.5; ours.

    >>> from holdfast.barriers import PrivateKey
    >>> key = PrivateKey(7, 11, 6)
    >>> solve = FactoringSolver(key.public)
    >>> solve([6, 13], Tape("t")) == solve([24, 6], Tape("t"))
    True
    """

    def __init__(self, key: Any, *, slip: Any = 0.0, wobble: Any = 0.0) -> None:
        of = "FactoringSolver"
        self.key = key_argument(key, of=of)
        self._private = PrivateKey(*factor(self.key.modulus, of=of), self.key.non_residue)
        self.slip = checks.real(slip, "slip", "[0, 0.5]", of=of, by="SIS Lemma 4.5")
        self.wobble = checks.real(wobble, "wobble", "[0, 1]", of=of, by="SIS Lemma 4.5")

    @property
    def guarantee(self) -> Replicability:
        """How often two fresh samples may give different answers."""
        rho = (1.0 - 2.0 * self.slip) * self.wobble * (2.0 - self.wobble)
        return Replicability(rounding.probability(rho))

    @property
    def failure(self) -> float:
        """How often the answer encrypts the wrong bit."""
        return self.slip

    def __call__(self, rows: list[int], tape: Tape) -> int:
        bit = self._private.decrypt(rows[0])
        if tape.branch("slip").uniforms(1)[0] < 2.0 * self.slip:
            bit = int(tape.branch("slip").integers(1, 2)[0])
        elif tape.branch("wobble").named_uniforms([str(rows[0])])[0] < self.wobble:
            return rows[0]
        return self.key.encrypt(bit, tape.branch("answer"))


class PrivateSolver:
    """``dp_rand_enc`` with its coins from the shared tape: efficient, right, and of no use to the adversary.

    Guarantee: on m rows with padding k the adversary's advantage is m/(m + 2k) · 4/φ(N) exactly, the chance
    that two samples show the same ciphertext in the same place: nothing for real keys.
    Assumes: nothing further. The answers are not private, because the tape is shared.
    Reference: SIS Algorithm 4 inside Algorithm 5; ours.

    >>> from holdfast.barriers import PrivateKey
    >>> key = PrivateKey(7, 11, 6)
    >>> solve = PrivateSolver(key.public, epsilon=0.5)
    >>> solve([25] * 40, Tape("t")) == solve([36] * 40, Tape("t"))
    False
    """

    def __init__(self, key: Any, *, epsilon: float) -> None:
        of = "PrivateSolver"
        self.key = key_argument(key, of=of)
        self.epsilon = checks.real(epsilon, "epsilon", "[1e-6, inf)", of=of, by="SIS Lemma 4.4")

    def __call__(self, rows: list[int], tape: Tape) -> int:
        return dp_rand_enc(rows, self.key, epsilon=self.epsilon, coins=tape).value
