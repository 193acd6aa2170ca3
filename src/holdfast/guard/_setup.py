"""Before the first question: open the rows, set the training part aside, check that the columns of both
parts agree, and write down what is public."""

from __future__ import annotations

import glob
import hashlib
import hmac
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.asking import LAYOUTS, ORDER
from holdfast.dependence import Clusters, Dependence, Independent, Layout, Mixing, Split
from holdfast.engines import Rows, Schema, open_rows
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.readings import Part, Question, repeated_rows
from holdfast.strategies import Setup

_PILOT_ROWS = 20_000
# Of a file that is too large to be copied, this many bytes at its end are read.
_END = 1 << 18
KEYED = "keyed "
"""How a digest of content begins in a book."""
# A seed also decides these, each by draws of its own.
_FOR_ORDER, _FOR_FEW = 1, 2

_SAME_LAW = "The rows are a random sample of the population that the answers are about."
_PUBLIC = (
    "The columns, their types and the number of rows are public. Types that a table does not state (CSV, "
    "columns of objects) were inferred from all rows. We assume that new data would have the same types."
)
_PUBLIC_CATEGORIES = (
    "The categories of {} are public: they were declared without looking at the protected rows."
)
_UNCHANGED = (
    "The protected rows stay in {} and do not change there. Changed files and numbers of rows are noticed; a "
    "value that is overwritten in a table is not."
)
_BY_PLACE = "Which rows are protected was decided by their place in the files, without looking at them."
_BY_KEY = (
    "Which rows are protected was decided by the column {0!r}, which says nothing about the other columns "
    "and cannot be asked about. How often each of its values occurs is public."
)
_AFTER_TRAINING = (
    "The rows come right after the training rows, in one series. The first {:,} of them are left out, so "
    "that the training rows say almost nothing about the others."
)
_BLOCKS = (
    "Answers may be read off blocks of rows, in {0} ways of cutting the series. Blocks are not quite "
    "independent: for that, {1:.2g} of the error probability is set aside for all questions together."
)
_MODEL = "The model of the rows, with its parameters, is: {}."
_QUESTIONS = (
    "Nobody who asks has seen the protected rows: questions come from released answers, from the training "
    "rows, or from elsewhere. How long an answer takes is not protected."
)

_KIND = {
    "number": "a number",
    "boolean": "true or false",
    "text": "text",
    "date": "a date",
    "other": "of a kind that cannot be computed with",
}


@dataclass(frozen=True)
class _Parts:
    """Which rows are protected and which are not, and the facts behind that."""

    protected: Part
    training: Part | None
    model: Dependence
    facts: dict[str, Any]
    bias: float = 0.0
    assumptions: tuple[str, ...] = ()


