"""Asking over HTTP: previews, answers, shares, rates, retries, history, receipts, close."""

from __future__ import annotations

import json
import secrets
import time

import numpy as np
import pandas as pd
import psycopg
import pytest
from server_caller import Caller, varied
from starlette.testclient import TestClient

from holdfast.engines import Rows
from holdfast.errors import InvalidArgument
from holdfast.ledger import Book, Receipt, verify
from holdfast.server import Policy, Service, create_app


def spent(owner, dataset="people"):
    return owner("GET", f"/datasets/{dataset}").json()["spent"]


def test_an_answer_has_an_interval_a_price_and_a_receipt_that_verifies(analyst, owner, tmp_path):
    answer = analyst.ask("share(age > 40, guess = 0.68)").json()
    assert answer["low"] < 0.685 < answer["high"]
    assert answer["cost"] == spent(owner) > 0
    (tmp_path / "export").write_bytes(owner("GET", "/datasets/people/ledger").content)
    key = owner("GET", "/key").json()["key"]
    receipt = Receipt(**answer["receipt"])
    assert verify(tmp_path / "export", key, receipts=[receipt]).whole
    assert analyst("GET", "/datasets/people/verify").json()["whole"]


def test_a_preview_never_opens_the_protected_rows_and_charges_nothing(analyst, owner, service, monkeypatch):
    protected = service.datasets.get("people").guard._setup.protected.rows
    original = Rows.sums

    def sums(rows, *arguments, **options):
        assert rows is not protected
        return original(rows, *arguments, **options)

    monkeypatch.setattr(Rows, "sums", sums)
    preview = analyst("POST", "/datasets/people/preview", {"query": "share(age > 40)"}).json()
    assert preview["if_confirmed"] < preview["at_most"]
    assert spent(owner) == 0


def test_the_same_question_in_other_words_costs_nothing_more(analyst, person, owner):
    first = analyst.ask("share(age > 40)").json()
    before = spent(owner)
    assert person("analyst", "cleo").ask("share(not (age <= 40))").json() == first
    assert spent(owner) == before


def test_a_retry_with_the_same_key_returns_the_recorded_answer(analyst, person, owner):
    key = {"Idempotency-Key": "one"}
    first = analyst.ask("share(age > 40)", **key).json()
    assert analyst.ask("share(age > 40)", **key).json() == first
    refused = analyst.ask("share(age > 50)", **key)
    assert (refused.status_code, refused.json()["asked"]) == (422, 0)
    assert person("analyst", "cleo").ask("share(age > 50)", **key).status_code == 200  # Her own key.


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("share(height > 2)", "no column"),
        ("share(age >", ""),
        ("mean(age)", "bounds"),
        ("drop table people", ""),
        ("share(age > 40); select 1", ""),
    ],
)
def test_a_mistake_touches_no_data_and_costs_nothing(analyst, owner, question, words):
    refused = analyst.ask(question)
    problem = refused.json()
    assert refused.status_code == 422
    assert words in problem["detail"]
    assert {"type", "title", "status", "detail", "asked", "spent", "left"} <= set(problem)
    assert problem["asked"] == spent(owner) == 0


def test_a_share_bounds_a_person_and_not_the_others(person, analyst, owner):
    bob = person("analyst", "bob", team="red")
    # 3 nats: a question that could cost more than what is left of them is refused before it is reserved.
    statuses = [bob.ask(f"share(age > {limit}, guess = 0.01)").status_code for limit in (30, 40, 50)]
    assert statuses == [403, 403, 403]
    assert spent(owner) == 0
    problem = bob.ask("share(age > 30, guess = 0.01)").json()
    assert problem["type"] == "urn:holdfast:budget-spent"
    assert problem["asked"] > problem["left"] == 3
    assert analyst.ask("share(age > 40)").status_code == 200
    assert bob.ask("share(age > 40)").status_code == 200  # What is known is free.


def test_a_team_shares_what_it_has(service, person, owner):
    service.datasets.register(
        "shared", varied(service, "other.parquet", "shared"), Policy(shares={"red": 12.0})
    )
    ann, bob = person("analyst", "ann", team="red"), person("analyst", "bob", team="red")
    blue = person("analyst", "eve", team="blue")
    paid = 0.0
    for number, caller in enumerate([ann, bob] * 12):
        answer = caller.ask(f"share(x > {number / 30}, guess = 0.001)", "shared")
        if answer.status_code == 403:
            assert answer.json()["spent"] == pytest.approx(paid, abs=1e-5)
            break
        paid += answer.json()["cost"]
    else:
        pytest.fail("the team was never stopped")
    assert paid <= 12
    assert blue.ask("share(x > 0.77)", "shared").status_code == 200


