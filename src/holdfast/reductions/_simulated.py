"""Noise that a simulation draws from the tape, and what must be said about it."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.replicable._tape import Tape

__all__ = ["SIMULATED", "noise_seed", "simulation_argument"]

SIMULATED = "that nobody relies on this run: its noise is simulated from the tape and protects nothing"


def simulation_argument(simulation: Any, *, of: str) -> bool:
    """Return ``simulation`` if it is True or False."""
    if not isinstance(simulation, bool):
        raise InvalidArgument("simulation", "True or False", simulation, of=of)
    return simulation


def noise_seed(tape: Tape) -> int:
    """A seed for simulated noise, from a branch of its own."""
    return int(tape.branch("noise").words(1)[0])
