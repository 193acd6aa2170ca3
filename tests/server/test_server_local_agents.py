"""The tools for agents on a table of this machine: over standard input, and in this process."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import mcp
import numpy as np
import pandas as pd
import pytest
from mcp import StdioServerParameters

import holdfast
from holdfast.cli.account import AccountOptions, beside, opened_account
from holdfast.cli.serve import LocalAccount
from holdfast.guard import Guard
from holdfast.ledger import Book
from holdfast.server import make_local_tools

ROWS = 1_500
TOOLS = {
    *("columns", "training_rows", "preview", "ask", "ask_together", "table", "curve"),
    *("discover", "history"),
    *("certificate", "status", "report"),
}
SOURCE = str(Path(holdfast.__file__).parents[1])


def write_people(path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(40_000, 9_000, ROWS).round(2),
            "city": rng.choice(["Rome", "Oslo"], ROWS),
            "since": pd.date_range("2020-01-01", periods=ROWS).strftime("%Y-%m-%d"),
            "bonus": np.where(rng.random(ROWS) < 0.2, np.nan, 1.5),
            "member": rng.random(ROWS) < 0.5,
        }
    )
    frame.to_csv(path, index=False)
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(folder):
    return write_people(folder / "people.csv")


def command(*arguments):
    return StdioServerParameters(
        command=sys.executable,
        args=["-c", "from holdfast.cli import main; main()", "mcp", *arguments],
        env={"PYTHONPATH": SOURCE},
        cwd=os.getcwd(),
    )


def converse(server, conversation):
    """What a conversation with the tools returns; it gets a function that calls one."""

    async def run():
        async with mcp.Client(server) as agent:

            async def call(name, **given):
                return (await agent.call_tool(name, given)).structured_content

            return await conversation(agent, call)

    return asyncio.run(asyncio.wait_for(run(), 300))


def talk(server, *calls):
    async def conversation(_, call):
        return [await call(name, **given) for name, given in calls]

    return converse(server, conversation)


@pytest.fixture
def guard(people):
    with ExitStack() as at_end:
        book = Book("people.csv.holdfast")
        at_end.callback(book.close)
        yield Guard("people.csv", ledger=book)


@pytest.fixture
def tools(guard):
    return make_local_tools(lambda: guard)


def test_two_sessions_over_standard_input_continue_with_one_account(people):
    async def first(agent, call):
        tools = {tool.name: tool.description for tool in (await agent.list_tools()).tools}
        preview = await call("preview", question="share(age > 40)")
        asked = await asyncio.gather(
            call("ask", question="share(age > 40)"),
            call("ask", question="share(age > 40)"),
            call("ask_together", questions=["median(income)", "share(city = 'Rome')"]),
            call("ask", question="share(hieght > 3)"),
        )
        return tools, agent.instructions, preview, asked, await call("status")

    tools, instructions, preview, asked, status = converse(
        command("people.csv", "--confidence", "0.9"), first
    )
    assert set(tools) == TOOLS
    assert "CLOSES THE ACCOUNT FOR GOOD" in tools["report"]
    assert "guess" in instructions
    answer, again, together, mistake = asked
    assert again == answer
    assert answer["cost"] <= preview["at_most"]
    assert answer["low"] <= answer["value"] <= answer["high"]
    assert len(together["answers"]) == 2
    assert mistake["refused"] == "QueryRejected"
    assert "income" in mistake["why"]
    assert mistake["asked"] == 0
    costs = answer["cost"] + sum(member["cost"] for member in together["answers"])
    assert status["spent"] == pytest.approx(costs)
    assert (status["confidence"], status["questions"]) == (0.9, 3)

    history, same, later, other = talk(
        command("people.csv"),
        ("history", {}),
        ("ask", {"question": "share(age > 40)"}),
        ("status", {}),
        ("ask", {"question": "share(age > 60)"}),
    )
    assert history["total"] == 3
    assert same == answer
    assert later == status
    assert "refused" not in other


def test_a_missing_file_is_reported_until_it_exists(folder):
    async def session(_, call):
        missing = [await call(name) for name in ("columns", "status", "history")]
        missing.append(await call("ask", question="share(age > 40)"))
        left_behind = os.listdir(folder)
        write_people(folder / "people.csv")
        return missing, left_behind, await call("ask", question="share(age > 40)")

    missing, left_behind, answer = converse(command("people.csv"), session)
    for refusal in missing:
        assert refusal["refused"] == "QueryRejected"
        assert "There is no file 'people.csv'" in refusal["why"]
    assert left_behind == []
    assert answer["low"] <= answer["value"] <= answer["high"]


def test_the_training_part_is_all_that_is_shown(people, guard, tools):
    async def session(_, call):
        rows, offset = [], 0
        while offset is not None:
            page = await call("training_rows", limit=200, offset=offset)
            rows += page["rows"]
            offset = page["next_offset"]
        beyond = await call("training_rows", offset=10**6)
        return await call("columns"), rows, page["total"], beyond

    columns, rows, total, beyond = converse(tools, session)
    training = guard.training_rows()
    assert len(rows) == total == columns["training_rows"] == len(training)
    assert columns["rows"] == ROWS - total
    assert [row["income"] for row in rows] == training["income"].tolist()
    assert {row["bonus"] for row in rows} == {None, 1.5}
    assert {row["member"] for row in rows} == {True, False}
    assert all(row["since"].startswith("202") for row in rows)
    assert beyond["rows"] == []
    seen = {column["name"]: column["training"] for column in columns["columns"]}
    assert seen["age"]["most"] == training["age"].max()
    assert seen["bonus"]["missing"] == pytest.approx(training["bonus"].isna().mean())
    assert {common["value"] for common in seen["city"]["common"]} == {"Rome", "Oslo"}
    assert seen["since"]["least"] == str(training["since"].min())[:10]
    assert [column["kind"] for column in columns["columns"]] == [
        *("number", "number", "text", "date", "number", "boolean"),
    ]


@pytest.mark.parametrize(
    "question",
    [
        "share(age > (select max(age) from people))",
        "share(1 = 1); drop table people",
        "share(getenv('HOME') = 'x')",
        "mean(age, 0, 1e5, where = income > (select 1 from read_csv('people.csv')))",
        "select * from people",
        "",
        "share(" * 500,
        "share(city = 1)",
        "mean(income)",
        "share(age > 40, by = city)",
    ],
)
def test_hostile_questions_and_mistakes_cost_nothing(tools, people, question):
    refused, preview, together, status = talk(
        tools,
        ("ask", {"question": question}),
        ("preview", {"question": question}),
        ("ask_together", {"questions": ["share(age > 40)", question]}),
        ("status", {}),
    )
    for refusal in (refused, preview, together):
        assert refusal["refused"] in ("QueryRejected", "InvalidArgument")
        assert refusal["why"]
    assert (status["spent"], status["questions"]) == (0, 0)


def test_arguments_that_make_no_sense_are_refused(tools):
    calls = [
        ("training_rows", {"limit": 0}),
        ("training_rows", {"limit": 201}),
        ("training_rows", {"offset": -1}),
        ("history", {"limit": 10**9}),
        ("ask_together", {"questions": []}),
        ("ask_together", {"questions": ["share(age > 40)"] * 101}),
        ("ask", {"question": "share(age > 40)", "nats": -1}),
        ("report", {"questions": []}),
    ]
    for refusal in talk(tools, *calls):
        assert refusal["refused"] == "InvalidArgument"


def test_calls_at_the_same_time_are_charged_once_each(tools, guard):
    questions = [f"share(age > {age})" for age in range(30, 50)]

    async def session(_, call):
        return await asyncio.gather(*(call("ask", question=question) for question in questions * 2))

    answers = converse(tools, session)
    assert answers[: len(questions)] == answers[len(questions) :]
    assert len(guard.history) == len(questions)
    assert guard.spent == pytest.approx(sum(answer["cost"] for answer in answers[: len(questions)]))


def test_a_history_in_pages(tools):
    questions = [f"share(age > {age})" for age in (30, 40, 50)]
    _, first, second = talk(
        tools,
        ("ask_together", {"questions": questions}),
        ("history", {"limit": 2}),
        ("history", {"limit": 2, "offset": 2}),
    )
    assert (first["total"], first["next_offset"], second["next_offset"]) == (3, 2, None)
    assert [answer["query"] for answer in (*first["answers"], *second["answers"])] == questions


def test_a_report_needs_to_be_confirmed_and_closes_the_account(tools):
    asked = {"questions": ["share(age > 40)"]}
    not_confirmed, open_still, mistake, open_then, report, shown, closed, late = talk(
        tools,
        ("report", asked),
        ("status", {}),
        ("report", {"questions": ["share(hieght > 3)"], "confirm": True}),
        ("status", {}),
        ("report", {**asked, "confirm": True}),
        ("report", {}),
        ("status", {}),
        ("ask", {"question": "share(age > 50)"}),
    )
    assert not_confirmed["refused"] == "NotConfirmed"
    assert mistake["refused"] == "QueryRejected"
    assert not open_still["closed"]
    assert not open_then["closed"]
    assert report["answers"][0]["low"] < report["answers"][0]["high"]
    assert shown == report
    assert closed["closed"]
    assert closed["reported"]
    assert "closed" in late["why"]


def test_a_promise_that_would_break_is_a_refusal_with_the_account(people):
    guard = Guard("people.csv", error=0.05)
    refused, status = talk(
        make_local_tools(lambda: guard),
        ("ask", {"question": "share(age > 40, where = age > 88)"}),
        ("status", {}),
    )
    assert refused["refused"] == "BudgetSpent"
    assert refused["unit"] == "nats"
    assert status["spent"] == refused["spent"]


def test_without_a_training_part_nothing_is_shown(people):
    guard = Guard("people.csv", training_share=0)
    columns, rows = talk(make_local_tools(lambda: guard), ("columns", {}), ("training_rows", {}))
    assert {column["training"] for column in columns["columns"]} == {None}
    assert (rows["rows"], rows["total"]) == ([], 0)
    assert "guess" in rows["note"]


def test_data_that_disappear_leave_the_account_as_it_was(tools, folder):
    """A session has its own copy of a small file. The next session has none, and says so."""
    (answer,) = talk(tools, ("ask", {"question": "share(age > 40)"}))
    (folder / "people.csv").unlink()
    (again,) = talk(tools, ("ask", {"question": "share(age > 40)"}))
    assert again == answer
    account = LocalAccount(lambda: opened_account("people.csv", beside("people.csv"), (), AccountOptions()))
    refused, status = talk(
        make_local_tools(account.guard), ("ask", {"question": "share(age > 40)"}), ("status", {})
    )
    assert refused["refused"] == status["refused"] == "QueryRejected"
    write_people(folder / "people.csv")
    back, status = talk(
        make_local_tools(account.guard), ("ask", {"question": "share(age > 40)"}), ("status", {})
    )
    account.close()
    assert back == answer
    assert status["questions"] == 1


def test_an_account_that_the_system_cannot_open_is_reported(people, folder):
    (folder / "nobody").write_text("no folder")
    place = folder / "nobody" / "account"
    account = LocalAccount(lambda: opened_account("people.csv", place, (), AccountOptions()))
    (refused,) = talk(make_local_tools(account.guard), ("status", {}))
    account.close()
    assert refused["refused"]
    assert "nobody" in refused["why"]


NOISY = """
import os
from holdfast.cli import main
from holdfast.guard import Guard

