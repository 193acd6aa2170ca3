"""No private name crosses the border of a package, packages have few, full modules, and names say what they
hold.

The rules hold for the packages in ``FINISHED``; the list grows.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"
# How many modules each package has at most, subpackages and ``__init__`` included.
FINISHED = {
    "answers": 5,
    "asking": 6,
    "audit": 11,
    "barriers": 10,
    "boards": 4,
    "cli": 14,
    "client": 4,
    "coding": 5,
    "dependence": 18,
    "engines": 14,
    "gates": 4,
    "guard": 12,
    "holdout": 3,
    "intervals": 8,
    "lab": 9,
    "ledger": 9,
    "mechanisms": 5,
    "planning": 9,
    "queries": 9,
    "readings": 8,
    "reductions": 10,
    "registry": 10,
    "replicable": 22,
    "results": 6,
    "scoring": 5,
    "server": 15,
    "stability": 15,
    "statistics": 6,
    "strategies": 8,
    "tails": 2,
}
# Modules beside the packages, to which the same rules apply.
BESIDE = ("admin", "errors", "isolated", "records", "workers")
LONGEST = 700


def room_of(path: Path) -> str:
    """The package, or the module beside the packages, that a file belongs to: ``guard``, ``client``."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def files_of(room: str) -> list[Path]:
    """The files of a package, or the one file of a module beside the packages."""
    return sorted((SOURCE / room).rglob("*.py")) or [SOURCE / f"{room}.py"]


def private(part: str) -> bool:
    return part.startswith("_") and not part.startswith("__")


def imported(tree: ast.AST) -> Iterator[list[str]]:
    """Everything that is imported from Holdfast, as lists such as ["guard", "_code", "CodeStrategy"]."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield [*(node.module or "").split("."), alias.name]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")


def crossings(text: str, room: str) -> set[tuple[str, str]]:
    """(package, name) for each private name of another package or module that a file imports."""
    return {
        (parts[1], ".".join(parts[1:]))
        for parts in imported(ast.parse(text))
        if parts[0] == "holdfast" and len(parts) > 1 and parts[1] != room and any(map(private, parts[1:]))
    }


FILES = sorted(SOURCE.rglob("*.py"))
CROSSINGS = {path: crossings(path.read_text(encoding="utf-8"), room_of(path)) for path in FILES}


@pytest.mark.parametrize("room", sorted((*FINISHED, *BESIDE)))
def test_a_finished_package_imports_public_names_only(room):
    wrong = {path.name: found for path, found in CROSSINGS.items() if room_of(path) == room and found}
    assert wrong == {}


@pytest.mark.parametrize("room", sorted((*FINISHED, *BESIDE)))
def test_nobody_imports_a_private_name_of_a_finished_package(room):
    wrong = {
        str(path.relative_to(SOURCE)): sorted(name for owner, name in found if owner == room)
        for path, found in CROSSINGS.items()
        if any(owner == room for owner, _ in found)
    }
    assert wrong == {}


def test_a_crossing_would_be_caught():
    text = (
        "import holdfast.guard._code\n"
        "from holdfast._replies import answer_of\n"
        "from holdfast.stability import DP, _arrows\n"
        "from holdfast.dependence._chain import MarkovChain\n"
        "from holdfast.planning import plan\n"
        "def late():\n    from holdfast.tails._tail import Tail\n"
    )
    assert crossings(text, "planning") == {
        ("guard", "guard._code"),
        ("_replies", "_replies.answer_of"),
        ("stability", "stability._arrows"),
        ("dependence", "dependence._chain.MarkovChain"),
        ("tails", "tails._tail.Tail"),
    }
    assert ("guard", "guard._code") not in crossings(text, "guard")
    assert room_of(SOURCE / "client.py") == "client"


@pytest.mark.parametrize("room", sorted(FINISHED))
def test_a_package_has_few_modules_and_none_is_too_long(room):
    modules = files_of(room)
    assert len(modules) <= FINISHED[room]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


# Names that say nothing about what they hold.
EMPTY_NAMES = {"found", "known", "one", "said", "told"}
# Public arguments and fields, also of replies, the state of a prior as books keep it, and a field that the
# demo prints.
ALLOWED = {
    ("_adaptive.py", "known"),
    ("_answer.py", "known"),
    ("_discover.py", "found"),
    ("_account.py", "found"),
    ("_replies.py", "found"),
    ("_replies.py", "known"),
    ("_story.py", "told"),
}


def empty_names(text: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names & EMPTY_NAMES


@pytest.mark.parametrize("room", sorted((*FINISHED, *BESIDE)))
def test_names_say_what_they_hold(room):
    used = {
        (path.name, name) for path in files_of(room) for name in empty_names(path.read_text(encoding="utf-8"))
    }
    assert used <= ALLOWED
    assert empty_names("found = 1\ndef f(told, row):\n    return [one for one in told]") == {
        "found",
        "told",
        "one",
    }


# Public classes that share a name with another idea. The list only shrinks.
STILL_SHARED = {
    "Asked",
    "Gates",
    "Neighbours",
    "Report",
    "Rows",
    "Rule",
    "Submission",
}
# It describes the form in which records travel, by the names that the records have.
WIRE_FORMS = SOURCE / "server" / "_replies.py"


def shared_class_names(texts: dict[Path, str]) -> set[str]:
    """Names that public classes of several modules have."""
    owners: dict[str, set[Path]] = {}
    for path, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, set()).add(path)
    return {name for name, paths in owners.items() if len(paths) > 1}


def test_a_class_name_has_one_meaning():
    texts = {path: path.read_text(encoding="utf-8") for path in FILES if path != WIRE_FORMS}
    assert shared_class_names(texts) <= STILL_SHARED


def test_a_shared_class_name_would_be_caught():
    texts = {
        Path("a.py"): "class Step: ...\nclass _Plan: ...",
        Path("b.py"): "class Step: ...\nclass _Plan: ...",
    }
    assert shared_class_names(texts) == {"Step"}


# A number such as "theory 2.2" points nowhere for a reader of the repository.
NUMBERED = r"(?i)\btheory \d"


@pytest.mark.parametrize("room", sorted((*FINISHED, *BESIDE)))
def test_references_name_a_page_that_is_there(room):
    for path in files_of(room):
        text = path.read_text(encoding="utf-8")
        assert re.findall(NUMBERED, text) == [], path
        for page, heading in re.findall(r"(docs/theory/[\w-]+\.md)(?:``)?(?:, \"([^\"]+)\")?", text):
            document = (SOURCE.parents[1] / page).read_text(encoding="utf-8")
            wanted = " ".join(heading.split())
            assert not wanted or wanted in document, (path, page, wanted)


def test_no_page_and_no_test_refers_to_theory_by_a_number():
    root = SOURCE.parents[1]
    paths = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    paths += [path for folder in ("benchmarks", "docs", "tests") for path in (root / folder).rglob("*.py")]
    wrong = [path for path in paths if re.search(NUMBERED, path.read_text(encoding="utf-8"))]
    assert wrong == [Path(__file__).resolve()]  # It quotes one.
