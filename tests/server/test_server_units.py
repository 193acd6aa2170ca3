"""What a service says of its accounts: in the unit of each account, and to each person what they may ask."""

from __future__ import annotations

import asyncio
from importlib import import_module

import mcp
import numpy as np
import pandas as pd
import pytest
from server_caller import Caller, varied
from starlette.testclient import TestClient

from holdfast.client import Client
from holdfast.errors import BudgetSpent, InvalidArgument
from holdfast.server import Policy, create_app, make_tools

COUNTED = {
    "grid-code": {"strategy": "grid-code", "queries": 100},
    "agreed-code": {"strategy": "agreed-code", "queries": 8, "surprises": 1},
    "split": {"strategy": "split", "queries": 8},
}


@pytest.fixture
def coins(service):
    frame = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (6000, 9)), columns=list("abcdefghi"))
    frame.to_parquet(service.sources / "coins.parquet")
    return "coins.parquet"


@pytest.fixture
def client_of(service):
    """A client in this process of a dataset with this policy."""
    opened = []

    def client_of(source, policy, name="counted"):
        service.datasets.register(name, source, policy)
        token, _ = service.tokens.issue("ann", role="analyst")
        client = Client("http://testserver", token, dataset=name)
        client._http = TestClient(
            create_app(service),
            base_url="http://testserver/v1",
            headers={"Authorization": f"Bearer {token}"},
        )
        opened.append(client)
        return client

    yield client_of
    for client in opened:
        client.close()


def test_a_client_prints_answers_where_the_account_counts_answers(service, client_of, coins):
    for name, options in COUNTED.items():
        require_answers(client_of(varied(service, coins, name), Policy(**options), name), options["queries"])


def test_a_client_knows_how_wide_later_shares_will_be(service, client_of, coins):
    client = client_of(coins, Policy(), "plain")
    left, guards = client.left, service.datasets.get("plain").guard.left
    assert left.share_half_width_after(0) == pytest.approx(left.share_half_width)
    assert left.share_half_width < left.share_half_width_after(100) < 0.5
    assert left.share_half_width_after(100) == guards.share_half_width_after(100)
    with pytest.raises(InvalidArgument, match="questions"):
        left.share_half_width_after(-1)


def require_answers(client, queries):
    left = client.left
    assert (left, left.unit, left.total, client.unit) == (queries, "answers", queries, "answers")
    assert repr(left).startswith(f"{queries} of {queries} answers")
    preview = client.cost_preview("share(a = 1)")
    answer = client.share("a = 1")
    assert (preview.unit, preview.at_most, answer.unit, answer.cost, client.spent) == (
        "answers",
        1,
        "answers",
        1,
        1,
    )
    assert client.history == (answer,)
    assert client.epochs[0]["unit"] == "answers"
    for text in (repr(left), repr(preview), repr(answer), repr(client.left)):
        assert "nats" not in text
    described = client.describe()
    assert (described["spent"], described["unit"], described["left"]) == (1, "answers", queries - 1)
    verified = client._call("GET", f"/datasets/{client.dataset}/verify")
    assert (verified["spent"], verified["unit"]) == (1, "answers")


def test_an_account_in_nats_is_printed_in_nats(client_of, coins):
    client = client_of(coins, Policy(error=0.1))
    assert client.unit == client.left.unit == "nats"
    assert client.left.fraction == 1
    assert client.left.share_half_width <= 0.1
    answer = client.share("a = 1")
    assert (answer.unit, client.spent) == ("nats", pytest.approx(answer.cost))
    assert " nats: about " in repr(client.left)
    assert 0 < client.left.fraction < 1


