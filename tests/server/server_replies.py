"""One request of every kind to a service with a dataset, a board and a gate, and what it replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from holdfast.server import Service


def every_reply(service: Service, client: Any, headers: dict[str, str]) -> Iterator[tuple[str, str, Any]]:
    """The method, the path as the description writes it, and the reply as data. What ends something comes
    last."""

    def send(
        method: str, path: str, body: Any = None, *, name: str = "", **more: Any
    ) -> tuple[str, str, Any]:
        sent = {} if body is None else {"json": body}
        address = path.replace("{name}", name)
        for key, value in more.pop("filled", {}).items():
            address = address.replace(f"{{{key}}}", value)
        reply = client.request(
            method, f"/v1{address}", headers={**headers, **more.pop("headers", {})}, **sent, **more
        )
        assert reply.status_code < 300, (method, path, reply.text)
        return method, f"/v1{path}", reply.json() if reply.content else None

    people = "/datasets/{name}"
    for path in ("/health", "/live", "/ready", "/key", "/me", "/sign-in"):
        yield send("GET", path)
    given = send("POST", "/tokens", {"name": "eve", "role": "analyst"})
    yield given
    yield send("GET", "/tokens")
    yield send("PATCH", "/tokens/{identity}", {"days": 3}, filled={"identity": given[2]["identity"]})
    yield send("GET", "/datasets")
    yield send("GET", people, name="people")
    for query in ("share(age > 40)", "share(age > 41, guess = 0.7)", "mean(income, 0, 100000)"):
        for path in ("/preview", "/questions", "/preview"):
            yield send("POST", people + path, {"query": query}, name="people")
    yield send("POST", people + "/curves", {"query": "cdf(age)"}, name="people")
    yield send("POST", people + "/tables", {"query": "share(income > 40000, by = member)"}, name="people")
    yield send("POST", people + "/discoveries", {"claim": "share(age > 50) > 0.2"}, name="people")
    yield send("GET", people + "/discoveries", name="people")
    questions = [{"query": "share(age > 42)"}, {"query": "share(age > 43)"}]
    yield send("POST", people + "/batches", {"questions": questions}, name="people")
    for path in (
        "/history",
        "/columns",
        "/certificate",
        "/certificate?format=in-toto",
        "/verify",
        "/terms",
        "/epochs",
    ):
        method, described, reply = send("GET", people + path, name="people")
        yield method, described.partition("?")[0], reply
    yield send("PATCH", people + "/terms", {"shares": {"red": 3.0}}, name="people")
    rows = pd.DataFrame({"age": range(900), "income": 1.5, "member": True})
    rows.to_csv(service.sources / "later.csv", index=False)
    yield send("POST", people + "/epochs", {"source": "later.csv"}, name="people")
    yield send("POST", people + "/close", name="people@1")
    yield send("POST", people + "/report", {"questions": ["share(age > 40)"]}, name="people")
    yield send("GET", people + "/report", name="people")
    yield send("GET", people, name="people")
    yield send("POST", people + "/archive", name="people")
    yield send("GET", "/states")
    yield send("POST", people + "/unarchive", name="people")

    board = {"name": "race", "source": "y.csv", "target": "y", "start": 0.3}
    yield send("POST", "/boards", board)
    yield send("POST", "/boards", {**board, "name": "dark", "source": "z.csv", "blind": True})
    for name in ("race", "dark"):
        ids = send("GET", "/boards/{name}/ids", name=name)
        yield ids
        body = {"id": ids[2], "prediction": [1] * len(ids[2])}
        submitted = send("POST", "/boards/{name}/submissions", body, name=name)
        yield submitted
        yield send("GET", "/boards/{name}/submissions", name=name)
    yield send("POST", "/boards/{name}/unblind", name="dark")
    yield send("PUT", "/boards/{name}/finalists", {"submissions": [submitted[2]["key"]]}, name="dark")
    yield send("GET", "/boards/{name}/finalists", name="dark")
    yield send("POST", "/boards/{name}/final", name="dark")
    yield send("GET", "/boards/{name}", name="dark")
    yield send("GET", "/boards")

    scores = {f"task {number}": number % 2 for number in range(400)}
    yield send("POST", "/gates", {"name": "agent", "results": {"scores": scores}, "expect": 10})
    better = {"name": "v2", "scores": dict.fromkeys(scores, 1)}
    for candidate in ({"name": "v1.1", "scores": scores}, better, better):
        yield send("POST", "/gates/{name}/submissions", candidate, name="agent")
    for path in ("/verdicts", "/tasks", ""):
        yield send("GET", "/gates/{name}" + path, name="agent")
    yield send("GET", "/gates")
    yield send("POST", "/gates/{name}/report", name="agent")
    yield send("DELETE", people, name="people", params={"confirm": "people"})
    yield send("GET", "/administration")
