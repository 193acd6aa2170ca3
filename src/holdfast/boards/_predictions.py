"""Predictions for the rows of a board: checked before they are scored, and kept in the order of its rows.

The check knows public facts only: the ids, the metric, and the type of the target column. It reads no label,
so a refusal costs nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.engines import Column
from holdfast.errors import InvalidArgument, QueryRejected

_NUMBERS = (bool, int, float, Decimal, np.bool_, np.integer, np.floating)
# Texts are compared in an array in which each takes as much room as the longest, so on a large board they
# must be short.
_LONGEST, _LONG_ENOUGH = 1_000, 100
_MOST_CHARACTERS = 10**8
_WHOLE = 2.0**53


@dataclass(frozen=True)
class Expected:
    """What a prediction has to be: a ``text``, or else a number; with ``unit``, one in [0, 1].

    With ``whole`` the target column can hold whole numbers (or booleans) only, by its type. Then a number
    strictly between 0 and 1 is never right, and is treated as a probability.
    """

    text: bool
    unit: bool
    whole: bool = False

    @classmethod
    def of(cls, column: Column, target: str, metric: str) -> Expected:
        """What predictions of the ``target`` have to be, by the type of its column and by the board's
        ``metric``."""
        kind = column.kind
        if metric == "brier" and kind not in ("number", "boolean"):
            raise QueryRejected(
                f"The Brier score needs labels of 0 and 1; the column {target!r} is of {kind}s."
            )
        if kind not in ("number", "boolean", "text"):
            raise QueryRejected(
                f"A board scores labels that are numbers, booleans or texts; the column {target!r} is of "
                "another kind. Write its values as texts."
            )
        whole = metric == "accuracy" and (column.whole or kind == "boolean")
        return cls(text=kind == "text", unit=metric == "brier", whole=whole)


@dataclass(frozen=True)
class Checked:
    """A submission that passed the check: a prediction for every row of the board, in their order.

    ``key`` stands for all of it: who submitted, and every prediction.
    """

    key: str
    by: str
    values: NDArray[Any]


def fingerprint_of_ids(ids: Any) -> str:
    """What distinguishes these ids, in this order, from others."""
    return hashlib.sha256("\n".join(map(str, np.asarray(ids).tolist())).encode()).hexdigest()


def require_different(ids: Any) -> None:
    """Refuse ids that a submission could not tell apart."""
    names = list(map(str, np.asarray(ids).tolist()))
    if len(set(names)) != len(names):
        raise InvalidArgument("labels", "a table in which every id occurs once", "repeated ids", of="Board")


class Predictions:
    """What was submitted to one board, by key; in a folder if there is one, else in memory."""

    def __init__(self, ids: Any, expected: Expected, keep: str | Path | None) -> None:
        self.ids: list[Any] = np.asarray(ids).tolist()
        self._expected = expected
        self._place = {str(id): place for place, id in enumerate(self.ids)}
        self._folder = None if keep is None else Path(keep)
        self._in_memory: dict[str, Checked] = {}
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def check(self, table: Any, by: str) -> Checked:
        """Refuse a table that is no submission to this board; nothing is kept yet."""
        frame = _two_columns(table)
        places = self._places([str(id) for id in frame["id"].tolist()])
        values = self._checked_values(self._plain(frame["prediction"].set_axis(places).sort_index()))
        self._refuse_probabilities(values)
        return Checked(_key(_content(by, values)), by, values)

    def keep(self, submission: Checked) -> None:
        """Keep a submission, so that its key is enough from now on."""
        if self._folder is None:
            self._in_memory[submission.key] = submission
        else:
            content = _content(submission.by, submission.values)
            self._write(self._folder / f"{submission.key}.json", content)

    def read(self, key: str) -> Checked:
        """A submission that was kept, checked again."""
        submission = self._in_memory.get(key) if self._folder is None else self._stored(self._folder, key)
        if submission is None:
            raise QueryRejected(f"There is no submission {key!r}.")
        self._checked_values(submission.values)
        return submission

    @staticmethod
    def _stored(folder: Path, key: str) -> Checked | None:
        path = folder / f"{key}.json"
        if not (len(key) == 32 and key.isalnum() and path.is_file()):
            return None
        content = path.read_bytes()
        if _key(content) != key:
            raise QueryRejected(f"The submission {key!r} is not what was submitted: its file was changed.")
        by, kind, values = json.loads(content)
        return Checked(key, by, np.array(values, dtype=kind))

    def _places(self, ids: list[str]) -> list[int]:
        """Where each id stands on the board."""
        unknown = next((id for id in ids if id not in self._place), None)
        if unknown is not None:
            raise QueryRejected(
                f"There is no row {unknown!r} on this board. Send the ids that the board gave you."
            )
        if len(set(ids)) != len(ids):
            (repeated, _), *_ = Counter(ids).most_common(1)
            raise QueryRejected(f"Id {repeated} occurs twice. Give one prediction for every id.")
        if len(ids) != len(self.ids):
            given_ids = set(ids)
            missing = next(id for id in self.ids if str(id) not in given_ids)
            count = len(self.ids) - len(ids)
            have = "1 id has" if count == 1 else f"{count:,} ids have"
            raise QueryRejected(f"{have} no prediction, for example id {missing!r}.")
        return [self._place[id] for id in ids]

    def _plain(self, column: Any) -> NDArray[Any]:
        """Numbers as whole numbers or floats, texts as texts, however they were stored."""
        self._refuse(np.asarray(column.isna()), "is missing or not finite; give one prediction for every id")
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
            return self._numbers(column.to_numpy())
        values = column.tolist()
        texts = np.array([isinstance(value, str) for value in values])
        if texts.all():
            longest = min(_LONGEST, max(_LONG_ENOUGH, _MOST_CHARACTERS // max(1, len(values))))
            long = np.array([len(value) > longest for value in values])
            self._refuse(long, f"is too long: at most {longest:,} characters")
            return np.array(values)
        odd = np.array([not isinstance(value, _NUMBERS) for value in values])
        self._refuse(odd, f"is not {self._kind}; give one for every id")
        try:
            all_whole = all(isinstance(value, (bool, int, np.bool_, np.integer)) for value in values)
            return self._numbers(np.array(values, dtype=np.int64 if all_whole else np.float64))
        except OverflowError:
            raise QueryRejected("A prediction is a whole number that does not fit into 64 bits.") from None

    def _numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """The same numbers in the same form: whole where all are."""
        if values.dtype.kind != "f":
            fits = values.dtype != np.uint64 or not np.any(values >> np.uint64(63))
            return values.astype(np.int64) if fits else values
        numbers = values.astype(np.float64)
        self._refuse(~np.isfinite(numbers), "is missing or not finite; give one prediction for every id")
        all_whole = np.all(np.abs(numbers) < _WHOLE) and np.all(numbers == np.floor(numbers))
        return numbers.astype(np.int64) if all_whole else numbers + 0.0  # −0.0 becomes 0.0.

    def _checked_values(self, values: NDArray[Any]) -> NDArray[Any]:
        """Refuse predictions of another kind than the labels, and probabilities that are none."""
        if (values.dtype.kind == "U") != self._expected.text:
            got = "texts" if values.dtype.kind == "U" else "numbers"
            raise QueryRejected(f"Each prediction has to be {self._kind}, as the labels are; got {got}.")
        if self._expected.unit:
            self._refuse(~((values >= 0) & (values <= 1)), "is not a probability; give a number in [0, 1]")
        return values

    def _refuse_probabilities(self, values: NDArray[Any]) -> None:
        """Refuse numbers between 0 and 1 where labels are whole by type. Submissions that were kept before
        this was checked stay valid, so it is not part of :meth:`_checked_values`."""
        if not self._expected.whole or values.dtype.kind != "f":
            return
        between = (values > 0) & (values < 1)
        if between.any():
            place = int(np.argmax(between))
            raise QueryRejected(
                "This board scores accuracy: send labels (for example 0 or 1), not probabilities. The "
                f"prediction for id {self.ids[place]!r} is {float(values[place])!r}."
            )

    @property
    def _kind(self) -> str:
        return "a text" if self._expected.text else "a number"

    def _refuse(self, wrong: NDArray[np.bool_], words: str) -> None:
        """Refuse a submission for its predictions that are ``wrong``, if there are any."""
        if wrong.any():
            raise QueryRejected(f"The prediction for id {self.ids[int(np.argmax(wrong))]!r} {words}.")

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        """Put the content on disk under its name, whole or not at all."""
        if path.exists():
            return
        temporary = path.with_suffix(f".{os.getpid()}.new")
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def _two_columns(table: Any) -> Any:
    import pandas

    try:
        frame = table if isinstance(table, pandas.DataFrame) else pandas.DataFrame(dict(table))
    except (TypeError, ValueError):
        raise QueryRejected(
            "A submission is a table with the columns 'id' and 'prediction', of the same length."
        ) from None
    if sorted(map(str, frame.columns)) != ["id", "prediction"]:
        columns = ", ".join(map(repr, frame.columns))
        raise QueryRejected(f"A submission has the columns 'id' and 'prediction'; this one has {columns}.")
    return frame


def _content(by: str, values: NDArray[Any]) -> bytes:
    return json.dumps([by, values.dtype.str, values.tolist()]).encode()


def _key(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
