"""``holdfast serve`` refuses at the start, in words, what it could not serve."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from holdfast.ledger import BookError
from holdfast.server import Policy, Service, listen


@pytest.fixture
def busy():
    """A port of this machine that something else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as place:
        yield place.getsockname()[1]


def said(printed):
    return " ".join(printed.split())


def test_a_busy_port_is_refused_before_a_token_is_made(holdfast, tmp_path, busy):
    status, out, err = holdfast("serve", str(tmp_path / "home"), "--port", str(busy))
    assert (status, out) == (2, "")
    assert f"Cannot listen on 127.0.0.1, port {busy}: another program listens there." in said(err)
    assert not (tmp_path / "home").exists()
    status, out, _ = holdfast("serve", "--demo", "--port", str(busy), "--json")
    assert status == 2
    assert "--port 0 finds a free one" in json.loads(out)["message"]


@pytest.mark.parametrize("host", ["999.1.1.1", "a..b"])
def test_a_host_that_is_not_here_is_refused(holdfast, tmp_path, host):
    status, out, err = holdfast("serve", str(tmp_path / "home"), "--host", host, "--port", "0")
    assert (status, out) == (2, "")
    assert f"Cannot listen on {host}, port 0: " in said(err)


def test_a_folder_that_cannot_be_made_is_refused(holdfast, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "file").write_text("not a folder")
    status, out, err = holdfast("serve", str(tmp_path / "file" / "home"), "--port", "0")
    assert (status, out) == (2, "")
    assert f"Cannot use {tmp_path / 'file' / 'home'}: Not a directory." in said(err)


@pytest.mark.parametrize(
    ("books", "words"),
    [
        ("nonsense://x", "--books must be the URL of a PostgreSQL database"),
        ("books", "--books must be the URL of a PostgreSQL database"),
        ("postgresql://me:secret@/x?host=/nowhere", "No account book can be opened in postgresql:///x"),
    ],
)
def test_books_that_cannot_be_opened_are_refused(holdfast, tmp_path, books, words):
    status, out, err = holdfast("serve", str(tmp_path / "home"), "--port", "0", "--books", books)
    assert (status, out) == (2, "")
    assert words in said(err)
    assert "secret" not in err
    assert not (tmp_path / "home").exists()


def test_a_name_of_several_addresses_is_listened_at_on_one_port():
    places = listen("localhost", 0)
    try:
        assert len({place.getsockname()[1] for place in places}) == 1
    finally:
        for place in places:
            place.close()


