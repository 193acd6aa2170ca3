"""Every parameter that a user can give: whether it has a type, and whether a docstring names it.

``python tests/house/public_parameters.py`` counts them; ``--list any`` or ``--list undocumented`` names them.
``benchmarks/house.py`` prints the two counts beside the other figures.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import holdfast

SOURCE = Path(holdfast.__file__).parent


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
    return sorted(set(names) - {"holdfast.cli"})


def public_parameters() -> Iterator[PublicParameter]:
    """The parameters of every public function, class and method, each function once."""
    seen: set[int] = set()
    modules = [importlib.import_module(name) for name in public_modules()]
    public = {id(getattr(module, name)) for module in modules for name in module.__all__}
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) and thing.__module__.startswith("holdfast"):
                yield from _of_class(thing, seen, public)
            elif inspect.isfunction(thing):
                yield from _of_function(thing, _name(thing), seen, inspect.getdoc(thing) or "")


def _of_class(thing: type, seen: set[int], public: set[int]) -> Iterator[PublicParameter]:
    """Those of a class, and of its base classes that have no public name of their own."""
    described = " ".join(
        base.__doc__ or "" for base in thing.__mro__ if base.__module__.startswith("holdfast")
    )
    made = next((base for base in thing.__mro__ if "__init__" in vars(base)), object)
    # Nobody makes a Protocol: Python gives it an __init__ that only refuses.
    is_protocol = vars(thing).get("_is_protocol", False)
    if made.__module__.startswith("holdfast") and not issubclass(thing, BaseException) and not is_protocol:
        maker = thing.__init__  # type: ignore[misc]
        yield from _of_function(maker, _name(thing), seen, described + (maker.__doc__ or ""))
    methods = {
        name: method
        for base in reversed(thing.__mro__)
        if base is thing or (base.__module__.startswith("holdfast") and id(base) not in public)
        for name, method in vars(base).items()
    }
    for name, method in methods.items():
        function = method.__func__ if isinstance(method, (classmethod, staticmethod)) else method
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        inherited = [getattr(base, name, None) for base in thing.__mro__]
        texts = [described, *(getattr(thing, "__doc__", None) or "" for thing in inherited)]
        yield from _of_function(function, f"{_name(thing)}.{name}", seen, " ".join(texts))


def _of_function(
    function: Callable[..., Any], place: str, seen: set[int], described: str
) -> Iterator[PublicParameter]:
    function = inspect.unwrap(function)
    if id(function) in seen:
        return
    seen.add(id(function))
    # A type checker shows the overloads of a function and not its own signature.
    for form in typing.get_overloads(function) or [function]:
        yield from _of_signature(inspect.signature(form), place, described)


def _of_signature(signature: inspect.Signature, place: str, described: str) -> Iterator[PublicParameter]:
    for position, parameter in enumerate(signature.parameters.values()):
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", choices=["any", "undocumented"], help="Name what is counted.")
    parser.add_argument("--json", action="store_true", help="Print a JSON object.")
    options = parser.parse_args()
    chosen = options.list
    parameters = list(public_parameters())
    listed = {
        "any": [parameter for parameter in parameters if parameter.is_any],
        "undocumented": [parameter for parameter in parameters if not parameter.documented],
    }
    counts = {
        "public parameters": len(parameters),
        "public parameters of type Any": len(listed["any"]),
        "public parameters that no docstring names": len(listed["undocumented"]),
    }
    if options.json:
        lines = [json.dumps(counts)]
    else:
        lines = listed[chosen] if chosen else [f"{count:6,} {name}" for name, count in counts.items()]
    sys.stdout.write("\n".join(map(str, lines)) + "\n")


if __name__ == "__main__":
    main()