def set_up(
    data: Any,
    train: Any,
    dependence: Dependence | None,
    *,
    failure: float,
    share: float,
    seed: int,
    split_by: str | None = None,
    seconds: float | None = None,
    public_categories: bool | Collection[str] = False,
    shuffled: bool = False,
    in_units: bool = False,
    blocks: bool = True,
) -> Setup:
    """Open ``data`` and choose the training part. It is the caller's, or a share of the rows by a key or by
    the rule of the model ("The training part" in ``docs/theory/code-guard.md``). If ``shuffled``, the
    protected rows are put into a random order. With ``in_units`` the rows are also divided into independent
    units, if the model has any: clusters, or with ``blocks`` several layouts of blocks."""
    if dependence is not None and not isinstance(dependence, Dependence):
        raise InvalidArgument(
            "dependence", "a model from holdfast.dependence, or None", dependence, of="Guard"
        )
    if isinstance(train, int | float):
        raise InvalidArgument(
            "train", "a table, or None; for a share of the rows, write training_share=0.25", train, of="Guard"
        )
    if split_by is not None and (train is not None or share == 0):
        raise InvalidArgument(
            "split_by", "left out where no share of the rows is set aside", split_by, of="Guard"
        )
    rows = open_rows(data, public_categories=public_categories)
    model = model_of(rows, dependence, split_by)
    facts: dict[str, Any] = {
        "data": Content.of(data, rows),
        "dependence": repr(model),
        "model": {
            "fingerprint": model.fingerprint,
            "assumed": list(model.extra_assumptions),
            **_declared_model(model),
        },
    }
    described = () if isinstance(model, Independent) else (_MODEL.format(model.description),)
    if model.failure and train is None and share > 0:
        raise QueryRejected(
            f"A {model.name} was fitted to rows that must not be protected. Give those rows as train=, and "
            "as data the rows that come after them: Guard(later, train=fitted, dependence=model)."
        )
    if train is not None:
        parts = _with_given(rows, train, model, failure)
    elif share == 0:
        parts = _Parts(_whole(rows), None, model, {"share": 0})
    elif split_by is None and rows.has_order and (rows.is_small or not rows.stays):
        parts = _split(rows, model, share, seed, failure)
    else:
        parts = _split_in_place(rows, model, share, seed, split_by)
    protected, training, whole_model, model = parts.protected, parts.training, model, parts.model
    layouts = model.layouts(failure) if in_units and blocks and not protected.rows.stays else ()
    price = sum(layout.price for layout in layouts)
    besides = {"charged for blocks": price, "charged for the fit": model.failure}
    if layouts:
        facts[LAYOUTS] = [[layout.length, layout.gap] for layout in layouts]
        described = (*described, _BLOCKS.format(len(layouts), price))
    facts["training"] = parts.facts
    if shuffled and isinstance(model, Independent):
        protected, facts[ORDER] = _shuffled(protected, seed)
    if training is not None and training.mask is not None and protected.mask is not None:
        facts["parts"] = _places(training.mask, protected.mask)
    if rows.public_categories:
        facts["public_categories"] = sorted(rows.public_categories)
    facts |= {"rows": protected.rows.count, "training_rows": training.rows.count if training else 0}
    nullable = training.rows.nullable_columns() if training else frozenset()
    # A few training rows, for facts other than the guess.
    pilot = None if training is None else random_few(training, _PILOT_ROWS, seed)
    for part in (protected, training, pilot):
        if part is not None:
            part.rows.limit(seconds)
    if in_units:
        protected, training = with_units(protected, training, model, whole_model, layouts)
    for part in (protected, *protected.units):
        part.rows.seal()
    assumptions = (
        *model.assumptions,
        *described,
        *parts.assumptions,
        *_staying(protected.rows),
        *(repeated_rows(training.rows) if training and isinstance(model, Independent) else ()),
        _SAME_LAW,
        _PUBLIC,
        *_declared(rows),
        _QUESTIONS,
    )
    return Setup(
        protected=protected,
        training=training,
        pilot=pilot,
        model=None if isinstance(model, Independent) else model,
        bias=parts.bias + sum(besides.values()),
        assumptions=tuple(dict.fromkeys(assumptions)),
        nullable=nullable,
        facts=facts,
        besides={words: charge for words, charge in besides.items() if charge},
    )


def _whole(rows: Rows) -> Part:
    return Part(rows.settled(), training=False, data_rows=rows.count)


def _with_given(rows: Rows, train: Any, model: Dependence, failure: float) -> _Parts:
    """The caller's training part. It is copied if it is small, or if its engine is not that of the protected
    rows. In a series it comes before the protected rows, so a gap is left out of those."""
    training_rows = open_rows(train)
    require_columns(training_rows.schema, "the training part", rows.schema, "the data")
    if model.fitted_rows > training_rows.count:
        raise QueryRejected(
            f"The chain was fitted to {model.fitted_rows:,} rows, and the training part has "
            f"{training_rows.count:,}. Rows that a model is fitted to must not be protected: give all of "
            "them as train=."
        )
    facts = {"given": Content.of(train, training_rows)}
    alike = type(training_rows.schema.dialect) is type(rows.schema.dialect)
    training_rows = training_rows.stored() if training_rows.is_small or not alike else training_rows.settled()
    training = Part(training_rows, training=True, data_rows=rows.count)
    if not model.follows_training:
        return _Parts(_whole(rows), training, model.protected_only(), facts)
    fresh = model.fresh(failure)
    if not fresh.dropped:
        protected = _whole(rows)
    else:
        protected_rows = rows.split(~fresh.protected, fresh.protected)[1]
        protected = Part(protected_rows, training=False, data_rows=rows.count, mask=fresh.protected)
    assumption = _AFTER_TRAINING.format(fresh.dropped)
    return _Parts(protected, training, fresh.protected_model, facts, fresh.bias, (assumption,))


