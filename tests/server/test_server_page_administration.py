"""The owner's part of the page, in a real Chromium: terms, people, and datasets that are taken away."""

from __future__ import annotations

import shutil

import httpx
import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from server_process import serving

from browser import PHONE, Visitor, browsing, pictures_folder, serious_faults, sticks_out
from holdfast.server import Policy, Service

WIDE = {"width": 1200, "height": 900}


class House:
    """A running service: its address, a token for each name, and what a request says."""

    def __init__(self, url, tokens, key, sources):
        self.url, self.tokens, self.key, self.sources = url, tokens, key, sources

    def __call__(self, path, name="olga"):
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        return httpx.get(f"{self.url}/v1{path}", headers=headers).json()

    def acts(self):
        return [line["act"] for line in self("/administration")["acts"]]


@pytest.fixture(scope="module")
def house(set_up, tmp_path_factory):
    home = tmp_path_factory.mktemp("administration") / "home"
    shutil.copytree(set_up, home)
    service = Service(home)
    for seed, name in enumerate(("closed", "deleted", "lost", "moved")):  # Each for one test to take away.
        rows = pd.DataFrame({"x": np.random.default_rng(seed).random(600)})
        rows.to_parquet(service.sources / f"{name}.parquet")
        service.datasets.register(name, f"{name}.parquet", Policy())
    people = (
        ("olga", "owner", "", "*"),
        ("one", "owner", "", "dataset:people"),
        ("ann", "analyst", "north", "*"),
        ("ada", "auditor", "", "*"),
    )
    tokens = {
        name: service.tokens.issue(name, role=role, team=team, dataset=reach)[0]
        for name, role, team, reach in people
    }
    key, sources = service.key.public, service.sources
    service.close()
    (sources / "lost.parquet").unlink()
    with serving(home) as started:
        yield House(started["url"], tokens, key, sources)


@pytest.fixture(scope="module")
def browser():
    with browsing() as browser:
        yield browser


@pytest.fixture
def visit(house, browser):
    visitor = Visitor(browser, house.url, house.tokens)
    yield visitor
    visitor.leave()


def opened(page, name):
    """Open one thing that an owner can do; everything else is closed by that."""
    summary = page.locator("summary", has_text=name)
    panel = page.locator("details[open]", has=summary)
    if panel.count() == 0:
        summary.press("Enter")
    expect(panel).to_be_visible()
    return panel


def at(visit, name, place, **options):
    page = visit(name, place, **options)
    if place.startswith("dataset"):
        expect(page.locator("#statement")).not_to_be_empty()
    else:
        expect(page.locator("#administration")).to_be_visible()
    return page


def test_an_owner_changes_shares_rate_and_report(house, visit):
    page = at(visit, "olga", "dataset/people", viewport=WIDE)
    panel = opened(page, "Shares, rate and report")
    rate = panel.get_by_label("New questions a person may ask in a minute")
    expect(rate).to_have_value("600")
    rate.fill("7")
    panel.get_by_label("Who may give the report").select_option("analyst")
    panel.get_by_label("Share of red/bob").fill("")
    panel.get_by_label("Also a person (team/name) or a team").fill("north")
    panel.get_by_role("button", name="Save").click()
    problem = page.locator("#owner-problem")
    expect(problem).to_contain_text("needs both")  # Nothing is sent, and what was typed stays.
    assert house("/datasets/people/terms")["rate"] == 600
    problem.get_by_role("button", name="Dismiss").click()
    expect(problem).to_be_hidden()
    panel.get_by_label("Their share").fill("2.5")
    panel.get_by_role("button", name="Save").press("Enter")
    expect(page.locator("#owner-status")).to_have_text("Saved. It holds for the next question.")
    assert house("/datasets/people/terms") == {"shares": {"north": 2.5}, "rate": 7, "report": "analyst"}
    expect(panel.get_by_label("Share of north")).to_have_value("2.5")
    panel.get_by_role("button", name="Save").click()
    expect(page.locator("#owner-status")).to_have_text("Nothing was changed.")
    assert house.acts().count("change terms") == 1
    opened(page, "Close the account")
    expect(rate).to_be_hidden()  # One thing at a time.


