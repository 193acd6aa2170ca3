"""A backup taken under load restores every answer that was given before it, with the same account."""

from __future__ import annotations

import json
import secrets
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
from urllib.parse import urlsplit

import pytest
from server_operated import operated, run

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.ledger import Book, Receipt, SigningKey, export, read_heads, verify
from holdfast.registry import Refused
from holdfast.server import Policy, Service, back_up, restore
from waiting import wait_until


@pytest.fixture
def home(set_up, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(set_up, home)
    return home


class Load:
    """Several people who ask new questions until they are stopped, and what they were answered."""

    def __init__(self, running, token, people=3):
        self.answers = []
        self._running, self._token, self._stop = running, token, threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(person,)) for person in range(people)]

    def _ask(self, person):
        number = 0
        while not self._stop.is_set():
            number += 1
            question = f"share(x > 0.{person + 1}{number:05})"
            reply = self._running.ask(self._token, question, "other")
            assert reply.status_code == 200, reply.text
            self.answers.append((question, reply.json()))

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


def drill(home, tmp_path, *books, restored_books=()):
    """Back up under load, restore elsewhere, and hold the restored service against what people have."""
    witness = str(tmp_path / "witness.jsonl")
    with operated(home, *books, "--witness", witness) as running:
        owner = running.tokens.get("owner") or owner_token(home)
        body = {"name": "ann", "role": "analyst"}
        token = running.call("POST", "/tokens", owner, json=body).json()["token"]
        with Load(running, token) as load:
            wait_until(lambda: len(load.answers) >= 15)
            acknowledged = list(load.answers)
            done = run("backup", str(home), str(tmp_path / "saved.tar"), "--json", *books)
            assert done.returncode == 0, done.stdout + done.stderr
            after = len(load.answers)
            wait_until(lambda: len(load.answers) >= after + 3)
        key = running.key
    elsewhere = tmp_path / "elsewhere" / "home"
    shutil.rmtree(home)  # The machine is gone.
    given = ("--key", key, "--witness", witness, "--json", *restored_books)
    done = run("restore", str(tmp_path / "saved.tar"), str(elsewhere), *given)
    said = json.loads(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr  # It is behind, and says so.
    assert [one["name"] for one in said["behind"]] == ["other"]
    assert said["behind"][0]["seen"] > said["behind"][0]["restored"]
    with operated(elsewhere, *restored_books) as running:
        assert running.key == key
        exported = running.call("GET", "/datasets/other/ledger", owner)
        (tmp_path / "export.jsonl").write_bytes(exported.content)
        receipts = [Receipt(**answer["receipt"]) for _, answer in acknowledged]
        verified = verify(tmp_path / "export.jsonl", key, receipts=receipts)
        assert verified.whole, verified.problems[:3]
        described = running.call("GET", "/datasets/other", owner).json()
        assert described["spent"] == pytest.approx(verified.spent, abs=1e-6)
        for question, answer in acknowledged:  # The same token, and every answer for free.
            assert running.ask(token, question, "other").json() == answer
        assert running.call("GET", "/datasets/other", owner).json()["spent"] == described["spent"]
        assert running.ask(token, "share(age > 30)").status_code == 200  # The other dataset goes on.
    return elsewhere


def owner_token(home):
    service = Service(home)
    token, _ = service.tokens.issue("owner", role="owner")
    service.close()
    return token


def test_a_backup_under_load_restores_elsewhere(home, tmp_path):
    elsewhere = drill(home, tmp_path)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in elsewhere.rglob("*") if path.is_file()}
    assert stat.S_IMODE((tmp_path / "saved.tar").stat().st_mode) == 0o600
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
    assert modes - {0o600, 0o644} == set()


@pytest.mark.slow
def test_books_in_postgresql_are_saved_and_restored_into_another_database(tmp_path, set_up, postgres):
    import psycopg

    home = tmp_path / "home"
    (home / "data").mkdir(parents=True)
    for name in ("other.parquet", "people.csv"):
        shutil.copy(set_up / "data" / name, home / "data")
    urls = []
    for _ in range(2):
        name = f"books_{secrets.token_hex(4)}"
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        urls.append(urlsplit(postgres)._replace(path=f"/{name}").geturl())
    service = Service(home, books=urls[0])
    service.datasets.register("people", "people.csv", Policy(error=0.08))
    service.datasets.register("other", "other.parquet", Policy(rate=10**6))
    service.close()
    drill(home, tmp_path, "--books", urls[0], restored_books=("--books", urls[1]))
    again = run("restore", str(tmp_path / "saved.tar"), str(tmp_path / "third"), "--books", urls[1])
    assert again.returncode == 2
    assert "has a book" in again.stderr
    assert not (tmp_path / "third").exists()


def saved(home, tmp_path):
    back_up(home, tmp_path / "saved.tar")
    return tmp_path / "saved.tar"


