"""The page in a real Chromium: signing in, asking without a mouse, verifying, in the dark and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from browser import Visitor, browsing, sticks_out


@pytest.fixture(scope="module")
def browser():
    with browsing() as browser:
        yield browser


@pytest.fixture
def visit(browser, served):
    """Opens the page; whatever the page throws fails the test."""
    visitor = Visitor(browser, served["url"], served["tokens"])

    def visit(role=None, **options):
        page = visitor(role, **options)
        if role is not None:
            expect(page.locator("#dataset-name")).to_have_text("diamonds")
            expect(page.locator("#statement")).not_to_be_empty()
        return page

    yield visit
    visitor.leave()


def test_a_wrong_token_is_reported_and_nothing_is_shown(visit):
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
    expect(page.locator("#answer")).to_contain_text("nats")
    expect(preview).to_be_empty()
    expect(page.locator("#drawing circle").first).to_be_visible()
    spent = page.locator("#facts dd").nth(2).inner_text()
    page.keyboard.press("Enter")  # Once more: the recorded answer, free of charge.
    expect(page.locator("#facts dd").nth(2)).to_have_text(spent)
    expect(page.get_by_label("Question", exact=True)).to_be_focused()


def test_mistakes_are_shown_beside_the_field_and_cost_nothing(visit):
    page = visit("analyst")
    spent = page.locator("#facts dd").nth(2).inner_text()
    page.get_by_label("Question", exact=True).fill("share(<img src=x onerror=alert(1)> > 2)")
    preview = page.locator("#preview")
    expect(preview).to_have_class("refused")
    words = preview.inner_text()
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(preview).to_be_empty()  # Said once.
    assert page.locator("img").count() == 0
    assert page.locator("#facts dd").nth(2).inner_text() == spent
    page.get_by_role("button", name="Dismiss this refusal").press("Enter")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.get_by_label("Question", exact=True)).to_be_focused()


def test_an_error_outside_the_form_is_shown_once_and_can_be_dismissed(visit):
    page = visit("analyst")
    page.route("**/verify", lambda route: route.abort())
    for dismiss in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.get_by_role("button", name="Dismiss this message").click(),
    ):
        page.get_by_role("button", name="Verify the book").click()
        expect(page.get_by_role("alert")).to_contain_text("The service does not answer. Try again.")
        expect(page.get_by_text("The service does not answer.")).to_have_count(1)
        dismiss()
        expect(page.get_by_role("alert")).to_be_hidden()


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
    expect(page.locator("#facts dd").nth(2)).to_have_text("2 answers")
    expect(page.locator("#meter")).to_have_attribute("aria-label", "2 % of the account is spent")
    page.get_by_label("Question", exact=True).fill("share(carat > 3.3)")
    expect(page.locator("#preview")).to_have_text("About ±0.1 for 1 answer. The width is that for all rows.")


def test_the_certificate_and_the_book_can_be_looked_at(visit, served):
    page = visit("auditor")
    expect(page.locator("#ask")).to_be_hidden()
    expect(page.locator("#certificate")).to_contain_text("every interval released")
    page.get_by_role("button", name="Verify the book").press("Enter")
    expect(page.locator("#verified")).to_contain_text("Intact")
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
    for place in ("#dataset-name", "#columns-help", "#left"):
        pair = page.locator(place).locator("visible=true").first.evaluate(style)
        darker, lighter = sorted(map(luminance, pair))
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5
    assert (
        luminance(page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor")) < 0.2
    ) == (scheme == "dark")


def test_nothing_sticks_out_on_a_phone(visit):
    page = visit("analyst", viewport={"width": 360, "height": 740})
    assert sticks_out(page) == 0
    assert page.get_by_role("button", name="Ask", exact=True).bounding_box()["height"] >= 40


def test_the_page_may_load_nothing_from_elsewhere(served):
    import httpx

    policy = httpx.get(served["url"]).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
