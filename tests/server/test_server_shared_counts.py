"""What the processes of a service count together, and what they share out."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import ExitStack, asynccontextmanager
from multiprocessing import get_context

import pytest
from starlette.testclient import TestClient

from holdfast.registry import TooMany
from holdfast.server import _admission, create_app
from holdfast.server._admission import FreeRate, Limits, SharedCounts, SharedMoments
from holdfast.server._connections import Connections, Entrance
from holdfast.server._routing import PERSON
from waiting import wait_on_loop


def two_processes():
    numbers = get_context("spawn").RawArray("i", SharedCounts.size(2))
    first, second = SharedCounts(numbers, 2, b"key"), SharedCounts(numbers, 2, b"key")
    second.row = 1
    return first, second


def test_an_address_is_counted_in_all_processes():
    first, second = two_processes()
    first.add("10.0.0.1", 1)
    second.add("10.0.0.1", 2)
    assert first.total("10.0.0.1") == second.total("10.0.0.1") == 3
    assert first.total("10.0.0.2") == 0
    second.add("10.0.0.1", -1)
    assert first.total("10.0.0.1") == 2


def test_what_a_dead_process_counted_is_forgotten():
    first, second = two_processes()
    first.add("10.0.0.1", 1)
    second.add("10.0.0.1", 5)
    first.clear(1)
    assert second.total("10.0.0.1") == 1


def test_connections_of_one_address_are_limited_in_all_processes_together():
    first, second = two_processes()
    limits = Limits(connections_per_address=2)

    class Quiet(Connections):
        async def _look_after(self):
            pass

    async def enter():
        here, there = Quiet(limits, first), Quiet(limits, second)
        assert here.enter("a", "10.0.0.1")
        assert there.enter("b", "10.0.0.1")
        assert not here.enter("c", "10.0.0.1")
        assert not there.enter("d", "10.0.0.1")
        here.leave("a")
        assert there.enter("d", "10.0.0.1")

    asyncio.run(enter())


def test_limits_are_shared_out_among_processes():
    limits = Limits()
    one = limits.of_one_in(4)
    assert 4 * one.connections >= limits.connections
    assert 4 * one.body_bytes >= limits.body_bytes
    assert one.running_per_place <= one.running < limits.running
    assert one.connections_per_address == limits.connections_per_address
    assert limits.of_one_in(1) == limits


@pytest.fixture
def clock(monkeypatch):
    """The moment that rates see; setting ``clock[0]`` lets time pass."""
    now = [1_000.0]
    monkeypatch.setattr(_admission.time, "monotonic", lambda: now[0])
    return now


def refused_for(rate, person="/ann"):
    """How long a person has to wait; None if nothing is refused."""
    try:
        rate.require(person)
    except TooMany as refusal:
        return refusal.wait
    return None


@pytest.mark.parametrize("shared", [True, False])
def test_free_requests_of_a_person_are_counted_in_all_processes(clock, shared):
    numbers = get_context("spawn").RawArray("d", SharedMoments.size())
    memory = [SharedMoments(numbers, b"key") if shared else SharedMoments() for _ in range(2)]
    here, there = (FreeRate(600, buckets) for buckets in memory)
    here.take("/ann", 300)
    there.take("/ann", 300)
    # Apart, each process has let only half of it pass.
    assert (refused_for(here) is not None, refused_for(there) is not None) == (shared, shared)
    assert refused_for(here, "/bob") is None


def test_a_bucket_fills_again_in_a_minute_and_no_further(clock):
    rate = FreeRate(600)
    for _ in range(600):
        assert refused_for(rate) is None
        rate.take("/ann", 1)
    assert refused_for(rate) == pytest.approx(0.1)
    clock[0] += 0.11
    assert refused_for(rate) is None
    rate.take("/ann", 61)  # One request can be more than is left: then its sender waits longer.
    assert refused_for(rate) == pytest.approx(6.1, abs=0.05)
    clock[0] += 3_600
    rate.take("/ann", 599)
    assert refused_for(rate) is None
    rate.take("/ann", 1)
    assert refused_for(rate) is not None


class _Taken(asyncio.Protocol):
    """A connection that an entrance took, which its process counts."""

    def __init__(self, counts):
        self._counts = counts

    def connection_made(self, transport):
        self._counts.add("10.0.0.1", 1)
        self._transport = transport


@asynccontextmanager
async def entrances(place, *counts):
    """The entrances of several processes, each with a descriptor of its own."""
    with ExitStack() as at_end:
        for count in counts:
            own = at_end.enter_context(place.dup())
            entrance = Entrance([own], lambda count=count: _Taken(count), count)
            at_end.callback(entrance.close)
        yield


async def connect(address, counts):
    """A connection, once one of the processes has taken it."""
    before = counts.total("10.0.0.1")
    _, writer = await asyncio.open_connection(*address)
    await wait_on_loop(lambda: counts.total("10.0.0.1") > before)
    return writer


def test_connections_are_shared_out_evenly():
    first, second = two_processes()

    async def enter():
        with socket.create_server(("127.0.0.1", 0)) as place:
            address = place.getsockname()
            async with entrances(place, first, second):
                opened = [await connect(address, first) for _ in range(20)]
                assert (first.here(), second.here()) == (10, 10)
                for writer in opened:
                    writer.close()

    asyncio.run(enter())


def test_a_process_with_more_connections_takes_what_the_other_leaves():
    first, second = two_processes()
    first.add("10.0.0.1", 5)  # The second has none, and is stopped.

    async def enter():
        with socket.create_server(("127.0.0.1", 0)) as place:
            address = place.getsockname()
            async with entrances(place, first):
                for writer in [await connect(address, first) for _ in range(3)]:
                    writer.close()
                assert (first.here(), second.here()) == (8, 0)

    asyncio.run(enter())


def request_to(path, token, *chunks, ends):
    """A POST in ASGI: its scope, and a ``receive`` that gives these parts of a body. If it does not end with
    them, nothing follows."""
    headers = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b""}
    waiting = list(chunks)

    async def receive():
        if not waiting:
            await asyncio.Event().wait()
        body = waiting.pop(0)
        return {"type": "http.request", "body": body, "more_body": not ends or bool(waiting)}

    return scope, receive


def test_bytes_that_arrive_fast_give_no_right_to_a_long_pause(service):
    """A megabyte at once was worth a minute of silence."""
    token, _ = service.tokens.issue("eve", role="owner")
    statuses = []

    async def send(message):
        statuses.append(message.get("status"))

    limits = Limits(body_seconds=0.2)
    scope, receive = request_to("/v1/gates", token, b"x" * 2**20, ends=False)
    app = create_app(service, limits=limits)
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 30))
    assert statuses[0] == 408


def test_a_person_has_few_long_requests_at_a_time(service):
    """The others wait, and no other person waits for them."""
    ann, bob = (service.tokens.issue(name, role="analyst")[0] for name in ("ann", "bob"))
    running, most, gate = Counter(), Counter(), asyncio.Event()

    async def app(scope, receive, send):
        name = scope[PERSON].name
        running[name] += 1
        most[name] = max(most[name], running[name])
        if name == "bob":
            gate.set()  # Ann's requests run until Bob's has begun.
        await gate.wait()
        running[name] -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def ask(admission, token):
        async def send(message):
            pass

        scope, receive = request_to("/v1/datasets/people/curves", token, b"x" * 3_000, ends=True)
        await admission(scope, receive, send)

    async def everybody():
        admission = _admission.Admission(
            app, service=service, limits=Limits(), gathering=None, neighbours=None
        )
        await asyncio.gather(*(ask(admission, ann) for _ in range(6)), ask(admission, bob))

    asyncio.run(asyncio.wait_for(everybody(), 30))
    assert most == {"ann": 2, "bob": 1}


def read_by(admission, token, path, *, read):
    """A GET whose reply is sent to a client that reads it after ``read``."""
    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
    parts = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        if message["type"] == "http.response.body":
            parts.append(message["body"])
            await read.wait()

    return parts, admission(scope, receive, send)


async def long_reply(scope, receive, send):
    """An app with a reply of a megabyte."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 2**20})


