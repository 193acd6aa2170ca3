"""The page of a table that grows, in a real Chromium: which epoch one is in, and the way to the others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from server_process import serving

from browser import sticks_out, visiting
from holdfast.server import Policy, Service


@pytest.fixture
def house(tmp_path):
    """A dataset with one epoch: its service's address, and tokens."""
    service = Service(tmp_path)
    for part in range(3):
        values = np.random.default_rng(part).random(1000)
        pd.DataFrame({"x": values}).to_parquet(service.sources / f"{part}.parquet")
    service.datasets.register("t", "0.parquet", Policy(error=0.1))
    tokens = {role: service.tokens.issue(role, role=role)[0] for role in ("owner", "analyst")}
    service.close()
    with serving(tmp_path) as said:
        yield said["url"], tokens


def open_epoch(page):
    """An owner opens an epoch, after a file that is not there."""
    for source, words in (("9.parquet", "9.parquet"), ("1.parquet", "The epoch is open.")):
        page.get_by_label("File or table with the rows that arrived since").fill(source)
        page.get_by_role("button", name="Open an epoch").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"a new epoch of t for the rows in {source}")
        dialog.get_by_role("button", name="Open the epoch").click()
        expect(page.locator("#epoch-status")).to_contain_text(words)
    expect(page.locator("#facts")).to_contain_text("2 of 2")


def test_the_page_says_which_epoch_one_is_in_and_leads_to_the_others(house):
    url, tokens = house
    with visiting(url, tokens) as visit:
        page = visit("analyst", viewport={"width": 360, "height": 740})
        expect(page.locator("#facts")).to_contain_text("667")
        epochs = page.get_by_role("navigation", name="Epochs")
        expect(page.locator("#epochs")).to_be_hidden()  # A table that does not grow says nothing of it.
        question = page.get_by_label("Question", exact=True)
        question.fill("share(x > 0.25, guess = 0.75)")
        question.press("Enter")
        expect(page.locator("#answers tbody tr")).to_have_count(1)

        expect(page.locator("#new-epoch")).to_be_hidden()  # For owners only.
        open_epoch(visit("owner"))
        question.fill("share(x > 0.5, guess = 0.5)")
        question.press("Enter")  # Asked of the new rows, and the page turns to them.
        expect(epochs.get_by_role("button")).to_have_count(2)
        expect(epochs.locator("[aria-current=true]")).to_contain_text("Epoch 2")
        expect(page.locator("#facts")).to_contain_text("2 of 2, since 20")
        expect(page.locator("#answers tbody tr")).to_have_count(1)
        expect(page.locator("#answers")).to_contain_text("share(x > 0.5)")
        expect(page.locator("#certificate")).to_contain_text("independent of all rows of earlier epochs")

        epochs.get_by_role("button", name="Epoch 1").press("Enter")
        expect(page.locator("#facts")).to_contain_text("1 of 2")
        expect(page.locator("#answers")).to_contain_text("share(x > 0.25)")
        expect(page.locator("#answers tbody tr")).to_have_count(1)
        expect(page.locator("#dataset-list [aria-current=true]")).to_contain_text("t")
        assert sticks_out(page) == 0
        page.get_by_role("button", name="Verify the book").press("Enter")
        expect(page.locator("#verified")).to_contain_text("Intact")
