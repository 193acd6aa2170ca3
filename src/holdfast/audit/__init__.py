"""Tests of the guarantees: attacks, what published scores leaked, empirical bounds and coverage."""

from holdfast.audit import attacks
from holdfast.audit._coverage import coverage, prior
from holdfast.audit._finding import Finding, Report
from holdfast.audit._indistinguishability import indistinguishability
from holdfast.audit._stability import replicability, stability
from holdfast.planning import leak

__all__ = [
    "Finding",
    "Report",
    "attacks",
    "coverage",
    "indistinguishability",
    "leak",
    "prior",
    "replicability",
    "stability",
]
