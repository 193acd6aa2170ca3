"""Workers pass questions on, so that those about one dataset meet in one worker: the dataset's home.

There they wait for the same turn, share scans and find the account as they left it. In another worker each
turn would begin with reading what other workers wrote.

The worker that has the connection has checked the token, and says who asks. The home checks what the person
may do, as for every question. If the home has ended, or does not reply within two seconds, the question is
asked where it arrived. That is only slower, because the account is exact in every worker. A question in words
that were passed on before is also asked where it arrives: its answer is in the book by now, and this worker
can keep the reply.

Workers talk over sockets in a folder that nobody else can open.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

from starlette.responses import Response

from holdfast.registry import Grant, Person, named
from holdfast.server._admission import SLOTS, slot_of
from holdfast.server._observation import Tracing, begin_request, count_new
from holdfast.server._requests import AskBody
from holdfast.server._short_way import PlainQuestion

_PATIENCE = 2.0
_LOOK_EVERY = 0.5
_MOST_PASSED_ON = 100_000
_LENGTHS = struct.Struct(">II")
# The worker is being started, the path is too long, or the system has no such sockets.
_NO_SOCKET = (OSError, NotImplementedError)
_log = logging.getLogger("holdfast.server")

_Answer = Callable[[PlainQuestion, Person], Awaitable[Response]]


class Homes:
    """Which worker is the home of a dataset. The first worker that asks gives it to a worker with few.

    Args:
        numbers: Bytes in shared memory, :meth:`size` of them.
        workers: How many workers there are.
        key: Random bytes, the same in all processes.
    """

    def __init__(self, numbers: Any, workers: int, key: bytes) -> None:
        self._numbers, self._workers, self._key = numbers, workers, key

    @staticmethod
    def size() -> int:
        """How many numbers are needed."""
        return SLOTS

    def of(self, dataset: str) -> int:
        """The row of the worker. Two workers that ask at once may disagree for a moment."""
        slot = slot_of(dataset, self._key)
        if not self._numbers[slot]:
            given = Counter(self._numbers[:])
            self._numbers[slot] = 1 + min(range(self._workers), key=lambda row: given[row + 1])
        return int(self._numbers[slot]) - 1


class Neighbours:
    """One worker among the others.

    Guarantee: a question gets the same reply as in this worker.

    Args:
        folder: Where the workers' sockets are.
        row: The row of this worker.
        homes: The homes of the datasets.
    """

    def __init__(self, folder: Path, row: int, homes: Homes) -> None:
        self._folder, self._row, self._homes = folder, row, homes
        self._lines: dict[int, _Line] = {}
        self._connecting = asyncio.Lock()
        self._passed_on: dict[int, None] = {}
        self._server: asyncio.AbstractServer | None = None
        self._tracing = Tracing()

    async def start(self, answer: _Answer, tracing: Tracing) -> None:
        """Take questions from the other workers, and answer them with ``answer``."""
        self._tracing = tracing
        place, loop = self._place(self._row), asyncio.get_running_loop()
        try:
            place.unlink(missing_ok=True)  # Of a worker that died.
            self._server = await loop.create_unix_server(lambda: _Guest(answer, tracing), str(place))
        except _NO_SOCKET as error:
            _log.warning("this worker takes no questions from others: %s", error)

    def close(self) -> None:
        """Take no more questions, and pass none on."""
        if self._server is not None:
            self._server.close()
        for line in self._lines.values():
            line.close()

    async def reply(self, question: PlainQuestion, person: Person) -> Response | None:
        """The reply of a dataset's home worker; None if this worker is the home, or no reply came."""
        asked = hash((question.name, question.body.query))  # Long words would fill memory.
        home = self._homes.of(named(question.name)[0])
        if home == self._row or asked in self._passed_on:
            return None
        if len(self._passed_on) >= _MOST_PASSED_ON:
            self._passed_on.pop(next(iter(self._passed_on)))
        self._passed_on[asked] = None
        line = self._lines.get(home)
        if line is None or line.is_closed:
            line = await self._line_to(home)
        return None if line is None else await line.ask(question, person, self._tracing.carried())

    def is_silent(self, row: int) -> bool:
        """Whether a worker was asked and has not replied. It gets no further questions until it replies."""
        line = self._lines.get(row)
        return line is not None and line.silent

    async def _line_to(self, row: int) -> _Line | None:
        """A stream to another worker; None if it cannot be reached now."""
        async with self._connecting:
            line = self._lines.get(row)
            if line is None or line.is_closed:
                loop = asyncio.get_running_loop()
                try:
                    _, line = await loop.create_unix_connection(_Line, str(self._place(row)))
                except _NO_SOCKET:
                    return None
                self._lines[row] = line
            return line

    def _place(self, row: int) -> Path:
        return self._folder / f"worker-{row + 1}"


