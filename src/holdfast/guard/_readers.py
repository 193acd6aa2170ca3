"""Whether the process that reserved a question still reads it, and what may have ended it."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_HERE = hashlib.sha256(platform.node().encode()).hexdigest()[:12]
_reading: set[str] = set()


@contextmanager
def reader() -> Iterator[str]:
    """A name for one reading, known to be alive until the block ends however it ends."""
    name = f"{_HERE}:{os.getpid()}:{secrets.token_hex(4)}"
    _reading.add(name)
    try:
        yield name
    finally:
        _reading.discard(name)


def may_be_alive(name: str) -> bool:
    """Whether a reading may still go on: on another machine nobody can tell, so it may."""
    host, process, _ = name.split(":")
    if host != _HERE:
        return True
    if int(process) == os.getpid():
        return name in _reading
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # Someone else's process: it is there.
    return True


_LOOK_EVERY = 1.0  # seconds
_looked: tuple[float, list[str | int] | None] = (-math.inf, None)


def memory_kills() -> list[str | int] | None:
    """What :func:`_count_kills` says, or said a second ago: then a question counts as hit by more, which only
    makes it a failure sooner."""
    global _looked
    at, kills = _looked
    if time.monotonic() - at >= _LOOK_EVERY:
        kills = _count_kills()
        _looked = time.monotonic(), kills
    return kills


def _count_kills() -> list[str | int] | None:
    """Which start of this machine it is, and how many processes the machine has ended since for want of
    memory; None where it does not say."""
    started = _started()
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except (OSError, ValueError):
        return None
    _, name, rest = counters.partition("\noom_kill ")
    return [started, int(rest.split(maxsplit=1)[0])] if name and started else None


def killed_for_memory(before: list[str | int] | None) -> bool:
    """Whether the machine has ended a process for want of memory since :func:`memory_kills` said
    ``before``. A machine that was started again since cannot tell."""
    now = _count_kills()
    return before is not None and now is not None and before[0] == now[0] and before != now


@cache
def _started() -> str:
    """A name for this start of the machine; an empty one where there is none."""
    try:
        said = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return ""
    return hashlib.sha256(said).hexdigest()[:12]
