"""Writes docs/claims.md from docs/claims.toml: each claim with what shows it, its number and how to rerun it.

Numbers are read from the kept results, so a claim cannot say anything else than what was measured.

python docs/make_claims.py [--check]
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE, TARGET = (Path(__file__).with_name(f"claims.{kind}") for kind in ("toml", "md"))
HEAD = """# Claims

Every claim of the [README](../README.md), and every line about how the parts must perform, with the test or
the benchmark that shows it, its number, and the command that reruns it. Made by `python docs/make_claims.py`
from [claims.toml](claims.toml); numbers are read from the kept results, and
`tests/house/test_house_claims.py` fails when a claim of the README is missing here, when a test or a
result that is named does not exist, or when a number differs. What is asked for and not reached is marked.
"""


@cache
def _kept(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def value_of(place: str) -> Any:
    """What stands at ``file.json#key/key``: in a list a key picks by ``name=value,name=value``, and a list
    that is left counts its items."""
    path, _, keys = place.partition("#")
    here = _kept(path)
    for key in keys.split("/"):
        here = _picked(here, key, place) if isinstance(here, list) else here[key]
    return len(here) if isinstance(here, list) else here


def _picked(items: list[Any], key: str, place: str) -> Any:
    wanted = dict(pair.split("=") for pair in key.split(","))
    matching = [item for item in items if all(str(item[name]) == value for name, value in wanted.items())]
    if len(matching) != 1:
        raise LookupError(f"{len(matching)} items of {place} are {key}")
    return matching[0]


def shown(value: Any, how: str) -> str:
    """A number in a format; ``short`` leaves the zero before the point out."""
    text = format(value, how.removeprefix("short ")) if how else str(value)
    return text.removeprefix("0") if how.startswith("short ") else text


def values(claim: dict[str, Any]) -> list[Any]:
    """The numbers of a claim, as they are kept."""
    return [value_of(place.partition(" | ")[0]) for place in claim.get("values", [])]


def filled(claim: dict[str, Any], key: str) -> str:
    """A text of the claim with its numbers put in."""
    hows = [place.partition(" | ")[2] for place in claim.get("values", [])]
    numbers = [shown(value, how) for value, how in zip(values(claim), hows, strict=True)]
    return str(claim.get(key, "")).format(*numbers)


def reached(claim: dict[str, Any]) -> bool:
    """Whether every number is within what was asked for."""
    low, high = claim.get("at_least"), claim.get("at_most")
    return all((low is None or low <= value) and (high is None or value <= high) for value in values(claim))


@cache
def tests_of(path: str) -> dict[str, bool]:
    """The tests of a file, and whether each is slow in all its cases."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        item.name: any(ast.unparse(mark) == "pytest.mark.slow" for mark in item.decorator_list)
        for item in ast.walk(tree)
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name.startswith("test_")
    }


def command(claim: dict[str, Any]) -> str:
    """How to see it again."""
    stated = claim.get("command")
    if stated:
        return f"`{stated}`"
    tests = claim["tests"]
    slow = all(tests_of(path)[name] for path, name in (test.split("::") for test in tests))
    chosen = " ".join(dict.fromkeys(test.split("::")[0] for test in tests))
    names = " or ".join(test.split("::")[1] for test in tests)
    return f"`pytest {'-m slow ' if slow else ''}{chosen} -k '{names}'`"


def _row(claim: dict[str, Any]) -> str:
    tests = [f"[{name}](../{path})" for path, name in (test.split("::") for test in claim.get("tests", []))]
    results = dict.fromkeys(place.split("#")[0] for place in claim.get("values", []))
    shows = [*tests, *(f"[{path.rsplit('/', 1)[1]}](../{path})" for path in results)]
    number = filled(claim, "number") + ("" if reached(claim) else " **(not reached)**")
    # A sentence of the README links from the root of the repository.
    sentence = re.sub(r"\]\((?!https?:|#|\.\./)", "](../", filled(claim, "says"))
    cells = (sentence, "<br>".join(shows), number, command(claim))
    return "| " + " | ".join(re.sub(r"\s+", " ", cell).replace("|", "\\|").strip() for cell in cells) + " |"


def claims() -> list[dict[str, Any]]:
    """Every claim, with the title of its section."""
    sections = tomllib.loads(SOURCE.read_text(encoding="utf-8"))["section"]
    return [{**claim, "section": section["title"]} for section in sections for claim in section["claim"]]


def text() -> str:
    """The page."""
    parts = [HEAD]
    for title in dict.fromkeys(claim["section"] for claim in claims()):
        rows = [_row(claim) for claim in claims() if claim["section"] == title]
        parts += [
            f"## {title}\n",
            "| claim | shown by | number | again |\n|---|---|---|---|\n" + "\n".join(rows) + "\n",
        ]
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if TARGET.read_text(encoding="utf-8") == text() else "run `python docs/make_claims.py`")
    TARGET.write_text(text(), encoding="utf-8")
