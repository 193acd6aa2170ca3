"""Where the values of a mean are clipped, and what they are multiplied by to become whole numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["SCALE_BITS", "Edges"]

SCALE_BITS = 24
"""A mean's values are rounded to multiples of (hi - lo) / 2**24, halves to even: each is off by at most
(hi - lo) · 2**-25 and a few units in the last place of a float, so the mean of the scaled values is within
(hi - lo) · 3.1e-8 of the mean of the clipped ones."""


class Edges(NamedTuple):
    """Numbers, or what stands for them in a statement.

    Values lie between ``lo`` and ``hi``; counted downwards from ``lo`` that is 0 to ``far``, and times
    ``slope`` it is 0 to 2**24. Up to ``low``, or down to ``near``, it is a quarter of a unit and 0 still: for
    more the product is far from leaving the range of floats, which some databases refuse to do.
    """

    lo: Any
    low: Any
    hi: Any
    near: Any
    far: Any
    slope: Any

    @classmethod
    def of(cls, lo: float, hi: float) -> Edges:
        width = hi - lo
        quarter = width * 2.0 ** -(SCALE_BITS + 2)
        return cls(lo, lo + quarter, hi, -quarter, -width, -(2.0**SCALE_BITS) / width)

    @classmethod
    def stand_ins(cls, mark: str) -> Edges:
        """Names in their places; ``mark`` tells several questions apart."""
        import ibis

        return cls(*(ibis.literal(f"@{name}{mark}").cast("float64") for name in cls._fields))

    def fill(self, template: str, mark: str) -> str:
        """A statement with these numbers in place of the names."""
        for name, value in self._asdict().items():
            template = template.replace(f"'@{name}{mark}'", f"'{value!r}'")
        return template