def model_of(rows: Rows, dependence: Dependence | None, split_by: str | None = None) -> Dependence:
    """The model of these rows. Rows with the same value of ``split_by`` are clusters, unless the caller
    says otherwise. A model of independent rows is refused then."""
    if isinstance(dependence, Clusters) and dependence.column is not None:
        if split_by not in (None, dependence.column):
            raise InvalidArgument(
                "split_by",
                f"left out, or the column that names the clusters, {dependence.column!r}: a cluster goes to "
                "one part as a whole",
                split_by,
                of="Guard",
            )
        return _with_sizes(rows, dependence)
    if split_by is None:
        return Independent(rows.count) if dependence is None else dependence.with_rows(rows.count)
    clusters = _with_sizes(rows, Clusters(column=split_by))
    if clusters.most == 1:
        return Independent(rows.count) if dependence is None else dependence.with_rows(rows.count)
    if dependence is None:
        return clusters
    if isinstance(dependence, Independent):
        raise QueryRejected(
            f"The column {split_by!r} repeats: {rows.count:,} rows have {len(clusters.cluster_sizes):,} "
            f"values, and one value has {clusters.most:,} rows. Rows with one value may resemble each other, "
            "and the model says that rows are independent. Leave dependence out to make them clusters by "
            f"{split_by!r}; or split by a column in which every row has its own value."
        )
    return dependence.with_rows(rows.count)


def _declared_model(model: Dependence) -> dict[str, Any]:
    """The options that state the same model again when the account is continued, if a word can."""
    if isinstance(model, Clusters) and model.column is not None:
        return {"clusters": model.column}
    if isinstance(model, Mixing) and model.constant == 1.0:
        return {"mixing": model.rate}
    return {}


def _with_sizes(rows: Rows, clusters: Clusters) -> Clusters:
    """Clusters that a column names, once it has been read."""
    sizes = rows.in_clusters(str(clusters.column)).unit_sizes()
    if sizes.count < 2 or 2 * sizes.largest > rows.count:
        raise QueryRejected(
            f"{sizes.largest:,} of {rows.count:,} rows have the same {clusters.column!r}. An interval rests "
            "on many independent clusters, and one with most of the rows leaves nothing to compare it with. "
            "Name a column with smaller clusters, or leave the large one out."
        )
    return clusters.with_sizes(sizes.listed)


def _split(rows: Rows, model: Dependence, share: float, seed: int, failure: float) -> _Parts:
    """A share of the rows in memory, by the model's own rule."""
    if rows.count < 4:
        raise NotEnoughRows(4, rows.count, what="A guard that sets its own training part aside")
    split = _split_of(rows, model, share, np.random.default_rng(seed), failure)
    training, protected = rows.split(split.train, split.protected)
    return _Parts(
        Part(protected, training=False, data_rows=rows.count, mask=split.protected),
        Part(training, training=True, data_rows=rows.count, mask=split.train),
        split.protected_model,
        {"share": share, "seed": seed},
        split.bias,
        split.assumptions,
    )


def _split_of(rows: Rows, model: Dependence, share: float, rng: np.random.Generator, failure: float) -> Split:
    if isinstance(model, Clusters) and model.column is not None:
        return model.split_by_codes(rows.in_clusters(model.column).unit_codes(), share, rng)
    return model.split(share, rng, failure)


def _split_in_place(rows: Rows, model: Dependence, share: float, seed: int, key: str | None) -> _Parts:
    """A share of rows that stay where they are. For independent rows, any choice made without the data is
    valid. All rows of a cluster go to the same part, and no list of the rows is needed."""
    clusters = isinstance(model, Clusters) and model.column is not None
    if not (clusters or isinstance(model, Independent)):
        raise QueryRejected(
            f"Rows in {rows.where or 'memory'} are set aside row by row, which {model.name} do not allow; "
            "give a training part with train=, or set none aside with training_share=0."
        )
    key = model.column if isinstance(model, Clusters) and clusters else key
    training, protected, check = rows.settled().split_in_place(share, seed, key, in_units=clusters)
    protected_model: Dependence = Independent(protected.count, extra_assumptions=model.extra_assumptions)
    if isinstance(model, Clusters) and clusters:
        protected_model = model.with_sizes(protected.unit_sizes().listed)
    assumption = _BY_KEY.format(key) if key is not None else _BY_PLACE
    return _Parts(
        Part(protected, training=False, data_rows=protected.count),
        Part(training, training=True, data_rows=protected.count),
        protected_model,
        {"share": share, "seed": seed, "by": key or "place", "check": check},
        assumptions=(assumption,),
    )