class _Framed(asyncio.Protocol, ABC):
    """A stream of messages: a list of plain values, and bytes."""

    def __init__(self) -> None:
        self._arrived = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """End the stream."""
        if self._transport is not None:
            self._transport.close()

    def send(self, values: list[Any], body: bytes = b"") -> None:
        """Send a message; one that cannot be sent is lost."""
        if self._transport is not None:
            text = json.dumps(values).encode()
            self._transport.write(b"%b%b%b" % (_LENGTHS.pack(len(text), len(body)), text, body))

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        first = 0
        while len(self._arrived) - first >= _LENGTHS.size:
            text, body = _LENGTHS.unpack_from(self._arrived, first)
            middle = first + _LENGTHS.size + text
            if len(self._arrived) < middle + body:
                break
            values = json.loads(self._arrived[middle - text : middle])
            self.receive(values, bytes(self._arrived[middle : middle + body]))
            first = middle + body
        del self._arrived[:first]

    @abstractmethod
    def receive(self, values: list[Any], body: bytes) -> None:
        """Take a message."""


class _Line(_Framed):
    """The stream by which another worker is asked."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()
        # When each question was sent, and what its reply will be; until a reply comes.
        self._waiting: dict[int, tuple[float, asyncio.Future[tuple[Response, int] | None]]] = {}
        self._watch: asyncio.TimerHandle | None = None
        self.silent = False

    async def ask(self, question: PlainQuestion, person: Person, carried: dict[str, str]) -> Response | None:
        """The reply of the other worker; None if there is none. A silent worker gets no further questions
        until it replies."""
        if self.silent:
            return None
        loop, number = asyncio.get_running_loop(), next(self._numbers)
        replied: asyncio.Future[tuple[Response, int] | None] = loop.create_future()
        self._waiting[number] = loop.time(), replied
        if self._watch is None:
            self._watch = loop.call_later(_LOOK_EVERY, self._look)
        self.send([number, question.name, question.body.query, _values_of(person), carried])
        if (reply := await replied) is None:
            return None
        response, new_answers = reply
        count_new(new_answers)
        return response

    def receive(self, values: list[Any], body: bytes) -> None:
        number, status, headers, new_answers = values
        self.silent = False
        _, replied = self._waiting.pop(number)
        if not replied.done():
            replied.set_result((_response(status, headers, body), new_answers) if status else None)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._give_up(float("inf"))
        if self._watch is not None:
            self._watch.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._give_up(loop.time() - _PATIENCE)
        self._watch = loop.call_later(_LOOK_EVERY, self._look) if self._waiting else None

    def _give_up(self, sent_before: float) -> None:
        for sent, replied in self._waiting.values():
            if sent < sent_before and not replied.done():
                self.silent = True
                replied.set_result(None)


class _Guest(_Framed):
    """The stream by which another worker asks this one."""

    def __init__(self, answer: _Answer, tracing: Tracing) -> None:
        super().__init__()
        self._answer, self._tracing = answer, tracing
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, values: list[Any], body: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._reply(*values))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(
        self, number: int, name: str, query: str, person: list[Any], carried: dict[str, str]
    ) -> None:
        request = begin_request("POST")
        try:
            with self._tracing.continued(carried):
                question = PlainQuestion(name, AskBody(query=query))
                response = await self._answer(question, _person_of(person))
        except Exception:  # The worker where it arrived asks it again, and reports the error.
            self.send([number, 0, [], 0])
            return
        headers = [[key.decode("latin-1"), value.decode("latin-1")] for key, value in response.raw_headers]
        self.send([number, response.status_code, headers, request.new_answers], bytes(response.body))


def _response(status: int, headers: list[list[str]], body: bytes) -> Response:
    response = Response(body, status)
    response.raw_headers = [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers]
    return response


def _values_of(person: Person) -> list[Any]:
    return [
        person.identity,
        person.name,
        person.team,
        person.role,
        person.dataset,
        person.expires,
        person.revoked,
        person.also,
    ]


def _person_of(values: list[Any]) -> Person:
    identity, name, team, role, dataset, expires, revoked, also = values
    grants = tuple(Grant(*grant) for grant in also)
    return Person(identity, name, team, role, dataset, expires, revoked, grants)
