"""A fitted model to be scored: what it predicts for rows, and the conditions it must meet."""

from __future__ import annotations

import copy
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import QueryRejected
from holdfast.readings import Part
from holdfast.scoring._metrics import (
    METRICS,
    comparable,
    kind_of_values,
)


@dataclass(frozen=True)
class Model:
    """A copy of a fitted model from the time of the question.

    ``column`` is the column of the scored class among its probabilities; with ``whole`` all of them are
    scored. ``output`` names what is scored, its ``predict`` or its ``predict_proba``. ``features`` are the
    columns it was fitted on (None: it does not say, and gets all but the target). Each use works on a copy:
    the caller's model never sees a protected row, and keeps nothing of one.
    """

    fitted: Any
    output: str
    features: tuple[str, ...] | None
    column: int | None = None
    whole: bool = False

    def predict(self, part: Part, target: str) -> NDArray[Any]:
        """One prediction, or one probability of the scored class, for each row of a part. Reads the rows."""
        columns = self.features or tuple(name for name in part.rows.schema if name != target)
        predicted = np.asarray(getattr(copied(self.fitted), self.output)(part.rows.frame(list(columns))))
        return self._scored(predicted, part.rows.count)

    def _scored(self, predicted: NDArray[Any], rows: int) -> NDArray[Any]:
        if self.whole and predicted.ndim == 2 and len(predicted) == rows:
            return predicted
        if self.output == "predict_proba" and predicted.ndim == 2 and predicted.shape[1] == 2:
            predicted = predicted[:, 1 if self.column is None else self.column]
        elif self.column is not None and predicted.ndim == 2:
            predicted = predicted[:, self.column]
        if predicted.shape != (rows,):
            raise ValueError(f"{self.output} returned an array of shape {predicted.shape} for {rows:,} rows")
        return predicted

    def out_of_fold(self, training: Part, target: str, folds: int) -> NDArray[Any] | None:
        """Predictions for the training rows by models that were fitted without them; None for a model that
        cannot be fitted again."""
        if "sklearn" not in sys.modules:
            return None
        from sklearn.base import BaseEstimator, clone
        from sklearn.model_selection import cross_val_predict

        if not isinstance(self.fitted, BaseEstimator) or training.rows.count < 2 * folds:
            return None
        columns = self.features or tuple(name for name in training.rows.schema if name != target)
        frame, truth = training.rows.frame(list(columns)), training.column(target)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted = cross_val_predict(clone(self.fitted), frame, truth, cv=folds, method=self.output)
            return self._scored(np.asarray(predicted), training.rows.count)
        except Exception:  # A model that cannot be fitted on these rows is scored as it is.
            return None


def copied(model: object) -> Any:
    """A copy of a model; the model itself if it cannot be copied."""
    try:
        return copy.deepcopy(model)
    except Exception:
        return model


def output_of(model: object, metric: str) -> str:
    """The method of a model that is scored."""
    needs = METRICS[metric].needs
    methods = {
        "label": ("predict",),
        "number": ("predict",),
        "probability": ("predict_proba",),
        "score": ("predict_proba", "decision_function"),
    }[needs]
    output = next((name for name in methods if hasattr(model, name)), None)
    if output is None:
        raise QueryRejected(
            f"{type(model).__name__} has no {' or '.join(methods)}, and {metric} needs it. "
            + (
                "Use a model that gives probabilities, or give the probabilities as an array."
                if needs in ("probability", "score")
                else "Use metric='brier', or give the predictions as an array."
            )
        )
    return output


def require_fitted(model: object) -> None:
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


def features_of(model: object, target: str, protected: Part) -> tuple[str, ...] | None:
    """The columns that a model was fitted on, if it says so."""
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


def positive_class(model: object, target: str, protected: Part, positive: object) -> Any:
    """The label whose probability is scored: the label ``positive`` if it is given, else the second of two
    classes. That is 1 of 0 and 1, True of False and True, and the later of two texts. None if a model names
    no classes."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        require_kind(np.zeros(0), target, "brier", protected, positive=positive)
        return positive
    several = isinstance(classes, list) and any(np.ndim(labels_of_output) > 0 for labels_of_output in classes)
    labels = np.zeros((0, 0)) if several else np.asarray(classes)
    if labels.ndim != 1 or len(labels) != 2:
        count = "several targets" if labels.ndim != 1 else f"{len(labels)}"
        raise QueryRejected(
            f"A Brier score needs two classes, and this model has {count}. Score its labels with "
            "metric='accuracy', or the probability of one class as an array against a column that is 0 or 1."
        )
    if not comparable(kind_of_values(labels), protected.rows.schema[target].kind):
        raise QueryRejected(
            f"The model's classes are {quoted(labels[0])} and {quoted(labels[1])}, and the column {target!r} "
            f"is of another kind ({protected.rows.schema[target].kind}). Fit it on the labels as they are "
            "stored."
        )
    if positive is not None and positive not in labels.tolist():
        raise QueryRejected(
            f"The model has no class {quoted(positive)}: its classes are {quoted(labels[0])} and "
            f"{quoted(labels[1])}."
        )
    chosen = labels[1] if positive is None else positive
    return chosen.item() if isinstance(chosen, np.generic) else chosen


def quoted(label: object) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def require_kind(
    predictions: NDArray[Any], target: str, metric: str, part: Part, positive: object = None
) -> None:
    """Refuse predictions that could never equal the target, because they are of another kind."""
    kind, stored = kind_of_values(predictions), part.rows.schema[target].kind
    needs = METRICS[metric].needs
    if metric in ("log_loss", "auc") or needs == "number":
        if kind != "number":
            raise QueryRejected(f"{metric} needs predictions that are numbers; these are of kind {kind}.")
    elif metric == "brier":
        if kind != "number" or not (positive is not None or comparable("number", stored)):
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
