"""Scoring predictions against a column of the rows, in this process: an array of them, or a fitted model.

Every mistake in predictions is noticed here, from public facts, from what the caller gives and from the
training rows, before anything is charged.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, queries
from holdfast.engines import SCALE_BITS
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.readings import CellQuestion, Moments, Part, range_of
from holdfast.scoring._metrics import (
    LOG_LOSS_CAP,
    METRICS,
    RowValues,
    Scale,
    axes_of_metric,
    is_missing,
    limits_of,
    of_one_kind,
    statistic_of,
    units_of,
    values_of,
)
from holdfast.scoring._models import (
    Model,
    copied,
    features_of,
    output_of,
    positive_class,
    quoted,
    require_fitted,
    require_kind,
)
from holdfast.statistics import NO_AXIS, Axis, Cells, Contrast, Mean, Statistic, Steps, UnitCells

_MOST_CLASSES = 100
_FOLDS = 3
_OWN_ROWS = (
    "The guess is the model's score on the training part. If it was fitted there, that guess is too good and "
    "costs more: give guess= or use cv=."
)
_NOT_FITTED_AGAIN = (
    "There is no guess: the model cannot be fitted again on a part of the training rows, and it may have "
    "been fitted on all of them. An answer costs less with guess=."
)
_NO_GUESS = (
    "There is no guess: there are no predictions for training rows to take it from. An answer costs less "
    "with guess=."
)

# A model is tried on so many training rows before it may read protected rows.
_TRIED_ROWS = 1_000
_SHOWN = 12  # shown characters of a digest
_RECOGNISED = "The model is recognised by its digest, {}…: scoring the same model again costs nothing."
_NEW_EACH_TIME = (
    "This model cannot be recognised: its content has no digest that stays the same. Scoring it again is a "
    "new question, with a new charge."
)
_BY_PLACE = (
    "The predictions follow the rows by place. The order of the rows must say nothing about them: shuffle a "
    "sorted table before it is opened."
)
_ZERO_OR_ONE = (
    "Brier score: the mean of (probability − target)², where the target is 0 or 1. A missing value counts as "
    "the worst, 1."
)
_OF_A_CLASS = (
    "Brier score of the probability {1} {0}: the mean of (probability − outcome)², where "
    "the outcome is 1 if the target is {0} and 0 if it is anything else. A missing value counts as the "
    "worst, 1."
)


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion(CellQuestion):
    """The score of predictions: an array over the rows of the data or the protected rows, or a fitted model.

    ``scale`` says which labels and numbers are scored. ``out_of_fold`` are predictions for the training rows
    by models that were fitted without them.
    """

    predictions: NDArray[Any] | Model
    target: str
    metric: str
    scale: Scale
    everywhere: bool  # whether the training rows have predictions too
    out_of_fold: NDArray[Any] | None = None

    def predict(self, part: Part) -> NDArray[Any]:
        """The predictions for the rows of one part."""
        if part.training and self.out_of_fold is not None:
            seen = self._of_part(self.out_of_fold, part)
            if len(seen) == part.rows.count:
                return seen
        if isinstance(self.predictions, Model):
            return self.predictions.predict(part, self.target)
        return self._of_part(self.predictions, part)

    @staticmethod
    def _of_part(predictions: NDArray[Any], part: Part) -> NDArray[Any]:
        """The predictions for the rows of a part, if the array is for more rows."""
        for mask in (part.mask, part.within):
            if mask is not None and len(predictions) == len(mask):
                return np.asarray(predictions[mask])
        return predictions

    @property
    def in_training(self) -> bool:
        return self.everywhere

    @property
    def reads(self) -> frozenset[str] | None:
        if not isinstance(self.predictions, Model):
            return frozenset([self.target])
        features = self.predictions.features
        return None if features is None else frozenset([self.target, *features])

    @property
    def by_place(self) -> bool:
        return not isinstance(self.predictions, Model)

    @property
    def runs_code(self) -> bool:
        return isinstance(self.predictions, Model)

    @property
    def vague(self) -> bool:
        return True

    def values(self, part: Part) -> RowValues:
        """What each row of one part contributes. Reads the rows."""
        predicted, truth = self.predict(part), part.column(self.target)
        if len(predicted) != len(truth):
            raise ValueError("one prediction for each row is needed")
        return values_of(self.metric, predicted, truth, self.scale)

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        values = self.values(part).kept().x
        if self.kind == "share":
            total = int(np.count_nonzero(values))
            return Moments.from_integers(len(values), total, total, 1, 0.0, 1.0)
        units = units_of(values, self.axes[0])
        second = _sum_of_squares(units) if squares else None
        return Moments.from_integers(
            len(units), int(units.sum()), second, 1 << SCALE_BITS, self.low, self.high
        )

    def cells(self, part: Part, steps: tuple[Steps, Steps]) -> Cells:
        return cells_of_values(self.values(part), part, self.axes, steps)

    @property
    def record(self) -> Any:
        return self.text


def cells_of_values(
    every: RowValues, part: Part, axes: tuple[Axis, Axis], steps: tuple[Steps, Steps]
) -> Cells:
    """The cells, or the units, of the rows of a part whose values are given."""
    values = every.kept()
    x = units_of(values.x, axes[0])
    z = None if values.z is None else units_of(values.z, axes[1])
    if part.rows.unit is None:
        return Cells.of_values(axes, steps, x, z, values.group)
    codes = part.rows.unit_codes()
    codes = codes if every.enters is None else codes[every.enters]
    return UnitCells.of_unit_values(axes, part.largest, part.rows.count, codes, x, z, values.group)


def _sum_of_squares(units: NDArray[np.int64]) -> int:
    """Σu², exactly. Values are split into halves of 12 bits, so that sums of their products fit into 64
    bits."""
    high, low = units >> 12, units & 0xFFF
    parts = (int(np.dot(high, high)), int(np.dot(high, low)), int(np.dot(low, low)))
    return (parts[0] << 24) + (parts[1] << 13) + parts[2]


@dataclass(frozen=True, kw_only=True)
class ComparedQuestion(CellQuestion):
    """The score of one prediction less that of another, row by row."""

    first: ScoreQuestion
    second: ScoreQuestion

    @property
    def in_training(self) -> bool:
        return self.first.in_training and self.second.in_training

    @property
    def reads(self) -> frozenset[str] | None:
        first, second = self.first.reads, self.second.reads
        return None if first is None or second is None else first | second

    @property
    def by_place(self) -> bool:
        return self.first.by_place or self.second.by_place

    @property
    def runs_code(self) -> bool:
        return self.first.runs_code or self.second.runs_code

    @property
    def vague(self) -> bool:
        return True

    def cells(self, part: Part, steps: tuple[Steps, Steps]) -> Cells:
        a, b = (question.values(part) for question in (self.first, self.second))
        return cells_of_values(RowValues(a.x - b.x, None, a.group, a.enters), part, self.axes, steps)

    @property
    def record(self) -> Any:
        return self.text


def compare_question(first: ScoreQuestion, second: ScoreQuestion) -> ComparedQuestion:
    """The question behind ``guard.compare``."""
    metric, width = first.metric, first.high - first.low
    if not METRICS[metric].paired:
        paired = ", ".join(name for name, about in METRICS.items() if about.paired)
        raise QueryRejected(
            f"Two predictions are not compared row by row by {metric}: use one of {paired}, or ask for both "
            "scores "
            f"in one call."
        )
    groups = len(first.scale.classes) if metric == "balanced_accuracy" else 1
    statistic: Statistic = Contrast((1 / groups,) * groups) if groups > 1 else Mean()
    return ComparedQuestion(
        key=hashlib.sha256(f"compare {first.key} {second.key}".encode()).hexdigest(),
        text=f"{first.text} - {second.text}",
        low=-width,
        high=width,
        guess=None,
        kind=f"paired difference of {metric}",
        filtered=METRICS[metric].filtered,
        axes=(Axis(-width, width, 1 << SCALE_BITS), NO_AXIS),
        statistic=statistic,
        first=first,
        second=second,
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
    )


def score_question(
    predictions: Any,
    *,
    target: str,
    metric: str,
    guess: Any,
    name: str | None,
    protected: Part,
    training: Part | None = None,
    cv: int | None = None,
    bounds: Any = None,
    positive: Any = None,
) -> ScoreQuestion:
    """The question behind ``guard.score``. The same predictions, or a model with the same content, are the
    same question, whatever their names are."""
    checks.choice(metric, "metric", tuple(METRICS), of="Guard.score")
    if name is not None and not isinstance(name, str):
        raise InvalidArgument("name", "a text, or None", name, of="Guard.score")
    if cv is not None:
        cv = checks.whole(cv, "cv", at_least=2, of="Guard.score")
    model = hasattr(predictions, "predict") or hasattr(predictions, "predict_proba")
    classes = getattr(predictions, "classes_", None) if model else None
    scale = scale_of(metric, target, protected, training, bounds=bounds, positive=positive, classes=classes)
    low, high = limits_of(metric, scale)
    domain = f"[{low!r}, {high!r}]" if np.isfinite(low) else f"(-inf, {high!r}]"
    expected = None if guess is None else checks.real(guess, "guess", domain, of="Guard.score")
    if not model:
        return _of_array(predictions, target, metric, expected, name, protected, scale)
    question = _of_model(predictions, target, metric, expected, name, protected, scale)
    if training is None:
        return question
    _try_on_training(question, training)
    return question if guess is not None else _without_its_own_rows(question, training, cv)


def scale_of(
    metric: str,
    target: str,
    protected: Part,
    training: Part | None,
    *,
    bounds: Any = None,
    positive: Any = None,
    classes: Any = None,
) -> Scale:
    """Which labels or numbers are scored: as the caller says, else as the model and the training part
    show."""
    if target not in protected.rows.schema:
        raise QueryRejected(
            f"There is no column {target!r} to score against; there are {', '.join(protected.rows.schema)}."
        )
    needs, kind = METRICS[metric].needs, protected.rows.schema[target].kind
    if metric == "log_loss":
        span = (0.0, LOG_LOSS_CAP) if bounds is None else _pair(bounds)
        if not span[0] == 0.0:
            raise InvalidArgument("bounds", "(0, cap) for a log loss", bounds, of="Guard.score")
        labels = () if classes is None else tuple(np.asarray(classes).tolist())
        if positive is None and not labels:
            positive = _positive_label(target, kind, training, classes)
        return Scale(positive, labels, span)
    if needs == "number":
        if kind not in ("number", "boolean"):
            raise QueryRejected(f"{metric} needs a target of numbers, and {target!r} is of kind {kind}.")
        return Scale(
            span=_span_of(target, training) if bounds is None or bounds == "train" else _pair(bounds)
        )
    if metric in ("accuracy", "error"):
        return Scale()
    if metric == "brier":
        unnamed = positive is None and classes is None and kind not in ("number", "other")
        return Scale(_positive_label(target, kind, training, None) if unnamed else positive)
    seen = _labels_in(target, training)
    if len(seen) == 1:
        raise QueryRejected(
            f"The training part shows one class of {target!r} only ({quoted(seen[0])}), and {metric} "
            "compares "
            "classes. Give more rows, or score with accuracy."
        )
    if metric == "balanced_accuracy":
        if not 2 <= len(seen) <= _MOST_CLASSES:
            raise QueryRejected(
                f"{metric} needs from 2 to {_MOST_CLASSES} classes in the training part; {target!r} has "
                f"{len(seen)}."
            )
        return Scale(classes=seen)
    chosen = _positive_label(target, kind, training, classes) if positive is None else positive
    if positive is not None and seen and positive not in seen:
        raise QueryRejected(
            f"No training row has {positive!r} in {target!r}; there are {', '.join(map(quoted, seen[:10]))}."
        )
    return Scale(positive=chosen)


def _pair(bounds: Any) -> tuple[float, float]:
    low, high = checks.reals(bounds, "bounds", "(-inf, inf)", of="Guard.score")
    if not low < high:
        raise InvalidArgument("bounds", "two numbers lo < hi", bounds, of="Guard.score")
    return low, high


def _span_of(target: str, training: Part | None) -> tuple[float, float]:
    """A range with room around the target's training values."""
    if training is None:
        raise QueryRejected(
            f"Give bounds=(lo, hi) of {target!r}: there are no training rows to propose them."
        )
    return range_of(queries.Expression.read(queries.quoted_name(target)), training.rows, frozenset([target]))


