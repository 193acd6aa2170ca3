"""What may be registered: rows once, from sources that the operator allows, and nothing that shows a place of
the server."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from contextlib import nullcontext
from urllib.parse import quote

import numpy as np
import pandas as pd
import psycopg
import pytest
from server_caller import Caller, varied
from starlette.testclient import TestClient

from holdfast.client import Client
from holdfast.engines import Rows, open_rows
from holdfast.errors import InvalidArgument
from holdfast.server import Policy, Service, create_app


@pytest.fixture
def people(service):
    return pd.read_csv(service.sources / "people.csv")


def copies(frame, folder):
    """The same rows, told in other ways."""
    frame.to_csv(folder / "renamed.csv", index=False)
    frame.to_parquet(folder / "format.parquet")
    frame.sample(frac=1, random_state=1).to_parquet(folder / "order.parquet")
    frame[frame.columns[::-1]].to_csv(folder / "columns.csv", index=False)
    frame.to_csv(folder / "index.csv")
    frame.astype(str).to_parquet(folder / "text.parquet")
    (folder / "deep").mkdir()
    (folder / "deep" / "link.csv").symlink_to(folder / "people.csv")
    return [
        "people.csv",
        "renamed.csv",
        "format.parquet",
        "order.parquet",
        "columns.csv",
        "index.csv",
        "text.parquet",
        "deep/link.csv",
    ]


def test_the_same_rows_get_no_second_account(service, owner, people, tmp_path):
    books = sorted(path.name for path in (tmp_path / "books").iterdir())
    for source in copies(people, service.sources):
        for path, body in (("/datasets", {}), ("/boards", {"target": "age"})):
            refused = owner("POST", path, {"name": "again", "source": source, **body})
            assert refused.status_code == 422, source
            assert "the rows of the dataset 'people'" in refused.json()["detail"], source
    assert service.datasets.names() == ["other", "people"]
    assert sorted(path.name for path in (tmp_path / "books").iterdir()) == books
    # Labels of a board are not protected rows of a dataset either.
    refused = owner("POST", "/datasets", {"name": "labels", "source": "y.csv"})
    assert "the rows of the board 'people'" in refused.json()["detail"]


def test_a_table_of_a_database_with_the_same_rows_is_refused(allowed_owner, postgres, tmp_path):
    table = "people_again"
    frame = pd.read_csv(tmp_path / "allowed" / "data" / "people.csv")
    with psycopg.connect(postgres, autocommit=True) as database:
        database.execute(f"CREATE TABLE {table} (age BIGINT, income DOUBLE PRECISION)")
        with database.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            for row in frame.sample(frac=1, random_state=2).itertuples(index=False):
                copy.write_row(row)
    body = {"name": "far", "source": f"{postgres}#{table}", "policy": {"split_by": "age"}}
    refused = allowed_owner("POST", "/datasets", body)
    assert refused.status_code == 422
    assert "the rows of the dataset 'people'" in refused.json()["detail"]


def test_other_rows_are_accepted_and_a_failed_registration_releases_its_rows(service, owner, rng):
    for name in ("one", "two"):  # So few different values that tables of them are often alike.
        pd.DataFrame({"x": rng.integers(0, 2, 300)}).to_parquet(service.sources / f"{name}.parquet")
        wrong = {"name": name, "source": f"{name}.parquet", "policy": {"rows": {"kind": "m-dependent"}}}
        assert owner("POST", "/datasets", wrong).status_code == 422
        made = owner("POST", "/datasets", {"name": f"{name}-right", "source": f"{name}.parquet"})
        assert made.status_code == 201, made.text


def test_what_an_earlier_version_registered_is_claimed_when_it_is_opened(service, owner, tmp_path, caplog):
    service._store.execute("DELETE FROM [contents]")
    again = Service(tmp_path)
    again.datasets.get("people")
    again.boards.get("people")
    for source in ("people.csv", "y.csv"):
        with pytest.raises(InvalidArgument, match="not registered yet"):
            again.datasets.register("again", source, Policy())
    # Rows that an earlier version let in twice go on, and the log says so.
    again.datasets._database.execute("UPDATE [datasets] SET source = 'people.csv' WHERE name = 'other'")
    again._store.execute("DELETE FROM [contents] WHERE name = 'other'")
    for path in (tmp_path / "books").glob("other*"), (tmp_path / "marks").glob("other*"):
        for file in path:
            file.unlink()
    assert again.datasets.get("other").guard.rows == again.datasets.get("people").guard.rows
    assert "registered twice" in caplog.text
    again.close()


def test_row_hashes_agree_where_digests_do(rng):
    """Equal rows and no others have equal hashes; the same key, rows in any order and any kind of table."""
    frame = pd.DataFrame({"x": rng.integers(0, 9, 5_000), "y": rng.integers(0, 9, 5_000).astype(str)})
    keys = [bytes(range(32)), bytes(range(1, 33))]
    rows, shuffled = open_rows(frame), frame.sample(frac=1, random_state=3)
    hashes, digests = (how(keys[0], ["x", "y"]) for how in (rows.row_hashes, rows.row_digests))
    pairs = set(zip(hashes.tolist(), digests.tolist(), strict=True))
    assert len(pairs) == len(set(hashes.tolist())) == len(set(digests.tolist())) == 81
    again = open_rows(shuffled.astype({"y": int})).row_hashes(keys[0], ["x", "y"])
    assert np.array_equal(np.sort(again), np.sort(hashes))
    assert not set(hashes.tolist()) & set(rows.row_hashes(keys[1], ["x", "y"]).tolist())


def test_a_digest_without_the_services_secret_says_nothing(service, tmp_path, people):
    """Two services have different digests for the same rows."""
    other = Service(tmp_path / "elsewhere")
    people.to_csv(other.sources / "people.csv", index=False)
    other.datasets.register("people", "people.csv", Policy())
    digests = [
        {digest for (digest,) in one._store.execute("SELECT digest FROM [contents]")}
        for one in (service, other)
    ]
    assert digests[0]
    assert not digests[0] & digests[1]
    other.close()


def test_two_registrations_of_the_same_rows_at_once_open_one_account(service, people, monkeypatch):
    people.assign(more=1).to_parquet(service.sources / "new.parquet")
    both, outcomes, met = threading.Barrier(2), [], threading.local()
    row_hashes = Rows.row_hashes

    def together(*arguments):
        hashes = row_hashes(*arguments)
        if not hasattr(met, "before"):  # Both have read all rows before one of them registers.
            met.before = True
            both.wait(60)
        return hashes

    monkeypatch.setattr(Rows, "row_hashes", together)

    def register(name):
        try:
            service.datasets.register(name, "new.parquet", Policy())
            outcomes.append("made")
        except InvalidArgument:
            outcomes.append("refused")

    threads = [threading.Thread(target=register, args=(name,)) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(outcomes) == ["made", "refused"]


def test_sources_are_what_the_operator_allows(service, owner, tmp_path):
    (tmp_path / "secret.csv").write_text("x\n1\n2\n")
    (service.sources / "out.csv").symlink_to(tmp_path / "secret.csv")
    database = tmp_path / "local.duckdb"
    for source in (
        f"file://{tmp_path}/secret.csv",
        f"file://{service.sources}/people.csv",
        "http://127.0.0.1:9/people.csv",
        "https://127.0.0.1:9/people.csv",
        "s3://bucket/people.parquet",
        "gs://bucket/people.parquet",
        "out.csv",
        str(tmp_path / "secret.csv"),
        "../secret.csv",
        "*.csv",
        ".",
        "people.csv\0.parquet",
        "x" * 3_000,
        "postgresql://ann:hidden@127.0.0.1:9/town#trips",
        f"duckdb://{database}#t",
        "postgresql://[::1/x#t",
    ):
        for path, body in (("/datasets", {}), ("/boards", {"target": "x"}), ("/gates", {})):
            refused = owner("POST", path, {"name": "new", "source": source, **body})
            assert refused.status_code == 422, (path, source, refused.text)
            assert "hidden" not in refused.text
            assert str(tmp_path) not in refused.text.replace(source, "")
    assert not database.exists()


@pytest.mark.parametrize(
    ("source", "prefix", "allowed"),
    [
        ("postgresql://db.example/town#trips", "postgresql://db.example/town", True),
        ("postgres://ann:secret@db.example:5432/town#trips", "postgresql://db.example/town", True),
        ("postgresql://db.example/town#trips", "postgresql://", True),
        ("postgresql://db.example/township#trips", "postgresql://db.example/town", False),
        ("postgresql://db.example.evil/town#trips", "postgresql://db.example", False),
        ("postgresql://db.example@evil/town#trips", "postgresql://db.example", False),
        ("postgresql://db.example:5433/town#trips", "postgresql://db.example", False),
        ("postgresql://db.example/town?host=evil#trips", "postgresql://db.example", False),
        (
            "postgresql://db.example/town?sslmode=require#t",
            "postgresql://db.example/town?sslmode=require",
            True,
        ),
        ("postgresql://eve@db.example/town#trips", "postgresql://ann@db.example", False),
        ("duckdb:///srv/data/../../etc/x#t", "duckdb:///srv/data", False),
        ("duckdb:///srv/data/%2e%2e/x#t", "duckdb:///srv/data", False),
        ("duckdb:///srv/data/x#t", "duckdb:///srv/data", True),
        ("mysql://db.example/town#trips", "postgresql://", False),
    ],
)
def test_a_database_is_allowed_by_where_it_is_and_not_by_how_its_address_begins(
    tmp_path, source, prefix, allowed
):
    service = Service(tmp_path, allow=(prefix,))
    with nullcontext() if allowed else pytest.raises(InvalidArgument, match="'source' argument"):
        assert service.places.allowed(source) == source
    service.close()


def test_a_missing_source_hides_no_other_dataset_and_shows_no_place(service, owner, tmp_path):
    (service.sources / "other.parquet").unlink()
    again = Service(tmp_path)
    with TestClient(create_app(again), raise_server_exceptions=False) as client:
        caller = Caller(client, owner.token)
        listed = {entry["name"]: entry for entry in caller("GET", "/datasets").json()}
        assert listed["people"]["rows"] > 0
        assert "other.parquet" in listed["other"]["broken"]
        alone = caller("GET", "/datasets/other")
        assert alone.status_code == 503
        for text in (alone.text, str(listed)):
            assert str(tmp_path) not in text
        # A file that is no table any more is broken too.
        (again.sources / "other.parquet").write_bytes(b"PAR1 and nothing else")
        assert set(caller("GET", "/datasets").json()[0]) == {"name", "broken"}
        assert str(tmp_path) not in caller("GET", "/datasets").text
    again.close()


def test_opening_one_dataset_keeps_nobody_else_waiting(service, people, monkeypatch):
    """Others are listed, described and asked while the rows of one are being opened."""
    people.assign(more=1).to_parquet(service.sources / "new.parquet")
    service.datasets.get("people")
    entered, go_on = threading.Event(), threading.Event()
    row_hashes = Rows.row_hashes

    def slowly(rows, *arguments):
        if "more" in rows.columns:
            entered.set()
            assert go_on.wait(120)
        return row_hashes(rows, *arguments)

    monkeypatch.setattr(Rows, "row_hashes", slowly)
    opening = threading.Thread(target=service.datasets.register, args=("new", "new.parquet", Policy()))
    opening.start()
    assert entered.wait(120)
    outcomes = []

    def others():
        outcomes.append(service.datasets.names())
        outcomes.append(service.datasets.get("people").guard.share("age > 40"))
        outcomes.append(service.datasets.get("other").guard.rows)

    asking = threading.Thread(target=others)
    asking.start()
    asking.join(120)
    assert len(outcomes) == 3  # Though the new one is still being opened.
    go_on.set()
    opening.join(120)
    assert "new" in service.datasets.names()


def test_a_board_whose_blind_phase_ends_keeps_nobody_waiting(service, monkeypatch):
    """Neither who looks at it or at another one, nor who opens another one."""
    sources = [varied(service, "y.csv", name) for name in ("dark", "new")]
    service.boards.register("dark", sources[0], {"target": "y"}, blind=True)
    _, ann = service.tokens.issue("ann", role="analyst")
    service.boards.submit("dark", ann, {"id": range(100), "prediction": [0] * 100})
    board = service.boards.get("dark")
    entered, go_on, score_all = threading.Event(), threading.Event(), board.score_all

    def slowly(keys):
        entered.set()
        assert go_on.wait(120)
        return score_all(keys)

    monkeypatch.setattr(board, "score_all", slowly)
    ending = threading.Thread(target=service.boards.unblind, args=("dark",))
    ending.start()
    assert entered.wait(120)
    outcomes = []

    def others():
        outcomes.append(service.boards.get("dark").rows)
        outcomes.append(service.boards.waiting("dark"))
        outcomes.append(service.boards.get("people").rows)
        outcomes.append(service.boards.register("new", sources[1], {"target": "y"}, blind=False).rows)

    looking = threading.Thread(target=others)
    looking.start()
    looking.join(120)
    assert len(outcomes) == 4  # Though the blind phase has not ended.
    go_on.set()
    ending.join(120)
    assert service.boards.waiting("dark") == 0


def test_a_clock_that_goes_back_locks_nobody_out(service, person, owner, monkeypatch):
    pd.DataFrame({"x": np.arange(500) / 500}).to_parquet(service.sources / "slow.parquet")
    service.datasets.register("slow", "slow.parquet", Policy(rate=2))
    ann = person("analyst", "ann")
    real = time.time
    ahead = real() + 7_200
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: ahead)
        assert [ann.ask(f"share(x > 0.{n})", "slow").status_code for n in (1, 2, 3)] == [200, 200, 429]
    answered = ann.ask("share(x > 0.4)", "slow")  # The clock is right again, two hours earlier.
    assert answered.status_code == 200


def test_a_clock_that_goes_back_locks_nobody_out_of_a_blind_board(service, person, owner, monkeypatch):
    body = {"name": "dark", "source": varied(service, "y.csv", "dark"), "target": "y"}
    assert owner("POST", "/boards", {**body, "blind": True, "rate": 1}).status_code == 201
    ann = person("analyst", "ann")

    def submit(value):
        sent = {"id": list(range(100)), "prediction": [value] * 50 + [0] * 50}
        return ann("POST", "/boards/dark/submissions", sent).status_code

    ahead = time.time() + 7_200
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: ahead)
        assert [submit(0), submit(1)] == [200, 429]
    assert submit(1) == 200


def test_tokens_on_a_full_disk_are_a_clean_problem(service, owner, monkeypatch):
    def full(*arguments):
        raise sqlite3.OperationalError("database or disk is full")

    issued = service.tokens.all()
    connection = service.tokens._database._connection

    class Full:
        def execute(self, statement, values=()):
            return full() if statement.startswith("INSERT") else connection.execute(statement, values)

    with monkeypatch.context() as disk:
        disk.setattr(service.tokens._database, "_connection", Full())
        refused = owner("POST", "/tokens", {"name": "eve", "role": "analyst"})
    assert refused.status_code == 503
    assert refused.json()["type"] == "urn:holdfast:service-store"
    assert "Check the disk" in refused.json()["detail"]
    assert service.tokens.all() == issued


@pytest.mark.parametrize("name", ["../datasets", "people/ids?x=", "race#", "a b", "%2e%2e"])
def test_names_that_an_agent_makes_up_stay_names(name, monkeypatch):
    """A board's name is one part of the address, whatever it is."""
    called = []
    with Client("http://127.0.0.1:9", "hf_token") as client:
        monkeypatch.setattr(client, "_call", lambda method, path, *rest, **more: called.append(path) or {})
        client.board(name)
        client.gate(name)
    for path in called:
        assert path.count("/") == 2
        assert not set("?# ") & set(path)
    with Client("http://127.0.0.1:9", "hf_token") as client, pytest.raises(InvalidArgument):
        client.board("..")


