"""What people ask: differences, ratios, lifts, spreads, slopes and correlations, each with an interval for a
query fixed in advance, from the sums of a few cells of rows.

Pure: cells in, intervals out. Rows are read by ``holdfast.engines``, and what of an interval is released is
decided by ``holdfast.guard``.
"""

from holdfast.statistics._cells import NO_AXIS, Axis, Cells, CellSums, Steps
from holdfast.statistics._evidence import Bets, Evidence, Tails
from holdfast.statistics._product import Crossing, Form
from holdfast.statistics._statistic import (
    AUC,
    Contrast,
    Correlation,
    Covariance,
    Lift,
    Mean,
    Ratio,
    RSquared,
    Slope,
    Statistic,
    Variance,
    WeightedMean,
)
from holdfast.statistics._units import UnitCells, crossing_of

__all__ = [
    "AUC",
    "NO_AXIS",
    "Axis",
    "Bets",
    "CellSums",
    "Cells",
    "Contrast",
    "Correlation",
    "Covariance",
    "Crossing",
    "Evidence",
    "Form",
    "Lift",
    "Mean",
    "RSquared",
    "Ratio",
    "Slope",
    "Statistic",
    "Steps",
    "Tails",
    "UnitCells",
    "Variance",
    "WeightedMean",
    "crossing_of",
]
