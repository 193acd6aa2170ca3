"""What is public is listed, exists, says what it does and what it promises, and is found in the
documentation."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import holdfast
from holdfast.records import Record

ROOT = Path(__file__).resolve().parents[2]
PUBLIC_MODULES = [
    "holdfast",
    "holdfast.errors",
    "holdfast.tails",
    "holdfast.stability",
    "holdfast.dependence",
    "holdfast.mechanisms",
    "holdfast.planning",
    "holdfast.intervals",
    "holdfast.statistics",
    "holdfast.queries",
    "holdfast.engines",
    "holdfast.ledger",
    "holdfast.guard",
    "holdfast.replicable",
    "holdfast.reductions",
    "holdfast.barriers",
    "holdfast.lab",
    "holdfast.server",
    "holdfast.client",
    "holdfast.admin",
    "holdfast.sklearn",
    "holdfast.audit",
    "holdfast.mlflow",
    "holdfast.optuna",
    "holdfast.results",
    "holdfast.inspect",
]
NAMES = [(module, name) for module in PUBLIC_MODULES for name in importlib.import_module(module).__all__]


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_all_is_unique_and_complete(module):
    listed = list(importlib.import_module(module).__all__)
    assert len(set(listed)) == len(listed)
    for name in listed:
        assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_a_public_name_says_what_it_does(module):
    for name in importlib.import_module(module).__all__:
        thing = getattr(importlib.import_module(module), name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing)):
            continue  # A plain value; its module documents it.
        text = thing.__doc__ or ""
        assert len(text.split()) >= 4, f"{module}.{name} needs a docstring"
        if inspect.isclass(thing):
            inherited = next((base.__doc__ for base in thing.__mro__[1:] if base.__doc__), None)
            assert text != inherited, f"{module}.{name} only inherits its docstring"
            for method_name, method in vars(thing).items():
                if not method_name.startswith("_") and inspect.isfunction(method):
                    assert inspect.getdoc(method), f"{module}.{name}.{method_name} needs a docstring"


def in_the_reference(module):
    """The names that have a row of their own on the page of a module, with what the row says."""
    page = ROOT / "docs" / "reference" / f"{module.removeprefix('holdfast.').replace('.', '-')}.md"
    listed = re.findall(r"^\| `(\w+)(.*)\|$", page.read_text(encoding="utf-8"), flags=re.M)
    assert len(dict(listed)) == len(listed)
    return dict(listed)


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_a_public_name_has_its_row_in_the_reference(module):
    rows = in_the_reference(module)
    assert list(rows) == list(importlib.import_module(module).__all__)
    for name, row in rows.items():
        thing = getattr(importlib.import_module(module), name)
        if inspect.isclass(thing) or inspect.isfunction(thing) or inspect.ismodule(thing):
            assert len(row.partition("` | ")[2].split()) >= 3, f"{module}.{name} is not described there"


def test_records_are_frozen_and_say_their_values():
    classes = {
        thing
        for module, name in NAMES
        if inspect.isclass(thing := getattr(importlib.import_module(module), name))
        and issubclass(thing, Record)
    }
    assert classes
    for thing in classes:
        assert thing.__dataclass_params__.frozen, thing


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'gaurd'"):
        holdfast.gaurd  # noqa: B018
    assert set(dir(holdfast)) >= set(holdfast.__all__)
