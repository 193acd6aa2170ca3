"""A board on the page, in a real Chromium: uploading without a mouse and on a phone, finalists, the final."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from server_process import serving

from browser import PHONE, sticks_out, visiting
from holdfast.client import Client
from holdfast.server import Service

ROWS = 800
LABELS = pd.DataFrame({"id": np.arange(ROWS), "y": np.random.default_rng(1).integers(0, 2, ROWS)})


def predictions(right, seed=0):
    wrong = np.random.default_rng(seed).random(ROWS) >= right
    return pd.DataFrame({"id": LABELS["id"], "prediction": np.where(wrong, 1 - LABELS["y"], LABELS["y"])})


def sent(name, content):
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


@pytest.fixture
def site(tmp_path):
    """The address of a service with a board, tokens, and a function that visits the page as somebody."""
    service = Service(tmp_path)
    LABELS.to_csv(service.sources / "labels.csv", index=False)
    service.boards.register("race", "labels.csv", {"target": "y", "start": 0.5}, blind=False)
    tokens = {
        name: service.tokens.issue(name, role=role, dataset="board:race")[0]
        for name, role in (
            ("ann", "participant"),
            ("bob", "participant"),
            ("ada", "auditor"),
            ("olga", "owner"),
        )
    }
    service.close()
    with serving(tmp_path) as started, visiting(started["url"], tokens) as visitor:

        def visit(name, **options):
            page = visitor(name, **options)
            expect(page.get_by_role("region", name="Board race")).to_contain_text("Accuracy, more is better")
            expect(page.locator("#board-submissions")).not_to_be_empty()
            return page

        yield started["url"], tokens, visit


def test_a_participant_uploads_without_a_mouse_on_a_phone(site):
    url, tokens, visit = site
    page = visit("ann", viewport=PHONE)
    expect(page.locator("#dataset-places")).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_hidden()
    status = page.get_by_role("status").locator("visible=true")
    files = page.get_by_label("Predictions: CSV, Parquet or JSON")
    files.set_input_files(sent("best.csv", predictions(0.8).to_csv(index=False).encode()))
    files.focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Submit")).to_be_focused()
    page.keyboard.press("Enter")
    expect(status).to_contain_text("than the best; its score is above")
    expect(page.get_by_role("button", name="Submit")).to_be_focused()
    rows = page.get_by_role("table", name="Your submissions").locator("tbody tr")
    expect(rows).to_have_count(1)
    with Client(url, tokens["ann"]) as client:
        (entry,) = client.submissions("race")
        expect(rows.first).to_contain_text(entry["key"][:8])
        expect(rows.first).to_contain_text(f"better by more than {entry['steps']} steps")
        expect(page.get_by_role("table", name="Standing").locator("tbody tr")).to_contain_text("/ann")
        files.set_input_files(sent("worse.parquet", predictions(0.6, 1).to_parquet(index=False)))
        page.keyboard.press("Enter")
        expect(status).to_contain_text("not shown to be better than the best. It cost")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("not shown to be better")  # The newest first.
        assert len(client.submissions("race")) == 2
    assert sticks_out(page) == 0
    assert page.get_by_role("button", name="Submit").bounding_box()["height"] >= 40


def test_a_refusal_is_shown_beside_the_form_and_costs_nothing(site):
    url, tokens, visit = site
    page = visit("ann", viewport=PHONE)
    status = page.get_by_role("status").locator("visible=true")
    files, button = (
        page.get_by_label("Predictions: CSV, Parquet or JSON"),
        page.get_by_role("button", name="Submit"),
    )
    chances = predictions(0.8).assign(prediction=0.25)
    refusals = {
        "chances.csv": (chances.to_csv(index=False).encode(), "not probabilities"),
        "half.json": (
            predictions(0.8).head(400).to_json(orient="records").encode(),
            "400 ids have no prediction",
        ),
        "broken.PARQUET": (b"PAR1", "could not be read"),
        "model.pkl": (b"cos", "ends in .csv, .parquet or .json"),
        "markup.csv": (b"id,<img src=x onerror=alert(1)>\n1,1\n", "<img src=x"),
    }
    for name, (content, words) in refusals.items():
        files.set_input_files(sent(name, content))
        button.click()
        expect(status).to_contain_text(words)
        expect(status).to_have_class("bad long")
        expect(button).to_be_enabled()
    assert page.locator("img").count() == 0
    assert sticks_out(page) == 0
    with Client(url, tokens["ann"]) as client:
        assert client.submissions("race") == []


def test_finalists_are_ticked_and_the_final_is_shown_to_everyone(site):
    url, tokens, visit = site
    with (
        Client(url, tokens["ann"]) as ann,
        Client(url, tokens["bob"]) as bob,
        Client(url, tokens["olga"]) as olga,
    ):
        keys = [
            ann.submit("race", predictions(right, seed))["key"] for seed, right in enumerate((0.6, 0.7, 0.8))
        ]
        theirs = bob.submit("race", predictions(0.98, 4))["key"]
        page = visit("ann", viewport=PHONE)
        boxes = [page.get_by_label(f"Finalist {key[:8]}") for key in keys]
        status = page.get_by_role("status").locator("visible=true")
        for place in (0, 1):
            boxes[place].focus()
            page.keyboard.press("Space")
            expect(status).to_have_text(f"{keys[place][:8]} is one of your finalists.")
        assert ann.submissions("race")[0]["finalist"]
        boxes[2].press("Space")
        expect(status).to_contain_text("Choose at most 2 submissions")
        expect(boxes[2]).not_to_be_checked()
        boxes[0].press("Space")
        expect(status).to_have_text(f"{keys[0][:8]} is not a finalist any more.")
        assert ann._call("GET", "/boards/race/finalists")["finalists"] == [keys[1]]
        auditor = visit("ada")
        expect(auditor.get_by_role("button", name="Submit")).to_have_count(0)
        everything = auditor.get_by_role("table", name="Submissions", exact=True)
        expect(everything.locator("tbody tr")).to_have_count(4)
        expect(everything.get_by_role("checkbox")).to_have_count(0)
        expect(everything.locator("tbody tr").first).to_contain_text("/bob")
        owner = visit("olga")
        owner.get_by_role("button", name="Hold the final").press("Enter")
        expect(owner.get_by_role("dialog")).to_contain_text("once and for good")
        owner.keyboard.press("Enter")  # The first button is the one that changes nothing.
        expect(owner.get_by_role("dialog")).to_be_hidden()
        assert olga._call("GET", "/boards/race")["final"] is None
        owner.get_by_role("button", name="Hold the final").click()
        owner.get_by_role("dialog").get_by_role("button", name="Hold the final").click()
        expect(owner.locator("#board-status")).to_have_text("The final was held.")
        expect(owner.locator("#board-owner")).to_be_hidden()
        final = olga._call("GET", "/boards/race")["final"]
        assert {entry["key"] for entry in final} == {keys[1], theirs}
        page.reload()
        rows = page.get_by_role("table", name="Final scores").locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(0)).to_contain_text("/bob")
        expect(rows.nth(1)).to_contain_text(keys[1][:8])
        assert all(row["low"] < row["value"] < row["high"] for row in final)
        expect(rows.nth(1)).to_contain_text("[")
        expect(page.get_by_role("button", name="Submit")).to_have_count(0)
        expect(page.get_by_role("checkbox")).to_have_count(0)
        assert sticks_out(page) == 0
        ordered = [row["value"] for row in final]
        assert all(first >= second for first, second in pairwise(ordered))
