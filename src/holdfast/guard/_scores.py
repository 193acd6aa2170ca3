"""Scoring predictions against a column of the rows, in this process: an array of them, or a fitted model.

Whatever can be wrong with predictions is found here, from public facts, from what the caller brings and from
the training rows, before anything is charged.
"""

from __future__ import annotations

import copy
import hashlib
import secrets
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks, queries
from holdfast.engines import SCALE_BITS
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.guard._model_key import model_key
from holdfast.guard._prediction_values import (
    as_numbers,
    comparable,
    is_missing,
    kind_of_values,
    of_one_kind,
)
from holdfast.guard._question import Moments, Part, Question
from holdfast.queries import Query

METRICS = ("accuracy", "error", "brier")

# A model is tried on so many training rows before it is asked about.
_TRIED_ROWS = 1_000
_SHOWN = 12  # characters of a digest
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
    "Brier score of the probability that the model gives {0}: the mean of (probability − outcome)², where "
    "the outcome is 1 if the target is {0} and 0 if it is anything else. A missing value counts as the "
    "worst, 1."
)


@dataclass(frozen=True)
class Model:
    """A fitted model as it was when it was asked about.

    ``output`` names what is scored, its ``predict`` or its ``predict_proba``, and ``features`` the columns it
    was fitted on (None: it does not say, and sees all but the target). Each use works on a copy: the caller's
    model never sees a protected row, and keeps nothing of one.
    """

    fitted: Any
    output: str
    features: tuple[str, ...] | None

    def predict(self, part: Part, target: str) -> NDArray[Any]:
        """One prediction, or one probability of the scored class, for each row of a part. Reads the rows."""
        columns = self.features or tuple(name for name in part.rows.schema if name != target)
        found = np.asarray(getattr(copied(self.fitted), self.output)(part.rows.frame(list(columns))))
        if self.output == "predict_proba" and found.ndim == 2 and found.shape[1] == 2:
            found = found[:, 1]
        if found.shape != (part.rows.count,):
            raise ValueError(
                f"{self.output} returned an array of shape {found.shape} for {part.rows.count:,} rows"
            )
        return found


