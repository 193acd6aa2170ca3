"""Predictions as they are compared with a column: numbers or texts, however they were stored."""

from __future__ import annotations

from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import QueryRejected

# Whole numbers up to this one are floats that differ.
_EXACT = 2**53


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are missing."""
    import pandas

    return np.asarray(pandas.isna(values))


def as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    """Numbers and booleans as floats, missing ones as NaN."""
    if values.dtype != object:
        return values.astype(np.float64)
    rows = zip(values, is_missing(values), strict=True)
    return np.array([np.nan if missing else float(value) for value, missing in rows])


def comparable(kind: str, stored: str) -> bool:
    """Whether values of a kind can equal those of a column. What is neither number nor text is compared as it
    is."""
    equal = {"number": ("number", "boolean", "other"), "text": ("text", "other"), "other": ("date", "other")}
    return stored in equal[kind]


def kind_of_values(values: NDArray[Any]) -> str:
    """ "number" (booleans too), "text" or "other"."""
    if values.dtype.kind in "biuf":
        return "number"
    if values.dtype.kind in "US":
        return "text"
    for kind, types in (("text", str), ("number", Real)):
        if values.dtype == object and all(isinstance(value, types) for value in values):
            return kind
    return "other"


def of_one_kind(predictions: Any) -> NDArray[Any]:
    """Numbers as floats, and texts no longer than they are, so that the same predictions are the same
    question however they are stored. Whole numbers stay whole where floats that are equal would hide that
    they differ."""
    values = np.asarray(predictions)
    if values.dtype == object or isinstance(predictions, (list, tuple)):
        values = _of_python_values(values, list(predictions))
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    if values.dtype.kind not in "biuf":
        return np.array(values.astype(str).tolist())
    numbers = values.astype(np.float64) + 0.0  # one zero
    return values if values.dtype.kind in "iu" and np.any(np.abs(numbers) >= _EXACT) else numbers


def _of_python_values(values: NDArray[Any], listed: list[Any]) -> NDArray[Any]:
    """The array of a list: numpy makes floats of whole numbers that it cannot store together, and texts of
    whatever comes with a text."""
    if any(isinstance(value, int) and abs(value) > _EXACT for value in listed):
        for whole in (np.int64, np.uint64):
            if all(isinstance(value, (int, np.integer)) for value in listed):
                with suppress(OverflowError):
                    return np.array(listed, dtype=whole)
        raise QueryRejected(
            "Some predictions are whole numbers that a column of 64 bits cannot hold together with the rest. "
            "Whole numbers up to 2**53 can be mixed with others; give longer ids as texts."
        )
    if values.dtype.kind not in "OUS":
        return values
    if all(isinstance(value, str) for value in listed):
        return np.array(listed)
    if all(isinstance(value, (Real, np.bool_)) for value in listed):
        with suppress(OverflowError):
            return np.array(listed, dtype=np.float64)
    if values.dtype == object and all(hasattr(value, "isoformat") for value in listed):
        return np.array(listed, dtype="datetime64[us]")
    raise QueryRejected(
        "Some predictions are missing, or of another kind than the rest. Give a number for each row, or a "
        "text for each row."
    )
