"""Waiting for a condition, however slow the machine is: no test waits for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], *, seconds: float = 120) -> T:
    """Wait until a condition holds, and return what it returned; fail if it never does."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"it did not happen within {seconds:g} seconds"
        time.sleep(0.005)
    return result


async def wait_on_loop(condition: Callable[[], T], *, seconds: float = 120) -> T:
    """The same in a coroutine: others go on meanwhile."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"it did not happen within {seconds:g} seconds"
        await asyncio.sleep(0.001)
    return result
