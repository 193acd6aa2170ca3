"""Functions of the database that ibis does not offer as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["builtin", "exact"]


@cache
def builtin(name: str) -> Any:
    """``floor`` and ``round`` of a float that stay floats (ibis's own cast to an integer, which raises beyond
    64 bits), and ``quantile_disc`` at several fractions."""
    from ibis import udf

    def quantile_disc(values: Any, fractions: Any) -> Any: ...

    def rounding(value: Any) -> Any: ...

    if name == "quantile_disc":
        signature: Any = (("float64", "array<float64>"), "array<float64>")
        return udf.agg.builtin(quantile_disc, name=name, signature=signature)
    return udf.scalar.builtin(rounding, name=name, signature=(("float64",), "float64"))


def exact(value: float) -> Any:
    """A number as the database's double, to the last bit.

    Through text: a bare 0.1 is a decimal to most databases, and decimals lose digits when they are mixed.
    """
    import ibis

    return ibis.literal(repr(value)).cast("float64")
