"""The command line: what it prints, its exit status and the files that it leaves."""

from __future__ import annotations

import io
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from observe import Look, assert_same, observe
from pairs import ROWS, TEXT, make_pair, training_mask

from holdfast.cli import main


def _run(piped: str, *arguments: str):
    """Run a command in this process; its exit status."""
    before, sys.stdin = sys.stdin, io.StringIO(piped)
    try:
        main(list(arguments))
    except SystemExit as left:
        return left.code
    finally:
        sys.stdin = before


def commands(look: Look, columns, later):
    """A day at the command line."""
    Path("brought").mkdir()
    pd.DataFrame(columns).to_csv("brought/people.csv", index=False)
    pd.DataFrame(later).to_csv("brought/later.csv", index=False)
    ask = ("ask", "brought/people.csv", "--ledger", "account.holdfast")
    questions = ("-q", "share(s = 'a')", "-q", "mean(x, 0, 9)", "-q", "quantile(x, 0.5)")
    assert look("preview", _run, "", *ask, *questions, "--preview") == 0
    assert look("ask", _run, "", *ask, *questions) == 0
    assert look("ask as data", _run, "", *ask, *questions, "--json") == 0
    look("piped", _run, "share(x > 3)\nshare(x > 4, where = s = 'a')\n", *ask)
    look("a mistake", _run, "", *ask, "-q", "share(height > 3)")
    look("a mistake as data", _run, "", *ask, "-q", "share(height > 3)", "--json")
    look("narrow", _run, "", *ask[:2], "--no-ledger", "--error", "0.2", "-q", "share(x > 3, where = s = 'a')")
    look("other terms", _run, "", *ask, "--confidence", "0.9", "-q", "share(x > 3)")
    assert look("verify", _run, "", "verify", "account.holdfast", "--export", "export.jsonl") == 0
    look("verify the export", _run, "", "verify", "export.jsonl", "--json")
    look("no such file", _run, "", "ask", "brought/nobody.csv", "-q", "share(x > 3)")
    after = ("--after", "brought/people.csv", "--ledger", "account.holdfast")
    assert look("epoch", _run, "", "epoch", "open", "brought/later.csv", *after) == 0
    assert look("ask later", _run, "", "ask", "brought/later.csv", *after, "-q", "share(s = 'a')") == 0
    look("epochs", _run, "", "epoch", "list", "brought/later.csv", *after)
    look(
        "the same again",
        _run,
        "",
        "epoch",
        "open",
        "brought/people.csv",
        "--after",
        "brought/later.csv",
        *after,
    )


def test_commands_show_nothing_of_the_protected_rows(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    tables = zip(make_pair(TEXT), make_pair(TEXT, seed=1), strict=True)
    assert_same(*(observe(partial(commands, columns=first, later=later)) for first, later in tables))


def _broken(line: str) -> str:
    place = int(np.flatnonzero(~training_mask())[3])
    return "\n".join(["x,s", *(line if number == place else f"{number},a" for number in range(ROWS))])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("3,HIV,41", "3,b,7,8", marks=pytest.mark.slow),
        pytest.param('3,"HIV', '3,"b', marks=pytest.mark.slow),
        ("Ms Smith,a", "Mr Jones,a"),
    ],
    ids=["a field more", "an open quote", "a text among numbers"],
)
def test_a_file_that_cannot_be_read_is_not_quoted(first, second):
    def session(look, line):
        Path("brought").mkdir()
        Path("brought/people.csv").write_text(_broken(line), encoding="utf-8")
        look("ask", _run, "", "ask", "brought/people.csv", "-q", "mean(x, 0, 9)")
        look("ask as data", _run, "", "ask", "brought/people.csv", "-q", "mean(x, 0, 9)", "--json")

    assert_same(*(observe(partial(session, line=line)) for line in (first, second)))