def test_a_restored_book_is_the_book_that_was_saved(home, tmp_path):
    before = read_heads(home / "books")
    secret = Book(home / "books" / "people.holdfast").secret
    restored = restore(saved(home, tmp_path), tmp_path / "new")
    assert list(restored.books) == before == read_heads(tmp_path / "new" / "books")
    assert Book(tmp_path / "new" / "books" / "people.holdfast").secret == secret
    assert {head.name for head in before} == {"people", "other", "board-people", "people.gate"}
    assert restored.behind == ()


def test_nothing_is_replaced(home, tmp_path):
    file = saved(home, tmp_path)
    with pytest.raises(HoldfastError, match="exists already"):
        back_up(home, file)
    with pytest.raises(HoldfastError, match="is not empty"):
        restore(file, home)
    with pytest.raises(HoldfastError, match="holds no key"):
        back_up(tmp_path / "home" / "data", tmp_path / "other.tar")
    assert not (tmp_path / "other.tar").exists()


def rebuilt(file, target, change):
    """The same archive with members changed: ``change(name, content)`` returns new content, or None."""
    import io

    with tarfile.open(file) as old, tarfile.open(target, "w") as new:
        for member in old:
            content = change(member.name, old.extractfile(member).read())
            if content is not None:
                member.size = len(content)
                new.addfile(member, io.BytesIO(content))
    return target


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name, text: text + b"x" if name == "tokens.sqlite" else text, "was changed: tokens.sqlite"),
        (lambda name, text: None if name == "books/other.holdfast" else text, "was changed: books/other"),
        (lambda name, text: None if name == "manifest.dsse.json" else text, "or it was cut"),
        (
            lambda name, text: text[:-9] if name == "manifest.dsse.json" else text,
            "statement of the backup was changed",
        ),
        (lambda name, text: b"0" * 64 if name == "key" else text, "not signed with this key"),
    ],
)
def test_a_changed_backup_is_refused_and_leaves_nothing(home, tmp_path, change, words):
    damaged = rebuilt(saved(home, tmp_path), tmp_path / "damaged.tar", change)
    with pytest.raises(HoldfastError, match=words):
        restore(damaged, tmp_path / "new" / "home")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("name", ["../outside", "/absolute", "books/../../outside"])
def test_a_backup_that_would_write_elsewhere_is_refused(home, tmp_path, name):
    import io

    saved(home, tmp_path)
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        info = tarfile.TarInfo(name)
        info.size = 1
        archive.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(HoldfastError, match="not a backup of Holdfast"):
        restore(tmp_path / "bad.tar", tmp_path / "new")
    assert not (tmp_path / "outside").exists()


def test_a_truncated_backup_and_another_key_are_refused(home, tmp_path):
    file = saved(home, tmp_path)
    (tmp_path / "cut.tar").write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(HoldfastError, match="it was cut"):
        restore(tmp_path / "cut.tar", tmp_path / "new")
    with pytest.raises(HoldfastError, match="not signed with this key"):
        restore(file, tmp_path / "new", public_key=SigningKey.generate().public)
    assert not (tmp_path / "new").exists()


def test_a_damaged_book_is_not_saved_as_if_it_were_whole(home, tmp_path):
    import sqlite3

    database = sqlite3.connect(home / "books" / "people.holdfast")
    database.execute("DROP TRIGGER no_update")
    database.execute("UPDATE events SET body = '{}' WHERE sequence = 1")
    database.commit()
    database.close()
    with pytest.raises(HoldfastError, match="was changed at line 1"):
        back_up(home, tmp_path / "saved.tar")
    assert not (tmp_path / "saved.tar").exists()


def test_a_full_disk_is_named_and_nothing_is_left_behind(home, tmp_path):
    """A limit on the size of files, as a disk that is almost full."""
    file = saved(home, tmp_path)
    place = tmp_path / "full"
    place.mkdir()
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "
        "from holdfast.cli import main; main(sys.argv[2:])"
    )
    for limit in (4_000, 30_000):
        for command in (
            ("backup", str(home), str(place / "b.tar")),
            ("restore", str(file), str(place / "h")),
        ):
            given = [sys.executable, "-c", limited, str(limit), *command]
            done = subprocess.run(given, capture_output=True, text=True)
            assert done.returncode == 2, (command, done.stdout, done.stderr)
            assert done.stderr.startswith("holdfast: "), done.stderr
            assert "Traceback" not in done.stderr
            assert list(place.iterdir()) == []


def test_tables_may_be_left_out_and_lie_elsewhere(home, tmp_path):
    tables = tmp_path / "tables"
    shutil.move(home / "data", tables)
    without = back_up(home, tmp_path / "without.tar", sources=tables, data=False)
    assert without.left_out == ("tables of datasets",)
    back_up(home, tmp_path / "with.tar", sources=tables)
    restore(tmp_path / "without.tar", tmp_path / "a")
    restore(tmp_path / "with.tar", tmp_path / "b")
    assert not (tmp_path / "a" / "data").exists()
    assert sorted(path.name for path in (tmp_path / "b" / "data").iterdir()) == [
        "other.parquet",
        "people.csv",
        "y.csv",
    ]


