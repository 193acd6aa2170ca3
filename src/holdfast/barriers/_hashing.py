"""Pairwise independent hashing over GF(2): a random Toeplitz matrix and a random offset."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.barriers._circuits import Strings
from holdfast.errors import InvalidArgument

__all__ = ["ToeplitzHash", "products"]

_ONE = np.uint64(1)
_BYTE = 8


@dataclass(frozen=True, eq=False)
class ToeplitzHash:
    """Many hash functions at once, from ``inputs`` bits to ``outputs`` bits each (a number, or one for each
    function).

    Function i maps r to T_i r + b_i, arithmetic modulo 2: bit a of T_i r is the parity of the bits of r where
    ``seeds[i]``, moved down by a, has ones. A seed has inputs + outputs − 1 bits that count; higher ones
    are ignored.
    Guarantee: for uniform seeds and offsets, H(r) and H(r') are uniform and independent for every r ≠ r'.
    Assumes: inputs + outputs at most 65 and outputs at most 32 (checked).
    Reference: SIS Definition 4.12; Mansour, Nisan and Tiwari 1993.

    >>> import numpy as np
    >>> one = ToeplitzHash(np.array([0b1101], np.uint64), np.array([0b10], np.uint64), inputs=3, outputs=2)
    >>> one(np.arange(4, dtype=np.uint64)).tolist()
    [[2, 3, 0, 1]]
    """

    seeds: Strings
    offsets: Strings
    inputs: int
    outputs: int | npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        of, by = "ToeplitzHash", "SIS Definition 4.12"
        inputs = checks.whole(self.inputs, "inputs", at_most=64, of=of, by=by)
        widths = np.asarray(self.outputs)
        for width in (widths.min(), widths.max()):
            checks.whole(width, "outputs", at_least=0, at_most=min(32, 65 - inputs), of=of, by=by)
        for name in ("seeds", "offsets"):
            words = np.asarray(getattr(self, name))
            if words.dtype != np.uint64 or words.ndim != 1 or (widths.ndim and widths.shape != words.shape):
                raise InvalidArgument(name, "one 64-bit word for each function", words, of=of, reference=by)
        object.__setattr__(self, "offsets", self.offsets & self.mask)

    @cached_property
    def mask(self) -> Strings:
        """Ones in the places that an output has, for each function."""
        widths = np.broadcast_to(np.asarray(self.outputs, dtype=np.uint64), self.seeds.shape)
        return (_ONE << widths) - _ONE

    def __len__(self) -> int:
        return len(self.seeds)

    def __call__(self, strings: Strings) -> Strings:
        """Every function at every string: one row for each function."""
        if len(strings) <= 2**_BYTE:
            hashed = products(self.seeds[:, None], strings[None, :], self.inputs)
        else:
            hashed = _by_bytes(self.seeds, strings, self.inputs)
        return (hashed & self.mask[:, None]) ^ self.offsets[:, None]

    def at(self, which: npt.NDArray[np.intp], strings: Strings) -> Strings:
        """Function ``which[j]`` at ``strings[j]``."""
        hashed = products(self.seeds[which], strings, self.inputs)
        return (hashed & self.mask[which]) ^ self.offsets[which]

    def only(self, which: int) -> ToeplitzHash:
        """One of the functions, alone."""
        widths = np.broadcast_to(np.asarray(self.outputs), self.seeds.shape)
        place = slice(which, which + 1)
        return ToeplitzHash(self.seeds[place], self.offsets[place], self.inputs, int(widths[which]))


def products(seeds: Strings, strings: Strings, inputs: int) -> Strings:
    """T r for every pair that broadcasting forms; bits above a hash's width are left for its mask."""
    found = np.zeros(np.broadcast_shapes(seeds.shape, strings.shape), dtype=np.uint64)
    for place in range(inputs):
        bit = np.uint64(place)
        # 0 − 1 is all ones: the moved seed where the string has a one in this place, nothing elsewhere.
        found ^= (seeds >> bit) & (np.uint64(0) - (strings >> bit & _ONE))
    return found


def _by_bytes(seeds: Strings, strings: Strings, inputs: int) -> Strings:
    """``products`` of all seeds and all strings: a table for each byte, so that many strings cost little."""
    found = np.zeros((len(seeds), len(strings)), dtype=np.uint64)
    for start in range(0, inputs, _BYTE):
        bits = min(_BYTE, inputs - start)
        every = np.arange(1 << bits, dtype=np.uint64)
        table = products(seeds[:, None] >> np.uint64(start), every[None, :], bits)
        found ^= table[:, strings >> np.uint64(start) & np.uint64((1 << bits) - 1)]
    return found
