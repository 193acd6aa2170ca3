"""Gates on the page, in a real Chromium: the line of promotions, on a phone, without a mouse, no scores."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from server_gate_workers import scores
from server_process import serving

from browser import PHONE, sticks_out, visiting
from holdfast.client import Client
from holdfast.registry import GivenResults, Person
from holdfast.server import Service

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
    with serving(home) as started, visiting(started["url"], tokens) as visitor:

        def visit(role, place="", **options):
            page = visitor(role, place, **options)
            expect(page.locator("#person")).to_contain_text(role)
            return page

        yield started["url"], tokens, visit


def turn_to(page, name):
    """Choose a gate from the list."""
    page.get_by_role("navigation").get_by_role("button", name=name).click()
    gate = page.get_by_role("region", name=f"Gate {name}")
    expect(gate.get_by_role("heading", name=name)).to_be_focused()
    expect(gate.locator("#gate-verdicts")).to_contain_text("Verdicts")
    return gate


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
    other = turn_to(page, "rate")
    expect(other).to_contain_text("their sum is not")
    expect(other.get_by_role("columnheader", name="In all")).to_have_count(0)
    expect(turn_to(page, "fresh")).to_contain_text("Nothing was submitted yet.")
    page.go_back()
    expect(page.get_by_role("region", name="Gate rate")).to_contain_text("their sum is not")


def test_no_score_reaches_the_page(site):
    """Neither the text nor any reply has the share of tasks that a version solves."""
    _, _, visit = site
    page = visit("auditor", "gate/agent")
    expect(page.get_by_role("table", name="Verdicts of agent")).to_be_visible()
    text = page.locator("main").inner_text()
    for right in [40 + 58 * step for step in range(1, 7)]:
        assert not re.search(rf"(?<![\d.])({right}|{right / 400:g})(?![\d])", text), right


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_gates_fit_a_phone_and_need_no_mouse(site, scheme):
    _, _, visit = site
    page = visit("participant", viewport=PHONE, color_scheme=scheme)
    gate = page.get_by_role("region", name="Gate agent")
    expect(page.locator("#gate-list button")).to_have_count(1)  # This one and no other.
    expect(page.locator("#dataset-places")).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(gate).to_contain_text("The newest 4 of 7 versions.")
    button = gate.get_by_role("button", name="Older verdicts")
    assert button.bounding_box()["height"] >= 40
    assert sticks_out(page) == 0
    page.get_by_role("button", name="Sign out").focus()
    for _ in range(4):  # The list of places, the table of promotions, that of verdicts, the button.
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


def test_a_candidate_is_submitted_from_a_file(site):
    url, tokens, visit = site
    page = visit("participant", viewport=PHONE)
    gate = page.get_by_role("region", name="Gate agent")
    gate.get_by_text("Submit a candidate").click()
    status = gate.get_by_role("status")
    rows = "".join(f'"task {number}",{int(number < 3)}\n' for number in range(400))
    files = {
        "v9.txt": ("", "ends in .json or .csv"),
        "v9.json": ("{", "not valid JSON"),
        "short.csv": ("task,points\n", "columns task and score"),
        "v9.csv": (f"task,score\n{rows}", "v9: not promoted"),
    }
    for name, (content, words) in files.items():
        gate.get_by_label("Name of the candidate").fill("v9")
        file = {"name": name, "mimeType": "text/plain", "buffer": content.encode()}
        gate.get_by_label("Scores: JSON").set_input_files(file)
        gate.get_by_role("button", name="Submit", exact=True).click()
        expect(status).to_contain_text(words)
    with Client(url, tokens["participant"]) as client:
        last = client.gate_verdicts("agent")[-1]
        assert (last.name, last.promoted) == ("v9", False)
    expect(gate.get_by_role("table", name="Verdicts of agent").locator("tbody tr").first).to_contain_text(
        "v9"
    )
    assert sticks_out(page) == 0


def test_a_token_that_may_only_submit_sees_nothing(site):
    _, _, visit = site
    page = visit("submitter")
    expect(page.get_by_text("This token is for a harness")).to_be_visible()
    for name in ("work", "gate", "board", "dataset"):
        expect(page.locator(f"#{name}")).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_hidden()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This token is for a harness")).to_be_hidden()
    elsewhere = visit("analyst")  # Of a dataset with the gate's name.
    expect(elsewhere.locator("#dataset-list")).to_contain_text("reaches no dataset")
    expect(elsewhere.locator("#gate-places")).to_be_hidden()
    expect(elsewhere.locator("#nowhere")).to_contain_text("This token reaches nothing here")
