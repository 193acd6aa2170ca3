"""Attacks, what published scores leaked, empirical bounds and coverage: the guarantees, tried."""

from holdfast.audit import attacks
from holdfast.planning import leak

__all__ = ["attacks", "leak"]
