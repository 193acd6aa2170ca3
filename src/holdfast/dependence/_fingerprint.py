"""A digest of what a model says about the rows: the same for equal models, however they were given."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers are rounded to so many binary digits (about twelve decimal ones), so that dividing a row by its sum
# once more, or another machine's logarithm, does not make another model.
_DIGITS = 40


def fingerprint_of(name: str, content: Iterable[Any]) -> str:
    """SHA-256 of a model's name and content, in hexadecimal digits.

    ``content`` may hold None, texts, whole numbers, floats, arrays of numbers and sequences of these.
    """
    digest = hashlib.sha256()
    for item in (name, *content):
        _add(digest, item)
    return digest.hexdigest()


def _add(digest: Any, item: Any) -> None:
    """Add one item: what it is, how long it is, and its bytes; no two contents give the same bytes."""
    if isinstance(item, (list, tuple)) and not _whole(item):
        digest.update(f"sequence {len(item)} ".encode())
        for member in item:
            _add(digest, member)
        return
    if isinstance(item, (list, tuple, np.ndarray)):
        array = np.asarray(item)
        whole = array.dtype.kind in "iub"
        kind, plain = ("whole", array.astype("<i8")) if whole else ("real", rounded(array))
        digest.update(f"{kind} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(plain).tobytes())
        return
    if isinstance(item, (float, np.floating)):
        _add(digest, np.array([item]))
        return
    text = repr(int(item)) if isinstance(item, (int, np.integer)) else repr(item)
    data = text.encode()
    digest.update(f"{type(item).__name__ if isinstance(item, str) else 'plain'} {len(data)} ".encode())
    digest.update(data)


def _whole(items: Any) -> bool:
    """Whether a sequence holds whole numbers that fit into eight bytes, as the sizes of clusters do."""
    return bool(items) and all(type(item) is int and abs(item) < 2**63 for item in items)


def rounded(values: Any) -> NDArray[np.float64]:
    """Numbers with 40 binary digits each; zero without a sign."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype="<f8"))
    scale = 2.0**_DIGITS
    shortened: NDArray[np.float64] = np.ldexp(np.round(mantissa * scale) / scale, exponent) + 0.0
    return shortened
