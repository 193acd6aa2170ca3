"""The examples in the docstrings run, and a mean does not wait for anything heavy."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import holdfast.replicable


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.iter_modules(holdfast.replicable.__path__)]
)
def test_examples_run(name):
    assert doctest.testmod(importlib.import_module(f"holdfast.replicable.{name}")).failed == 0


def test_a_mean_imports_nothing_heavy():
    script = (
        "import sys; from holdfast.replicable import Tape, mean; "
        "mean([1] * 6000, accuracy=0.05, rho=0.1, beta=0.01, tape=Tape(1)); print(' '.join(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"sklearn", "pandas", "scipy.stats", "scipy.optimize", "mpmath"} & set(loaded.split()) == set()
