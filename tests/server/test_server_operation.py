"""What operators look at: metrics, logs, request ids, probes and the witness, of a real service."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import math
import re
import shutil
import signal
import socket
import warnings
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from server_operated import free_port, operated, stop

from bodies import largest_body
from holdfast.cli import cli
from holdfast.errors import QueryRejected
from holdfast.ledger import check_witness, export, read_lines, read_witness
from holdfast.queries import Expression
from holdfast.server import Limits, Service, create_app, logging_to
from waiting import wait_until

# The steps of durations, in seconds. Anything finer would tell how long a question took.
STEPS = (0.05, 0.25, 1.0, 5.0, 30.0)
# A question of every kind of attack: exact sums, differences, injections, quoting errors, secrets in names.
ATTACKS = [
    "share(age > 41)",
    "share(age > 41.0000001)",
    "mean(income, 0, 123456.789)",
    "mean(income / (age - 44), 0, 1e6)",
    "share(income > 41234.5678 and age = 33)",
    "quantile(income, 0.987654)",
    "share(error('value ' || age))",
    "share(1 / 0 > 7777.777)",
    "share(cast('secret-text' as integer) > 1)",
    "share(age > 40); drop table events",
    "nonsense 31337",
]


@pytest.fixture(scope="module")
def home(set_up, tmp_path_factory):
    home = tmp_path_factory.mktemp("operated") / "home"
    shutil.copytree(set_up, home)
    return home


@pytest.fixture(scope="module")
def running(home):
    """A service with metrics at a port of their own, a JSON log and a witness, and an analyst's token."""
    service = Service(home)
    analyst, _ = service.tokens.issue("ann", role="analyst", team="red", dataset="people")
    owner, _ = service.tokens.issue("olga", role="owner")
    service.close()
    port = free_port()
    options = ("--metrics", f"127.0.0.1:{port}", "--log-level", "info", "--log-format", "json")
    with operated(home, *options, "--witness", str(home.parent / "witness.jsonl")) as running:
        running.tokens = {"analyst": analyst, "owner": owner}
        running.metrics = f"http://127.0.0.1:{port}/metrics"
        yield running


def leaked(text, words):
    """The words that a log must not hold and does."""
    return [word for word in words if word in text]


