"""Plain questions that arrive while others are answered: one thread takes them all, and each has the reply
that it would have by itself."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from holdfast.guard import Guard
from holdfast.server import create_app
from waiting import wait_until

PATH = "/v1/datasets/other/questions"
LIMITS = [number / 10 for number in range(1, 8)]


@pytest.fixture
def client(service):
    """One event loop for all requests, as a server has."""
    with TestClient(create_app(service)) as client:
        yield client


@pytest.fixture
def groups(monkeypatch):
    """How many questions each thread was given."""
    sizes, answer = [], Guard.answer_apart

    def noted(self, questions):
        sizes.append(len(questions))
        return answer(self, questions)

    monkeypatch.setattr(Guard, "answer_apart", noted)
    return sizes


def all_at_once(client, service, asked):
    """The replies to pairs of a token and a question. The first one has the turn; the others come while it
    waits for the account."""
    guard = service.datasets.get("other").guard

    def post(token, question):
        return client.post(PATH, json={"query": question}, headers={"Authorization": f"Bearer {token}"})

    with ThreadPoolExecutor(len(asked)) as people:
        with guard._session.turn():
            first = people.submit(post, *asked[0])
            wait_until(lambda: guard._session.waiting)
            others = [people.submit(post, *pair) for pair in asked[1:]]
            admission = client.app.middleware_stack
            wait_until(lambda: waiting_in(admission) == len(others))
        return [one.result(timeout=60) for one in (first, *others)]


def waiting_in(layer):
    """How many questions wait for the thread that is answering."""
    while not hasattr(layer, "_gathering"):
        layer = getattr(layer, "_app", None) or layer.app
    return sum(map(len, layer._gathering._waiting.values()))


def test_each_has_its_answer_and_pays_for_it(client, person, service, groups):
    people = [person("analyst", f"p{place}") for place in range(len(LIMITS))]
    asked = [(one.token, f"share(x > {limit})") for one, limit in zip(people, LIMITS, strict=True)]
    replies = all_at_once(client, service, asked)
    assert [reply.status_code for reply in replies] == [200] * len(LIMITS)
    assert groups == [len(LIMITS) - 1]
    guard = service.datasets.get("other").guard
    for reply, limit in zip(replies, LIMITS, strict=True):
        assert reply.json() == guard.ask(f"share(x > {limit})").to_dict()
    assert {f"p{place}" for place in range(len(LIMITS))} <= {name.split("/")[-1] for name in charged(service)}
    text = client.app.state.metrics.text().decode()
    assert f'holdfast_questions_total{{kind="questions",outcome="answered"}} {len(LIMITS)}.0' in text


def charged(service):
    """Whose questions the book has reservations of."""
    events = service.datasets.get("other").book.events()
    return [event.body["by"] for event in events if event.kind == "reserve"]


def test_a_mistake_and_a_missing_right_are_reported_only_to_the_person_who_asked(
    client, person, service, groups
):
    ann, eve = person("analyst", "ann"), person("auditor", "eve")
    elsewhere = person("analyst", "uma", dataset="people")
    asked = [
        (ann.token, "share(x > 0.1)"),
        (ann.token, "share(nothing > 0.1)"),
        (eve.token, "share(x > 0.2)"),
        (elsewhere.token, "share(x > 0.3)"),
        (ann.token, "share(x > 0.4)"),
    ]
    replies = all_at_once(client, service, asked)
    assert [reply.status_code for reply in replies] == [200, 422, 403, 404, 200]
    assert groups == [2]
    assert len(charged(service)) == 2


def test_an_unexpected_error_stops_only_its_own_question(client, person, service, monkeypatch):
    def broken(self, questions):
        raise RuntimeError("nobody expected this")

    monkeypatch.setattr(Guard, "answer_apart", broken)
    ann = person("analyst", "ann")
    replies = all_at_once(client, service, [(ann.token, f"share(x > {limit})") for limit in LIMITS])
    assert [reply.status_code for reply in replies] == [200] * len(LIMITS)
    # Each new answer is counted for the request that asked for it.
    text = client.app.state.metrics.text().decode()
    assert 'holdfast_questions_total{kind="questions",outcome="cached"} 0.0' in text
