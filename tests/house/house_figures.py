"""Figures of the house: how large it is, what crosses its walls, and how well its door is described.

``python tests/house/house_figures.py`` prints them; ``--list any`` or ``--list undocumented`` names the
parameters.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "holdfast"
# A private module of at most so many lines with one importer is a part of that importer.
SMALL = 130


@dataclass(frozen=True)
class PublicParameter:
    """One parameter that a user of a public name can give."""

    place: str
    name: str
    annotation: str
    documented: bool

    @property
    def is_any(self) -> bool:
        """Whether its type says nothing."""
        return self.annotation in ("", "Any", "Any | None", "typing.Any", "Optional[Any]")

    def __str__(self) -> str:
        return f"{self.place}({self.name}: {self.annotation or '?'})"


def public_modules() -> list[str]:
    """Every module with a public name and a list of public names."""
    names = ["holdfast"]
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        dotted = ".".join(("holdfast", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        private = any(part.startswith("_") for part in dotted.split("."))
        if not private and "\n__all__ =" in path.read_text(encoding="utf-8"):
            names.append(dotted)
    return sorted(set(names) - {"holdfast.demo", "holdfast.cli"})


def public_parameters() -> Iterator[PublicParameter]:
    """The parameters of every public function, class and method, each function once."""
    seen: set[int] = set()
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) and thing.__module__.startswith("holdfast"):
                yield from _of_class(thing, seen)
            elif inspect.isfunction(thing):
                yield from _of_function(thing, _name(thing), seen, inspect.getdoc(thing) or "")


def _of_class(thing: type, seen: set[int]) -> Iterator[PublicParameter]:
    described = " ".join(
        base.__doc__ or "" for base in thing.__mro__ if base.__module__.startswith("holdfast")
    )
    made = next((base for base in thing.__mro__ if "__init__" in vars(base)), object)
    if made.__module__.startswith("holdfast") and not issubclass(thing, BaseException):
        maker = thing.__init__  # type: ignore[misc]
        yield from _of_function(maker, _name(thing), seen, described + (maker.__doc__ or ""))
    for name, method in vars(thing).items():
        function = method.__func__ if isinstance(method, (classmethod, staticmethod)) else method
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        inherited = [getattr(base, name, None) for base in thing.__mro__]
        texts = [described, *(getattr(one, "__doc__", None) or "" for one in inherited)]
        yield from _of_function(function, f"{_name(thing)}.{name}", seen, " ".join(texts))


def _of_function(
    function: Callable[..., Any], place: str, seen: set[int], described: str
) -> Iterator[PublicParameter]:
    function = inspect.unwrap(function)
    if id(function) in seen:
        return
    seen.add(id(function))
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        name = parameter.name
        if name.startswith("_") or (position == 0 and name in ("self", "cls")):
            continue
        annotation = parameter.annotation
        text = "" if annotation is inspect.Parameter.empty else annotation
        shown = text if isinstance(text, str) else getattr(text, "__name__", str(text))
        yield PublicParameter(place, name, shown, names_parameter(described, name))


def names_parameter(described: str, name: str) -> bool:
    """Whether a docstring names a parameter: in double backticks, or in a line of its own under "Args:"."""
    quoted = rf"``[^`\n]*(?<![\w.]){re.escape(name)}(?!\w)[^`\n]*``"
    listed = rf"^\s+\*{{0,2}}{re.escape(name)}: \S"
    return re.search(f"{quoted}|{listed}", described, flags=re.M) is not None


def _name(thing: Any) -> str:
    return f"{thing.__module__.split('._')[0]}.{thing.__qualname__}"


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    """The module and the name of everything that a file imports from Holdfast."""
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holdfast":
            for alias in node.names:
                yield str(node.module), alias.name
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "holdfast":
                    yield alias.name, ""


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def private_crossings() -> list[str]:
    """Private names and modules that a file takes from another room."""
    crossings = []
    for path in sorted(SOURCE.rglob("*.py")):
        here = _module(path)
        for module, name in _imports(path):
            private = any(
                part.startswith("_") for part in [*module.split("."), name] if part != "__version__"
            )
            if private and module != "holdfast" and _room(module) != _room(here):
                crossings.append(f"{here}: {module}.{name}")
    return crossings


def single_importers() -> list[str]:
    """Small private modules that exactly one other module of their package imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    paths = {_module(path): path for path in SOURCE.rglob("*.py")}
    for here, path in paths.items():
        for module, name in _imports(path):
            for target in {module, f"{module}.{name}"} & set(paths):
                if target != here:
                    importers[target].add(here)
    return sorted(
        module
        for module, path in paths.items()
        if module.split(".")[-1].startswith("_")
        and path.name not in ("__init__.py", "__main__.py")
        and len(importers[module]) == 1
        and len(path.read_text(encoding="utf-8").splitlines()) <= SMALL
    )


def readability() -> float:
    """The median number of words in the sentences of the README and the guides."""
    from test_house_plain_english import FIRST_PAGES, GUIDES, sentences

    pages = [page.read_text(encoding="utf-8") for page in [*FIRST_PAGES, *GUIDES]]
    return statistics.median(len(text.split()) for page in pages for text in sentences(page))


def figures() -> dict[str, float]:
    """All figures by name."""
    files = sorted(SOURCE.rglob("*.py"))
    parameters = list(public_parameters())
    return {
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
        "files": len(files),
        "private crossings": len(private_crossings()),
        "public parameters": len(parameters),
        "Any parameters": sum(parameter.is_any for parameter in parameters),
        "undocumented parameters": sum(not parameter.documented for parameter in parameters),
        "single importers": len(single_importers()),
        "median words in a sentence": readability(),
    }


LISTS: dict[str, Callable[[], list[Any]]] = {
    "any": lambda: [parameter for parameter in public_parameters() if parameter.is_any],
    "undocumented": lambda: [parameter for parameter in public_parameters() if not parameter.documented],
    "crossings": private_crossings,
    "single": single_importers,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", choices=sorted(LISTS), help="Name what is counted.")
    chosen = parser.parse_args().list
    lines = map(str, LISTS[chosen]()) if chosen else [json.dumps(figures(), indent=1)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
