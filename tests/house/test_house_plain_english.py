"""The pages that people read first are written in short, plain sentences, and their numbers are measured."""

from __future__ import annotations

import ast
import io
import json
import re
import statistics
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST_PAGES = [
    ROOT / "README.md",
    ROOT / "SECURITY.md",
    ROOT / "SKILL.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("index", "start", "how-it-works", "faq", "glossary", "compatibility")
    ),
]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*"))
PAGES = [*FIRST_PAGES, *GUIDES, *NOTEBOOKS, ROOT / "paper" / "paper.md"]
THEORY = sorted((ROOT / "docs" / "theory").glob("*.md"))
OTHERS = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "benchmarks" / "README.md"]
OTHERS += [ROOT / "docs" / f"{name}.md" for name in ("architecture", "formats")]
PACKAGES = sorted(path.parent.name for path in (ROOT / "src" / "holdfast").glob("*/__init__.py"))
PAGE_FILES = sorted((ROOT / "src" / "holdfast" / "server" / "page").glob("*.[hj]*"))
MOST_WORDS = 18
# Proofs have longer sentences. Lower this when the longest page has become plainer; never raise it.
MOST_WORDS_OF_PROOFS = 21
# Turns that need a second reading. Each has a plainer form.
BANNED = {
    r"\bwhosoever\b|\bwhoso\b|\bwherein\b|\bwhereof\b|\bthereof\b|\bheretofore\b": "say who or where",
    r"\bis nobody's to\b": "user input cannot contain it",
    r"(?<![Tt]here )\bis none\b(?! of)": "is rejected",
    r"\bis for (?:him|her|them|who\w*) to\b": "say who does it",
    r"\bomens?\b": "coin flips",
    r"\bfor one\.": "for example",
    r"\bdrain(?:s|ed|ing)?\b the account": "use up the budget",
    r"\ba careful person\b": "say what the person does",
    r"\bought to\b|\bshall\b|\blest\b|\b[Hh]ence\b|\b[Tt]hus\b": "must, so",
    r"\bin order to\b": "to",
    r"\butili[sz]e": "use",
    r"\banew\b": "again",
    r"\b(?:held|holds?) (?:\w+ )?against\b": "compare with",
    r"\bfor granted\b": "assume",
    r"\b(?:is|are|was|were|be) told\b(?! apart)": "gets, sees, learns",
    r"\bput back\b": "restore",
    r"\bfor nothing\b(?! else)": "free, at no cost",
    r"\blast word\b": "report",
    r"\b(?:go|goes|going|gone) on with\b": "continue",
    r"\bat the door\b": "before",
    r"\b[Dd]ear\b": "expensive",
    r"\bfor want of\b": "because there is no",
    r"\bto be had\b": "available",
    r"\b(?:is|are|was|were|be) taken for\b": "counts as, is mistaken for",
    r"(?m)^(?:<{7} .*|={7}|>{7} .*)$": "finish the merge",
}


def prose(page: Path) -> str:
    """What a reader reads: a page, or the text of a notebook and the sentences that its cells show."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    pieces: list[str] = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            pieces.append("".join(cell["source"]))
        for output in cell.get("outputs", ()):
            pieces.append("".join(output.get("data", {}).get("text/markdown", "")))
    return "\n\n".join(pieces)


def sentences(markdown: str) -> list[str]:
    """The sentences of the running text: no code, no tables, no headings."""
    text = re.sub(r"```.*?```", "", markdown, flags=re.S)
    text = re.sub(r"<[^>]+>|!\[[^\]]*\]\([^)]*\)|\{ \.[^}]*\}", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    kept = [
        line
        for line in text.splitlines()
        if not line.startswith(("#", "|", "    ")) or re.match(r"\s+(?:[-*]|\d+\.) ", line)
    ]
    paragraphs = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", "\n" + "\n".join(kept))
    pieces = [piece for paragraph in paragraphs for piece in re.split(r"(?<=[.!?])[*_”\"]*\s+", paragraph)]
    return [" ".join(piece.split()) for piece in pieces if len(re.findall(r"[A-Za-z]{2,}", piece)) >= 2]


def median_words(markdown: str) -> float:
    return statistics.median(len(sentence.split()) for sentence in sentences(markdown))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_half_of_the_sentences_of_a_page_are_short(page):
    assert median_words(prose(page)) <= MOST_WORDS


@pytest.mark.parametrize("page", [*THEORY, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_half_of_the_sentences_of_a_page_with_proofs_are_short(page):
    assert median_words(prose(page)) <= (MOST_WORDS_OF_PROOFS if page in THEORY else MOST_WORDS)


def test_long_sentences_would_be_caught():
    long = "This sentence goes on and on " + "and on and on " * 6 + "before it comes to its end at last."
    assert median_words(f"{long}\n\n- {long}\n") > MOST_WORDS
    assert sentences("# Title\n\nOne short line. Another one!\n\n```python\nx = 1\n```\n| a | b |\n") == [
        "One short line.",
        "Another one!",
    ]


def test_a_notebook_is_read_with_the_sentences_that_its_cells_show():
    text = prose(ROOT / "docs" / "notebooks" / "shake-up.ipynb")
    assert "Why does the leader of a competition so often fall on the last day?" in text
    assert "The leader, team 14, falls to place" in text
    assert "import numpy" not in text


def banned_in(text: str) -> list[str]:
    return [
        f"{match.group()!r}: {plain}" for turn, plain in BANNED.items() for match in re.finditer(turn, text)
    ]


@pytest.mark.parametrize("page", [*PAGES, *THEORY, *OTHERS], ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_has_a_turn_that_needs_a_second_reading(page):
    assert banned_in("\n".join(sentences(prose(page)))) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_docstring_has_a_turn_that_needs_a_second_reading(package):
    wrong = {}
    for path in sorted((ROOT / "src" / "holdfast" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                turns = banned_in(ast.get_docstring(node) or "")
                if turns:
                    wrong[f"{path.name}: {getattr(node, 'name', '')}"] = turns
    assert wrong == {}


def texts_and_comments(source: str) -> list[str]:
    """What a module says besides its docstrings: the texts in its code, and its comments."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return texts + [token.string for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize("package", [".", *PACKAGES])
