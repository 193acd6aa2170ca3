"""Workers pass questions on to the home of a dataset, and answer themselves where it says nothing."""

from __future__ import annotations

import asyncio
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pytest
from starlette.responses import JSONResponse, Response

from holdfast.registry import Grant, Person
from holdfast.server import _neighbours, _short_way
from holdfast.server._neighbours import Homes, Neighbours
from holdfast.server._observation import Tracing, begin_request, count_new
from holdfast.server._requests import AskBody
from holdfast.server._short_way import Gathering, PlainQuestion
from waiting import wait_on_loop, wait_until

ANN = Person(
    "id", "ann", "team", "analyst", "dataset:t", 10**10, also=(Grant("owner", "board:b"), Grant("x", "*"))
)


def homes(workers=2):
    return Homes(get_context("spawn").RawArray("B", Homes.size()), workers, b"key")


def question(text="share(x > 1)", name="t"):
    return PlainQuestion(name, AskBody(query=text))


class Worker:
    """A worker that answers with its own number. ``asked`` is what came to it, and from whom."""

    def __init__(self, folder, row, shared):
        self.row, self.asked, self.held = row, [], None
        self.neighbours = Neighbours(folder, row, shared)

    async def answer(self, question, person):
        self.asked.append((question, person))
        count_new(3)
        if self.held is not None:
            await self.held
        if question.body.query == "broken":
            raise ValueError
        status = 429 if question.body.query == "refused" else 200
        return JSONResponse({"row": self.row, "é": "ü"}, status, headers={"Retry-After": "7"})


@pytest.fixture
def folder():
    # The path of a socket may not be long.
    with TemporaryDirectory() as folder:
        yield Path(folder)


def with_two_workers(folder, test):
    """Run a test with two workers; the dataset ``t`` is at home in the second."""
    shared = homes()
    shared.of("another")
    assert shared.of("t") == 1

    async def run():
        workers = [Worker(folder, row, shared) for row in (0, 1)]
        for worker in workers:
            await worker.neighbours.start(worker.answer, Tracing())
        try:
            await test(*workers)
        finally:
            for worker in workers:
                worker.neighbours.close()

    asyncio.run(run())


def test_datasets_are_shared_out_and_stay_where_they_are():
    shared = homes(3)
    rows = [shared.of(f"dataset-{number}") for number in range(30)]
    assert [rows.count(row) for row in range(3)] == [10, 10, 10]
    assert rows == [shared.of(f"dataset-{number}") for number in range(30)]


def test_the_home_answers_and_the_reply_comes_back_as_it_is(folder):
    async def test(first, second):
        request = begin_request("POST")
        reply = await first.neighbours.reply(question(), ANN)
        here = await second.answer(question(), ANN)
        assert (reply.status_code, reply.body, reply.raw_headers) == (200, here.body, here.raw_headers)
        assert request.new_answers == 3 + 3  # Those of the home, and those that were just counted here.
        refused = await first.neighbours.reply(question("refused"), ANN)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
        assert second.asked[0] == (question(), ANN)
        assert first.asked == []

    with_two_workers(folder, test)


def test_many_at_once_have_their_own_replies(folder):
    async def test(first, second):
        texts = [f"share(x > {number})" * 50 for number in range(200)]
        replies = await asyncio.gather(*(first.neighbours.reply(question(text), ANN) for text in texts))
        assert {reply.status_code for reply in replies} == {200}
        assert [asked.body.query for asked, _ in second.asked] == texts

    with_two_workers(folder, test)


def test_the_home_itself_and_words_that_were_passed_on_are_answered_where_they_arrive(folder):
    async def test(first, second):
        assert await second.neighbours.reply(question(), ANN) is None
        assert await first.neighbours.reply(question(), ANN) is not None
        assert await first.neighbours.reply(question(), ANN) is None
        assert await first.neighbours.reply(question(name="t@2"), ANN) is not None
        assert len(second.asked) == 2

    with_two_workers(folder, test)


def test_an_unexpected_error_is_raised_where_the_question_was_asked(folder):
    async def test(first, second):
        assert await first.neighbours.reply(question("broken"), ANN) is None
        assert await first.neighbours.reply(question(), ANN) is not None

    with_two_workers(folder, test)


def test_a_home_that_is_gone_is_not_waited_for(folder):
    async def test(first, second):
        assert await first.neighbours.reply(question("a"), ANN) is not None
        second.held = asyncio.get_running_loop().create_future()
        asked = asyncio.ensure_future(first.neighbours.reply(question("b"), ANN))
        await wait_on_loop(lambda: len(second.asked) == 2)
        first.neighbours.close()  # The stream ends, as it does when the other process dies.
        second.neighbours.close()
        assert await asked is None
        assert await first.neighbours.reply(question("c"), ANN) is None
        second.held.cancel()

    with_two_workers(folder, test)


def test_a_home_that_says_nothing_is_asked_nothing_until_it_speaks(folder, monkeypatch):
    monkeypatch.setattr(_neighbours, "_PATIENCE", 0.02)
    monkeypatch.setattr(_neighbours, "_LOOK_EVERY", 0.01)

    async def test(first, second):
        second.held = asyncio.get_running_loop().create_future()
        assert await first.neighbours.reply(question("a"), ANN) is None
        assert await first.neighbours.reply(question("b"), ANN) is None
        assert [asked.body.query for asked, _ in second.asked] == ["a"]
        second.held.set_result(None)
        monkeypatch.setattr(_neighbours, "_PATIENCE", 1e6)
        await wait_on_loop(lambda: not first.neighbours.is_silent(1))
        assert await first.neighbours.reply(question("c"), ANN) is not None
        assert second.asked[-1][0].body.query == "c"

    with_two_workers(folder, test)


def test_no_socket_is_no_reason_to_stop(folder, caplog):
    async def test():
        worker = Worker(folder / ("long" * 50), 0, homes())
        await worker.neighbours.start(worker.answer, Tracing())
        worker.neighbours.close()

    asyncio.run(test())
    assert "takes no questions from others" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", [0.0, pytest.param(60.0, marks=pytest.mark.xfail(raises=TimeoutError))])
async def test_a_busy_dataset_leaves_its_thread_to_others(service, monkeypatch, seconds):
    """One thread, and a dataset about which somebody always asks. It may not keep the thread for long."""
    gathering = Gathering(service, 1)
    busy, other = question(name="busy"), question(name="other")
    begun, over = Event(), Event()

    def replies(service, group):
        begun.set()
        # The next question is there before this one has its reply.
        wait_until(lambda: over.is_set() or group[0].question is other or any(gathering._waiting.values()))
        return [Response() for _ in group]

    async def ask_on():
        while not over.is_set():
            await gathering.reply(busy, ANN)

    monkeypatch.setattr(_short_way, "_replies", replies)
    monkeypatch.setattr(_short_way, "_MOST_SECONDS", seconds)
    tasks = [asyncio.create_task(ask_on()) for _ in range(3)]
    try:
        await wait_on_loop(begun.is_set)
        async with asyncio.timeout(30 if seconds == 0.0 else 1):
            await gathering.reply(other, ANN)
    finally:
        over.set()
        await asyncio.gather(*tasks)
