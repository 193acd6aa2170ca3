"""The places a service listens at, taken before anything else is done."""

from __future__ import annotations

import errno
import socket

from holdfast.errors import HoldfastError

# A name may stand for an address of a kind that this machine does not have.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def listen(host: str, port: int) -> list[socket.socket]:
    """A socket at every address that ``host`` stands for, all on one port; port 0 is a free one."""
    taken: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for kind, address in _addresses(host):
            try:
                taken.append(socket.create_server((address, port), family=kind))
            except OSError as error:
                if error.errno not in _NOT_HERE:
                    raise
                refused = error
            else:
                port = taken[0].getsockname()[1]
        if not taken and refused is not None:
            raise refused
    except OSError as error:
        for place in taken:
            place.close()
        raise HoldfastError(
            f"Cannot listen on {host}, port {port}: {_words(error)}. Say another place with --host or --port "
            "(--port 0 finds a free one)."
        ) from None
    return taken


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:
        raise OSError(errno.EINVAL, "that is no name of a machine") from None
    return list(dict.fromkeys((kind, str(address[0])) for kind, _, _, _, address in found))


def _words(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "another program listens there"
    if error.errno == errno.EACCES:
        return "ports below 1024 are for administrators"
    # What the system says may name the address again in brackets.
    return str(error.strerror).partition(" (")[0]
