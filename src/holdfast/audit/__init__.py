"""Attacks, empirical lower bounds and coverage: the guarantees, tried."""

from holdfast.audit import attacks

__all__ = ["attacks"]
