"""A report through a service, and the terms that make answers narrower."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest
from server_caller import Caller, varied
from server_process import serving

from holdfast import Guard
from holdfast.client import Client
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Report
from holdfast.server import Policy

QUESTIONS = ["share(age > 40)", "mean(income, 0, 1e5)"]


@pytest.fixture
def register(service):
    """Registers the people again under another name, on other terms."""

    def register(name: str, **terms):
        return service.datasets.register(name, varied(service, "people.csv", name), Policy(**terms))

    return register


def report(caller: Caller, dataset: str, questions=QUESTIONS):
    return caller("POST", f"/datasets/{dataset}/report", {"questions": questions})


def problem(response, status: int, *words: str):
    """The words of a refusal."""
    body = response.json()
    assert (response.status_code, body["status"]) == (status, status), body
    assert response.headers["Content-Type"] == "application/problem+json"
    for part in words:
        assert part in body["detail"]


def test_a_report_is_the_guards_own_and_ends_the_account(tmp_path, owner, analyst):
    assert analyst.ask("share(age > 50)").status_code == 200
    spent = analyst("GET", "/datasets/people").json()["spent"]
    problem(analyst("GET", "/datasets/people/report"), 404, "There is no report on 'people'")
    told = report(owner, "people")
    assert told.status_code == 200
    guard = Guard(str(tmp_path / "data" / "people.csv"), error=0.08)
    guard.ask("share(age > 50)")
    expected = guard.report(QUESTIONS)
    assert [(one["value"], one["low"], one["high"]) for one in told.json()["answers"]] == [
        (answer.value, answer.low, answer.high) for answer in expected.answers
    ]
    assert analyst("GET", "/datasets/people/report").json() == told.json()
    assert report(owner, "people").json() == told.json()
    described = analyst("GET", "/datasets/people").json()
    assert (described["closed"], described["reported"], described["spent"]) == (True, True, spent)
    problem(analyst.ask("share(age > 60)"), 409, "closed", "report")
    problem(report(owner, "people", ["share(age > 60)"]), 422, "A report is given once")
    verified = analyst("GET", "/datasets/people/verify").json()
    assert (verified["whole"], verified["problems"]) == (True, [])


def test_the_policy_says_who_may_give_the_report(person, owner, analyst, register):
    register("team", report="analyst")
    bob = person("analyst", "bob", dataset="team")
    auditor = person("auditor")
    problem(report(analyst, "people"), 403, "only an owner", "this token is for an analyst")
    problem(report(auditor, "team"), 403, "auditor")
    problem(report(analyst, "team"), 404)
    assert not analyst("GET", "/datasets/people").json()["may_report"]
    assert not analyst("GET", "/datasets/people").json()["closed"]
    assert bob("GET", "/datasets/team").json()["may_report"]
    told = report(bob, "team").json()
    assert len(told["answers"]) == 2
    assert auditor("GET", "/datasets/team/report").json() == told


def test_a_report_that_cannot_be_given_closes_nothing(owner):
    for body, words in (
        ({"questions": []}, "at least 1 item"),
        ({}, "required"),
        ({"questions": "share(x > 0)"}, "list"),
        ({"questions": ["share(x > 0)", ""]}, "at least 1 character"),
        ({"questions": ["share(x > 0)", "share(y > 0)"]}, "no column 'y'"),
        ({"questions": ["share(x > 0)", "what?"]}, "Cannot read the question"),
        ({"questions": ["share(x > 0)"], "nats": 3}, "Extra inputs"),
    ):
        problem(owner("POST", "/datasets/other/report", body), 422, words)
    described = owner("GET", "/datasets/other").json()
    assert (described["closed"], described["reported"], described["spent"]) == (False, False, 0)


def test_a_closed_account_and_another_strategy_have_no_report(owner, register):
    register("counted", strategy="grid-code", queries=5)
    problem(report(owner, "counted"), 422, "'code'")
    owner("POST", "/datasets/people/close")
    problem(report(owner, "people"), 409, "The account is closed")


def test_describe_says_what_is_promised(service, tmp_path, owner, analyst, person):
    policy = {"expect": 5, "promise": "each"}
    body = {"name": "each", "source": varied(service, "people.csv", "each"), "policy": policy}
    told = owner("POST", "/datasets", body).json()
    assert (told["promise"], told["expect"]) == ("each", 5)
    usual = analyst("GET", "/datasets/people").json()
    assert (usual["promise"], usual["expect"]) == ("all", None)
    guard = Guard(str(tmp_path / "data" / "people.csv"), expect=5, promise="each")
    answer = owner.ask("share(age > 40)", "each").json()
    expected = guard.ask("share(age > 40)")
    assert (answer["low"], answer["high"]) == (expected.low, expected.high)
    assert answer["certificate"]["statement"] == expected.certificate.statement


def test_bad_terms_register_nothing(service, owner):
    source = varied(service, "people.csv", "new")
    for policy, words in (
        ({"expect": 0}, "greater than or equal to 1"),
        ({"expect": "many"}, "number"),
        ({"promise": "some"}, "'all' or 'each'"),
        ({"report": "auditor"}, "'owner' or 'analyst'"),
        ({"expect": 5, "strategy": "grid-code", "queries": 5}, "expect"),
    ):
        body = {"name": "new", "source": source, "policy": policy}
        problem(owner("POST", "/datasets", body), 422, words)
    problem(owner("GET", "/datasets/new"), 404)


@pytest.mark.parametrize("bad", [{"expect": 0.5}, {"promise": "some"}, {"report": "everyone"}])
def test_a_policy_is_checked(bad):
    (name,) = bad
    with pytest.raises(InvalidArgument, match=f"'{name}' argument of Policy"):
        Policy(**bad)


def test_nats_buy_a_finer_answer_alone_and_in_a_batch(owner, register):
    for name in ("usual", "fine", "precise", "batch"):
        register(name)
    question = "share(age > 40)"
    preview = owner("POST", "/datasets/fine/preview", {"query": question, "nats": 3}).json()
    usual = owner.ask(question, "usual").json()
    fine, precise = (
        owner("POST", f"/datasets/{name}/questions", {"query": question, **wish}).json()
        for name, wish in (("fine", {"nats": 3}), ("precise", {"precise": True}))
    )
    assert fine["high"] - fine["low"] < usual["high"] - usual["low"]
    assert fine["cost"] > usual["cost"]
    assert preview["high"] - preview["low"] < usual["high"] - usual["low"]
    batch = {"questions": [{"query": question, "precise": True}]}
    outcome = owner("POST", "/datasets/batch/batches", batch).json()["outcomes"][0]["answer"]
    assert (
        (fine["low"], fine["cost"]) == (precise["low"], precise["cost"]) == (outcome["low"], outcome["cost"])
    )


def test_a_number_of_nats_that_cannot_be_met_charges_nothing(analyst):
    for wish, status, words in (
        ({"nats": 0}, 422, "greater than 0"),
        ({"nats": "many"}, 422, "number"),
        ({"precise": 3}, 422, "bool"),
        ({"nats": 500}, 403, "cannot be given 500 nats"),
    ):
        body = {"query": "share(age > 40)", **wish}
        problem(analyst("POST", "/datasets/people/questions", body), status, words)
        problem(analyst("POST", "/datasets/people/preview", body), status, words)
        problem(analyst("POST", "/datasets/people/batches", {"questions": [body]}), status, words)
    assert analyst("GET", "/datasets/people").json()["spent"] == 0


def test_the_document_knows_the_report(client):
    document = client.get("/openapi.json").json()
    assert set(document["paths"]["/v1/datasets/{name}/report"]) == {"get", "post"}
    schemas = document["components"]["schemas"]
    assert {"nats", "precise"} <= set(schemas["AskBody"]["properties"])
    assert {"expect", "promise", "report"} <= set(schemas["PolicyBody"]["properties"])


@pytest.fixture
def loopback(service, tmp_path):
    """The same service in a process of its own: makes clients of it."""
    tokens = {role: service.tokens.issue(f"{role} there", role=role)[0] for role in ("owner", "analyst")}
    with serving(tmp_path) as said, ExitStack() as at_end:
        yield lambda role, dataset, **options: at_end.enter_context(
            Client(said["url"], tokens[role], dataset=dataset, **options)
        )


def test_a_client_gives_the_report_and_keeps_its_receipt(loopback, tmp_path):
    receipts = tmp_path / "receipts"
    owner = loopback("owner", "other", receipts=receipts)
    question = "share(x > 0.1)"
    assert owner.cost_preview(question, nats=3).half_width < owner.cost_preview(question).half_width
    with pytest.raises(BudgetSpent, match="cannot be given 1000 nats"):
        loopback("analyst", "people").share("age > 40", nats=1000)
    with pytest.raises(InvalidArgument, match="nats"):
        owner.ask(question, nats=-1)
    with pytest.raises(InvalidArgument, match="at least one question"):
        owner.report([])
    assert (owner.spent, owner.reported) == (0, None)
    assert owner.share("x > 0.1", precise=True).cost > 0
    (asked,) = owner.ask_all(["share(x > 0.7)"], nats=2)
    assert asked.cost > 0
    analyst = loopback("analyst", "other")
    with pytest.raises(HoldfastError, match="only an owner"):
        analyst.report([question])
    assert not owner.closed
    told = owner.report(["share(x > 0.5)", "mean(x, 0, 1)"])
    assert isinstance(told, Report)
    assert len(told.to_frame()) == 2
    assert "2 questions had been answered before" in told.text
    assert owner.report(["share(x > 0.5)", "mean(x, 0, 1)"]) == told == analyst.reported
    with pytest.raises(QueryRejected, match="given once"):
        owner.report([question])
    owner.export(tmp_path / "book.jsonl")
    kept = [json.loads(line) for line in receipts.read_text().splitlines()]
    assert told.receipt.to_dict() in kept
    assert owner.verify(tmp_path / "book.jsonl").whole