def test_no_message_and_no_comment_has_a_turn_that_needs_a_second_reading(package):
    folder = ROOT / "src" / "holdfast" / package
    wrong = {}
    for path in sorted(folder.glob("*.py") if package == "." else folder.rglob("*.py")):
        turns = banned_in("\n".join(texts_and_comments(path.read_text(encoding="utf-8"))))
        if turns:
            wrong[path.name] = turns
    assert wrong == {}


def names_docstrings_and_comments(source: str) -> list[str]:
    """What a reader of a test reads besides its code; the names of functions as words."""
    nodes = list(ast.walk(ast.parse(source)))
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    documented = [node for node in nodes if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        *(node.name.replace("_", " ") for node in functions),
        *(ast.get_docstring(node) or "" for node in documented),
        *(token.string for token in tokens if token.type == tokenize.COMMENT),
    ]


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples", "tests"])
def test_no_test_and_no_benchmark_has_a_turn_that_needs_a_second_reading(folder):
    wrong = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        turns = banned_in("\n".join(names_docstrings_and_comments(path.read_text(encoding="utf-8"))))
        if turns:
            wrong[str(path.relative_to(ROOT))] = turns
    assert wrong == {}


def test_names_docstrings_and_comments_are_read():
    source = 'def test_a_size_that_is_none():\n    """It is drawn anew."""\n    x = 1  # free, for nothing\n'
    assert len(banned_in("\n".join(names_docstrings_and_comments(source)))) == 3


@pytest.mark.parametrize("page", PAGE_FILES, ids=lambda page: page.name)
def test_no_text_of_the_page_has_a_turn_that_needs_a_second_reading(page):
    assert banned_in(page.read_text(encoding="utf-8")) == []


def test_messages_and_comments_are_read():
    source = '"""It is for him to see."""\nx = f"a size beyond {y} is none"  # read again for nothing\n'
    assert len(banned_in("\n".join(texts_and_comments(source)))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "the mark is nobody's to write",
        "a size beyond it is none",
        "ids, '10' for one.",
        "it goes on with that order",
        "the others are told nothing",
        "each is read again for nothing",
        "equal rows are taken for draws",
        "the old list\n=======\nthe new list",
    ],
)
def test_banned_turns_would_be_caught(text):
    assert banned_in(text)


def test_every_word_of_the_glossary_is_explained_once():
    words = re.findall(
        r"^\*\*(.+?)\.\*\*", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), flags=re.M
    )
    assert len(words) == len(set(words)) >= 30
    wanted = {
        "Nat",
        "Cell",
        "Surprise",
        "Guess",
        "Budget",
        "Protected rows",
        "Training rows",
        "Promise",
        "Book",
    }
    assert wanted <= set(words)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_table_of_rows_is_what_was_measured(page):
    kept = json.loads((ROOT / "benchmarks" / "results" / "worth_it.json").read_text(encoding="utf-8"))
    measured = {
        (line["rows"], line["questions"]): [
            f"±{line[name]:.3f}" for name in ("guard", "list_fixed_in_advance", "fresh_part_each")
        ]
        for line in kept["half_widths"]
    }
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = re.findall(r"^\| ([\d,]+) \| (\d+) \| (±\S+) \| (±\S+) \| (±\S+) \|$", text, flags=re.M)
    assert {int(rows.replace(",", "")) for rows, *_ in shown} == {300, 5_000, 300_000}
    for rows, questions, *widths in shown:
        assert widths == measured[int(rows.replace(",", "")), int(questions)]