def test_an_owner_closes_an_account_and_archives_a_dataset(house, visit):
    page = at(visit, "olga", "dataset/closed", viewport=WIDE)
    dialog = page.get_by_role("dialog")
    for answer in ("Cancel", "Close the account"):
        opened(page, "Close the account").get_by_role("button").click()
        expect(dialog).to_contain_text("cannot be opened again")
        assert not house("/datasets/closed")["closed"]
        dialog.get_by_role("button", name=answer).click()
    expect(page.locator("#owner-status")).to_have_text("The account is closed.")
    expect(page.locator("#owner-title")).to_be_focused()
    expect(page.locator("#left")).to_have_text("The account is closed.")
    expect(page.locator("#owner-close")).to_be_hidden()
    assert house("/datasets/closed")["closed"]

    opened(page, "Archive the dataset").get_by_role("button").click()
    dialog.get_by_role("button", name="Archive the dataset").click()
    expect(page.locator("#administration-status")).to_have_text("closed is archived.")
    states = page.get_by_role("table", name="Datasets that are not served")
    expect(states).to_contain_text("closed")
    place = page.locator("#dataset-list").get_by_role("button", name="closed")
    expect(place).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the account book of closed").click()
    assert download.value.suggested_filename == "closed.jsonl"
    page.get_by_role("button", name="Serve closed again").click()
    expect(page.locator("#administration-status")).to_have_text("closed is served again.")
    expect(place).to_have_count(1)
    assert "closed" not in {state["name"] for state in house("/states")}
    assert house.acts()[-3:] == ["close", "archive", "unarchive"]


def test_deleting_needs_the_name_typed(house, visit):
    page = at(visit, "olga", "dataset/deleted", viewport=WIDE)
    panel, dialog = opened(page, "Delete the dataset"), page.get_by_role("dialog")
    panel.get_by_role("button").click()
    typed = dialog.get_by_label("Type deleted to continue")
    go_on = dialog.get_by_role("button", name="Delete")
    expect(typed).to_be_focused()
    expect(go_on).to_be_disabled()
    typed.fill("delete")
    typed.press("Enter")
    expect(go_on).to_be_disabled()
    assert serious_faults(page) == []
    typed.press("Escape")
    expect(dialog).to_be_hidden()
    assert house("/datasets/deleted")["name"] == "deleted"
    panel.get_by_role("button").click()
    expect(typed).to_have_value("")
    typed.fill("deleted")
    typed.press("Enter")
    expect(page.locator("#administration-status")).to_have_text("deleted was deleted.")
    row = page.locator("#state-list").get_by_role("row").filter(has_text="deleted")
    expect(row.get_by_role("button")).to_have_count(1)  # Only its book is left.
    assert ("deleted", "deleted") in {(state["name"], state["state"]) for state in house("/states")}
    assert house.acts()[-1] == "delete"


def test_a_dataset_moves_to_another_service(house, visit, tmp_path):
    elsewhere = Service(tmp_path / "elsewhere", sources=house.sources)
    key, token = elsewhere.key.public, elsewhere.tokens.issue("otto", role="owner")[0]
    elsewhere.close()
    page, bundle = at(visit, "olga", "dataset/moved", viewport=WIDE), tmp_path / "moved.tar"
    panel = opened(page, "Export the dataset")
    panel.get_by_label("Public key of the service").fill("ed25519:nobody")
    panel.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="Hand the account over").click()
    expect(page.locator("#owner-problem")).to_contain_text("public key")
    panel.get_by_label("Public key of the service").fill("")
    with page.expect_download() as download:
        panel.get_by_role("button").click()
    expect(page.locator("#owner-status")).to_have_text("A copy was exported.")
    expect(page.locator("#owner-problem")).to_be_hidden()
    panel.get_by_label("Public key of the service").fill(key)
    panel.get_by_role("button").click()
    with page.expect_download() as download:
        page.get_by_role("dialog").get_by_role("button", name="Hand the account over").click()
    download.value.save_as(bundle)
    expect(page.locator("#administration-status")).to_contain_text("handed over")

    with serving(tmp_path / "elsewhere", "--sources", str(house.sources)) as started:
        visit.url, visit.tokens = started["url"], {"otto": token}
        there = visit("otto", viewport=WIDE)  # Nothing is served there yet.
        expect(there.locator("#administration")).to_be_visible()
        panel = opened(there, "Import a dataset")
        panel.get_by_label("File that another service exported").set_input_files(bundle)
        panel.get_by_label("Public key of that service").fill(key)
        panel.get_by_label("Name here").fill("arrived")
        panel.get_by_role("button", name="Import the dataset").click()
        expect(there.locator("#administration-problem")).to_be_visible()  # That is the key of the wrong one.
        panel.get_by_label("Public key of that service").fill(house.key)
        panel.get_by_role("button", name="Import the dataset").click()
        expect(there.locator("#administration-status")).to_have_text(
            "arrived was imported. Its account continues here."
        )
        expect(there.locator("#administration-problem")).to_be_hidden()
        expect(there.locator("#dataset-list")).to_contain_text("arrived")


