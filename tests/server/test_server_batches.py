"""Several questions in one request: asked together, so that none pays for the others, with refusals in their
place."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pandas as pd
import pytest
from server_caller import varied

from holdfast import Guard
from holdfast.client import Client
from holdfast.errors import BudgetSpent, HoldfastError, QueryRejected
from holdfast.guard import Answer, Asker
from holdfast.ledger import Book
from holdfast.server import Arrived, Policy

QUESTIONS = [
    *(f"share(x > 0.{digit}, guess = 0.{9 - digit})" for digit in range(1, 9)),
    "mean(x, 0, 1)",
    "quantile(x, 0.5)",
    *(f"share(x < 0.{digit}5)" for digit in range(1, 9)),
    "share(x > 0.1)",
]


def batch(caller, questions, dataset="other", **more):
    sent = [
        {"query": question} if isinstance(question, str) else {"query": question[0], "key": question[1]}
        for question in questions
    ]
    return caller("POST", f"/datasets/{dataset}/batches", {"questions": sent, **more})


def spent(owner, dataset="other"):
    return owner("GET", f"/datasets/{dataset}").json()["spent"]


@pytest.mark.parametrize("error", [None, 0.08])
def test_a_batch_is_that_of_the_guard_and_nobody_pays_for_the_others(service, owner, person, error):
    for name in ("alone", "together"):
        service.datasets.register(name, varied(service, "other.parquet", name), Policy(error=error))
    ann = person("analyst", "ann", team="red")
    outcomes = batch(ann, QUESTIONS, "together").json()["outcomes"]
    guard = Guard(service.sources / "other.parquet", error=error)
    for one, other in zip(guard.answer_each([(q, Asker()) for q in QUESTIONS]), outcomes, strict=True):
        if isinstance(one, Answer):
            assert (one.value, one.low, one.high, one.cost) == tuple(
                other["answer"][name] for name in ("value", "low", "high", "cost")
            )
        else:
            assert str(one) == other["problem"]["detail"]
    assert spent(owner, "together") == guard.spent > 0
    if error is None:
        alone = [ann.ask(question, "alone").json() for question in QUESTIONS]
        width = sum(outcome["answer"]["high"] - outcome["answer"]["low"] for outcome in outcomes)
        assert width < sum(one["high"] - one["low"] for one in alone)
    balance = service.datasets.get("together").guard._session.balance
    assert balance.people == {"red/ann": round(spent(owner, "together") * 1e6)}
    assert owner("GET", "/datasets/together/verify").json()["whole"]


def test_many_questions_wait_for_the_disk_twice(owner, monkeypatch):
    written, append_all = [], Book.append_all

    def counted(book, entries, **options):
        written.append(len(entries))
        return append_all(book, entries, **options)

    monkeypatch.setattr(Book, "append_all", counted)
    assert all("answer" in one for one in batch(owner, QUESTIONS[:8]).json()["outcomes"])
    assert written == [8, 8]


def test_a_share_that_is_used_up_refuses_one_question_and_not_the_others(service, person, owner):
    asked = [
        "share(x > 0.5)",
        "share(x > 0.3, guess = 0.001)",
        "share(x > 0.2, guess = 0.001)",
        "share(x > 0.6)",
    ]
    # All of a batch is reserved together. A share of nothing says how much: enough for all but the third.
    service.datasets.register(
        "nothing", varied(service, "other.parquet", "nothing"), Policy(shares={"red/eve": 0})
    )
    eve = person("analyst", "eve", team="red")
    refusals = [one["problem"] for one in batch(eve, asked, "nothing").json()["outcomes"]]
    first, second, expensive, cheap = (refusal["asked"] for refusal in refusals)
    share = first + second + (cheap + expensive) / 2
    service.datasets.register(
        "shared", varied(service, "other.parquet", "shared"), Policy(shares={"red/bob": share, "red/eve": 0})
    )
    bob = person("analyst", "bob", team="red")
    outcomes = batch(bob, asked, "shared").json()["outcomes"]
    assert [next(iter(outcome)) for outcome in outcomes] == ["answer", "answer", "problem", "answer"]
    problem = outcomes[2]["problem"]
    assert (problem["status"], problem["type"]) == (403, "urn:holdfast:budget-spent")
    assert problem["asked"] > problem["left"] > 0
    paid = sum(outcome["answer"]["cost"] for outcome in outcomes if "answer" in outcome)
    assert spent(owner, "shared") == pytest.approx(paid, abs=1e-9)
    assert paid < share
    stopped = batch(eve, [asked[2], "share(x > 0.7)"], "shared", stop=True).json()["outcomes"]
    assert [next(iter(one)) for one in stopped] == ["problem"]
    assert spent(owner, "shared") == pytest.approx(paid, abs=1e-9)


def test_a_rate_counts_every_question_of_a_batch(service, person):
    service.datasets.register("slow", varied(service, "other.parquet", "slow"), Policy(rate=5))
    caller = person("analyst", "fast")
    asked = [f"share(x > 0.{digit})" for digit in range(1, 8)]
    outcomes = batch(caller, asked, "slow").json()["outcomes"]
    assert ["problem" in outcome for outcome in outcomes] == [False] * 5 + [True] * 2
    assert outcomes[5]["problem"]["status"] == 429
    assert 0 < outcomes[5]["problem"]["wait"] <= 60
    again = batch(caller, asked[:5], "slow").json()["outcomes"]  # What is known is free of rates.
    assert again == outcomes[:5]


def test_a_batch_that_is_sent_again_is_answered_and_charged_once(person, owner):
    ann = person("analyst", "ann")
    keyed = [(question, f"key{number}") for number, question in enumerate(QUESTIONS[:6])]
    first, paid = batch(ann, keyed).json(), spent(owner)
    assert batch(ann, keyed).json() == first
    assert (
        ann.ask(QUESTIONS[0], "other", **{"Idempotency-Key": "key0"}).json() == first["outcomes"][0]["answer"]
    )
    other = batch(ann, [("share(x > 0.77)", "key0"), ("share(x > 0.78)", "new"), ("share(x > 0.79)", "new")])
    outcomes = other.json()["outcomes"]
    assert [outcome["problem"]["status"] if "problem" in outcome else 200 for outcome in outcomes] == [
        422,
        200,
        422,
    ]
    assert outcomes[2]["problem"]["asked"] == 0
    assert spent(owner) == pytest.approx(paid + outcomes[1]["answer"]["cost"], abs=1e-9)


def test_a_mistake_in_one_refuses_all_and_costs_nothing(person, owner):
    ann = person("analyst", "ann")
    refused = batch(ann, ["share(x > 0.5)", "share(y > 0.5)"])
    assert refused.status_code == 422
    assert "'y'" in refused.json()["detail"]
    for wrong in ([], ["share(x > 0.5)"] * 101, [("share(x > 0.5)", "k" * 201)]):
        assert batch(ann, wrong).status_code == 422
    assert spent(owner) == 0


def test_a_batch_that_is_sent_again_after_a_new_epoch_has_the_answers_it_had(service, person, owner, rng):
    ann = person("analyst", "ann")
    keyed = [("share(x > 0.5)", "a"), ("share(x > 0.6)", "b")]
    first = batch(ann, keyed).json()["outcomes"]
    pd.DataFrame({"x": rng.random(1000)}).to_parquet(service.sources / "later.parquet")
    service.datasets.next_epoch("other", Arrived("later.parquet"))
    mixed = batch(ann, [("share(x > 0.7)", "c"), keyed[1], keyed[0], ("share(x > 0.5)", "d")]).json()[
        "outcomes"
    ]
    assert [mixed[2], mixed[1]] == first
    assert spent(owner) == pytest.approx(mixed[0]["answer"]["cost"] + mixed[3]["answer"]["cost"], abs=1e-9)


@pytest.fixture
def through(service, client, monkeypatch):
    """A client of the service in this process, and the paths it sends to."""

    def through(name, dataset, **options):
        token = service.tokens.issue(name, role="analyst")[0]
        made = Client("http://service", token, dataset=dataset, **options)
        made._http.close()
        sent = []

        def request(method, path, **options):
            sent.append(path)
            headers = {"Authorization": f"Bearer {token}", **options.pop("headers")}
            return client.request(method, f"/v1{path}", headers=headers, **options)

        monkeypatch.setattr(made._http, "request", request)
        return made, sent

    return through


def test_a_client_asks_all_in_one_request(through, tmp_path, owner):
    client, sent = through("ann", "other", receipts=tmp_path / "receipts")
    answers = client.ask_all(QUESTIONS)
    assert sent == ["/datasets/other/batches"]
    assert [str(answer.query) for answer in answers[:2]] == ["share(x > 0.1)", "share(x > 0.2)"]
    assert answers[-1] == answers[0]
    assert len((tmp_path / "receipts").read_text().splitlines()) == len(QUESTIONS)
    assert client.ask_all([]) == []
    many = [f"share(x > {number / 1000}, guess = {1 - number / 1000})" for number in range(1, 121)]
    assert [answer.cost for answer in client.ask_all(many)] == [client.ask(one).cost for one in many]
    assert sent[1:3] == ["/datasets/other/batches"] * 2


def test_a_client_stops_at_a_refusal_and_waits_for_a_minute_that_is_full(
    service, through, monkeypatch, owner
):
    service.datasets.register(
        "tight", varied(service, "other.parquet", "tight"), Policy(rate=4, shares={"/bob": 20.0})
    )
    client, sent = through("ann", "tight")
    slept, clock = [], time.time
    monkeypatch.setattr(time, "time", lambda: clock() + sum(slept))
    monkeypatch.setattr("holdfast.client._client.time", SimpleNamespace(sleep=slept.append))
    answers = client.ask_all([f"share(x > 0.{digit})" for digit in range(1, 10)])
    assert len(answers) == 9
    assert len(sent) == 3
    assert all(0 < seconds <= 60 for seconds in slept)
    assert len(slept) == 2
    bob, _ = through("bob", "tight")
    before = spent(owner, "tight")
    with pytest.raises(BudgetSpent) as refused:
        bob.ask_all(["share(x > 0.33)", "share(x > 0.22, guess = 0.001)", "share(x > 0.55)"])
    assert refused.value.asked > refused.value.left
    bob_paid = service.datasets.get("tight").guard._session.balance.spent_by("/bob") / 1e6
    assert spent(owner, "tight") == pytest.approx(before + bob_paid, abs=1e-6)
    assert len(owner("GET", "/datasets/tight/history").json()["answers"]) == 10  # Nothing after the refusal.
    with pytest.raises(QueryRejected, match="'y'"):
        bob.ask_all(["share(x > 0.91)", "share(y > 1)"])
    hasty, _ = through("cleo", "tight", tries=1)
    with pytest.raises(HoldfastError, match="429"):
        hasty.ask_all([f"share(x > 0.{digit}7)" for digit in range(1, 8)])
