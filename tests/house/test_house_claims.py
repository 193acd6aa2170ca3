"""Every claim of the README has what shows it, and says the number that was measured."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "make_claims.py"))
CLAIMS = MADE["claims"]()
OF_README = [claim for claim in CLAIMS if claim["section"] == "The README"]

# A sentence that has one of these, or a figure, promises something.
_PROMISES = re.compile(
    r"\d|\b(all|any|always|believe|cannot|certified|costs?|exact|exactly|every|never|no|nothing|offline|"
    r"probability|promise|sharp|valid|wider)\b"
)


def _plain(text: str) -> str:
    """Without links' targets and line ends."""
    return re.sub(r"\s+", " ", re.sub(r"\]\([^)]*\)", "]", text)).strip()


def _prose() -> str:
    """The README without headings, code, pictures and the list of further reading."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("## Where to go next")[0]
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return "\n".join(
        line
        for line in text.splitlines()
        if not line.startswith(("#", "    ", "![", "|---", "| for |", "| rows |"))
    )


def sentences(text: str) -> list[str]:
    """Sentences, and lines of tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rest = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    said = [part for block in rest.split("\n\n") for part in re.split(r"(?<=[.:;])\s+(?=[A-Za-z*`])", block)]
    return [_plain(part) for part in [*lines, *said] if part.strip()]


def unshown(text: str, quotes: list[str]) -> list[str]:
    """Sentences that promise something and that no quote covers; a quote may reach over several."""
    return [
        sentence
        for sentence in sentences(text)
        if _PROMISES.search(sentence) and not any(q in sentence or sentence in q for q in quotes)
    ]


def test_every_promise_of_the_readme_has_what_shows_it():
    assert unshown(_prose(), [_plain(MADE["filled"](claim, "says")) for claim in OF_README]) == []


def test_a_promise_that_nothing_shows_is_seen():
    quotes = [_plain(MADE["filled"](claim, "says")) for claim in OF_README]
    added = "It never fails.\n\n| 10⁷, 10 | .001 | .002 |\n\nIt is a library."
    assert len(unshown(added, quotes)) == 2


@pytest.mark.parametrize("claim", OF_README, ids=lambda claim: claim["says"][:40])
def test_a_claim_of_the_readme_is_quoted_from_it_and_reached(claim):
    readme = _plain((ROOT / "README.md").read_text(encoding="utf-8"))
    assert _plain(MADE["filled"](claim, "says")) in readme
    assert MADE["reached"](claim)


def test_what_shows_a_claim_exists():
    for claim in CLAIMS:
        assert claim.get("tests") or claim.get("values"), claim["says"]
        assert claim["number"]
        sources = ""
        for test in claim.get("tests", []):
            path, name = test.split("::")
            assert name in MADE["tests_of"](path)
            sources += (ROOT / path).read_text(encoding="utf-8").replace("_", "").replace(",", "")
        for value in MADE["values"](claim):
            assert isinstance(value, (int, float))
        script = re.match(r"python (\S+)", claim.get("command", ""))
        assert script is None or (ROOT / script.group(1)).is_file()
        if not claim.get("values"):
            figures = re.findall(r"\d[\d,.]*\d|\d", claim["number"])
            assert [figure for figure in figures if figure.replace(",", "") not in sources] == []


def test_the_page_is_made_of_the_claims_and_the_kept_numbers():
    written = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    assert written == MADE["text"](), "run `python docs/make_claims.py`"


def test_another_number_is_seen(monkeypatch):
    claim = next(claim for claim in OF_README if claim["says"].startswith("| 5,000 | 10 |"))
    space = MADE["filled"].__globals__
    monkeypatch.setitem(space, "value_of", lambda place: 0.5)
    readme = _plain((ROOT / "README.md").read_text(encoding="utf-8"))
    assert _plain(MADE["filled"](claim, "says")) not in readme
