"""The examples in the docstrings run, and a mean does not wait for anything heavy."""

from __future__ import annotations

import subprocess
import sys


def test_a_mean_imports_nothing_heavy():
    script = (
        "import sys; from holdfast.replicable import Tape, mean; "
        "mean([1] * 6000, accuracy=0.05, rho=0.1, beta=0.01, tape=Tape(1)); print(' '.join(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert {"sklearn", "pandas", "scipy.stats", "scipy.optimize", "mpmath"} & set(loaded.split()) == set()
