"""Concentration: how far a statistic fixed in advance can be from its mean.

Every tail answers two questions: :meth:`~holdfast.tails.Tail.gamma`, how many nats of surprise a distance is,
and :meth:`~holdfast.tails.Tail.radius`, how far one must go for a given probability. Theory:
``docs/theory/concentration.md``.

Names that are imported ``as`` themselves are for other packages of Holdfast; users find them in
``holdfast.dependence``.
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
from holdfast.tails._tail import BestTail as BestTail
from holdfast.tails._tail import ReportRow as ReportRow
from holdfast.tails._tail import ShiftedTail as ShiftedTail
from holdfast.tails._tail import TailReport as TailReport
from holdfast.tails._tail import TailRow as TailRow
from holdfast.tails._tail import tail_report as tail_report

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
