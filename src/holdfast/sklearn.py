"""One test set for many models: scikit-learn scorers and a choice whose winner's interval still holds.

Scores come from the protected rows of a guard. All of their intervals hold together, that of the winner
included, however many models were tried and however they depended on earlier scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from holdfast import checks
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.guard import Answer, Guard
from holdfast.records import Record, interval_words
from holdfast.scoring import METRICS
from holdfast.typing import Predictor

if TYPE_CHECKING:
    import pandas

    from holdfast.typing import MetricName, ScoreAllOptions, ScorerOptions

__all__ = ["GuardedScorer", "Selection", "select"]


class GuardedScorer:
    """A ``scoring=`` for scikit-learn that scores a fitted model on the protected rows of a guard.

    scikit-learn calls it with a model and the rows of a fold that the model was not fitted on. The score
    there is the guess, which keeps the price low; what is returned is the guard's answer. As everywhere in
    scikit-learn, more is better: losses are returned with a minus sign. ``answers`` has every answer with
    its interval.

    The account lives in this process, so use ``n_jobs=1`` where the scorer is called.

    Args:
        guard: The guard of the table that models are scored on.
        metric: The score by its name, for example "accuracy"; see :meth:`holdfast.Guard.score`.
        target: The column to predict. None: the only column that the model was not fitted on.
        options: As in :meth:`holdfast.Guard.score`, without ``guess``.

    >>> import numpy as np, pandas as pd
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.normal(size=3_000)})
    >>> table["y"] = (table.x + rng.normal(size=3_000) > 0).astype(int)
    >>> guard = Guard(table)
    >>> scorer = GuardedScorer(guard, "accuracy", target="y")
    >>> model = LogisticRegression().fit(guard.train[["x"]], guard.train["y"])
    >>> bool(0.6 < scorer(model, guard.train[["x"]], guard.train["y"]) < 0.9)
    True
    """

    def __init__(
        self,
        guard: Guard,
        metric: MetricName = "accuracy",
        *,
        target: str | None = None,
        **options: Unpack[ScorerOptions],
    ) -> None:
        self.guard = guard
        checks.choice(metric, "metric", tuple(METRICS), of="GuardedScorer")
        self.metric: MetricName = metric
        self.target = target
        self.options = options
        self.answers: list[Answer] = []

    def __call__(self, estimator: Any, rows: Any = None, target: Any = None) -> float:
        """The score of a fitted model on the protected rows. ``rows`` and ``target`` are those of a fold, and
        give the guess."""
        answer = self.guard.score(
            estimator,
            target=self._target_of(estimator),
            metric=self.metric,
            guess=self._guess(estimator, rows, target),
            **self.options,
        )
        if answer not in self.answers:
            self.answers.append(answer)
        return -answer.value if METRICS[self.metric].loss else answer.value

    def _target_of(self, estimator: Any) -> str:
        """The column to predict."""
        if self.target is not None:
            return self.target
        features = set(getattr(estimator, "feature_names_in_", ()))
        unused_columns = [column for column in self.guard.schema if column not in features]
        if not features or len(unused_columns) != 1:
            reason = "was not fitted on named columns" if not features else f"does not use {unused_columns}"
            raise InvalidArgument(
                "target", f"the name of the column to predict: the model {reason}", None, of="GuardedScorer"
            )
        return str(unused_columns[0])

    def _guess(self, estimator: Any, rows: Any, target: Any) -> float | None:
        """The model's score on rows that it was not fitted on, where scikit-learn gives them."""
        if rows is None or target is None:
            return None
        from sklearn import metrics

        scorers = {
            "accuracy": metrics.accuracy_score,
            "error": metrics.zero_one_loss,
            "balanced_accuracy": metrics.balanced_accuracy_score,
            "mae": metrics.mean_absolute_error,
            "mse": metrics.mean_squared_error,
            "r2": metrics.r2_score,
        }
        if self.metric not in scorers:
            return None  # The guard makes its own guess, by cross-validation.
        return float(scorers[self.metric](target, estimator.predict(rows)))

    def __getstate__(self) -> Any:
        raise TypeError(
            "A guard's account lives in one process, and this scorer is being sent to another. Use n_jobs=1."
        )

    def __sklearn_clone__(self) -> GuardedScorer:
        return self

    def __repr__(self) -> str:
        return f"GuardedScorer({self.metric!r}, target={self.target!r}, {len(self.answers)} answers)"


