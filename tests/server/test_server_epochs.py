"""Datasets that grow: rows that arrive later have an account of their own, and the old one stays as it is."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from server_caller import Caller, varied
from starlette.testclient import TestClient

from holdfast.coding import look_nats
from holdfast.engines import unsealed
from holdfast.ledger import Book, EpochLink, Receipt, verify_epochs
from holdfast.server import Policy, Service, create_app


@pytest.fixture
def arrive(service, rng):
    """Puts a file with new people among the sources, and returns its name."""

    def arrive(rows=1500, name=None):
        name = name or f"{secrets.token_hex(4)}.csv"
        table = {"age": rng.integers(18, 90, rows), "income": rng.normal(4e4, 9e3, rows)}
        pd.DataFrame(table).to_csv(service.sources / name, index=False)
        return name

    return arrive


@pytest.fixture
def grow(owner, arrive):
    """Opens an epoch on new rows."""

    def grow(name="people", rows=1500, key="", **terms):
        headers = {"Idempotency-Key": key} if key else {}
        return owner("POST", f"/datasets/{name}/epochs", {"source": arrive(rows), **terms}, **headers)

    return grow


def described(caller, name="people"):
    return caller("GET", f"/datasets/{name}").json()


def test_new_rows_have_an_account_of_their_own_and_the_old_one_stays_as_it_is(grow, analyst, owner):
    old = analyst.ask("share(age > 40, guess = 0.3)").json()
    opened = grow()
    assert opened.status_code == 201
    assert (opened.json()["epoch"], opened.json()["rows"], opened.json()["spent"]) == (2, 1500, 0)
    found = described(analyst)
    assert (found["rows"], found["spent"], found["epoch"]["number"]) == (1500, 0, 2)
    assert [one["spent"] for one in found["epochs"]] == [old["cost"], 0]
    assert [one["address"] for one in found["epochs"]] == ["people@1", "people@2"]
    new = analyst.ask("share(age > 40, guess = 0.3)").json()
    assert new["receipt"]["book"] != old["receipt"]["book"]
    assert analyst.ask("share(age > 40)", "people@1").json() == old
    assert analyst.ask("share(age > 50)", "people@1").status_code == 200  # It is still open.
    assert [one["spent"] for one in owner("GET", "/datasets/people/epochs").json()] == [
        described(owner, "people@1")["spent"],
        new["cost"],
    ]


def test_every_epoch_has_its_own_history_certificate_training_part_and_book(grow, analyst, owner, person):
    first = analyst.ask("share(age > 40)").json()
    assert owner("POST", "/datasets/people/close").status_code == 200
    assert grow().json()["closed"] is False
    second = analyst.ask("share(age > 60)").json()
    for name, answer in (("people@1", first), ("people@2", second), ("people", second)):
        page = analyst("GET", f"/datasets/{name}/history").json()["answers"]
        assert [one["query"] for one in page] == [answer["query"]]
        assert analyst("GET", f"/datasets/{name}/verify").json()["whole"]
    numbers = [analyst("GET", f"/datasets/people@{epoch}/certificate").json()["numbers"] for epoch in (1, 2)]
    assert "epoch" not in numbers[0]
    assert numbers[1]["epoch"] == 2
    assert numbers[1]["training rows"] == 4000  # All rows of the account that was closed.
    assert (
        analyst("GET", "/datasets/people@1/train").content != analyst("GET", "/datasets/people/train").content
    )
    auditor = person("auditor")
    books = [auditor("GET", f"/datasets/people@{epoch}/ledger").content for epoch in (1, 2)]
    assert len(set(books)) == 2
    assert analyst.ask("share(age > 70)", "people@1").status_code == 409
    assert analyst.ask("share(age > 40)", "people@1").json() == first  # What was answered stays.


def test_the_books_of_all_epochs_verify_offline_as_one_story(grow, analyst, person, owner, tmp_path):
    receipts = [analyst.ask("share(age > 40)").json()["receipt"]]
    for _ in range(2):
        grow()
        receipts.append(analyst.ask("share(age > 40)").json()["receipt"])
    paths = [tmp_path / f"{epoch}.jsonl" for epoch in (1, 2, 3)]
    auditor = person("auditor")
    for epoch, path in enumerate(paths, start=1):
        path.write_bytes(auditor("GET", f"/datasets/people@{epoch}/ledger").content)
    key = owner("GET", "/key").json()["key"]
    found = verify_epochs(paths, key, receipts=[Receipt(**receipt) for receipt in receipts])
    assert [(one.whole, one.epoch, one.receipts) for one in found] == [
        (True, 1, 1),
        (True, 2, 1),
        (True, 3, 1),
    ]
    assert not verify_epochs([paths[0], paths[2]], key)[1].whole


def test_a_book_that_is_no_epoch_of_the_one_before_is_not_whole(service, grow, owner):
    """A refill behind the service's back: the same epoch in a second book."""
    grow()
    assert owner("GET", "/datasets/people/verify").json()["whole"]
    found = service.datasets.get("people")
    forged = Book(key=service.key)
    forged.append("open", {**found.book.opening.body, "nonce": "0" * 32}, after=0)
    service.datasets._open["people"] = replace(found, book=forged)
    told = owner("GET", "/datasets/people/verify").json()
    assert not told["whole"]
    assert "opened another book" in told["problems"][0]["words"]
    assert owner("GET", "/datasets/people@1/verify").json()["whole"]
    service.datasets._open["people"] = found
    forged.close()


