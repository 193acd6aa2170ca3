"""The table of roles: it has every route, an owner of one thing owns that thing only, and what is refused
changes nothing."""

from __future__ import annotations

import pytest
from fastapi.routing import APIRoute
from server_caller import Caller
from starlette.testclient import TestClient
from test_server_access import call, routes

from holdfast.registry import ROUTES
from holdfast.server import create_app

ROLES = ("owner", "analyst", "auditor", "participant", "submitter")
SCOPES = ("*", "dataset:people", "board:people", "gate:people", "dataset:other")
# What a role may reach at all.
POSSIBLE = [
    (role, scope)
    for role in ROLES
    for scope in SCOPES
    if not (role == "participant" and scope.startswith("dataset:"))
    and not (role == "submitter" and not scope.startswith("gate:"))
]


def kept(service):
    """Everything that a request could change."""
    books = [epoch.book for name in service.datasets.names() for epoch in service.datasets.epochs(name)]
    books += [service.gates.get(name).book for name in service.gates.names()]
    boards = service.boards.names()
    return (
        service.datasets.names(),
        [(name, service.boards.blind(name), service.boards.get(name).finished) for name in boards],
        [len(list(service.boards.get(name)._book.lines())) for name in boards],
        service.gates.names(),
        [sum(1 for _ in book.lines()) for book in books],
        service.tokens.all(),
        sorted(path.name for path in (service.home / "books").glob("*.holdfast")),
    )


def every_route(routes):
    """All routes, those of included routers too, which some versions of FastAPI keep in one piece."""
    for route in routes:
        included = getattr(route, "original_router", None)
        yield from [route] if included is None else every_route(included.routes)


def test_every_route_has_its_row_and_every_row_its_route(client):
    found = list(every_route(client.app.routes))
    ours = [route for route in found if isinstance(route, APIRoute)]
    assert {(method, route.path) for route in ours for method in route.methods} == set(ROUTES)
    # The description of the interface is the same for every service.
    assert {route.path for route in found if not isinstance(route, APIRoute)} == {"/openapi.json"}


def test_a_route_without_a_row_is_closed_to_everybody(service):
    app = create_app(service)
    entered = []
    app.add_api_route("/v1/new", lambda: entered.append(1), methods=["GET"])
    with TestClient(app) as client:
        owner = service.tokens.issue("olga", role="owner")[0]
        for token in (None, "hf_guess"):
            assert Caller(client, token)("GET", "/new").status_code == 401
        refused = Caller(client, owner)("GET", "/new")
        assert refused.status_code == 403
        assert "table of roles" in refused.json()["detail"]
    assert entered == []


@pytest.mark.parametrize(("role", "scope"), POSSIBLE)
def test_every_cell_of_the_table(client, person, service, role, scope):
    """Allowed or refused as the table says; and what is refused changes nothing."""
    caller = person(role, dataset=scope)
    before = kept(service)
    refused = []
    for method, path in routes(client):
        rule = ROUTES[method, f"/v1{path}"]
        in_reach = {"everything": scope == "*", "own": True}.get(
            rule.reach, scope in ("*", f"{rule.reach}:people")
        )
        if rule.public or (role in rule.roles and in_reach):
            continue
        status = call(caller, method, path).status_code
        wanted = 404 if role in rule.roles and "{name}" in path else 403
        assert status == wanted, (method, path)
        refused.append((method, path))
    assert kept(service) == before
    assert bool(refused) == ((role, scope) != ("owner", "*"))


@pytest.mark.parametrize("scope", ["dataset:people", "board:people", "gate:people"])
def test_an_owner_of_one_thing_gives_lists_and_takes_tokens_for_it_only(client, person, service, scope):
    lead, chief = person("owner", "lead", dataset=scope), person("owner", "chief")
    stranger = service.tokens.issue("eve", role="analyst", dataset="dataset:other")[1]
    before = service.tokens.all()
    for role in ROLES:
        for wider in ("*", "other", "dataset:other", "board:race"):
            refused = lead("POST", "/tokens", {"name": "eve", "role": role, "dataset": wider})
            assert refused.status_code == 403, (role, wider)
        assert lead("POST", "/tokens", {"name": "eve", "role": role}).status_code == 403
    assert service.tokens.all() == before
    given = lead("POST", "/tokens", {"name": "ann", "role": "auditor", "dataset": scope})
    assert given.status_code == 201
    assert {token["dataset"] for token in lead("GET", "/tokens").json()} == {scope}
    assert len(chief("GET", "/tokens").json()) == len(before) + 1
    chiefs = chief("GET", "/me").json()["identity"]
    for other in (stranger.identity, chiefs):
        assert lead("DELETE", f"/tokens/{other}").status_code == 404
    assert chief("GET", "/me").status_code == 200
    assert lead("DELETE", f"/tokens/{given.json()['identity']}").status_code == 204
    assert Caller(client, given.json()["token"])("GET", "/me").status_code == 401


def test_an_owner_of_one_dataset_registers_nothing_else(person, service):
    """Both were answered with 404 and took effect."""
    before = kept(service)
    for scope in ("dataset:people", "board:people"):
        lead = person("owner", dataset=scope)
        refused = lead("POST", "/datasets", {"name": f"new-{scope[:5]}", "source": "y.csv"})
        assert refused.status_code == 403
        assert "Nothing was changed" in refused.json()["detail"]
    assert kept(service)[:5] == before[:5]
