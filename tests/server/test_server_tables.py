"""Tables, curves and claims over HTTP: the same as a guard's, for the same account."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.client import Client
from holdfast.errors import QueryRejected


@pytest.fixture
def client(served):
    client = Client(served["url"], served["tokens"]["analyst"])
    yield client
    client.close()


def test_a_client_asks_by_groups_and_gets_the_rows_of_a_table(client):
    table = client.table("share(carat > 0.7, by = cut)")
    cuts = sorted(set(client.train["cut"]))
    assert [row.group[0] for row in table.rows] == [*cuts, "all others"]
    # The demonstration promises ±0.03, which is too narrow for some of the groups.
    assert all(row.note for row in table.rows if row.answer is None)
    assert all(answer.low <= answer.value <= answer.high for answer in table.answers)
    spent = client.spent
    assert client.share("carat > 0.7", by="cut").answers == table.answers
    assert client.spent == spent


def test_a_client_gets_a_distribution_and_a_histogram(client):
    curve = client.cdf("carat")
    assert len(curve.points) == len(curve.low) == len(curve.high)
    assert all(low <= high for low, high in zip(curve.low, curve.high, strict=True))
    bins = client.histogram("carat", [0, 0.5, 1, 5])
    assert [row.group for row in bins.rows] == [("(0, 0.5]",), ("(0.5, 1]",), ("(1, 5]",)]
    assert client.table("histogram(carat, 0, 0.5, 1, 5)") == bins
    assert curve.histogram([0, 0.5, 1, 5]) == bins


def test_a_client_tests_claims(client):
    found = client.discover("share(carat > 0.2) > 0.5")
    assert found
    assert client.discoveries == (found,)
    assert client.discover("share(carat > 0.2) > 0.5") == found
    with pytest.raises(QueryRejected, match="Cannot read the claim"):
        client.discover("carat is large")


def test_the_verbs_of_a_client_are_those_of_a_guard(client):
    both = {"carat": (0, 5), "price": (0, 20_000)}
    assert client.correlation("carat", "price", bounds=both).low > 0
    assert client.difference("carat > 1", between="price > 2400, price <= 2400").low > 0
    with pytest.raises(QueryRejected, match="expression"):
        client.compare(np.zeros(3), np.ones(3), target="price")
