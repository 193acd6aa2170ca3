"""What only happens once in a process happens before the first comparison."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest
from compared_sessions import guard_session
from observe import observe
from pairs import TEXT, make_pair


@pytest.fixture(scope="session", autouse=True)
def _warm():
    """Libraries fill their caches and say a few things when they are first used."""
    observe(guard_session(partial(pd.DataFrame, make_pair(TEXT)[0]), ("mean(x, 0, 9)",)))
