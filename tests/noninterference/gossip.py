"""Code of other people that tells what it sees: each function here lets its values out in one way.

None of them means harm. An encoder warns of a category that it does not know, a solver prints its progress, a
parser quotes what it could not parse.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Told = list[Any]


class Cry(BaseException):
    """An error that ``except Exception`` does not catch."""


class _Last:
    """Tells when it is thrown away."""

    def __init__(self, values: Told) -> None:
        self.values = values

    def __del__(self) -> None:
        print("last seen", self.values, file=sys.stderr)


class _Failing:
    def __init__(self, values: Told) -> None:
        self.values = values

    def __del__(self) -> None:
        raise ValueError(f"seen {self.values}")


class _Reluctant:
    """No number, and says why."""

    def __init__(self, values: Told) -> None:
        self.values = values

    def __float__(self) -> float:
        raise TypeError(f"not a number: {self.values}")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(f"not an array: {self.values}")


def _log(values: Told) -> None:
    logger = logging.getLogger("somebody.elses.model")
    logger.debug("seen %s", values)
    logger.warning("unknown categories %s", values)
    logger.error("seen", exc_info=ValueError(values))


def _log_to_a_stream(values: Told) -> None:
    logger = logging.getLogger("somebody.elses.stream")
    handler = logging.StreamHandler(sys.stdout)
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("seen %s", values)
    finally:
        logger.removeHandler(handler)


def _in_a_thread(values: Told) -> None:
    thread = threading.Thread(target=print, args=("seen", values))
    thread.start()
    thread.join()


def _failing_in_a_thread(values: Told) -> None:
    thread = threading.Thread(target=_raise, args=(ValueError(values),))
    thread.start()
    thread.join()


def _print_a_traceback(values: Told) -> None:
    try:
        raise ValueError(values)
    except ValueError:
        traceback.print_exc()


def _overflow(values: Told) -> None:
    """A warning of numpy's that only some values lead to."""
    lengths = np.array([float(len(str(value))) for value in values])
    np.exp(lengths * 100)


def _raise(error: BaseException) -> None:
    raise error


def _raise_with_notes(values: Told) -> None:
    error = ValueError("no")
    error.add_note(f"seen {values}")
    raise error


def _raise_from_another(values: Told) -> None:
    try:
        raise KeyError(values)
    except KeyError as error:
        raise RuntimeError("no") from error


TALKATIVE: dict[str, Callable[[Told], Any]] = {
    "prints": lambda values: print("seen", values),
    "prints to stderr": lambda values: print("seen", values, file=sys.stderr),
    "prints to the first stdout": lambda values: print("seen", values, file=sys.__stdout__, flush=True),
    "prints a traceback": _print_a_traceback,
    "prints in a thread": _in_a_thread,
    "fails in a thread": _failing_in_a_thread,
    "prints when collected": lambda values: _Last(values) and None,
    "fails when collected": lambda values: _Failing(values) and None,
    "logs": _log,
    "logs to a stream": _log_to_a_stream,
    "warns": lambda values: warnings.warn(f"unknown categories {values}", stacklevel=1),
    "warns as its caller": lambda values: warnings.warn(f"seen {values}", UserWarning, stacklevel=2),
    "warns of old age": lambda values: warnings.warn(f"seen {values}", DeprecationWarning, stacklevel=1),
    "lets numpy warn": _overflow,
}
"""What returns a value all the same."""

PAST_PYTHON: dict[str, Callable[[Told], Any]] = {
    "writes to descriptor 1": lambda values: os.write(1, f"seen {values}".encode()) and None,
    "writes to descriptor 2": lambda values: os.write(2, f"seen {values}".encode()) and None,
    "starts a process": lambda values: subprocess.run(["echo", str(values)], check=True) and None,
}
"""What writes past Python's own streams."""

FAILING: dict[str, Callable[[Told], Any]] = {
    "raises": lambda values: _raise(ValueError(f"cannot convert {values}")),
    "raises a key": lambda values: _raise(KeyError(str(values))),
    "raises with notes": _raise_with_notes,
    "raises from another": _raise_from_another,
    "raises a group": lambda values: _raise(ExceptionGroup(str(values), [ValueError(values)])),
    "raises a warning": lambda values: _raise(UserWarning(values)),
    "raises StopIteration": lambda values: _raise(StopIteration(values)),
    "raises out of reach": lambda values: _raise(Cry(values)),
    "leaves": lambda values: sys.exit(str(values)),
    "interrupts": lambda values: _raise(KeyboardInterrupt(values)),
    "returns no number": _Reluctant,
    "returns a text": lambda values: str(values) + "!",
    "returns NaN": lambda values: float("nan"),
    "returns an array": lambda values: np.arange(len(set(map(str, values))) + 2),
}
"""What does not return one number."""
