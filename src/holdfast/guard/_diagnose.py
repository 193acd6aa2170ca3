"""What the training part says about the assumption that rows are independent: for ``guard.diagnose()``, and
for one warning where a guard assumes it.

Everything is read off training rows, so it is free. Nothing here changes an interval: a diagnosis can speak
against independent rows, and it cannot show that rows are independent.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from holdfast.errors import DependenceWarning, InvalidArgument, QueryRejected
from holdfast.guard._diagnosis import (
    MATTERS,
    Diagnosis,
    Likeness,
    Neighbours,
    close_sentence,
    group_sentence,
    sentences_of,
)
from holdfast.guard._looked_at import FEWEST, Looked, Seen, Values, columns_of, look_along, repeats, values_of
from holdfast.guard._pairs import (
    Floats,
    Pairs,
    Whole,
    agreement_resemblance,
    centred_ranks,
    product_resemblance,
)
from holdfast.guard._question import Question, TableQuestion

if TYPE_CHECKING:
    from holdfast.engines import Rows
    from holdfast.guard._setup import Setup

_MOST_ROWS, _MOST_COLUMNS = 200_000, 50
# With independent rows, and ids that say nothing about the values, anything is said with this probability.
_ALARMS = 0.001
# A column with fewer values, or with more rows of each, is a property of rows and not an id of groups; and
# groups that have fewer pairs of rows tell nothing.
_FEWEST_GROUPS, _MOST_OF_A_GROUP, _FEWEST_PAIRS = 30, 50, 30
# Means of groups that go with the number of the group as closely as this (z): the number is a measurement.
_MEASURED = 4.0
# A warning needs so large a z-score and design effect; it looks at so many rows and questions.
_SURE, _WIDENS = 8.0, 1.5
_WARNED_LIMIT = 4.0  # the z-score of the limit that a warning tells
_WARNED_ROWS, _FEWEST_ROWS, _MOST_QUESTIONS = 20_000, 100, 8


def diagnosed(setup: Setup, question: Question | None, by: str | None) -> Diagnosis:
    """Look at all columns of the training rows, or at the values of one question."""
    looked = Looked.of(setup, _MOST_ROWS)
    if looked is None:
        raise QueryRejected(
            "There are no training rows to look at. Set some aside with training_share=, or give a "
            "training part with train=."
        )
    if question is not None and not isinstance(question, TableQuestion):
        raise QueryRejected("Only questions about columns can be diagnosed, such as share(age > 40).")
    schema = looked.grouped.schema
    if by is not None and (by not in schema or schema[by].kind == "other"):
        raise InvalidArgument("by", f"a column: {', '.join(schema)}", by, of="Guard.diagnose")
    names = [name for name, column in schema.items() if column.kind != "other"]
    looks = _Looks(looked, names[:_MOST_COLUMNS], question, by)
    threshold = NormalDist().inv_cdf(1 - _ALARMS / 2 / max(1, 2 * len(looks.along) + len(looks.likenesses)))
    neighbours = tuple(looks.neighbours(name, threshold) for name in looks.along)
    model = None if setup.model is None else setup.model.name
    return Diagnosis(
        rows=max(looked.grouped.count, 0 if looked.ordered is None else len(looked.ordered.stretch)),
        threshold=threshold,
        neighbours=neighbours,
        clusters=looks.likenesses,
        sentences=sentences_of(neighbours, looks.likenesses, threshold, model, ordered=bool(looked.ordered)),
        not_looked_at=tuple(names[_MOST_COLUMNS:]) if question is None else (),
    )


class _Looks:
    """What is seen in each column or in a question's values, along the table and by groups."""

    def __init__(
        self, looked: Looked, names: Sequence[str], question: TableQuestion | None, by: str | None
    ) -> None:
        self._looked, self._names, self._question, self._by = looked, names, question, by

    @cached_property
    def _in_groups(self) -> dict[str, Values]:
        return self._read((self._looked.grouped,))

    def _read(self, blocks: Sequence[Rows]) -> dict[str, Values]:
        if self._question is None:
            return columns_of(blocks, self._names)
        text = self._question.text
        return {text: values_of(blocks, self._question.checked, text)}

    @cached_property
    def along(self) -> dict[str, tuple[Seen, int]]:
        """What was seen along the table, by name."""
        ordered = self._looked.ordered
        if ordered is None:
            return {}
        same = ordered.blocks == (self._looked.grouped,)
        read = self._in_groups if same else self._read(ordered.blocks)
        seen = {
            name: (look_along(values, ordered.stretch), len(values.codes)) for name, values in read.items()
        }
        return {name: (one, rows) for name, (one, rows) in seen.items() if one is not None}

    def neighbours(self, name: str, threshold: float) -> Neighbours:
        """The public record of what was seen along the table."""
        seen, rows = self.along[name]
        assert self._looked.ordered is not None
        return Neighbours(
            name=name,
            rows=rows,
            correlation=seen.neighbours.correlation,
            z=seen.neighbours.z,
            limit=threshold * seen.neighbours.spread,
            nearby=0.0 if seen.nearby is None else seen.nearby.correlation,
            nearby_z=0.0 if seen.nearby is None else seen.nearby.z,
            trend=seen.trend,
            trend_z=seen.trend_z,
            is_sorted=seen.is_sorted and max(abs(seen.neighbours.z), abs(seen.trend_z)) > threshold,
            gap=self._looked.ordered.gap,
            lags=seen.lags,
            autocorrelation=seen.autocorrelation,
        )

    @cached_property
    def likenesses(self) -> tuple[Likeness, ...]:
        """By each id, what rows with the same value have in common."""
        reads = frozenset() if self._question is None else self._question.checked.reads
        if self._by is not None:
            groups = columns_of((self._looked.grouped,), [self._by])
        else:
            groups = ids_among(self._looked.grouped, self._names)
        found = []
        for column, labels in groups.items():
            for name, values in self._in_groups.items():
                if name != column and (column not in reads or self._by is not None):
                    found.append(likeness(values, labels, self._looked, measured=self._by is not None))
        return tuple(one for one in found if one is not None)


