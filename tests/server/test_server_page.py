"""The page in a real Chromium: signing in, asking without a mouse, verifying, in the dark and on a phone."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from playwright.sync_api import expect, sync_playwright


def chromium() -> str:
    """Debian's Chromium, installed if it is missing and may be."""
    names = ("chromium", "chromium-browser", "google-chrome")
    if not any(map(shutil.which, names)) and shutil.which("apt-get") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], check=True, capture_output=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "chromium"], check=True, capture_output=True)
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("there is no Chromium, and it cannot be installed without root")
    return found


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, served):
    """Opens the page; whatever the page throws fails the test."""
    contexts, thrown = [], []

    def visit(role=None, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: thrown.append(str(error)))
        page.goto(served["url"])
        if role is not None:
            page.get_by_label("Your token").fill(served["tokens"][role])
            page.keyboard.press("Enter")
            expect(page.locator("#dataset-name")).to_have_text("diamonds")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert thrown == []


def test_a_wrong_token_is_told_and_nothing_is_shown(visit):
    page = visit()
    page.get_by_label("Your token").fill("hf_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not valid")
    expect(page.locator("#work")).to_be_hidden()


def test_asking_without_a_mouse_with_the_price_before_and_the_interval_after(visit):
    page = visit("analyst")
    page.get_by_label("Question", exact=True).focus()
    page.keyboard.type("share(table_width > 57, guess = 0.45)")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("If the rows agree")
    page.keyboard.press("Enter")
    expect(page.locator("#answers")).to_contain_text("share(table_width > 57)")
    expect(preview).to_contain_text("nats")
    expect(page.locator("#drawing circle").first).to_be_visible()
    spent = page.locator("#facts dd").nth(3).inner_text()
    page.keyboard.press("Enter")  # Once more: the recorded answer, for nothing.
    expect(page.locator("#facts dd").nth(3)).to_have_text(spent)
    expect(page.get_by_label("Question", exact=True)).to_be_focused()


def test_mistakes_are_told_in_place_and_cost_nothing(visit):
    page = visit("analyst")
    spent = page.locator("#facts dd").nth(3).inner_text()
    page.get_by_label("Question", exact=True).fill("share(<img src=x onerror=alert(1)> > 2)")
    expect(page.locator("#preview")).not_to_be_empty()
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.locator("img").count() == 0
    assert page.locator("#facts dd").nth(3).inner_text() == spent


def test_an_account_that_counts_answers_is_shown_in_answers(visit):
    """The demonstration counts nats; here its replies say what those of another account would."""
    counted = {"unit": "answers", "spent": 2, "left": 98, "total": 100, "words": "98 of 100 answers"}
    prices = {"unit": "answers", "guess": None, "low": 0.4, "high": 0.6, "if_confirmed": 1, "at_most": 1}

    def told(**changes):
        def handle(route):
            reply = route.fetch()
            route.fulfill(response=reply, json={**reply.json(), **changes})

        return handle

    page = visit("analyst")
    page.route("**/v1/datasets/diamonds", told(**counted))
    page.route("**/preview", told(**prices, why="The width is that for all rows."))
    page.reload()
    expect(page.locator("#left")).to_have_text("98 of 100 answers")
    expect(page.locator("#facts dd").nth(3)).to_have_text("2 answers")
    expect(page.locator("#meter")).to_have_attribute("aria-label", "2 % of the account is spent")
    page.get_by_label("Question", exact=True).fill("share(carat > 3.3)")
    expect(page.locator("#preview")).to_have_text("About ±0.1 for 1 answer. The width is that for all rows.")


def test_the_certificate_and_the_book_can_be_looked_at(visit, served):
    page = visit("auditor")
    expect(page.locator("#ask")).to_be_hidden()
    expect(page.locator("#certificate")).to_contain_text("every interval released")
    page.get_by_role("button", name="Verify the book").press("Enter")
    expect(page.locator("#verified")).to_contain_text("Whole")
    expect(page.locator("#key")).to_have_text(served["key"])


def test_signing_out_forgets_the_token(visit):
    page = visit("analyst")
    page.reload()
    expect(page.locator("#dataset-name")).to_have_text("diamonds")  # The tab remembers it until then.
    page.get_by_role("button", name="Sign out").click()
    expect(page.locator("#sign-in")).to_be_visible()
    page.reload()
    expect(page.locator("#sign-in")).to_be_visible()


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_the_light_and_in_the_dark(visit, scheme):
    page = visit("analyst", color_scheme=scheme)
    style = "node => [getComputedStyle(node).color, getComputedStyle(document.body).backgroundColor]"
    for place in ("#dataset-name", ".quiet", "#left"):
        pair = page.locator(place).locator("visible=true").first.evaluate(style)
        darker, lighter = sorted(map(luminance, pair))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5
    assert (
        luminance(page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor")) < 0.2
    ) == (scheme == "dark")


def test_nothing_sticks_out_on_a_phone(visit):
    page = visit("analyst", viewport={"width": 360, "height": 740})
    width = page.locator("html").evaluate("node => node.scrollWidth")
    assert width <= 360
    assert page.get_by_role("button", name="Ask").bounding_box()["height"] >= 40


def test_the_page_may_load_nothing_from_elsewhere(served):
    import httpx

    policy = httpx.get(served["url"]).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
