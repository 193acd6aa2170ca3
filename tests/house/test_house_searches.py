"""Searches are written once, in ``holdfast/search.py``, where they end on the safe side."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"

# What halves a range and is no search for a place on the safe side.
ELSEWHERE = {
    ("dependence/_forgetting.py", "highest"): "many searches at once, in numpy",
}
LIBRARY = {"bisect", "brentq", "brenth", "newton", "ridder", "root_scalar", "toms748"}


def halves(node: ast.AST) -> bool:
    """Whether an expression is (a + b) / 2, (a + b) // 2 or 0.5 * (a + b)."""
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.Div | ast.FloorDiv):
        total, number, wanted = node.left, node.right, 2
    elif isinstance(node.op, ast.Mult):
        number, total, wanted = node.left, node.right, 0.5
    else:
        return False
    sums = isinstance(total, ast.BinOp) and isinstance(total.op, ast.Add)
    return sums and isinstance(number, ast.Constant) and number.value == wanted


def repeats(node: ast.AST) -> bool:
    """Whether a node is a loop over tries, and not over things."""
    return isinstance(node, ast.While) or (
        isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == "_"
    )


def hand_written(text: str) -> set[str]:
    """The functions with a loop that halves a range, or that take a root from another library."""
    names = set()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        loops = [node for node in ast.walk(function) if repeats(node)]
        if any(
            isinstance(node, ast.Assign) and halves(node.value) for loop in loops for node in ast.walk(loop)
        ):
            names.add(function.name)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in LIBRARY:
                names.add(function.name)
    return names


def searches_by_hand() -> set[tuple[str, str]]:
    return {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "search.py"
        for name in hand_written(path.read_text(encoding="utf-8"))
    }


def test_no_search_is_written_by_hand():
    assert searches_by_hand() == set(ELSEWHERE)


@pytest.mark.parametrize(
    "body",
    [
        "while high - low > 1:\n  middle = (low + high) // 2",
        "for _ in range(9):\n  middle = 0.5 * (low + high)",
        "return brentq(f, 0, 1)",
    ],
)
def test_the_check_sees_a_search(body):
    lines = "\n".join("  " + line for line in body.splitlines())
    assert hand_written(f"def f(low, high):\n{lines}") == {"f"}
