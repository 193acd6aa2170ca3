"""Before the first question: open the rows, set the training part aside, and write down what is public."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.dependence import Dependence, Independent
from holdfast.engines import Rows, open_rows
from holdfast.errors import InvalidArgument, NotEnoughRows, QueryRejected
from holdfast.guard._question import Part

_PILOT_ROWS = 20_000

_SAME_LAW = "The rows are draws from one distribution, which is what the answers are about."
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


def set_up(
    data: Any,
    train: Any,
    dependence: Dependence | None,
    *,
    failure: float,
    training_share: Any,
    split_seed: Any,
    seconds: Any = None,
) -> Setup:
    """Open ``data`` and find the training part: the caller's, or a share of the rows by the model's rule
    (theory 2.2)."""
    if dependence is not None and not isinstance(dependence, Dependence):
        raise InvalidArgument(
            "dependence", "a model from holdfast.dependence, or None", dependence, of="Guard"
        )
    share = checks.real(training_share, "training_share", "[0, 1)", of="Guard")
    seed = checks.whole(split_seed, "split_seed", at_least=0, of="Guard")
    limit = None if seconds is None else checks.real(seconds, "seconds", "(0, inf)", of="Guard")
    rows = open_rows(data)
    model = Independent(rows.count) if dependence is None else dependence
    if model.n != rows.count:
        raise InvalidArgument(
            "dependence", f"a model of the {rows.count:,} rows of the data", model, of="Guard"
        )
    facts: dict[str, Any] = {"data": _fingerprint(data, rows), "dependence": repr(model)}
    if train is not None:
        known = _training(open_rows(train), rows)
        _same_columns(rows, known)
        model, bias = model.protected_only(), 0.0
        protected = Part(rows.settled(), training=False, data_rows=rows.count)
        training: Part | None = Part(known, training=True, data_rows=rows.count)
        facts["training"] = {"given": _fingerprint(train, known)}
        split_assumptions: tuple[str, ...] = ()
    elif share == 0:
        training, bias, split_assumptions = None, 0.0, ()
        protected = Part(rows.settled(), training=False, data_rows=rows.count)
        facts["training"] = {"share": 0}
    else:
        if rows.count < 4:
            raise NotEnoughRows(4, rows.count, what="A guard that sets its own training part aside")
        split = model.split(share, np.random.default_rng(seed), failure)
        model, bias, split_assumptions = split.protected_model, split.bias, split.assumptions
        seen, kept = rows.split(split.train, split.protected)
        protected = Part(kept, training=False, data_rows=rows.count, mask=split.protected)
        training = Part(seen, training=True, data_rows=rows.count, mask=split.train)
        facts["training"] = {"share": share, "seed": seed}
    facts |= {"rows": protected.rows.count, "training_rows": training.rows.count if training else 0}
    nullable = training.rows.nullable_columns() if training else frozenset()
    pilot = _pilot(training)
    for part in (protected, training, pilot):
        if part is not None:
            part.rows.limit(limit)
    return Setup(
        protected=protected,
        training=training,
        pilot=pilot,
        model=None if isinstance(model, Independent) else model,
        bias=bias,
        assumptions=tuple(dict.fromkeys((*model.assumptions, *split_assumptions, _SAME_LAW, _QUESTIONS))),
        nullable=nullable,
        facts=facts,
    )


def _pilot(training: Part | None) -> Part | None:
    """A few training rows, for what a question needs to know besides its guess."""
    if training is None or training.rows.count <= _PILOT_ROWS:
        return training
    mask = None
    if training.mask is not None:
        mask = training.mask & (np.cumsum(training.mask) <= _PILOT_ROWS)
    rows = training.rows.first(_PILOT_ROWS)
    return Part(rows, training=True, data_rows=training.data_rows, mask=mask)


def _training(known: Rows, rows: Rows) -> Rows:
    """The training part that was given: copied unless it is too large, or where it is asked differently than
    the protected rows are."""
    alike = type(known.schema.dialect) is type(rows.schema.dialect)
    return known.stored() if known.is_small or not alike else known.settled()


def _same_columns(rows: Rows, known: Rows) -> None:
    missing = [name for name in rows.schema if name not in known.schema]
    if missing:
        raise QueryRejected(
            f"The training part lacks the column {missing[0]!r}; both parts need the same columns."
        )


def _fingerprint(data: Any, rows: Rows) -> str:
    """What tells this data from other data: the content of a file, else the names of the columns and the
    number of rows."""
    digest = hashlib.sha256(f"{rows.count} {rows.schema!r}".encode())
    if isinstance(data, (str, Path)) and Path(data).is_file():
        with Path(data).open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
