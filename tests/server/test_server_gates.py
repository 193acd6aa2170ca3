"""Gates over HTTP: what replies show and hide, tokens that may only submit, two processes, bad requests."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from server_caller import Caller, varied
from server_gate_workers import people, scores, submit_all
from server_process import serving
from starlette.testclient import TestClient

from holdfast.client import Client
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.ledger import Receipt, read_receipts, verify
from holdfast.registry import GivenResults
from holdfast.server import Policy, Service, create_app

FIRST, BETTER = scores(280), scores(330)
SEEN = "The scores passed through the submitter's hands."
PUBLIC = {"name", "promoted", "margin", "low", "cost", "incumbent", "place", "level", "repeated", "refused"}
PUBLIC |= {"text", "assumed", "receipt"}


@pytest.fixture
def gate(owner):
    """A gate, and a function that submits to it."""
    body = {"name": "agent", "results": {"scores": FIRST}, "incumbent": "v1"}
    made = owner("POST", "/gates", body)
    assert made.status_code == 201, made.text

    def submit(caller, name, candidate, **more):
        return caller("POST", "/gates/agent/submissions", {"name": name, "scores": candidate, **more})

    return submit


@pytest.fixture
def harness(person):
    return person("submitter", "ci", dataset="gate:agent")


def spent(service):
    return service.gates.get("agent").gate.spent


def test_a_better_candidate_is_promoted_and_the_reply_shows_nothing_else(gate, harness, owner):
    told = gate(harness, "v2", BETTER).json()
    assert set(told) == PUBLIC
    assert (told["promoted"], told["incumbent"], told["place"]) == (True, "v1", 1)
    assert 0 < told["margin"] <= 50 / 400
    assert Receipt(**told["receipt"]).signed_by(owner("GET", "/key").json()["key"])
    worse = gate(harness, "v3", scores(331)).json()
    assert (worse["promoted"], worse["margin"], worse["low"], worse["incumbent"]) == (False, 0, -1, "v2")
    described = owner("GET", "/gates/agent").json()
    assert [(version["name"], version["place"]) for version in described["versions"]] == [
        ("v1", 0),
        ("v2", 1),
    ]
    assert described["versions"][1]["margin"] == described["certified_gain"] == told["margin"]
    assert described["submissions"] == 2
    assert "The incumbent is 'v2'" in described["text"]
    assert not {"score", "scores"} & set(json.dumps(described).replace('"', " ").split())


def test_the_same_name_again_is_free_and_says_so(gate, harness, person, service):
    first = gate(harness, "v2", BETTER).json()
    before = spent(service)
    # Other scores, another person and another role: the name decides, and they are not looked at.
    for caller in (harness, person("participant", "pia", dataset="gate:agent")):
        again = gate(caller, "v2", FIRST).json()
        assert again == {**first, "repeated": True, "cost": 0}
    assert spent(service) == before


def test_scores_are_sealed_where_a_token_may_only_submit(gate, harness, person, owner):
    for caller, name, sealed in (
        (harness, "a", True),
        (person("analyst", "ann"), "b", False),
        (person("participant", "pia", dataset="gate:agent"), "c", False),
        (owner, "d", False),
    ):
        told = gate(caller, name, FIRST).json()
        assert any(SEEN in sentence for sentence in told["assumed"]) == (not sealed), name


def test_a_token_that_may_only_submit_learns_no_task(gate, harness, person, service):
    wrong = {
        "too few": {"task 0": 1},
        "unknown": {**BETTER, "task x": 1},
        "others": {str(number): 1 for number in range(400)},
    }
    for candidate in wrong.values():
        refused = gate(harness, "v2", candidate)
        assert refused.status_code == 422
        assert "does not say which" in refused.json()["detail"]
        assert "'task" not in refused.text
    refused = gate(harness, "v2", BETTER, outputs={"task 0": "yes"})
    assert "The outputs are not for the tasks of this gate: 399 of its 400" in refused.json()["detail"]
    named = gate(person("analyst", "ann"), "v2", wrong["too few"])
    assert "for example 'task 1'" in named.json()["detail"]
    assert spent(service) == 0


HUGE = "1" + "0" * 400
NESTED = "[" * 100_000
BAD = {
    "no JSON": "{",
    "a list": "[]",
    "nested": NESTED,
    "no name": json.dumps({"scores": BETTER}),
    "an empty name": json.dumps({"name": "", "scores": BETTER}),
    "a long name": json.dumps({"name": "v" * 201, "scores": BETTER}),
    "a name of lines": json.dumps({"name": "v\n2", "scores": BETTER}),
    "a number as name": json.dumps({"name": 2, "scores": BETTER}),
    "no scores": json.dumps({"name": "v2"}),
    "empty scores": json.dumps({"name": "v2", "scores": {}}),
    "a list of scores": json.dumps({"name": "v2", "scores": list(BETTER.values())}),
    "more than is known": json.dumps({"name": "v2", "scores": BETTER, "sealed": True}),
    "NaN": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": float("nan")}}),
    "infinity": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": float("inf")}}),
    "above 1": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": 1.5}}),
    "below 0": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": -0.1}}),
    "huge": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": 123}}).replace("123", HUGE),
    "too many digits": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": 123}}).replace(
        "123", "1" * 5000
    ),
    "text": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": "good"}}),
    "null": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": None}}),
    "a mapping": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": {"a": [1]}}}),
    "lists in lists": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": [[1]]}}),
    "no repeats": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": []}}),
    "a fraction": json.dumps({"name": "v2", "scores": {**BETTER, "task 7": 0.5}}),
    "half a character": json.dumps({"name": "v2", "scores": {**BETTER, "\ud800": 1}}),
    "half a character in outputs": json.dumps(
        {"name": "v2", "scores": BETTER, "outputs": dict.fromkeys(BETTER, "\ud800")}
    ),
    "outputs that are no text": json.dumps({"name": "v2", "scores": BETTER, "outputs": {"task 7": 3}}),
    "outputs for some": json.dumps({"name": "v2", "scores": BETTER, "outputs": {"task 7": "yes"}}),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_request_is_a_problem_and_costs_nothing(gate, harness, owner, service, what):
    for caller in (harness, owner):
        headers = {**caller.headers, "Content-Type": "application/json"}
        refused = caller.client.post("/v1/gates/agent/submissions", content=BAD[what], headers=headers)
        assert refused.status_code in (400, 422), refused.text
        assert refused.headers["Content-Type"] == "application/problem+json"
        if caller is harness:
            assert "task 7" not in refused.text or "outputs" in what  # A score is never pointed at.
    assert spent(service) == 0
    assert owner("GET", "/gates/agent/verdicts").json() == {"verdicts": [], "after": 0}
    assert gate(harness, "v2", BETTER).json()["promoted"]  # The name was not used up.


def test_a_request_that_is_too_large_is_refused_while_it_arrives(gate, harness, service):
    content = json.dumps({"name": "v2", "scores": BETTER, "outputs": {"task 0": "x" * (65 * 2**20)}})
    headers = {**harness.headers, "Content-Type": "application/json"}
    refused = harness.client.post("/v1/gates/agent/submissions", content=content, headers=headers)
    assert refused.status_code == 413
    assert spent(service) == 0


def test_repeats_and_fractions_are_averaged(owner, harness, service):
    body = {"name": "agent", "results": {"scores": {task: [0, 1] for task in FIRST}}, "scores": "fractions"}
    assert owner("POST", "/gates", body).status_code == 201
    better = {"name": "v2", "scores": {task: [1, 1, 0.9] for task in FIRST}}
    told = harness("POST", "/gates/agent/submissions", better).json()
    assert told["promoted"]
    assert told["margin"] > 0.3


def test_a_candidate_with_almost_the_same_outputs_is_refused_free_of_charge(owner, person, harness, service):
    outputs = dict.fromkeys(FIRST, "yes")
    body = {"name": "agent", "results": {"scores": FIRST, "outputs": outputs}, "incumbent": "v1"}
    assert owner("POST", "/gates", body).status_code == 201
    sent = {"name": "v2", "scores": BETTER, "outputs": {**outputs, "task 399": "no"}}
    told = person("analyst", "ann")("POST", "/gates/agent/submissions", sent).json()
    assert (told["refused"], told["promoted"], told["cost"], told["receipt"]) == (True, False, 0, None)
    assert spent(service) == 0
    # How many sealed outputs differ would tell about hidden inputs, so a harness has a verdict.
    assert not harness("POST", "/gates/agent/submissions", sent).json()["refused"]


def test_verdicts_are_listed_a_page_at_a_time(gate, harness, person):
    told = [gate(harness, f"v{number}", scores(280 + 20 * number)).json() for number in range(2, 7)]
    reader = person("auditor", "ada", dataset="gate:agent")
    listed, after = [], 0
    while page := reader("GET", f"/gates/agent/verdicts?limit=2&after={after}").json()["verdicts"]:
        assert len(page) <= 2
        listed += page
        after = page[-1]["line"]
    assert [{name: value for name, value in entry.items() if name != "line"} for entry in listed] == told
    assert reader("GET", "/gates/agent/verdicts?limit=0").status_code == 422
    assert reader("GET", "/gates/agent/tasks").json() == sorted(FIRST)


def test_the_report_closes_the_gate_and_only_then_shows_scores(gate, harness, owner, person, service):
    gate(harness, "v2", BETTER)
    assert person("analyst", "ann")("POST", "/gates/agent/report").status_code == 403
    report = owner("POST", "/gates/agent/report").json()
    assert [version["score"] for version in report["versions"]] == [280 / 400, 330 / 400]
    assert report["versions"][1]["gain"] == pytest.approx(50 / 400)
    assert owner("POST", "/gates/agent/report").json() == report
    refused = gate(harness, "v3", scores(400))
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:holdfast:account-closed")
    assert gate(harness, "v2", BETTER).json()["repeated"]  # Earlier verdicts stay readable.
    described = owner("GET", "/gates/agent").json()
    assert described["closed"]
    assert "The gate is closed" in described["text"]


def test_a_rate_bounds_new_candidates_of_each_person(owner, person, service):
    body = {"name": "agent", "results": {"scores": FIRST}, "rate": 2}
    assert owner("POST", "/gates", body).status_code == 201
    ann, bob = (person("submitter", name, dataset="gate:agent") for name in ("ann", "bob"))

    def submit(caller, name):
        return caller("POST", "/gates/agent/submissions", {"name": name, "scores": FIRST})

    told = [submit(ann, f"v{number}") for number in range(3)]
    assert [answer.status_code for answer in told] == [200, 200, 429]
    assert 0 < int(told[2].headers["Retry-After"]) <= 60
    assert submit(ann, "v1").json()["repeated"]  # A name that is known is free of the rate.
    assert submit(bob, "v2").status_code == 200


def test_the_book_is_exported_and_verified_by_anyone(gate, harness, owner, person, tmp_path):
    receipts = [Receipt(**gate(harness, name, BETTER).json()["receipt"]) for name in ("v2", "v3")]
    exported = person("auditor", "ada", dataset="gate:agent")("GET", "/gates/agent/book")
    assert exported.status_code == 200
    path = tmp_path / "agent.jsonl"
    path.write_bytes(exported.content)
    key = owner("GET", "/key").json()["key"]
    checked = verify(path, key, receipts=receipts)
    assert checked.whole
    assert checked.receipts == 2
    path.write_bytes(exported.content.replace(b'\\"steps\\":', b'\\"steps\\": '))
    assert not verify(path, key, receipts=receipts).whole


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"results": None}, "a file among the sources, or results"),
        ({"source": "v1.csv"}, "and not both"),
        ({"results": {"scores": {}}}, "body.results.scores"),
        ({"results": {"scores": {"a": 1}}}, "needs at least"),
        ({"results": {"scores": FIRST, "outputs": {"a": "b"}}}, "missing from the outputs"),
        ({"results": {"scores": FIRST, "clusters": {"a": "b"}}}, "missing from the clusters"),
        ({"results": {"scores": {**FIRST, "task 7": 2}}}, "number from 0 to 1"),
        ({"results": {"scores": {**FIRST, "task 7": 0.5}}, "scores": "binary"}, "neither 0 nor 1"),
        ({"name": "Agent"}, "body.name"),
        ({"name": "people"}, "not taken"),
        ({"incumbent": "v\n1"}, "printable"),
        ({"promise": "hope"}, "body.promise"),
        ({"confidence": 1}, "body.confidence"),
        ({"step": 0}, "body.step"),
        ({"rate": 0}, "body.rate"),
        ({"reading": {"colour": "red"}}, "body.reading.colour"),
        ({"terms": 1}, "body.terms"),
    ],
)
def test_a_gate_with_bad_terms_is_not_opened_and_leaves_nothing(owner, service, wrong, words):
    body = {"name": "agent", "results": {"scores": FIRST}, "incumbent": "v1", **wrong}
    refused = owner("POST", "/gates", body)
    assert refused.status_code == 422, refused.text
    assert words in refused.json()["detail"]
    assert service.gates.names() == ["people"]
    assert sorted(path.name for path in (service.home / "books").glob("*.gate.*")) == ["people.gate.holdfast"]


def test_a_source_is_a_result_file_in_the_folder_of_sources(owner, service, harness, tmp_path):
    pytest.importorskip("holdfast.results")
    lines = "\n".join(f"{task},{score}" for task, score in FIRST.items())
    (service.sources / "v1.csv").write_text(f"task,score\n{lines}\n")
    (service.sources / "bad.csv").write_text("task,score\na,7\n")
    (service.sources / "odd.csv").write_text(f"id,points\n{lines}\n")
    (tmp_path / "outside.csv").write_text(f"task,score\n{lines}\n")
    for source in ("none.csv", "../outside.csv", str(tmp_path / "outside.csv"), "postgres://host/db#t", "."):
        refused = owner("POST", "/gates", {"name": "agent", "source": source})
        assert (refused.status_code, refused.json()["argument"]) == (422, "source"), source
    for source in ("bad.csv", "odd.csv"):
        refused = owner("POST", "/gates", {"name": "agent", "source": source})
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:holdfast:question-rejected")
    reading = {"task": "id", "score": "points"}
    made = owner("POST", "/gates", {"name": "agent", "source": "odd.csv", "reading": reading})
    assert (made.status_code, made.json()["reading"]) == (201, reading)
    sent = {"name": "v2", "scores": BETTER}
    assert harness("POST", "/gates/agent/submissions", sent).json()["promoted"]


def test_a_gate_continues_after_a_restart(gate, harness, service, tmp_path):
    first = gate(harness, "v2", BETTER).json()
    service.close()
    again = Service(tmp_path)
    with TestClient(create_app(again)) as client:
        caller = Caller(client, harness.token)
        assert gate(caller, "v2", FIRST).json() == {**first, "repeated": True, "cost": 0}
        assert gate(caller, "v3", scores(400)).json()["incumbent"] == "v2"
    again.close()


def test_a_dataset_a_board_and_a_gate_never_share_a_book(service):
    """Names that look alike: each opens a book of its own."""
    for name in ("agent", "epoch-2", "board-people"):
        service.gates.register(name, results=GivenResults(FIRST), rate=9)
    for name in ("gate-agent", "gate"):
        service.datasets.register(name, varied(service, "people.csv", name), Policy())
    with pytest.raises(InvalidArgument, match="does not begin with 'board-'"):
        service.datasets.register("board-people", "people.csv", Policy())
    assert {"agent", "epoch-2", "board-people", "people"} == set(service.gates.names())


def test_a_registration_that_a_crash_interrupted_can_be_made_again(service, monkeypatch):
    """The book is there, and the name is not: the same gate can be registered, and no other one."""
    opened, database = GivenResults(FIRST), service.gates._database

    class Dying:
        def execute(self, statement, *arguments):
            if statement.startswith("INSERT"):
                raise sqlite3.OperationalError("disk I/O error")
            return database.execute(statement, *arguments)

    with monkeypatch.context() as crash:
        crash.setattr(service.gates, "_database", Dying())
        with pytest.raises(sqlite3.OperationalError):
            service.gates.register("agent", results=opened, rate=9)
    with pytest.raises(InvalidArgument, match="not taken"):
        service.gates.register("agent", results=GivenResults(BETTER), rate=9)
    service.gates.register("agent", results=opened, rate=9)
    assert "agent" in service.gates.names()


def test_two_processes_never_promote_against_a_stale_incumbent(tmp_path):
    service = Service(tmp_path)
    service.gates.register("agent", results=GivenResults(scores(40)), incumbent="v1", rate=10**6)
    levels = {"ann": list(range(80, 400, 60)), "bob": list(range(110, 400, 60))}
    start = people.Barrier(2)
    processes = [
        people.Process(target=submit_all, args=(tmp_path, who, mine, start)) for who, mine in levels.items()
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    gate = service.gates.get("agent").gate
    line, verdicts = gate.promotions, gate.history
    assert len(verdicts) == sum(map(len, levels.values()))
    promoted = [verdict for verdict in verdicts if verdict.promoted]
    assert [version.name for version in line[1:]] == [verdict.name for verdict in promoted]
    # Each was compared with the version that it replaced, and really is better by more than its margin.
    right = {"v1": 40} | {f"{who} {level}": level for who, mine in levels.items() for level in mine}
    for before, verdict in zip(line[:-1], promoted, strict=True):
        assert verdict.incumbent == before.name
        assert right[verdict.name] - right[before.name] > 400 * verdict.margin
    # A comparison that was dropped gives its place back, so places can repeat; no weight is used too often.
    assert all(place >= k for k, place in enumerate(sorted(verdict.place for verdict in verdicts), start=1))
    service.close()


@pytest.fixture
def running(tmp_path):
    """A service in a process of its own with a gate, and tokens."""
    service = Service(tmp_path)
    service.gates.register("agent", results=GivenResults(FIRST), incumbent="v1", rate=600)
    roles = {"owner": "*", "analyst": "gate:agent", "auditor": "gate:agent", "submitter": "gate:agent"}
    tokens = {role: service.tokens.issue(role, role=role, dataset=reach)[0] for role, reach in roles.items()}
    service.close()
    with serving(tmp_path) as started:
        yield started["url"], tokens


def test_the_client_has_everything_that_gates_do(running, tmp_path, seed):
    url, tokens = running
    kept = tmp_path / "receipts.jsonl"
    with (
        Client(url, tokens["owner"]) as owner,
        Client(url, tokens["submitter"], receipts=kept) as harness,
        Client(url, tokens["auditor"]) as auditor,
    ):
        verdict = harness.gate_submit(
            "agent", {task: np.int64(score) for task, score in BETTER.items()}, "v2"
        )
        assert verdict
        assert verdict.receipt == next(iter(read_receipts(kept)))
        assert harness.gate_submit("agent", FIRST, "v2").repeated
        worse = harness.gate_submit("agent", GivenResults(FIRST), "v3")
        assert not worse.promoted
        assert auditor.gate_verdicts("agent") == owner.gate_verdicts("agent") == [verdict, worse]
        assert [version["name"] for version in auditor.gate("agent")["versions"]] == ["v1", "v2"]
        assert auditor.gates() == [auditor.gate("agent")]
        assert auditor.gate_tasks("agent") == sorted(FIRST)
        rng = np.random.default_rng(seed)
        clusters = {task: f"c{number % 200}" for number, task in enumerate(FIRST)}
        fractions = {task: rng.random(3) / 2 for task in FIRST}
        made = owner.register_gate("other", scores=fractions, clusters=clusters, incumbent="w1", expect=5)
        assert (made["incumbent"], made["tasks"]) == ("w1", 400)
        assert owner.gate_submit("other", {task: values + 0.5 for task, values in fractions.items()}, "w2")
        report = owner.gate_report("agent")
        assert [version["name"] for version in report.versions] == ["v1", "v2"]
        assert owner.gate_report("agent") == report
        book = tmp_path / "agent.jsonl"
        auditor.export_gate("agent", book)
        checked = harness.verify(book)
        assert checked.whole
        assert checked.receipts == 3


def test_the_client_refuses_bad_scores_before_it_sends_anything(running):
    url, tokens = running
    with Client(url, tokens["submitter"]) as harness:
        for bad in (float("nan"), 2, -1, "good", None, [[1]], [0, 2], 10**400, {"a": 1}):
            with pytest.raises(QueryRejected, match="Nothing was sent") as refusal:
                harness.gate_submit("agent", {**BETTER, "task 7": bad}, "v2")
            assert "task 7" not in str(refusal.value)
        with pytest.raises(QueryRejected, match="same as text"):
            harness.gate_submit("agent", {1: 1, "1": 1}, "v2")
        with pytest.raises(InvalidArgument, match="mapping from task id"):
            harness.gate_submit("agent", [1, 0], "v2")
        with pytest.raises(QueryRejected, match=r"body\.name"):
            harness.gate_submit("agent", BETTER, "")
        with pytest.raises(HoldfastError, match="403"):
            harness.gate("agent")
    with Client(url, tokens["owner"]) as owner:
        assert owner.gate("agent")["spent"] == 0


def test_a_result_file_is_read_where_it_is(running, tmp_path):
    pytest.importorskip("holdfast.results")
    url, tokens = running
    path = tmp_path / "v2.csv"
    path.write_text("id,score\n" + "\n".join(f"{task},{score}" for task, score in BETTER.items()))
    with Client(url, tokens["owner"]) as owner, Client(url, tokens["submitter"]) as harness:
        owner.register_gate("file", scores=FIRST, reading={"task": "id"})
        assert owner.gate_submit("file", str(path), "v2").promoted  # Read as the gate says.
        assert harness.gate_submit("agent", Path(path), "v2", reading={"task": "id"}).promoted
        with pytest.raises(HoldfastError, match="column"):
            harness.gate_submit("agent", path, "v3")
        columns = "task,score,kind\n" + "\n".join(
            f"{task},{score},k{number % 200}" for number, (task, score) in enumerate(FIRST.items())
        )
        path.write_text(columns)
        made = owner.register_gate("groups", scores=path, reading={"cluster": "kind"})
        assert made["reading"] == {"cluster": "kind"}