def start(*options, environment=None):
    """``holdfast serve`` in a process of its own; returns it once it serves, and what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from holdfast.cli import main; main()", "serve", "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "1000", **(environment or {})},
    )
    return process, process.stdout.readline()


def stop(process):
    """End it as systemd and Docker do; returns its status and the rest that it printed."""
    process.send_signal(signal.SIGTERM)
    with process.stdout, process.stderr:
        out, err = process.stdout.read(), process.stderr.read()
    return process.wait(timeout=60), out, err


def modes(folder):
    """The rights of every file and folder below one."""
    return {
        str(path.relative_to(folder)): (path.is_dir(), path.stat().st_mode & 0o777)
        for path in [folder, *folder.rglob("*")]
    }


def test_the_first_token_is_in_a_file_and_everything_is_for_its_owner_only(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    process, first = start(str(home))
    assert "Holdfast serves http://" in first
    token = (home / "owner-token").read_text().strip()
    status, out, err = stop(process)
    assert status == 0
    assert str(home / "owner-token") in out
    assert token.startswith("hf_")
    assert token not in out + err
    wrong = {
        name: mode for name, (folder, mode) in modes(home).items() if mode != (0o700 if folder else 0o600)
    }
    assert wrong == {}
    process, _ = start(str(home))
    assert "delete the file" in stop(process)[2]  # Until the operator does.
    (home / "owner-token").unlink()
    process, _ = start(str(home))
    assert stop(process)[2] == ""


def test_sigterm_leaves_nothing_behind(tmp_path):
    process, line = start("--demo", "--json", environment={"TMPDIR": str(tmp_path)})
    assert json.loads(line)["tokens"]
    assert list(tmp_path.iterdir())
    assert stop(process)[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def asks_for_passwords():
    """A database server that asks who connects for a password and lets nobody in: its port, and the users,
    databases and passwords that it was sent."""
    sent = []
    with socket.create_server(("127.0.0.1", 0)) as place:

        def serve():
            with suppress(OSError):
                while True:
                    connection, _ = place.accept()
                    with connection, connection.makefile("rb") as words:
                        (length,) = struct.unpack("!I", words.read(4))
                        names = words.read(length - 4)[4:].split(b"\0")
                        about = dict(zip(names[::2], names[1::2], strict=False))
                        connection.sendall(b"R" + struct.pack("!II", 8, 3))  # The password, please.
                        _, length = struct.unpack("!cI", words.read(5))
                        sent.append((about[b"user"], about[b"database"], words.read(length - 4)[:-1]))
                        refusal = b"SFATAL\0C28P01\0Mno\0\0"
                        connection.sendall(b"E" + struct.pack("!I", 4 + len(refusal)) + refusal)

        listening = threading.Thread(target=serve, daemon=True)
        listening.start()
        yield place.getsockname()[1], sent
        place.shutdown(socket.SHUT_RDWR)
        listening.join()


def test_the_password_of_the_books_comes_from_a_file(holdfast, tmp_path, monkeypatch, asks_for_passwords):
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.delenv("PGPASSWORD", raising=False)
    port, sent = asks_for_passwords
    (tmp_path / "password").write_text("p@ss/w:rd\n")
    (tmp_path / "empty").write_text("\n")

    def serve(login, file):
        books = f"postgresql://{login}@127.0.0.1:{port}/books?sslmode=disable&gssencmode=disable"
        given = [] if file is None else ["--books-password-file", str(tmp_path / file)]
        return holdfast("serve", str(tmp_path / "home"), "--port", "0", "--books", books, *given)

    status, out, err = serve("ann", "password")
    assert (status, out) == (2, "")
    assert "No account book can be opened" in err
    assert "ss/w" not in err
    assert "%2F" not in err
    assert set(sent) == {(b"ann", b"books", b"p@ss/w:rd")}
    sent.clear()
    assert serve("ann:other", None)[0] == 2
    assert set(sent) == {(b"ann", b"books", b"other")}
    sent.clear()
    for login, file in (("ann:other", "password"), ("ann", "empty")):
        status, _, err = serve(login, file)
        assert status == 2
        assert "must contain a password, and then --books must not contain one" in err
    assert sent == []


def test_a_source_that_is_no_address_is_refused(holdfast, tmp_path):
    status, _, err = holdfast(
        "serve", str(tmp_path / "home"), "--port", "0", "--allow-source", "db.example/town"
    )
    assert status == 2
    assert "--allow-source must be the beginning of an address" in said(err)
    assert not (tmp_path / "home").exists()


def test_a_lost_key_is_named_at_the_start(tmp_path):
    home = tmp_path / "home"
    service = Service(home)
    pd.DataFrame({"x": np.arange(1_000) / 1_000}).to_parquet(service.sources / "t.parquet")
    service.datasets.register("t", "t.parquet", Policy())
    service.close()
    process, _ = start(str(home))
    assert "no signing key" not in stop(process)[2]
    (home / "key").unlink()
    process, _ = start(str(home))
    assert f"There was no signing key at {home / 'key'}" in stop(process)[2]


def test_books_come_from_the_environment(holdfast, tmp_path, monkeypatch):
    monkeypatch.setenv("HOLDFAST_BOOKS", "postgresql://me:secret@/x?host=/nowhere")
    status, _, err = holdfast("serve", str(tmp_path / "home"), "--port", "0")
    assert status == 2
    assert "No account book can be opened in postgresql:///x" in said(err)
    assert "secret" not in err


def test_an_old_backup_is_named_at_the_start_verified_as_cut_and_taken_back_by_name(holdfast, tmp_path):
    home = tmp_path / "home"
    service = Service(home)
    pd.DataFrame({"x": np.arange(1_000) / 1_000}).to_parquet(service.sources / "t.parquet")
    service.datasets.register("t", "t.parquet", Policy())
    service.close()
    book = home / "books" / "t.holdfast"
    shutil.copy(book, tmp_path / "old")
    service = Service(home)
    service.datasets.get("t").guard.share("x > 0.5")
    service.close()
    assert holdfast("verify", str(book))[0] == 0
    book.unlink()
    shutil.copy(tmp_path / "old", book)
    status, out, _ = holdfast("verify", str(book))
    assert status == 1
    assert "shows that the book had" in said(out)
    process, _ = start(str(home))
    assert "runs behind its mark" in stop(process)[2]
    service = Service(home)
    with pytest.raises(BookError, match="runs behind its mark"):
        service.datasets.get("t")
    service.close()
    process, _ = start(str(home), "--accept-restored", "t")
    assert "continues as it was restored" in stop(process)[2]
    service = Service(home)
    lines = list(service.datasets.get("t").book.events())
    assert [line.body["had"] for line in lines if line.subject.startswith("restored")] == [3]
    service.close()
    assert holdfast("verify", str(book))[0] == 0
