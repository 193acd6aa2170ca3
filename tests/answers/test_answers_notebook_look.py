"""How results look in a notebook, light, dark and on a phone, in a real Chromium; pictures are kept as
``pictures_folder`` says."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from browser import PHONE, browsing, pictures_folder, serious_faults, sticks_out
from holdfast import Guard, plan

ROWS = 3_000
# What JupyterLab does to tables, in short: cells to the right, stripes, no border.
PAGE = """<!doctype html><html lang="en"><head><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="{scheme}"><title>Notebook</title><style>
body {{ color-scheme: {scheme}; margin: 16px; font: 14px/1.5 system-ui, sans-serif; }}
body {{ color: {ink}; background: {paper}; }}
.out table {{ border: none; border-collapse: collapse; font-size: 12px; table-layout: fixed; }}
.out td, .out th {{ text-align: right; padding: .5em; border: none; max-width: none; }}
.out tr:nth-child(odd) {{ background: rgba(130, 130, 130, .08); }}
.out {{ margin: 0 0 20px; overflow: auto; }} .out img {{ max-width: 100%; }}
h2 {{ font: 12px monospace; opacity: .8; margin: 0 0 4px; }}
</style></head><body><main><h1>Notebook</h1>{cells}</main></body></html>"""
COLOURS = {"light": ("#212121", "#ffffff"), "dark": ("#e0e0e0", "#111111")}


@pytest.fixture(scope="module")
def results():
    """What each line of a notebook would show."""
    source = np.random.default_rng(3)
    table = {
        "age": source.integers(18, 90, ROWS),
        "income": source.normal(40_000, 9_000, ROWS),
        "city": source.choice(["Oslo", "Bergen", "Bodø"], ROWS),
    }
    guard = Guard(table, error=0.2)
    answer = guard.share("age > 40")
    guard.share("income > 50000 and age < 70 and city in ('Oslo', 'Bergen')", guess=0.9)
    wide = Guard(table, expect=20)
    wide.mean("income", bounds=(0, 100_000))
    return {
        "guard": guard,
        "guard.left": guard.left,
        "answer": answer,
        "guard.history": guard.history,
        "guard.cost_preview(...)": guard.cost_preview("share(age > 60)"),
        "guard.cost_preview(refused)": guard.cost_preview("mean(income, 0, 100000)"),
        "wide.share(..., by='city')": wide.share("age > 50", by="city"),
        "wide": wide,
        "plan(...)": plan(queries=1000, confidence=0.95, rows=50_000, surprises=10),
        "answer.certificate": answer.certificate,
        "guard.plot()": guard.plot(),
    }


def cell(code, result):
    # matplotlib's figures have the name, and show nothing by it outside of their own windows.
    shown = result._repr_html_()
    if shown is None:
        data = base64.b64encode(result._repr_png_()).decode()
        shown = f'<img alt="The answers with their intervals" src="data:image/png;base64,{data}">'
    return f'<h2>{code}</h2><div class="out" tabindex="0" role="group" aria-label="{code}">{shown}</div>'


def test_results_can_be_read_in_every_notebook(results, tmp_path):
    folder = pictures_folder(tmp_path)
    cells = "".join(cell(code, result) for code, result in results.items())
    with browsing() as browser:
        for scheme, (ink, paper) in COLOURS.items():
            for size, viewport in (("wide", {"width": 1000, "height": 800}), ("phone", PHONE)):
                page = browser.new_page(viewport=viewport, color_scheme=scheme)
                page.set_content(PAGE.format(scheme=scheme, ink=ink, paper=paper, cells=cells))
                page.screenshot(path=folder / f"notebook-{size}-{scheme}.png", full_page=True)
                assert serious_faults(page) == []
                assert sticks_out(page) == 0
                aligned = page.locator(".holdfast td").first.evaluate("td => getComputedStyle(td).textAlign")
                assert aligned == "left"
                page.close()


def test_a_refused_question_is_seen_to_be_refused(results):
    assert "Would be refused, and nothing charged." in results["guard.cost_preview(refused)"]._repr_html_()


def test_what_is_left_has_a_bar_where_there_is_an_end(results):
    assert "<meter" in results["guard.left"]._repr_html_()
    assert "<meter" not in results["wide"].left._repr_html_()