def copied(model: Any) -> Any:
    """A copy of a model; the model itself where it cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception:
        return model


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion(Question):
    """The mean score of predictions: an array over the rows of the data or the protected rows, or a fitted
    model.

    ``positive`` is the label whose probability a Brier score is of; None where the target itself is 0 or 1.
    """

    predictions: NDArray[Any] | Model
    target: str
    metric: str
    everywhere: bool  # whether the training rows have predictions too
    positive: Any = None

    def predict(self, part: Part) -> NDArray[Any]:
        """The predictions for the rows of one part."""
        if isinstance(self.predictions, Model):
            return self.predictions.predict(part, self.target)
        covers_data = part.mask is not None and len(self.predictions) == len(part.mask)
        return self.predictions[part.mask] if covers_data else self.predictions

    @property
    def in_training(self) -> bool:
        return self.everywhere

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        predicted, truth = self.predict(part), part.column(self.target)
        if predicted.shape != truth.shape:
            raise ValueError("one prediction for each row is needed")
        if self.metric == "brier":
            scale = 1 << SCALE_BITS
            units = np.floor(self._losses(predicted, truth) * scale + 0.5).astype(np.int64)
        else:
            scale = 1
            units = np.asarray((predicted == truth) == (self.metric == "accuracy")).astype(np.int64)
        total = int(units.sum())
        second = sum(int(value) * value for value in units.tolist()) if squares else None
        return Moments.from_integers(len(units), total, second, scale, self.low, self.high)

    def _losses(self, predicted: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.float64]:
        """(probability − outcome)² of each row, at most 1; 1 where either is missing."""
        outcome = as_numbers(truth if self.positive is None else truth == self.positive)
        outcome = np.where(is_missing(truth), np.nan, np.clip(outcome, -1.0, 2.0))
        probability = np.clip(as_numbers(predicted), 0.0, 1.0)
        losses: NDArray[np.float64] = np.minimum((probability - outcome) ** 2, 1.0)
        return np.where(np.isnan(losses), 1.0, losses)

    @property
    def record(self) -> Any:
        return self.text


def score_question(
    predictions: Any,
    *,
    target: str,
    metric: str,
    guess: Any,
    name: str | None,
    protected: Part,
    training: Part | None = None,
) -> ScoreQuestion:
    """The question behind ``guard.score``: the same predictions, or a model with the same content, are the
    same question, whatever they are named."""
    checks.choice(metric, "metric", METRICS, of="Guard.score")
    if name is not None and not isinstance(name, str):
        raise InvalidArgument("name", "a text, or None", name, of="Guard.score")
    if target not in protected.rows.schema:
        raise QueryRejected(
            f"There is no column {target!r} to score against; there are {', '.join(protected.rows.schema)}."
        )
    expected = None if guess is None else checks.real(guess, "guess", "[0, 1]", of="Guard.score")
    if hasattr(predictions, "predict") or hasattr(predictions, "predict_proba"):
        question = _of_model(predictions, target, metric, expected, name, protected)
        if training is not None:
            _try_on_training(question, training)
        return question
    return _of_array(predictions, target, metric, expected, name, protected)


def _of_array(
    predictions: Any, target: str, metric: str, guess: float | None, name: str | None, protected: Part
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
    _require_kind(given, target, metric, protected)
    if metric == "brier" and not np.all((given >= 0.0) & (given <= 1.0)):
        raise QueryRejected(
            "A Brier score is of probabilities: give numbers from 0 to 1, how likely it is that "
            f"{target} is 1."
        )
    identity = hashlib.sha256(given.dtype.str.encode() + given.tobytes()).hexdigest()
    return _question(
        identity,
        label=name or identity[:_SHOWN],
        target=target,
        metric=metric,
        guess=guess,
        predictions=given,
        everywhere=protected.mask is not None and len(given) == protected.data_rows,
        notes=(_BY_PLACE, *((_ZERO_OR_ONE,) if metric == "brier" else ())),
    )


def _of_model(
    model: Any, target: str, metric: str, guess: float | None, name: str | None, protected: Part
) -> ScoreQuestion:
    # The digest comes first: whatever the model does with rows, it is the digest of what was brought.
    key = model_key(model)
    _require_fitted(model)
    output = "predict_proba" if metric == "brier" else "predict"
    if not hasattr(model, output):
        raise QueryRejected(
            f"{type(model).__name__} has no {output}, and {metric} needs it. "
            + (
                "Use a model that gives probabilities, or give the probabilities as an array."
                if metric == "brier"
                else "Use metric='brier', or give the predictions as an array."
            )
        )
    positive = _positive_class(model, target, protected) if metric == "brier" else None
    notes = [_ZERO_OR_ONE if positive is None else _OF_A_CLASS.format(_shown(positive))] * (metric == "brier")
    notes.append(_NEW_EACH_TIME if key is None else _RECOGNISED.format(key[:_SHOWN]))
    return _question(
        f"model {key or secrets.token_hex(32)}",
        label=name or f"{type(model).__name__} {(key or '')[:_SHOWN]}".rstrip(),
        target=target,
        metric=metric,
        guess=guess,
        predictions=Model(copied(model), output, _features(model, target, protected)),
        everywhere=True,
        positive=positive,
        notes=tuple(notes),
    )


def _question(
    identity: str, *, label: str, target: str, metric: str, guess: float | None, **rest: Any
) -> ScoreQuestion:
    return ScoreQuestion(
        key=hashlib.sha256(f"score {metric} {target} {identity}".encode()).hexdigest(),
        text=f"score({label}, target = {target}, metric = {metric})",
        low=0.0,
        high=1.0,
        guess=guess,
        kind="mean" if metric == "brier" else "share",
        resolution=2.0**-SCALE_BITS if metric == "brier" else 0.0,
        target=target,
        metric=metric,
        **rest,
    )


def _require_fitted(model: Any) -> None:
    """Refuse a class in place of a model, and a model of scikit-learn that was not fitted."""
    if isinstance(model, type):
        raise QueryRejected(f"Give a fitted model; {model.__name__} is a class: {model.__name__}().fit(…).")
    if "sklearn" not in sys.modules:
        return
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if isinstance(model, BaseEstimator):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise QueryRejected(
                f"This {type(model).__name__} is not fitted: fit it on guard.train first."
            ) from None


def _features(model: Any, target: str, protected: Part) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, where it says so."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return None
    features = tuple(str(name) for name in names)
    if target in features:
        raise QueryRejected(
            f"The model was fitted with the column {target!r} among its features, and that is what it is "
            "scored on. Fit it without."
        )
    missing = [name for name in features if name not in protected.rows.schema]
    if missing:
        raise QueryRejected(
            f"The model was fitted on columns that the rows do not have: {', '.join(missing[:10])}. There "
            f"are {', '.join(protected.rows.schema)}."
        )
    return features


def _positive_class(model: Any, target: str, protected: Part) -> Any:
    """The label whose probability is scored: the second of two classes. That is 1 of 0 and 1, True of False
    and True, and the later one of two texts. None where a model names no classes."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        _require_kind(np.zeros(0), target, "brier", protected)
        return None
    several = isinstance(classes, list) and any(np.ndim(one) > 0 for one in classes)
    labels = np.zeros((0, 0)) if several else np.asarray(classes)
    if labels.ndim != 1 or len(labels) != 2:
        count = "several targets" if labels.ndim != 1 else f"{len(labels)}"
        raise QueryRejected(
            f"A Brier score is of two classes, and this model has {count}. Score its labels with "
            "metric='accuracy', or the probability of one class as an array against a column that is 0 or 1."
        )
    if not comparable(kind_of_values(labels), protected.rows.schema[target].kind):
        raise QueryRejected(
            f"The model's classes are {_shown(labels[0])} and {_shown(labels[1])}, and the column {target!r} "
            f"is of another kind ({protected.rows.schema[target].kind}). Fit it on the labels as they are "
            "stored."
        )
    return labels[1].item() if isinstance(labels[1], np.generic) else labels[1]


