"""Any classifier, replicable at each point: many learners on parts of the rows, and a shared vote."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding
from holdfast.errors import InvalidArgument, MissingExtra, NotEnoughRows
from holdfast.replicable._deviation import mean_gap
from holdfast.replicable._elementary import Floats
from holdfast.replicable._least import least_whole
from holdfast.replicable._seeded import as_tape
from holdfast.replicable._tape import Tape
from holdfast.stability import Replicability, disagreement_bound

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise MissingExtra("sklearn", what="PointwiseClassifier") from missing

__all__ = ["PointwiseClassifier", "pointwise_learners", "pointwise_rho"]

_BY = "Hopkins, Impagliazzo and Ye 2025"


def pointwise_rho(learners: Any, classes: Any = 2) -> float:
    """How often two samples give different labels at one point, with so many learners on each side.

    Guarantee: at most C(2T, T)/4^T ≤ 1/√(πT) for two classes, and 2x/(1 + x) with x = √((k − 1)/2T) for k.
    Assumes: as :class:`PointwiseClassifier`.
    Reference: notion: Hopkins, Impagliazzo and Ye 2025; rule, proof and constants: Holdfast.

    >>> round(pointwise_rho(32), 4)
    0.0993
    """
    of = "pointwise_rho"
    learners = checks.whole(learners, "learners", of=of, by=_BY)
    classes = checks.whole(classes, "classes", of=of, by=_BY)
    if classes == 1:
        return 0.0
    if classes == 2:
        return rounding.probability(mean_gap(learners))
    return disagreement_bound(rounding.probability(math.sqrt((classes - 1) / (2.0 * learners))))


def pointwise_learners(rho: float, classes: Any = 2) -> int:
    """The fewest learners for which :func:`pointwise_rho` is at most ``rho``.

    Guarantee: as :func:`pointwise_rho`.
    Assumes: as :class:`PointwiseClassifier`.
    Reference: notion: Hopkins, Impagliazzo and Ye 2025; rule, proof and constants: Holdfast.

    >>> pointwise_learners(0.1), pointwise_learners(0.1, classes=3)
    (32, 362)
    """
    rho = checks.real(rho, "rho", "[1e-4, 1)", of="pointwise_learners", by=_BY)
    learners = least_whole(lambda count: pointwise_rho(count, classes) <= rho)
    assert learners is not None
    return learners


class PointwiseClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Any scikit-learn classifier, made replicable at each point.

    The rows are dealt, in an order that the tape fixes, to T learners, clones of ``estimator`` (a decision
    tree of depth 3 by default). At a point x the classes have shares of the learners' votes; the label is
    drawn from the shares with coins that all points and both laboratories share. For two classes this is one
    shared threshold on the share of votes.

    ``learners`` is T; by default the fewest that ``rho`` needs: 32 at 0.1 for two classes. After ``fit``:
    ``estimators_``, ``classes_``, ``guarantee_``. With ``best_effort=True`` (the default) fewer rows than
    learners make a weaker ``guarantee_``; ``best_effort=False`` raises ``NotEnoughRows``.

    Guarantee: at each point fixed in advance, two samples with the same labels in them and the same tape
    give different labels with probability at most ``guarantee_.rho``; hence so large a share of fresh points
    differs on average. The label is wrong at a point as often as one learner is, trained on a part. Nothing
    is promised about all points at once.
    Assumes: rows drawn independently (not checkable); an ``estimator`` that uses no other data.
    Reference: notion: Hopkins, Impagliazzo and Ye 2025; rule and proof: docs/theory/replicable-learning.md.

    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(6400, 2))
    >>> model = PointwiseClassifier(rho=0.1, tape="study-7").fit(x, x[:, 0] > 0.1)
    >>> len(model.estimators_), model.guarantee_
    (32, Replicability(rho=0.0993482))
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        rho: float = 0.1,
        learners: int | None = None,
        tape: Tape | str = "holdfast",
        best_effort: bool = True,
    ) -> None:
        self.estimator = estimator
        self.rho = rho
        self.learners = learners
        self.tape = tape
        self.best_effort = best_effort

    def fit(self, X: Any, y: Any) -> PointwiseClassifier:  # noqa: N803
        """Train the learners, each on its own part of the rows."""
        of = "PointwiseClassifier"
        table, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError("PointwiseClassifier needs at least 2 classes; the labels hold one class.")
        tape = as_tape(self.tape, of=of)
        wanted = self._wanted(len(self.classes_), of)
        count = min(wanted, max(1, len(table) // 2))
        if count < wanted and not self.best_effort:
            raise NotEnoughRows(2 * wanted, len(table), what=f"{of} with {wanted} learners")
        # An order that does not depend on the data: files are often sorted by label.
        order = tape.branch("order").permutation(len(table))
        size = len(table) // count
        parts = [order[number * size : (number + 1) * size] for number in range(count)]
        seeds = tape.branch("seeds").integers(count, 2**31)
        self.estimators_ = [
            self._trained(table[part], labels[part], int(seed))
            for part, seed in zip(parts, seeds, strict=True)
        ]
        self.coins_ = tape.branch("labels").exponentials(len(self.classes_))
        self.guarantee_ = Replicability(pointwise_rho(count, len(self.classes_)))
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The label that the shared coins draw from the votes, for each row."""
        shares = self.vote_shares(X)
        with np.errstate(divide="ignore"):
            arrivals = self.coins_ / shares
        chosen: npt.NDArray[Any] = self.classes_[np.argmin(arrivals, axis=1)]
        return chosen

    def vote_shares(self, X: Any) -> Floats:  # noqa: N803
        """The share of the learners that vote for each class, one line for each row.

        They depend on the rows more than the labels do: two laboratories do not get the same shares.
        """
        check_is_fitted(self, "estimators_")
        table = validate_data(self, X, dtype=np.float64, reset=False)
        votes = np.zeros((len(table), len(self.classes_)))
        for learner in self.estimators_:
            place = np.searchsorted(self.classes_, learner.predict(table))
            votes[np.arange(len(table)), place] += 1.0
        return votes / len(self.estimators_)

    def _wanted(self, classes: int, of: str) -> int:
        if self.learners is not None:
            return checks.whole(self.learners, "learners", of=of)
        return pointwise_learners(checks.real(self.rho, "rho", "[1e-4, 1)", of=of), classes)

    def _trained(self, table: Floats, labels: npt.NDArray[Any], seed: int) -> Any:
        if len(np.unique(labels)) == 1:
            return _Constant(labels[0])
        learner = DecisionTreeClassifier(max_depth=3) if self.estimator is None else clone(self.estimator)
        if not hasattr(learner, "fit") or not hasattr(learner, "predict"):
            raise InvalidArgument("estimator", "a scikit-learn classifier", learner, of="PointwiseClassifier")
        settings = learner.get_params()
        if "random_state" in settings and settings["random_state"] is None:
            learner.set_params(random_state=seed)
        return learner.fit(table, labels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


class _Constant:
    """What a learner is whose part holds one label."""

    def __init__(self, label: Any) -> None:
        self.label = label

    def predict(self, table: Floats) -> npt.NDArray[Any]:
        """The label, for each row."""
        return np.repeat(np.asarray([self.label]), len(table))