def _labels_in(target: str, training: Part | None) -> tuple[Any, ...]:
    if training is None:
        return ()
    values = training.column(target)
    present = values[~is_missing(values)]
    return tuple(sorted(set(present.tolist())))


def _positive_label(target: str, kind: str, training: Part | None, classes: Any) -> Any:
    """The label that counts as positive: the second of two, which is 1 of 0 and 1 and the later of two
    texts."""
    labels = _labels_in(target, training) if classes is None else tuple(np.asarray(classes).tolist())
    if kind in ("boolean", "number") and set(labels) <= {0, 1}:
        return True if kind == "boolean" else 1
    if len(labels) != 2:
        raise QueryRejected(
            f"{target!r} has {len(labels)} classes in the training part, and one of two counts as positive: "
            "say "
            "which with positive=..."
        )
    return labels[1]


def _without_its_own_rows(question: ScoreQuestion, training: Part, cv: int | None) -> ScoreQuestion:
    """The question with a guess from models that were fitted without the rows they predict. The score of a
    model on its own training rows says little about other rows."""
    assert isinstance(question.predictions, Model)
    predicted = question.predictions.out_of_fold(training, question.target, cv or _FOLDS)
    if predicted is None:
        if cv is not None:
            raise QueryRejected(
                "cv= needs a model of scikit-learn that can be fitted again on the training part; bring a "
                "guess "
                "instead."
            )
        if question.statistic is not None and question.statistic.needs_training:
            return replace(question, notes=_with_note(question.notes, _OWN_ROWS))
        return replace(question, everywhere=False, notes=_with_note(question.notes, _NOT_FITTED_AGAIN))
    note = f"The guess is the model's score in {cv or _FOLDS} cross-validation folds of the training part."
    return replace(question, out_of_fold=predicted, notes=_with_note(question.notes, note))


