"""Two services that share their books in PostgreSQL are one service: tokens, policies, tables, receipts."""

from __future__ import annotations

import shutil
import sqlite3

import httpx
import numpy as np
import pandas as pd
import pytest
from server_process import serving

from holdfast import ledger
from holdfast.errors import HoldfastError
from holdfast.server import Policy, Service

QUESTION = {"query": "share(x > 0.5, guess = 0.5)"}


def caller(said, token):
    return httpx.Client(
        base_url=f"{said['url']}/v1", headers={"Authorization": f"Bearer {token}"}, timeout=60
    )


@pytest.fixture
def homes(tmp_path, rng):
    """Two folders with the same sources, and the key in a place of its own."""
    table = pd.DataFrame({"x": rng.random(2_000)})
    for name in ("left", "right"):
        (tmp_path / name / "data").mkdir(parents=True)
        table.to_parquet(tmp_path / name / "data" / "t.parquet")
    return tmp_path / "left", tmp_path / "right"


def test_two_processes_and_one_database(homes, database, tmp_path):
    environment = {"HOLDFAST_BOOKS": database, "HOLDFAST_KEY": str(tmp_path / "key")}
    left, right = homes
    with serving(left, environment=environment) as first, serving(right, environment=environment) as second:
        assert second["tokens"] == {}  # There is an owner already.
        assert first["key"] == second["key"]
        owner = first["tokens"]["owner"]
        with caller(first, owner) as here, caller(second, owner) as there:
            body = {"name": "t", "source": "t.parquet", "policy": {"shares": {"/ann": 30.0}}}
            assert here.post("/datasets", json=body).status_code == 201
            assert [found["name"] for found in there.get("/datasets").json()] == ["t"]
            # The same rows are no second dataset on the other machine.
            refused = there.post("/datasets", json={**body, "name": "again"})
            assert refused.status_code == 422
            assert "the rows of the dataset 't'" in refused.json()["detail"]
            given = there.post("/tokens", json={"name": "ann", "role": "analyst", "dataset": "t"}).json()
            with caller(first, given["token"]) as ann, caller(second, given["token"]) as ann_there:
                answer = ann.post("/datasets/t/questions", json=QUESTION).json()
                same = ann_there.post("/datasets/t/questions", json=QUESTION).json()
                assert same["receipt"] == answer["receipt"]
                assert there.get("/datasets/t").json()["spent"] == pytest.approx(answer["cost"])  # Once.
                other = ann_there.post("/datasets/t/questions", json={"query": "share(x > 0.25)"}).json()
                described = ann.get("/datasets/t").json()
                assert described["share_left"] == pytest.approx(30 - answer["cost"] - other["cost"])
                # Receipts of both machines are for one book, signed with one key.
                export = tmp_path / "export.jsonl"
                export.write_bytes(here.get("/datasets/t/ledger").content)
                receipts = [ledger.Receipt(**one["receipt"]) for one in (answer, other)]
                assert ledger.verify(export, first["key"], receipts=receipts).whole
                # A token that one machine revokes is dead on the other with the next request.
                assert here.delete(f"/tokens/{given['identity']}").status_code == 204
                assert ann_there.post("/datasets/t/questions", json=QUESTION).status_code == 401


def test_another_key_is_refused_unless_it_is_to_replace_the_first(homes, database, tmp_path):
    left, right = homes
    Service(left, books=database).close()
    with pytest.raises(HoldfastError, match="Copy the key file of the machine that has served them"):
        Service(right, books=database)
    service = Service(right, books=database, replace_key=True)
    service.close()
    with pytest.raises(HoldfastError, match="signed with"):
        Service(left, books=database)
    shutil.copy(right / "key", left / "key")
    Service(left, books=database).close()


def test_what_a_folder_kept_moves_to_the_database_with_its_books(homes, database):
    """A service that had its books in PostgreSQL and its tokens in its folder."""
    left, _ = homes
    service = Service(left)
    service.datasets.register("t", "t.parquet", Policy(rate=7))
    secret, person = service.tokens.issue("ann", role="analyst", dataset="t")
    service.close()
    shutil.rmtree(left / "marks")  # Its books were never in files.
    with sqlite3.connect(left / "datasets.sqlite") as file:  # As earlier versions wrote it.
        file.execute("UPDATE datasets SET source = ?", (str(left / "data" / "t.parquet"),))
    file.close()
    for _ in range(2):
        moved = Service(left, books=database)
        assert moved.tokens.holder(secret) == person
        assert moved.datasets.get("t").policy.rate == 7
        assert moved.ready() == []
        moved.close()


def test_accounts_are_exact_when_both_machines_ask_at_once(homes, database, tmp_path):
    services = [Service(home, books=database, key=tmp_path / "key") for home in homes]
    services[0].datasets.register("t", "t.parquet", Policy())
    _, person = services[0].tokens.issue("ann", role="analyst")
    costs = [
        services[number % 2].datasets.get("t").ask(person, f"share(x > 0.{number})").cost
        for number in range(1, 9)
    ]
    spent = [service.datasets.get("t").guard.spent for service in services]
    assert spent[0] == spent[1] == pytest.approx(np.sum(costs), abs=1e-5)
    for service in services:
        service.close()
