"""``holdfast audit``: a table, a page for a reviewer, and an exit status that says whether a claim fell."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest

from holdfast.audit import Finding, Report

FINE = Finding(
    "coverage",
    "a guard <b>",
    "sessions with a miss",
    1000,
    0.02,
    0.01,
    0.04,
    0.99,
    claim=0.05,
    statement="In 20 of 1,000 sessions & so on.",
    assumes=("The truths are right.",),
    details={"conclusions": {"'yes'": 3}},
)
BROKEN = Finding("indistinguishability", "noise", "ε", 4000, 1.4, 1.2, math.inf, 0.99, claim=1.0)


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def write(*findings):
        Report(findings, title="Mine & <yours>").save("report.json")

    return write


def test_a_report_that_passes(report, holdfast):
    report(FINE)
    status, out, err = holdfast("audit", "report.json")
    assert (status, err) == (0, "")
    assert "confirmed" in out
    assert "None of 1 claims refuted" in out


def test_a_refuted_claim_leaves_with_status_1(report, holdfast):
    report(FINE, BROKEN)
    status, out, _ = holdfast("audit", "report.json")
    assert status == 1
    assert "ε ≥ 1.2" in out
    assert "1 of 2 claims refuted. All limits hold together with confidence 0.98." in out


def test_the_page_says_all_and_escapes_it(report, holdfast, tmp_path):
    report(FINE, BROKEN)
    assert holdfast("audit", "report.json", "--html")[0] == 1
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for said in ("Mine &amp; &lt;yours&gt;", "a guard &lt;b&gt;", "refuted", "confirmed", "≥ 1.2", "4,000"):
        assert said in page
    assert "<b>guard" not in page
    assert "a guard <b>" not in page
    assert "The truths are right." in page
    assert "$" not in page
    assert "http" not in page  # nothing is fetched
    holdfast("audit", "report.json", "--html", "--out", "other.html")
    assert (tmp_path / "other.html").read_text(encoding="utf-8") == page


def test_what_is_left_open_is_neither_good_nor_bad_and_what_fell_is_linked_first(report, holdfast, tmp_path):
    vague = replace(FINE, high=0.2)
    exact = Finding("prior", "prices", "sum of the prior", 2, 1.5, 1.5, math.inf, 1.0, claim=1.0)
    report(FINE, BROKEN, vague, exact)
    holdfast("audit", "report.json", "--html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    states = re.findall(r'<section id="finding-\d" class="(\w+)">', page)
    assert states == ["holds", "misses", "open", "misses"]
    assert page.index('Refuted: <a href="#finding-2">noise</a>; <a href="#finding-4">') < page.index(
        "<table>"
    )
    assert page.count("unless the stated confidence failed") == 1  # a sum is computed, not sampled


def test_json_is_the_report(report, holdfast):
    report(FINE, BROKEN)
    status, out, _ = holdfast("audit", "report.json", "--json", "--html")
    said = json.loads(out)
    assert status == 1
    assert [finding["verdict"] for finding in said["findings"]] == ["confirmed", "refuted"]
    assert said["page"] == "report.html"


@pytest.mark.parametrize(
    "wrong",
    [
        ["nowhere.json"],
        ["bad.json"],
        ["report.json", "--out", "x.html"],
        ["report.json", "--html", "--out", "no/x.html"],
    ],
)
def test_bad_input_leaves_with_status_2(report, holdfast, tmp_path, wrong):
    report(FINE)
    (tmp_path / "bad.json").write_text('{"format": "something else"}')
    assert holdfast("audit", *wrong)[0] == 2


def test_an_empty_report_claims_nothing(report, holdfast):
    report()
    status, out, _ = holdfast("audit", "report.json", "--html")
    assert status == 0
    assert "No claims were made" in out