@dataclass(frozen=True, repr=False)
class Selection(Record):
    """Which of several models scored best, and every score with its interval.

    Guarantee: with the guard's confidence all intervals hold together, that of the winner included. The
    winner is the one with the best value; ``also_possible`` names the others that the intervals cannot tell
    from it.

    Args:
        best: The name of the best model.
        score: The answer for the best model.
        answers: The answer for each model.
        metric: The score by its name, for example "accuracy"; see :meth:`holdfast.Guard.score`.
        model: The best model.
    """

    best: str
    score: Answer
    answers: dict[str, Answer] = field(repr=False)
    metric: MetricName
    model: Predictor = field(repr=False)

    @property
    def also_possible(self) -> tuple[str, ...]:
        """The other models whose interval overlaps the winner's."""
        winner = self.score
        return tuple(
            name
            for name, answer in self.answers.items()
            if name != self.best and answer.low <= winner.high and answer.high >= winner.low
        )

    def to_frame(self) -> pandas.DataFrame:
        """The scores as a pandas data frame, best first."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", what="selection.to_frame()") from None
        rows = [
            {"model": name, "value": answer.value, "low": answer.low, "high": answer.high}
            for name, answer in self.answers.items()
        ]
        return pandas.DataFrame(rows).sort_values(
            "value", ascending=METRICS[self.metric].loss, ignore_index=True, kind="stable"
        )

    def __repr__(self) -> str:
        value, interval = interval_words(self.score.value, self.score.low, self.score.high)
        return f"{self.best}: {self.metric} {value} in {interval}, best of {len(self.answers)}"


def select(
    estimators: Mapping[str, Any] | Sequence[Any],
    guard: Guard,
    *,
    target: str,
    metric: MetricName = "accuracy",
    features: Sequence[str] | None = None,
    **options: Unpack[ScoreAllOptions],
) -> Selection:
    """Score several models on the protected rows, all together, and say which is best.

    ``estimators`` are models by name, or a list of them. Those that are not fitted are fitted, as copies, on
    the guard's training part, to predict ``target`` from ``features`` (all other columns, unless you say
    which). ``options`` are those of :meth:`holdfast.Guard.score_all`.

    Guarantee: that of :class:`Selection`.

    Args:
        guard: The guard of the table that models are scored on.
        metric: The score by its name, for example "accuracy"; see :meth:`holdfast.Guard.score`.
    """
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    models = dict(estimators) if isinstance(estimators, Mapping) else _by_name(estimators)
    if not models:
        raise InvalidArgument("estimators", "at least one model", estimators, of="select")
    train = guard.training_rows()
    fitted = {}
    for name, model in models.items():
        try:
            check_is_fitted(model)
            fitted[name] = model
        except NotFittedError:
            if train is None:
                raise InvalidArgument("estimators", "fitted: the guard has no training part", name) from None
            columns = (
                list(features) if features is not None else [column for column in train if column != target]
            )
            fitted[name] = clone(model).fit(train[columns], train[target])
    scores = guard.score_all(
        list(fitted.values()), target=target, metric=metric, names=list(fitted), **options
    )
    answers = dict(zip(fitted, scores, strict=True))
    better = min if METRICS[metric].loss else max
    best = better(answers, key=lambda name: answers[name].value)
    return Selection(best, answers[best], answers, metric, fitted[best])


def _by_name(estimators: Sequence[Any]) -> dict[str, Any]:
    models: dict[str, Any] = {}
    for model in estimators:
        name, number = type(model).__name__, 2
        while name in models:
            name, number = f"{type(model).__name__} {number}", number + 1
        models[name] = model
    return models
