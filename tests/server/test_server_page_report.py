"""A report on the page, in a real Chromium: confirmed by whoever may, seen by everyone."""

from __future__ import annotations

import numpy as np
import pandas as pd
from playwright.sync_api import expect
from server_process import serving

from browser import sticks_out, visiting
from holdfast.client import Client
from holdfast.server import Policy, Service


def test_an_owner_ends_the_account_with_a_report_that_everyone_sees(tmp_path):
    service = Service(tmp_path)
    values = np.random.default_rng(0).random(1000)
    pd.DataFrame({"x": values}).to_parquet(service.sources / "t.parquet")
    service.datasets.register("t", "t.parquet", Policy(promise="each"))
    tokens = {role: service.tokens.issue(role, role=role)[0] for role in ("owner", "analyst")}
    service.close()
    with serving(tmp_path) as said, visiting(said["url"], tokens) as visitor:

        def visit(role, **options):
            page = visitor(role, **options)
            expect(page.locator("#facts")).to_contain_text("confidence 0.95 for each interval by itself")
            return page

        analyst = visit("analyst", viewport={"width": 360, "height": 740})
        expect(analyst.locator("#report")).to_be_hidden()  # Only an owner may, and none was given.
        page = visit("owner")
        questions = page.get_by_label("Questions of the report")
        with Client(said["url"], tokens["owner"], dataset="t") as client:
            questions.fill("share(x > 0.5)\n\nshare(y > 0.5)\n")
            page.get_by_role("button", name="Give the report").press("Enter")
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text("ends the account of t for good, for everyone")
            page.keyboard.press("Enter")  # The first button is the one that changes nothing.
            expect(dialog).to_be_hidden()
            page.get_by_role("button", name="Give the report").click()
            page.get_by_role("button", name="End the account").click()
            expect(page.get_by_role("alert")).to_contain_text("There is no column 'y'")
            assert not client.closed
            questions.fill("share(x > 0.5)\nmean(x, 0, 1)")
            page.get_by_role("button", name="Give the report").click()
            expect(dialog).to_contain_text("the 2 questions are read exactly")
            page.get_by_role("button", name="End the account").click()
            rows = page.locator("#report-rows tbody tr")
            expect(rows).to_have_count(2)
            expect(rows.nth(0)).to_contain_text("share(x > 0.5)")
            expect(page.locator("#report-text")).to_have_text(client.reported.text)
        expect(page.locator("#give-report")).to_be_hidden()
        expect(page.locator("#left")).to_have_text("The account is closed.")
        analyst.reload()
        expect(analyst.locator("#report-rows tbody tr")).to_have_count(2)
        expect(analyst.locator("#give-report")).to_be_hidden()
        assert sticks_out(analyst) == 0