def _with_note(notes: tuple[str, ...], note: str) -> tuple[str, ...]:
    """Notes on the score: first what was scored, and last how the model is recognised."""
    return (*notes[:-1], note, *notes[-1:])


def _of_array(
    predictions: Any,
    target: str,
    metric: str,
    guess: float | None,
    name: str | None,
    protected: Part,
    scale: Scale,
) -> ScoreQuestion:
    if not protected.rows.has_order:
        raise QueryRejected(
            f"Rows in {protected.rows.where} have no order that predictions could follow; put them in a "
            "column of the table and ask about that, or give a fitted model."
        )
    try:
        shape: tuple[int, ...] | None = np.shape(predictions)
    except ValueError:
        shape = None
    if shape not in ((protected.rows.count,), (protected.data_rows,)):
        got = "a list of lists" if shape is None else f"an array of shape {shape}"
        raise QueryRejected(
            f"Give one prediction for each of the {protected.data_rows:,} rows of the data, or for each of "
            f"the {protected.rows.count:,} protected rows; got {got}."
        )
    given = of_one_kind(predictions)
    require_kind(given, target, metric, protected, positive=scale.positive)
    probable = METRICS[metric].needs == "probability"
    if probable and not np.all((given >= 0.0) & (given <= 1.0)):
        called = "A Brier score" if metric == "brier" else f"A {metric}"
        raise QueryRejected(
            f"{called} needs probabilities: give numbers from 0 to 1 that say how likely it is that "
            f"{target} is {1 if scale.positive is None else quoted(scale.positive)}."
        )
    identity = hashlib.sha256(given.dtype.str.encode() + given.tobytes()).hexdigest()
    everywhere = protected.mask is not None and len(given) == protected.data_rows
    vague = () if everywhere or guess is not None else (_NO_GUESS,)
    return _question(
        identity,
        label=name or identity[:_SHOWN],
        target=target,
        metric=metric,
        guess=guess,
        scale=scale,
        predictions=given,
        everywhere=everywhere,
        notes=(_BY_PLACE, *((_brier_note(scale.positive),) if metric == "brier" else ()), *vague),
    )


