"""The service of a folder in a process of its own, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def start(
    home: Path, *options: str, environment: dict[str, str] | None = None
) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """The process, and what it says when it serves: its address, and the first owner's token."""
    command = "from holdfast.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "serve", str(home), "--port", "0", "--json", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@contextmanager
def serving(home: Path, *options: str, environment: dict[str, str] | None = None) -> Iterator[dict[str, Any]]:
    """The same for a while."""
    process, said = start(home, *options, environment=environment)
    assert process.stdout is not None
    try:
        yield said
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()
