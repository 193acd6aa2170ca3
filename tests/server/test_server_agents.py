"""The tools for agents, driven by the protocol's own client: in this process, and over standard input."""

from __future__ import annotations

import asyncio
import sys

import mcp
import pandas
import pytest
from mcp import StdioServerParameters
from server_process import serving

from holdfast.client import Client
from holdfast.server import Policy, Service, make_tools


def talk(server, *calls):
    """What the tools answer, one after another, and their descriptions."""

    async def conversation():
        async with mcp.Client(server) as agent:
            tools = {tool.name: tool.description for tool in (await agent.list_tools()).tools}
            answers = [(await agent.call_tool(name, given)).structured_content for name, given in calls]
            return tools, answers, agent.instructions

    return asyncio.run(asyncio.wait_for(conversation(), 60))


@pytest.fixture
def tools(served):
    client = Client(served["url"], served["tokens"]["analyst"])
    yield make_tools(client)
    client.close()


def test_an_agent_previews_asks_and_sees_what_is_left(tools):
    question = {"question": "share(depth_percent > 62, guess = 0.45)"}
    descriptions, (preview, answer, again, left, certificate), instructions = talk(
        tools, ("preview", question), ("ask", question), ("ask", question), ("left", {}), ("certificate", {})
    )
    assert set(descriptions) == {
        *(
            "columns",
            "training_rows",
            "preview",
            "ask",
            "ask_together",
            "table",
            "curve",
            "discover",
            "history",
        ),
        *("left", "certificate", "boards", "submit"),
        *("gate_status", "gate_submit"),
    }
    assert "guess" in descriptions["ask"]
    assert "guess" in instructions
    assert preview["at_most"] >= answer["cost"]
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert again == answer
    assert left["spent"] >= answer["cost"]
    assert "every interval" in certificate["statement"]


def test_an_agent_pays_for_a_finer_answer_and_reports_only_where_it_may(tools, tmp_path):
    question = {"question": "share(carat > 0.9, guess = 0.36)", "nats": 2}
    descriptions, (preview, refused), _ = talk(
        tools, ("preview", question), ("ask", {**question, "nats": 1000})
    )
    assert "report" not in descriptions
    assert preview["allowed"]
    assert (refused.get("refused"), refused.get("asked")) == ("BudgetSpent", 1000), refused
    service = Service(tmp_path)
    pandas.DataFrame({"x": range(1000)}).to_parquet(service.sources / "t.parquet")
    service.datasets.register("t", "t.parquet", Policy(report="analyst"))
    token, _ = service.tokens.issue("ann", role="analyst")
    service.close()
    with serving(tmp_path) as said, Client(said["url"], token) as client:
        reporting = make_tools(client, may_report=client.describe()["may_report"])
        asked = {"questions": ["share(x > 500)"], "confirm": True}
        descriptions, (empty, not_confirmed, told, again, shown), _ = talk(
            reporting,
            ("report", {"questions": []}),
            ("report", {"questions": ["share(x > 500)"]}),
            ("report", asked),
            ("report", asked),
            ("report", {}),
        )
    assert "ENDS THE SHARED ACCOUNT" in descriptions["report"]
    assert empty["refused"] == "InvalidArgument"
    assert not_confirmed["refused"] == "NotConfirmed"
    assert told == again == shown
    assert told["answers"][0]["low"] < told["answers"][0]["high"]


def test_an_agent_sees_the_training_part_and_asks_together(served, tools):
    questions = ["share(carat > 0.7)", "share(carat > 1.1)"]
    _, (columns, page, together, history), _ = talk(
        tools,
        ("columns", {}),
        ("training_rows", {"limit": 3, "offset": 1}),
        ("ask_together", {"questions": questions}),
        ("history", {"limit": 200}),
    )
    with Client(served["url"], served["tokens"]["analyst"]) as client:
        assert [column["name"] for column in columns["columns"]] == list(client.schema)
        carat = next(column for column in columns["columns"] if column["name"] == "carat")
        assert carat["training"]["least"] == client.train["carat"].min()
        assert [row["carat"] for row in page["rows"]] == client.train["carat"].iloc[1:4].tolist()
        assert page["total"] == columns["training_rows"] == len(client.train)
    assert [answer["query"] for answer in together["answers"]] == questions
    assert set(questions) <= {answer["query"] for answer in history["answers"]}


def test_a_refusal_is_data_that_says_what_to_do(tools):
    _, (mistake, too_narrow), _ = talk(
        tools,
        ("ask", {"question": "share(height > 3)"}),
        ("ask", {"question": "share(carat > 1, where = price > 18800, guess = 1)"}),
    )
    assert (mistake["refused"], mistake["asked"]) == ("QueryRejected", 0)
    assert "no column" in mistake["why"]
    assert too_narrow["refused"] == "BudgetSpent"


def test_an_agent_submits_to_a_board(served, tools):
    _, (boards,), _ = talk(tools, ("boards", {}))
    (board,) = boards["boards"]
    client = Client(served["url"], served["tokens"]["analyst"])
    ids = client._call("GET", f"/boards/{board['name']}/ids")
    everything = {str(one): 1 for one in ids}
    _, (told, again, wrong), _ = talk(
        tools,
        ("submit", {"board": board["name"], "predictions": everything}),
        ("submit", {"board": board["name"], "predictions": everything}),
        ("submit", {"board": board["name"], "predictions": {"0": 1}}),
    )
    assert again == told
    assert told["low"] <= told["high"]
    assert "no prediction" in wrong["why"]
    client.close()


def test_an_agent_can_do_no_more_than_its_token(served):
    client = Client(served["url"], served["tokens"]["auditor"], dataset="diamonds")
    _, (asked,), _ = talk(make_tools(client), ("ask", {"question": "share(carat > 1)"}))
    assert "403" in asked["why"]
    client.close()


def test_the_command_serves_the_same_tools_over_standard_input(served):
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", "from holdfast.cli import main; main()", "mcp", served["url"]],
        env={"HOLDFAST_TOKEN": served["tokens"]["analyst"]},
    )
    _, (left,), _ = talk(command, ("left", {}))
    assert left["name"] == "diamonds"
