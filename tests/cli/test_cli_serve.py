"""``holdfast serve`` refuses at the start, in words, what it could not serve."""

from __future__ import annotations

import json
import socket

import pytest

from holdfast.cli._listen import listen


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
