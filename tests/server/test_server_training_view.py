"""What a column shows comes from the training rows alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from holdfast import Guard
from holdfast.engines import Column
from holdfast.registry import column_data
from holdfast.server import Policy

NUMBER = {"x": Column("number")}


def shown(values, name="x", kind="number"):
    frame = pd.DataFrame({name: values})
    return column_data({name: Column(kind)}, frame, pictures=True)[0]


def test_bins_are_shares_of_training_rows():
    (column,) = column_data(NUMBER, pd.DataFrame({"x": [0.0, 0.0, 1.0, np.nan]}), pictures=True)
    assert column["training"]["bins"] == [0.5, 0.25]
    assert column["training"]["missing"] == 0.25
    many = shown(np.random.default_rng(0).lognormal(0, 1, 5_000))["training"]["bins"]
    assert len(many) == 24
    assert sum(many) == pytest.approx(1, abs=0.01)
    assert max(many) < 0.3  # A long tail does not squeeze everything into one bin.


@pytest.mark.parametrize("values", [[], [7.0, 7.0], [np.nan, np.nan], [np.inf, -np.inf]])
def test_nothing_to_compare_has_no_picture(values):
    assert shown(np.array(values, dtype=float))["training"]["bins"] == []


def test_dates_have_bins_too():
    days = pd.date_range("2024-01-01", periods=48, freq="D")
    assert shown(days, kind="date")["training"]["bins"] == pytest.approx([1 / 24] * 24, abs=0.03)


@pytest.mark.parametrize(
    ("name", "values", "hidden"),
    [
        ("Unnamed: 0", [5, 3], True),
        ("__index_level_0__", [5, 3], True),
        ("index", [1, 4, 9], True),
        ("index", [1, 9, 4], False),
        ("index", [1, 1, 2], False),
        ("column0", [0, 3, 4], True),
        ("column0", [4.5, 0.5], False),
        ("age", [1, 2, 3], False),
        ("Unnamed", [1, 2, 3], False),
    ],
)
def test_row_numbers_are_told_apart(name, values, hidden):
    assert shown(values, name)["index"] is hidden


def test_no_training_rows_show_nothing():
    assert column_data(NUMBER, None, pictures=True) == [
        {"name": "x", "kind": "number", "training": None, "index": False}
    ]


def test_the_route_says_the_same_whatever_the_protected_rows_hold(service, person):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"row": range(900), "x": rng.random(900), "city": rng.choice(["A", "B"], 900)})
    training = set(Guard(table).train["row"])
    other = table.copy()
    protected = ~other["row"].isin(training)
    other.loc[protected, "x"] = 0.5 + 3 * rng.random(int(protected.sum()))
    other.loc[protected, "city"] = "C"
    for name, rows in (("first", table), ("second", other)):
        rows.to_parquet(service.sources / f"{name}.parquet", index=False)
        service.datasets.register(name, f"{name}.parquet", Policy())
    analyst = person("analyst")
    replies = [analyst("GET", f"/datasets/{name}/columns").json() for name in ("first", "second")]
    assert replies[0]["training_rows"] == len(training)
    assert replies[0] == replies[1]
    assert [column["index"] for column in replies[0]["columns"]] == [True, False, False]


def test_only_those_who_may_look_at_training_rows_see_them(person):
    assert person("auditor")("GET", "/datasets/people/columns").status_code == 403
    assert person("analyst", "eve", dataset="other")("GET", "/datasets/people/columns").status_code == 404


def test_the_columns_of_an_epoch_are_read_once(service, person, monkeypatch):
    """Each request about an epoch by its number read the training rows again."""
    calls = []

    def counted(*arguments, **options):
        calls.append(arguments)
        return column_data(*arguments, **options)

    monkeypatch.setattr("holdfast.registry._datasets.column_data", counted)
    owner = person("owner")
    first = owner("GET", "/datasets/people@1/columns").json()
    service.administration.change_terms(service.tokens.all()[0], "people", rate=77)
    assert owner("GET", "/datasets/people@1/columns").json() == first
    assert owner("GET", "/datasets/people/columns").json() == first
    assert len(calls) == 1
