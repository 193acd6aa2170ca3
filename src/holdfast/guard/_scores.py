"""Scoring predictions against a column of the rows, in this process."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.engines import SCALE_BITS
from holdfast.errors import QueryRejected
from holdfast.guard._question import Moments, Part, Question

METRICS = ("accuracy", "error", "brier")


@dataclass(frozen=True, kw_only=True)
class ScoreQuestion(Question):
    """The mean score of predictions: an array over the rows of the data or the protected rows, or a fitted
    model."""

    predictions: Any
    target: str
    metric: str
    everywhere: bool  # whether the training rows have predictions too

    def predict(self, part: Part) -> NDArray[Any]:
        """The predictions for the rows of one part. A model sees all columns but the target."""
        if hasattr(self.predictions, "predict"):
            return np.asarray(self.predictions.predict(part.rows.frame().drop(columns=[self.target])))
        covers_data = part.mask is not None and len(self.predictions) == len(part.mask)
        return np.asarray(self.predictions[part.mask] if covers_data else self.predictions)

    @property
    def in_training(self) -> bool:
        return self.everywhere

    def moments(self, part: Part, *, squares: bool = False) -> Moments:
        predicted, truth = self.predict(part), part.column(self.target)
        if predicted.shape != truth.shape:
            raise ValueError("one prediction for each row is needed")
        if self.metric == "brier":
            scale = 1 << SCALE_BITS
            loss = np.clip((predicted.astype(float) - truth.astype(float)) ** 2, 0.0, 1.0)
            units = np.floor(np.where(np.isnan(loss), 1.0, loss) * scale + 0.5).astype(np.int64)
        else:
            scale = 1
            units = np.asarray((predicted == truth) == (self.metric == "accuracy")).astype(np.int64)
        total = int(units.sum())
        second = sum(int(value) * value for value in units.tolist()) if squares else None
        return Moments.from_integers(len(units), total, second, scale, self.low, self.high)

    @property
    def record(self) -> Any:
        return self.text


def score_question(
    predictions: Any, *, target: str, metric: str, guess: Any, name: str | None, protected: Part
) -> ScoreQuestion:
    """The question behind ``guard.score``; the same predictions are the same question, a model is a new one
    each time."""
    checks.choice(metric, "metric", METRICS, of="Guard.score")
    if target not in protected.rows.schema:
        raise QueryRejected(
            f"There is no column {target!r} to score against; there are {', '.join(protected.rows.schema)}."
        )
    if hasattr(predictions, "predict"):
        identity, everywhere = name or secrets.token_hex(16), True
    else:
        predictions = np.asarray(predictions)
        if not protected.rows.has_order:
            raise QueryRejected(
                f"Rows in {protected.rows.where} have no order that predictions could follow; put them in a "
                "column of the table and ask about that, or give a fitted model."
            )
        if predictions.ndim != 1 or len(predictions) not in (protected.rows.count, protected.data_rows):
            raise QueryRejected(
                f"Give one prediction for each of the {protected.data_rows:,} rows of the data, or "
                "for each of the "
                f"{protected.rows.count:,} protected rows; got an array of shape {predictions.shape}."
            )
        predictions = _of_one_kind(predictions)
        identity = hashlib.sha256(predictions.dtype.str.encode() + predictions.tobytes()).hexdigest()
        everywhere = protected.mask is not None and len(predictions) == protected.data_rows
    return ScoreQuestion(
        key=hashlib.sha256(f"score {metric} {target} {identity}".encode()).hexdigest(),
        text=f"score({name or identity[:12]}, target = {target}, metric = {metric})",
        low=0.0,
        high=1.0,
        guess=None if guess is None else checks.real(guess, "guess", "[0, 1]", of="Guard.score"),
        kind="mean" if metric == "brier" else "share",
        resolution=2.0**-SCALE_BITS if metric == "brier" else 0.0,
        predictions=predictions,
        target=target,
        metric=metric,
        everywhere=everywhere,
    )


def _of_one_kind(predictions: NDArray[Any]) -> NDArray[Any]:
    """Numbers as floats and anything else as texts no longer than they are, so that the same predictions are
    the same question however they are stored."""
    if predictions.dtype == object:
        predictions = np.asarray(predictions.tolist())
    if predictions.dtype.kind not in "biuf":
        return np.array(predictions.astype(str).tolist())
    numbers = predictions.astype(np.float64) + 0.0  # one zero
    whole = predictions.dtype.kind in "iu"
    # Beyond this, numbers that differ are the same float.
    return predictions if whole and np.any(np.abs(numbers) >= 2.0**53) else numbers


def score_text(predictions: str, *, target: str, metric: str) -> str:
    """The score of one row, where the predictions are an expression."""
    checks.choice(metric, "metric", METRICS, of="Guard.score")
    if metric == "brier":
        return f"(({predictions}) - ({target})) * (({predictions}) - ({target}))"
    return f"({predictions}) {'=' if metric == 'accuracy' else '<>'} ({target})"
