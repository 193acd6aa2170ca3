"""Pieces of conditions on one row, as text."""

from __future__ import annotations

from collections.abc import Sequence


def quoted(name: str) -> str:
    """A column's name, whatever it is."""
    return '"' + name.replace('"', '""') + '"'


def total(terms: Sequence[str]) -> str:
    """A sum that nests only as deep as the logarithm of its length."""
    if len(terms) <= 2:
        return " + ".join(terms) or "0"
    middle = len(terms) // 2
    return f"({total(terms[:middle])}) + ({total(terms[middle:])})"


def weighted(names: Sequence[str], weights: Sequence[float]) -> str:
    """Σ weight · column."""
    return total([f"{float(weight)!r} * {quoted(name)}" for name, weight in zip(names, weights, strict=True)])