def _of_model(
    model: Any,
    target: str,
    metric: str,
    guess: float | None,
    name: str | None,
    protected: Part,
    scale: Scale,
) -> ScoreQuestion:
    from holdfast.scoring._model_key import model_key  # joblib is slow to import, and only models need it

    # The digest comes first: if the model changes when it predicts, the digest is of the model as given.
    key = model_key(model)
    require_fitted(model)
    output = output_of(model, metric)
    positive = positive_class(model, target, protected, scale.positive) if metric == "brier" else None
    scale = replace(scale, positive=positive) if metric == "brier" else scale
    notes = [_brier_note(positive, "that the model gives")] * (metric == "brier")
    notes.append(_NEW_EACH_TIME if key is None else _RECOGNISED.format(key[:_SHOWN]))
    classes = getattr(model, "classes_", None)
    column = None
    if (
        output == "predict_proba"
        and metric != "log_loss"
        and classes is not None
        and scale.positive is not None
    ):
        listed = np.asarray(classes).tolist()
        column = listed.index(scale.positive) if scale.positive in listed else None
    return _question(
        f"model {key or secrets.token_hex(32)}",
        label=name or f"{type(model).__name__} {(key or '')[:_SHOWN]}".rstrip(),
        target=target,
        metric=metric,
        guess=guess,
        scale=scale,
        predictions=Model(
            copied(model), output, features_of(model, target, protected), column, whole=metric == "log_loss"
        ),
        everywhere=True,
        notes=tuple(notes),
    )


