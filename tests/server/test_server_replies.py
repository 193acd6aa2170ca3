"""The description of the service says what every route replies, and real replies are as it says."""

from __future__ import annotations

import typing

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from server_caller import Caller
from server_replies import every_reply
from starlette.testclient import TestClient

import holdfast.typing
from holdfast.server import Policy, Service, create_app

# What the client says it receives. Without "Reply", its name is that of the schema in /openapi.json.
RECORDS = [name for name in holdfast.typing.__all__ if name.endswith("Reply")]
NEVER_SENT = {("POST", "/v1/datasets"), ("POST", "/v1/imports")}
FILES = {
    ("GET", "/v1/administration/ledger"),
    ("GET", "/v1/datasets/{name}/ledger"),
    ("GET", "/v1/datasets/{name}/train"),
    ("GET", "/v1/gates/{name}/book"),
    ("GET", "/v1/metrics"),
    ("POST", "/v1/datasets/{name}/export"),
}
WITHOUT_CONTENT = {
    ("DELETE", "/v1/sessions/{identity}"),
    ("DELETE", "/v1/tokens/{identity}"),
    ("POST", "/v1/sign-out"),
}


@pytest.fixture(scope="module")
def replies(tmp_path_factory):
    """The description of a service, and one reply of every kind."""
    service, rng = Service(tmp_path_factory.mktemp("home")), np.random.default_rng(0)
    rows = {"age": rng.integers(18, 90, 3_000), "income": rng.normal(4e4, 9e3, 3_000)}
    table = pd.DataFrame({**rows, "member": rng.random(3_000) < 0.5})
    table.to_csv(service.sources / "people.csv", index=False)
    for name in ("y", "z"):
        truth = (rng.random(300) < 0.8).astype(int)
        pd.DataFrame({"id": range(300), "y": truth}).to_csv(service.sources / f"{name}.csv", index=False)
    service.datasets.register("people", "people.csv", Policy())
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        owner = Caller(client, service.tokens.issue("olga", role="owner")[0])
        found = list(every_reply(service, client, owner.headers))
        refused = owner("GET", "/datasets/nowhere").json()
        description = client.get("/openapi.json").json()
    service.close()
    return description, found, refused


def content_of(description, method, path):
    responses = description["paths"][path][method.lower()]["responses"]
    return next(response for code, response in responses.items() if code.startswith("2")).get("content")


def described(description):
    """The content that every route is said to reply with, by its method and path."""
    return {
        (method.upper(), path): content_of(description, method, path)
        for path, methods in description["paths"].items()
        for method in methods
    }


def closed(schema):
    """A description that lets no further field pass, so that a test notices one that it lacks."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    return {"additionalProperties": False, **parts} if "properties" in parts else parts


def faults(description, schema, reply):
    whole = {"components": closed(description["components"]), **closed(schema)}
    return [error.message[:200] for error in Draft202012Validator(whole).iter_errors(reply)]


def test_every_reply_is_as_it_is_described(replies):
    description, found, _ = replies
    replied = {(method, path) for method, path, _ in found}
    assert replied == described(description).keys() - NEVER_SENT - FILES - WITHOUT_CONTENT
    for method, path, reply in found:
        schema = content_of(description, method, path)["application/json"]["schema"]
        assert faults(description, schema, reply) == [], (method, path)


def test_every_route_is_described(replies):
    description, _, _ = replies
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            content = content_of(description, method.upper(), path)
            key = method.upper(), path
            assert (content is None) == (key in WITHOUT_CONTENT), key
            assert ("application/json" in (content or {})) == (key not in FILES | WITHOUT_CONTENT), key
            if content is None:
                assert set(operation["responses"]) & {"204", "307", "302", "303", "200"}, key
            assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_a_refusal_is_as_it_is_described(replies):
    description, _, refused = replies
    problem = description["paths"]["/v1/me"]["get"]["responses"]["default"]["content"]
    assert refused["status"] == 404
    assert faults(description, problem["application/problem+json"]["schema"], refused) == []


@pytest.mark.parametrize(
    "change", [{"extra": 1}, {"value": "text"}, {"receipt": None, "low": None, "cost": None}]
)
def test_a_reply_that_is_not_as_described_is_noticed(replies, change):
    description, found, _ = replies
    path = "/v1/datasets/{name}/questions"
    schema = content_of(description, "POST", path)["application/json"]["schema"]
    answer = next(reply for method, where, reply in found if where == path)
    assert faults(description, schema, answer) == []
    assert faults(description, schema, {**answer, **change}) != []


JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_the_client_has_the_fields_of_the_reply(replies, name):
    schema = replies[0]["components"]["schemas"][name.removesuffix("Reply")]
    record = getattr(holdfast.typing, name)
    hints = typing.get_type_hints(record)
    assert set(hints) == set(schema["properties"])
    in_full = typing.get_type_hints(record, include_extras=True)
    required = {field for field, hint in in_full.items() if typing.get_origin(hint) is not typing.NotRequired}
    assert required == set(schema["required"])
    for field, hint in hints.items():
        described = schema["properties"][field].get("anyOf", [schema["properties"][field]])
        kinds = typing.get_args(hint) if type(None) in typing.get_args(hint) else (hint,)
        assert ({"type": "null"} in described) == (type(None) in kinds), field
        plain = {JSON_TYPES[kind] for kind in kinds if kind in JSON_TYPES}
        assert plain == {kind.get("type") for kind in described} & set(JSON_TYPES.values()), field