@pytest.mark.parametrize("into", ["files", "postgresql"])
def test_no_rows_get_a_second_account_by_a_restore(set_up, tmp_path, database, other_database, into):
    """Not those of a deleted or an archived dataset either: no start opens these."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    (home / "data").mkdir(parents=True)
    for name in ("other.parquet", "people.csv"):
        shutil.copy(set_up / "data" / name, home / "data")
    service = Service(home, books=database)
    owner = service.tokens.issue("olga", role="owner")[1]
    service.datasets.register("people", "people.csv", Policy(error=0.08))
    service.datasets.register("other", "other.parquet", Policy())
    service.administration.archive(owner, "people")
    service.administration.delete(owner, "other", confirm="other")
    back_up(home, tmp_path / "saved.tar", books=database)
    service.close()
    books = other_database if into == "postgresql" else None
    restore(tmp_path / "saved.tar", elsewhere, books=books)
    for _ in range(2):
        service = Service(elsewhere, books=books)
        for source in ("people.csv", "other.parquet"):
            with pytest.raises(InvalidArgument, match="rows that are not registered yet"):
                service.datasets.register("again", source, Policy())
        service.close()


def test_tokens_that_were_deleted_from_the_database_do_not_come_back(home, tmp_path, database):
    """The runbook empties the table after a theft. The restored folder still has the tokens in a file."""
    import psycopg

    stolen = owner_token(home)
    restore(saved(home, tmp_path), tmp_path / "elsewhere", books=database)
    service = Service(tmp_path / "elsewhere", books=database)
    assert service.tokens.holder(stolen).role == "owner"
    service.close()
    with psycopg.connect(database) as connection:
        connection.execute("DELETE FROM holdfast_tokens")
    service = Service(tmp_path / "elsewhere", books=database)
    assert service.tokens.all() == []
    with pytest.raises(Refused):
        service.tokens.holder(stolen)
    service.close()


def test_tables_that_are_not_found_are_listed(home, tmp_path):
    tables = tmp_path / "tables"
    shutil.move(home / "data", tables)
    assert back_up(home, tmp_path / "whole.tar", sources=tables).left_out == ()
    saved = back_up(home, tmp_path / "saved.tar")
    assert [name.partition(" ")[0] for name in saved.left_out] == ["other.parquet", "people.csv", "y.csv"]
    done = run("backup", str(home), str(tmp_path / "said.tar"))
    assert "Not in it: people.csv" in done.stdout


def test_a_key_outside_the_folder_is_saved_and_restored(home, tmp_path):
    key = SigningKey.at(home / "key").public
    (home / "key").rename(tmp_path / "key")
    refused = run("backup", str(home), str(tmp_path / "saved.tar"))
    assert refused.returncode == 2
    assert "--key" in refused.stderr
    done = run("backup", str(home), str(tmp_path / "saved.tar"), "--key", str(tmp_path / "key"))
    assert done.returncode == 0, done.stderr
    assert restore(tmp_path / "saved.tar", tmp_path / "new", public_key=key).key == key
    assert SigningKey.at(tmp_path / "new" / "key").public == key


def test_the_password_of_the_books_comes_from_a_file(home, tmp_path, database):
    Service(home, books=database).close()
    (tmp_path / "password").write_text("secret\n")
    books = ("--books", database.replace("postgres:@", "postgres@"))
    password = ("--books-password-file", str(tmp_path / "password"))
    done = run("backup", str(home), str(tmp_path / "saved.tar"), *books, *password)
    assert done.returncode == 0, done.stderr
    done = run("restore", str(tmp_path / "saved.tar"), str(tmp_path / "new"), *books, *password)
    assert done.returncode == 0, done.stderr
    twice = ("--books", database.replace("postgres:@", "postgres:another@"))
    for command in (
        ("backup", home, tmp_path / "again.tar"),
        ("restore", tmp_path / "saved.tar", tmp_path / "b"),
    ):
        refused = run(*map(str, command), *twice, *password)
        assert refused.returncode == 2
        assert "must not contain one" in refused.stderr


def test_an_export_of_a_restored_book_is_the_same(home, tmp_path):
    key = SigningKey.at(home / "key")
    restore(saved(home, tmp_path), tmp_path / "new")
    texts = []
    for folder in (home, tmp_path / "new"):
        book = Book(folder / "books" / "people.holdfast", key=key)
        export(book, tmp_path / "export.jsonl")
        book.close()
        texts.append((tmp_path / "export.jsonl").read_text())
    assert texts[0] == texts[1]
