"""The service: bodies, headers, logs, files and tools for agents are the same for tables that differ out of
sight."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import mcp
import numpy as np
import pandas as pd
import pytest
from compared_sessions import show
from observe import Look, assert_same, observe
from pairs import ROWS, TEXT, make_pair, training_mask
from starlette.testclient import TestClient

from holdfast.client import Client
from holdfast.guard import Guard
from holdfast.ledger import Book
from holdfast.server import Service, create_app, make_local_tools, make_tools

QUESTIONS = (
    "share(s = 'a')",
    "mean(x, 0, 9)",
    "share(x > 3, where = s = 'a', guess = 0.6)",
    "quantile(x, 0.5)",
    "share(height > 3)",
    "share(x +)",
)


BATCH = [{"query": "share(x > 4)"}, {"query": "share(x > 5)", "key": "b"}]


class Calls:
    """Requests of one person, recorded with everything that comes back."""

    def __init__(self, look: Look, http: TestClient, token: str, who: str) -> None:
        self.look, self.http, self.token, self.who = look, http, token, who

    def __call__(self, method: str, path: str, body=None, **headers):
        sent = {"Authorization": f"Bearer {self.token}", **headers}
        answer = self.http.request(method, f"/v1{path}", json=body, headers=sent)
        self.look.note(
            f"{self.who} {method} {path}", [answer.status_code, dict(answer.headers), self._content(answer)]
        )
        return answer

    def send(self, method: str, path: str, content: str):
        """The same for JSON that is sent as it is, such as NaN."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        answer = self.http.request(method, f"/v1{path}", content=content, headers=headers)
        self.look.note(f"{self.who} {method} {path}", [answer.status_code, dict(answer.headers), answer.text])
        return answer

    def _content(self, answer):
        if "parquet" in answer.headers.get("Content-Type", ""):
            return answer.content
        return answer.text

    def submit(self, board: str, content: str, kind: str = "text/csv"):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        answer = self.http.post(f"/v1/boards/{board}/submissions", content=content, headers=headers)
        self.look.note(f"{self.who} submits", [answer.status_code, dict(answer.headers), answer.text])
        return answer


def _put(columns, name: str) -> None:
    Path("brought").mkdir(exist_ok=True)
    pd.DataFrame(columns).to_csv(f"brought/{name}", index=False)


def _service() -> Service:
    """A service whose signing key is always the same."""
    Path("home").mkdir()
    Path("home/key").write_text("11" * 32 + "\n", encoding="ascii")
    Path("home/key").chmod(0o600)
    Path("brought").mkdir(exist_ok=True)
    return Service("home", sources="brought")


def day_at_the_service(look: Look, columns, later):
    """An owner, an analyst and an auditor do what they may, and some things that they may not."""
    _put(columns, "people.csv")
    _put(later, "later.csv")
    service = _service()
    with TestClient(create_app(service), raise_server_exceptions=False) as http:
        owner, analyst, auditor = (
            Calls(look, http, service.tokens.issue(role, role=role)[0], role)
            for role in ("owner", "analyst", "auditor")
        )
        body = {"name": "people", "source": "people.csv", "policy": {}}
        assert owner("POST", "/datasets", body).status_code == 201
        owner("POST", "/datasets", body)
        owner("POST", "/datasets", {"name": "nobody", "source": "nobody.csv", "policy": {}})
        for question in QUESTIONS:
            analyst("POST", "/datasets/people/preview", {"query": question})
            analyst("POST", "/datasets/people/questions", {"query": question}, **{"Idempotency-Key": "k"})
            analyst("POST", "/datasets/people/questions", {"query": question})
        analyst("POST", "/datasets/people/batches", {"questions": BATCH})
        for person in (owner, analyst, auditor):
            for place in ("", "/history", "/train", "/certificate", "/ledger", "/verify", "/epochs"):
                person("GET", f"/datasets/people{place}")
            person("GET", "/datasets")
        owner("POST", "/datasets/people/epochs", {"source": "later.csv"})
        analyst("POST", "/datasets/people/questions", {"query": "share(s = 'a')"})
        analyst("POST", "/datasets/people@1/questions", {"query": "share(x > 7)"})
        owner("POST", "/datasets/people/close")
        analyst("POST", "/datasets/people/questions", {"query": "share(x > 8)"})
        analyst("GET", "/datasets/people/train")
        auditor("GET", "/datasets/people/ledger")
    service.close()


def test_a_day_at_the_service_shows_nothing_of_the_protected_rows():
    tables = zip(make_pair(TEXT), make_pair(TEXT, seed=1), strict=True)
    assert_same(
        *(observe(partial(day_at_the_service, columns=first, later=later)) for first, later in tables)
    )


BROKEN = {
    "a line with a field more": ("3,HIV,41", "3,b,7,8"),
    "an open quote": ('3,"HIV', '3,"b'),
    "another encoding": ("3,HIV\udce9", "3,b\udcff"),
    "a text among numbers": ("Ms Smith,a", "Mr Jones,a"),
}


