"""The paper cites what its bibliography has, and its numbers are those of the benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
BIBLIOGRAPHY = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
SECTIONS = (
    "Summary",
    "Statement of need",
    "State of the field",
    "Method",
    "What is measured",
    "Limits",
    "References",
)


def section(name: str) -> str:
    return PAPER.split(f"\n# {name}\n", 1)[1].split("\n# ", 1)[0]


def test_the_paper_has_the_sections_of_a_joss_paper():
    assert [PAPER.index(f"\n# {name}\n") for name in SECTIONS] == sorted(
        PAPER.index(f"\n# {name}\n") for name in SECTIONS
    )
    head = PAPER.split("---\n")[1]
    assert all(
        f"\n{field}:" in f"\n{head}"
        for field in ("title", "tags", "authors", "affiliations", "date", "bibliography")
    )
    assert 750 <= len(PAPER.split()) <= 1_750


def test_citations_and_bibliography_agree():
    cited = set(re.findall(r"@([a-z]+\d{4}[a-z]*)", PAPER))
    listed = re.findall(r"^@\w+\{(\w+),", BIBLIOGRAPHY, flags=re.M)
    assert cited == set(listed)
    assert len(listed) == len(set(listed)) >= 10


def test_the_table_of_widths_is_what_was_measured():
    kept = json.loads((ROOT / "benchmarks" / "results" / "worth_it.json").read_text(encoding="utf-8"))
    measured = {
        (line["rows"], line["questions"]): [
            f"±{line[name]:.3f}" for name in ("guard", "list_fixed_in_advance", "fresh_part_each")
        ]
        for line in kept["half_widths"]
    }
    shown = re.findall(r"^\| ([\d,]+) \| (\d+) \| (±\S+) \| (±\S+) \| (±\S+) \|$", PAPER, flags=re.M)
    assert len(shown) >= 4
    for rows, questions, *widths in shown:
        assert widths == measured[int(rows.replace(",", "")), int(questions)]


def test_the_rows_of_the_published_theorem_are_those_that_a_test_computes():
    assert "a thousand questions at an error of 0.1, one of them a surprise, need 1.73 million rows" in PAPER
    peers = (ROOT / "tests" / "benchmarks" / "test_benchmarks_peers.py").read_text(encoding="utf-8")
    assert "thresholdout_rows(1000, 1, 0.1, BETA) == pytest.approx(1.73e6" in peers


def test_sentences_about_peers_are_those_of_the_benchmarks():
    page = (ROOT / "docs" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for ours, theirs in (
        ("At 72 of 72 the best method", "At 72 of 72 places our best error is at most the best peer's."),
        ("Under 8 attacks in 92,401 runs", "8 attacks, 92,401 runs"),
        ("Naive reuse fails in 65 of 104 cases.", "Naive reuse fails in 65 of 104 cases."),
        (
            "With 10,000 rows and 100,000 questions it is off by 0.50 where 0.028 was claimed.",
            "With 10,000 rows and 100,000 questions it is off by 0.50 where 0.028 was claimed",
        ),
    ):
        assert ours in section("What is measured")
        assert theirs in page
    ratios = [float(ratio) for ratio in re.findall(r"\((\d\.\d\d)\)<br>", page)]
    assert f"between {min(ratios):.2f} and {max(ratios):.2f}" in PAPER


def test_sentences_about_the_gate_are_those_of_its_benchmark():
    noise = json.loads((ROOT / "benchmarks" / "results" / "gate_power.json").read_text(encoding="utf-8"))[
        "noise"
    ]
    wrong = {rule: f"{result['runs with a wrong promotion']:,}" for rule, result in noise["rules"].items()}
    text = section("What is measured")
    assert f"{noise['candidates']} a run on {noise['tasks']} tasks" in text
    assert f"In {noise['runs']:,} runs the gate promoted a worse candidate in {wrong['Gate']} runs" in text
    assert f"a McNemar test in {wrong['McNemar']} and the Ladder in {wrong['Ladder']}" in text
    assert f"Bonferroni did so in {wrong['Bonferroni']}," in text
