"""The theory pages speak of functions and tests that exist, and leave no public calculator out."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import holdfast
from holdfast.stability import ARROWS, EFFICIENT, EXPLICIT, SAME

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "theory"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
ROOMS = (
    *("stability", "tails", "intervals", "statistics"),
    *("dependence", "replicable", "reductions", "barriers"),
)
_PLACES = [importlib.import_module(f"holdfast.{room}") for room in ROOMS]

_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_CALLED = re.compile(r"([A-Za-z_]\w*)\(")
_TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
_HEADING = re.compile(r"^(#+) (.*)$", flags=re.M)


def _prose(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def _code(text: str) -> list[str]:
    """Everything in backticks outside code blocks."""
    return re.findall(r"`([^`\n]+)`", _prose(text))


def _member(owner: object, name: str) -> object | None:
    """What ``owner.name`` is; a field of a record counts though its class has no such attribute."""
    found = getattr(owner, name, None)
    if found is None and isinstance(owner, type) and dataclasses.is_dataclass(owner):
        return next((field for field in dataclasses.fields(owner) if field.name == name), None)
    if found is None and isinstance(owner, ModuleType):
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ImportError:
            return None
    return found


def _exists(dotted: str) -> bool:
    """Whether a dotted name leads somewhere, from ``holdfast`` or from a public name of the rooms."""
    first, *rest = dotted.split(".")
    starts = [holdfast] if first == "holdfast" else [_member(place, first) for place in (holdfast, *_PLACES)]
    for here in starts:
        for name in rest:
            here = None if here is None else _member(here, name)
        if here is not None:
            return True
    return False


def _callable_names() -> set[str]:
    """Public names of the rooms and of the package, and the methods of what they name."""
    public = {
        name: getattr(place, name) for place in (holdfast, *_PLACES) for name in getattr(place, "__all__", ())
    }
    methods = {name for item in public.values() if isinstance(item, type) for name in dir(item)}
    return {*public, *methods}


def unknown_names(text: str) -> list[str]:
    """Names in code that look like ours and are not."""
    wrong = []
    for span in _code(text):
        if "/" in span or span.endswith((".md", ".py", ".json")):
            continue
        dotted = _DOTTED.match(span)
        called = _CALLED.match(span)
        missing = bool(dotted) and not _exists(dotted.group())
        stranger = not dotted and bool(called) and called.group(1) not in _callable_names()
        if missing or stranger:
            wrong.append(span)
    return wrong


@cache
def _tests_of(path: str) -> frozenset[str]:
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


def unknown_tests(text: str) -> list[str]:
    """Tests and paths that are named and not there."""
    tests = [f"{path}::{name}" for path, name in _TEST.findall(text) if name not in _tests_of(path)]
    paths = [span for span in _code(text) if re.fullmatch(r"(tests|docs|src|benchmarks)/[\w./-]*", span)]
    paths += [f"src/{span}" for span in _code(text) if re.fullmatch(r"holdfast/[\w./-]*", span)]
    return tests + [path for path in paths if not (ROOT / path).exists()]


def _sections(text: str) -> list[tuple[str, str]]:
    """Each heading with the text up to the next heading of the same or a higher level."""
    found = list(_HEADING.finditer(_prose(text)))
    prose = _prose(text)
    sections = []
    for i, heading in enumerate(found):
        after = (other for other in found[i + 1 :] if len(other.group(1)) <= len(heading.group(1)))
        end = next((other.start() for other in after), len(prose))
        sections.append((heading.group(2), prose[heading.end() : end]))
    return sections


def errata_without_a_test(text: str) -> list[str]:
    """Headings of errata that name no existing test."""
    return [
        title
        for title, body in _sections(text)
        if "erratum" in title.lower()
        and not any(name in _tests_of(path) for path, name in _TEST.findall(body))
    ]


@pytest.mark.parametrize("page", PAGES)
def test_functions_named_on_a_page_exist(page):
    assert unknown_names(PAGES[page]) == []


@pytest.mark.parametrize("page", PAGES)
def test_tests_named_on_a_page_exist(page):
    assert unknown_tests(PAGES[page]) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_erratum_names_the_test_that_shows_it(page):
    assert errata_without_a_test(PAGES[page]) == []


def test_every_test_of_an_erratum_is_on_a_page():
    written = {name for text in PAGES.values() for _, name in _TEST.findall(text)}
    assert _tests_of("tests/stability/test_stability_errata.py") - written == set()


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_on_a_page(room):
    named = {
        word for text in PAGES.values() for span in _code(text) for word in re.findall(r"[A-Za-z_]\w*", span)
    }
    assert set(importlib.import_module(f"holdfast.{room}").__all__) - named == set()


@pytest.mark.parametrize("page", sorted(set(PAGES) - {"README.md"}))
def test_the_index_lists_the_page(page):
    assert f"]({page})" in PAGES["README.md"]


def test_the_graph_that_is_drawn_is_the_graph():
    drawing = re.findall(r"^```mermaid\n(.*?)^```", PAGES["generalization.md"], flags=re.S | re.M)[0]
    drawn = set(re.findall(r"^ +([\w-]+) (-->|-\.->|==>) ([\w-]+)$", drawing, flags=re.M))
    shape = {SAME: "-->", EFFICIENT: "-.->", EXPLICIT: "==>"}
    assert drawn == {(arrow.source, shape[arrow.kind], arrow.target) for arrow in ARROWS}


def test_headings_that_links_point_to_exist():
    missing = []
    for page, text in PAGES.items():
        for target, anchor in re.findall(r"\]\(([\w-]*(?:\.md)?)#([\w-]+)\)", _prose(text)):
            titles = [title for title, _ in _sections(PAGES.get(target or page, ""))]
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            if anchor not in anchors:
                missing.append(f"{page}: {target}#{anchor}")
    assert missing == []


@pytest.mark.parametrize(
    ("check", "wrong", "right"),
    [
        (unknown_names, "`holdfast.stability.composed_delt`", "`holdfast.stability.composed_delta`"),
        (unknown_names, "`DP.composed(3)`", "`DP.compose(3)`"),
        (unknown_names, "`MarkovChain.transitions`", "`MarkovChain.transition`"),
        (unknown_names, "`laplace(0.1)`", "`laplace_delta(0.1, 1.0)`"),
        (unknown_tests, "`tests/house/test_house_theory_pages.py::test_none`", "`tests/house`"),
        (unknown_tests, "`tests/nowhere/`", "`holdfast/tails/`"),
        (errata_without_a_test, "### Erratum: x\n\ntext\n\n## y", "### Note: x\n\ntext\n\n## y"),
        (
            errata_without_a_test,
            "### Erratum: x\n\n## y\n\n`tests/tails/test_tails.py::test_means_of_independent_values`",
            "### Erratum: x\n\n`tests/tails/test_tails.py::test_means_of_independent_values`\n\n## y",
        ),
    ],
)
def test_the_checks_see_what_is_wrong(check, wrong, right):
    assert check(wrong) != []
    assert check(right) == []
