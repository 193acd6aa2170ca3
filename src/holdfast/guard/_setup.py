"""Before the first question: open the rows, set the training part aside, and write down what is public."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.dependence import Dependence, Independent
from holdfast.engines import Rows, open_rows
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.guard._columns import require_columns
from holdfast.guard._content import Content
from holdfast.guard._former import ORDER
from holdfast.guard._hints import repeated_rows
from holdfast.guard._question import Part

_PILOT_ROWS = 20_000
# What a seed decides besides the split, each by draws of its own.
_FOR_ORDER, _FOR_FEW = 1, 2

_SAME_LAW = "The rows are draws from one distribution, which is what the answers are about."
_PUBLIC = (
    "The columns, their types and the number of rows are public. Types that a table does not state (CSV, "
    "columns of objects) were read off all rows, and are taken to be the same for any other draw."
)
_PUBLIC_CATEGORIES = (
    "The categories of {} are public: they were declared without looking at the protected rows."
)
_UNCHANGED = (
    "The protected rows stay in {} and do not change there: files and numbers of rows are looked after, a "
    "value that is overwritten in a table is not noticed."
)
_BY_PLACE = "Which rows are protected was decided by their place in the files, without looking at them."
_BY_KEY = (
    "Which rows are protected was decided by the column {0!r}, which says nothing about the other columns "
    "and cannot be asked about. No two rows have the same {0!r}: that was seen among the training rows and "
    "is assumed of the protected ones."
)
_MODEL = "The model of the rows, with its parameters, is: {}."
_QUESTIONS = (
    "The questions depend on the protected rows only through the released answers (and through the "
    "training part, which is "
    "free to look at). Timing is not protected."
)


@dataclass(frozen=True)
class Setup:
    """Both parts of the rows, the model of the protected ones (None: independent), and what was agreed."""

    protected: Part
    training: Part | None
    pilot: Part | None
    model: Dependence | None
    bias: float
    assumptions: tuple[str, ...]
    nullable: frozenset[str]
    facts: dict[str, Any]


@dataclass(frozen=True)
class _Parts:
    """Who is protected and who is not, and what that needs."""

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
    training_share: Any,
    split_seed: Any,
    split_by: Any = None,
    seconds: Any = None,
    public_categories: Any = False,
    shuffled: bool = False,
) -> Setup:
    """Open ``data`` and find the training part: the caller's, or a share of the rows by the model's rule
    (theory 2.2), or by a key. Where they are ``shuffled``, the protected rows are put into a random order."""
    if dependence is not None and not isinstance(dependence, Dependence):
        raise InvalidArgument(
            "dependence", "a model from holdfast.dependence, or None", dependence, of="Guard"
        )
    share = checks.real(training_share, "training_share", "[0, 1)", of="Guard")
    seed = checks.whole(split_seed, "split_seed", at_least=0, of="Guard")
    limit = None if seconds is None else checks.real(seconds, "seconds", "(0, inf)", of="Guard")
    if split_by is not None and (train is not None or share == 0):
        raise InvalidArgument(
            "split_by", "left out where no share of the rows is set aside", split_by, of="Guard"
        )
    rows = open_rows(data, public_categories=public_categories)
    model = Independent(rows.count) if dependence is None else dependence
    if model.n != rows.count:
        raise InvalidArgument(
            "dependence", f"a model of the {rows.count:,} rows of the data", model, of="Guard"
        )
    facts: dict[str, Any] = {
        "data": Content.of(data, rows),
        "dependence": repr(model),
        "model": {"fingerprint": model.fingerprint, "assumed": list(model.extra_assumptions)},
    }
    described = () if isinstance(model, Independent) else (_MODEL.format(model.description),)
    if train is not None:
        parts = _with_given(rows, train, model)
    elif share == 0:
        parts = _Parts(_whole(rows), None, model, {"share": 0})
    elif split_by is None and rows.has_order and (rows.is_small or not rows.stays):
        parts = _split(rows, model, share, seed, failure)
    else:
        parts = _split_in_place(rows, model, share, seed, split_by)
    protected, training, model = parts.protected, parts.training, parts.model
    facts["training"] = parts.facts
    if shuffled and isinstance(model, Independent):
        protected, facts[ORDER] = _shuffled(protected, seed)
    if training is not None and training.mask is not None and protected.mask is not None:
        facts["parts"] = _places(training.mask, protected.mask)
    if rows.public_categories:
        facts["public_categories"] = sorted(rows.public_categories)
    facts |= {"rows": protected.rows.count, "training_rows": training.rows.count if training else 0}
    nullable = training.rows.nullable_columns() if training else frozenset()
    # A few training rows, for what a question needs to know besides its guess.
    pilot = None if training is None else random_few(training, _PILOT_ROWS, seed)
    for part in (protected, training, pilot):
        if part is not None:
            part.rows.limit(limit)
    protected.rows.seal()
    stated = (
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
        bias=parts.bias,
        assumptions=tuple(dict.fromkeys(stated)),
        nullable=nullable,
        facts=facts,
    )


def _whole(rows: Rows) -> Part:
    return Part(rows.settled(), training=False, data_rows=rows.count)


def _with_given(rows: Rows, train: Any, model: Dependence) -> _Parts:
    """The caller's training part: copied unless it is too large, or asked otherwise than the protected rows
    are."""
    known = open_rows(train)
    require_columns(known.schema, "the training part", rows.schema, "the data")
    facts = {"given": Content.of(train, known)}
    alike = type(known.schema.dialect) is type(rows.schema.dialect)
    known = known.stored() if known.is_small or not alike else known.settled()
    training = Part(known, training=True, data_rows=rows.count)
    return _Parts(_whole(rows), training, model.protected_only(), facts)


def _split(rows: Rows, model: Dependence, share: float, seed: int, failure: float) -> _Parts:
    """A share of rows that are in memory, by the model's own rule."""
    if rows.count < 4:
        raise NotEnoughRows(4, rows.count, what="A guard that sets its own training part aside")
    split = model.split(share, np.random.default_rng(seed), failure)
    seen, kept = rows.split(split.train, split.protected)
    return _Parts(
        Part(kept, training=False, data_rows=rows.count, mask=split.protected),
        Part(seen, training=True, data_rows=rows.count, mask=split.train),
        split.protected_model,
        {"share": share, "seed": seed},
        split.bias,
        split.assumptions,
    )


