"""Steps of asking that may be traced: a name around a piece of work, and nothing else.

Without a tracer a step costs one look at a variable. A tracer gets the name of the step and is entered
around it; it is never given a question, an answer or a row.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["span", "traced", "use"]

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_Tracer = Callable[[str], AbstractContextManager[None]]

_tracer: _Tracer | None = None


def use(tracer: _Tracer | None) -> None:
    """Trace every step of this process with ``tracer(name)``, a context manager; None ends it."""
    global _tracer
    _tracer = tracer


def span(name: str) -> AbstractContextManager[None]:
    """A step of this name.

    Args:
        name: The name of the span.

    >>> with span("read"):
    ...     pass
    """
    return nullcontext() if _tracer is None else _tracer(name)


def traced(name: str) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """Make every call of a function a step of this name.

    Args:
        name: what the step is called.
    """

    def decorate(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        @wraps(function)
        def call(*arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
            if _tracer is None:
                return function(*arguments, **options)
            with _tracer(name):
                return function(*arguments, **options)

        return call

    return decorate
