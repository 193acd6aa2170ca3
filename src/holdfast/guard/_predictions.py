"""Predictions for the rows of a board: checked against its ids, and kept in the order of its rows."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument, QueryRejected


class Predictions:
    """What was submitted to one board, by key; in a folder if there is one, else in memory."""

    def __init__(self, ids: list[Any], keep: Path | None) -> None:
        self.ids = ids
        self._place = {str(one): place for place, one in enumerate(ids)}
        self._keep = keep
        self._held: dict[str, tuple[NDArray[Any], str]] = {}
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(cls, ids: Any, keep: str | Path | None) -> Predictions:
        """For these ids, which have to be different from each other."""
        found = np.asarray(ids).tolist()
        if len({str(one) for one in found}) != len(found):
            raise InvalidArgument(
                "labels", "a table in which every id occurs once", "repeated ids", of="Board"
            )
        return cls(found, None if keep is None else Path(keep))

    @property
    def fingerprint(self) -> str:
        """What tells these ids, in this order, from others."""
        return hashlib.sha256("\n".join(map(str, self.ids)).encode()).hexdigest()

    def take_in(self, table: Any, by: str) -> str:
        """Check that every id has one prediction, and keep them; returns the key that stands for them."""
        import pandas

        frame = table if isinstance(table, pandas.DataFrame) else pandas.DataFrame(dict(table))
        if set(frame.columns) != {"id", "prediction"}:
            found = ", ".join(map(repr, frame.columns))
            raise QueryRejected(f"A submission has the columns 'id' and 'prediction'; this one has {found}.")
        values = self._in_order([str(one) for one in frame["id"].tolist()], frame["prediction"].to_numpy())
        content = json.dumps([by, values.dtype.str, values.tolist()]).encode()
        key = hashlib.sha256(content).hexdigest()[:32]
        if self._keep is None:
            self._held[key] = (values, by)
        else:
            self._write(self._keep / f"{key}.json", content)
        return key

    def read(self, key: str) -> NDArray[Any]:
        """The predictions in the order of the board's rows."""
        return self._stored(key)[0]

    def by(self, key: str) -> str:
        """Who submitted them."""
        return self._stored(key)[1]

    def _stored(self, key: str) -> tuple[NDArray[Any], str]:
        if self._keep is None:
            found = self._held.get(key)
        else:
            path = self._keep / f"{key}.json"
            found = None
            if len(key) == 32 and key.isalnum() and path.is_file():
                by, kind, values = json.loads(path.read_bytes())
                found = (np.array(values, dtype=kind), by)
        if found is None:
            raise QueryRejected(f"There is no submission {key!r}.")
        return found

    def _in_order(self, ids: list[str], predicted: NDArray[Any]) -> NDArray[Any]:
        if predicted.dtype == object:
            predicted = predicted.astype(str)
        if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
            raise QueryRejected("A prediction is missing or not finite; give one number for every id.")
        if unknown := next((one for one in ids if one not in self._place), None):
            raise QueryRejected(f"There is no row {unknown!r} on this board.")
        if len(set(ids)) != len(ids):
            raise QueryRejected("An id occurs twice; give one prediction for every id.")
        if len(ids) != len(self.ids):
            given = set(ids)
            missing = next(one for one in self._place if one not in given)
            raise QueryRejected(f"{len(self.ids) - len(ids):,} ids have no prediction, {missing!r} for one.")
        ordered = np.empty(len(ids), dtype=predicted.dtype)
        ordered[[self._place[one] for one in ids]] = predicted
        return ordered

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        """Put the content on disk under its name, whole or not at all."""
        if path.exists():
            return
        beside = path.with_suffix(f".{os.getpid()}.new")
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
