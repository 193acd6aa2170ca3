"""The door is typed: a user's type checker sees what Holdfast's names are, in a script and in every guide."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "holdfast"
PAGES = sorted(
    path
    for path in [ROOT / "README.md", ROOT / "SKILL.md", *(ROOT / "docs").rglob("*.md")]
    if "```python" in path.read_text(encoding="utf-8")
)
LAZY = [
    path for path in sorted(SOURCE.rglob("__init__.py")) if "__getattr__" in path.read_text(encoding="utf-8")
]
# What a page may do that a strict program does not: leave its own functions and lists without types, use a
# name twice, and assume that a result is not None.
RELAXED = """
[[tool.mypy.overrides]]
module = ["pages.*"]
allow_redefinition = true
check_untyped_defs = true
disallow_untyped_calls = false
disallow_untyped_defs = false
disallow_incomplete_defs = false
disallow_any_generics = false
disable_error_code = [
    "no-redef", "var-annotated", "has-type", "operator", "union-attr", "assignment", "import-untyped",
]
"""
# A type checker cannot follow these: options that a page keeps in a dict, and the guarantee of an algorithm
# that was compiled, which is one of several notions.
NOT_FOLLOWED = ('has incompatible type "**dict[', '"Notion" has no attribute')
USER = """
import holdfast
import pandas as pd
from holdfast import Gate, Guard, plan
from holdfast.client import Client

table = pd.DataFrame({"x": [1.0, 2.0]})
guard = Guard(table)
reveal_type(guard)
reveal_type(guard.share("x > 1"))
reveal_type(guard.share("x > 1", by="x"))
reveal_type(guard.mean("x", bounds=(0, 1)))
reveal_type(guard.score(table["x"], target="x"))
reveal_type(guard.score(table["x"], target="x", metric=["accuracy", "error"]))
reveal_type(guard.cdf("x"))
reveal_type(Client("http://localhost", "token").share("x > 1"))
reveal_type(Gate(["a", "b"], incumbent={"a": 1.0, "b": 0.0}))
reveal_type(plan(queries=10, confidence=0.95, rows=1000))
reveal_type(holdfast.stability.DP(1.0))
reveal_type(holdfast.dependence.MarkovChain([[0.9, 0.1], [0.2, 0.8]], n=5))
reveal_type(holdfast.dependence.Clusters([3, 4, 5]))
reveal_type(holdfast.replicable.Tape("study"))
reveal_type(holdfast.reductions.dp_replicability(holdfast.stability.DP(0.1), n=10_000))
reveal_type(holdfast.dependence.GaussianRows([[1.0, 0.2], [0.2, 1.0]]))
reveal_type(holdfast.dependence.fit({"x": [0, 1]}, columns="x"))
reveal_type(holdfast.stability.convert(holdfast.stability.DP(0.1), "max-information", n=9, beta=0.1).bits)
reveal_type(holdfast.stability.convert(holdfast.stability.DP(0.1), holdfast.stability.Replicability).rho)
reveal_type(holdfast.mechanisms.laplace(1.0, 0.5))
reveal_type(holdfast.mechanisms.select_mode(["oak", "elm"], 1.0, 1e-6))
tape = holdfast.replicable.Tape("study")
reveal_type(holdfast.replicable.mean([0.5], accuracy=0.1, rho=0.1, beta=0.05, tape=tape).value)
reveal_type(holdfast.replicable.heavy_hitters(["oak"], threshold=0.3, rho=0.1, beta=0.05, tape=tape).value)
reveal_type(holdfast.replicable.choose([[0.0]], accuracy=0.1, rho=0.1, beta=0.05, tape=tape).value)
client = Client("http://localhost", "token")
reveal_type(client.me()["role"])
reveal_type(client.describe()["columns"])
reveal_type(client.board("churn")["standing"][0]["low"])
reveal_type(client.gate("agent")["text"])
reveal_type(Gate(None, incumbent={"a": 1}).status()["needed_gain"])
reveal_type(guard.schema)
any_result: holdfast.replicable.Result
Guard(table, confidnce=3)  # error: call-arg
guard.mean("x", bounds="trian")  # error: arg-type
Gate(None, incumbent={"a": "high"})  # error: dict-item
plan(queries=10, confidence=0.95, rows=9, promise="al")  # error: arg-type
plan(queries=10, confidence=0.95, rows=9).method("kode")  # error: arg-type
holdfast.dependence.fit({"x": [0, 1]}, columns="x", order="bick")  # error: call-overload
holdfast.stability.DP(0.1).compose(3, method="advancd")  # error: arg-type
holdfast.stability.convert(holdfast.stability.DP(0.1), "max-info", n=9, beta=0.1)  # error: call-overload
holdfast.stability.explain(holdfast.stability.DP(0.1), "replicable", rows=9)  # error: call-arg
holdfast.mechanisms.Noise.of("laplce", 1.0)  # error: arg-type
holdfast.replicable.sample_size("meen", rho=0.1)  # error: arg-type
holdfast.replicable.sample_size("mean", acuracy=0.1, rho=0.1, beta=0.05)  # error: call-arg
client.register_board("churn", "labels.csv", target="y", metrc="brier")  # error: call-arg
client.register_gate("agent", "scores.csv", promise="famly")  # error: arg-type
client.me()["roll"]  # error: typeddict-item
holdfast.admin.Admin("http://localhost", "token").issue("ann", role="analist")  # error: arg-type
Guard(table, confidence="high")  # error: arg-type
Guard(table, strategy="kode")  # error: arg-type
Guard(table, promise="some")  # error: arg-type
Guard(3)  # error: arg-type
guard.share(["x > 1"])  # error: call-overload
guard.score(table["x"], target="x", metric="acuracy")  # error: call-overload
guard.shair("x > 1")  # error: attr-defined
holdfast.Gaurd  # error: attr-defined
holdfast.replicable.maen  # error: attr-defined
"""


def _code(page: Path) -> str:
    """The code of a page as one program. Blocks that are indented belong to a text around them."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    return "\n".join(blocks)


