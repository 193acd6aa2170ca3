"""The examples in the docstrings run, and the room opens without number theory."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast.barriers


def test_opening_the_room_imports_nothing_heavy():
    script = (
        "import sys, holdfast.barriers as b; b.Circuit.of_counts([1, 1]).table; print(' '.join(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"gmpy2", "scipy.stats", "sklearn", "matplotlib", "pandas"} & set(loaded.split()) == set()


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'distinguished'"):
        holdfast.barriers.distinguished  # noqa: B018
    assert dir(holdfast.barriers) == sorted(holdfast.barriers.__all__)
