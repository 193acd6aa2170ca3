"""Writes the reference from the docstrings.

docs/reference.md has the names that most people need. docs/reference has a page for each package, with every
public name, its signature and its first sentence.

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
# The names on the first page, by what somebody wants to do.
FRONT = {
    "Ask": (
        "holdfast.Guard",
        "holdfast.Query",
        "holdfast.Answer",
        "holdfast.Preview",
        "holdfast.Certificate",
        "holdfast.guard.Table",
        "holdfast.guard.Curve",
        "holdfast.guard.Report",
        "holdfast.guard.Discovery",
        "holdfast.ReusableHoldout",
    ),
    "Plan before you ask": ("holdfast.plan", "holdfast.planning.leak", "holdfast.planning.recipe"),
    "Compare candidates": (
        "holdfast.Gate",
        "holdfast.Verdict",
        "holdfast.gate_power",
        "holdfast.gate_gain",
        "holdfast.gate_tasks",
        "holdfast.results.read_results",
    ),
    "Say how rows depend": (
        "holdfast.dependence.Clusters",
        "holdfast.dependence.Mixing",
        "holdfast.dependence.Blocks",
        "holdfast.dependence.MarkovChain",
        "holdfast.dependence.fit",
    ),
    "Work with other tools": (
        "holdfast.client.Client",
        "holdfast.sklearn.GuardedScorer",
        "holdfast.sklearn.select",
        "holdfast.optuna.GuardedObjective",
        "holdfast.mlflow.log_answers",
        "holdfast.inspect.submit_to",
    ),
    "Get the same result twice": (
        "holdfast.replicable.Tape",
        "holdfast.replicable.mean",
        "holdfast.replicable.quantile",
        "holdfast.replicable.ReplicableClassifier",
        "holdfast.replicable.ReplicableSearchCV",
    ),
    "Check a promise": (
        "holdfast.audit.coverage",
        "holdfast.audit.replicability",
        "holdfast.stability.explain",
    ),
    "Handle errors": (
        "holdfast.errors.HoldfastError",
        "holdfast.BudgetSpent",
        "holdfast.QueryRejected",
        "holdfast.errors.InvalidArgument",
        "holdfast.errors.NotEnoughRows",
    ),
}
DOCS = Path(__file__).parent
TABLE = ["| name | what it is |", "|---|---|"]


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


def page_of(module_name: str) -> str:
    """The file of a package's own page, below docs."""
    return f"reference/{module_name.removeprefix('holdfast.').replace('.', '-')}.md"


def front() -> str:
    """The first page: what most people need, and where the rest is."""
    parts = [
        "# Reference",
        "",
        "These are the names that most people need. [The names you use most](api.md) has the text of some.",
        "Below the tables is [a page for each package](#packages).",
    ]
    for purpose, names in FRONT.items():
        parts += ["", f"## {purpose}", "", *TABLE]
        for name in names:
            module_name, _, short = name.rpartition(".")
            thing = getattr(importlib.import_module(module_name), short)
            parts.append(f"| [`{name}`]({page_of(module_name)}) | {first_sentence(thing)} |")
    parts += ["", "## Packages", "", "| package | what it has |", "|---|---|"]
    for module_name in MODULES:
        about = first_sentence(importlib.import_module(module_name))
        parts.append(f"| [`{module_name}`]({page_of(module_name)}) | {about} |")
    parts += ["", "`python docs/make_reference.py` writes these pages, and a test keeps them up to date."]
    return "\n".join(parts) + "\n"


def package_page(module_name: str) -> str:
    """The page of a package: every public name with its first sentence."""
    about = first_sentence(importlib.import_module(module_name))
    parts = [f"# `{module_name}`", "", about, ""]
    parts += [
        "The guarantee, the assumptions and an example of a name are in its docstring: `help(name)`.",
        "",
    ]
    return "\n".join([*parts, *TABLE, *rows(module_name)]) + "\n"


def pages() -> dict[str, str]:
    """The text of every page of the reference by its file, below docs."""
    return {"reference.md": front(), **{page_of(name): package_page(name) for name in MODULES}}


if __name__ == "__main__":
    (DOCS / "reference").mkdir(exist_ok=True)
    for file, text in pages().items():
        (DOCS / file).write_text(text, encoding="utf-8")
