"""The tape of an estimator, whose parameters should be plain values."""

from __future__ import annotations

from holdfast.replicable._tape import Tape, tape_argument

__all__ = ["as_tape"]


def as_tape(tape: Tape | str, *, of: str) -> Tape:
    """A tape as it is, or the tape with this seed."""
    return Tape(tape) if isinstance(tape, str) else tape_argument(tape, of=of)