def _brier_note(positive: Any, whose: str = "of") -> str:
    return _ZERO_OR_ONE if positive is None else _OF_A_CLASS.format(quoted(positive), whose)


def _question(
    identity: str, *, label: str, target: str, metric: str, guess: float | None, scale: Scale, **rest: Any
) -> ScoreQuestion:
    about, (low, high) = METRICS[metric], limits_of(metric, scale)
    details = _told(metric, scale)
    return ScoreQuestion(
        key=hashlib.sha256(f"score {metric} {target} {identity}{details}".encode()).hexdigest(),
        text=f"score({label}, target = {target}, metric = {metric}{details})",
        low=low,
        high=high,
        guess=guess,
        kind=about.kind,
        filtered=about.filtered,
        resolution=2.0**-SCALE_BITS * (high - low) if about.kind == "mean" else 0.0,
        axes=axes_of_metric(metric, scale),
        statistic=statistic_of(metric, scale),
        target=target,
        metric=metric,
        scale=scale,
        **rest,
    )


def _told(metric: str, scale: Scale) -> str:
    """Further facts that decide the score, for its text and its key."""
    if METRICS[metric].needs == "number":
        return f", bounds = {_ends(scale)}"
    bounds = f", bounds = {_ends(scale)}" if metric == "log_loss" else ""
    return bounds + ("" if scale.positive is None else f", positive = {quoted(scale.positive)}")


def _ends(scale: Scale) -> str:
    low, high = (repr(end).removesuffix(".0") for end in scale.span)
    return f"[{low}, {high}]"


def _try_on_training(question: ScoreQuestion, training: Part) -> None:
    """Apply a model to some training rows, which are free. Errors there are reported and cost nothing."""
    if not isinstance(question.predictions, Model):
        return
    rows = training.rows.first(min(_TRIED_ROWS, training.rows.count))
    sample = Part(rows, training=True, data_rows=training.data_rows)
    try:
        predicted = question.predictions.predict(sample, question.target)
    except Exception as error:
        raise QueryRejected(
            f"The model cannot be applied to training rows, so it was not applied to others and nothing was "
            f"charged. {type(error).__name__}: {error}"
        ) from error
    if METRICS[question.metric].needs == "probability":
        numbers = predicted.dtype.kind in "biuf"
        if not (numbers and np.all((predicted >= -1e-6) & (predicted <= 1 + 1e-6))):
            called = "Brier score" if question.metric == "brier" else question.metric
            raise QueryRejected(
                f"A {called} needs probabilities, and predict_proba returned values that are not numbers "
                "from 0 to 1 for training rows. Nothing was charged."
            )
    else:
        require_kind(predicted, question.target, question.metric, sample)


def require_labels(question: ScoreQuestion, training: Part | None) -> None:
    """Refuse predicted labels that no training row has, and a precision without a row that is predicted to be
    positive. A caller who gives a guess means it, and is not refused."""
    if METRICS[question.metric].needs != "label" or question.guess is not None:
        return
    if isinstance(question.predictions, Model):
        if training is None:
            return
        rows = training.rows.first(min(_TRIED_ROWS, training.rows.count))
        given = question.predictions.predict(
            Part(rows, training=True, data_rows=training.data_rows), question.target
        )
    else:
        given = question.predictions
    seen = _labels_in(question.target, training)
    predicted = set(given[~is_missing(given)].tolist())
    unseen = sorted(predicted - set(seen), key=str)
    if unseen and 0 < len(seen) <= _MOST_CLASSES:
        raise QueryRejected(
            f"The predictions hold {quoted(unseen[0])}, and no training row has that in {question.target!r}; "
            f"there are {', '.join(map(quoted, seen[:10]))}. Give the labels as they are stored. If the "
            "labels are right, score with a guess of your own: guess=..."
        )
    array = not isinstance(question.predictions, Model)
    if array and question.metric == "precision" and question.scale.positive not in predicted:
        raise QueryRejected(
            f"No prediction is {quoted(question.scale.positive)}, so there is no precision: it is a share of "
            "the rows that are predicted to be positive. Say which label is with positive=..., or score the "
            "recall."
        )
