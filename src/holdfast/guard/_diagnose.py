"""What the training part says about the assumption that rows are independent.

It is for ``guard.diagnose()``, and for one warning that a guard gives if it assumes independent rows. Only
training rows are read, so a diagnosis is free. It changes no interval. It can speak against independent rows.
It cannot show that rows are independent.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from holdfast.answers import (
    MATTERS,
    SHUFFLED,
    TIMES,
    Diagnosis,
    Likeness,
    Neighbours,
    close_sentence,
    group_sentence,
    sentences_of,
)
from holdfast.dependence import Clusters
from holdfast.errors import DependenceWarning, InvalidArgument, QueryRejected
from holdfast.guard._resemblance import (
    FEWEST,
    AlongTable,
    ColumnValues,
    Pairs,
    Resemblance,
    TrainingSample,
    agreement_resemblance,
    centred_ranks,
    columns_of,
    measure_along,
    product_resemblance,
    values_of,
)
from holdfast.readings import Question, TableQuestion

if TYPE_CHECKING:
    from holdfast.engines import Rows
    from holdfast.strategies import Setup

_MOST_ROWS, _MOST_COLUMNS = 200_000, 50
# The probability of any alarm at all, if rows are independent and ids say nothing about the values.
_ALARMS = 0.001
# A column counts as an id of groups only if it has at least so many values, and at most so many rows of
# each. Groups with fewer pairs of rows than this are not looked at.
_FEWEST_GROUPS, _MOST_OF_A_GROUP, _FEWEST_PAIRS = 30, 50, 30
# An id is a measurement, and not the name of a group, if groups with neighbouring numbers have similar means:
# with this z-score in the values that are looked at, or with this correlation in another column.
_MEASURED, _CLOSELY = 2.5, 0.5
# A warning needs at least this z-score and this design effect.
_SURE, _WIDENS = 8.0, 1.5
_WARNED_LIMIT = 4.0  # the z-score of the limit that the text of a warning states
# Clusters count as shuffled if less than this share of the pairs with one id lies in one cluster.
_TOGETHER = 0.5
_WARNED_ROWS, _FEWEST_ROWS, _MOST_QUESTIONS = 20_000, 100, 8


def diagnose(setup: Setup, question: Question | None, by: str | None) -> Diagnosis:
    """Look at all columns of the training rows, or at the values of one question."""
    sample = TrainingSample.of(setup, _MOST_ROWS)
    if sample is None:
        raise QueryRejected(
            "There are no training rows to look at. Set some aside with training_share=, or give a "
            "training part with train=."
        )
    if question is not None and not isinstance(question, TableQuestion):
        raise QueryRejected("Only questions about columns can be diagnosed, such as share(age > 40).")
    schema = sample.grouped.schema
    if by is not None and (by not in schema or schema[by].kind == "other"):
        raise InvalidArgument("by", f"a column: {', '.join(schema)}", by, of="Guard.diagnose")
    names = [name for name, column in schema.items() if column.kind != "other"]
    measured = _Measurements(sample, names[:_MOST_COLUMNS], question, by)
    threshold = NormalDist().inv_cdf(1 - _ALARMS / 2 / max(1, measured.count))
    neighbours = tuple(measured.neighbours(name, threshold) for name in measured.along)
    model = None if setup.model is None else setup.model.name
    return Diagnosis(
        rows=max(sample.grouped.count, 0 if sample.ordered is None else len(sample.ordered.stretch)),
        threshold=threshold,
        neighbours=neighbours,
        clusters=measured.likenesses,
        sentences=sentences_of(
            neighbours, measured.likenesses, threshold, model, ordered=bool(sample.ordered)
        ),
        not_looked_at=tuple(names[_MOST_COLUMNS:]) if question is None else (),
    )


class _Measurements:
    """Measures each column, or the values of a question: along the table and by groups."""

    def __init__(
        self, sample: TrainingSample, names: Sequence[str], question: TableQuestion | None, by: str | None
    ) -> None:
        self._sample, self._names, self._question, self._by = sample, names, question, by

    @cached_property
    def _in_groups(self) -> dict[str, ColumnValues]:
        return self._read((self._sample.grouped,))

    def _read(self, blocks: Sequence[Rows]) -> dict[str, ColumnValues]:
        if self._question is None:
            return columns_of(blocks, self._names)
        text = self._question.text
        return {text: values_of(blocks, self._question.checked, text)}

    @cached_property
    def along(self) -> dict[str, tuple[AlongTable, ColumnValues]]:
        """What was measured along the table, by name."""
        ordered = self._sample.ordered
        if ordered is None:
            return {}
        same_rows = ordered.blocks == (self._sample.grouped,)
        columns = self._in_groups if same_rows else self._read(ordered.blocks)
        measured = {}
        for name, values in columns.items():
            along = measure_along(values, ordered.stretch)
            if along is not None:
                measured[name] = along, values
        return measured

    def neighbours(self, name: str, threshold: float) -> Neighbours:
        """The public record of what was measured along the table."""
        along, values = self.along[name]
        schema = self._sample.grouped.schema
        assert self._sample.ordered is not None
        return Neighbours(
            name=name,
            rows=len(values.codes),
            different=len(values.different[1]),
            is_time=name in schema and (schema[name].kind == "date" or bool(TIMES.search(name))),
            correlation=along.neighbours.correlation,
            z=along.neighbours.z,
            limit=threshold * along.neighbours.spread,
            nearby=0.0 if along.nearby is None else along.nearby.correlation,
            nearby_z=0.0 if along.nearby is None else along.nearby.z,
            trend=along.trend,
            trend_z=along.trend_z,
            is_sorted=along.is_sorted and max(abs(along.neighbours.z), abs(along.trend_z)) > threshold,
            gap=self._sample.ordered.gap,
            lags=along.lags,
            autocorrelation=along.autocorrelation,
        )

    @cached_property
    def _groups(self) -> dict[str, ColumnValues]:
        """The columns that distinguish groups: the column that was named, or all that look like an id."""
        rows, reads = self._sample.grouped, frozenset[str]()
        if self._by is not None:
            return columns_of((rows,), [self._by])
        if self._question is not None:
            reads = self._question.checked.reads
        columns = self._in_groups if self._question is None else columns_of((rows,), self._names)
        return {name: labels for name, labels in ids_among(rows, columns).items() if name not in reads}

    @cached_property
    def likenesses(self) -> tuple[Likeness, ...]:
        """For each id, how much rows with the same value resemble each other."""
        alike = [
            likeness(values, labels, self._sample, named=self._by is not None)
            for column, labels in self._groups.items()
            for name, values in self._in_groups.items()
            if name != column
        ]
        return tuple(pair for pair in alike if pair is not None)

    @property
    def count(self) -> int:
        """How many scores could raise an alarm."""
        return 2 * len(self.along) + len(self._groups) * len(self._in_groups)


def ids_among(rows: Rows, columns: Mapping[str, ColumnValues]) -> dict[str, ColumnValues]:
    """The columns that look like an id of groups: texts or whole numbers, many of them, few rows of each."""
    schema, chosen = rows.schema, {}
    numbers = [values for name, values in columns.items() if schema[name].kind == "number"]
    for name, labels in columns.items():
        if schema[name].kind != "text" and not schema[name].whole:
            continue
        sizes = labels.different[1]
        many = len(sizes) >= _FEWEST_GROUPS and len(labels.codes) <= _MOST_OF_A_GROUP * len(sizes)
        if not many or float((sizes * (sizes - 1)).sum()) / 2 < _FEWEST_PAIRS:
            continue
        if schema[name].whole:
            smooth = [_smooth(*_in_common(values, labels)) for values in numbers if values.name != name]
            if any(
                resemblance is not None and resemblance.z > _SURE and resemblance.correlation > _CLOSELY
                for resemblance in smooth
            ):
                continue
        chosen[name] = labels
    return chosen


def _in_common(values: ColumnValues, labels: ColumnValues) -> tuple[ColumnValues, ColumnValues]:
    """The values and the labels, in the rows that have both."""
    return values.among(labels.present), labels.among(values.present)


def _smooth(values: ColumnValues, labels: ColumnValues) -> Resemblance | None:
    """How much the means of neighbouring groups agree, in the order of their labels."""
    groups, sizes = labels.different
    means = np.bincount(groups, values.ranks, minlength=len(sizes)) / sizes
    _, which, counts = np.unique(means, return_inverse=True, return_counts=True)
    x = centred_ranks(which, counts)
    return product_resemblance(x, float((x[1:] * x[:-1]).sum()), Pairs.apart(1, [len(x)]))


def likeness(
    values: ColumnValues, labels: ColumnValues, sample: TrainingSample, *, named: bool = False
) -> Likeness | None:
    """How much rows with the same label resemble each other. None if too little is known, or if the label is
    a measurement and was not ``named`` by the caller."""
    values, labels = _in_common(values, labels)
    if len(values.codes) < FEWEST:
        return None
    (groups, sizes), x = labels.different, values.ranks
    pairs = Pairs.inside(sizes)
    if values.named:
        alike = agreement_resemblance(values.repeats, _equal_inside(values, labels), pairs)
    else:
        sums = np.bincount(groups, x)
        alike = product_resemblance(x, float(np.square(sums).sum() - np.square(x).sum()) / 2, pairs)
    if alike is None:
        return None
    if not named and not labels.named:
        smooth = _smooth(values, labels)
        if smooth is not None and smooth.z > _MEASURED:
            return None
    rows_each = 1 + float((sizes * (sizes - 1)).sum()) / len(x) / sample.share
    # The estimate can exceed 1 if large groups lie at the ends of the range. A correlation cannot.
    correlation = min(1.0, alike.correlation)
    return Likeness(
        column=labels.name,
        name=values.name,
        groups=len(sizes),
        rows_each=rows_each,
        correlation=correlation,
        z=alike.z,
        design_effect=max(0.0, 1 + (rows_each - 1) * correlation),
    )


def _equal_inside(values: ColumnValues, labels: ColumnValues) -> float:
    """How many pairs of rows of one group are equal."""
    (which, counts), (groups, _) = values.different, labels.different
    _, sizes = np.unique(groups.astype(np.int64) * len(counts) + which, return_counts=True)
    return float((sizes * (sizes - 1)).sum()) / 2


class DependenceCheck:
    """Warns once if a guard assumes independent rows and its training part clearly speaks against it.

    ``assumed`` says that nobody described how the rows depend. It also warns if the caller said that clusters
    stand one after the other, and the rows look shuffled."""

    def __init__(self, setup: Setup, *, assumed: bool) -> None:
        training = setup.training
        self._in_order = isinstance(setup.model, Clusters) and setup.model.column is None
        assumed = (assumed and setup.model is None) or (self._in_order and bool(setup.protected.units))
        placed = training is not None and training.mask is not None and not training.rows.stays
        enough = training is not None and training.rows.count >= _FEWEST_ROWS
        self._setup = setup
        self._done = not (assumed and placed and enough)
        self._lock = threading.Lock()
        self._looked_at = 0

    def look(self, questions: Iterable[Question]) -> None:
        """Look at the training values of the first few questions. Each of them reads other columns than those
        before it. Never raises, unless warnings are errors."""
        sentence = ""
        for question in questions:
            with self._lock:
                if self._done:
                    break
                sentence = self._sentence(question)
                self._done = bool(sentence) or self._looked_at >= _MOST_QUESTIONS
        if sentence:
            warnings.warn(sentence, DependenceWarning, stacklevel=_depth())

    def _sentence(self, question: Question) -> str:
        """What speaks against independent rows in the values of one question; empty if nothing does."""
        if not isinstance(question, TableQuestion):
            return ""
        self._looked_at += 1
        try:
            if self._in_order:
                return self._shuffled(question)
            sentences = [*self._along(question), *self._by_groups(question)]
        except Exception:  # The answer matters more than a hint.
            return ""
        if not sentences:
            return ""
        return f"This guard assumes independent rows. {' '.join(sentences)} guard.diagnose() shows more."

    @cached_property
    def _sample(self) -> TrainingSample:
        sample = TrainingSample.of(self._setup, _WARNED_ROWS)
        assert sample is not None
        return sample

    @cached_property
    def _columns_of_all(self) -> list[str]:
        schema = self._sample.grouped.schema
        return [name for name, column in schema.items() if column.kind != "other"][:_MOST_COLUMNS]

    @cached_property
    def _ids(self) -> dict[str, ColumnValues]:
        rows = self._sample.grouped
        return ids_among(rows, columns_of((rows,), self._columns_of_all))

    @cached_property
    def _sorted(self) -> bool:
        """Whether the table is sorted by a property that rows share, not by a time or a running number."""
        measured = _Measurements(self._sample, self._columns_of_all, None, None)
        return any(measured.neighbours(name, _WARNED_LIMIT).sorted_by_property for name in measured.along)

    def _along(self, question: TableQuestion) -> list[str]:
        measured = _Measurements(self._sample, (), question, None)
        close = [
            neighbours
            for neighbours in (measured.neighbours(name, _WARNED_LIMIT) for name in measured.along)
            if min(neighbours.z, neighbours.nearby_z) > _SURE
            and min(neighbours.correlation, neighbours.nearby) > MATTERS
        ]
        return [close_sentence(close)] if close and not close[0].is_sorted and not self._sorted else []

    def _shuffled(self, question: TableQuestion) -> str:
        """Whether rows with the same id resemble each other and lie in different clusters."""
        training = self._setup.training
        if training is None or self._sample.grouped is not training.rows:
            return ""
        clusters = training.units[0].rows.unit_codes()
        values = values_of((training.rows,), question.checked, question.text)
        for name, labels in self._ids.items():
            alike = likeness(values, labels, self._sample, named=True)
            sure = alike is not None and alike.z > _SURE and alike.design_effect > _WIDENS
            if sure and _share_together(labels, clusters[labels.present]) < _TOGETHER:
                return SHUFFLED.format(name)
        return ""

    def _by_groups(self, question: TableQuestion) -> list[str]:
        ids = {name: labels for name, labels in self._ids.items() if name not in question.checked.reads}
        if not ids:
            return []
        values = values_of((self._sample.grouped,), question.checked, question.text)
        alike = [likeness(values, labels, self._sample) for labels in ids.values()]
        sure = [
            group
            for group in alike
            if group is not None and group.z > _SURE and group.design_effect > _WIDENS
        ]
        return [group_sentence([max(sure, key=lambda group: group.design_effect)])] if sure else []


def _share_together(labels: ColumnValues, clusters: NDArray[np.int64]) -> float:
    """The share of the pairs of rows with the same label that lie in one cluster."""
    groups, sizes = labels.different
    groups_in_clusters = groups.astype(np.int64) * (int(clusters.max()) + 1) + clusters
    _, sizes_in_clusters = np.unique(groups_in_clusters, return_counts=True)
    pairs, together = (float((counts * (counts - 1)).sum()) for counts in (sizes, sizes_in_clusters))
    return together / pairs if pairs else 1.0


def _depth() -> int:
    """How many calls up the stack the code is that asked, outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "holdfast":
        frame, level = frame.f_back, level + 1
    return level
