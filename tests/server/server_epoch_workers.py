"""An owner's service in a process of its own that ends between any two writes, for tests that kill it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.ledger import Book
from holdfast.registry._policy import Epochs
from holdfast.server import Arrived, Service

# Started from a process that has everything imported, so that a test can afford many of them.
people = multiprocessing.get_context("forkserver")
people.set_forkserver_preload(["holdfast.registry._service", "holdfast.engines", "ibis", "duckdb", "pandas"])


def open_until(home: Path, source: str, writes: int) -> None:
    """Open the next epoch of "t", and die once so many things are on disk."""
    service = Service(home)
    service.datasets.get("t")
    left = writes

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def then(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                os._exit(9)
            left -= 1
            return write(*arguments, **options)

        return then

    Book.append_all = counted(Book.append_all)  # type: ignore[method-assign]
    Epochs.plan = counted(Epochs.plan)  # type: ignore[method-assign]
    Epochs.settle = counted(Epochs.settle)  # type: ignore[method-assign]
    service.datasets.next_epoch("t", Arrived(source), "the request")
    os._exit(9 if left == 0 else 0)