def test_the_same_key_opens_one_epoch_and_other_rows_under_it_are_refused(owner, arrive):
    body, key = {"source": arrive()}, {"Idempotency-Key": "february"}
    first = owner("POST", "/datasets/people/epochs", body, **key)
    assert owner("POST", "/datasets/people/epochs", body, **key).json() == first.json()
    other = owner("POST", "/datasets/people/epochs", {"source": arrive()}, **key)
    assert other.status_code == 422
    assert "other rows" in other.json()["detail"]
    again = owner("POST", "/datasets/people/epochs", body)
    assert again.status_code == 422
    assert "epoch 2" in again.json()["detail"]
    assert len(described(owner)["epochs"]) == 2


def test_a_question_that_is_sent_again_after_a_new_epoch_is_not_asked_a_second_time(grow, analyst, owner):
    key = {"Idempotency-Key": "mine"}
    first = analyst.ask("share(age > 40)", **key).json()
    grow()
    assert analyst.ask("share(age > 40)", **key).json() == first
    assert analyst.ask("share(age > 41)", **key).status_code == 422
    assert described(owner)["spent"] == 0
    assert analyst.ask("share(age > 40)", "people@2", **key).json() != first  # Who says which means it.


def test_an_epoch_that_is_named_must_be_the_newest_one_to_be_followed(grow, owner, arrive):
    assert grow("people@1").json()["epoch"] == 2
    late = grow("people@1")
    assert (late.status_code, late.json()["type"]) == (409, "urn:holdfast:another-epoch")
    assert "other rows" in late.json()["detail"]
    assert grow("people@2").json()["epoch"] == 3
    for name in ("people@4", "people@0", "people@02", "people@", "@1", "people@1@1"):
        assert owner("GET", f"/datasets/{name}").status_code == 404
    assert owner("POST", "/datasets", {"name": "a@1", "source": "other.parquet"}).status_code == 422


def test_a_start_opens_every_epoch(service, grow, analyst, tmp_path):
    analyst.ask("share(age > 40)")
    grow(together=0.9)
    answer = analyst.ask("share(age > 40)").json()
    grow(shares={"red/bob": 1.0})
    before = described(analyst)
    again = Service(tmp_path)
    restarted = Caller(TestClient(create_app(again)), analyst.token)
    assert described(restarted) == before
    assert restarted.ask("share(age > 40)", "people@2").json() == answer
    assert restarted("GET", "/datasets/people/verify").json()["whole"]
    assert again.datasets.get("people").policy.shares == {"red/bob": 1.0}
    again.close()


def test_a_process_that_serves_the_same_folder_sees_a_new_epoch_at_once(service, grow, analyst, tmp_path):
    other = Service(tmp_path)
    elsewhere = Caller(TestClient(create_app(other)), analyst.token)
    assert described(elsewhere)["epoch"]["number"] == 1
    grow()
    assert described(elsewhere)["epoch"]["number"] == 2
    answer = elsewhere.ask("share(age > 40)").json()
    assert analyst.ask("share(age > 40)").json() == answer
    other.close()


def test_services_that_share_books_know_each_others_epochs(database, tmp_path):
    homes = []
    for place in ("one", "two"):
        service = Service(tmp_path / place, books=database, key=tmp_path / "key")
        for part in range(3):
            values = np.random.default_rng(part).random(800)
            pd.DataFrame({"x": values}).to_parquet(service.sources / f"{part}.parquet")
        token = service.tokens.issue("olga", role="owner")[0]
        homes.append((service, Caller(TestClient(create_app(service)), token)))
    (_, first), (_, second) = homes
    assert first("POST", "/datasets", {"name": "t", "source": "0.parquet"}).status_code == 201
    assert second("POST", "/datasets", {"name": "t", "source": "2.parquet"}).status_code == 422
    assert second.ask("share(x > 0.5)", "t").status_code == 200
    assert first("POST", "/datasets/t/epochs", {"source": "1.parquet"}).status_code == 201
    other = second("POST", "/datasets/t@1/epochs", {"source": "2.parquet"})
    assert other.status_code == 409
    assert database not in other.text
    answer = first.ask("share(x > 0.5)", "t").json()
    same = second.ask("share(x > 0.5)", "t").json()
    assert same["receipt"] == answer["receipt"]
    assert second("GET", "/datasets/t/epochs").json() == first("GET", "/datasets/t/epochs").json()
    for service, _ in homes:
        service.close()


