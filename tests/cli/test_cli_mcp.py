"""``holdfast mcp``: which options go with a table and which with a service."""

from __future__ import annotations

import json
import os

import pytest

from holdfast.cli.account import AccountOptions, opened_account
from holdfast.cli.serve import LocalAccount
from holdfast.errors import HoldfastError

pytest.importorskip("mcp")


def test_the_tools_of_a_table_as_data(holdfast, people):
    status, out, err = holdfast("mcp", "people.csv", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    tools = {tool["name"]: tool for tool in document["tools"]}
    assert {"columns", "training_rows", "ask", "ask_together", "status", "report"} <= set(tools)
    assert not {"left", "boards", "submit"} & set(tools)
    assert "confirm" in tools["report"]["inputSchema"]["properties"]
    assert os.listdir() == ["people.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["people.csv", "--token", "hf_1"], "--token is for a service"),
        (["people.csv", "--dataset", "d"], "--dataset is for a service"),
        (["people.csv", "--ledger", "a", "--no-ledger"], "contradict each other"),
        (["s3://bucket/*.parquet"], "--ledger"),
        (["http://127.0.0.1:9"], "Missing option '--token'"),
        (["http://127.0.0.1:9", "--token", "hf_1", "--confidence", "0.9"], "--confidence is for a table"),
        (["http://127.0.0.1:9", "--token", "hf_1", "--no-ledger"], "--no-ledger is for a table"),
    ],
)
def test_bad_input_leaves_with_status_two(holdfast, people, monkeypatch, arguments, words):
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    status, out, err = holdfast("mcp", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())


def test_a_token_in_the_environment_does_not_matter_to_a_table(holdfast, people, monkeypatch):
    monkeypatch.setenv("HOLDFAST_TOKEN", "hf_1")
    assert holdfast("mcp", "people.csv", "--json")[0] == 0


def test_an_account_on_other_terms_is_refused_at_every_call(people, tmp_path):
    place = tmp_path / "people.csv.holdfast"
    for _ in range(2):
        account = LocalAccount(
            lambda: opened_account("people.csv", place, (), AccountOptions.of(confidence=0.9))
        )
        assert account.guard() is account.guard()
        account.close()
    account = LocalAccount(
        lambda: opened_account("people.csv", place, (), AccountOptions.of(confidence=0.95))
    )
    for _ in range(2):
        with pytest.raises(HoldfastError, match=r"was opened with --confidence 0\.9"):
            account.guard()
    after = LocalAccount(lambda: opened_account("people.csv", None, ("earlier.csv",), AccountOptions()))
    with pytest.raises(HoldfastError, match="leave out --no-ledger"):
        after.guard()
