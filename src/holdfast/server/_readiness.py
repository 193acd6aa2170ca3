"""Whether a service can take requests now: its books can be reached, its disk written, its datasets opened,
and it is not about to stop.

``/v1/live`` says that the process runs, and touches nothing. ``/v1/ready`` runs these checks in a thread of
their own, at most once a second, and gives up after two: a probe neither waits for people who ask nor keeps
them waiting. Replies name no dataset and no path: probes have no token.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.ledger import read_heads
from holdfast.server._service import Service

_AGE = 1.0
_PATIENCE = 2.0
_log = logging.getLogger("holdfast.server")


class Readiness:
    """The checks of one service.

    ``checks`` maps a name to a function that returns nothing, or what is wrong in words that anyone may read;
    an exception counts as "failed".
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._draining = False
        self._opened: set[str] = set()
        self._broken: set[str] = set()
        self._result: tuple[float, dict[str, str]] = (-_AGE, {})
        self._running: asyncio.Future[dict[str, str]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self.checks: dict[str, Callable[[], str | None]] = {
            "disk": self._disk,
            "books": self._books,
            "datasets": self._datasets,
            "service": self._ready,
        }

    def drain(self) -> None:
        """From now on the service is not ready: it is about to stop."""
        self._draining = True

    def close(self) -> None:
        """End the thread of the checks; one that hangs is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def reply(self) -> tuple[int, dict[str, Any]]:
        """The status, 200 or 503, and each check by its name: "ok", or what is wrong."""
        if self._draining:
            return 503, {"status": "not ready", "checks": {"draining": "the service is about to stop"}}
        at, checks = self._result
        if time.monotonic() - at > _AGE:
            checks = await self._checked()
        ready = all(words == "ok" for words in checks.values())
        return 200 if ready else 503, {"status": "ready" if ready else "not ready", "checks": checks}

    async def _checked(self) -> dict[str, str]:
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().run_in_executor(self._thread, self.run)
        finished, _ = await asyncio.wait([self._running], timeout=_PATIENCE)
        if not finished:
            return {"checks": f"not finished within {_PATIENCE:g} s"}
        return self._running.result()

    def run(self) -> dict[str, str]:
        """Run all checks now."""
        checks = {name: self._outcome(name, check) for name, check in self.checks.items()}
        self._result = time.monotonic(), checks
        return checks

    @staticmethod
    def _outcome(name: str, check: Callable[[], str | None]) -> str:
        try:
            return check() or "ok"
        except Exception as error:
            words = str(error) if isinstance(error, HoldfastError) else type(error).__name__
            _log.warning("the check %r of readiness failed: %s", name, words)
            return "failed; the log says more"

    def _disk(self) -> str | None:
        """Write, sync and remove a small file in the service's folder."""
        with tempfile.NamedTemporaryFile(dir=self._service.home, prefix=".ready-") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        return None

    def _books(self) -> str | None:
        read_heads(self._service.places.all_books)
        return None

    def _datasets(self) -> str | None:
        """Open what was not opened yet. A dataset that cannot be opened does not keep people from the others:
        only where none can be opened is the service not ready."""
        names = set(self._service.datasets.names())
        for name in sorted(names - self._opened):
            try:
                self._service.datasets.get(name)
                self._opened.add(name)
            except HoldfastError as error:
                if name not in self._broken:
                    _log.error("dataset %s cannot be opened: %s", name, error)
                self._broken.add(name)
        self._broken &= names - self._opened
        if self._broken and self._broken == names:
            return f"none of {len(names)} datasets can be opened; the log says more"
        return None

    def _ready(self) -> str | None:
        """What the service itself says: its store and the database of its books can be reached."""
        problems = self._service.ready()
        if not problems:
            return None
        _log.warning("the service is not ready: %s", problems)
        return "not ready; the log says more"
