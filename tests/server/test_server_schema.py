"""Whatever the description of the service allows, and much that it does not: never an internal error."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from starlette.testclient import TestClient

from contracts.examples import examples
from holdfast.server import Policy, Service, create_app

DESCRIPTION = schemathesis.openapi.from_dict(create_app(None).openapi())
OPERATIONS = {result.ok().label: result.ok() for result in DESCRIPTION.get_all_operations()}


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """The owner of a service with a small dataset."""
    home = tmp_path_factory.mktemp("service")
    (home / "data").mkdir()
    pd.DataFrame({"x": np.random.default_rng(0).random(300)}).to_csv(home / "data" / "t.csv", index=False)
    service = Service(home)
    service.datasets.register("t", "t.csv", Policy(rate=10**9))
    token = service.tokens.issue("olga", role="owner")[0]
    with TestClient(create_app(service), raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        yield client
    service.close()


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_request_leads_to_an_internal_error(operation, mode, owner):
    cases = OPERATIONS[operation].as_strategy(generation_mode=mode)

    @settings(examples(6), suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(cases)
    def send(case):
        if "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "t"
        sent = case.as_transport_kwargs(base_url="http://service")
        sent["headers"] = {**sent.get("headers", {}), "Authorization": owner.headers["Authorization"]}
        sent["content"] = sent.pop("data", None)
        sent.pop("cookies", None)
        answer = owner.request(**sent)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"].startswith("application/problem+json")

    with suppress(Unsatisfiable):  # Nothing can be wrong with a request that has no parts.
        send()