def with_units(
    protected: Part,
    training: Part | None,
    model: Dependence,
    whole_model: Dependence,
    layouts: Sequence[Layout],
) -> tuple[Part, Part | None]:
    """Both parts with their rows in independent units, if the model of the protected rows has any.
    ``whole_model`` is the model of all rows."""
    parts = [part for part in (protected, training) if part is not None]
    if isinstance(model, Clusters) and isinstance(whole_model, Clusters):
        divided = [replace(part, units=(_in_clusters(part, model, whole_model),)) for part in parts]
    else:
        divided = [replace(part, units=tuple(_in_blocks(part, cut) for cut in layouts)) for part in parts]
    return divided[0], divided[1] if training is not None else None


def _in_clusters(part: Part, model: Clusters, whole_model: Clusters) -> Part:
    rows = part.rows
    if rows.unit is None and model.column is not None:
        rows = rows.in_clusters(model.column)
    elif rows.unit is None:
        rows = rows.in_numbered_units(_numbers(part, model, whole_model))
    return replace(part, rows=rows, largest=whole_model.most)


def _numbers(part: Part, model: Clusters, whole_model: Clusters) -> Any:
    """The number of each row's cluster, for clusters that stand one after the other. A training part of the
    caller only shows how clusters vary, and is cut into clusters of the usual size."""
    if part.mask is not None:
        return np.repeat(np.arange(len(whole_model.cluster_sizes)), whole_model.cluster_sizes)[part.mask]
    if not part.training:
        return np.repeat(np.arange(len(model.cluster_sizes)), model.cluster_sizes)
    return np.arange(part.rows.count) // max(1, round(model.n / len(model.cluster_sizes)))