UNFIT = {"nul": "a\0b", "half a pair": "\ud800", "line": "a\nb", "long": "x" * 3_000}
UNFIT_BODIES = {
    "/datasets": {"name": "new", "source": "other.parquet", "policy": {"split_by": "?"}},
    "/datasets/people/epochs": {"source": "?"},
    "/datasets/people/export": {"to": "?"},
    "/datasets/people/questions": {"query": "share(age > '?')"},
    "/boards": {"name": "new", "source": "y.csv", "target": "?"},
    "/gates": {"name": "new", "source": "y.csv", "reading": {"task": "?"}},
    "/gates/people/submissions": {"name": "?", "scores": {"?": 1}},
    "/tokens": {"name": "?", "role": "analyst"},
}
UNFIT_PATHS = (
    ("PATCH", "/tokens/?"),
    ("DELETE", "/tokens/?"),
    ("GET", "/datasets/?"),
    ("POST", "/datasets/?/questions"),
    ("GET", "/datasets/?/ledger"),
    ("GET", "/boards/?"),
    ("GET", "/gates/?"),
)


@pytest.mark.parametrize("where", ["files", "database"])
def test_text_that_nothing_can_be_called_is_a_clean_problem(where, set_up, tmp_path, request):
    books = request.getfixturevalue("database") if where == "database" else None
    home = tmp_path / "home"
    shutil.copytree(set_up / "data", home / "data")
    service = Service(home, books=books)
    service.datasets.register("people", "people.csv", Policy())
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        headers = Caller(client, service.tokens.issue("olga", role="owner")[0]).headers
        headers = {**headers, "Content-Type": "application/json"}

        def send(method, path, body):
            content = json.dumps(body).encode() if body is not None else None
            return client.request(method, f"/v1{path}", content=content, headers=headers).status_code

        for kind, text in UNFIT.items():
            escaped = json.dumps(text)[1:-1]
            for path, body in UNFIT_BODIES.items():
                sent = json.loads(json.dumps(body).replace("?", escaped))
                assert send("POST", path, sent) in (400, 403, 404, 422), (kind, path)
            shares = {"shares": {text: 1.0}}
            if kind in ("half a pair", "long"):
                assert send("PATCH", "/datasets/people/terms", shares) == 422
            quoted = quote(text.encode("utf-8", "surrogatepass"), safe="")
            for method, path in UNFIT_PATHS:
                body = {"days": 3} if method == "PATCH" else {"query": "share(age > 40)"}
                body = body if method in ("PATCH", "POST") else None
                assert send(method, path.replace("?", quoted), body) == 404, (kind, method, path)
        assert send("GET", "/datasets/people/terms", None) == 200
    service.close()
