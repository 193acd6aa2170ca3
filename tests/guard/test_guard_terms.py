"""The terms of an account are written down once: in :class:`Terms`. Everything that repeats them agrees."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import numpy as np
import pytest

from holdfast import Guard
from holdfast.errors import InvalidArgument
from holdfast.guard import Terms, TermsOptions
from holdfast.ledger import Book
from holdfast.server import Policy

TERMS = {option.name: option for option in dataclasses.fields(Terms)}
TABLE = {"x": np.arange(400) % 7}


def test_a_guard_takes_every_term_with_its_type_and_default():
    parameters = inspect.signature(Guard.__init__).parameters
    for name, option in TERMS.items():
        assert parameters[name].default == option.default, name
        assert parameters[name].annotation == option.type, name
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


def test_terms_as_keyword_arguments_have_every_name():
    assert set(Terms().options) == set(TERMS)
    assert set(
        typing.get_type_hints(TermsOptions, localns=vars(__import__("holdfast.typing").typing))
    ) == set(TERMS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"confidence": 0.9, "error": 0.2, "training_share": 0.25, "split_seed": 3},
        {"expect": 20, "promise": "each"},
        {"strategy": "split", "queries": 10},
        {"strategy": "agreed-code", "queries": 12, "surprises": 2},
    ],
)
def test_a_book_has_the_terms_that_it_was_opened_with(options, tmp_path):
    book = Book(tmp_path / "book")
    Guard(TABLE, ledger=book, seconds=30, **options)
    written = Terms.of_book(book.opening.body)
    given = Terms(**options)
    for name in set(TERMS) - {"seconds", "split_by", "training_share"}:
        assert getattr(written, name) == getattr(given, name), name
    assert written.training_share == (given.training_share or written.training_share)
    Guard(TABLE, ledger=book, **written.options)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("confidence", 1),
        ("error", 0),
        ("strategy", "codes"),
        ("queries", 0),
        ("surprises", -1),
        ("expect", 0.5),
        ("promise", "some"),
        ("training_share", 1),
        ("split_seed", -1),
        ("split_by", 3),
        ("seconds", 0),
    ],
)
def test_every_term_is_checked_in_the_words_of_its_owner(name, wrong):
    assert name in TERMS
    with pytest.raises(InvalidArgument, match=f"'{name}' argument of Guard"):
        Guard(TABLE, **{name: wrong})
    with pytest.raises(InvalidArgument, match=f"'{name}' argument of Policy"):
        Policy(**{name: wrong})


def test_a_request_for_a_dataset_has_the_fields_of_a_policy(tmp_path):
    from starlette.testclient import TestClient

    from holdfast.server import Service, create_app

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.csv").write_text("x\n" + "\n".join(map(str, TABLE["x"])))
    service = Service(tmp_path)
    token, _ = service.tokens.issue("olga", role="owner")
    with TestClient(create_app(service), headers={"Authorization": f"Bearer {token}"}) as client:
        described = client.get("/openapi.json").json()["components"]["schemas"]["PolicyBody"]["properties"]
        assert client.post("/v1/datasets", json={"name": "t", "source": "t.csv"}).status_code == 201
        policy = service.datasets.get("t").policy
    service.close()
    assert set(described) == set(Policy().to_dict())
    assert policy.to_dict() == Policy().to_dict()
    assert (described["confidence"]["exclusiveMinimum"], described["confidence"]["exclusiveMaximum"]) == (
        0,
        1,
    )
    assert described["split_seed"]["minimum"] == 0
    assert described["promise"]["enum"] == ["all", "each"]
