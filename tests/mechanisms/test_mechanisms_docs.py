"""The examples in the docstrings run, and importing the room imports nothing heavy."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import holdfast.mechanisms


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(holdfast.mechanisms.__path__)]
)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(f"holdfast.mechanisms.{name}")).failed == 0


def test_importing_the_room_imports_nothing_heavy():
    script = "import sys, holdfast.mechanisms; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"opendp", "pandas", "scipy.stats", "scipy.optimize", "mpmath"} & set(loaded.split()) == set()
