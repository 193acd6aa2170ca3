"""Verbs about predictions, the same for a guard and for a client of a service."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from holdfast import checks
from holdfast.errors import InvalidArgument
from holdfast.guard._verbs import Verbs
from holdfast.scoring import METRICS

if TYPE_CHECKING:
    from holdfast.answers import Answer
    from holdfast.typing import BoundsLike, Label, MetricName

Predicted = TypeVar("Predicted")


@dataclass(frozen=True)
class ScoreRequest:
    """One requested score; the fields are the arguments of :meth:`ScoreVerbs.score`."""

    predictions: object
    target: str
    metric: str
    guess: float | None = None
    cv: int | None = None
    bounds: BoundsLike = None
    positive: Label = None
    name: str | None = None


class ScoreVerbs(Verbs, Generic[Predicted]):
    """Verbs that score predictions; the other verbs are those of :class:`Verbs`.

    Guarantee: as for the other verbs.
    """

    @abstractmethod
    def _scores(self, requests: Sequence[ScoreRequest], *, precise: bool, nats: float | None) -> list[Answer]:
        """The requested scores, asked together."""

    @abstractmethod
    def _compared(self, a: ScoreRequest, b: ScoreRequest, *, precise: bool, nats: float | None) -> Answer:
        """The first score less the second."""

    @overload
    def score(
        self,
        predictions: Predicted,
        *,
        target: str,
        metric: MetricName = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer: ...
    @overload
    def score(
        self,
        predictions: Predicted,
        *,
        target: str,
        metric: list[MetricName] | tuple[MetricName, ...],
        guess: None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> dict[str, Answer]: ...
    def score(
        self,
        predictions: Predicted,
        *,
        target: str,
        metric: MetricName | list[MetricName] | tuple[MetricName, ...] = "accuracy",
        guess: float | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        name: str | None = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Any:
        """The score of predictions against the column ``target``; with a list of metrics, one answer for
        each by its name, asked together.

        ``predictions`` is an expression over the columns, an array with one prediction for each row of the
        data or each protected row, or a fitted model. A model is applied in this process, as a copy, to the
        columns it was fitted on (all but the target, where it does not say).

        ``metric`` is one of "accuracy", "error", "balanced_accuracy", "precision", "recall", "f1" (of
        labels), "auc", "log_loss", "brier" (of probabilities; "auc" of any scores), "mae", "mse", "rmse",
        "r2" (of numbers). ``positive`` is the label that counts as positive, if it is not the second of two.
        Numbers are clipped to ``bounds``, those of the target; without them to a range that the training
        part shows. A log loss is clipped at ``bounds=(0, cap)``, 10 unless you say otherwise.

        "brier" is the mean of (probability − outcome)²: an array gives the probability that a target of 0
        and 1 is 1; a model gives the probability of the second of its two ``classes_`` by ``predict_proba``,
        and the outcome is 1 where the target is that class. A row without a prediction or a target counts as
        wrong.

        The guess is never a model's score on rows it was fitted on. A model of scikit-learn is fitted again
        in ``cv`` folds of the training part (three, unless you say otherwise); or give a ``guess``. A model
        that cannot be fitted again has no guess, except for "r2", whose interval needs one. The answer's
        notes say where the guess came from.

        The same array, or a model with the same content, is the same question and costs nothing again.
        ``name`` is a label for readers, and never decides what is the same: another model under the same name
        is another question. A model whose content has no stable digest is a new question each time, and the
        answer's notes say so. A model that changes when it predicts (it counts, or keeps what it saw) is
        another model afterwards; scoring it here does not change it.

        Guarantee: as for :meth:`share`; the predictions must not have been made with the protected rows'
        targets, and for an array the order of the rows must say nothing about them. Mistakes in predictions
        that public facts or the training rows show are reported before anything is charged.

        A service scores expressions only. There is no model to fit again, so ``cv`` and ``name`` do nothing
        there.
        """
        of = f"{type(self).__name__}.score"
        several = isinstance(metric, (list, tuple))
        metrics = list(metric) if isinstance(metric, (list, tuple)) else [metric]
        if several:
            for each_metric in metrics:
                checks.choice(each_metric, "metric", tuple(METRICS), of=of)
            if guess is not None:
                raise InvalidArgument("guess", "left out: each metric has a guess of its own", guess, of=of)
        requests = [
            ScoreRequest(predictions, target, each_metric, guess, cv, bounds, positive, name)
            for each_metric in metrics
        ]
        answers = self._scores(requests, precise=precise, nats=nats)
        return dict(zip(metrics, answers, strict=True)) if several else answers[0]

    def score_all(
        self,
        predictions: Sequence[Predicted],
        *,
        target: str,
        metric: MetricName = "accuracy",
        names: Sequence[str] | None = None,
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> list[Answer]:
        """The scores of several predictions by one metric, asked together: none pays for what the others
        reveal. The arguments are those of :meth:`score`; ``names`` are labels for readers."""
        labels = list(names) if names is not None else [None] * len(predictions)
        if len(labels) != len(predictions):
            raise InvalidArgument(
                "names", "one for each of the predictions", names, of=f"{type(self).__name__}.score_all"
            )
        requests = [
            ScoreRequest(predicted, target, metric, None, cv, bounds, positive, name)
            for predicted, name in zip(predictions, labels, strict=True)
        ]
        return self._scores(requests, precise=precise, nats=nats)

    def compare(
        self,
        a: Predicted,
        b: Predicted,
        *,
        target: str,
        metric: MetricName = "accuracy",
        cv: int | None = None,
        bounds: BoundsLike = None,
        positive: Label = None,
        precise: bool = False,
        nats: float | None = None,
    ) -> Answer:
        """The score of the predictions ``a`` less that of ``b``, row by row. Both are right or wrong about
        the same rows, so this is much narrower than two scores. The arguments are those of :meth:`score`.

        Guarantee: as for :meth:`score`.
        """
        first, second = (
            ScoreRequest(predicted, target, metric, None, cv, bounds, positive) for predicted in (a, b)
        )
        return self._compared(first, second, precise=precise, nats=nats)