def test_a_refusal_reaches_the_client_and_agents_with_its_unit(client_of, coins):
    client = client_of(coins, Policy(strategy="grid-code", queries=2))
    client.share("a = 1")
    client.share("b = 1")
    with pytest.raises(BudgetSpent) as refused:
        client.share("c = 1")
    assert (refused.value.asked, refused.value.spent, refused.value.left, refused.value.unit) == (
        1,
        2,
        0,
        "answers",
    )
    assert client.cost_preview("share(c = 1)").why == str(refused.value)

    async def conversation():
        async with mcp.Client(make_tools(client)) as agent:
            question = {"question": "share(c = 1)"}
            calls = (("ask", question), ("preview", question), ("left", {}))
            return [(await agent.call_tool(name, given)).structured_content for name, given in calls]

    asked, preview, left = asyncio.run(asyncio.wait_for(conversation(), 60))
    assert (asked["unit"], asked["spent"], asked["left"]) == ("answers", 2, 0)
    assert not preview["allowed"]
    assert (left["unit"], left["spent"]) == ("answers", 2)


def test_the_command_line_lists_epochs_in_their_unit(client_of, coins, capsys):
    client = client_of(coins, Policy(strategy="grid-code", queries=100))
    client.share("a = 1")
    import_module("holdfast.cli.account")._show_epochs(client.epochs, as_json=False)
    printed = " ".join(capsys.readouterr().out.split())
    assert "1 answer 99 of 100 answers" in printed
    assert "nats" not in printed


def test_a_preview_shows_the_share_of_the_person_who_asks_for_it(service, person, coins):
    """A share that is used up but for a hundredth of a nat: the preview and asking say the same, to the
    person it belongs to, and to nobody else."""
    service.datasets.register("shared", coins, Policy(shares={"red/bob": 50.0, "blue": 6.0}))
    bob, ann = person("analyst", "bob", team="red"), person("analyst", "ann", team="green")
    question = {"query": "share(a = 1, guess = 0.01)"}
    worst = bob("POST", "/datasets/shared/preview", question).json()["at_most"]
    service.datasets.register(
        "tight", varied(service, coins, "tight"), Policy(shares={"red/bob": worst - 0.01, "red": 100.0})
    )
    for caller, allowed in ((bob, False), (ann, True)):
        preview = caller("POST", "/datasets/tight/preview", question).json()
        assert preview["allowed"] == allowed
        asked = caller.ask(question["query"], "tight")
        assert asked.status_code == (200 if allowed else 403)
        if not allowed:
            assert asked.json()["detail"] == preview["why"]
            assert asked.json()["unit"] == "nats"
    assert bob("POST", "/datasets/tight/preview", question).json()["known"]  # Ann asked it, and paid.


def test_only_its_owner_sees_what_is_left_of_a_share(service, person, coins):
    service.datasets.register("shared", coins, Policy(shares={"red/bob": 50.0, "red": 20.0}))
    bob, eve = person("analyst", "bob", team="red"), person("analyst", "eve", team="red")
    ann = person("analyst", "ann", team="green")
    cost = bob.ask("share(a = 1, guess = 0.1)", "shared").json()["cost"]
    told = [caller("GET", "/datasets/shared").json()["share_left"] for caller in (bob, eve, ann)]
    assert told == [pytest.approx(20 - cost), pytest.approx(20 - cost), None]


def test_shares_of_an_account_that_counts_answers_are_answers(service, person, coins):
    service.datasets.register("few", coins, Policy(strategy="split", queries=8, shares={"red/bob": 2.0}))
    bob: Caller = person("analyst", "bob", team="red")
    assert [bob.ask(f"share({name} = 1)", "few").status_code for name in "abc"] == [200, 200, 403]
    problem = bob.ask("share(d = 1)", "few").json()
    assert problem["detail"].startswith("The share of red/bob is 2 answers. 0 are left,")
    assert (problem["unit"], problem["asked"], problem["left"]) == ("answers", 1, 0)
    assert not bob("POST", "/datasets/few/preview", {"query": "share(d = 1)"}).json()["allowed"]
    described = bob("GET", "/datasets/few").json()
    assert (described["share_left"], described["share_unit"]) == (0, "answers")
