"""`holdfast serve --demo` in a process of its own, asked by `holdfast.client.Client` over loopback."""

from __future__ import annotations

from types import SimpleNamespace

import httpx
import pytest

from holdfast.client import Client
from holdfast.errors import BudgetSpent, HoldfastError, InvalidArgument, QueryRejected
from holdfast.guard import Answer
from holdfast.ledger import read_receipts
from holdfast.queries import share


@pytest.fixture
def client(served, tmp_path):
    client = Client(served["url"], served["tokens"]["analyst"], receipts=tmp_path / "receipts")
    yield client
    client.close()


def test_the_same_questions_as_a_guard(client):
    before = client.spent
    answer = client.share("price > 5000", guess=0.3)
    assert isinstance(answer, Answer)
    assert answer.low <= answer.value <= answer.high
    assert client.share("NOT price <= 5000") == answer
    assert client.spent == pytest.approx(before + answer.cost, abs=1e-9)
    assert client.mean("carat", bounds=(0, 3)).half_width < 0.15
    assert client.quantile("carat", 0.5, guess=0.7).low > 0.6
    assert "share(price > 5000)" in [str(one.query) for one in client.history]
    assert "every interval" in client.certificate.statement
    assert answer.certificate.theorem == client.certificate.theorem


def test_a_preview_and_what_is_left(client):
    preview = client.cost_preview(share("carat > 1", guess=0.33))
    assert 0 < preview.if_confirmed < preview.at_most
    assert 0 < client.left < 1000
    assert client.left.confirmed > client.left.surprises


def test_the_training_part_is_free(client):
    before = client.spent
    train = client.train
    assert {"price", "carat"} <= set(train.columns)
    assert client.spent == before


def test_errors_are_those_of_a_guard(client):
    with pytest.raises(QueryRejected, match="no column") as mistake:
        client.share("height > 3")
    assert mistake.value.asked == 0
    with pytest.raises(BudgetSpent) as refused:
        client.share("carat > 1", where="price > 18810", guess=1.0)
    assert refused.value.left > 0


def test_receipts_are_kept_and_hold_the_book_to_its_word(served, client, tmp_path):
    client.ask_all(["share(carat > 0.7)", "share(carat > 1.2)"])
    assert len(read_receipts(tmp_path / "receipts")) == 2
    auditor = Client(served["url"], served["tokens"]["auditor"], dataset="diamonds")
    auditor.export(tmp_path / "book.jsonl")
    found = client.verify(tmp_path / "book.jsonl", served["key"])
    assert found.whole
    assert found.receipts == 2
    rows = (tmp_path / "book.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(rows[:-3]))
    assert not client.verify(tmp_path / "cut.jsonl").whole
    with pytest.raises(HoldfastError, match="403"):
        auditor.share("carat > 1")
    auditor.close()


def test_a_lost_connection_is_tried_again_with_the_same_key_and_paid_once(client, monkeypatch):
    real, sent = client._http.request, []

    def losing(method, path, **options):
        response = real(method, path, **options)
        if path.endswith("questions"):
            sent.append(options["headers"]["Idempotency-Key"])
            if len(sent) < 3:
                raise httpx.ReadError("lost on the way back")
        return response

    monkeypatch.setattr(client._http, "request", losing)
    monkeypatch.setattr("holdfast.client._connection.time", SimpleNamespace(sleep=lambda seconds: None))
    before = client.spent
    answer = client.share("carat > 0.9", guess=0.4)
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert client.spent == pytest.approx(before + answer.cost, abs=1e-9)


def test_a_service_that_is_not_there_is_said_in_the_end(monkeypatch):
    monkeypatch.setattr("holdfast.client._connection.time", SimpleNamespace(sleep=lambda seconds: None))
    client = Client("http://127.0.0.1:9", "hf_none", dataset="x", tries=2)
    with pytest.raises(HoldfastError, match=r"No service answers at http://127.0.0.1:9 \(.*, tries: 2\)"):
        client.share("x > 1")
    client.close()


def test_a_client_must_name_the_dataset_if_there_is_not_exactly_one(served):
    owner = Client(served["url"], served["tokens"]["owner"])
    assert owner.dataset == "diamonds"
    issued = owner._call("POST", "/tokens", {"name": "nobody", "role": "analyst", "dataset": "nothing"})
    lost = Client(served["url"], issued["token"])
    with pytest.raises(InvalidArgument, match="no dataset"):
        lost.share("x > 1")
    owner.close()
    lost.close()
