"""Gates on the page, in a real Chromium: the line of promotions, on a phone, without a mouse, no scores."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect, sync_playwright
from server_gate_workers import scores
from server_process import serving
from test_server_page import chromium

from holdfast.client import Client
from holdfast.server import Service
from holdfast.server._gates import GivenResults
from holdfast.server._tokens import Person

PHONE = {"width": 390, "height": 740}
MARKUP = "<img src=x onerror=alert(1)>"
HARNESS = Person(identity="0", name="ci", role="submitter", team="", dataset="gate:agent", expires=0)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of a service with three gates, tokens, and a function that visits the page as somebody."""
    home = tmp_path_factory.mktemp("home")
    service = Service(home)
    terms = {"agent": {}, "rate": {"promise": "fdr"}, "fresh": {}}
    for name, more in terms.items():
        service.gates.register(
            name, results=GivenResults(scores(40)), incumbent="v1", rate=10**6, expect=40, **more
        )
    promoted = ["v2", MARKUP, "a version with a rather long name", "v5", "v6", "v7"]
    right = 40
    for name in promoted:
        for number in range(5):
            service.gates.submit("agent", HARNESS, f"{name} {number}", scores(right))
        right += 58
        assert service.gates.submit("agent", HARNESS, name, scores(right))
    service.gates.submit("rate", HARNESS, "w2", scores(100))
    roles = {
        "auditor": "*",
        "participant": "gate:agent",
        "analyst": "dataset:agent",
        "submitter": "gate:agent",
    }
    tokens = {role: service.tokens.issue(role, role=role, dataset=reach)[0] for role, reach in roles.items()}
    service.close()
    with serving(home) as started, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        thrown = []

        def visit(role, **options):
            page = browser.new_context(**options).new_page()
            page.on("pageerror", lambda error: thrown.append(str(error)))
            page.goto(started["url"])
            page.get_by_label("Your token").fill(tokens[role])
            page.keyboard.press("Enter")
            expect(page.locator("#person")).to_contain_text(role)
            return page

        yield started["url"], tokens, visit
        browser.close()
        assert thrown == []


def sticks_out(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_the_line_of_promotions_is_a_picture_and_a_table(site):
    url, tokens, visit = site
    page = visit("auditor")
    gate = page.get_by_role("region", name="Gate agent")
    with Client(url, tokens["auditor"]) as client:
        described, verdicts = client.gate("agent"), client.gate_verdicts("agent")
    expect(gate).to_contain_text(described["text"])
    picture = gate.get_by_role("img", name="Line of promotions, upward: v1; then v2, better by more than")
    expect(picture).to_be_visible()
    rows = gate.get_by_role("table", name="Promotions of agent").locator("tbody tr")
    expect(rows).to_have_count(7)
    for row, version in zip(rows.all(), reversed(described["versions"]), strict=True):
        expect(row).to_contain_text(version["name"])
        if version["place"]:
            expect(row).to_contain_text(f"> {version['margin']:g}")
            expect(row).to_contain_text(str(version["place"]))
            expect(picture).to_contain_text(f"no. {version['place']}")
    # Every step goes upward, also where the margin is 0.
    heights = [float(tread.get_attribute("y1")) for tread in picture.locator(".tread").all()]
    assert heights == sorted(heights, reverse=True)
    assert len(set(heights)) == 7
    listed = gate.get_by_role("table", name="Verdicts of agent").locator("tbody tr")
    expect(listed).to_have_count(25)
    expect(listed.first).to_contain_text(f"promoted > {verdicts[-1].margin:g}")
    expect(listed.nth(1)).to_contain_text("not promoted")
    assert page.locator("img").count() == 0
    other = page.get_by_role("region", name="Gate rate")
    expect(other).to_contain_text("their sum is not")
    expect(other.get_by_role("columnheader", name="In all")).to_have_count(0)
    expect(page.get_by_role("region", name="Gate fresh")).to_contain_text("Nothing was submitted yet.")


def test_no_score_reaches_the_page(site):
    """Neither the text nor any reply has the share of tasks that a version solves."""
    _, _, visit = site
    page = visit("auditor")
    expect(page.get_by_role("region", name="Gate fresh")).to_contain_text("Nothing was submitted yet.")
    text = page.locator("main").inner_text()
    for right in [40 + 58 * step for step in range(1, 7)]:
        assert not re.search(rf"(?<![\d.])({right}|{right / 400:g})(?![\d])", text), right


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_gates_fit_a_phone_and_need_no_mouse(site, scheme):
    _, _, visit = site
    page = visit("participant", viewport=PHONE, color_scheme=scheme)
    gate = page.get_by_role("region", name="Gate agent")
    expect(page.get_by_role("region", name="Gate rate")).to_have_count(0)
    expect(page.locator("#datasets")).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(gate).to_contain_text("The newest 4 of 7 versions.")
    button = gate.get_by_role("button", name="Older verdicts")
    assert button.bounding_box()["height"] >= 40
    assert sticks_out(page) == 0
    page.get_by_role("button", name="Sign out").focus()
    for _ in range(3):  # The table of promotions, that of verdicts, the button.
        page.keyboard.press("Tab")
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    rows = gate.get_by_role("table", name="Verdicts of agent").locator("tbody tr")
    expect(rows).to_have_count(36)
    expect(button).to_be_hidden()
    expect(gate.get_by_role("group", name="Verdicts of agent")).to_be_focused()  # Not lost with the button.
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(gate).to_contain_text("Tasks are independent draws")
    page.set_viewport_size({"width": 900, "height": 740})
    expect(gate).not_to_contain_text("The newest")
    assert sticks_out(page) == 0


def test_a_token_that_may_only_submit_sees_nothing(site):
    _, _, visit = site
    page = visit("submitter")
    expect(page.get_by_text("This token is for a harness")).to_be_visible()
    for name in ("work", "gate-list", "board-list", "datasets"):
        expect(page.locator(f"#{name}")).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This token is for a harness")).to_be_hidden()
    elsewhere = visit("analyst")  # Of a dataset with the gate's name.
    expect(elsewhere.locator("#datasets")).to_contain_text("reaches no dataset")
    expect(elsewhere.locator("#gate-list")).to_be_hidden()
