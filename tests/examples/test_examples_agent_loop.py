"""The example of an agent loop shows what the guide says it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "agent_loop.py"


def run(*options):
    """How many changes each loop kept, its score on its own tasks, and its score on new ones."""
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=True)
    rows = [line.rsplit(maxsplit=3) for line in done.stdout.splitlines()[1:4]]
    return {name: (int(kept), float(own), float(new)) for name, kept, own, new in rows}


def test_without_a_gate_the_loop_climbs_on_noise():
    loops = run("--real", "0", "--rounds", "150")
    start, careless, gated = loops["start"], loops["without gate"], loops["with gate"]
    assert careless[0] > 0
    assert careless[1] > start[1] + 0.03  # It looks better,
    assert careless[2] < start[2]  # and is worse.
    assert gated == start


def test_real_gains_pass_the_gate():
    loops = run()
    assert loops["with gate"][0] == 1
    assert loops["with gate"][2] > loops["start"][2] + 0.08
    assert loops["without gate"][1] - loops["without gate"][2] > 0.1
