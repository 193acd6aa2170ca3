"""The limits of a service, as data: who may send how much, how fast, and how many at once."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from holdfast.server._people import ROUTES

_KB, _MB = 2**10, 2**20

OPEN_PATHS = frozenset(path for (_, path), rule in ROUTES.items() if rule.public)
"""The paths that need no token. They have no body, and they never wait for other requests."""

# The largest body of each kind of request; the first row that matches counts. What is not listed is small.
# Uploads are parsed in a process of their own, everything else on the event loop: 64 KB take about 1 ms.
_BODIES: tuple[tuple[str, str, int], ...] = (
    ("POST", r"/v1/boards/[^/]+/submissions", 64 * _MB),
    ("POST", r"/v1/gates/[^/]+/submissions", 32 * _MB),
    ("POST", r"/v1/gates", 32 * _MB),
    ("POST", r"/v1/imports", 64 * _MB),
    ("POST", r"/v1/datasets/[^/]+/(batches|report)", 2 * _MB),
    ("PATCH", r"/v1/datasets/[^/]+/terms", 1 * _MB),
    ("POST", r"/v1/datasets(/[^/]+/epochs)?", 1 * _MB),
    ("POST", r"/v1/datasets/[^/]+/(preview|questions|tables|curves|discoveries)", 64 * _KB),
    ("POST", r"/v1/boards", 64 * _KB),
)
_OTHER_BODIES = 16 * _KB
_COMPILED = [(method, re.compile(pattern), most) for method, pattern, most in _BODIES]

# Requests about the same dataset, board or gate wait for each other, and for nobody else.
_PLACE = re.compile(r"/v1/(datasets|boards|gates)/([^/@]+)")


def largest_body(method: str, path: str) -> int:
    """How many bytes the body of a request may have.

    >>> largest_body("POST", "/v1/datasets/people/questions"), largest_body("POST", "/v1/tokens")
    (65536, 16384)
    """
    rows = (most for verb, pattern, most in _COMPILED if verb == method and pattern.fullmatch(path))
    return next(rows, _OTHER_BODIES)


def needs_token(path: str) -> bool:
    """Whether a path belongs to the API and is not open to everybody."""
    return (path == "/v1" or path.startswith("/v1/")) and path not in OPEN_PATHS


def place_of(path: str) -> str:
    """What a request is about: one dataset with all its epochs, one board, one gate, or none of these.

    >>> place_of("/v1/datasets/people@2/questions"), place_of("/v1/me")
    ('datasets/people', '')
    """
    match = _PLACE.match(path)
    return f"{match[1]}/{match[2]}" if match else ""


@dataclass(frozen=True)
class Limits:
    """How much one client, and all of them together, may ask of a service at a time.

    Args:
        connections: Open connections in all.
        connections_per_address: Open connections from one address (for IPv6: one /64 network). A proxy is one
            address.
        header_seconds: How long a client may take to send the header of a request.
        header_bytes: How long a header may be.
        body_seconds: How long a body may take to arrive, besides ``body_rate``.
        body_rate: How many bytes of a body must arrive in a second.
        stalled_seconds: How long a client may leave an answer unread.
        body_bytes: How many bytes of bodies are held at a time, in all.
        running: How many requests run at a time, in all.
        running_per_place: How many requests about one dataset, board or gate run at a time.
        waiting_per_place: How many more wait for their turn there; further ones get 503.
        free_per_minute: How many previews and rejected questions a person has in a minute. They cost nothing,
            so they are counted in memory, by all workers of a machine together.
    """

    connections: int = 1_000
    connections_per_address: int = 200
    header_seconds: float = 10.0
    header_bytes: int = 32 * _KB
    body_seconds: float = 10.0
    body_rate: int = 16 * _KB
    stalled_seconds: float = 30.0
    body_bytes: int = 256 * _MB
    running: int = 96
    running_per_place: int = 16
    waiting_per_place: int = 64
    free_per_minute: int = 600

    def of_one_in(self, processes: int) -> Limits:
        """The limits of one of so many processes of a service. What they hold in all is shared out among
        them. A place may be busy in one of them alone, and an address is counted in all of them together."""
        return replace(
            self,
            connections=math.ceil(self.connections / processes),
            body_bytes=math.ceil(self.body_bytes / processes),
            running=max(self.running_per_place, math.ceil(self.running / processes)),
        )