def ids_among(rows: Rows, names: Iterable[str]) -> dict[str, Values]:
    """The columns that look like an id of groups: texts or whole numbers, many of them, few rows of each."""
    schema = rows.schema
    named = [name for name in names if schema[name].kind == "text" or schema[name].whole]
    columns = columns_of((rows,), named[:_MOST_COLUMNS]) if named else {}
    chosen = {}
    for name, values in columns.items():
        _, sizes = np.unique(values.codes, return_counts=True)
        pairs = float((sizes * (sizes - 1)).sum()) / 2
        many = len(sizes) >= _FEWEST_GROUPS and len(values.codes) <= _MOST_OF_A_GROUP * len(sizes)
        if many and pairs >= _FEWEST_PAIRS:
            chosen[name] = values
    return chosen


def likeness(values: Values, labels: Values, looked: Looked, *, measured: bool = False) -> Likeness | None:
    """What rows with the same label have in common; None where nothing can be said, or where a numbered label
    is a measurement, because numbers near each other go with like values; not with ``measured``."""
    both = values.present & labels.present
    codes, label = values.codes[both[values.present]], labels.codes[both[labels.present]]
    if len(codes) < FEWEST:
        return None
    _, groups, sizes = np.unique(label, return_inverse=True, return_counts=True)
    x, pairs = centred_ranks(codes), Pairs.inside(sizes)
    sums = np.bincount(groups, x)
    if values.named:
        alike = agreement_resemblance(repeats(codes), _equal_inside(codes, groups), pairs)
    else:
        alike = product_resemblance(x, float(sums @ sums - x @ x) / 2, pairs)
    if alike is None:
        return None
    if not measured and not labels.named:
        means = centred_ranks(sums / sizes)
        line = Pairs.apart(1, [len(means)])
        smooth = product_resemblance(means, float(means[1:] @ means[:-1]), line)
        if smooth is not None and smooth.z > _MEASURED:
            return None
    others = float((sizes * (sizes - 1)).sum()) / len(codes)
    rows_each = 1 + others / looked.share
    return Likeness(
        column=labels.name,
        name=values.name,
        groups=len(sizes),
        rows_each=rows_each,
        correlation=alike.correlation,
        z=alike.z,
        design_effect=max(0.0, 1 + (rows_each - 1) * alike.correlation),
    )


