"""Functions of the database that ibis does not offer as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["builtin", "exact"]


@cache
def builtin(name: str, *types: str, gives: str = "float64") -> Any:
    """A function of the database by its own name: ``builtin("floor")`` is the floor of a float that stays a
    float, where ibis's own is cast to an integer, which raises beyond 64 bits."""
    from ibis import udf

    def one(first: Any) -> Any: ...

    def two(first: Any, second: Any) -> Any: ...

    def three(first: Any, second: Any, third: Any) -> Any: ...

    types = types or ("float64",)
    function = (one, two, three)[len(types) - 1]
    return udf.scalar.builtin(function, name=name, signature=(types, gives))


def exact(value: float) -> Any:
    """A number as the database's double, to the last bit.

    Through text: a bare 0.1 is a decimal to most databases, and decimals lose digits when they are mixed.
    """
    import ibis

    return ibis.literal(repr(value)).cast("float64")
