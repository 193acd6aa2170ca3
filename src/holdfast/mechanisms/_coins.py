"""Where randomness comes from: the operating system, or, in simulations that say so, a seed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument

Words = npt.NDArray[np.uint64]


class Coins:
    """Independent fair bits: the operating system's, which cannot be replayed, or a generator's."""

    def __init__(self, generator: np.random.Generator | None = None) -> None:
        self.generator = generator

    @property
    def simulated(self) -> bool:
        """Whether the bits come from a seed, and so protect nothing."""
        return self.generator is not None

    def words(self, count: int) -> Words:
        """``count`` words of 64 fair bits."""
        raw = os.urandom(8 * count) if self.generator is None else self.generator.bytes(8 * count)
        return np.frombuffer(raw, dtype=np.uint64)

    def word(self) -> int:
        """64 fair bits as one number."""
        return int(self.words(1)[0])

    def indices(self, count: int, size: int) -> npt.NDArray[np.int64]:
        """At most ``count`` indices, exactly uniform on 0 … size − 1: words in the last, incomplete round of
        ``size`` are left out."""
        words = self.words(count)
        whole_rounds = np.uint64(2**64 // size * size - 1)
        return (words[words <= whole_rounds] % np.uint64(size)).astype(np.int64)


def choose_coins(simulation: bool, seed: Any, *, of: str) -> Coins:
    """The operating system's coins; seeded ones only where the caller says that this is a simulation."""
    if not isinstance(simulation, bool):
        raise InvalidArgument("simulation", "True or False", simulation, of=of)
    if not simulation:
        if seed is not None:
            raise InvalidArgument(
                "seed",
                "left out unless simulation=True: noise that can be replayed protects nothing",
                seed,
                of=of,
            )
        return Coins()
    if isinstance(seed, np.random.Generator):
        return Coins(seed)
    if seed is None:
        raise InvalidArgument("seed", "a whole number or a numpy Generator when simulation=True", seed, of=of)
    return Coins(np.random.default_rng(checks.whole(seed, "seed", at_least=0, of=of)))
