"""Metrics: the values of predictions, what a row contributes with its prediction and target, and the
statistic of the rows that is the score.

Predictions that are an expression over the columns are ordinary questions, answered where the rows are.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, queries
from holdfast.engines import SCALE_BITS, Rows
from holdfast.errors import QueryRejected
from holdfast.queries import Query, quoted_name, quoted_value
from holdfast.readings import TableQuestion
from holdfast.statistics import AUC, NO_AXIS, Axis, Contrast, Mean, Ratio, RSquared, Statistic

# Different whole numbers up to this one are different floats.
_EXACT = 2**53

Floats = NDArray[np.float64]
_UNITS = 2**SCALE_BITS
LOG_LOSS_CAP = 10.0
"""Where a log loss is clipped unless bounds say otherwise."""

COMPARED = ("accuracy", "error", "brier", "log_loss", "mae", "mse")
"""The metrics by which two expressions are compared row by row."""


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
    """Whether values of a kind can equal those of a column. Values that are neither numbers nor texts are
    compared unchanged."""
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
    """The values in one standard form, so that the same predictions are the same question however they are
    stored. Numbers become floats, and texts have no spare length. Whole numbers stay whole if different ones
    would become equal floats."""
    values = np.asarray(predictions)
    if values.dtype == object or isinstance(predictions, (list, tuple)):
        values = _of_python_values(values, list(predictions))
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    if values.dtype.kind not in "biuf":
        return np.array(values.astype(str).tolist())
    numbers = values.astype(np.float64) + 0.0  # turns −0.0 into 0.0
    return values if values.dtype.kind in "iu" and np.any(np.abs(numbers) >= _EXACT) else numbers


def _of_python_values(values: NDArray[Any], listed: list[Any]) -> NDArray[Any]:
    """The array of a list. By itself numpy makes floats of whole numbers that it cannot store together, and
    texts of everything in a list with a text."""
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


@dataclass(frozen=True)
class Metric:
    """One way to score. ``needs`` is what a prediction has to be: a "label", a "probability", a "score" of
    any size, or a "number". ``kind`` is the statistic of the rows. ``paired`` says whether two predictions
    can be compared row by row. For a ``loss``, less is better."""

    needs: str
    kind: str
    filtered: bool = False
    paired: bool = True
    loss: bool = False


METRICS: dict[str, Metric] = {
    "accuracy": Metric("label", "share"),
    "error": Metric("label", "share", loss=True),
    "balanced_accuracy": Metric("label", "balanced accuracy", filtered=True),
    "precision": Metric("label", "share", filtered=True, paired=False),
    "recall": Metric("label", "share", filtered=True),
    "f1": Metric("label", "f1", filtered=True, paired=False),
    "auc": Metric("score", "auc", filtered=True, paired=False),
    "log_loss": Metric("probability", "mean", loss=True),
    "brier": Metric("probability", "mean", loss=True),
    "mae": Metric("number", "mean", loss=True),
    "mse": Metric("number", "mean", loss=True),
    "rmse": Metric("number", "rmse", paired=False, loss=True),
    "r2": Metric("number", "r2", paired=False),
}


@dataclass(frozen=True)
class Scale:
    """The facts about a target before its protected rows are read: the ``positive`` label, all ``classes``
    that the training part shows, and the ``span`` of numbers, or of the loss if the metric has one."""

    positive: Any = None
    classes: tuple[Any, ...] = ()
    span: tuple[float, float] = (0.0, 1.0)

    @property
    def width(self) -> float:
        """How long the span is."""
        return self.span[1] - self.span[0]


@dataclass(frozen=True)
class RowValues:
    """What the rows contribute: one or two values each, the number of a row's group if there are groups, and
    which rows enter."""

    x: Floats
    z: Floats | None = None
    group: NDArray[np.int64] | None = None
    enters: NDArray[np.bool_] | None = None

    def kept(self) -> RowValues:
        """The rows that enter, and no others."""
        if self.enters is None:
            return self
        z = None if self.z is None else self.z[self.enters]
        group = None if self.group is None else self.group[self.enters]
        return RowValues(self.x[self.enters], z, group)


def limits_of(metric: str, scale: Scale) -> tuple[float, float]:
    """The least and the largest possible score."""
    if metric == "log_loss":
        return scale.span
    if METRICS[metric].needs != "number":
        return 0.0, 1.0
    ends = {"mae": scale.width, "mse": scale.width**2, "rmse": scale.width}
    return (0.0, ends[metric]) if metric in ends else (-float("inf"), 1.0)


def statistic_of(metric: str, scale: Scale) -> Statistic | None:
    """The statistic that cells of the rows give; None for shares and means, which sums give."""
    statistics: dict[str, Statistic] = {
        "balanced accuracy": Contrast((1 / max(1, len(scale.classes)),) * max(1, len(scale.classes))),
        "f1": Ratio(),
        "auc": AUC(),
        "rmse": Mean(root=True),
        "r2": RSquared(),
    }
    return statistics.get(METRICS[metric].kind)


def axes_of_metric(metric: str, scale: Scale) -> tuple[Axis, Axis]:
    """The ranges of what the rows contribute."""
    ranges = {
        "f1": ((0.0, 2.0), (0.0, 2.0)),
        "auc": ((-1.0, 1.0), None),
        "rmse": ((0.0, scale.width**2), None),
        "r2": (scale.span, scale.span),
    }
    first, second = ranges.get(METRICS[metric].kind, (limits_of(metric, scale), None))
    return Axis(*first, _UNITS), NO_AXIS if second is None else Axis(*second, _UNITS)


def values_of(metric: str, predicted: NDArray[Any], truth: NDArray[Any], scale: Scale) -> RowValues:
    """What each row contributes. A missing prediction or target counts as the worst possible value."""
    needs = METRICS[metric].needs
    if needs == "label":
        return _of_labels(metric, predicted, truth, scale)
    if needs == "number":
        return _of_numbers(metric, as_numbers(predicted), as_numbers(truth), scale)
    if metric == "auc":
        scores = as_numbers(predicted)
        complete = ~(is_missing(truth) | np.isnan(scores))
        squeezed = np.where(np.isinf(scores), np.sign(scores), scores / (1 + np.abs(scores)))
        return RowValues(squeezed, group=_is_positive(truth, scale).astype(np.int64), enters=complete)
    return RowValues(_of_probabilities(metric, predicted, truth, scale))


def _of_labels(metric: str, predicted: NDArray[Any], truth: NDArray[Any], scale: Scale) -> RowValues:
    right = np.asarray(predicted == truth)
    if metric in ("accuracy", "error"):
        return RowValues((right == (metric == "accuracy")).astype(np.float64))
    if metric == "balanced_accuracy":
        group = np.full(len(truth), -1, dtype=np.int64)
        for place, label in enumerate(scale.classes):
            group[np.asarray(truth == label)] = place
        return RowValues(right.astype(np.float64), group=group, enters=group >= 0)
    predicted_positive, true = np.asarray(predicted == scale.positive), _is_positive(truth, scale)
    if metric == "precision":
        return RowValues(true.astype(np.float64), enters=predicted_positive)
    if metric == "recall":
        return RowValues(predicted_positive.astype(np.float64), enters=true)
    both = np.where(predicted_positive & true, 2.0, 0.0)
    return RowValues(
        both,
        predicted_positive.astype(np.float64) + true.astype(np.float64),
        enters=predicted_positive | true,
    )


def _is_positive(truth: NDArray[Any], scale: Scale) -> NDArray[np.bool_]:
    return np.asarray(truth == (1 if scale.positive is None else scale.positive))


def _of_numbers(metric: str, predicted: Floats, truth: Floats, scale: Scale) -> RowValues:
    low, high = scale.span
    missing = np.isnan(predicted) | np.isnan(truth)
    guess, target = (np.clip(np.where(np.isnan(side), low, side), low, high) for side in (predicted, truth))
    if metric == "r2":
        return RowValues(target.astype(np.float64), guess.astype(np.float64))
    loss = np.asarray(np.where(missing, scale.width, np.abs(guess - target)), dtype=np.float64)
    return RowValues(loss if metric == "mae" else loss * loss)


def _of_probabilities(metric: str, predicted: NDArray[Any], truth: NDArray[Any], scale: Scale) -> Floats:
    if metric == "log_loss":
        low, high = scale.span
        if predicted.ndim == 2:
            places = np.stack([np.asarray(truth == label) for label in scale.classes], axis=1)
            right = np.sum(np.where(places, as_numbers(predicted), 0.0), axis=1)
        else:
            probability = np.clip(as_numbers(predicted), 0.0, 1.0)
            right = np.where(_is_positive(truth, scale), probability, 1 - probability)
        right = np.where(is_missing(truth) | np.isnan(right), 0.0, right)
        return np.asarray(np.clip(-np.log(np.maximum(right, np.exp(-high))), low, high))
    outcome = as_numbers(truth if scale.positive is None else truth == scale.positive)
    outcome = np.where(is_missing(truth), np.nan, np.clip(outcome, -1.0, 2.0))
    probability = np.clip(as_numbers(predicted), 0.0, 1.0)
    losses: Floats = np.minimum((probability - outcome) ** 2, 1.0)
    return np.where(np.isnan(losses), 1.0, losses)


def units_of(values: Floats, axis: Axis) -> NDArray[np.int64]:
    """The whole numbers that stand for values, as an engine counts them."""
    inside = (np.clip(values, axis.low, axis.high) - axis.low) / axis.width
    return np.rint(inside * axis.units).astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class ScoredExpression(TableQuestion):
    """A score that no other question can express: it is shown by its own text."""

    readable = False

    @property
    def record(self) -> Any:
        return self.text


def score_query(
    predictions: str,
    *,
    target: str,
    metric: str,
    guess: Any = None,
    scale: Scale | None = None,
    schema: Any = None,
) -> Query | None:
    """The score of predictions that are an expression, as a question; None if no question gives this metric.
    A row without a prediction or a target counts as wrong, as for arrays and models."""
    checks.choice(metric, "metric", tuple(METRICS), of="Guard.score")
    predicted, true = f"({predictions})", f"({target})"
    options = {"guess": guess, "schema": schema}
    scale = scale or Scale()
    if metric in ("accuracy", "error"):
        sign = "=" if metric == "accuracy" else "<>"
        return queries.share(f"{predicted} {sign} {true}", nulls=metric == "error", **options)
    if metric == "brier":
        if scale.positive is not None:
            positive = _is(true, scale.positive)
            true = f"case when {positive} then 1 when not ({positive}) then 0 end"
        return queries.mean(
            f"({predicted} - {true}) * ({predicted} - {true})", bounds=(0, 1), nulls=1, **options
        )
    if metric in ("mae", "mse"):
        low, high = scale.span
        clipped = [f"least(greatest({side}, {low!r}), {high!r})" for side in (predicted, true)]
        apart = f"abs({clipped[0]} - {clipped[1]})"
        loss, most = (apart, high - low) if metric == "mae" else (f"{apart} * {apart}", (high - low) ** 2)
        return queries.mean(loss, bounds=(0, most), nulls=most, **options)
    is_true, is_said = (_is(side, scale.positive) for side in (true, predicted))
    if metric == "precision":
        return queries.share(is_true, where=is_said, nulls=False, **options)
    if metric == "recall":
        return queries.share(is_said, where=is_true, nulls=False, **options)
    if metric == "f1":
        both = f"case when {is_said} and {is_true} then 2 else 0 end"
        either = f"case when {is_said} and {is_true} then 2 when {is_said} or {is_true} then 1 else 0 end"
        where = f"{is_said} or {is_true}"
        return queries.ratio(both, either, bounds=[(0, 2), (0, 2)], where=where, nulls="skip", **options)
    if metric == "log_loss":
        cap = scale.span[1] if scale.span != (0.0, 1.0) else LOG_LOSS_CAP
        right = f"case when {is_true} then {predicted} else 1 - {predicted} end"
        return queries.mean(f"-ln({right})", bounds=(0, cap), nulls=cap, **options)
    return None


def compare_query(
    a: str, b: str, *, target: str, metric: str, scale: Scale | None = None, schema: Any = None
) -> Query:
    """The score of one expression less that of another, row by row, as a question. A row without a prediction
    or a target counts as wrong, as for arrays and models."""
    checks.choice(metric, "metric", tuple(METRICS), of="Guard.compare")
    if metric not in COMPARED:
        raise QueryRejected(
            f"Two expressions are compared by {', '.join(COMPARED)}, and not by {metric}. Give the "
            "predictions as arrays, or ask for both scores."
        )
    scores = [score_query(side, target=target, metric=metric, scale=scale, schema=schema) for side in (a, b)]
    first, second = (_of_a_row(score) for score in scores if score is not None)
    low, high = (scores[0].bounds if scores[0] is not None else None) or (0.0, 1.0)
    return queries.mean(f"{first} - {second}", bounds=(low - high, high - low), nulls=0, schema=schema)


def _of_a_row(score: Query) -> str:
    """What one row contributes to a score, also if a value is missing."""
    value = (
        f"cast({score.expression.text} as double)" if score.kind == "share" else f"({score.expression.text})"
    )
    least, most = (0.0, 1.0) if score.bounds is None else score.bounds
    return f"coalesce(least(greatest({value}, {least!r}), {most!r}), {float(score.missing)!r})"


def require_probabilities(predictions: str, metric: str, training: Rows | None, nullable: Any) -> None:
    """Refuse an expression that is not a probability in some training row."""
    if training is None or METRICS[metric].needs != "probability":
        return
    outside = queries.share(f"({predictions}) < 0 or ({predictions}) > 1", nulls=False)
    count = training.sums(outside.check(training.schema, nullable)).total
    if count:
        called = "A Brier score" if metric == "brier" else f"A {metric}"
        raise QueryRejected(
            f"{called} needs probabilities, and {predictions} is outside [0, 1] in {count:,} training rows. "
            f"Write an expression from 0 to 1, such as least(greatest({predictions}, 0), 1)."
        )


def _is(side: str, label: Any) -> str:
    if isinstance(label, bool):
        return side if label else f"not {side}"
    return f"{side} = {quoted_value(1.0 if label is None else label)}"


def scored_expression(
    predictions: str, *, target: str, metric: str, scale: Scale, schema: Any, nullable: Any
) -> TableQuestion:
    """The score of an expression by a metric that no other question gives."""
    predicted, true = f"({predictions})", f"({quoted_name(target)})"
    options: dict[str, Any] = {"nulls": "skip", "schema": schema}
    if metric == "balanced_accuracy":
        groups = tuple(queries.Expression.read(_is(true, label)) for label in scale.classes)
        asked = queries.difference(f"{predicted} = {true}", between=("true", "false"), **options)
        asked = replace(asked, groups=groups)
    elif metric == "auc":
        squeezed = f"{predicted} / (1 + abs({predicted}))"
        positive = _is(true, scale.positive)
        asked = queries.difference(
            squeezed, between=(f"not ({positive})", positive), bounds=(-1, 1), **options
        )
    elif metric == "rmse":
        width = scale.width
        clipped = [
            f"least(greatest({side}, {scale.span[0]!r}), {scale.span[1]!r})" for side in (predicted, true)
        ]
        asked = queries.mean(
            f"({clipped[0]} - {clipped[1]}) * ({clipped[0]} - {clipped[1]})", bounds=(0, width**2), **options
        )
    elif metric == "r2":
        asked = queries.covariance(true, predicted, bounds=scale.span, **options)
    else:
        raise QueryRejected(f"{metric} is not a score of an expression.")
    question = TableQuestion.of(asked.check(schema, nullable))
    low, high = limits_of(metric, scale)
    text = f"score({predictions}, target = {target}, metric = {metric})"
    facts = {name: getattr(question, name) for name in ("axes", "filtered", "checked", "resolution", "level")}
    return ScoredExpression(
        key=hashlib.sha256(f"{text} {question.key}".encode()).hexdigest(),
        text=text,
        low=low,
        high=high,
        guess=None,
        kind=METRICS[metric].kind,
        statistic=statistic_of(metric, scale),
        **facts,
    )
