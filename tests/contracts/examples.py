"""How many examples and cases of a test belong to the quick part of the suite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

_WHOLE = settings.get_profile("holdfast").max_examples


def examples(number: int) -> settings:
    """So many in the whole suite; in its quick part the share of them that tests without a number have."""
    return settings(max_examples=-(-number * settings.default.max_examples // _WHOLE))


def thinned(cases: Iterable[tuple[Any, ...]], every: int) -> list[Any]:
    """All cases in the whole suite; in its quick part the first one of every so many."""
    return [
        pytest.param(*case, marks=pytest.mark.slow if place % every else ())
        for place, case in enumerate(cases)
    ]
