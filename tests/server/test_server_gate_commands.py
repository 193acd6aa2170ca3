"""A harness sends scores to a gate of a service: on the command line, and as a tool for agents."""

from __future__ import annotations

import asyncio
import json
import os
import sys

import mcp
import pytest
from mcp import StdioServerParameters
from server_gate_workers import scores
from server_process import serving

from holdfast.cli import main
from holdfast.client import Client
from holdfast.registry import GivenResults
from holdfast.server import Service, make_tools

HARNESS = """
import os, sys
right, place = int(sys.argv[1]), sys.argv[2]
print("secret score", right)
assert "HOLDFAST_TOKEN" not in os.environ
with open(place, "w") as file:
    file.write("task,score\\n")
    for task in range(400):
        file.write(f"task {task},{int(task < right)}\\n")
sys.exit(right % 256)
"""


@pytest.fixture
def site(tmp_path):
    """The address of a service with a gate, and tokens."""
    home = tmp_path / "home"
    service = Service(home)
    service.gates.register("agent", results=GivenResults(scores(280)), incumbent="v1", rate=10**6)
    roles = {"owner": "*", "analyst": "gate:agent", "submitter": "gate:agent", "auditor": "gate:agent"}
    tokens = {role: service.tokens.issue(role, role=role, dataset=reach)[0] for role, reach in roles.items()}
    service.close()
    with serving(home) as started:
        yield started["url"], tokens


@pytest.fixture
def run(site, tmp_path, monkeypatch, capsys):
    """Run `holdfast gate` for the service: exit status, stdout and stderr."""
    url, tokens = site
    monkeypatch.chdir(tmp_path)

    def run(role, command, *arguments):
        with monkeypatch.context() as patch:
            patch.setenv("HOLDFAST_TOKEN", tokens[role]) if role else patch.delenv("HOLDFAST_TOKEN", False)
            with pytest.raises(SystemExit) as left:
                main(["gate", command, "--service", url, *arguments])
        shown = capsys.readouterr()
        return left.value.code, shown.out, " ".join(shown.err.split())

    return run


@pytest.fixture
def harness(tmp_path):
    script = tmp_path / "harness.py"
    script.write_text(HARNESS, encoding="utf-8")
    return [sys.executable, str(script)]