def ask(*_, real=Guard.ask, **given):
    print("noise from Python", flush=True)
    os.write(1, b"noise from below")
    return real(*_, **given)

Guard.ask = ask
main()
"""


def test_nothing_but_the_protocol_is_written_to_standard_output(people):
    messages = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "ask", "arguments": {"question": "share(age > 40)"}},
        },
    ]
    server = subprocess.Popen(
        [sys.executable, "-c", NOISY, "mcp", "people.csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    with server:
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
        replies = []
        while not replies or replies[-1].get("id") != 2:
            replies.append(json.loads(server.stdout.readline()))
        rest, _ = server.communicate()
    assert rest == ""
    assert {reply["jsonrpc"] for reply in replies} == {"2.0"}
    answer = replies[-1]["result"]["structuredContent"]
    assert answer["low"] <= answer["value"] <= answer["high"]


def test_an_unexpected_error_is_reported_without_its_message(people, guard, monkeypatch, capfd):
    def fail(*_, **__):
        raise RuntimeError("row 17: Anna Schmidt, 43")

    monkeypatch.setattr(Guard, "ask", fail)

    async def session(agent, _):
        return await agent.call_tool("ask", {"question": "share(age > 40)"})

    result = converse(make_local_tools(lambda: guard), session)
    assert result.structured_content["refused"] == "InternalError"
    assert "Anna" not in str(result)
    assert "Anna" not in "".join(capfd.readouterr())
