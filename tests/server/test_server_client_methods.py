"""A client has the methods of a guard, and says in words what a service cannot do and why none answers."""

from __future__ import annotations

import http.server
import inspect
import threading
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from server_process import serving

from holdfast.client import Client
from holdfast.errors import HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Guard
from holdfast.ledger import read_receipts
from holdfast.server import Service

# Of a guard in this process, and of no use to someone far away: the training part is a pandas table already.
IN_PROCESS = {
    "answer_each",
    "answer_apart",
    "in_turn",
    "training_rows",
    "history_page",
    "balance",
    "confidence",
    "error",
}
IN_PROCESS |= {"to_score", "to_compare", "on_answer"}  # There is no question that is not asked yet, far away.
IN_PROCESS |= {"diagnose"}  # A service hands out the order of its training rows only as a table.


@pytest.fixture
def client(served):
    client = Client(served["url"], served["tokens"]["analyst"])
    yield client
    client.close()


@pytest.fixture
def elsewhere():
    """The address of a web server that is no service of ours."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(404 if "missing" in self.path else 200)
            self.end_headers()
            self.wfile.write(b'["nothing"]' if "missing" in self.path else b"<p>Hello</p>")

        def log_message(self, *said):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_client_has_every_method_of_a_guard_with_its_arguments():
    for name, of_guard in inspect.getmembers(Guard):
        if name.startswith("_") or name in IN_PROCESS:
            continue
        of_client = getattr(Client, name)
        if callable(of_guard) and name != "next_epoch":  # Rows are named to a service, and not handed over.
            wanted = [
                parameter
                for parameter in inspect.signature(of_guard).parameters
                if parameter not in ("asker", "name")
            ]
            assert set(wanted) <= set(inspect.signature(of_client).parameters), name


def test_predictions_that_are_an_expression_are_scored(client):
    condition = "case when carat > 0.7 then 1 else 0 end"
    target = "(case when price > 2400 then 1 else 0 end)"
    hits = client.score(condition, target=target, guess=0.93)
    assert 0.8 < hits.low <= hits.value <= hits.high <= 1
    assert client.score(condition, target=target, metric="accuracy") == hits
    misses = client.score(condition, target=target, metric="error", guess=0.07)
    # Both intervals hold the same truth; their cells depend on what was asked before.
    assert misses.low <= 1 - hits.low
    assert 1 - hits.high <= misses.high
    for wrong in ("train", {"x": (0, 1)}, (0, 1, 2)):
        with pytest.raises(InvalidArgument, match="bounds"):
            client.score("0.5", target=target, metric="brier", bounds=wrong)
    brier = client.score("0.5", target=target, metric="brier", guess=0.25)
    assert brier.low <= 0.25 <= brier.high
    with pytest.raises(InvalidArgument, match="metric"):
        client.score(condition, target=target, metric="beauty")
    several = client.score(condition, target=target, metric=["accuracy", "error"])
    assert several == {"accuracy": hits, "error": misses}
    with pytest.raises(InvalidArgument, match="guess"):
        client.score(condition, target=target, metric=["accuracy", "error"], guess=0.9)


def test_what_a_service_cannot_do_is_said_with_what_it_can(client):
    before = client.spent
    with pytest.raises(QueryRejected, match=r"client\.submit\(board, table\)"):
        client.score(np.zeros(10), target="price")
    with pytest.raises(QueryRejected, match="mean, share or quantile"):
        client.custom(len, tail=None)
    assert client.spent == before


def test_the_table_and_its_account(client):
    assert client.rows > 1000
    assert not client.closed
    assert (client.schema["price"].kind, client.schema["cut"].kind) == ("number", "text")
    client.share("carat > 1.1", guess=0.25)
    pytest.importorskip("matplotlib")
    assert client.plot().axes


def test_a_client_shows_where_it_asks_and_never_its_token(served, client):
    client.spent  # noqa: B018
    assert repr(client) == f"Client('{served['url']}', dataset='diamonds')"
    hidden = Client("http://me:secret@127.0.0.1:9/there?key=secret", "hf_secret", dataset="x")
    assert repr(hidden) == "Client('http://127.0.0.1:9/there', dataset='x')"
    hidden.close()


def test_no_service_is_an_error_of_ours_with_the_address_after_all_tries(monkeypatch):
    waits = []
    # Of the client alone: other threads of this process may sleep too.
    monkeypatch.setattr("holdfast.client._connection.time", SimpleNamespace(sleep=waits.append))
    client = Client("http://me:secret@127.0.0.1:9", "hf_secret", tries=3)
    with pytest.raises(
        HoldfastError, match=r"at http://127\.0\.0\.1:9 .*tries: 3.*Check the address"
    ) as failed:
        client.spent  # noqa: B018
    assert "secret" not in str(failed.value)
    assert len(waits) == 2
    client.close()


def test_an_address_without_a_service_is_reported(elsewhere):
    client = Client(elsewhere, "hf_x", dataset="x")
    with pytest.raises(HoldfastError, match=f"The server at {elsewhere} is not a Holdfast service"):
        client.spent  # noqa: B018
    client.close()
    client = Client(elsewhere, "hf_x", dataset="missing")
    with pytest.raises(HoldfastError, match="Not Found"):
        client.spent  # noqa: B018
    client.close()


@pytest.mark.parametrize("url", ["localhost:8344", "127.0.0.1", "ftp://127.0.0.1", "http://[::", ""])
def test_a_malformed_address_is_refused(url):
    with pytest.raises(InvalidArgument, match="'url' argument of Client"):
        Client(url, "hf_x")


@pytest.mark.parametrize("token", ["hf_secret\n", "hf_secrét"])
def test_a_malformed_token_is_refused_and_not_shown(token):
    with pytest.raises(InvalidArgument, match="'token' argument of Client") as refused:
        Client("http://127.0.0.1:9", token)
    assert "secr" not in str(refused.value)


@pytest.mark.parametrize("bad", [{"timeout": 10**400}, {"timeout": 0}, {"tries": 10**400}, {"tries": 0}])
def test_numbers_of_a_client_are_checked(bad):
    (name,) = bad
    with pytest.raises(InvalidArgument, match=f"'{name}' argument of Client"):
        Client("http://127.0.0.1:9", "hf_x", **bad)


def test_a_long_timeout_is_one_that_sockets_take():
    client = Client("http://127.0.0.1:9", "hf_x", dataset="x", tries=1, timeout=9e9)
    with pytest.raises(HoldfastError, match="No service answers"):
        client.spent  # noqa: B018
    client.close()


def test_predictions_are_a_table_or_a_map(served, client):
    owner = Client(served["url"], served["tokens"]["owner"])
    ids = range(53_940)
    told = owner.submit("expensive", dict.fromkeys(ids, 0))
    assert owner.submit("expensive", {"id": ids, "prediction": [0] * len(ids)}) == told
    for wrong in (5, "predictions.csv", {"id": [1, 2], "prediction": [1]}):
        with pytest.raises(HoldfastError, match="id"):
            owner.submit("expensive", wrong)
    owner.close()


def test_a_board_from_its_registration_to_its_final(tmp_path):
    service, rows = Service(tmp_path), 600
    labels = pd.DataFrame({"id": range(rows), "y": np.random.default_rng(3).integers(0, 2, rows)})
    labels.to_csv(service.sources / "labels.csv", index=False)
    tokens = {
        name: service.tokens.issue(name, role=role)[0]
        for name, role in (("olga", "owner"), ("ann", "participant"))
    }
    service.close()

    def predictions(right):
        wrong = np.random.default_rng(int(100 * right)).random(rows) >= right
        return dict(zip(labels["id"], np.where(wrong, 1 - labels["y"], labels["y"]).tolist(), strict=True))

    with serving(tmp_path) as started:
        receipts = tmp_path / "receipts"
        owner = Client(started["url"], tokens["olga"])
        ann = Client(started["url"], tokens["ann"], receipts=receipts)
        made = owner.register_board(
            "race", "labels.csv", target="y", start=0.5, most_finalists=1, blind=True, sealed=0.25
        )
        assert (made["blind"], made["rows"], made["sealed_rows"], made["most_finalists"]) == (
            True,
            450,
            150,
            1,
        )
        assert sorted(ann.board_ids("race")) == list(range(rows))
        waiting = ann.submit("race", predictions(0.7))
        assert ann.submissions("race") == [{**waiting, "finalist": False}]
        assert owner.unblind("race")["unscored"] == []
        later = ann.submit("race", predictions(0.95))
        assert [entry["key"] for entry in ann.board("race")["standing"]] == [later["key"], waiting["key"]]
        assert ann.choose_finalists("race", [waiting["key"]]) == [waiting["key"]]
        assert [entry["finalist"] for entry in owner.submissions("race")] == [True, False]
        with pytest.raises(QueryRejected, match="at most 1 submission for"):
            ann.choose_finalists("race", [waiting["key"], later["key"]])
        with pytest.raises(QueryRejected, match="not probabilities"):
            ann.submit("race", dict.fromkeys(range(rows), 0.5))
        for forbidden in (lambda: ann.final("race"), lambda: ann.unblind("race"), lambda: ann.share("y > 0")):
            with pytest.raises(HoldfastError, match="a participant"):
                forbidden()
        (score,) = owner.final("race")
        assert score["key"] == waiting["key"]
        assert score["low"] < 0.7 < score["high"]
        assert ann.board("race")["final"] == owner.final("race") == [score]
        assert len(read_receipts(receipts)) == 1  # What waits has none yet.
        owner.close()
        ann.close()
