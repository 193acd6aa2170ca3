"""``holdfast leak``: what a reused test set still says."""

from __future__ import annotations

import json

import pytest

from holdfast.planning import leak


def test_the_headline_example(holdfast, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    status, out, err = holdfast("leak", "--queries", "500", "--digits", "4", "--rows", "20000")
    assert (status, err) == (0, "")
    found = leak(500, 4, 20_000)
    for width in (found.score, found.best, found.if_fixed, found.rounded.half_width, found.with_guard):
        assert f"±{width:.3g}" in out
    assert "4,605 nats" in out
    assert f"{found.rounded.cells} cells" in out
    assert "however it was chosen" in out


def test_scores_that_say_nothing(holdfast):
    status, out, _ = holdfast("leak", "--queries", "5000", "--digits", "4", "--rows", "2000")
    assert status == 0
    assert "nothing with certainty" in out


def test_json_is_the_same(holdfast):
    arguments = ("leak", "--queries", "50", "--digits", "3", "--rows", "1e4", "--confidence", "0.9", "--json")
    status, out, _ = holdfast(*arguments)
    assert status == 0
    found = leak(50, 3, 10_000, confidence=0.9)
    assert json.loads(out) == {**json.loads(json.dumps(found.to_dict())), "vacuous": found.vacuous}


@pytest.mark.parametrize("columns", ["50", "80"])
def test_the_table_fits_any_terminal(holdfast, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = holdfast("leak", "--queries", "50", "--digits", "3", "--rows", "10000")
    assert max(map(len, out.splitlines())) <= int(columns)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--queries", "10", "--digits", "4"], "--rows"),
        (["--queries", "10", "--digits", "0.5", "--rows", "100"], "The --digits option must be"),
        (["--queries", "0", "--digits", "4", "--rows", "100"], "The --queries option must be"),
        (["--queries", "10", "--digits", "4", "--rows", "nan"], "The --rows option must be"),
    ],
)
def test_bad_input_leaves_with_status_two(holdfast, arguments, words):
    status, out, err = holdfast("leak", *arguments)
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())
