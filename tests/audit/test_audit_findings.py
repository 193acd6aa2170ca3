"""Findings and reports: verdicts follow the limits, and what is written is what is read."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast.audit
from holdfast.audit import Finding, Report, replicability
from holdfast.errors import InvalidArgument


def finding(**changes):
    numbers = {"trials": 100, "estimate": 0.1, "low": 0.05, "high": 0.2, "confidence": 0.99}
    return Finding(
        **{"kind": "coverage", "subject": "a guard", "quantity": "miss rate", **numbers, **changes}
    )


@pytest.mark.parametrize(
    ("claim", "verdict"), [(None, "measured"), (0.04, "refuted"), (0.05, "not refuted"), (0.2, "confirmed")]
)
def test_verdicts(claim, verdict):
    assert finding(claim=claim).verdict == verdict
    assert finding(claim=claim).refuted == (verdict == "refuted")
    assert float(finding(claim=claim)) == 0.05


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.floats(0.5, 0.999))
def test_limits_are_the_exact_binomial_ones(counts, confidence):
    from scipy.stats import beta

    hits, trials = counts
    # Each trial compares two results: those of the first ``hits`` trials differ, all others agree.
    results = iter([0, 1] * hits + [0, 0] * (trials - hits))
    found = replicability(lambda rows: next(results), lambda rng: None, trials, confidence=confidence)
    assert (found.details["different"], found.trials) == counts
    error = (1 - confidence) / 2
    low = beta.ppf(error, hits, trials - hits + 1) if hits else 0.0
    high = beta.ppf(1 - error, hits + 1, trials - hits) if hits < trials else 1.0
    assert found.low == pytest.approx(low, rel=1e-6, abs=1e-12)
    assert found.high == pytest.approx(high, rel=1e-6)


def test_a_report_comes_back_as_it_was_written(tmp_path):
    report = Report(
        (
            finding(claim=0.04, details={"broken": 10}, assumes=("one",)),
            finding(high=math.inf, estimate=math.inf, claim=None),
        ),
        title="Ünder review",
    )
    read = Report.load(report.save(tmp_path / "report.json"))
    assert read.findings[0] == report.findings[0]
    assert read.findings[1].high == math.inf
    assert (read.title, read.version, read.passed) == (report.title, report.version, False)
    said = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert [line["verdict"] for line in said["findings"]] == ["refuted", "measured"]


def test_confidence_of_all_is_a_union_bound():
    assert Report((finding(), finding(), finding(confidence=0.9))).confidence == pytest.approx(0.88)
    assert Report((finding(confidence=0.3),) * 2).confidence == 0


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("path", ""),
        ("path", "[]"),
        ("path", "{}"),
        ("path", '{"format": "another"}'),
        ("findings", '{"format": "holdfast audit report 1"}'),
        ("finding", '{"format": "holdfast audit report 1", "findings": [{"kind": "x"}]}'),
        ("finding", '{"format": "holdfast audit report 1", "findings": [5]}'),
    ],
)
def test_a_file_that_is_not_a_report_is_refused(argument, text, tmp_path):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(InvalidArgument, match=f"'{argument}' argument of Report"):
        Report.load(tmp_path / "report.json")
    with pytest.raises(InvalidArgument, match="No such file"):
        Report.load(tmp_path / "nowhere.json")


@pytest.mark.parametrize("wrong", ["a title", ("not a finding",), None])
def test_a_report_is_made_of_findings(wrong):
    with pytest.raises(InvalidArgument, match="findings"):
        Report(wrong)


def test_public_names():
    expected = {"replicability", "indistinguishability", "coverage", "stability", "prior", "leak", "attacks"}
    assert expected <= set(holdfast.audit.__all__)
