"""Whether two results are exactly the same, told by a text that writes down all there is to a result."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from holdfast.errors import InvalidArgument

_LONGEST = 200


def key(value: Any) -> str:
    """A text that is the same for two results exactly when they are the same.

    Numbers count by their value (1 is 1.0, NaN is NaN), arrays by kind, shape and every bit, sets without
    order. A result that carries a guarantee stands for its value. Long texts are shortened to a digest.
    """
    text = _written(value)
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()


def _written(value: Any) -> str:
    if value is None or isinstance(value, (bool, np.bool_, str, bytes)):
        return repr(bool(value) if isinstance(value, np.bool_) else value)
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if hasattr(value, "guarantee") and hasattr(value, "value"):
        return _written(value.value)
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{_written(k)}: {_written(v)}" for k, v in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(_written, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_written, value)) + "]"
    if is_dataclass(value) and not isinstance(value, type):
        inside = ", ".join(f"{f.name}={_written(getattr(value, f.name))}" for f in fields(value) if f.compare)
        return f"{type(value).__qualname__}({inside})"
    if hasattr(value, "to_numpy"):  # a data frame or a series
        names = list(getattr(value, "columns", [getattr(value, "name", None)]))
        return f"frame({_written(names)}, {_written(value.to_numpy().tolist())})"
    return _pickled(value)


def _array(values: np.ndarray[Any, Any]) -> str:
    if values.ndim == 0:
        return _written(values.item())
    if values.dtype.kind not in "fiub" or values.size <= 8:
        return f"array{values.shape}{_written(values.ravel().tolist())}"
    wide = values.astype(np.float64) + 0.0 if values.dtype.kind == "f" else values.astype(np.int64)
    digest = hashlib.sha256(np.ascontiguousarray(wide).tobytes()).hexdigest()
    return f"array{values.shape}{values.dtype.kind in 'f'}{digest}"


def _pickled(value: Any) -> str:
    try:
        return f"{type(value).__qualname__}:{hashlib.sha256(pickle.dumps(value)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError):
        raise InvalidArgument(
            "result", "numbers, texts, arrays or records, or what pickle can write", value, of="audit"
        ) from None