def test_a_reply_that_is_not_read_holds_no_turn_and_little_memory(service):
    """Slow readers of a dataset's book had all of its turns, and the server kept every unread reply."""
    tokens = [service.tokens.issue(f"eve{number}", role="auditor")[0] for number in range(20)]
    owner, _ = service.tokens.issue("olga", role="owner")

    async def everybody():
        never, at_once = asyncio.Event(), asyncio.Event()
        at_once.set()
        admission = _admission.Admission(
            long_reply, service=service, limits=Limits(), gathering=None, neighbours=None
        )
        slow = [
            read_by(admission, token, "/v1/datasets/people/ledger", read=never)
            for token in tokens * 5  # Five requests of each person.
        ]
        tasks = [asyncio.ensure_future(work) for _, work in slow]
        # Others get their turn, and the whole reply.
        parts, work = read_by(admission, owner, "/v1/datasets/people", read=at_once)
        await asyncio.wait_for(work, 10)
        assert b"".join(parts) == b"x" * 2**20
        begun = [parts for parts, _ in slow if parts]
        assert len(begun) == 2 * len(tokens)  # The other requests of these people wait.
        assert max(len(part) for parts in begun for part in parts) <= 2**18
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(everybody())


@pytest.mark.parametrize("refused", ["share", "rate", "batch", "closed"])
def test_refused_questions_are_counted_whatever_refuses_them(service, refused):
    """A question beyond a share is prepared before it is refused. Only some kinds of refusal were counted."""
    owner = service.tokens.issue("olga", role="owner")[1]
    service.administration.change_terms(owner, "other", shares={"/zoe": 0.001})
    service.administration.change_terms(owner, "people", rate=1)
    token, _ = service.tokens.issue("zoe", role="analyst")
    dataset, column = ("people", "age") if refused == "rate" else ("other", "x")
    if refused == "closed":
        service.datasets.get(dataset).guard.close_account()
    replies = []
    with TestClient(create_app(service, limits=Limits(free_per_minute=20))) as client:
        for number in range(24):
            question = {"query": f"share({column} > {(number + 1) / 100})"}
            path, body = f"/v1/datasets/{dataset}/questions", question
            if refused == "batch":
                path, body = f"/v1/datasets/{dataset}/batches", {"questions": [question] * 10}
            reply = client.post(path, json=body, headers={"Authorization": f"Bearer {token}"})
            replies.append(reply.json())
    assert replies[-1]["status"] == 429
    assert "previews and rejected requests" in replies[-1]["detail"]
    answered = [reply for reply in replies if "previews and rejected" not in reply.get("detail", "")]
    assert len(answered) <= {"batch": 3, "rate": 22}.get(refused, 21)  # Some come back meanwhile.


@pytest.mark.parametrize("changed", ["revoked", "role"])
def test_a_token_that_ends_while_the_body_arrives_has_ended(service, monkeypatch, changed):
    """A body may take minutes to arrive, and was then worked on for a token that was revoked long ago."""
    monkeypatch.setattr(_admission, "_TRUSTED_SECONDS", 0.0)
    token, eve = service.tokens.issue("eve", role="analyst")
    scope, receive = request_to(
        "/v1/datasets/people/questions", token, b'{"query": ', b'"share(age > 40)"}', ends=True
    )
    statuses, first = [], True

    async def slowly():
        nonlocal first
        if not first:
            if changed == "revoked":
                service.tokens.revoke(eve.identity)
            else:
                service.tokens.write(service.tokens.changed(eve.identity, role="auditor"))
        first = False
        return await receive()

    async def send(message):
        statuses.append(message.get("status"))

    asyncio.run(asyncio.wait_for(create_app(service)(scope, slowly, send), 30))
    assert statuses[0] == {"revoked": 401, "role": 403}[changed]
    assert service.datasets.get("people").guard.spent == 0