def written(path, right, tasks=400):
    lines = [f"task {task},{int(task < right)}" for task in range(tasks)]
    path.write_text("task,score\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_a_harness_is_run_and_its_scores_go_straight_to_the_service(run, harness, site):
    arguments = ["agent", "--results", "r.csv", "--name"]
    status, shown, errors = run("submitter", "run", *arguments, "run 2", "--", *harness, "340", "{results}")
    assert status == 0, errors
    assert "Promoted: 'run 2' is better than 'v1'" in shown
    assert "secret score" not in shown + errors
    assert "passed through the submitter's hands" not in shown  # Sealed by the token's role.
    status, shown, _ = run("submitter", "run", *arguments, "run 3", "--", *harness, "341", "{results}")
    assert status == 1
    assert "Not shown" in shown
    with Client(site[0], site[1]["auditor"]) as client:
        assert [verdict.name for verdict in client.gate_verdicts("agent")] == ["run 2", "run 3"]


def test_a_file_of_scores_is_submitted(run, tmp_path, site):
    path = written(tmp_path / "v2.csv", 280)
    summary = tmp_path / "summary.md"
    status, shown, _ = run(
        "analyst", "submit", "agent", path, "--name", "file 2", "--json", "--summary", str(summary)
    )
    verdict = json.loads(shown)
    assert (status, verdict["promoted"], verdict["name"]) == (1, False, "file 2")
    assert any("passed through the submitter's hands" in sentence for sentence in verdict["assumed"])
    assert "### Not shown to be better" in summary.read_text(encoding="utf-8")
    status, shown, _ = run("analyst", "submit", "agent", path, "--name", "file 2")
    assert status == 1
    assert "This is the earlier verdict" in shown
    status, shown, _ = run("auditor", "status", "agent", "--json")
    with Client(site[0], site[1]["auditor"]) as client:
        assert (status, json.loads(shown)) == (0, client.gate("agent"))
    status, shown, _ = run("auditor", "status", "agent")
    assert status == 0
    assert "The incumbent is" in shown


def test_what_is_wrong_is_said_with_exit_status_2(run, tmp_path, site):
    path, few = written(tmp_path / "v2.csv", 380), written(tmp_path / "few.csv", 9, tasks=10)
    marker = tmp_path / "ran"
    touch = ["--name", "bad", "--", sys.executable, "-c", f"open({str(marker)!r}, 'w')"]
    wrong = {
        ("submitter", "submit", "agent", path): "--name is needed",
        ("analyst", "submit", "agent", path, "--name", "bad", "--sealed"): "the role of the token decides",
        ("submitter", "submit", "agent", few, "--name", "bad"): "390 of its 400 tasks are missing",
        ("submitter", "submit", "agent", path, "--name", "bad", "--task", "id"): "column",
        ("submitter", "submit", "other", path, "--name", "bad"): "There is no gate 'other'",
        ("auditor", "submit", "agent", path, "--name", "bad"): "403",
        ("submitter", "status", "agent"): "403",
        ("analyst", "status", "other"): "404",
        ("submitter", "run", "other", *touch): "may only submit to gate:agent",
        ("analyst", "run", "other", *touch): "There is no gate 'other'",
        ("", "run", "agent", *touch): "needs a token",
        ("", "run", "agent", "--token", "hf_wrong", *touch): "401",
        ("submitter", "run", "agent", *touch): "wrote nothing to {results}",
    }
    with Client(site[0], site[1]["auditor"]) as client:
        before = client.gate("agent")
        for (role, *arguments), words in wrong.items():
            status, _, errors = run(role, *arguments)
            assert (status, words in errors) == (2, True), (arguments, errors)
            assert marker.exists() == (role == "submitter" and arguments[:2] == ["run", "agent"])
        assert client.gate("agent") == before


def talk(server, *calls):
    async def conversation():
        async with mcp.Client(server) as agent:
            tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
            return tools, [(await agent.call_tool(name, given)).structured_content for name, given in calls]

    return asyncio.run(asyncio.wait_for(conversation(), 60))


def test_an_agent_submits_to_a_gate_and_sees_where_it_stands(site):
    url, tokens = site
    good, first = scores(395), scores(280)
    with Client(url, tokens["analyst"]) as client:
        tools, (told, again, status, every, missing, bad) = talk(
            make_tools(client),
            ("gate_submit", {"gate": "agent", "name": "tool 2", "scores": good}),
            ("gate_submit", {"gate": "agent", "name": "tool 2", "scores": first}),
            ("gate_status", {"gate": "agent"}),
            ("gate_status", {}),
            ("gate_submit", {"gate": "agent", "name": "tool 3", "scores": {"task 0": 1}}),
            ("gate_submit", {"gate": "agent", "name": "tool 3", "scores": {**good, "task 0": 7}}),
        )
    assert "submit every candidate" in tools["gate_submit"].description
    assert told["promoted"]
    assert again == {**told, "repeated": True, "cost": 0}
    assert status["incumbent"] == "tool 2"
    assert every["gates"] == [status]
    assert "tasks are missing" in missing["why"]
    assert "number from 0 to 1" in bad["why"]


def test_an_agent_with_a_submitters_token_can_only_submit(site):
    url, tokens = site
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from holdfast.cli import main; main()", "mcp", url],
        env={"HOLDFAST_TOKEN": tokens["submitter"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
    )
    _, (told, *refused) = talk(
        command,
        ("gate_submit", {"gate": "agent", "name": "stdio 2", "scores": scores(280)}),
        ("gate_status", {}),
        ("gate_status", {"gate": "agent"}),
        ("boards", {}),
        ("left", {}),
    )
    assert not told["promoted"]
    assert all("403" in answer["why"] for answer in refused)