def _shown(label: Any) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def _try_on_training(question: ScoreQuestion, training: Part) -> None:
    """Apply a model to some training rows, which are free: what goes wrong there is told, and costs
    nothing."""
    if not isinstance(question.predictions, Model):
        return
    rows = training.rows.first(min(_TRIED_ROWS, training.rows.count))
    sample = Part(rows, training=True, data_rows=training.data_rows)
    try:
        found = question.predictions.predict(sample, question.target)
    except Exception as error:
        raise QueryRejected(
            f"The model cannot be applied to training rows, so it was not applied to others and nothing was "
            f"charged. {type(error).__name__}: {error}"
        ) from error
    if question.metric == "brier":
        numbers = found.dtype.kind in "biuf"
        if not (numbers and np.all((found >= -1e-6) & (found <= 1 + 1e-6))):
            raise QueryRejected(
                "A Brier score is of probabilities, and predict_proba returned values that are not numbers "
                "from 0 to 1 for training rows. Nothing was charged."
            )
    else:
        _require_kind(found, question.target, question.metric, sample)


def _require_kind(predictions: NDArray[Any], target: str, metric: str, part: Part) -> None:
    """Refuse predictions that could never equal the target, because they are of another kind."""
    kind, stored = kind_of_values(predictions), part.rows.schema[target].kind
    if metric == "brier":
        if kind != "number" or not comparable("number", stored):
            raise QueryRejected(
                f"A Brier score needs numbers, and a target that is 0 or 1. The predictions are of kind "
                f"{kind}, and the column {target!r} is of kind {stored}. Give a model with classes_, or "
                "score against a column of 0 and 1."
            )
    elif not comparable(kind, stored):
        raise QueryRejected(
            f"The predictions are of kind {kind} and the column {target!r} is of kind {stored}, so none "
            "could be right. Give the labels as they are stored."
        )


def score_query(predictions: str, *, target: str, metric: str, guess: Any, schema: Any = None) -> Query:
    """The score of predictions that are an expression, as a query. A row without a prediction or a target
    counts as wrong, as it does for arrays and models."""
    checks.choice(metric, "metric", METRICS, of="Guard.score")
    if metric == "brier":
        difference = f"(({predictions}) - ({target}))"
        square = f"{difference} * {difference}"
        return queries.mean(square, bounds=(0, 1), nulls=1, guess=guess, schema=schema)
    sign = "=" if metric == "accuracy" else "<>"
    return queries.share(
        f"({predictions}) {sign} ({target})", nulls=metric == "error", guess=guess, schema=schema
    )
