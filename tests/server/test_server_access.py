"""Who may do what: every route, every kind of token, and other people's things."""

from __future__ import annotations

import time

import pytest
from server_caller import Caller, varied

from holdfast.errors import InvalidArgument
from holdfast.registry import GivenResults, Refused, StoreError
from holdfast.server import Policy, Service, Tokens

OPEN = {("GET", f"/v1/{path}") for path in ("health", "live", "ready", "key", "sign-in")}
# What each role may do with what its token reaches; everything else is the owner's.
ALLOWED = {
    "analyst": {
        ("GET", "/me"),
        ("POST", "/sign-out"),
        ("GET", "/datasets"),
        ("GET", "/datasets/{name}"),
        ("POST", "/datasets/{name}/preview"),
        ("POST", "/datasets/{name}/questions"),
        ("POST", "/datasets/{name}/batches"),
        ("POST", "/datasets/{name}/tables"),
        ("POST", "/datasets/{name}/curves"),
        ("POST", "/datasets/{name}/discoveries"),
        ("GET", "/datasets/{name}/discoveries"),
        ("GET", "/datasets/{name}/columns"),
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
        ("GET", "/boards/{name}/submissions"),
        ("GET", "/boards/{name}/finalists"),
        ("PUT", "/boards/{name}/finalists"),
        ("GET", "/gates"),
        ("GET", "/gates/{name}"),
        ("GET", "/gates/{name}/tasks"),
        ("GET", "/gates/{name}/verdicts"),
        ("POST", "/gates/{name}/submissions"),
    },
    "participant": {
        ("GET", "/me"),
        ("POST", "/sign-out"),
        ("GET", "/boards"),
        ("GET", "/boards/{name}"),
        ("GET", "/boards/{name}/ids"),
        ("POST", "/boards/{name}/submissions"),
        ("GET", "/boards/{name}/submissions"),
        ("GET", "/boards/{name}/finalists"),
        ("PUT", "/boards/{name}/finalists"),
        ("GET", "/gates"),
        ("GET", "/gates/{name}"),
        ("GET", "/gates/{name}/tasks"),
        ("GET", "/gates/{name}/verdicts"),
        ("POST", "/gates/{name}/submissions"),
    },
    "submitter": {
        ("GET", "/me"),
        ("POST", "/sign-out"),
        ("POST", "/gates/{name}/submissions"),
    },
    "auditor": {
        ("GET", "/me"),
        ("POST", "/sign-out"),
        ("GET", "/datasets"),
        ("GET", "/datasets/{name}"),
        ("GET", "/datasets/{name}/history"),
        ("GET", "/datasets/{name}/discoveries"),
        ("GET", "/datasets/{name}/certificate"),
        ("GET", "/datasets/{name}/ledger"),
        ("GET", "/datasets/{name}/terms"),
        ("GET", "/states"),
        ("GET", "/administration"),
        ("GET", "/administration/ledger"),
        ("GET", "/datasets/{name}/verify"),
        ("GET", "/datasets/{name}/epochs"),
        ("GET", "/datasets/{name}/report"),
        ("GET", "/boards"),
        ("GET", "/boards/{name}"),
        ("GET", "/boards/{name}/ids"),
        ("GET", "/boards/{name}/submissions"),
        ("GET", "/gates"),
        ("GET", "/gates/{name}"),
        ("GET", "/gates/{name}/tasks"),
        ("GET", "/gates/{name}/verdicts"),
        ("GET", "/gates/{name}/book"),
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
    "/datasets/{name}/export": {},
    "/boards/{name}/finalists": {"submissions": []},
    "/gates": {"name": "new", "results": {"scores": {str(number): 1 for number in range(100)}}},
    "/gates/{name}/submissions": {
        "name": "v2",
        "scores": {f"task {number}": 1 for number in range(100)},
    },
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
    body = BODIES.get(path) if method in ("POST", "PUT") else None
    if (method, path) == ("POST", "/boards/{name}/submissions"):
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


def expected(role, reach, method, path):
    """The status for somebody of this role whose token reaches "dataset:people", "board:people",
    "gate:people" or all."""
    kind = path.split("/")[1].removesuffix("s")
    out_of_reach = "{name}" in path and reach not in ("*", f"{kind}:people")
    if (method, path) not in ALLOWED[role]:
        # Whether an analyst may give a report is said by the dataset, which has to be in reach.
        return 404 if out_of_reach and role == "analyst" and path == "/datasets/{name}/report" else 403
    if out_of_reach:
        return 404
    if path.startswith("/administration") and reach != "*":
        return 403  # It speaks of everything that the service has.
    return 404 if path.endswith("/report") else 200  # They may look, and nobody has given a report yet.


@pytest.mark.parametrize(
    ("role", "reach"),
    [
        *(
            (role, reach)
            for role in ("analyst", "auditor")
            for reach in ("dataset:people", "board:people", "gate:people", "*")
        ),
        ("participant", "board:people"),
        ("participant", "gate:people"),
        ("participant", "*"),
        ("submitter", "gate:people"),
        ("submitter", "gate:other"),
    ],
)
def test_every_route_is_for_the_roles_it_is_for(client, person, role, reach):
    """There are a dataset, a board and a gate of the name "people": a token for one of them does not reach
    the others."""
    caller = person(role, dataset=reach)
    for method, path in routes(client):
        status = call(caller, method, path).status_code
        done = 204 if path == "/sign-out" else expected(role, reach, method, path)
        assert status == done, (method, path)


@pytest.mark.parametrize("kind", ["dataset", "board", "gate"])
def test_an_owner_of_one_thing_does_not_reach_the_others_of_the_same_name(client, person, kind):
    caller = person("owner", dataset=f"{kind}:people")
    for method, path in routes(client):
        if "{name}" in path:
            status = call(caller, method, path).status_code
            absent = (method, path) == ("GET", "/datasets/{name}/report")  # Nobody has given one.
            assert (status == 404) == (absent or not path.startswith(f"/{kind}s/")), (method, path)


def test_what_belongs_to_others_is_not_there(client, person, owner):
    """The same answer for a dataset out of reach as for one that does not exist."""
    reaches = {
        "analyst": "other",
        "auditor": "other",
        "participant": "board:other",
        "submitter": "gate:other",
    }
    for role, reach in reaches.items():
        stranger = person(role, dataset=reach)
        for method, path in routes(client):
            if "{name}" in path and (method, path) in ALLOWED[role]:
                foreign, missing = (call(stranger, method, path, name) for name in ("people", "nowhere"))
                assert foreign.status_code == missing.status_code == 404
                assert foreign.json()["detail"].replace("people", "nowhere") == missing.json()["detail"]
        if role != "submitter":
            assert stranger("GET", "/boards").json() == stranger("GET", "/gates").json() == []
        if role in ("analyst", "auditor"):
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
    [
        {"role": "king"},
        {"name": "a/b"},
        {"name": ""},
        {"team": "a\nb"},
        {"days": 0},
        {"days": float("nan")},
        {"dataset": ""},
        {"dataset": "board:"},
        {"dataset": "table:people"},
        {"dataset": "dataset:board:people"},
        {"dataset": "people@1"},
        {"role": "participant", "dataset": "dataset:people"},
        {"role": "participant", "dataset": "people"},
        {"dataset": "gate:"},
        {"role": "submitter"},
        {"role": "submitter", "dataset": "people"},
        {"role": "submitter", "dataset": "board:people"},
        {"role": "submitter", "dataset": "*"},
    ],
)
def test_bad_tokens_are_not_given(tmp_path, wrong):
    tokens = Tokens(tmp_path / "tokens")
    with pytest.raises(InvalidArgument) as refused:
        tokens.issue(**{"name": "ann", "role": "analyst", **wrong})
    assert refused.value.argument == ("dataset" if wrong == {"role": "submitter"} else list(wrong)[-1])
    assert tokens.all() == []
    tokens.close()


def test_a_name_alone_means_a_dataset_and_never_a_board(client, owner, service, set_up):
    """If there is only a board of that name, the message says what to write."""
    service.boards.register("race", varied(service, "y.csv", "race"), {"target": "y"}, blind=False)
    refused = owner("POST", "/tokens", {"name": "eve", "role": "analyst", "dataset": "race"})
    assert refused.status_code == 422
    assert "'board:race' for the board" in refused.json()["detail"]
    given = owner("POST", "/tokens", {"name": "eve", "role": "participant", "dataset": "board:race"})
    assert (given.status_code, given.json()["dataset"]) == (201, "board:race")
    eve = Caller(client, given.json()["token"])
    assert [board["name"] for board in eve("GET", "/boards").json()] == ["race"]
    assert eve("GET", "/datasets").status_code == 403
    scores = GivenResults({str(number): 1 for number in range(50)})
    service.gates.register("line", results=scores, rate=1)
    refused = owner("POST", "/tokens", {"name": "eve", "role": "analyst", "dataset": "line"})
    assert "'gate:line' for the gate" in refused.json()["detail"]
    plain = owner("POST", "/tokens", {"name": "bob", "role": "analyst", "dataset": "people"})
    assert plain.json()["dataset"] == "dataset:people"


def test_tokens_of_earlier_versions_keep_their_meaning_where_it_is_clear(service, tmp_path):
    """They hold a name alone. There are datasets "people" and "other", and boards "people" and "race"."""
    service.boards.register("race", varied(service, "y.csv", "race"), {"target": "y"}, blind=False)
    given = {}
    for name in ("people", "other", "race", "later", "*"):
        given[name], person = service.tokens.issue("ann", role="analyst")
        service.tokens._database.execute(
            "UPDATE tokens SET dataset = ? WHERE identity = ?", (name, person.identity)
        )
    bare = service.tokens.holder(given["race"])
    assert not bare.reaches("dataset", "race")  # Before a service has said of which kind it is: nothing.
    assert not bare.reaches("board", "race")
    again = Service(tmp_path)
    reach = {name: again.tokens.holder(secret).dataset for name, secret in given.items()}
    assert reach == {
        "people": "dataset:people",  # Both have the name, and it may have been given for either.
        "other": "dataset:other",
        "race": "board:race",
        "later": "dataset:later",
        "*": "*",
    }
    again.datasets.register("race", varied(again, "people.csv", "race"), Policy())
    assert not again.tokens.holder(given["race"]).reaches("dataset", "race")
    again.close()


def test_a_store_that_is_away_is_a_problem_that_clients_know(client, owner, service, monkeypatch):
    """While PostgreSQL restarts, tokens cannot be looked up. Clients repeat a request after 503."""

    def away(*arguments):
        raise StoreError("The tokens cannot be read: the database is away.")

    monkeypatch.setattr(service.tokens, "holder", away)
    for method, path in (("GET", "/v1/me"), ("POST", "/v1/datasets/people/questions")):
        reply = client.request(method, path, headers={"Authorization": f"Bearer {owner.token}"})
        assert (reply.status_code, reply.json()["type"]) == (503, "urn:holdfast:service-store")


def test_no_address_is_redirected_to_the_host_that_a_client_names(owner):
    reply = owner.client.get(
        "/v1/datasets/people/", headers={**owner.headers, "Host": "evil.example"}, follow_redirects=False
    )
    assert reply.status_code == 404
    assert "location" not in reply.headers
