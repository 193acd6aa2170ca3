"""`holdfast epoch`: rows that arrived later, beside the first account and in a service."""

from __future__ import annotations

import json
import socket
import threading

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard


@pytest.fixture
def months(tmp_path, monkeypatch):
    """Four tables of payments, and none of them asked yet."""
    rng = np.random.default_rng(0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    for name in ("january", "february", "march", "april"):
        frame = pd.DataFrame({"amount": rng.gamma(2, 20, 1000).round(2), "paid": rng.integers(0, 2, 1000)})
        frame.to_csv(f"{name}.csv", index=False)


AFTER = ("--after", "january.csv")


def test_an_epoch_is_opened_asked_continued_and_verified(months, holdfast, tmp_path):
    assert holdfast("ask", "january.csv", "-q", "share(paid = 1, guess = 0.2)")[0] == 0
    status, out, _ = holdfast("epoch", "open", "february.csv", *AFTER)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["epoch", "1", "2"]
    assert (tmp_path / "january.csv.epoch-2.holdfast").exists()
    status, out, _ = holdfast("ask", "february.csv", *AFTER, "--json", "-q", "share(paid = 1, guess = 0.2)")
    asked = json.loads(out)
    assert status == 0
    assert asked["certificate"]["numbers"]["epoch"] == 2
    assert asked["certificate"]["numbers"]["training rows"] == 333  # Those of the account that is still open.
    again = json.loads(holdfast("epoch", "open", "february.csv", *AFTER, "--json")[1])
    assert again[1]["spent"] == asked["spent"] > 0
    listed = json.loads(holdfast("epoch", "list", "february.csv", *AFTER, "--json")[1])
    assert listed == again
    third = ("march.csv", *AFTER, "--after", "february.csv")
    assert holdfast("epoch", "open", *third, "--together", "0.8")[0] == 0
    assert holdfast("ask", *third, "-q", "share(paid = 1)")[0] == 0
    books = [f"january.csv{part}.holdfast" for part in ("", ".epoch-2", ".epoch-3")]
    status, out, _ = holdfast("verify", *books)
    assert status == 0
    assert "Epoch 3, intact" in out


def test_a_closed_account_gives_all_its_rows(months, holdfast):
    assert holdfast("epoch", "open", "february.csv", *AFTER, "--close")[0] == 0
    out = holdfast("ask", "february.csv", *AFTER, "--json", "-q", "share(paid = 1)")[1]
    assert json.loads(out)["certificate"]["numbers"]["training rows"] == 1000
    status, _, said = holdfast("ask", "january.csv", "-q", "share(paid = 1)")
    assert status == 1
    assert "closed" in said
    assert "closed" in holdfast("epoch", "list", "february.csv", *AFTER)[1]


def test_answers_are_the_guards_own(months, holdfast):
    holdfast("epoch", "open", "february.csv", *AFTER, "--confidence", "0.9")
    out = holdfast("ask", "february.csv", *AFTER, "--json", "-q", "share(amount > 30)")[1]
    own = Guard("january.csv").next_epoch("february.csv", confidence=0.9).share("amount > 30")
    (answer,) = json.loads(out)["answers"]
    assert (answer["value"], answer["low"], answer["high"]) == (own.value, own.low, own.high)


def test_mistakes_write_nothing_and_say_what_to_do(months, holdfast, tmp_path):
    status, _, said = holdfast("ask", "february.csv", *AFTER, "-q", "share(paid = 1)")
    assert status == 2
    assert "holdfast epoch open february.csv --after january.csv" in " ".join(said.split())
    (tmp_path / "copy.csv").write_bytes((tmp_path / "january.csv").read_bytes())
    for words, arguments in {
        "has rows of epoch 1 again": ("epoch", "open", "copy.csv", *AFTER, "--close"),
        "nowhere.csv": ("epoch", "open", "nowhere.csv", *AFTER, "--close"),
        "confidence is given": (
            "epoch",
            "open",
            "march.csv",
            *AFTER,
            "--confidence",
            ".9",
            "--together",
            ".9",
        ),
        "--after TABLE": ("epoch", "open", "march.csv"),
        "were fixed when it was opened": (
            "ask",
            "march.csv",
            *AFTER,
            "--error",
            "0.1",
            "-q",
            "share(paid = 1)",
        ),
        "Give a table": ("epoch", "list"),
        "HOLDFAST_TOKEN": ("epoch", "list", "--service", "http://127.0.0.1:9"),
        "accounts of your own": ("epoch", "open", "march.csv", "--service", "http://127.0.0.1:9", "--close"),
        "leave DATA": ("epoch", "list", "march.csv", "--service", "http://127.0.0.1:9"),
    }.items():
        status, _, said = holdfast(*arguments)
        assert status == 2, arguments
        assert words in " ".join(said.split()), arguments
    assert not list(tmp_path.glob("*.epoch-*"))
    assert holdfast("ask", "january.csv", "-q", "share(paid = 1)")[0] == 0  # No mistake closed the account.
    holdfast("epoch", "open", "february.csv", *AFTER)
    status, _, said = holdfast("epoch", "open", "march.csv", *AFTER)
    assert status == 2
    assert "followed by another epoch" in " ".join(said.split())


@pytest.fixture
def service(tmp_path):
    """A service on loopback in a thread: its address and an owner's token."""
    import uvicorn

    from holdfast.server import Policy, Service, create_app

    home = Service(tmp_path / "home", sources=tmp_path)
    home.datasets.register("payments", "january.csv", Policy())
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(create_app(home), log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", home.tokens.issue("olga", role="owner")[0]
        server.should_exit = True
        thread.join()
    home.close()


def test_an_owner_opens_one_in_a_service(months, service, holdfast, monkeypatch):
    url, token = service
    monkeypatch.setenv("HOLDFAST_TOKEN", token)
    status, out, _ = holdfast("epoch", "open", "february.csv", "--service", url, "--json")
    assert status == 0
    assert [one["address"] for one in json.loads(out)] == ["payments@1", "payments@2"]
    status, out, _ = holdfast("epoch", "list", "--service", url, "--dataset", "payments")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["epoch", "1", "2"]
    status, _, said = holdfast("epoch", "open", "february.csv", "--service", url)
    assert status == 2
    assert "these are the rows of epoch 2" in " ".join(said.split())
