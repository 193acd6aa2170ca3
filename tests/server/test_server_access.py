"""Who may do what: every route, every kind of token, and other people's things."""

from __future__ import annotations

import time

import pytest
from server_caller import Caller

from holdfast.errors import InvalidArgument
from holdfast.server import Tokens
from holdfast.server._tokens import Refused

OPEN = {("GET", "/v1/health"), ("GET", "/v1/key")}
# What an analyst and an auditor of the same dataset may do; everything else is the owner's.
ALLOWED = {
    "analyst": {
        ("GET", "/me"),
        ("GET", "/datasets"),
        ("GET", "/datasets/{name}"),
        ("POST", "/datasets/{name}/preview"),
        ("POST", "/datasets/{name}/questions"),
        ("POST", "/datasets/{name}/batches"),
        ("POST", "/datasets/{name}/tables"),
        ("POST", "/datasets/{name}/curves"),
        ("POST", "/datasets/{name}/discoveries"),
        ("GET", "/datasets/{name}/discoveries"),
        ("GET", "/datasets/{name}/history"),
        ("GET", "/datasets/{name}/train"),
        ("GET", "/datasets/{name}/certificate"),
        ("GET", "/datasets/{name}/verify"),
        ("GET", "/datasets/{name}/epochs"),
        ("GET", "/datasets/{name}/report"),
        ("GET", "/boards"),
        ("GET", "/boards/{name}"),
        ("GET", "/boards/{name}/ids"),
        ("POST", "/boards/{name}/submissions"),
    },
    "auditor": {
        ("GET", "/me"),
        ("GET", "/datasets"),
        ("GET", "/datasets/{name}"),
        ("GET", "/datasets/{name}/history"),
        ("GET", "/datasets/{name}/discoveries"),
        ("GET", "/datasets/{name}/certificate"),
        ("GET", "/datasets/{name}/ledger"),
        ("GET", "/datasets/{name}/verify"),
        ("GET", "/datasets/{name}/epochs"),
        ("GET", "/datasets/{name}/report"),
        ("GET", "/boards"),
        ("GET", "/boards/{name}"),
        ("GET", "/boards/{name}/ids"),
    },
}
BODIES = {
    "/datasets": {"name": "new", "source": "other.parquet"},
    "/tokens": {"name": "eve", "role": "analyst"},
    "/boards": {"name": "new", "source": "people.csv", "target": "age"},
    "/datasets/{name}/preview": {"query": "share(age > 40)"},
    "/datasets/{name}/questions": {"query": "share(age > 40)"},
    "/datasets/{name}/batches": {"questions": [{"query": "share(age > 40)"}]},
    "/datasets/{name}/tables": {"query": "share(age > 40, by = age)"},
    "/datasets/{name}/curves": {"query": "cdf(age)"},
    "/datasets/{name}/discoveries": {"claim": "share(age > 40) > 0.2"},
    "/datasets/{name}/epochs": {"source": "other.parquet"},
    "/datasets/{name}/report": {"questions": ["share(age > 40)"]},
}


def routes(client):
    """Every route of the service as its own description lists them."""
    paths = client.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), path.removeprefix("/v1"))
        for path, methods in paths.items()
        for method in methods
        if (method.upper(), path) not in OPEN
    ]


def call(caller, method, path, dataset="people"):
    body = BODIES.get(path) if method == "POST" else None
    if path == "/boards/{name}/submissions":
        body = {"id": list(range(100)), "prediction": [0] * 100}
    return caller(method, path.replace("{name}", dataset).replace("{identity}", "0" * 16), body)


def test_nothing_but_health_and_the_key_is_open(client):
    assert client.get("/v1/health").status_code == client.get("/v1/key").status_code == 200
    for method, path in routes(client):
        for caller in (Caller(client, None), Caller(client, "hf_guess"), Caller(client, "")):
            refused = call(caller, method, path)
            assert refused.status_code == 401, (method, path)
            assert refused.headers["WWW-Authenticate"] == "Bearer"
            assert refused.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("role", ["analyst", "auditor"])
def test_every_route_is_for_the_roles_it_is_for(client, person, role):
    caller = person(role, dataset="people")
    for method, path in routes(client):
        status = call(caller, method, path).status_code
        if (method, path) in ALLOWED[role]:
            # They may look, and nobody has given a report yet.
            assert status == (404 if path.endswith("/report") else 200), (method, path)
        else:
            assert status == 403, (method, path)


def test_what_belongs_to_others_is_not_there(client, person, owner):
    """The same answer for a dataset out of reach as for one that does not exist."""
    for role in ("analyst", "auditor"):
        stranger = person(role, dataset="other")
        for method, path in routes(client):
            if "{name}" in path and (method, path) in ALLOWED[role]:
                foreign, missing = (call(stranger, method, path, name) for name in ("people", "nowhere"))
                assert foreign.status_code == missing.status_code == 404
                assert foreign.json()["detail"].replace("people", "nowhere") == missing.json()["detail"]
        assert [found["name"] for found in stranger("GET", "/datasets").json()] == ["other"]
    assert [found["name"] for found in owner("GET", "/datasets").json()] == ["other", "people"]


def test_an_owner_gives_and_takes_tokens(client, owner):
    given = owner("POST", "/tokens", {"name": "eve", "role": "analyst", "dataset": "people"})
    assert given.status_code == 201
    eve = Caller(client, given.json()["token"])
    assert eve("GET", "/me").json()["name"] == "eve"
    listed = owner("GET", "/tokens").json()
    assert listed[0]["identity"] == given.json()["identity"]
    assert "token" not in listed[0]
    assert owner("DELETE", f"/tokens/{given.json()['identity']}").status_code == 204
    assert eve("GET", "/me").status_code == 401
    assert owner("DELETE", "/tokens/none").status_code == 404


def test_tokens_end(tmp_path, monkeypatch):
    tokens = Tokens(tmp_path / "tokens")
    secret, person = tokens.issue("ann", role="analyst", days=1)
    assert tokens.holder(secret) == person
    later = time.time() + 86_401
    monkeypatch.setattr(time, "time", lambda: later)
    with pytest.raises(Refused):
        tokens.holder(secret)
    tokens.close()


def test_tokens_are_not_in_the_files(service, tmp_path):
    secret, _ = service.tokens.issue("ann", role="owner")
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    "wrong",
    [{"role": "king"}, {"name": "a/b"}, {"name": ""}, {"team": "a\nb"}, {"days": 0}, {"days": float("nan")}],
)
def test_bad_tokens_are_not_given(tmp_path, wrong):
    tokens = Tokens(tmp_path / "tokens")
    with pytest.raises(InvalidArgument):
        tokens.issue(**{"name": "ann", "role": "analyst", **wrong})
    assert tokens.all() == []
    tokens.close()
