"""Every command that a page shows exists, with every option that the page gives it."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    if path.name != "CHANGELOG.md"
)


# What ends a command in a shell.
_ENDS = ("|", "||", "&&", ">", ";")


def commands(text: str) -> Iterator[str]:
    """The commands that a page shows: in its sentences, and in blocks after a prompt or alone on a line.

    Lines that end with a backslash go on. A name with a number, as in "head 1", is the name of a format.
    """
    block: str | None = None
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            block = line[3:].strip() if block is None else None
        elif block in ("", "console", "text", "sh", "bash", "shell") or (
            block is None and line.startswith("    ")
        ):
            shown = re.match(r"\s*(?:\$ |[A-Z_]+=\S+ )*holdfast ([a-z].*)$", line)
            if shown:
                yield shown[1]
        elif block is None:
            yield from re.findall(r"`holdfast (?![a-z]+ \d`)([a-z][^`]*)`", line)


def unknown(line: str) -> str | None:
    """What of a command line does not exist, or None."""
    words = list(itertools.takewhile(lambda word: word not in _ENDS, shlex.split(line, comments=True)))
    command: click.Command = cli
    while isinstance(command, click.Group):
        if not words or words[0].startswith("-"):
            break
        name = words.pop(0)
        chosen = command.get_command(click.Context(command), name)
        if chosen is None:
            return name
        command = chosen
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        if word == "--":
            break
        if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options | {"--help", "--version"}:
            return word
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page):
    wrong = {line: unknown(line) for line in commands(page.read_text(encoding="utf-8"))}
    assert {line: word for line, word in wrong.items() if word} == {}


def test_many_commands_are_looked_at():
    assert sum(len(list(commands(page.read_text(encoding="utf-8")))) for page in PAGES) > 100


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("ask data.csv -q 'share(x > 1)' --json", None),
        ("aks data.csv", "aks"),
        ("ask data.csv --jsn", "--jsn"),
        ("gate run agent.gate --name v2 -- pytest --junitxml {results}", None),
        ("gate walk agent.gate", "walk"),
    ],
)
def test_a_command_that_does_not_exist_would_be_caught(line, word):
    assert unknown(line) == word
