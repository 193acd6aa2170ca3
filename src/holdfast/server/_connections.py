"""Connections: where a service listens, how several processes share them out, and a watch over each.

Uvicorn has a time limit for idle connections only after their first answer. A client that opens thousands and
sends half a header to each would keep them all. So every connection is watched from its first moment.

If processes share a listening socket, the first process that wakes up could take all waiting connections. So
a process that has more connections than another one waits a moment before it takes the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import math
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.server._admission import Limits, SharedCounts
from holdfast.server._observation import CLIENTS

# A name can have an address of a kind that this machine does not support.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def listen(host: str, port: int) -> list[socket.socket]:
    """A socket at every address that ``host`` stands for, all on one port; port 0 is a free one."""
    listeners: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for kind, address in _addresses(host):
            try:
                listeners.append(socket.create_server((address, port), family=kind))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refused = error
            else:
                port = listeners[0].getsockname()[1]
        if not listeners and refused is not None:
            raise refused
    except OSError as error:
        for listener in listeners:
            listener.close()
        raise HoldfastError(
            f"Cannot listen on {host}, port {port}: {_words(error)}. Say another place with --host or --port "
            "(--port 0 finds a free one)."
        ) from None
    return listeners


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    try:
        places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise OSError(errno.EINVAL, "that is no name of a machine") from None
    return list(dict.fromkeys((kind, str(address[0])) for kind, _, _, _, address in places))


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there"
    if error.errno == errno.EACCES:
        return "ports below 1024 are for administrators"
    # The text of the system can repeat the address in brackets.
    return str(error.strerror).partition(" (")[0]


_MOMENT = 0.002
_BACKLOG = 2_048
# The system has no room for another connection until others have ended.
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_UNTIL_ROOM = 1.0


class Entrance:
    """Takes connections from sockets that several processes listen on, so that each has about as many.

    A process that has more connections than another leaves a new connection to the other for two
    milliseconds. If the connection still waits then, the process takes it: the other may be busy or stopped.

    Args:
        places: The listening sockets.
        protocol: Makes the protocol object of one connection.
        counts: How many connections each process has.
    """

    def __init__(
        self,
        places: list[socket.socket],
        protocol: Callable[[], asyncio.Protocol],
        counts: SharedCounts,
    ) -> None:
        self._places, self._protocol, self._counts = places, protocol, counts
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[Any]] = set()
        self._open = True
        for place in places:
            place.setblocking(False)
            place.listen(_BACKLOG)
            self._watch(place)

    def close(self) -> None:
        """Take no more connections."""
        self._open = False
        for place in self._places:
            self._loop.remove_reader(place.fileno())

    def _watch(self, place: socket.socket) -> None:
        if self._open:
            self._loop.add_reader(place.fileno(), self._arrived, place)

    def _arrived(self, place: socket.socket) -> None:
        if self._counts.is_ahead():
            self._pause(place, _MOMENT)
        else:
            self._take(place)

    def _pause(self, place: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(place.fileno())
        self._loop.call_later(seconds, self._go_on, place)

    def _go_on(self, place: socket.socket) -> None:
        if self._open:
            self._watch(place)
            self._take(place)

    def _take(self, place: socket.socket) -> None:
        """Take a connection, if there is one."""
        try:
            connection, _ = place.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._pause(place, _UNTIL_ROOM)
            return
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, connection))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)


# The reply to what is not HTTP, which no application sees.
_NO_HTTP = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncache-control: no-store\r\n"
    b"x-content-type-options: nosniff\r\nconnection: close\r\n"
)
_LOOK_EVERY = 0.5
_SECONDS_AT_THE_END = 10.0
# How many bytes of an answer a client must read in a second.
_LEAST_READ = 256


class Connections:
    """The open connections of one server, and a watch over them.

    Guarantee: at most ``limits.connections`` are open, and ``limits.connections_per_address`` from one
    address. A connection is ended if it has sent no whole header after ``header_seconds``, or reads almost
    nothing of an answer for ``stalled_seconds``. If all are taken, a new connection replaces the one that has
    waited longest for a header. So half-requests cannot shut others out.
    """

    def __init__(self, limits: Limits, counts: SharedCounts | None = None) -> None:
        self.limits = limits
        self._counts = counts
        self._open: dict[Any, str] = {}
        self._by_address: Counter[str] = Counter()
        self._watch: asyncio.Task[None] | None = None
        self._stopping_since = math.inf

    def stop(self) -> None:
        """The server is stopping. Clients that are slow to send or to read have ten seconds more; questions
        that are being answered have the time they need."""
        self._stopping_since = asyncio.get_running_loop().time()

    def enter(self, connection: object, address: str) -> bool:
        """Add a new connection; False if there is no room for it."""
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

    def leave(self, connection: object) -> None:
        """Remove a connection that has ended."""
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
        """End the connections that are too slow. Runs as long as there are connections."""
        loop = asyncio.get_running_loop()
        while self._open:
            await asyncio.sleep(_LOOK_EVERY)
            now = loop.time()
            hurried = now - self._stopping_since > _SECONDS_AT_THE_END
            late = [
                connection
                for connection in self._open
                if connection.is_late(now, self.limits) or (hurried and connection.waits_for_client)
            ]
            for connection in late:
                self.leave(connection)
                connection.transport.abort()


def address_of(transport: asyncio.BaseTransport) -> str:
    """The address under which a connection is counted: an IPv4 address, or an IPv6 network, because one
    client can have its 2**64 addresses."""
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
    """How many connections this process may have open: a few times as many as one address, but at most half
    of the files that it may open. Its soft limit on open files is raised as far as the system allows."""
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


def watched_protocol(
    limits: Limits, counts: SharedCounts | None = None
) -> tuple[type[asyncio.Protocol], Connections]:
    """Uvicorn's HTTP protocol with a watch over its connections: the ``http`` of a ``uvicorn.Config``, and
    the watch. ``counts`` are shared with the other processes of the service, where there are any."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol  # type: ignore[assignment]

    connections = Connections(limits, counts)

    class Watched(Protocol):
        """One connection. ``since`` is when it began to wait for a header. ``_unread`` is how much of an
        answer the client had not read yet, and when."""

        _admitted = False
        _header_bytes = 0
        _unread: tuple[float, int] | None = None
        since = 0.0

        @property
        def awaits_header(self) -> bool:
            """Whether no request of this connection is being answered."""
            return self.cycle is None or bool(self.cycle.response_complete)

        @property
        def waits_for_client(self) -> bool:
            """Whether a body is arriving, or an answer is being read."""
            arriving = not self.awaits_header and bool(self.cycle.more_body)
            return arriving or self.transport.get_write_buffer_size() > 0

        def is_late(self, now: float, limits: Limits) -> bool:
            """Whether the client has kept this connection too long without progress."""
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
            self.logger = logging.getLogger(CLIENTS)
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

        def send_400_response(self, msg: str) -> None:
            content = msg.encode("ascii")
            head = f"content-length: {len(content)}\r\n".encode()
            self.transport.write(_NO_HTTP + head + b"\r\n" + content)
            self.transport.close()

        def on_response_complete(self) -> None:
            self.since = self.loop.time()
            self._header_bytes = 0
            super().on_response_complete()

        def resume_writing(self) -> None:
            self._unread = None  # Most of what was written before has been read.
            super().resume_writing()

    return Watched, connections
