"""The examples in the docstrings run, and importing the room imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys


def test_importing_the_room_imports_nothing_heavy():
    script = "import sys, holdfast.mechanisms; print(' '.join(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"opendp", "pandas", "scipy.stats", "scipy.optimize", "mpmath"} & set(loaded.split()) == set()
