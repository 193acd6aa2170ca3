"""Items that can be counted: texts, numbers and tuples of them, each with a name and a place in one order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.errors import InvalidArgument

__all__ = ["count_items", "item_name", "item_order"]

_EXPECTED = "texts, numbers or tuples of them"


def item_name(item: Any) -> str:
    """A text that names the item and no other; numbers that are equal have one name.

    >>> item_name("1"), item_name(1), item_name(1.0), item_name(("a", 2))
    ('t1', 'i1', 'i1', '(2:ta2:i2)')
    """
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, str):
        return "t" + item
    if item is None:
        return "none"
    if isinstance(item, (bool, int)) or (isinstance(item, float) and item.is_integer()):
        return f"i{int(item)}"
    if isinstance(item, float) and math.isfinite(item):
        return "f" + item.hex()
    if isinstance(item, tuple):
        parts = map(item_name, item)
        return "(" + "".join(f"{len(part)}:{part}" for part in parts) + ")"
    raise InvalidArgument("items", _EXPECTED, item)


def item_order(item: Any) -> tuple[int, Any]:
    """A key that sorts numbers before texts before the rest, whatever the sample looks like."""
    if isinstance(item, (bool, int, float)):
        return (0, item)
    return (1, item) if isinstance(item, str) else (2, item_name(item))


def count_items(items: Any, *, of: str) -> tuple[dict[str, Any], Counter[str], int]:
    """Each name's item, how often each name occurs, and the number of items."""
    if isinstance(items, np.ndarray):
        items = items.tolist()
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise InvalidArgument("items", f"a sequence of {_EXPECTED}", items, of=of)
    try:
        seen = Counter(items)
    except TypeError:
        raise InvalidArgument("items", f"a sequence of {_EXPECTED}", items, of=of) from None
    named: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for item, count in seen.items():
        name = item_name(item)
        named.setdefault(name, item.item() if isinstance(item, np.generic) else item)
        counts[name] += count
    return named, counts, counts.total()
