"""A reply that is given again from memory: the same bytes, to the same people, and nothing else."""

from __future__ import annotations

import pandas as pd
import pytest

from holdfast.server import Service

QUESTION = "share(x > 0.5)"
PATH = "/v1/datasets/other/questions"


@pytest.fixture
def replies(service, monkeypatch):
    """Which plain questions were answered from memory, in order."""
    given = []
    has, reply = service.recorded.has, service.recorded.reply

    def looked_for(question):
        given.append(False)
        return has(question)

    def taken(guard, question):
        kept = reply(guard, question)
        given[-1] = kept is not None
        return kept

    monkeypatch.setattr(service.recorded, "has", looked_for)
    monkeypatch.setattr(service.recorded, "reply", taken)
    return given


def ask(caller, **body):
    return caller.client.post(PATH, json=body, headers={"Authorization": f"Bearer {caller.token}"})


def test_the_second_reply_is_the_first_one_and_costs_nothing(person, service, replies):
    ann, bob = person("analyst", "ann"), person("analyst", "bob")
    first = ask(ann, query=QUESTION)
    spent = service.datasets.get("other").guard.spent
    for caller in (ann, bob):
        again = ask(caller, query=QUESTION)
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["cache-control"] == "no-store"
        assert again.headers["content-type"] == first.headers["content-type"]
    assert replies == [False, True, True]
    assert service.datasets.get("other").guard.spent == spent


def test_a_reply_from_memory_is_counted_as_a_cached_question(client, person, replies):
    ann = person("analyst", "ann")
    for _ in range(3):
        ask(ann, query=QUESTION)
    assert replies == [False, True, True]
    text = client.app.state.metrics.text().decode()
    assert 'holdfast_questions_total{kind="questions",outcome="cached"} 2.0' in text
    assert 'holdfast_questions_total{kind="questions",outcome="answered"} 1.0' in text


@pytest.mark.parametrize(
    ("role", "options", "status"),
    [("auditor", {}, 403), ("analyst", {"dataset": "people"}, 404), ("participant", {}, 403)],
)
def test_people_without_the_right_to_ask_get_no_reply_from_memory(person, replies, role, options, status):
    ask(person("analyst", "ann"), query=QUESTION)
    assert ask(person(role, "eve", **options), query=QUESTION).status_code == status
    assert replies == [False, False]


def test_a_revoked_token_gets_no_reply_from_memory(person, service, replies):
    ann = person("analyst", "ann")
    ask(ann, query=QUESTION)
    service.tokens.revoke(service.tokens.holder(ann.token).identity)
    assert ask(ann, query=QUESTION).status_code == 401
    assert replies == [False]


@pytest.mark.parametrize(
    "body",
    [
        {"query": QUESTION, "nats": 1.0},
        {"query": QUESTION, "precise": True},
        {"query": QUESTION, "unknown": 1},
        {"query": [QUESTION]},
        {},
    ],
)
def test_a_request_with_other_fields_takes_the_long_way(person, replies, body):
    ann = person("analyst", "ann")
    ask(ann, query=QUESTION)
    ask(ann, **body)
    assert replies == [False]


def test_a_request_with_a_key_takes_the_long_way(person, client, replies):
    ann = person("analyst", "ann")
    ask(ann, query=QUESTION)
    headers = {"Authorization": f"Bearer {ann.token}", "Idempotency-Key": "one"}
    assert client.post(PATH, json={"query": QUESTION}, headers=headers).status_code == 200
    assert client.post(PATH, json={"query": "share(x > 0.6)"}, headers=headers).status_code in (200, 422)
    assert replies == [False]


def test_a_body_that_is_no_json_takes_the_long_way(person, client, replies):
    ann = person("analyst", "ann")
    ask(ann, query=QUESTION)
    headers = {"Authorization": f"Bearer {ann.token}", "Content-Type": "text/plain"}
    assert client.post(PATH, content=b'{"query": "share(x > 0.5)"}', headers=headers).status_code == 422
    headers["Content-Type"] = "application/json"
    assert client.post(PATH, content=b"{", headers=headers).status_code == 422
    assert replies == [False]


def test_a_new_epoch_has_answers_of_its_own(person, service, replies, rng):
    ann = person("analyst", "ann")
    first = ask(ann, query=QUESTION).json()
    pd.DataFrame({"x": rng.random(3_000)}).to_parquet(service.sources / "later.parquet")
    owner = person("owner")
    opened = owner.client.post(
        "/v1/datasets/other/epochs",
        json={"source": "later.parquet"},
        headers={"Authorization": f"Bearer {owner.token}"},
    )
    assert opened.status_code == 201, opened.text
    replies.clear()
    later = ask(ann, query=QUESTION).json()
    assert replies == [False]
    assert later["receipt"]["book"] != first["receipt"]["book"]


def test_another_process_that_changes_the_list_is_noticed(person, service, replies, rng):
    ann = person("analyst", "ann")
    ask(ann, query=QUESTION)
    pd.DataFrame({"x": rng.random(500)}).to_parquet(service.sources / "more.parquet")
    other = Service(service.home)
    other.datasets.register("more", "more.parquet", service.datasets.get("other").policy)
    other.close()
    assert ask(ann, query=QUESTION).status_code == 200
    assert ask(ann, query=QUESTION).status_code == 200
    assert replies == [False, False, True]  # The list is looked at once, then all is as it was.


def test_few_replies_are_kept(service):
    recorded, guard = service.recorded, service.datasets.get("other").guard
    for number in range(5_000):
        recorded.keep(guard, f"q{number}", b"x")
    recorded.keep(guard, "long", b"x" * 20_000)
    kept = [recorded.reply(guard, f"q{number}") for number in range(5_000)]
    assert kept == [None] * (5_000 - 4_096) + [b"x"] * 4_096
    assert recorded.reply(guard, "long") is None
    assert not recorded.has("long")


@pytest.mark.parametrize(
    "question", ["share(x >", "share(nothing > 1)", "mean(x, 0, 1, guess = 5)", "", "share(x > 0.5)" * 3_000]
)
def test_errors_are_the_same_on_both_ways(person, client, question):
    ann = person("analyst", "ann")
    short = ask(ann, query=question)
    long = ask(ann, query=question, precise=False)
    assert short.status_code == long.status_code != 200
    assert short.json() == long.json()
    assert short.headers["content-type"] == long.headers["content-type"] == "application/problem+json"


def test_both_ways_are_measured_alike(person, client):
    ann = person("analyst", "ann")
    assert ask(ann, query=QUESTION).status_code == 200
    assert ask(ann, query="share(x > 0.25)", precise=False).status_code == 200
    assert ask(person("auditor", "eve"), query="share(x > 0.75)").status_code == 403
    text = client.app.state.metrics.text().decode()
    route = 'method="POST",route="/v1/datasets/{name}/questions"'
    assert f'holdfast_requests_total{{{route},status="200"}} 2.0' in text
    assert f'holdfast_requests_total{{{route},status="403"}} 1.0' in text
    assert 'holdfast_questions_total{kind="questions",outcome="answered"} 2.0' in text