def test_people_are_given_changed_and_revoked(house, visit):
    page = at(visit, "olga", "administration/service", viewport=WIDE)
    panel = opened(page, "Give someone a token")
    panel.get_by_label("Name").fill("bob")
    panel.get_by_label("Team, if any").fill("red")
    panel.get_by_label("Role").select_option("analyst")
    panel.get_by_label("Reaches").fill("dataset:nowhere/at all")
    panel.get_by_role("button", name="Give the token").click()
    expect(page.locator("#administration-problem")).to_be_visible()
    panel.get_by_label("Reaches").fill("dataset:people")
    panel.get_by_role("button", name="Give the token").click()
    expect(page.locator("#given-words")).to_contain_text("The token of red/bob, analyst")
    expect(page.locator("#administration-problem")).to_be_hidden()
    house.tokens["bob"] = page.locator("#given-token").inner_text()
    assert house("/me", "bob")["dataset"] == "dataset:people"

    panel = opened(page, "People and their tokens")
    row = panel.get_by_role("row").filter(has_text="red/bob")
    row.get_by_role("button", name="Change").press("Enter")
    form = page.locator("#change-token")
    expect(form.get_by_label("Role")).to_be_focused()
    form.get_by_role("button", name="Cancel").press("Enter")
    expect(row.get_by_role("button", name="Change")).to_be_focused()
    row.get_by_role("button", name="Change").click()
    form.get_by_label("Role").select_option("auditor")
    form.get_by_label("Reaches").fill("*")
    form.get_by_label("Valid for").fill("1")
    form.get_by_role("button", name="Change the token").click()
    expect(page.locator("#administration-status")).to_contain_text("was changed")
    expect(row).to_contain_text("auditor")
    assert house("/me", "bob")["role"] == "auditor"
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke the token").click()
    expect(row).to_have_count(0)
    panel.get_by_label("Show tokens that have ended").check()
    expect(row).to_contain_text("revoked")
    expect(row.get_by_role("button")).to_have_count(0)

    panel = opened(page, "What owners did")
    expect(page.get_by_role("table", name="Acts of owners").get_by_role("row").nth(1)).to_contain_text(
        "revoke"
    )
    with page.expect_download() as download:
        panel.get_by_role("button", name="Download the book of acts").click()
    assert download.value.suggested_filename == "administration.jsonl"
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Your token").fill(house.tokens["ann"])
    page.keyboard.press("Enter")
    expect(page.locator("#person")).to_contain_text("ann")
    assert house.tokens["bob"] not in page.content()  # A token is not left behind for whoever comes next.
    assert "red/bob" not in page.locator("#administration").inner_html()


def registered(visit, kind, fields):
    """Open the form for a dataset, a board or a gate, fill it and send it; returns the page."""
    page = at(visit, "olga", "administration/service", viewport=WIDE)
    panel = opened(page, f"Register a {kind}")
    for label, value in fields.items():
        panel.get_by_label(label).fill(value)
    panel.get_by_role("button", name=f"Register the {kind}").click()
    return page


def test_an_owner_registers_a_dataset(house, visit):
    rng = np.random.default_rng(31)
    rows = pd.DataFrame({"person": np.repeat(np.arange(400), 2), "x": rng.random(800)})
    rows.to_parquet(house.sources / "visits.parquet")
    fields = {
        "Name: small": "visits",
        "File or table with the rows": "visit.parquet",
        "Largest half-width": "0.2",
    }
    page = registered(visit, "dataset", fields)
    problem = page.locator("#administration-problem")
    expect(problem).to_contain_text("visit.parquet")  # There is no such file, and what was typed stays.
    panel = opened(page, "Register a dataset")
    expect(panel.get_by_label("Name: small")).to_have_value("visits")
    panel.get_by_label("File or table with the rows").fill("visits.parquet")
    panel.get_by_label("Column that names the unit").fill("person")
    panel.get_by_label("Who may give the report").select_option("analyst")
    panel.get_by_role("button", name="Register the dataset").click()
    expect(page.locator("#dataset-name")).to_have_text("visits")
    expect(page.locator("#dataset-name")).to_be_focused()
    expect(page.locator("#dataset-list")).to_contain_text("visits")
    page.get_by_label("Question", exact=True).fill("share(x > 0.5)")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.locator("#answers")).to_contain_text("share(x > 0.5)")
    assert house("/datasets/visits/terms")["report"] == "analyst"
    assert house.acts()[-1] == "register"


