"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import holdfast.dependence


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(holdfast.dependence.__path__)]
)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(f"holdfast.dependence.{name}")).failed == 0
