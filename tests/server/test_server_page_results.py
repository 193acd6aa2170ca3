"""Distributions and tables on the page, in a real Chromium: the numbers are those of a client."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import expect
from server_process import serving

from browser import PHONE, sticks_out, visiting
from holdfast.client import Client
from holdfast.records import interval_words
from holdfast.server import Policy, Service

ROWS = 6_000


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of a service with one dataset, a token, and a function that visits the page."""
    home = tmp_path_factory.mktemp("home")
    rng = np.random.default_rng(0)  # Always the same people: what is tested here is the page.
    (home / "data").mkdir()
    people = {
        "age": rng.integers(18, 90, ROWS),
        "income": rng.lognormal(10, 0.6, ROWS),
        "city": rng.choice(["Aa", "Bb", "<i>Cc</i>"], ROWS),
        "same": 7,
    }
    pd.DataFrame(people).to_csv(home / "data" / "people.csv", index=False)
    service = Service(home)
    service.datasets.register("people", "people.csv", Policy(expect=100))
    token = service.tokens.issue("ann", role="analyst", dataset="people")[0]
    service.close()
    with serving(home) as started, visiting(started["url"], {"ann": token}) as visitor:

        def visit(**options):
            page = visitor("ann", **options)
            expect(page.locator("#dataset-name")).to_have_text("people")
            expect(page.locator("#statement")).not_to_be_empty()
            return page

        with Client(started["url"], token) as client:
            yield client, visit


def ask(page, question):
    expect(
        page.get_by_role("button", name="Ask", exact=True)
    ).to_be_enabled()  # The question before is done with.
    page.get_by_label("Question", exact=True).fill(question)
    page.keyboard.press("Enter")
    return page.get_by_role("region", name="Result")


def cells(table):
    return [row.locator("td").all_inner_texts() for row in table.locator("tbody tr").all()]


def shown(value):
    """A number without an interval, as the page shows it: four digits."""
    return float(f"{value:.4g}")


def corners(path):
    """The points at which a path of horizontal and vertical lines turns, as their heights."""
    return [float(height) for height in re.findall(r"V([\d.]+)", path.get_attribute("d"))]


def test_a_distribution_is_a_curve_with_its_band_and_the_numbers_of_a_client(site):
    client, visit = site
    page = visit()
    result = ask(page, "cdf(income)")
    picture = result.get_by_role("img", name="Curve of cdf(income) from")
    expect(picture).to_be_visible()
    curve = client.cdf("income")
    expect(page.locator("#answer")).to_contain_text(f"{len(curve.points)} points")
    result.get_by_text(f"All {len(curve.points)} points").press("Enter")
    rows = cells(result.get_by_role("table", name="All points of cdf(income)"))
    assert [[float(row[0]), *row[1:]] for row in rows] == [
        [shown(point), *interval_words(*numbers)]
        for point, *numbers in zip(curve.points, curve.value, curve.low, curve.high, strict=True)
    ]
    short = cells(result.get_by_role("table", name="Points of cdf(income)", exact=True))
    assert len(short) == 7
    assert all(row in rows for row in short)
    # The line rises from left to right, and ends at the height of the last share between 1 (12) and 0 (212).
    heights = corners(picture.locator(".curve"))
    assert heights == sorted(heights, reverse=True)
    assert heights == pytest.approx([12 + 200 * (1 - share) for share in curve.value[1:]])
    low, high = (corners(picture.locator(".band"))[part] for part in (slice(0, 63), slice(63, None)))
    assert low == pytest.approx([12 + 200 * (1 - share) for share in curve.low[1:]])
    assert high == pytest.approx([12 + 200 * (1 - share) for share in reversed(curve.high)])
    listed = page.locator("#answers tbody tr").filter(has_text="cdf(income)")
    expect(listed).to_contain_text(f"±{curve.answer.half_width:.3g}")
    expect(listed).to_contain_text("a curve")