def _split_in_place(rows: Rows, model: Dependence, share: float, seed: int, key: Any) -> _Parts:
    """A share of rows that stay where they are: any choice made without the data will do for independent rows
    (theory 2.2), and no list of the rows is needed."""
    if not isinstance(model, Independent):
        raise QueryRejected(
            f"Rows in {rows.where or 'memory'} are set aside row by row, which {model.name} do not allow; "
            "give a training part with train=, or set none aside with training_share=0."
        )
    if key is not None and not isinstance(key, str):
        raise InvalidArgument("split_by", "the name of a column", key, of="Guard")
    seen, kept, check = rows.settled().split_in_place(share, seed, key)
    stated = _BY_KEY.format(key) if key is not None else _BY_PLACE
    return _Parts(
        Part(kept, training=False, data_rows=kept.count),
        Part(seen, training=True, data_rows=kept.count),
        Independent(kept.count, extra_assumptions=model.extra_assumptions),
        {"share": share, "seed": seed, "by": key or "place", "check": check},
        assumptions=(stated,),
    )


def _places(*masks: Any) -> str:
    """A digest of which rows are in which part. They follow from the seed; but if another version of numpy
    drew otherwise, rows that were protected would be shown."""
    return hashlib.sha256(b"".join(np.packbits(mask).tobytes() for mask in masks)).hexdigest()


def _declared(rows: Rows) -> tuple[str, ...]:
    """What is assumed of categories that the caller calls public."""
    names = ", ".join(map(repr, sorted(rows.public_categories)))
    return (_PUBLIC_CATEGORIES.format(names),) if names else ()


def _staying(rows: Rows) -> tuple[str, ...]:
    """What is assumed of rows that were not copied."""
    return (_UNCHANGED.format(rows.where),) if rows.stays else ()


def _shuffled(part: Part, seed: int) -> tuple[Part, dict[str, Any]]:
    """A part in a random order, for questions that read rows of their own, and what the book says of it: a
    digest of the order too, because a version of numpy that drew otherwise would give rows out twice."""
    part.rows.require_blocks()
    places = np.random.default_rng([seed, _FOR_ORDER]).permutation(part.rows.count)
    told = {"seed": seed, "check": hashlib.sha256(places.astype("<i8").tobytes()).hexdigest()}
    return replace(part, rows=part.rows.reordered(places)), told


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