def test_a_rate_bounds_new_questions_only(service, person):
    service.datasets.register("slow", varied(service, "other.parquet", "slow"), Policy(rate=3))
    caller = person("analyst", "fast")
    answers = [caller.ask(f"share(x > 0.{digit})", "slow") for digit in (1, 2, 3, 4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 0 < int(answers[3].headers["Retry-After"]) <= 60
    assert caller.ask("share(x > 0.1)", "slow").status_code == 200
    assert person("analyst", "other").ask("share(x > 0.4)", "slow").status_code == 200


def test_a_rate_holds_over_all_processes_and_restarts(service, person, tmp_path, monkeypatch):
    service.datasets.register("slow", varied(service, "other.parquet", "slow"), Policy(rate=4))
    token, _ = service.tokens.issue("fast", role="analyst")
    other = Service(tmp_path)  # A second process that serves the same folder.
    callers = [Caller(TestClient(create_app(one)), token) for one in (service, other)]
    answers = [callers[digit % 2].ask(f"share(x > 0.{digit})", "slow") for digit in range(1, 6)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429]
    slow = other.datasets.get("slow")  # The window reaches back behind a checkpoint.
    slow.book.checkpoint(slow.guard.balance, after=sum(1 for _ in slow.book.lines()))
    other.close()
    again = Service(tmp_path)
    restarted = Caller(TestClient(create_app(again)), token)
    assert again.datasets.get("slow").book.start()[1] > 0
    assert restarted.ask("share(x > 0.6)", "slow").status_code == 429
    with monkeypatch.context() as forgetful:  # The twin that trusts the checkpoint alone has forgotten.
        forgetful.setattr(Book, "_last_minute", lambda *arguments: [])
        assert len(again.datasets.get("slow").book.start()[0].recent) == 0
    assert restarted.ask("share(x > 0.1)", "slow").status_code == 200  # Known, and free of rates.
    assert person("analyst", "other").ask("share(x > 0.6)", "slow").status_code == 200
    later = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: later)
    assert restarted.ask("share(x > 0.7)", "slow").status_code == 200
    again.close()


def test_history_comes_in_pages(analyst):
    asked = [analyst.ask(f"share(age > {limit})").json() for limit in (30, 40, 50, 60, 70)]
    seen, after = [], 0
    while page := analyst("GET", f"/datasets/people/history?limit=2&after={after}").json()["answers"]:
        assert len(page) <= 2
        seen, after = seen + page, page[-1]["line"]
    assert [answer["query"] for answer in seen] == [answer["query"] for answer in asked]
    assert analyst("GET", "/datasets/people/history?after=1000").json()["answers"] == []
    assert analyst("GET", "/datasets/people/history?limit=0").status_code == 422


def test_a_closed_account_stays_readable_and_answers_nothing_new(analyst, owner):
    known = analyst.ask("share(age > 40)").json()
    assert analyst("POST", "/datasets/people/close").status_code == 403
    assert owner("POST", "/datasets/people/close").json()["closed"]
    assert analyst.ask("share(age > 40)").json() == known
    refused = analyst.ask("share(age > 50)")
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:holdfast:account-closed"


def test_a_damaged_book_is_not_answered_from_and_not_described(service, analyst, caplog):
    analyst.ask("share(age > 40)")
    book = service.datasets.get("people").book
    book._lines._connection.executescript(
        "DROP TRIGGER no_update; UPDATE events SET body = '{}' WHERE sequence = 3"
    )
    refused = analyst("GET", "/datasets/people/history")
    assert refused.status_code == 503
    assert book.name not in refused.text
    assert "line 3" in caplog.text


def test_a_restart_forgets_nothing(service, analyst, owner, tmp_path):
    answer, before = analyst.ask("share(age > 40)").json(), spent(owner)
    again = Service(tmp_path)
    dataset = again.datasets.get("people")
    assert dataset.guard.spent == before
    assert json.loads(json.dumps(dataset.guard.share("age > 40").to_dict())) == answer
    again.close()


def test_datasets_come_from_the_folder_of_sources_only(service, owner, tmp_path):
    (tmp_path / "secret.csv").write_text("x\n1\n")
    for source in ("../secret.csv", str(tmp_path / "secret.csv"), "missing.csv", ""):
        with pytest.raises(InvalidArgument, match="source"):
            service.datasets.register("new", source, Policy())
        assert owner("POST", "/datasets", {"name": "new", "source": source}).status_code == 422
    for name in ("people", "UPPER", "a/b", "", "x" * 64):
        assert owner("POST", "/datasets", {"name": name, "source": "other.parquet"}).status_code == 422
    made = owner(
        "POST",
        "/datasets",
        {
            "name": "chain",
            "source": varied(service, "other.parquet", "chain"),
            "policy": {"rows": {"kind": "m-dependent", "m": 2}},
        },
    )
    assert made.status_code == 201
    assert "more than 2 places apart" in owner("GET", "/datasets/chain/certificate").json()["assumed"][0]


def test_a_table_of_a_database_stays_there_and_its_address_is_not_shown(allowed_owner, postgres):
    owner = allowed_owner
    table = f"people_{secrets.token_hex(4)}"
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute(
            f"CREATE TABLE {table} AS SELECT i AS id, i % 4 AS x FROM generate_series(1, 4000) i"
        )
    body = {"name": "far", "source": f"{postgres}#{table}"}
    refused = owner("POST", "/datasets", body)
    assert refused.status_code == 422
    assert "split_by" in refused.text
    made = owner("POST", "/datasets", {**body, "policy": {"split_by": "id"}})
    assert made.status_code == 201
    answer = owner("POST", "/datasets/far/questions", {"query": "share(x = 0)"}).json()
    assert answer["low"] < 0.25 < answer["high"]
    told = [refused.text, made.text, owner("GET", "/datasets/far").text]
    told.append(owner("GET", "/datasets/far/certificate").text)
    assert not any(postgres in text for text in told)


@pytest.mark.parametrize(
    "rows", [{"kind": "magic"}, {"kind": "markov"}, {"kind": "clusters", "sizes": [1], "x": 2}]
)
def test_an_unknown_model_of_rows_is_refused(service, owner, rows):
    body = {"name": "new", "source": varied(service, "other.parquet", "new"), "policy": {"rows": rows}}
    assert owner("POST", "/datasets", body).status_code == 422


def test_too_large_a_request_is_refused_while_it_arrives(client, analyst):
    body = b'{"query": "' + b"x" * (70 * 2**20) + b'"}'
    refused = client.post("/v1/datasets/people/questions", content=body, headers=analyst.headers)
    assert refused.status_code == 413


def test_what_went_wrong_inside_is_neither_said_nor_written_down(analyst, owner, monkeypatch, caplog):
    def explode(*arguments, **options):
        raise RuntimeError("secret 12345")

    monkeypatch.setattr(Rows, "sums", explode)
    refused = analyst.ask("share(age > 40, guess = 0.5)")
    assert refused.status_code == 422
    assert spent(owner) > 0  # That it failed is an outcome, and paid for.
    monkeypatch.setattr("holdfast.registry._datasets.Dataset.ask", explode)
    assert analyst.ask("share(age > 41)").status_code == 500
    assert "RuntimeError" in caplog.text
    for text in (refused.text, caplog.text):
        assert "12345" not in text


def test_agreed_numbers_are_kept_for_everyone_together(service, person, owner):
    coins = np.random.default_rng(0).integers(0, 2, (6000, 8))
    frame = pd.DataFrame(coins, columns=[f"c{j}" for j in range(8)])
    frame.to_parquet(service.sources / "coins.parquet")
    policy = Policy(strategy="agreed-code", queries=8, surprises=1)
    service.datasets.register("coins", "coins.parquet", policy)
    first, second = person("analyst", "one"), person("analyst", "two")
    assert first.ask("share(c0 = 1)", "coins").json()["confirmed"]
    assert not second.ask("share(c1 = 1, guess = 0.9)", "coins").json()["confirmed"]
    assert not first.ask("share(c2 = 1, guess = 0.9)", "coins").json()["confirmed"]
    refused = second.ask("share(c3 = 1)", "coins")
    assert refused.status_code == 403
    assert "agreed on" in refused.json()["detail"]
    assert spent(owner, "coins") > 0


def test_a_question_that_takes_too_long_is_stopped_and_charged(service, person, owner):
    rows = 300_000
    pd.DataFrame({"x": np.random.default_rng(0).random(rows)}).to_parquet(service.sources / "long.parquet")
    policy = Policy(training_share=0.0, seconds=0.05)
    service.datasets.register("long", "long.parquet", policy)
    caller = person("analyst", "patient")
    terms = " + ".join(f"exp(exp(exp(x + {number}) / 1e40) / 9)" for number in range(70))
    refused = caller.ask(f"share({terms} > 1e3, guess = 0.5)", "long")
    assert refused.status_code == 422
    assert 0 < refused.json()["asked"] == pytest.approx(spent(owner, "long"), abs=1e-6)
    assert "seconds" not in refused.text  # Why it failed may depend on the rows.
    # The database goes on, and so does the account.
    assert caller.ask("share(x > 0.5, guess = 0.5)", "long").status_code == 200
    assert caller("GET", "/datasets/long/verify").json()["whole"]


def test_a_preview_that_takes_too_long_on_training_rows_costs_nothing(service, person, owner):
    pd.DataFrame({"x": np.random.default_rng(0).random(300_000)}).to_parquet(service.sources / "long.parquet")
    service.datasets.register("long", "long.parquet", Policy(seconds=0.05))
    caller = person("analyst", "patient")
    terms = " + ".join(f"exp(exp(exp(x + {number}) / 1e40) / 9)" for number in range(70))
    for route in ("preview", "questions"):
        refused = caller("POST", f"/datasets/long/{route}", {"query": f"share({terms} > 1e3)"})
        assert refused.status_code == 422
        assert "0.05 seconds" in refused.json()["detail"]
    assert spent(owner, "long") == 0
