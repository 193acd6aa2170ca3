"""A service in a folder of its own, with two datasets and a person of every kind."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import pandas as pd
import psycopg
import pytest
from playwright.sync_api import expect
from server_caller import Caller
from starlette.testclient import TestClient

from holdfast.registry import GivenResults
from holdfast.server import Policy, Service, create_app

ROWS = 4_000

# A page is waited for until it shows what is expected, however busy the machine is.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def set_up(tmp_path_factory):
    """The folder of a service that was set up and stopped: two datasets, a board and a gate."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)  # Always the same people: what is tested here is the service.
    (home / "data").mkdir()
    pd.DataFrame({"age": rng.integers(18, 90, ROWS), "income": rng.normal(4e4, 9e3, ROWS)}).to_csv(
        home / "data" / "people.csv", index=False
    )
    pd.DataFrame({"x": rng.random(ROWS)}).to_parquet(home / "data" / "other.parquet")
    service = Service(home)
    service.datasets.register("people", "people.csv", Policy(error=0.08, shares={"red/bob": 3.0}))
    service.datasets.register("other", "other.parquet", Policy(rate=10**6))
    pd.DataFrame({"id": range(100), "y": 1}).to_csv(home / "data" / "y.csv", index=False)
    service.boards.register("people", "y.csv", {"target": "y"}, blind=False)
    scores = GivenResults({f"task {number}": number % 2 for number in range(100)})
    service.gates.register("people", results=scores, rate=600)
    service.close()
    return home


@pytest.fixture
def service(set_up, tmp_path):
    """Started in a copy of that folder, which costs a test less than to set it up."""
    shutil.copytree(set_up, tmp_path, dirs_exist_ok=True)
    service = Service(tmp_path)
    yield service
    service.close()


@pytest.fixture
def client(service):
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def person(service, client):
    """Makes callers: ``person("analyst", "ann", dataset="people")``."""

    def person(role: str, name: str | None = None, **options):
        return Caller(client, service.tokens.issue(name or role, role=role, **options)[0])

    return person


@pytest.fixture
def owner(person):
    return person("owner")


@pytest.fixture
def allowed_owner(set_up, tmp_path, postgres):
    """An owner of a service that may register tables of the test database."""
    home = tmp_path / "allowed"
    shutil.copytree(set_up, home)
    service = Service(home, allow=(postgres,))
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        yield Caller(client, service.tokens.issue("olga", role="owner")[0])
    service.close()


@pytest.fixture
def database(postgres):
    """The URL of a fresh database: a service keeps its tokens and its key's name with its books."""
    yield from fresh_database(postgres)


@pytest.fixture
def other_database(postgres):
    """The URL of another fresh database."""
    yield from fresh_database(postgres)


def fresh_database(postgres):
    name = f"books_{secrets.token_hex(6)}"
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
    yield urlunsplit(urlsplit(postgres)._replace(path=f"/{name}"))
    with psycopg.connect(postgres, autocommit=True) as server:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def analyst(person):
    return person("analyst", "ann", dataset="people")


@pytest.fixture(scope="session")
def served():
    """A demonstration service: its address, tokens and key."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from holdfast.cli import main; main()",
            "serve",
            "--demo",
            "--port",
            "0",
            "--json",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    yield json.loads(process.stdout.readline())
    process.terminate()
    process.wait(timeout=20)
    process.stdout.close()
