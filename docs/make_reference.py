"""Writes docs/reference.md from the docstrings: every public name, its signature, and its first sentence.

python docs/make_reference.py
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

MODULES = (
    "holdfast",
    "holdfast.guard",
    "holdfast.sklearn",
    "holdfast.mlflow",
    "holdfast.optuna",
    "holdfast.results",
    "holdfast.inspect",
    "holdfast.queries",
    "holdfast.intervals",
    "holdfast.statistics",
    "holdfast.tails",
    "holdfast.stability",
    "holdfast.dependence",
    "holdfast.mechanisms",
    "holdfast.planning",
    "holdfast.replicable",
    "holdfast.reductions",
    "holdfast.barriers",
    "holdfast.lab",
    "holdfast.server",
    "holdfast.client",
    "holdfast.admin",
    "holdfast.audit",
    "holdfast.audit.attacks",
    "holdfast.engines",
    "holdfast.ledger",
    "holdfast.errors",
)
TARGET = Path(__file__).with_name("reference.md")


def first_sentence(thing: object) -> str:
    paragraph = (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ").strip()
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", paragraph).replace("|", "\\|")


def signature(thing: object) -> str:
    """Argument names and defaults; the types are in the source."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    shown = str(inspect.Signature([p for p in plain if not p.name.startswith("_")]))
    return shown if "<" not in shown else "(…)"


def rows(module_name: str) -> list[str]:
    module = importlib.import_module(module_name)
    lines = []
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.ismodule(thing):
            lines.append(f"| `{name}` | {first_sentence(thing)} |")
        elif inspect.isclass(thing) or inspect.isfunction(thing):
            call = "" if inspect.isclass(thing) and issubclass(thing, Exception) else signature(thing)
            lines.append(f"| `{name}{call}` | {first_sentence(thing)} |")
            if inspect.isclass(thing) and not issubclass(thing, Exception):
                for method_name, method in vars(thing).items():
                    if method_name.startswith("_"):
                        continue
                    if isinstance(method, (classmethod, staticmethod)):
                        method = method.__func__
                    if inspect.isfunction(method):
                        lines.append(f"| &emsp;`.{method_name}` | {first_sentence(method)} |")
                    elif isinstance(method, property):
                        lines.append(f"| &emsp;`.{method_name}` | {first_sentence(method.fget)} |")
        else:
            lines.append(f"| `{name}` = `{thing!r}` | |")
    return lines


def text() -> str:
    parts = [
        "# Reference",
        "",
        "Every public name with its first sentence; the guarantee, the assumptions and an example are in its",
        "docstring (`help(name)`). Written by `python docs/make_reference.py`; a test keeps it up to date.",
    ]
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        parts += ["", f"## `{module_name}`", "", first_sentence(module), ""]
        parts += ["| name | what it is |", "|---|---|", *rows(module_name)]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
