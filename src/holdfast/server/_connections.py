"""Connections: how many there may be, and how long a client may keep one without getting on.

Uvicorn times an idle connection after its first answer only. A client that opens thousands and sends half a
header to each would keep them all. So every connection is watched from its first moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections import Counter
from typing import Any

from holdfast.server._limits import Limits
from holdfast.server._shared_counts import SharedCounts

_LOOK_EVERY = 0.5
# How many bytes of an answer a client must read in a second.
_LEAST_READ = 256


class Connections:
    """The open connections of one server, and a watch over them.

    Guarantee: at most ``limits.connections`` are open, and ``limits.connections_per_address`` from one
    address. One that has sent no whole header after ``header_seconds``, or reads next to nothing of an
    answer for ``stalled_seconds``, is ended. Where all are taken, a new one takes the place of the one that
    has waited longest for a header, so that half-requests cannot shut others out.
    """

    def __init__(self, limits: Limits, counts: SharedCounts | None = None) -> None:
        self.limits = limits
        self._counts = counts
        self._open: dict[Any, str] = {}
        self._by_address: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None

    def enter(self, connection: Any, address: str) -> bool:
        """Take in a new connection; False if there is no room for it."""
        if self._of(address) >= self.limits.connections_per_address:
            return False
        if len(self._open) >= self.limits.connections and not self._make_room():
            return False
        self._open[connection] = address
        self._by_address[address] += 1
        if self._counts is not None:
            self._counts.add(address, 1)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._look_after())
        return True

    def leave(self, connection: Any) -> None:
        """Forget a connection that has ended."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if self._counts is not None:
                self._counts.add(address, -1)
            if not self._by_address[address]:
                del self._by_address[address]

    def _of(self, address: str) -> int:
        """How many connections an address has, in all processes of the service."""
        return self._by_address[address] if self._counts is None else self._counts.total(address)

    def _make_room(self) -> bool:
        waiting = [connection for connection in self._open if connection.awaits_header]
        if not waiting:
            return False
        oldest = min(waiting, key=lambda connection: connection.since)
        self.leave(oldest)
        oldest.transport.abort()
        return True

    async def _look_after(self) -> None:
        """End the connections that do not get on; runs as long as there are any."""
        loop = asyncio.get_running_loop()
        while self._open:
            await asyncio.sleep(_LOOK_EVERY)
            now = loop.time()
            for connection in [one for one in self._open if one.is_late(now, self.limits)]:
                self.leave(connection)
                connection.transport.abort()


def address_of(transport: asyncio.BaseTransport) -> str:
    """Who is at the other end, as far as connections are counted: an IPv4 address, or an IPv6 network, of
    which one client has 2**64 addresses."""
    peer = transport.get_extra_info("peername")
    text = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)


def connections_here(per_address: int) -> int:
    """How many connections this process may have open: a few times as many as one address, and half of the
    files that it may open at most. Its soft limit on these is raised as far as the system lets it."""
    wanted = max(Limits.connections, 2 * per_address)
    try:
        import resource
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < min(hard, 4 * wanted):
        most = 4 * wanted if hard == resource.RLIM_INFINITY else min(hard, 4 * wanted)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else max(16, min(wanted, soft // 2))


def watched_protocol(limits: Limits, counts: SharedCounts | None = None) -> type[asyncio.Protocol]:
    """Uvicorn's HTTP protocol with a watch over its connections: the ``http`` of a ``uvicorn.Config``.
    ``counts`` are shared with the other processes of the service, where there are any."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol  # type: ignore[assignment]

    connections = Connections(limits, counts)

    class Watched(Protocol):
        """One connection. ``since`` is when it began to wait for a header; ``_unread`` is how much of an
        answer the client had left unread, and when."""

        _admitted = False
        _header_bytes = 0
        _unread: tuple[float, int] | None = None
        since = 0.0

        @property
        def awaits_header(self) -> bool:
            """Whether no request of this connection is being answered."""
            return self.cycle is None or bool(self.cycle.response_complete)

        def is_late(self, now: float, limits: Limits) -> bool:
            """Whether the client has kept this connection for too long without getting on."""
            unread = self.transport.get_write_buffer_size()
            if unread == 0:
                self._unread = None
                return self.awaits_header and now - self.since > limits.header_seconds
            if self._unread is None or unread < self._unread[1] - _LEAST_READ * limits.stalled_seconds:
                self._unread = now, unread
            return now - self._unread[0] > limits.stalled_seconds

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.since = self.loop.time()
            if not connections.enter(self, address_of(transport)):
                self.transport = transport
                transport.abort()
                return
            self._admitted = True
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._admitted:
                connections.leave(self)
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if not self._admitted or self.transport.is_closing():
                return
            self._header_bytes += len(data)
            super().data_received(data)
            if not self.awaits_header:
                self._header_bytes = 0
            elif self._header_bytes > limits.header_bytes:
                self.transport.abort()

        def on_response_complete(self) -> None:
            self.since = self.loop.time()
            self._header_bytes = 0
            super().on_response_complete()

        def resume_writing(self) -> None:
            self._unread = None  # Most of what was written before has been read.
            super().resume_writing()

    return Watched
