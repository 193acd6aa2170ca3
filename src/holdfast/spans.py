"""Steps of an answer that can be traced. A step is a name around a piece of work, and nothing else.

A tracer gets the name of a step and is entered around it. It is never given a question, an answer or a row.
Until somebody traces, the tracer is :class:`contextlib.nullcontext`, which does nothing.

>>> from holdfast import spans
>>> with spans.step("read"):
...     pass
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

__all__ = ["step", "use"]

_Tracer = Callable[[str], AbstractContextManager[object]]

step: _Tracer = nullcontext
"""The context of a step of this name. Always say ``spans.step``: the tracer may change."""


def use(tracer: _Tracer | None) -> None:
    """Trace every step of this process with ``tracer(name)``, a context manager; None ends it."""
    global step
    step = nullcontext if tracer is None else tracer
