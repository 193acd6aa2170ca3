"""Concentration: how far a statistic fixed in advance can be from its mean.

Every tail answers two questions: :meth:`~holdfast.tails.Tail.gamma`, how many nats of surprise a distance is,
and :meth:`~holdfast.tails.Tail.radius`, how far one must go for a given probability. Theory:
``docs/theory/concentration.md``.
"""

from holdfast.tails._tail import (
    Bernstein,
    BoundedDifferences,
    Custom,
    Normal,
    SubExponential,
    SubGaussian,
    Tail,
    uniform_convergence,
    uniform_convergence_rows,
)

__all__ = [
    "Bernstein",
    "BoundedDifferences",
    "Custom",
    "Normal",
    "SubExponential",
    "SubGaussian",
    "Tail",
    "uniform_convergence",
    "uniform_convergence_rows",
]
