"""Figures about the source: how large it is, how it is cut into files, and how well its names are kept.

    python benchmarks/house.py                 # this tree
    python benchmarks/house.py --source OTHER  # another src/holdfast, for before and after

It prints one line for each figure, and with ``--json`` a JSON object.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "holdfast"
# A private module of at most this many lines with one importer is a shard of that importer.
SHARD_LINES = 130
# A sentence with more words than this needs a second reading.
LONG_SENTENCE = 35
EMPTY_NAMES = {"found", "known", "one", "said", "told"}

Nodes = list[ast.AST]
Trees = dict[Path, Nodes]
_KEPT = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Raise)


def trees(source: Path) -> Trees:
    """The nodes that are looked at, of every module of a source tree; the module itself comes first."""
    return {
        path.relative_to(source): [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, _KEPT) or (isinstance(node, ast.Name) and node.id in EMPTY_NAMES)
        ]
        for path in sorted(source.rglob("*.py"))
    }


def imports(nodes: Nodes) -> Iterator[tuple[str, ...]]:
    """Everything that a module imports from Holdfast, as ("guard", "_code", "CodeStrategy")."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("holdfast."):
                yield tuple(name.split(".")[1:])


def _private(part: str) -> bool:
    return part.startswith("_") and not part.startswith("__")


def private_crossings(modules: Trees) -> int:
    """Private names that are imported across the border of a package, or of a module beside packages."""
    return sum(
        parts[0] != path.parts[0].removesuffix(".py") and any(map(_private, parts))
        for path, nodes in modules.items()
        for parts in set(imports(nodes))
    )


def shards(modules: Trees, lengths: dict[Path, int]) -> int:
    """Short private modules that only one other module imports."""
    importers: dict[Path, set[Path]] = defaultdict(set)
    for path, nodes in modules.items():
        for parts in imports(nodes):
            for depth in range(len(parts), 0, -1):
                module = Path(*parts[:depth]).with_suffix(".py")
                if module in modules:
                    importers[module].add(path)
                    break
    return sum(
        _private(path.name) and lengths[path] <= SHARD_LINES and len(importers[path]) == 1 for path in modules
    )


def door(source: Path) -> dict[str, float]:
    """How many parameters users can give, how many of those have no type, and how many no docstring names.

    Counted by another process, because only one version of Holdfast can be imported in one.
    """
    command = [sys.executable, str(SOURCE.parents[1] / "tests" / "house" / "public_parameters.py"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(source.parent)}
    counted = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    figures: dict[str, float] = json.loads(counted)
    return figures


def test_files_with_private_names(tests: Path) -> int:
    """Test files that import a private module or name of Holdfast; 0 where there are no tests."""
    return sum(
        any(
            any(map(_private, parts)) for parts in imports(list(ast.walk(ast.parse(path.read_text("utf-8")))))
        )
        for path in tests.rglob("*.py")
    )


def sentences(text: str) -> Iterator[str]:
    """The sentences of a docstring or a message, without examples, lists of arguments and formulas."""
    text = re.sub(r"\x08.*?(?:\n\s*\n|$)", "", text, flags=re.S)
    prose = re.split(r"^\s*(?:>>>|Args:|Raises:|Returns:)", text, maxsplit=1, flags=re.M)[0]
    for sentence in re.split(r"(?<=[.!?:;])\s+|\n\s*\n|\n\s*\* ", prose):
        if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 2:
            yield " ".join(sentence.split())


def messages(nodes: Nodes) -> Iterator[str]:
    """The texts of the errors that a module raises; what is filled in counts as a word."""
    for node in nodes:
        if not isinstance(node, ast.Raise):
            continue
        inner = {
            id(part) for text in ast.walk(node) if isinstance(text, ast.JoinedStr) for part in text.values
        }
        for text in ast.walk(node):
            if isinstance(text, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "it" for part in text.values
                )
            elif isinstance(text, ast.Constant) and isinstance(text.value, str) and id(text) not in inner:
                yield text.value


def long_sentences(texts: Iterator[str]) -> list[str]:
    """The sentences that are too long to be read once."""
    return [
        sentence for text in texts for sentence in sentences(text) if len(sentence.split()) > LONG_SENTENCE
    ]


def docstrings(nodes: Nodes) -> Iterator[str]:
    """The docstrings of a module, of its classes and of its functions."""
    for node in nodes:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""


def figures(source: Path = SOURCE) -> dict[str, float]:
    """Every figure that is read off the source, by its name."""
    modules = trees(source)
    lengths = {path: len((source / path).read_text(encoding="utf-8").splitlines()) for path in modules}
    words = [
        len(sentence.split())
        for nodes in modules.values()
        for node in nodes
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        for sentence in re.split(r"[.:;]\s", (ast.get_docstring(node, clean=False) or "").split(">>>")[0])
        if len(sentence.split()) > 1
    ]
    empty = sum(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        for nodes in modules.values()
        for node in nodes
    )
    return {
        "lines": sum(lengths.values()),
        "files": len(modules),
        "short private modules with one importer": shards(modules, lengths),
        "private names that cross a border": private_crossings(modules),
        "locals with empty names": empty,
        "mean words of a clause in docstrings": round(statistics.fmean(words), 2),
        "long sentences in docstrings": sum(
            len(long_sentences(docstrings(nodes))) for nodes in modules.values()
        ),
        "long sentences in messages": sum(len(long_sentences(messages(nodes))) for nodes in modules.values()),
        "test files that import private names": test_files_with_private_names(source.parents[1] / "tests"),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=SOURCE, help="a src/holdfast folder")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    options = parser.parse_args()
    result = {**figures(options.source), **door(options.source)}
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{value:>10,}  {name}")


if __name__ == "__main__":
    main()
