"""Scores of predictions that are an expression over the columns: questions like any other, answered where the
rows live."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from holdfast import checks, queries
from holdfast.engines import Rows
from holdfast.errors import QueryRejected
from holdfast.guard._metrics import LOG_LOSS_CAP, METRICS, Scale, limits_of, statistic_of
from holdfast.guard._question import TableQuestion
from holdfast.queries import Query, quoted_name, quoted_value


@dataclass(frozen=True, kw_only=True)
class ScoredExpression(TableQuestion):
    """A score that no other question says: it is shown by its own text."""

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
    """The score of predictions that are an expression, as a question; None for a metric that no question is.
    A row without a prediction or a target counts as wrong, as it does for arrays and models."""
    checks.choice(metric, "metric", tuple(METRICS), of="Guard.score")
    said, true = f"({predictions})", f"({target})"
    options = {"guess": guess, "schema": schema}
    scale = scale or Scale()
    if metric in ("accuracy", "error"):
        sign = "=" if metric == "accuracy" else "<>"
        return queries.share(f"{said} {sign} {true}", nulls=metric == "error", **options)
    if metric == "brier":
        if scale.positive is not None:
            positive = _is(true, scale.positive)
            true = f"case when {positive} then 1 when not ({positive}) then 0 end"
        return queries.mean(f"({said} - {true}) * ({said} - {true})", bounds=(0, 1), nulls=1, **options)
    if metric in ("mae", "mse"):
        low, high = scale.span
        clipped = [f"least(greatest({side}, {low!r}), {high!r})" for side in (said, true)]
        apart = f"abs({clipped[0]} - {clipped[1]})"
        loss, most = (apart, high - low) if metric == "mae" else (f"{apart} * {apart}", (high - low) ** 2)
        return queries.mean(loss, bounds=(0, most), nulls=most, **options)
    is_true, is_said = (_is(side, scale.positive) for side in (true, said))
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
        right = f"case when {is_true} then {said} else 1 - {said} end"
        return queries.mean(f"-ln({right})", bounds=(0, cap), nulls=cap, **options)
    return None


COMPARED = ("accuracy", "error", "brier", "log_loss", "mae", "mse")
"""The metrics by which two expressions are compared row by row."""


def compare_query(
    a: str, b: str, *, target: str, metric: str, scale: Scale | None = None, schema: Any = None
) -> Query:
    """The score of one expression less that of another, row by row, as a question. A row without a prediction
    or a target counts as wrong, as it does for arrays and models."""
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
    """What one row counts in a score, a missing value included."""
    value = (
        f"cast({score.expression.text} as double)" if score.kind == "share" else f"({score.expression.text})"
    )
    least, most = (0.0, 1.0) if score.bounds is None else score.bounds
    return f"coalesce(least(greatest({value}, {least!r}), {most!r}), {float(score.missing)!r})"


def require_probabilities(predictions: str, metric: str, training: Rows | None, nullable: Any) -> None:
    """Refuse an expression that is no probability in some training row."""
    if training is None or METRICS[metric].needs != "probability":
        return
    outside = queries.share(f"({predictions}) < 0 or ({predictions}) > 1", nulls=False)
    count = training.sums(outside.check(training.schema, nullable)).total
    if count:
        called = "A Brier score" if metric == "brier" else f"A {metric}"
        raise QueryRejected(
            f"{called} is of probabilities, and {predictions} is outside [0, 1] in {count:,} training rows. "
            f"Write an expression from 0 to 1, such as least(greatest({predictions}, 0), 1)."
        )


def _is(side: str, label: Any) -> str:
    if isinstance(label, bool):
        return side if label else f"not {side}"
    return f"{side} = {quoted_value(1.0 if label is None else label)}"


def scored_expression(
    predictions: str, *, target: str, metric: str, scale: Scale, schema: Any, nullable: Any
) -> TableQuestion:
    """The score of an expression by a metric that no other question is."""
    said, true = f"({predictions})", f"({quoted_name(target)})"
    options: dict[str, Any] = {"nulls": "skip", "schema": schema}
    if metric == "balanced_accuracy":
        groups = tuple(queries.Expression.read(_is(true, label)) for label in scale.classes)
        asked = queries.difference(f"{said} = {true}", between=("true", "false"), **options)
        asked = replace(asked, groups=groups)
    elif metric == "auc":
        squeezed = f"{said} / (1 + abs({said}))"
        positive = _is(true, scale.positive)
        asked = queries.difference(
            squeezed, between=(f"not ({positive})", positive), bounds=(-1, 1), **options
        )
    elif metric == "rmse":
        width = scale.width
        clipped = [f"least(greatest({side}, {scale.span[0]!r}), {scale.span[1]!r})" for side in (said, true)]
        asked = queries.mean(
            f"({clipped[0]} - {clipped[1]}) * ({clipped[0]} - {clipped[1]})", bounds=(0, width**2), **options
        )
    elif metric == "r2":
        asked = queries.covariance(true, said, bounds=scale.span, **options)
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
