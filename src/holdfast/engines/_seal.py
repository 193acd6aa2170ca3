"""The seal on protected rows: once they are sealed, they can be read inside the clean room only.

The guard seals its protected rows when it is opened, and enters the room once for each question that was paid
for. A read from anywhere else is a fault of the program, and fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["require_unsealed", "unsealed"]

_inside: ContextVar[bool] = ContextVar("inside the clean room", default=False)


@contextmanager
def unsealed() -> Iterator[None]:
    """Let this thread read sealed rows until the block ends."""
    before = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(before)


def require_unsealed() -> None:
    """Refuse to read sealed rows from outside."""
    if not _inside.get():
        raise RuntimeError("Protected rows are sealed: they are read in the clean room of the guard only.")