def _names_from_holdfast(code: str) -> list[str]:
    imported = [
        alias.asname or alias.name
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holdfast"
        for alias in node.names
    ]
    return sorted(set(imported))


def _module(page: Path) -> str:
    return "pages/" + re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))


def mypy_of(folder: Path, files: dict[str, str]) -> dict[str, list[str]]:
    """What mypy says about each program, with the settings of this repository. It takes what it knows about
    Holdfast from the cache that ``make check`` fills, and fills it otherwise."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    settings = settings[settings.index("[tool.mypy]") :].replace('files = ["src"]\n', "") + RELAXED
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    (folder / "pages").mkdir()
    (folder / "pages" / "__init__.py").touch()
    for name, code in files.items():
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache"), *(f"{name}.py" for name in files)]
    environment = {"MYPYPATH": str(ROOT / "src"), "PATH": "", "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    said: dict[str, list[str]] = {name: [] for name in files}
    for line in run.stdout.splitlines():
        name, _, message = line.partition(".py:")
        if name in said:
            said[name].append(message)
    return said


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    files = {"user": USER}
    for page in PAGES:
        code = _code(page)
        revealed = "\n".join(f"reveal_type({name})" for name in _names_from_holdfast(code))
        files[_module(page)] = f"{code}\n{revealed}\n"
    return mypy_of(tmp_path_factory.mktemp("types"), files)


def test_a_type_checker_sees_what_the_door_gives(said):
    revealed = re.findall(r'Revealed type is "(.*)"', "\n".join(said["user"]))
    assert len(revealed) == USER.count("reveal_type(")
    assert [text for text in revealed if re.search(r"\bAny\b", text)] == []
    short = [re.sub(r"[\w.]+\.(\w+)", r"\1", text) for text in revealed[:7]]
    assert short == ["Guard", "Answer", "Table", "Answer", "Answer", "dict[str, Answer]", "Curve"]


def test_a_type_checker_refuses_what_the_door_refuses(said):
    expected = {
        (number, code)
        for number, line in enumerate(USER.splitlines(), start=1)
        for code in re.findall(r"# error: ([\w-]+)$", line)
    }
    errors = re.findall(r"^(\d+): error: .*\[([\w-]+)\]$", "\n".join(said["user"]), flags=re.M)
    assert {(int(number), code) for number, code in errors} == expected


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_has_no_type_error(said, page):
    lines = said[_module(page)]
    errors = [line for line in lines if ": error:" in line]
    assert [line for line in errors if not any(part in line for part in NOT_FOLLOWED)] == []
    assert [line for line in lines if 'Revealed type is "Any"' in line] == []


@pytest.mark.parametrize("path", LAZY, ids=lambda path: path.parent.name)
def test_a_lazy_package_gives_type_checkers_the_same_names(path):
    """The names that are imported on first use are those that a type checker sees, from the same modules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(path.parent.relative_to(SOURCE.parent).parts)
    module = importlib.import_module(package)
    seen = {
        alias.name
        for node in tree.body
        for part in ([node] if isinstance(node, ast.ImportFrom) else getattr(node, "body", []))
        if isinstance(part, ast.ImportFrom) and (part.module or "").startswith("holdfast")
        for alias in part.names
        if alias.asname is None
    }
    assert set(module.__all__) - {"__version__"} == seen - {"lazy_names"}
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'missing_name'"):
        _ = module.missing_name


@pytest.mark.more
def test_another_type_checker_agrees(tmp_path):
    pytest.importorskip("basedpyright", reason="basedpyright is not installed")
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    settings = {"extraPaths": [str(ROOT / "src")], "typeCheckingMode": "standard", "include": ["user.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    said = json.loads(run.stdout)["generalDiagnostics"]
    wrong = {line["range"]["start"]["line"] + 1 for line in said if line["severity"] == "error"}
    assert wrong == {n for n, line in enumerate(USER.splitlines(), start=1) if "# error:" in line}
    revealed = [line["message"] for line in said if line["severity"] == "information"]
    assert [text for text in revealed if re.search(r'is "Any"|Unknown', text)] == []
