"""A table that grows, over loopback: the owner opens an epoch, and everyone's client knows which one it
asks."""

from __future__ import annotations

from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import pytest
from server_process import serving

from holdfast.client import Client
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.guard import Epoch


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A service of its own on loopback: its folder, its address and the owner's token."""
    home = tmp_path_factory.mktemp("house")
    (home / "data").mkdir()
    for part in range(4):
        values = np.random.default_rng(part).random(1000)
        pd.DataFrame({"x": values}).to_parquet(home / "data" / f"{part}.parquet")
    with serving(home) as started:
        owner = started["tokens"]["owner"]
        headers = {"Authorization": f"Bearer {owner}"}
        body = {"name": "t", "source": "0.parquet"}
        httpx.post(f"{started['url']}/v1/datasets", json=body, headers=headers, timeout=60).raise_for_status()
        yield home, started["url"], owner


def test_an_owner_opens_an_epoch_and_everyone_asks_the_new_rows(house, tmp_path, monkeypatch):
    _, url, token = house
    owner = Client(url, token, receipts=tmp_path / "receipts")
    first = owner.share("x > 0.5", guess=0.2)
    assert owner.epoch == Epoch(1, 0.95, 0.95)
    owner.close_account()
    with pytest.raises(HoldfastError, match="closed"):
        owner.share("x > 0.6")

    real, sent = owner._http.request, []

    def losing(method, path, **options):
        response = real(method, path, **options)
        if path.endswith("epochs") and method == "POST":
            sent.append(options["headers"]["Idempotency-Key"])
            if len(sent) < 3:
                raise httpx.ReadError("lost on the way back")
        return response

    monkeypatch.setattr(owner._http, "request", losing)
    monkeypatch.setattr("holdfast.client._connection.time", SimpleNamespace(sleep=lambda seconds: None))
    later = owner.next_epoch("1.parquet", together=0.9)
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert [epoch["epoch"] for epoch in owner.epochs] == [1, 2]
    assert later.dataset == "t@2"
    assert (later.epoch.number, later.spent, len(later.train)) == (2, 0, 1000)
    new = owner.share("x > 0.5", guess=0.2)  # The name alone is the newest epoch.
    assert new.cost > 0
    assert new.receipt.book != first.receipt.book
    assert later.share("x > 0.5") == new
    earlier = Client(url, token, dataset="t@1")
    assert earlier.share("x > 0.5") == first
    assert [str(one.query) for one in earlier.history] == ["share(x > 0.5)"]
    assert earlier.certificate.numbers["nats spent"] == first.cost
    exports = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    earlier.export(exports[0])
    later.export(exports[1])
    found = owner.verify_epochs(exports)
    assert [(one.whole, one.receipts) for one in found] == [(True, 1), (True, 2)]
    for client in (owner, later, earlier):
        client.close()


def test_mistakes_are_those_of_a_guard_and_an_analyst_opens_nothing(house):
    _, url, token = house
    owner = Client(url, token)
    before = len(owner.epochs)
    with pytest.raises(InvalidArgument, match="these are the rows of epoch 1"):
        owner.next_epoch("0.parquet")
    with pytest.raises(InvalidArgument, match="confidence is given"):
        owner.next_epoch("2.parquet", confidence=0.9, together=0.9)
    issued = owner._call("POST", "/tokens", {"name": "ann", "role": "analyst", "dataset": "t"})
    analyst = Client(url, issued["token"])
    with pytest.raises(HoldfastError, match="403"):
        analyst.next_epoch("2.parquet")
    with pytest.raises(HoldfastError, match="403"):
        analyst.close_account()
    assert len(analyst.epochs) == before
    owner.close()
    analyst.close()
