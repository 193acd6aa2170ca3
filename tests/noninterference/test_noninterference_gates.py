"""Gates at the service: two tables of scores with the same verdicts cannot be told apart by anyone."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path

import mcp
from observe import Look, assert_same, differences, observe
from starlette.testclient import TestClient
from test_noninterference_service import Calls

from holdfast.client import Client
from holdfast.errors import QueryRejected
from holdfast.server import Service, create_app, make_tools

TASKS = [f"task {number:03}" for number in range(400)]


def version(right, offset=0, **wrong):
    """A version that solves some tasks in a row, with a few scores that are none."""
    solved = {TASKS[(offset + number) % 400] for number in range(right)}
    return {task: int(task in solved) for task in TASKS} | {TASKS[int(k[1:])]: v for k, v in wrong.items()}


# The versions solve other tasks, and another number of them; the verdicts are the same.
FIRST = {
    "incumbent": version(280),
    "better": version(330),
    "luck": version(333),
    "worse": version(100),
    "none": version(400),
    "no score": version(330, t7=1.5),
    "half": version(330, t8=0.5),
}
SECOND = {
    "incumbent": version(110, 200),
    "better": version(161, 200),
    "luck": version(161, 201),
    "worse": version(90, 150),
    "none": version(0),
    "no score": version(161, t300=float("nan")),
    "half": version(2, t301=0.25),
}


def day_at_a_gate(look: Look, scores):
    """An owner opens a gate, a harness and an analyst submit, and everyone looks at what they may see."""
    Path("home").mkdir()
    Path("home/key").write_text("11" * 32 + "\n", encoding="ascii")
    Path("home/key").chmod(0o600)
    service = Service("home")
    roles = {"owner": "*", "analyst": "*", "auditor": "*", "submitter": "gate:agent"}
    with TestClient(create_app(service), raise_server_exceptions=False) as http:
        callers = {
            role: Calls(look, http, service.tokens.issue(role, role=role, dataset=reach)[0], role)
            for role, reach in roles.items()
        }
        body = {"name": "agent", "results": {"scores": scores["incumbent"]}, "incumbent": "v1"}
        assert callers["owner"]("POST", "/gates", body).status_code == 201
        callers["owner"]("POST", "/gates", body)

        def submit(role, name, version, **more):
            content = json.dumps({"name": name, "scores": scores[version], **more})
            return callers[role].send("POST", "/gates/agent/submissions", content)

        told = [submit("submitter", name, name).json() for name in ("worse", "better", "luck")]
        assert [verdict["promoted"] for verdict in told] == [False, True, False]
        for role in ("submitter", "analyst", "owner"):
            assert submit(role, "better", "none").json()["repeated"]
            assert submit(role, "bad", "no score").status_code == 422
            assert submit(role, "bad", "half").status_code == 422
            submit(role, "bad", "none", outputs={"task 000": "yes"})
            submit(role, "v\n", "better")
        submit("auditor", "mine", "better")
        submit("analyst", "again", "worse")
        for caller in callers.values():
            for place in ("", "/agent", "/agent/tasks", "/agent/verdicts", "/agent/book"):
                caller("GET", f"/gates{place}")
    service.close()


def test_a_day_at_a_gate_shows_verdicts_and_nothing_of_the_scores():
    assert_same(*(observe(partial(day_at_a_gate, scores=scores)) for scores in (FIRST, SECOND)))


def test_another_verdict_is_seen():
    """The comparison is not blind: a candidate that is better by more has another margin."""
    better = {**FIRST, "better": version(360)}
    seen = [observe(partial(day_at_a_gate, scores=scores)) for scores in (FIRST, better)]
    assert differences(*seen)


async def _talk(server, calls):
    async with mcp.Client(server) as agent:
        answers = [await agent.call_tool(name, given) for name, given in calls]
        return [(answer.structured_content, str(answer.content)) for answer in answers]


def _told(client, name, scores):
    """The verdict or the refusal in words: whoever calls a client holds the scores anyway."""
    try:
        return client.gate_submit("agent", scores, name).to_dict()
    except QueryRejected as refusal:
        return str(refusal)


def agent_at_a_gate(look: Look, scores):
    Path("home").mkdir()
    Path("home/key").write_text("11" * 32 + "\n", encoding="ascii")
    Path("home/key").chmod(0o600)
    service = Service("home")
    with TestClient(create_app(service), base_url="http://testserver/v1") as http:
        token = service.tokens.issue("owner", role="owner")[0]
        http.headers["Authorization"] = f"Bearer {token}"
        client = Client("http://testserver", token, receipts="receipts.jsonl")
        client._http.close()
        client._http = http
        look.must("register", client.register_gate, "agent", scores=scores["incumbent"])
        for name in ("worse", "better", "no score", "half"):
            look.must(name, _told, client, name, scores[name])
        calls = [("gate_submit", {"gate": "agent", "name": "luck", "scores": scores["luck"]})]
        calls += [("gate_submit", {"gate": "agent", "name": "half", "scores": scores["half"]})]
        calls += [("gate_status", {}), ("gate_status", {"gate": "agent"}), ("gate_status", {"gate": "none"})]
        look.must("tools", lambda: asyncio.run(_talk(make_tools(client), calls)))
        look.must("verdicts", lambda: [verdict.to_dict() for verdict in client.gate_verdicts("agent")])
    service.close()


def test_a_client_and_an_agent_see_verdicts_and_nothing_of_the_scores():
    assert_same(*(observe(partial(agent_at_a_gate, scores=scores)) for scores in (FIRST, SECOND)))
