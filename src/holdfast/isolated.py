"""Work on content from other people, in a process of its own with limits on memory and time.

A file of a few kilobytes can need gigabytes once it is read. If that happens, only the process that reads it
dies: the caller gets :class:`Exhausted` and continues. Starting Python and importing pandas takes a second.
So one small process is started once, imports what readers need, and forks for every job.

This limits resources. It is no sandbox: the forked process may do what the caller may do.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from holdfast.errors import HoldfastError, QueryRejected

__all__ = ["MOST_MEMORY", "Exhausted", "is_supported", "parts_of", "run_isolated"]

MOST_MEMORY = 2**30
MOST_SECONDS = 30.0
_MOST_JOBS = 4
_ENTRIES_A_PART = 20_000
_LENGTH = struct.Struct("!Q")
_RESULT, _ERROR, _END = b"r", b"e", b"."
_PRELOADED = ("pandas", "pyarrow", "pyarrow.parquet", "pydantic")


class Exhausted(HoldfastError):
    """The work needed more memory or more time than it may have, or its process died."""


def is_supported() -> bool:
    """Whether this platform can fork a process and limit it. Elsewhere the work is done in this process."""
    return hasattr(os, "fork") and hasattr(socket, "send_fds") and sys.platform.startswith("linux")


def run_isolated(
    function: str,
    *arguments: object,
    memory: int = MOST_MEMORY,
    seconds: float = MOST_SECONDS,
    most_bytes: int = MOST_MEMORY // 4,
) -> Iterator[Any]:
    """The pieces that a generator function yields, computed in a process of its own.

    Results come in pieces, because a large object that is unpickled at once stops all threads of this process
    meanwhile.

    Args:
        function: Where the generator function is: ``"package.module:name"``.
        arguments: What it is called with; must be picklable.
        memory: How many bytes the process may use, besides what it has at the start.
        seconds: How many seconds of CPU time it may use. After twice as many seconds of waiting, the caller
            gives up.
        most_bytes: How many bytes all pieces together may have.

    Raises :class:`Exhausted` beyond a limit, and for any error of the function's that is not one of ours.
    Our own errors are raised here as :class:`~holdfast.errors.QueryRejected` with the same message.

    >>> list(run_isolated("holdfast.isolated:_count", 3))
    [0, 1, 2]
    """
    if not is_supported():
        yield from _named(function)(*arguments)
        return
    with _jobs, _starter.connected() as channel:
        channel.settimeout(2 * seconds)
        try:
            _send(channel, pickle.dumps((function, arguments, memory, seconds)))
            arrived = 0
            while True:
                kind, content = _receive(channel, most_bytes - arrived)
                arrived += len(content)
                if kind == _END:
                    return
                if kind == _ERROR:
                    raise QueryRejected(content.decode(), asked=0.0)
                yield pickle.loads(content)
        except (OSError, EOFError):
            raise Exhausted(
                f"This needs more than {memory / 2**20:,.0f} MB of memory or {seconds:g} seconds to be read."
            ) from None


def parts_of(values: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The entries of a long mapping, some at a time, as isolated work sends them.

    Args:
        values: The mapping to cut into pieces.
    """
    entries = iter(values.items())
    while part := dict(islice(entries, _ENTRIES_A_PART)):
        yield part


class _Starter:
    """The process that forks for every job. It is started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @contextlib.contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """A channel to a new process."""
        own_end, child_end = socket.socketpair()
        with own_end:
            with child_end, self._lock:
                try:
                    socket.send_fds(self._started(), [b"j"], [child_end.fileno()])
                except OSError:  # Somebody ended the process: start another one.
                    self._stop()
                    socket.send_fds(self._started(), [b"j"], [child_end.fileno()])
            yield own_end

    def _started(self) -> socket.socket:
        if self._control is None or self._process is None or self._process.poll() is not None:
            self._stop()
            self._control, child_end = socket.socketpair()
            with child_end:
                command = "import sys, holdfast.isolated as i; i.serve_forks(int(sys.argv[1]))"
                self._process = subprocess.Popen(
                    [sys.executable, "-c", command, str(child_end.fileno())],
                    pass_fds=[child_end.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
        return self._control

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()  # The process ends when this socket is closed.
            self._control = None
        if self._process is not None:
            self._process.wait(timeout=10)
            self._process = None

    def stop(self) -> None:
        """End the process; a later job starts another."""
        with self._lock, contextlib.suppress(subprocess.TimeoutExpired):
            self._stop()


_starter = _Starter()
_jobs = threading.BoundedSemaphore(_MOST_JOBS)
atexit.register(_starter.stop)


def serve_forks(descriptor: int) -> None:
    """Fork for every channel that is sent over the socket ``descriptor``, until it is closed."""
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # The system removes processes that have ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the caller, and that ends this process.
    with socket.socket(fileno=descriptor) as control:
        for name in _PRELOADED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        while True:
            _, channels, _, _ = socket.recv_fds(control, 1, 1)
            if not channels:
                return
            if os.fork() == 0:
                control.close()
                with contextlib.suppress(BaseException), socket.socket(fileno=channels[0]) as channel:
                    _work(channel)  # Whatever goes wrong, this process must not continue as its parent.
                os._exit(0)
            os.close(channels[0])


def _work(channel: socket.socket) -> None:
    """Do one job in a forked process."""
    _, content = _receive(channel, 2**40)
    function, arguments, memory, seconds = pickle.loads(content)
    try:
        _limit(memory, seconds)
        for piece in _named(function)(*arguments):
            _send(channel, pickle.dumps(piece, protocol=5))
        _send(channel, b"", _END)
    except HoldfastError as error:
        _send(channel, str(error).encode(), _ERROR)


def _limit(memory: int, seconds: float) -> None:
    """Limit this process to the memory it has and ``memory`` bytes more."""
    import resource

    with open("/proc/self/status", encoding="ascii") as status:
        used = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    # Data and not address space: allocators reserve much more address space than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (used + memory, used + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _named(function: str) -> Callable[..., Iterator[Any]]:
    module, _, name = function.partition(":")
    target: Callable[..., Iterator[Any]] = getattr(importlib.import_module(module), name)
    return target


def _send(channel: socket.socket, content: bytes, kind: bytes = _RESULT) -> None:
    channel.sendall(kind + _LENGTH.pack(len(content)))
    channel.sendall(content)


def _receive(channel: socket.socket, most: int) -> tuple[bytes, bytes]:
    head = _exactly(channel, 1 + _LENGTH.size)
    (length,) = _LENGTH.unpack(head[1:])
    if length > most:
        raise EOFError
    return head[:1], _exactly(channel, length)


def _exactly(channel: socket.socket, length: int) -> bytes:
    content = bytearray(length)
    view = memoryview(content)
    while view:
        count = channel.recv_into(view)
        if count == 0:
            raise EOFError
        view = view[count:]
    return bytes(content)


def _count(number: int) -> Iterator[int]:
    yield from range(number)