MISTAKES = [
    ({"source": "nowhere.csv"}, "source"),
    ({"source": "../tokens.sqlite"}, "source"),
    ({"source": "copy.csv"}, "has rows of epoch 1 again"),
    ({"source": "other.parquet"}, "the rows of the dataset 'other'"),
    ({"source": "narrow-other.parquet"}, "column"),
    ({"confidence": 0.9, "together": 0.8}, "confidence is given"),
    ({"together": 0.99}, "below"),
    ({"rows": {"kind": "magic"}}, "kind"),
    ({"rows": {"kind": "m-dependent"}}, "m-dependent"),
    ({"rows": {"kind": "clusters", "sizes": [2, 3]}}, "1,500 rows"),
    ({"rows": {"kind": "markov", "transition": [[0.9, 0.1], [0.1, 0.9]]}}, "close_account"),
    ({"shares": {"red": -1.0}}, "shares"),
    ({"confidence": 1.5}, "confidence"),
    ({"extra": 1}, "extra"),
]


def test_mistakes_open_nothing_write_nothing_and_say_what_to_do(service, owner, arrive, analyst, tmp_path):
    analyst.ask("share(age > 40)")
    (service.sources / "copy.csv").write_bytes((service.sources / "people.csv").read_bytes())
    varied(service, "other.parquet", "narrow")
    before, lines = described(owner), len(list(service.datasets.get("people").book.lines()))
    new = arrive()
    for change, words in MISTAKES:
        refused = owner("POST", "/datasets/people/epochs", {"source": new, **change})
        assert refused.status_code == 422, change
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert words in refused.json()["detail"], change
        assert described(owner) == before
    assert len(list(service.datasets.get("people").book.lines())) == lines
    assert not list(tmp_path.glob("books/people.epoch*"))
    again = Service(tmp_path)  # Nor does the next start make an epoch of one.
    assert len(again.datasets.epochs("people")) == 1
    again.close()
    assert owner("POST", "/datasets/people/epochs", {"source": new}).json()["epoch"] == 2


def test_a_source_that_an_epoch_is_about_is_not_one_of_new_rows(service, owner, tmp_path):
    (service.sources / "mine.csv").write_bytes(
        (service.sources / varied(service, "people.csv", "mine")).read_bytes()
    )
    dataset = service.datasets.register("mine", "mine.csv", Policy())
    lines = len(list(dataset.book.lines()))
    refused = owner("POST", "/datasets/mine/epochs", {"source": "mine.csv"})
    assert refused.status_code == 422
    assert "these are the rows of epoch 1" in refused.json()["detail"]
    assert len(list(dataset.book.lines())) == lines
    assert not list(tmp_path.glob("books/mine.epoch*"))


def protected_rows(service, name="people"):
    with unsealed():
        return service.datasets.get(name).guard._setup.protected.rows.frame()


def test_earlier_rows_are_refused_in_any_order_and_what_that_says_is_charged(service, owner, arrive, analyst):
    """Every earlier epoch is compared, whose books the service keeps."""
    hidden = protected_rows(service)
    assert owner("POST", "/datasets/people/epochs", {"source": arrive()}).status_code == 201
    people = pd.read_csv(service.sources / "people.csv")
    again = {
        "training rows": people.sample(frac=1, random_state=1),
        "protected rows": hidden.sample(frac=1, random_state=1),
    }
    for part, table in again.items():
        table.to_csv(service.sources / "again.csv", index=False)
        refused = owner("POST", "/datasets/people/epochs", {"source": "again.csv"})
        assert refused.status_code == 422
        assert f"has rows of epoch 1 again (of its {part})" in refused.json()["detail"]
        assert not any(str(value) in refused.text for value in hidden["income"][:50])
        spent = [epoch["spent"] for epoch in described(owner)["epochs"]]
        assert spent == [0 if part == "training rows" else pytest.approx(look_nats(2), abs=1e-5), 0]
    assert owner("POST", "/datasets/people/epochs", {"source": arrive()}).json()["epoch"] == 3