def _in_blocks(part: Part, layout: Layout) -> Part:
    rows, mask = part.rows.in_blocks(layout.length, layout.gap), part.mask
    place, stride = np.arange(part.rows.count), layout.length + layout.gap
    within = (place % stride < layout.length) & (place < rows.count // layout.length * stride)
    if mask is not None:
        mask = mask.copy()
        mask[mask] = within
    return replace(part, rows=rows, mask=mask, largest=layout.length, within=within)


def _places(*masks: Any) -> str:
    """A digest of which rows are in which part. The seed decides them. But if another version of numpy drew
    other numbers, protected rows would be shown; the digest notices that."""
    return hashlib.sha256(b"".join(np.packbits(mask).tobytes() for mask in masks)).hexdigest()


def _declared(rows: Rows) -> tuple[str, ...]:
    """The assumption about categories that the caller calls public."""
    names = ", ".join(map(repr, sorted(rows.public_categories)))
    return (_PUBLIC_CATEGORIES.format(names),) if names else ()


def _staying(rows: Rows) -> tuple[str, ...]:
    """The assumption about rows that were not copied."""
    return (_UNCHANGED.format(rows.where),) if rows.stays else ()


def _shuffled(part: Part, seed: int) -> tuple[Part, dict[str, Any]]:
    """A part in a random order, for questions that read rows of their own, and what the book says about it.
    The book also has a digest of the order: a version of numpy that drew another order would read rows
    twice."""
    part.rows.require_blocks()
    places = np.random.default_rng([seed, _FOR_ORDER]).permutation(part.rows.count)
    order = {"seed": seed, "check": hashlib.sha256(places.astype("<i8").tobytes()).hexdigest()}
    return replace(part, rows=part.rows.reordered(places)), order


def random_few(part: Part, most: int, seed: int) -> Part:
    """A part with at most about ``most`` of its rows, chosen at random: tables are often sorted."""
    count, mask = part.rows.count, part.mask
    if count <= most:
        return part
    if part.rows.stays:
        return replace(part, rows=part.rows.some(most / count))
    places = np.random.default_rng([seed, _FOR_FEW]).choice(count, most, replace=False)
    chosen = np.zeros(count, dtype=bool)
    chosen[places] = True
    if mask is not None:
        mask = mask.copy()
        mask[mask] = chosen
    return replace(part, rows=part.rows.at(chosen), mask=mask)


def require_columns(part: Schema, name: str, required: Schema, of: str) -> None:
    """Refuse a part that lacks a column of the other part, or has it with another type."""
    for column, expected in required.items():
        if column not in part:
            raise QueryRejected(f"Column {column!r} of {of} is not in {name}; both need the same columns.")
        if expected.kind not in (kind := part[column].kind, "other"):
            raise QueryRejected(
                f"The column {column!r} is {_KIND[expected.kind]} in {of} and {_KIND[kind]} in {name}; both "
                "need columns of the same kinds."
            )
        if expected.kind == "date" and expected.zoned != part[column].zoned:
            with_zone, without = (of, name) if expected.zoned else (name, of)
            raise QueryRejected(
                f"The column {column!r} has a time zone in {with_zone} and none in {without}; both need one, "
                "or neither."
            )


def require_described(question: Question, columns: frozenset[str], model: str) -> None:
    """Refuse a question about columns that the model of the rows says nothing about."""
    described = ", ".join(map(repr, sorted(columns)))
    if question.reads is None:
        raise QueryRejected(
            f"The {model} describes {described} only, and {question.text} may read any column. Fit the model "
            "to be scored on a table with named columns, so that it says which it reads."
        )
    others = sorted(question.reads - columns)
    if others:
        raise QueryRejected(
            f"The {model} describes {described}, and {question.text} reads {', '.join(map(repr, others))} "
            "too: the model says nothing about the others. Use a model of all columns that "
            "you ask about: dependence.fit(train, columns=[...]), or Mixing(rate=...) for the whole table."
        )


@dataclass(frozen=True)
class Content:
    """One digest of the current rows. It is never shown: anybody who knows all but a few values of a table
    could find those by trying.

    ``former`` is what books said before contents were recorded; None if they could not describe it.
    """

    digest: bytes = field(repr=False)
    former: str | None = field(repr=False)

    @classmethod
    def of(cls, data: Any, rows: Rows) -> Content:
        """Digest the rows. Of files: their bytes, or their lengths and ends if they are too large to copy. Of
        other rows that are copied: each value, in order. Else: where they are. Always: the columns and the
        number of rows."""
        digest = hashlib.sha256(f"{rows.count} {_as_first_books(rows)!r}".encode())
        if rows.in_database:
            digest.update(rows.where.encode())
        former = digest.hexdigest()
        if _is_local(data, rows):
            path = os.path.expanduser(data)
            for file in [path] if Path(path).is_file() else sorted(glob.glob(path, recursive=True)):
                _digest_file(digest, Path(file), whole_file=rows.is_small)
            if path == str(data):
                former = digest.hexdigest()
        elif rows.has_order and (rows.is_small or not rows.stays):
            digest.update(rows.content())
        else:
            digest.update(rows.where.encode())
        return cls(digest.digest(), former)

    def under(self, key: bytes) -> str:
        """How a book names the rows. It says nothing without the book's key, which is in no export."""
        return KEYED + hmac.new(key, self.digest, "sha256").hexdigest()


def _as_first_books(rows: Rows) -> Schema:
    """The columns as the first books wrote them: only Spark accepted times with a zone then."""
    if rows.schema.dialect.engine == "Spark":
        return rows.schema
    return Schema({name: "other" if column.zoned else column for name, column in rows.schema.items()})


def _is_local(data: Any, rows: Rows) -> bool:
    return not rows.in_database and isinstance(data, (str, Path)) and "://" not in str(data)


def _digest_file(digest: Any, path: Path, *, whole_file: bool) -> None:
    """A file's bytes, or its length and its end: the end of a Parquet file says where everything is."""
    with path.open("rb") as file:
        if not whole_file:
            size = path.stat().st_size
            digest.update(f"{size} ".encode())
            file.seek(max(0, size - _END))
        while block := file.read(1 << 20):
            digest.update(block)
