"""Every test can fail, and none waits for a time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
# Tests that fail by what they call: it raises where something is wrong.
FAILS_BY_RAISING = {
    "test_comparing_the_words_alone_would_accept_another_model": "opening the account again is refused",
    "test_no_number_is_too_large_for_a_sentence": "any other error than one of ours",
    "test_a_part_is_a_whole_number": "the query is refused",
    "test_scikit_learn_accepts_it": "scikit-learn's own check",
    "test_scikit_learns_own_checks": "scikit-learn's own check",
}
# These wait on purpose: no condition could replace the time.
WAIT_ON_PURPOSE = {
    "engines/test_engines_deadline.py": "statements that must not be stopped early or late",
    "guard/test_guard_batch_crash.py": "a crash at a random moment",
    "boards/test_boards_batch.py": "a crash at a random moment",
    "guard/test_guard_crash.py": "a crash at a random moment",
    "guard/test_guard_failure.py": "a model that does not answer",
    "house/test_house_workers.py": "jobs that take their time",
    "server/test_server_abuse.py": "a process that is stopped for longer than the limit",
    "server/test_server_epoch_crash.py": "a crash at a random moment",
    "server/test_server_postgres_restart.py": "a database that is away for a while",
    "server/test_server_storm.py": "crashes and pauses at random moments",
    "waiting.py": "waiting for a condition",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def called(node: ast.AST) -> set[str]:
    """The last part of the name of everything that is called or handed over."""
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Attribute):
            names.add(part.attr)
    return names


def checks(node: ast.AST) -> bool:
    """Whether something in it can fail."""
    if any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node)):
        return True
    names = called(node)
    return bool(names & {"expect", "fail", "raises", "warns", "wait_until"}) or any(
        name.startswith("assert_") for name in names
    )


def functions(paths: list[Path]) -> list[tuple[Path, Function]]:
    return [
        (path, node)
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, Function)
    ]


def without_a_check(paths: list[Path]) -> list[str]:
    """Tests without a check, in themselves and in the functions of the tests that they call."""
    everything = functions(paths)
    checking = {function.name for _, function in everything if checks(function)}
    while more := {
        function.name
        for _, function in everything
        if function.name not in checking
        and not function.name.startswith("test")
        and called(function) & checking
    }:
        checking |= more
    helpers = {name for name in checking if not name.startswith("test")}
    return sorted(
        f"{path.name}: {function.name}"
        for path, function in everything
        if function.name.startswith("test_") and not checks(function) and not called(function) & helpers
    )


def sleeps(path: Path) -> bool:
    return any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "sleep"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_every_test_can_fail():
    cannot = without_a_check(sorted(TESTS.rglob("*.py")))
    assert [name for name in cannot if name.split(": ")[1] not in FAILS_BY_RAISING] == []


def test_no_test_waits_for_a_time():
    sleeping = {str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py") if sleeps(path)}
    assert sleeping <= set(WAIT_ON_PURPOSE)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("def test_it():\n  f()", True),
        ("def test_it():\n  assert f()", False),
        ("def compare():\n  assert f()\ndef test_it():\n  compare()", False),
        ("def compare():\n  f()\ndef test_it():\n  compare()", True),
        ("def inner():\n  assert f()\ndef outer():\n  inner()\ndef test_it():\n  outer()", False),
    ],
)
def test_a_test_that_cannot_fail_would_be_seen(text, wrong, tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(text)
    assert bool(without_a_check([path])) is wrong