def metrics(text):
    """Every sample by its name and labels."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scraped(running):
    return metrics(httpx.get(running.metrics).text)


def when_ready(running, status=200):
    """The reply of the probe once it has this status: the first checks open the datasets."""

    def probed():
        reply = running.call("GET", "/ready")
        return reply if reply.status_code == status else None

    return wait_until(probed)


def test_questions_are_counted_as_answered_cached_and_refused(running):
    token = running.tokens["analyst"]
    before = scraped(running)

    def grown(name, *labels):
        sample = (name, *sorted(labels))
        return scraped(running)[sample] - before.get(sample, 0)

    answer = running.ask(token, "share(age > 50)").json()
    assert running.ask(token, "share(age > 50)").json() == answer
    assert running.ask(token, "share(agee > 50)").status_code == 422
    both = {"questions": [{"query": "share(age > 50)"}, {"query": "share(age > 51)"}]}
    assert running.call("POST", "/datasets/people/batches", token, json=both).status_code == 200
    questions = "holdfast_questions_total"
    assert grown(questions, "answered", "questions") == 1
    assert grown(questions, "cached", "questions") == 1
    assert grown(questions, "refused", "questions") == 1
    assert grown(questions, "answered", "batches") == 1
    assert grown(questions, "cached", "batches") == 1
    assert grown("holdfast_book_answers_total", "people") == 2
    assert grown("holdfast_book_lines_total", "people") == 4
    now = scraped(running)
    assert now["holdfast_open_reservations", "people"] == 0
    assert now["holdfast_epochs", "people"] == now["holdfast_epochs", "other"] == 1
    assert now["holdfast_books_reachable",] == 1
    assert now["holdfast_broken_datasets",] == 0
    route = "/v1/datasets/{name}/questions"
    assert grown("holdfast_requests_total", route, "POST", "200") == 2
    assert grown("holdfast_bytes_total", "sent") > 0


def test_metrics_hold_no_exact_time_no_exact_memory_and_no_question(running):
    running.ask(running.tokens["analyst"], "share(age > 52)")
    now = scraped(running)
    sums = [value for name, value in now.items() if name[0] == "holdfast_request_duration_seconds_sum"]
    assert sums
    # The sum is made of whole steps, in units of the smallest.
    assert all(round(total / STEPS[0], 6).is_integer() for total in sums)
    assert now["holdfast_memory_bytes",] % 2**26 == 0
    text = httpx.get(running.metrics).text
    buckets = [
        line for line in text.splitlines() if line.startswith("holdfast_request_duration_seconds_bucket")
    ]
    limits = {re.search(r'le="([^"]+)"', line)[1] for line in buckets}
    assert sorted(map(float, limits)) == [*STEPS, math.inf]
    assert "age" not in text.replace("agent", "").replace("page", "")
    assert "ann" not in text
    assert "python_gc" not in text
    assert not any(name[0].endswith("_created") for name in now)  # Exact times of first requests.


def test_metrics_at_the_service_are_for_owners_of_everything(running):
    path = "/metrics"
    assert running.call("GET", path).status_code == 401
    assert running.call("GET", path, running.tokens["analyst"]).status_code == 403
    body = {"name": "scoped", "role": "owner", "dataset": "dataset:people"}
    scoped = running.call("POST", "/tokens", running.tokens["owner"], json=body).json()["token"]
    assert running.call("GET", path, scoped).status_code == 403
    reply = running.call("GET", path, running.tokens["owner"])
    assert reply.status_code == 200
    assert ("holdfast_book_lines_total", "people") in metrics(reply.text)


@pytest.mark.parametrize(
    ("given", "taken"),
    [("abcdefgh-1.2_3", True), ("short", False), ("x" * 65, False), ("white space", False), ("", False)],
)
def test_a_request_id_is_taken_if_it_is_well_formed(running, given, taken):
    reply = running.call("GET", "/live", headers={"X-Request-Id": given})
    assert (reply.headers["X-Request-Id"] == given) is taken
    assert len(reply.headers["X-Request-Id"]) >= 8


def test_every_reply_has_a_request_id_and_a_token_is_not_used_as_one(running):
    token = running.tokens["analyst"]
    replies = [
        running.call("GET", "/nowhere"),
        running.call("GET", "/datasets"),
        running.call("POST", "/datasets/people/questions", token, content=b"{"),
        running.call("POST", "/datasets/people/questions", token, content=b" " * (65 * 2**20)),
        running.client.get("/"),
    ]
    assert [reply.status_code for reply in replies] == [401, 401, 422, 413, 200]
    ids = {reply.headers["X-Request-Id"] for reply in replies}
    assert len(ids) == len(replies)
    assert running.call("GET", "/live", headers={"X-Request-Id": token}).headers["X-Request-Id"] != token


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "TRACE"])
def test_no_browser_keeps_a_reply_or_guesses_its_type(running, method):
    """Whatever the address, the method and the status; only the files of the page may be asked for again."""
    addresses = set(running.client.get("/openapi.json").json()["paths"])
    addresses = {address.replace("{name}", "nobody").replace("{identity}", "none") for address in addresses}
    page = {"/", "/page.js", "/page.css", "/openapi.json"}
    statuses = set()
    for address in addresses | page | {"/nowhere", "/favicon.ico", "/v1", "/v1/sign-in/back", "/%00"}:
        for token in (None, running.tokens["analyst"]):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            content = b"{}" if method == "POST" else None
            reply = running.client.request(method, address, headers=headers, content=content)
            kept = "no-cache" if address in page and reply.status_code == 200 else "no-store"
            asked = f"{method} {address} {reply.status_code}"
            assert reply.headers.get("X-Content-Type-Options") == "nosniff", asked
            assert reply.headers.get("Cache-Control") == kept, asked
            statuses.add(reply.status_code)
    assert statuses >= {401, 405 if method != "GET" else 404}


def test_an_unexpected_error_is_not_kept_either(service, monkeypatch):
    monkeypatch.setattr(service.tokens, "holder", lambda secret: 1 / 0)
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        reply = client.get("/v1/me", headers={"Authorization": "Bearer hf_unknown"})
    assert reply.status_code == 500
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


def test_what_is_not_http_fills_no_log(running):
    """Anybody can send it without a token, so a line for each would let anybody fill the disk."""
    place = httpx.URL(running.url)
    upgrade = b"GET /v1/live HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
    for sent in (b"no http\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", upgrade):
        with socket.create_connection((place.host, place.port), timeout=10) as connection:
            connection.sendall(sent)
            reply = b""
            while block := connection.recv(4096):
                reply += block
        assert reply.startswith(b"HTTP/1.1 200" if sent == upgrade else b"HTTP/1.1 400")
        assert b"nosniff" in reply
        assert b"no-store" in reply
    running.call("GET", "/live", headers={"X-Request-Id": "after-garbage"})
    wait_until(lambda: "after-garbage" in running.log.read_text())
    events = [line["event"] for line in running.lines() if line["logger"].startswith("uvicorn")]
    assert not [event for event in events if re.search("Invalid HTTP|upgrade|WebSocket", event)]


def test_the_log_has_a_line_for_every_request_and_no_value(running):
    token = running.tokens["analyst"]
    secrets = [token, running.tokens["owner"]]
    numbers = set()
    for number, question in enumerate(ATTACKS):
        reply = running.ask(token, question, headers={"X-Request-Id": f"attack-{number:04}"})
        numbers |= set(re.findall(r"\d+\.\d{3,}", reply.text + question))
    assert numbers
    last = f"attack-{len(ATTACKS) - 1:04}"
    wait_until(lambda: last in running.log.read_text())
    text = running.log.read_text()
    lines = [line for line in running.lines() if line.get("request_id", "").startswith("attack-")]
    assert len(lines) == len(ATTACKS)
    assert {line["route"] for line in lines} == {"/v1/datasets/{name}/questions"}
    assert all(set(line) >= {"time", "level", "status", "duration", "method"} for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", line["time"]) for line in lines)
    assert {line["duration"] for line in lines} <= {f"<={step:g}s" for step in STEPS} | {">30s"}
    words = (*numbers, *secrets, *ATTACKS, "income", "secret-text", "31337", "drop table", "share(")
    assert leaked(text, words) == []


def test_the_search_of_the_log_would_catch_a_value():
    """The sabotaged twin: a service that put the question into its log line would be caught."""
    stream = io.StringIO()
    with logging_to("info", "json", stream):
        logging.getLogger("holdfast.requests").info("asked %s", ATTACKS[2])
    assert leaked(stream.getvalue(), ["income", "123456.789"]) == ["income", "123456.789"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_log_lines_of_other_libraries_are_reduced_to_the_name_of_the_logger(form):
    stream = io.StringIO()
    with logging_to("info", form, stream):
        logging.getLogger("duckdb").error("row 17 holds %s", 41234.5678)
        logging.getLogger("uvicorn.error").error("Invalid request from %s", "41234.5678")
        logging.getLogger("asyncio").error("failed", exc_info=ValueError("41234.5678"))
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("overflow at 41234.5678", RuntimeWarning, stacklevel=1)
        logging.getLogger("holdfast.server").error("two\nlines")
    text = stream.getvalue()
    assert "41234" not in text
    assert len(text.splitlines()) == 5
    for words in ("the library duckdb", "Invalid request from", "ValueError", "RuntimeWarning", "two lines"):
        assert words in text


@pytest.mark.parametrize("form", ["json", "text"])
def test_words_of_our_own_keep_no_token_and_no_password(form):
    stream = io.StringIO()
    with logging_to("info", form, stream):
        logging.getLogger("holdfast.server").error("hf_abcdefghijkl at postgresql://me:pass@db/x")
    text = stream.getvalue()
    words = " ".join(map(str, json.loads(text).values())) if form == "json" else text
    assert "hf_… at postgresql://me:…@db/x" in words


def test_a_service_is_live_and_ready(running):
    assert running.call("GET", "/live").json() == {"status": "live"}
    assert running.call("GET", "/health").status_code == 200
    reply = when_ready(running)
    assert set(reply.json()["checks"].values()) == {"ok"}


def test_a_certificate_comes_in_an_envelope(running):
    from holdfast.ledger import open_envelope

    token = running.tokens["analyst"]
    sealed = running.call("GET", "/datasets/people/certificate?format=in-toto", token)
    statement = open_envelope(sealed.json(), running.key)
    plain = running.call("GET", "/datasets/people/certificate", token).json()
    assert statement["predicate"]["certificate"] == plain
    assert statement["subject"][0]["name"] == "people"
    assert running.call("GET", "/datasets/people/certificate?format=x", token).status_code == 422


def test_a_broken_dataset_does_not_make_the_others_unready(set_up, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(set_up, home)
    _forget(home, "other.parquet")
    port = free_port()
    with operated(home, "--log-format", "json", "--metrics", f"127.0.0.1:{port}") as running:
        running.metrics = f"http://127.0.0.1:{port}/metrics"
        reply = when_ready(running)
        assert "other" not in reply.text
        assert any("other cannot be opened" in line["event"] for line in running.lines())
        assert scraped(running)["holdfast_broken_datasets",] == 1


def test_a_service_without_books_or_disk_or_about_to_stop_is_not_ready(set_up, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(set_up, home)
    with operated(home, "--drain", "600") as running:
        when_ready(running)
        books = home / "books"
        (books / "damaged.holdfast").write_bytes(b"no book" * 1000)
        reply = when_ready(running, 503)
        assert reply.json()["checks"]["books"] == "failed; the log says more"
        assert str(home) not in reply.text
        (books / "damaged.holdfast").unlink()
        when_ready(running)
        home.rename(home.with_name("moved"))
        reply = when_ready(running, 503)
        assert reply.json()["checks"]["disk"] == "failed; the log says more"
        home.with_name("moved").rename(home)
        when_ready(running)
        running.process.send_signal(signal.SIGTERM)
        reply = when_ready(running, 503)
        assert "draining" in reply.json()["checks"]
        assert running.call("GET", "/live").status_code == 200  # Still here, for those who ask.


def test_readiness_names_the_check_that_hangs(service, monkeypatch):
    app = create_app(service)
    over = Event()
    monkeypatch.setitem(app.state.readiness.checks, "books", lambda: over.wait(60) and None)
    with TestClient(app) as client:
        reply = client.get("/v1/ready")
        over.set()
    assert reply.status_code == 503
    unfinished = "not finished within 2 s"
    assert reply.json()["checks"] == {
        "disk": "ok",
        "books": unfinished,
        "datasets": unfinished,
        "service": unfinished,
    }


def _forget(home, name):
    """Take a table away, and with it the rows of its dataset."""
    import sqlite3

    database = sqlite3.connect(home / "datasets.sqlite")
    database.execute("UPDATE datasets SET source = replace(source, ?, 'gone.parquet')", (name,))
    database.commit()
    database.close()


def test_the_witness_has_what_was_answered(home, running, tmp_path):
    running.ask(running.tokens["analyst"], "share(age > 60)")
    for _ in range(3):  # Signals that follow do not interrupt the end.
        running.process.terminate()
    assert stop(running.process) == 0
    seen = read_witness(home.parent / "witness.jsonl")
    service = Service(home)
    book = service.datasets.get("people").book
    export(book, tmp_path / "export.jsonl")
    lines = read_lines(tmp_path / "export.jsonl")
    own = [one for one in seen if one.book == book.identity]
    service.close()
    assert own[-1].sequence == len(lines)
    assert check_witness(lines, seen, running.key) == []
    assert check_witness(lines[:-1], seen, running.key) != []


def why_refused(text):
    """Why an expression is refused; nothing if it is read."""
    try:
        Expression.read(text)
    except QueryRejected as refusal:
        return str(refusal)
    return ""


def test_a_slow_upload_does_not_hold_up_the_end(set_up, tmp_path):
    """It is fast enough for the limits, and would take half an hour."""
    shutil.copytree(set_up, tmp_path / "home")
    service = Service(tmp_path / "home")
    owner, _ = service.tokens.issue("olga", role="owner")
    service.close()
    with operated(tmp_path / "home") as running:
        place = httpx.URL(running.url)
        with socket.create_connection((place.host, place.port), timeout=30) as connection:
            head = f"POST /v1/imports HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {owner}\r\n"
            connection.sendall(f"{head}Content-Length: {60 * 10**6}\r\n\r\n".encode())
            ended, arriving = Event(), Event()

            def send():
                with contextlib.suppress(OSError):
                    while not ended.wait(0.25):
                        connection.sendall(b"x" * 8_000)
                        arriving.set()

            thread = Thread(target=send)
            thread.start()
            try:
                assert arriving.wait(30)
                assert running.call("GET", "/live").status_code == 200  # The upload has begun by now.
                running.process.send_signal(signal.SIGTERM)
                assert running.process.wait(timeout=60) in (0, -signal.SIGTERM)
            finally:
                ended.set()
                thread.join()


def test_the_guide_names_the_limits_that_hold(owner):
    guide = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "operation.md").read_text()
    table = guide.partition("## Limits")[2].partition("\n## ")[0]
    query = create_app(None).openapi()["components"]["schemas"]["AskBody"]["properties"]["query"]
    assert f"| a question | {query['maxLength']:,} characters, " in table
    words, depth = re.search(r"([\d,]+) words and signs, nested (\d+) deep \|", table).groups()
    most, deep = int(words.replace(",", "")), int(depth)
    assert f"words and signs and at most {words} are read" in why_refused(("x+" * most)[: most + 1])
    assert "words and signs" not in why_refused(("x+" * most)[:most])
    assert f"more than {deep} deep" in why_refused("(" * (deep + 1) + "x" + ")" * (deep + 1))
    assert f"more than {deep} deep" in why_refused("+".join("x" * (deep + 2)))
    assert why_refused("+".join("x" * (deep + 1))) == ""
    (per_address,) = (
        option.default for option in cli.commands["serve"].params if option.name == "per_address"
    )
    assert Limits.connections_per_address == per_address
    assert f"{Limits.connections:,} in all, {per_address} of one address" in table
    megabytes = {
        "predictions and for imports of datasets": ("boards/b/submissions", "imports"),
        "results of a gate": ("gates/g/submissions", "gates"),
        "policies": ("datasets",),
    }
    for words, paths in megabytes.items():
        size = int(re.search(rf"\b(\d+) MB for {words}", table)[1]) * 2**20
        for path in paths:
            assert largest_body(owner.client, owner.token, path) == size, path
    kilobytes = {
        "batches and reports": ("datasets/d/batches", "datasets/d/report"),
        "a question": ("datasets/d/questions",),
        "all else": ("other",),
    }
    for words, paths in kilobytes.items():
        size = int(re.search(rf"\b(\d+) KB for {words}", table)[1]) * 2**10
        for path in paths:
            assert largest_body(owner.client, owner.token, path) == size, path
