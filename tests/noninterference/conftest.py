"""What only happens once in a process happens before the first comparison."""

from __future__ import annotations

from functools import partial

import pytest
from observe import observe
from pairs import TABLES, Wide
from sessions import guard_session


@pytest.fixture(scope="session", autouse=True)
def _warm():
    """Libraries fill their caches and say a few things when they are first used."""
    for library in TABLES:
        observe(guard_session(partial(Wide(library).build, 0), ("mean(x, 0, 9)",)))
