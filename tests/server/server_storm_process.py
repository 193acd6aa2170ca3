"""A service whose clock a test can move: ``python server_storm_process.py CLOCK serve …``.

CLOCK is a file with the seconds by which the clock of the process is wrong.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from holdfast.cli import main

clock, true_time = Path(sys.argv[1]), time.time


def moved_time() -> float:
    """The time on the clock that the test moves."""
    return true_time() + float(clock.read_text() or 0)


time.time = moved_time
main(sys.argv[2:])
