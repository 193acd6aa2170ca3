"""How requests are let in: limits, turns, and the order in which a request is checked.

1. A path that is open to everybody is answered at once. 2. The token is checked by the headers alone. A
stranger's body is never read. 3. The body is read within its route's limit and at a minimum rate. It holds no
turn and no thread meanwhile. 4. The request waits for a turn of its dataset, board or gate, and runs.

A request that is refused before its body was read gets ``Connection: close``, because the body is not read.

New questions are counted in the account's book: every process counts the same, and so does the next start.
Previews and rejected requests write nothing, so they are counted in memory, which all workers of a machine
share without locks. They charge nothing and reveal nothing about the rows. This limit only saves time: no
promise depends on it. In shared memory, a keyed digest gives each name a slot. Two names with the same slot
are counted together, and nobody can choose names to get the same slot.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import secrets
import time
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import HoldfastError
from holdfast.registry import ROUTES, Person, Refused, Service, TooMany
from holdfast.server._observation import refusals_here
from holdfast.server._routing import KNOWN, PERSON, identify, problem, problem_of
from holdfast.server._short_way import AskedRoute, Gathering, PlainQuestion, plain_question

if TYPE_CHECKING:
    from holdfast.server._neighbours import Neighbours

_KB, _MB = 2**10, 2**20

OPEN_PATHS = frozenset(path for (_, path), rule in ROUTES.items() if rule.public)
"""The paths that need no token. They have no body, and they never wait for other requests."""

# The largest body of each kind of request; the first row that matches counts. Others must be small.
# Uploads are parsed in a process of their own, everything else on the event loop: 64 KB take about 1 ms.
_BODIES: tuple[tuple[str, str, int], ...] = (
    ("POST", r"/v1/boards/[^/]+/submissions", 64 * _MB),
    ("POST", r"/v1/gates/[^/]+/submissions", 32 * _MB),
    ("POST", r"/v1/gates", 32 * _MB),
    ("POST", r"/v1/imports", 64 * _MB),
    ("POST", r"/v1/datasets/[^/]+/(batches|report)", 256 * _KB),
    ("PATCH", r"/v1/datasets/[^/]+/terms", 1 * _MB),
    ("POST", r"/v1/datasets(/[^/]+/epochs)?", 1 * _MB),
    ("POST", r"/v1/datasets/[^/]+/(preview|questions|tables|curves|discoveries)", 64 * _KB),
    ("POST", r"/v1/boards", 64 * _KB),
)
_OTHER_BODIES = 16 * _KB
# Routes that take no more than this do not count towards the bytes that are held: questions are admitted
# however many uploads arrive.
_SMALL = 256 * _KB
_LARGEST = max(most for _, _, most in _BODIES)
_COMPILED = [(method, re.compile(pattern), most) for method, pattern, most in _BODIES]

# Requests about the same dataset, board or gate wait only for each other.
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
        body_seconds: How long a body may pause. Bytes that arrive fast give no right to a longer pause.
        body_rate: How many bytes of a body must arrive in a second, pauses aside.
        stalled_seconds: How long a client may leave an answer unread.
        body_bytes: How many bytes of large bodies are held at a time, in all. One person may hold a quarter
            of them, and always one body. Bodies of routes that take at most 256 KB do not count.
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
        """The limits of one process, if a service has so many ``processes``. Limits on totals are divided
        among them. Limits of one place hold in each process, and addresses are counted in all of them
        together."""
        return replace(
            self,
            connections=math.ceil(self.connections / processes),
            body_bytes=math.ceil(self.body_bytes / processes),
            running=max(self.running_per_place, math.ceil(self.running / processes)),
        )


SLOTS = 8_192
"""How many numbers of a kind workers share; names share slots."""
_ROW = SLOTS + 1


class SharedCounts:
    """How many connections each address has in all processes, as one process sees it.

    Every process writes to a row of its own and reads the others. The row of a process that died is emptied.
    The last number of a row is how many connections the process has in all.

    Args:
        numbers: Whole numbers in shared memory, :meth:`size` of them.
        rows: How many processes there are.
        key: Random bytes, the same in all processes.
    """

    def __init__(self, numbers: Any, rows: int, key: bytes) -> None:
        self._numbers, self._rows, self._key = numbers, rows, key
        self.row = 0

    @staticmethod
    def size(rows: int) -> int:
        """How many numbers are needed for so many processes."""
        return rows * _ROW

    def add(self, address: str, change: int) -> None:
        """Count a connection of this process that was opened or closed."""
        self._numbers[self.row * _ROW + slot_of(address, self._key)] += change
        self._numbers[self.row * _ROW + SLOTS] += change

    def total(self, address: str) -> int:
        """How many connections an address has, in all processes."""
        slot = slot_of(address, self._key)
        return sum(self._numbers[row * _ROW + slot] for row in range(self._rows))

    def is_ahead(self) -> bool:
        """Whether another process has fewer connections than this one."""
        least = min(self._numbers[row * _ROW + SLOTS] for row in range(self._rows))
        return self.here() > int(least)

    def here(self) -> int:
        """How many connections this process has."""
        return int(self._numbers[self.row * _ROW + SLOTS])

    def clear(self, row: int) -> None:
        """Clear the row of a process that has ended."""
        self._numbers[row * _ROW : (row + 1) * _ROW] = [0] * _ROW


class SharedMoments:
    """A moment for each person, by the clock that all processes of a machine have (``time.monotonic``).

    Two processes that change the same moment at once can lose one of the two changes.

    Args:
        numbers: Floating point numbers in shared memory, :meth:`size` of them (default: memory of this
            process alone).
        key: Random bytes, the same in all processes.
    """

    def __init__(self, numbers: Any = None, key: bytes | None = None) -> None:
        self._numbers = array("d", bytes(8 * self.size())) if numbers is None else numbers
        self._key = secrets.token_bytes(16) if key is None else key

    @staticmethod
    def size() -> int:
        """How many numbers are needed."""
        return SLOTS

    def get(self, person: str) -> float:
        """The moment of a person; 0 at first."""
        return float(self._numbers[slot_of(person, self._key)])

    def set(self, person: str, moment: float) -> None:
        """Change the moment of a person, in all processes."""
        self._numbers[slot_of(person, self._key)] = moment


@lru_cache(4_096)
def slot_of(name: str, key: bytes) -> int:
    """The slot of a name in shared memory."""
    digest = hashlib.blake2s(name.encode(), key=key, digest_size=4).digest()
    return int.from_bytes(digest) % SLOTS


_MINUTE = 60.0
_shared_buckets: SharedMoments | None = None


def share_buckets(buckets: SharedMoments) -> None:
    """Count free requests together with other processes. A worker calls this once, before it serves."""
    global _shared_buckets
    _shared_buckets = buckets


class FreeRate:
    """A bucket of tokens for each person. A free request takes tokens out, and time adds tokens.

    A bucket is stored as the moment at which it is full again. This is one number, so processes can share it.

    Args:
        per_minute: How many come back in a minute, and how many a full bucket has.
        buckets: Where the buckets are (default: those of :func:`share_buckets`, or else memory of its own).
    """

    def __init__(self, per_minute: float, buckets: SharedMoments | None = None) -> None:
        self._most = float(per_minute)
        self._full_again = buckets or _shared_buckets or SharedMoments()

    def require(self, person: str) -> None:
        """Refuse a person whose bucket is empty."""
        missing = (self._full_again.get(person) - time.monotonic()) * self._most / _MINUTE
        if missing > self._most - 1.0:
            wait = (missing - self._most + 1.0) * _MINUTE / self._most
            raise TooMany(int(self._most), wait, what="previews and rejected requests")

    def take(self, person: str, tokens: float) -> None:
        """Take tokens out. The number of tokens can become negative."""
        start = max(self._full_again.get(person), time.monotonic())
        self._full_again.set(person, start + tokens * _MINUTE / self._most)


class Busy(HoldfastError):
    """Too many requests already run or wait. Try again after ``wait`` seconds."""

    def __init__(self, message: str, wait: float) -> None:
        self.wait = wait
        super().__init__(message)


class _Place:
    """The requests about one dataset, board or gate."""

    def __init__(self) -> None:
        self.running = 0
        self.waiting: deque[tuple[str, asyncio.Future[None]]] = deque()


class Turns:
    """Hands out turns on the event loop, so that no thread waits for a turn.

    Guarantee: at most ``running_per_place`` requests about one place run at a time, and at most ``running``
    in all. Slow requests do not take the turns of other places, while fewer than
    ``running / running_per_place`` places are slow. One person holds at most half of the places in a queue,
    so another person can still get in line.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running = 0
        self._places: dict[str, _Place] = {}

    @asynccontextmanager
    async def turn(self, name: str, person: str) -> AsyncIterator[Callable[[], None]]:
        """Wait for a turn at a place and hold it. Raises :class:`Busy` if the queue is full. Gives a function
        that ends the turn early: sending a reply needs no turn."""
        place, held = self._places.setdefault(name, _Place()), False

        def end() -> None:
            nonlocal held
            if held:
                held = False
                place.running -= 1
                self._running -= 1
                self._wake()
            # After an early end, another place can have the name.
            if self._places.get(name) is place and not place.running and not place.waiting:
                del self._places[name]

        try:
            await self._begin(place, person)
            held = True
            yield end
        finally:
            end()

    async def _begin(self, place: _Place, person: str) -> None:
        limits = self._limits
        if place.running < limits.running_per_place and self._running < limits.running and not place.waiting:
            place.running += 1
            self._running += 1
            return
        most_of_person = max(1, limits.waiting_per_place // 2)
        waiting_of_person = sum(holder == person for holder, _ in place.waiting)
        if len(place.waiting) >= limits.waiting_per_place or waiting_of_person >= most_of_person:
            raise Busy("Too many requests about this wait already. Try again in a moment.", 1.0)
        turn = asyncio.get_running_loop().create_future()
        entry = (person, turn)
        place.waiting.append(entry)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                place.running -= 1  # The turn came at the same moment; the next one takes it.
                self._running -= 1
                self._wake()
            else:
                place.waiting.remove(entry)
            raise

    def _wake(self) -> None:
        """Give free turns to the requests that wait, one to each place in order."""
        limits = self._limits
        for place in list(self._places.values()):
            if self._running >= limits.running:
                return
            while place.waiting and place.running < limits.running_per_place:
                _, turn = place.waiting.popleft()
                if not turn.done():
                    place.running += 1
                    self._running += 1
                    turn.set_result(None)
                    break


_CLOSE = {"Connection": "close"}
_WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
# Refused requests cost their sender nothing, so they are counted. Long ones take longer to refuse. A question
# beyond a share or a rate is prepared before it is refused.
_REJECTED = frozenset({400, 403, 404, 409, 410, 422, 429})
_BYTES_A_TOKEN = 1_024
_MOST_OF_UPLOAD = 64 * _KB
# A person may have so many requests at a time that are longer than this.
_LONG, _MOST_LONG = 2 * _KB, 2
# Replies that go through a whole book or table, and can be large.
_LONG_READS = re.compile(
    r"/v1/(datasets/[^/]+/(certificate|columns|history|ledger|train|verify)"
    r"|boards/[^/]+/(ids|submissions)|gates/[^/]+/(book|tasks|verdicts)|administration(/ledger)?)"
)
_PIECE = 256 * _KB
# When the person of a request was identified, and how long that holds.
_IDENTIFIED, _TRUSTED_SECONDS = "holdfast.identified", 1.0


class _TooLarge(Exception):
    """The body has more bytes than the route takes."""


class _TooSlow(Exception):
    """The body arrives more slowly than the limit allows."""


class _Gone(Exception):
    """The client has hung up."""


class Admission:
    """Lets requests in, by the limits of a service.

    Guarantee: no byte of a body is read for a request without a valid token. No body has more bytes than its
    route takes. Open paths never wait.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        service: Service,
        limits: Limits,
        gathering: Gathering,
        neighbours: Neighbours | None,
    ) -> None:
        self._app, self._service, self._limits = app, service, limits
        self._gathering, self._neighbours = gathering, neighbours
        self._turns = Turns(limits)
        self._free = FreeRate(limits.free_per_minute)
        self._held_bytes = _HeldBytes(limits.body_bytes)
        self._long: WeakValueDictionary[tuple[str, bool], asyncio.Semaphore] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        headers = Headers(scope=scope)
        person: Person | None = None
        if needs_token(path):
            try:
                person = await identify(self._service, headers, scope["method"])
            except KNOWN as error:
                await problem_of(error, headers=_CLOSE)(scope, receive, send)
                return
            scope[PERSON], scope[_IDENTIFIED] = person, asyncio.get_running_loop().time()
        most = largest_body(scope["method"], path) if person is not None else 0
        if (response := self._refused_by_length(headers, most)) is not None:
            await response(scope, receive, send)
            return
        if person is None:
            await self._app(scope, _empty_body, _in_pieces(send))
            return
        if scope["method"] in _WRITING:
            try:
                self._free.require(person.account)
            except TooMany as refusal:
                await _too_many(refusal)(scope, receive, send)
                return
        await self._admit(person, most, scope, receive, send)

    def _refused_by_length(self, headers: Headers, most: int) -> Any:
        """The refusal of a request whose header says that its body is too large; None for others."""
        length = headers.get("content-length", "0")
        if length.isdecimal() and len(length) < 19 and int(length) > most:
            return _too_large(most)
        if most == 0 and "transfer-encoding" in headers:
            return _too_large(most)
        return None

    async def _admit(self, person: Person, most: int, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._body(receive, most, person.account)
        except _TooLarge:
            await _too_large(most)(scope, receive, send)
            return
        except _TooSlow:
            words = "The request's body arrived too slowly. Send it again over a faster connection."
            await problem(408, "too-slow", words, headers=_CLOSE)(scope, receive, send)
            return
        except Busy as busy:
            await _busy(busy)(scope, receive, send)
            return
        except _Gone:
            return
        try:
            question = plain_question(scope["method"], scope["path"], Headers(scope=scope), body)
            if question is not None:
                scope["route"] = AskedRoute
                reply = await question.recorded(self._service, person)
                if reply is not None:
                    await reply(scope, receive, send)
                    return
            tokens = _tokens(scope["method"], most, body)
            await self._in_turn(person, tokens, body, question, scope, receive, send)
        finally:
            if most > _SMALL:
                self._held_bytes.add(person.account, -len(body))

    async def _in_turn(
        self,
        person: Person,
        tokens: float,
        body: bytes,
        question: PlainQuestion | None,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        status, taken_before = 0, tokens > 0 and len(body) > _LONG

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            if message["type"] == "http.response.body":
                end_turn()  # The work is done, and a client may take its time to read.
            await send(message)

        try:
            async with self._one_of_few(person, scope, body):
                if taken_before:  # If somebody sends many at once, most are refused before they are parsed.
                    self._free.require(person.account)
                    self._free.take(person.account, tokens)
                async with self._turns.turn(place_of(scope["path"]), person.account) as end_turn:
                    person = await self._still(scope, person)
                    if question is not None:
                        reply = await self._reply(question, person)
                        await reply(scope, receive, send_and_note)
                    else:
                        await self._app(scope, _replayed(body, receive), _in_pieces(send_and_note))
        except TooMany as refusal:
            await _too_many(refusal)(scope, receive, send)
            return
        except Refused as refusal:
            await problem_of(refusal, headers=_CLOSE)(scope, receive, send)
            return
        except Busy as busy:
            status = 503
            await _busy(busy)(scope, receive, send)
        refusals = refusals_here()  # Of a batch, whose status is 200.
        free = status in _REJECTED or refusals > 0 or (status != 503 and scope["path"].endswith("/preview"))
        if free != taken_before:  # Take the tokens now, or give them back.
            self._free.take(person.account, tokens if free else -tokens)
        if refusals:
            self._free.take(person.account, refusals)

    async def _still(self, scope: Scope, person: Person) -> Person:
        """The person as they are now, if the body or the turn of their request took a while to come: a token
        that was revoked meanwhile has ended."""
        if asyncio.get_running_loop().time() - scope[_IDENTIFIED] > _TRUSTED_SECONDS:
            person = scope[PERSON] = await identify(self._service, Headers(scope=scope), scope["method"])
        return person

    def _one_of_few(self, person: Person, scope: Scope, body: bytes) -> AbstractAsyncContextManager[Any]:
        """Wait until few other long requests of this person run: they take long to parse, or have long
        replies. A reply counts until the client has read it, because it is kept in memory until then."""
        reads = scope["method"] == "GET"
        if not (_has_long_reply(scope) if reads else len(body) > _LONG):
            return nullcontext()
        return self._long.setdefault((person.account, reads), asyncio.Semaphore(_MOST_LONG))

    async def _reply(self, question: PlainQuestion, person: Person) -> Response:
        """The reply of the dataset's home worker, or else of this worker."""
        if self._neighbours is not None and self._service.datasets.is_open(question.name):
            reply = await self._neighbours.reply(question, person)
            if reply is not None:
                return reply
        return await self._gathering.reply(question, person)

    async def _body(self, receive: Receive, most: int, account: str) -> bytes:
        """The whole body. The bytes of a large one count as held until the request has ended."""
        loop, limits, counted = asyncio.get_running_loop(), self._limits, most > _SMALL
        chunks: list[bytes] = []
        arrived, now, pause = 0, loop.time(), limits.body_seconds
        try:
            while True:
                message = await _in_time(receive, pause)
                if message["type"] == "http.disconnect":
                    raise _Gone
                chunk: bytes = message.get("body", b"")
                previous, now = now, loop.time()
                pause = min(
                    limits.body_seconds,
                    pause - (now - previous) + len(chunk) / limits.body_rate,
                )
                arrived += len(chunk)
                chunks.append(chunk)
                if counted:
                    self._held_bytes.add(account, len(chunk))
                if arrived > most:
                    raise _TooLarge
                if counted and self._held_bytes.too_many(account):
                    raise Busy("The service is reading many large requests. Try again in a moment.", 2.0)
                if not message.get("more_body", False):
                    return b"".join(chunks)
        except BaseException:
            if counted:
                self._held_bytes.add(account, -arrived)
            raise


def _has_long_reply(scope: Scope) -> bool:
    """Whether the reply to a GET takes long to compute, or can be large."""
    forecast = b"after=" in scope.get("query_string", b"")
    return forecast or _LONG_READS.fullmatch(scope["path"]) is not None


def _tokens(method: str, most: int, body: bytes) -> float:
    """How many tokens of its person a request takes. They are given back if the request is not free. A long
    text takes longer to refuse, so it takes more tokens. The bodies of large routes are read in a process of
    their own, so only a part of them counts."""
    if method not in _WRITING:
        return 0.0
    return 1 + min(len(body), _SMALL if most <= _SMALL else _MOST_OF_UPLOAD) / _BYTES_A_TOKEN


class _HeldBytes:
    """The bytes of large bodies that are being read or worked on, in all and for each person."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_of_one = max(most // 4, min(most, _LARGEST))
        self._all = 0
        self._of: dict[str, int] = {}

    def add(self, account: str, size: int) -> None:
        """Count bytes of a person that have arrived, or that are no longer held."""
        self._all += size
        held = self._of.get(account, 0) + size
        if held:
            self._of[account] = held
        else:
            self._of.pop(account, None)

    def too_many(self, account: str) -> bool:
        """Whether this person, or all people together, hold too many bytes."""
        return self._all > self._most or self._of.get(account, 0) > self._most_of_one


async def _in_time(receive: Receive, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            return await receive()
    except TimeoutError:
        raise _TooSlow from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that first gives a body that was already read, and then all later messages."""
    body_given = False

    async def replay() -> Message:
        nonlocal body_given
        if body_given:
            return await receive()
        body_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _empty_body() -> Message:
    """The body of a request that has none."""
    return {"type": "http.request", "body": b"", "more_body": False}


def _too_large(most: int) -> Any:
    words = f"A request like this may have at most {most:,} bytes." if most else "This takes no body."
    return problem(413, "too-large", words, headers=_CLOSE)


def _too_many(refusal: TooMany) -> Any:
    return problem(429, "too-many-questions", str(refusal), headers=_CLOSE, wait=refusal.wait)


def _busy(busy: Busy) -> Any:
    return problem(503, "busy", str(busy), wait=busy.wait)


def _in_pieces(send: Send) -> Send:
    """A ``send`` that gives a long body to the server in pieces, each when the client has read most of the
    one before. The server would keep a copy of what is not read yet."""

    async def send_pieces(message: Message) -> None:
        body = message.get("body", b"")
        if len(body) <= _PIECE:
            await send(message)
            return
        more = message.get("more_body", False)
        for start in range(0, len(body), _PIECE):
            end = start + _PIECE
            await send({**message, "body": body[start:end], "more_body": more or end < len(body)})

    return send_pieces