def broken_files(look: Look, which, names):
    """Files that an owner registers, and asks for an epoch of, though they cannot be read."""
    place = int(np.flatnonzero(~training_mask())[3])
    service = _service()
    with TestClient(create_app(service), raise_server_exceptions=False) as http:
        owner = Calls(look, http, service.tokens.issue("owner", role="owner")[0], "owner")
        _put(make_pair(TEXT)[0], "people.csv")
        owner("POST", "/datasets", {"name": "people", "source": "people.csv", "policy": {}})
        for number, lines in enumerate(BROKEN[name] for name in names):
            rows = [lines[which] if row == place else f"{row},a" for row in range(ROWS)]
            content = "\n".join(["x,s", *rows]).encode("utf-8", "surrogateescape")
            Path(f"brought/{number}.csv").write_bytes(content)
            owner("POST", "/datasets", {"name": f"d{number}", "source": f"{number}.csv", "policy": {}})
            owner("POST", "/datasets/people/epochs", {"source": f"{number}.csv"})
            owner("POST", f"/datasets/d{number}/questions", {"query": "mean(x, 0, 9)"})
    service.close()


@pytest.mark.parametrize(
    "names",
    [("a text among numbers",), pytest.param(tuple(BROKEN), marks=pytest.mark.slow)],
    ids=["one", "all"],
)
def test_files_that_cannot_be_read_are_not_quoted_by_the_service(names):
    assert_same(*(observe(partial(broken_files, which=which, names=names)) for which in (0, 1)))


def board_at_the_service(look: Look, columns, later):
    """A blind board, its end, and its final."""
    count = len(columns["s"])
    _put({"id": list(range(count)), "label": columns["s"]}, "labels.csv")
    service = _service()
    with TestClient(create_app(service), raise_server_exceptions=False) as http:
        owner, analyst, participant = (
            Calls(look, http, service.tokens.issue(role, role=role)[0], role)
            for role in ("owner", "analyst", "participant")
        )
        body = {"name": "board", "source": "labels.csv", "target": "label", "start": 0.2, "blind": True}
        assert owner("POST", "/boards", body).status_code == 201
        rows = "\n".join(f"{number},a" for number in range(count))
        analyst.submit("board", f"id,prediction\n{rows}")
        analyst.submit("board", f"id,prediction\n{rows[:200]}")
        analyst.submit("board", "no table", "application/json")
        analyst("GET", "/boards/board")
        owner("POST", "/boards/board/unblind")
        analyst.submit("board", f"id,prediction\n{rows.replace('7,a', '7,b')}")
        for person in (owner, analyst, participant):
            person("GET", "/boards/board")
            person("GET", "/boards/board/ids")
            person("GET", "/boards/board/submissions")
            person("PUT", "/boards/board/finalists", {"submissions": ["0" * 32]})
        owner("POST", "/boards/board/final")
        analyst.submit("board", f"id,prediction\n{rows}")
    service.close()


def test_a_board_at_the_service_shows_nothing_of_the_labels():
    nobody = np.zeros(ROWS, dtype=bool)
    tables = make_pair(TEXT, training=nobody, moved=False)
    assert_same(*(observe(partial(board_at_the_service, columns=t, later=None)) for t in tables))


async def _talk(server, calls):
    async with mcp.Client(server) as agent:
        tools = [(tool.name, tool.description) for tool in (await agent.list_tools()).tools]
        answers = [await agent.call_tool(name, given) for name, given in calls]
        return tools, [(answer.structured_content, str(answer.content)) for answer in answers]


LOOKS = [
    ("columns", {}),
    ("training_rows", {"limit": 200}),
    ("ask_together", {"questions": ["share(x > 4)", "share(x > 5)"]}),
    ("ask_together", {"questions": ["share(x > 6)", "share(x +)"]}),
    ("history", {}),
    ("certificate", {}),
    ("training_rows", {"limit": 0}),
    ("training_rows", {"limit": "many"}),
]


def agent_session(look: Look, columns, later):
    """A client and an agent, each with a token of its own."""
    _put(columns, "people.csv")
    service = _service()
    with TestClient(create_app(service), base_url="http://testserver/v1") as http:
        token = service.tokens.issue("owner", role="owner")[0]
        http.headers["Authorization"] = f"Bearer {token}"
        http.post("/datasets", json={"name": "people", "source": "people.csv", "policy": {}})
        client = Client("http://testserver", token, dataset="people", receipts="receipts.jsonl")
        client._http.close()
        client._http = http
        for question in QUESTIONS:
            look(f"preview {question}", client.cost_preview, question)
            look(question, client.ask, question)
        look("train", getattr, client, "train")
        show(look, client)
        asked = [(name, {"question": question}) for question in QUESTIONS for name in ("preview", "ask")]
        calls = [*asked, *LOOKS, ("left", {}), ("boards", {}), ("submit", {})]
        look.must("tools", lambda: asyncio.run(_talk(make_tools(client), calls)))
    service.close()


def test_a_client_and_an_agent_see_nothing_of_the_protected_rows():
    assert_same(*(observe(partial(agent_session, columns=t, later=None)) for t in make_pair(TEXT)))


def local_agent_session(look: Look, columns, later):
    """An agent that asks a file on its own machine, and ends its account."""
    _put(columns, "people.csv")
    book = Book("people.csv.holdfast")
    guard = Guard("brought/people.csv", ledger=book)
    asked = [(name, {"question": question}) for question in QUESTIONS for name in ("preview", "ask")]
    last = {"questions": ["share(x > 3)"]}
    calls = [*asked, *LOOKS, ("status", {}), ("report", last), ("status", {})]
    look.must("tools", lambda: asyncio.run(_talk(make_local_tools(lambda: guard), calls)))
    book.close()


def test_an_agent_on_this_machine_sees_nothing_of_the_protected_rows():
    assert_same(*(observe(partial(local_agent_session, columns=t, later=None)) for t in make_pair(TEXT)))