def _equal_inside(codes: Floats, groups: Whole) -> float:
    """How many pairs of rows of one group are equal."""
    _, code = np.unique(codes, return_inverse=True)
    _, counts = np.unique(groups.astype(np.int64) * (int(code.max()) + 1) + code, return_counts=True)
    return float((counts * (counts - 1)).sum()) / 2


class Doubts:
    """Warns once where a guard takes rows for independent and its training part clearly speaks against it."""

    def __init__(self, setup: Setup, strategy: str) -> None:
        training = setup.training
        assumed = strategy == "code" and setup.model is None
        placed = training is not None and training.mask is not None and not training.rows.stays
        enough = training is not None and training.rows.count >= _FEWEST_ROWS
        self._setup = setup
        self._done = not (assumed and placed and enough)
        self._lock = threading.Lock()
        self._columns: set[frozenset[str]] = set()

    def look(self, questions: Iterable[Question]) -> None:
        """Look at the training values of the first few new questions; never raises, unless warnings do."""
        sentence = ""
        for question in questions:
            with self._lock:
                if self._done:
                    break
                sentence = self._sentence(question)
                self._done = bool(sentence) or len(self._columns) >= _MOST_QUESTIONS
        if sentence:
            warnings.warn(sentence, DependenceWarning, stacklevel=_depth())

    def _sentence(self, question: Question) -> str:
        """What speaks against independent rows in the values of one question; empty where nothing does, or
        where its columns were looked at before."""
        if not isinstance(question, TableQuestion) or question.checked.reads in self._columns:
            return ""
        self._columns.add(question.checked.reads)
        try:
            told = [*self._along(question), *self._by_groups(question)]
        except Exception:  # A hint is not worth failing for.
            return ""
        if not told:
            return ""
        return f"This guard takes rows for independent. {' '.join(told)} guard.diagnose() shows more."

    @cached_property
    def _looked(self) -> Looked:
        looked = Looked.of(self._setup, _WARNED_ROWS)
        assert looked is not None
        return looked

    @cached_property
    def _ids(self) -> dict[str, Values]:
        rows = self._looked.grouped
        return ids_among(rows, [name for name, column in rows.schema.items() if column.kind != "other"])

    def _along(self, question: TableQuestion) -> list[str]:
        looks = _Looks(self._looked, (), question, None)
        seen = [looks.neighbours(name, _WARNED_LIMIT) for name in looks.along]
        return [
            close_sentence([one])
            for one in seen
            if min(one.z, one.nearby_z) > _SURE and min(one.correlation, one.nearby) > MATTERS
            if not one.is_sorted
        ]

    def _by_groups(self, question: TableQuestion) -> list[str]:
        ids = {name: labels for name, labels in self._ids.items() if name not in question.checked.reads}
        if not ids:
            return []
        values = values_of((self._looked.grouped,), question.checked, question.text)
        alike = [likeness(values, labels, self._looked) for labels in ids.values()]
        sure = [one for one in alike if one is not None and one.z > _SURE and one.design_effect > _WIDENS]
        return [group_sentence([max(sure, key=lambda one: one.design_effect)])] if sure else []


def _depth() -> int:
    """How many calls up from its caller the code is that asked, outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "holdfast":
        frame, level = frame.f_back, level + 1
    return level
