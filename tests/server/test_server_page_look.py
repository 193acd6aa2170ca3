"""What people see of a service with something of everything: pictures, axe-core, columns, a phone.

The pictures are kept as ``browser.pictures_folder`` says."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect
from server_page_site import LONG_COLUMN, LONG_NAME, furnish
from server_process import serving

from browser import PHONE, pictures_folder, serious_faults, sticks_out, visiting

WIDE = {"width": 1200, "height": 900}
PLACES = (
    "dataset/people",
    f"dataset/{LONG_NAME}",
    "dataset/orders",
    "dataset/survey",
    "board/race",
    "gate/agent",
)
ON_A_PHONE = ("dataset/people", "board/race", "gate/agent")
READY = {"dataset": "#statement", "board": "#board-submissions", "gate": "#gate-verdicts"}


@pytest.fixture(scope="module")
def visit(tmp_path_factory):
    """Opens the page as somebody, at a place, and waits until it is shown whole."""
    home = tmp_path_factory.mktemp("home")
    tokens = furnish(home)
    with serving(home) as started, visiting(started["url"], tokens) as visitor:

        def visit(name, place, **options):
            page = visitor(name, place, **options)
            wait_for(page, place)
            return page

        yield visit


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return pictures_folder(tmp_path_factory.mktemp("pictures"))


def wait_for(page, place):
    kind, _, name = place.partition("/")
    expect(page.locator(f"#{kind}-name")).to_have_text(name)
    expect(page.locator(READY[kind])).not_to_be_empty()


def go(page, place):
    """Turn to another place without signing in again."""
    page.evaluate("place => { location.hash = place }", place)
    wait_for(page, place)


def looked_at(page, pictures, name, *, check):
    """Keep pictures of what is shown now, in the light and in the dark. With ``check`` axe-core looks at it
    as well: at everything in the light, and at colours again in the dark."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.screenshot(path=pictures / f"page-{name}-{scheme}.png", full_page=True)
        if check:
            assert serious_faults(page, only=None if scheme == "light" else "color-contrast") == [], name
    page.emulate_media(color_scheme="light")
    assert sticks_out(page) == 0, name


@pytest.mark.parametrize("size", ["wide", "phone"])
def test_every_place_is_accessible_fits_and_has_its_picture(visit, pictures, size):
    wide = size == "wide"
    page = visit("olga", PLACES[0], viewport=WIDE if wide else PHONE)
    for place in PLACES:
        go(page, place)
        looked_at(page, pictures, f"{place.partition('/')[2][:12]}-{size}", check=wide or place in ON_A_PHONE)
    go(page, PLACES[0])
    question = page.get_by_label("Question", exact=True)
    question.fill("share(city = 5)")
    expect(page.locator("#preview.refused")).to_be_visible()
    looked_at(page, pictures, f"would-be-refused-{size}", check=wide)
    question.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("number where text is needed")
    looked_at(page, pictures, f"refused-{size}", check=wide)
    if not wide:
        page.get_by_role("button", name="Dataset people").click()
        looked_at(page, pictures, f"menu-{size}", check=True)
    page.get_by_role("navigation", name="Datasets, boards").get_by_role("button", name="gone").click()
    expect(page.locator("#notice")).to_contain_text("gone")
    looked_at(page, pictures, f"broken-{size}", check=wide)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Your token")).to_be_focused()
    looked_at(page, pictures, f"sign-in-{size}", check=wide)


def test_a_page_with_a_fault_is_noticed(visit):
    page = visit("olga", PLACES[0])
    page.evaluate("document.getElementById('find-column').removeAttribute('placeholder')")
    page.evaluate("document.querySelector('label[for=find-column]').remove()")
    assert [problem for problem, _ in serious_faults(page)] == ["label"]


def test_columns_are_searched_and_put_into_the_question(visit):
    page = visit("ann", "dataset/people", viewport=WIDE)
    names = page.locator("#columns-table tbody tr td:first-child")
    expect(names).to_have_count(9)
    assert "column0" not in names.all_inner_texts()
    expect(page.locator("#columns-table svg rect").first).to_be_attached()
    find = page.get_by_label("Find columns by name, type or value")
    for words, count in (("minutes", 1), ("NUMBER", 5), ("trondheim", 1), ("nothing like this", 0)):
        find.fill(words)
        expect(page.locator("#columns-count")).to_have_text(f"{count} of 9 columns")
        expect(names).to_have_count(count)
    find.fill("")
    row = page.locator("#columns-table tbody tr")
    expect(row.filter(has_text="income")).to_contain_text("8.3 % missing")
    expect(row.last).to_contain_text("always 7")
    page.get_by_label("Show the column of row numbers").press("Space")
    expect(names).to_have_count(10)
    question = page.get_by_label("Question", exact=True)
    question.fill("share( > 3)")
    question.evaluate("field => field.setSelectionRange(6, 6)")
    page.get_by_role("button", name=f"Put {LONG_COLUMN} into the question").press("Enter")
    expect(question).to_have_value(f"share({LONG_COLUMN} > 3)")
    expect(question).to_be_focused()
    expect(page.locator("#preview")).to_contain_text("If the rows agree")


def test_an_auditor_sees_names_and_types_only(visit):
    page = visit("ada", "dataset/people")
    row = page.locator("#columns-table tbody tr").filter(has_text="income")
    expect(row.locator("td").nth(1)).to_have_text("number")
    expect(row.locator("td").nth(2)).to_have_text("–")
    expect(page.locator("#columns-help")).to_contain_text("no training rows that this token may look at")


def test_everything_can_be_reached_in_order_with_the_keyboard_alone(visit):
    page = visit("ann", "dataset/people", viewport=WIDE)
    page.locator(".skip").focus()
    reached = []
    for _ in range(40):
        reached.append(
            page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        )
        page.keyboard.press("Tab")
    order = [
        reached.index(name)
        for name in ("sign-out", "find-place", "question", "ask-button", "find-column", "age")
    ]
    assert order == sorted(order)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.get_by_role("navigation", name="Datasets, boards").get_by_role(
        "button", name="race", exact=False
    ).last.press("Enter")
    expect(page.get_by_role("heading", name="race", exact=True)).to_be_focused()
    page.get_by_label("Find by name").fill("agent")
    expect(page.locator("button.place:visible")).to_have_count(1)