def test_a_price_is_shown_before_a_distribution_is_asked(site):
    client, visit = site
    page = visit()
    spent = client.spent
    page.get_by_label("Question", exact=True).fill("cdf(age, where = city = 'Aa')")
    preview = client.cost_preview("cdf(age, where = city = 'Aa')")
    expect(page.locator("#preview")).to_contain_text(
        f"A curve within ±{preview.half_width:.3g} at every point"
    )
    page.get_by_label("Question", exact=True).fill("histogram(age, 5)")
    expect(page.locator("#preview")).to_contain_text("A histogram is computed from cdf(…)")
    page.get_by_label("Question", exact=True).fill("share(age > 40, by = city)")
    expect(page.locator("#preview")).to_contain_text("one question for each value")
    assert client.spent == spent


@pytest.mark.parametrize("bins", ["5", "0, 30, 40, 100", "200"])
def test_a_histogram_is_bars_with_intervals_and_the_numbers_of_a_client(site, bins):
    client, visit = site
    page = visit()
    question = f"histogram(age, {bins})"
    result = ask(page, question)
    picture = result.get_by_role("img", name=question)
    expect(picture).to_be_visible()
    table = client.table(question)
    assert cells(result.get_by_role("table")) == [
        [row.group[0], *interval_words(row.answer.value, row.answer.low, row.answer.high)]
        for row in table.rows
    ]
    bars = [float(bar.get_attribute("height")) for bar in picture.locator(".bar").all()]
    scale = 200 / max(answer.high for answer in table.answers)
    assert bars == pytest.approx([scale * answer.value for answer in table.answers])


def test_a_question_by_groups_is_a_table(site):
    client, visit = site
    page = visit()
    result = ask(page, "share(age > 40, by = city)")
    shown_rows = result.get_by_role("table", name="Table of share(age > 40, by = city)")
    expect(shown_rows).to_be_visible()
    table = client.table("share(age > 40, by = city)")
    listed = cells(shown_rows)
    assert [row[0] for row in listed] == [row.group[0] for row in table.rows]
    assert "<i>Cc</i>" in [row[0] for row in listed]  # Text, never markup.
    for cell, row in zip(listed, table.rows, strict=True):
        if row.answer is None:
            assert cell[1:] == ["–", row.note]
        else:
            assert cell[1:] == list(interval_words(row.answer.value, row.answer.low, row.answer.high))


@pytest.mark.parametrize(
    ("question", "words"),
    [("cdf(height)", "height"), ("histogram(age, 0)", "bins"), ("cdf(city)", "city"), ("cdf(age", "cdf")],
)
def test_a_refused_question_looks_refused_and_shows_no_picture(site, question, words):
    client, visit = site
    page = visit()
    result = ask(page, "cdf(income)")
    expect(result.get_by_role("img")).to_be_visible()
    spent = client.spent
    ask(page, question)
    expect(page.get_by_role("alert")).to_contain_text(words)
    expect(result).to_be_hidden()
    assert client.spent == spent


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_fit_a_phone(site, scheme):
    _, visit = site
    page = visit(viewport=PHONE, color_scheme=scheme)
    for question in ("cdf(income)", "cdf(same)", "histogram(income, 40)", "share(age > 40, by = city)"):
        result = ask(page, question)
        expect(result.get_by_role("heading", name=question)).to_be_visible()
        assert sticks_out(page) == 0
        # No number of a picture is cut off at its right or left edge.
        for box in (text.bounding_box() for text in result.locator("svg text").all()):
            edges = result.locator("svg").bounding_box()
            assert box["x"] >= edges["x"]
            assert box["x"] + box["width"] <= edges["x"] + edges["width"] + 1
    ask(page, "cdf(income)")
    picture = result.get_by_role("img", name="Curve of cdf(income)")
    expect(picture).to_be_visible()
    narrow = picture.get_attribute("viewBox")
    page.set_viewport_size({"width": 900, "height": 740})
    expect(picture).not_to_have_attribute("viewBox", narrow)