def test_an_owner_registers_a_board(house, visit):
    labels = pd.DataFrame({"key": np.arange(600), "y": np.random.default_rng(32).integers(0, 2, 600)})
    labels.to_csv(house.sources / "sprint.csv", index=False)
    fields = {
        "Name: small": "sprint",
        "File or table with the labels": "sprint.csv",
        "Column with the labels": "y",
    }
    page = registered(visit, "board", {**fields, "Column with the ids": "key"})
    expect(page.locator("#board-name")).to_have_text("sprint")
    board = house("/boards/sprint")
    assert (board["metric"], board["blind"]) == ("accuracy", False)
    assert house("/boards/sprint/ids")[:3] == [0, 1, 2]


def test_an_owner_registers_a_gate(house, visit, tmp_path):
    scores = tmp_path / "v1.csv"
    scores.write_text("task,score\n" + "".join(f"t{i},{i % 2}\n" for i in range(200)), encoding="utf-8")
    page = at(visit, "olga", "administration/service", viewport=WIDE)
    panel = opened(page, "Register a gate")
    panel.get_by_label("Name: small").fill("nightly")
    panel.get_by_label("Name of the incumbent").fill("v1")
    panel.get_by_label("Its scores").set_input_files(scores)
    panel.get_by_label("Least gain that counts").fill("0.01")
    panel.get_by_role("button", name="Register the gate").click()
    expect(page.locator("#gate-name")).to_have_text("nightly")
    gate = house("/gates/nightly")
    assert (gate["tasks"], gate["minimum"]) == (200, 0.01)
    assert [version["name"] for version in gate["versions"]] == ["v1"]


def test_nobody_but_an_owner_sees_any_of_it(house, visit):
    for name in ("ann", "ada"):
        page = at(visit, name, "dataset/people")
        for hidden in ("#owner", "#service-places", "#administration", "#new-epoch"):
            expect(page.locator(hidden)).to_be_hidden()
        page.evaluate("location.hash = 'administration/service'")
        page.reload()
        expect(page.locator("#dataset")).to_be_visible()
        expect(page.locator("#administration")).to_be_hidden()
    page = at(visit, "one", "dataset/people")  # Owns one dataset.
    expect(page.locator("#owner")).to_be_visible()
    page.get_by_role("button", name="Administration").click()
    expect(page.locator("#administration-name")).to_be_focused()
    panel = opened(page, "People and their tokens")
    expect(panel.get_by_role("row").filter(has_text="one")).to_have_count(1)
    expect(panel.get_by_role("row").filter(has_text="olga")).to_have_count(0)
    for everything in ("#import", "#acts", "#register-dataset", "#register-board", "#register-gate"):
        expect(page.locator(everything)).to_be_hidden()


def test_an_owner_can_take_a_dataset_away_whose_rows_are_gone(house, visit):
    page = at(visit, "olga", "administration/service", viewport=WIDE)
    expect(page.locator("#dataset-list")).to_contain_text("cannot be opened")
    panel = opened(page, "Datasets that are not served")
    panel.get_by_role("button", name="Archive lost").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive the dataset").click()
    expect(page.locator("#administration-status")).to_have_text("lost is archived.")
    expect(page.locator("#dataset-list")).not_to_contain_text("lost")
    panel.get_by_role("button", name="Delete lost").click()
    page.get_by_label("Type lost to continue").fill("lost")
    page.keyboard.press("Enter")
    expect(page.locator("#administration-status")).to_have_text("lost was deleted.")
    assert house.acts()[-2:] == ["archive", "delete"]


@pytest.mark.parametrize("size", ["wide", "phone"])
def test_the_owners_part_is_accessible_and_fits(house, visit, tmp_path, size):
    pictures = pictures_folder(tmp_path / "pictures")
    page = at(visit, "olga", "dataset/people", viewport=WIDE if size == "wide" else PHONE)
    for section, place in (("owner", "dataset/people"), ("administration", "administration/service")):
        if section == "administration":
            page.evaluate("place => { location.hash = place }", place)
            expect(page.locator("#administration")).to_be_visible()
        for number, name in enumerate(page.locator(f"#{section} summary").all_inner_texts()):
            opened(page, name)
            page.wait_for_load_state("networkidle")
            if name.startswith("People"):
                page.get_by_role("button", name="Change the token of north/ann").click()
            if name.startswith("Give"):
                page.locator("#give-name").fill("a-person-with-quite-a-long-name")
                page.locator("#give-reach").fill("*")
                page.get_by_role("button", name="Give the token").click()
                expect(page.locator("#given-token")).not_to_be_empty()
            assert sticks_out(page) == 0, name
            page.screenshot(path=pictures / f"page-{section}-{number}-{size}.png", full_page=True)
            if size == "wide" or number < 2:
                assert serious_faults(page) == [], name
    page.emulate_media(color_scheme="dark")
    assert serious_faults(page, only="color-contrast") == []
