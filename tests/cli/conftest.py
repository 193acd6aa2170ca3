"""A table of people, and the command line run in this process."""

from __future__ import annotations

import io
import sys

import numpy as np
import pandas as pd
import pytest

from holdfast.cli import main

ROWS = 2_000


@pytest.fixture
def people(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)  # always the same people: what is tested here is what is shown
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(40_000, 9_000, ROWS).round(2),
            "sex": rng.choice(["F", "M"], ROWS),
            "gross income": np.where(rng.random(ROWS) < 0.2, np.nan, 1.0),
        }
    )
    frame.to_csv("people.csv", index=False)
    return frame


@pytest.fixture
def holdfast(capsys, monkeypatch):
    """Run the command line in this process: exit status, stdout, stderr."""

    def run(*arguments, piped=""):
        monkeypatch.setattr(sys, "stdin", io.StringIO(piped))
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run