def test_no_value_is_quoted_where_a_column_changes_its_type(service, owner):
    frame = pd.DataFrame({"who": [f"person{i}" for i in range(200)], "y": range(200)})
    frame.to_csv(service.sources / "named.csv", index=False)
    frame.assign(who=range(200)).to_csv(service.sources / "numbered.csv", index=False)
    for first, second in (("named", "numbered"), ("numbered", "named")):
        sources = [varied(service, f"{name}.csv", first) for name in (first, second)]
        assert owner("POST", "/datasets", {"name": first, "source": sources[0]}).status_code == 201
        told = owner("POST", f"/datasets/{first}/epochs", {"source": sources[1]})
        assert told.status_code == 422
        assert "who" in told.json()["detail"]
        assert "person" not in told.text


def test_rows_that_depend_on_each_other_lose_a_gap_and_need_the_old_account_closed(service, owner, rng):
    chain = np.cumsum(rng.random(6000) < 0.1) % 2
    for part in range(2):
        frame = pd.DataFrame({"state": chain[3000 * part : 3000 * (part + 1)], "place": range(3000)})
        frame.to_parquet(service.sources / f"chain{part}.parquet")
    policy = {"rows": {"kind": "markov", "transition": [[0.9, 0.1], [0.1, 0.9]]}}
    body = {"name": "chain", "source": "chain0.parquet", "policy": policy}
    assert owner("POST", "/datasets", body).status_code == 201
    refused = owner("POST", "/datasets/chain/epochs", {"source": "chain1.parquet"})
    assert refused.status_code == 422
    assert "Close that account for good first" in refused.json()["detail"]
    owner("POST", "/datasets/chain/close")
    opened = owner("POST", "/datasets/chain/epochs", {"source": "chain1.parquet"}).json()
    assert 2000 < opened["rows"] < 2990  # The same model, of the new rows, and a gap before them.
    assert EpochLink.of(service.datasets.get("chain").book).closed


def test_shares_and_rates_are_those_of_the_epoch(service, person, grow, owner):
    bob = person("analyst", "bob", team="red")  # Who has 3 nats.
    assert bob.ask("share(age > 40, guess = 0.01)").status_code == 403
    grow(shares={"red/bob": 30.0})
    assert bob.ask("share(age > 40, guess = 0.01)").status_code == 200
    assert bob.ask("share(age > 40, guess = 0.01)", "people@1").status_code == 403
    assert described(bob)["share"] == 30
    assert described(bob, "people@1")["share"] == 3
    grow()
    assert described(bob)["share"] == 30  # The same share, and unspent.


def test_confidences_of_all_epochs_add_up(grow, owner):
    grow(confidence=0.97)
    grow(together=0.9)
    epochs = described(owner)["epochs"]
    assert [epoch["confidence"] for epoch in epochs[:2]] == [0.95, 0.97]
    assert epochs[2]["confidence"] == pytest.approx(1 - 0.02 / 4)
    assert epochs[2]["together"] == pytest.approx(0.915)
    assert described(owner)["epoch"]["together"] == epochs[2]["together"] <= 0.915


def test_a_dataset_of_an_older_version_grows_too(service, owner, grow, tmp_path):
    service.datasets._database.execute("DELETE FROM epochs")
    again = Service(tmp_path)
    assert again.datasets.get("people").standing()["since"] is None
    again.close()
    assert grow().json()["since"] > 1.6e9


def test_rows_of_a_database_are_an_epoch_too_and_their_address_is_not_shown(allowed_owner, postgres):
    owner = allowed_owner
    import psycopg

    tables = [f"people_{secrets.token_hex(4)}" for _ in range(2)]
    with psycopg.connect(postgres, autocommit=True) as database:
        for table in tables:
            database.execute(
                f"CREATE TABLE {table} AS SELECT i AS id, i % 4 AS x FROM generate_series(1, 4000) i"
            )
    body = {"name": "far", "source": f"{postgres}#{tables[0]}", "policy": {"split_by": "id"}}
    assert owner("POST", "/datasets", body).status_code == 201
    opened = owner("POST", "/datasets/far/epochs", {"source": f"{postgres}#{tables[1]}"})
    assert opened.status_code == 201
    again = owner("POST", "/datasets/far/epochs", {"source": f"{postgres}#{tables[1]}"})
    assert again.status_code == 422
    answer = owner("POST", "/datasets/far/questions", {"query": "share(x = 0)"}).json()
    assert answer["low"] < 0.25 < answer["high"]
    told = [
        opened.text,
        again.text,
        owner("GET", "/datasets/far").text,
        owner("GET", "/datasets/far/epochs").text,
    ]
    assert not any(postgres in text for text in told)
