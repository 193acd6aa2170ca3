"""Replicable classifiers for scikit-learn: the best stump of a fixed grid, and a vote of any learners.

Stumps are rules on one feature and one threshold, from a grid that is fixed before any data is seen.
``PointwiseClassifier`` runs a classifier on parts of the rows and lets a shared vote decide at each point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks, rounding, search
from holdfast.errors import InvalidArgument, MissingExtra, NotEnoughRows
from holdfast.records import Record
from holdfast.replicable._choose import choice_design, choose_rows
from holdfast.replicable._rounding import mean_gap
from holdfast.replicable._tape import Floats, Tape, as_tape
from holdfast.replicable._ways import ChoiceProblem
from holdfast.stability import Replicability, disagreement_bound
from holdfast.typing import Predictor

__all__ = [
    "PointwiseClassifier",
    "ReplicableClassifier",
    "Rule",
    "Stumps",
    "pointwise_learners",
    "pointwise_rho",
    "threshold_grid",
]


try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.dummy import DummyClassifier
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise MissingExtra("sklearn", what="ReplicableClassifier") from missing


class ReplicableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The best stump on chosen features, the same on fresh data: one feature, one threshold, two labels.

    The thresholds are fixed before the data is seen: ``thresholds`` lists them, or says how many divide the
    ``bounds``; without bounds they are 0 and ±2⁻⁶ … ±2⁶. ``features`` lists columns (all by default).
    ``tape`` is a :class:`Tape` or its seed.

    After ``fit``: ``rule_``, ``classes_``, ``result_`` and ``guarantee_``, the replicability that the rows at
    hand allow. With ``best_effort=True`` (the default, so that small samples can be fitted) this may be
    weaker than ``rho``, as far as 1, which promises nothing; ``best_effort=False`` raises ``NotEnoughRows``
    instead.

    Guarantee: two samples with the same labels in them, the same tape and parameters, give different rules
    with probability at most ``guarantee_.rho``; the rule's error exceeds the least of all
    stumps by more than ``accuracy`` with probability at most ``result_.beta``.
    Assumes: rows drawn independently (not checkable).
    Reference: SIS Algorithm 10 and Theorem 5.13, as :func:`choose`.

    Args:
        beta: How often the rule may err by more than ``accuracy`` beyond the best.

    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 1))
    >>> model = ReplicableClassifier(bounds=(-1, 1), thresholds=3, accuracy=0.2, rho=0.1, beta=0.1)
    >>> model.fit(x, np.where(x[:, 0] > 0.5, "yes", "no")).rule_
    Rule(feature=0, threshold=0.5, low=np.str_('no'), high=np.str_('yes'))
    >>> model.guarantee_
    Replicability(rho=0.1)
    """

    def __init__(
        self,
        *,
        features: npt.ArrayLike | None = None,
        thresholds: npt.ArrayLike = 15,
        bounds: npt.ArrayLike | None = None,
        accuracy: float = 0.05,
        rho: float = 0.1,
        beta: float = 0.05,
        tape: Tape | str = "holdfast",
        best_effort: bool = True,
    ) -> None:
        self.features = features
        self.thresholds = thresholds
        self.bounds = bounds
        self.accuracy = accuracy
        self.rho = rho
        self.beta = beta
        self.tape = tape
        self.best_effort = best_effort

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> ReplicableClassifier:  # noqa: N803
        """Choose the rule.

        Args:
            X: The rows, one column for each feature.
            y: The label of each row.
        """
        table, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("ReplicableClassifier needs at least 2 classes; the labels hold one class.")
        stumps = self._stumps(table.shape[1], len(self.classes_))
        problem = ChoiceProblem(
            len(stumps),
            checks.real(self.accuracy, "accuracy", "(0, 1)", of="ReplicableClassifier"),
            checks.real(self.beta, "beta", "(0, 1)", of="ReplicableClassifier"),
            realizable=False,
        )
        rho = checks.real(self.rho, "rho", "(0, 1)", of="ReplicableClassifier")
        design = choice_design(problem, rho)
        used = slice(design.rows)
        self.result_ = design.choose(
            stumps.errors(table[used], codes[used]),
            len(table),
            as_tape(self.tape, of="ReplicableClassifier"),
            best_effort=self.best_effort,
        )
        self.guarantee_ = self.result_.guarantee
        self.rule_ = stumps.rule(int(self.result_), self.classes_)
        return self

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:  # noqa: N803
        """The rule's label for each row.

        Args:
            X: The rows, one column for each feature.
        """
        check_is_fitted(self, "rule_")
        return self.rule_.labels(validate_data(self, X, dtype=np.float64, reset=False))

    def rows_needed(self, n_features: int, n_classes: int = 2) -> int:
        """The rows for which ``rho`` holds in full, with these numbers of columns and labels.

        Args:
            n_features: How many columns the rows have.
            n_classes: How many different labels there are.
        """
        stumps = self._stumps(n_features, n_classes)
        return choose_rows(models=len(stumps), accuracy=self.accuracy, rho=self.rho, beta=self.beta)

    def _stumps(self, n_features: int, n_classes: int) -> Stumps:
        every = np.arange(n_features)
        chosen = every if self.features is None else np.asarray(self.features)
        if chosen.ndim != 1 or not len(chosen) or not bool(np.isin(chosen, every).all()):
            raise InvalidArgument(
                "features", f"columns from 0 to {n_features - 1}", self.features, of="ReplicableClassifier"
            )
        grid = threshold_grid(self.thresholds, self.bounds, len(chosen), of="ReplicableClassifier")
        return Stumps(chosen, grid, n_classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        return tags


# Without bounds: zero and plus or minus powers of two, which serve features of any scale near 1.
_POWERS = 2.0 ** np.arange(-6, 7)


@dataclass(frozen=True, repr=False)
class Rule(Record):
    """``low`` where the feature is at most the threshold, ``high`` above; constant rules have no feature."""

    feature: int | None
    threshold: float | None
    low: Any
    high: Any

    def labels(self, table: Floats) -> npt.NDArray[Any]:
        """The label of each row."""
        if self.feature is None or self.threshold is None:
            return np.full(len(table), self.low)
        labels: npt.NDArray[Any] = np.where(table[:, self.feature] <= self.threshold, self.low, self.high)
        return labels


def threshold_grid(thresholds: object, bounds: object, features: int, *, of: str) -> Floats:
    """Thresholds for each feature, as an array of features by thresholds.

    Numbers are the thresholds themselves. A whole number divides the ``bounds``, (low, high) for all features
    or for each, into equal parts; without bounds the thresholds are 0 and ±2⁻⁶ … ±2⁶.
    """
    if not isinstance(thresholds, (int, np.integer)):
        values = np.sort(np.array(checks.reals(thresholds, "thresholds", "(-inf, inf)", of=of)))
        return np.tile(values, (features, 1))
    count = checks.whole(thresholds, "thresholds", at_most=10**6, of=of)
    if bounds is None:
        return np.tile(np.concatenate((-_POWERS[::-1], [0.0], _POWERS)), (features, 1))
    pairs = np.asarray(bounds, dtype=np.float64)
    if pairs.shape not in ((2,), (features, 2)) or not bool(np.isfinite(pairs).all()):
        raise InvalidArgument("bounds", "(low, high), one pair or one for each feature", bounds, of=of)
    low, high = np.broadcast_to(pairs, (features, 2)).T
    if not bool((low < high).all()):
        raise InvalidArgument("bounds", "with low below high", bounds, of=of)
    steps = np.arange(1, count + 1) / (count + 1)
    grid: Floats = low[:, None] + (high - low)[:, None] * steps
    return grid


class Stumps:
    """All stumps on some features and thresholds, and the constant rules, in a fixed order."""

    def __init__(self, features: npt.NDArray[np.int64], grid: Floats, labels: int) -> None:
        self._features = features
        self._grid = grid
        self._labels = labels
        self._pairs = [(low, high) for low in range(labels) for high in range(labels) if low != high]

    def __len__(self) -> int:
        return self._labels + self._grid.size * len(self._pairs)

    def errors(self, table: Floats, codes: npt.NDArray[np.int64]) -> Floats:
        """The share of rows each rule gets wrong; ``codes`` numbers the labels from 0."""
        totals = np.bincount(codes, minlength=self._labels)
        parts = [1.0 - totals / len(codes)]
        for feature, thresholds in zip(self._features, self._grid, strict=True):
            # How many rows of each label lie at or below each threshold.
            cells = np.searchsorted(thresholds, table[:, feature], side="left")
            size = len(thresholds) + 1
            counts = np.bincount(codes * size + cells, minlength=self._labels * size)
            below = counts.reshape(self._labels, size)[:, :-1].cumsum(axis=1)
            above = totals[:, None] - below
            right = np.stack([below[low] + above[high] for low, high in self._pairs], axis=1)
            parts.append(1.0 - right.ravel() / len(codes))
        return np.concatenate(parts)

    def rule(self, index: int, labels: npt.NDArray[Any]) -> Rule:
        """The rule at this place in the order, with its labels."""
        if index < self._labels:
            return Rule(None, None, labels[index], labels[index])
        cell, pair = divmod(index - self._labels, len(self._pairs))
        feature, place = divmod(cell, self._grid.shape[1])
        low, high = self._pairs[pair]
        return Rule(
            int(self._features[feature]), float(self._grid[feature, place]), labels[low], labels[high]
        )


try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.tree import DecisionTreeClassifier
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise MissingExtra("sklearn", what="PointwiseClassifier") from missing


_BY = "Hopkins, Impagliazzo and Ye 2025"


def pointwise_rho(learners: int, classes: int = 2) -> float:
    """How often two samples give different labels at one point, with ``learners`` learners on each side.

    Guarantee: at most C(2T, T)/4^T ≤ 1/√(πT) for two classes, and 2x/(1 + x) with x = √((k − 1)/2T) for k.
    Assumes: as :class:`PointwiseClassifier`.
    Reference: notion: Hopkins, Impagliazzo and Ye 2025; rule, proof and constants: Holdfast.

    Args:
        learners: How many learners vote.
        classes: How many different labels there are.

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


def pointwise_learners(rho: float, classes: int = 2) -> int:
    """The fewest learners for which :func:`pointwise_rho` is at most ``rho``.

    Guarantee: as :func:`pointwise_rho`.
    Assumes: as :class:`PointwiseClassifier`.
    Reference: notion: Hopkins, Impagliazzo and Ye 2025; rule, proof and constants: Holdfast.

    Args:
        classes: How many different labels there are.

    >>> pointwise_learners(0.1), pointwise_learners(0.1, classes=3)
    (32, 362)
    """
    rho = checks.real(rho, "rho", "[1e-4, 1)", of="pointwise_learners", by=_BY)
    learners = search.least_whole(lambda count: pointwise_rho(count, classes) <= rho, most=2**62)
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
    give different labels with probability at most ``guarantee_.rho``. So on average at most this share
    of fresh points gets different labels. The label is wrong at a point as often as one learner is, trained
    on a part. Nothing is promised about all points at once.
    Assumes: rows drawn independently (not checkable); an ``estimator`` that uses no other data.
    Reference: notion: Hopkins, Impagliazzo and Ye 2025; rule and proof: docs/theory/replicable-learning.md.

    Args:
        tape: The shared coins, or their seed.

    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(6400, 2))
    >>> model = PointwiseClassifier(rho=0.1, tape="study-7").fit(x, x[:, 0] > 0.1)
    >>> len(model.estimators_), model.guarantee_
    (32, Replicability(rho=0.0993482))
    """

    def __init__(
        self,
        estimator: Predictor | None = None,
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

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> PointwiseClassifier:  # noqa: N803
        """Train the learners, each on its own part of the rows.

        Args:
            X: The rows, one column for each feature.
            y: The label of each row.
        """
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

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:  # noqa: N803
        """The label that the shared coins draw from the votes, for each row.

        Args:
            X: The rows, one column for each feature.
        """
        shares = self.vote_shares(X)
        with np.errstate(divide="ignore"):
            arrivals = self.coins_ / shares
        chosen: npt.NDArray[Any] = self.classes_[np.argmin(arrivals, axis=1)]
        return chosen

    def vote_shares(self, X: npt.ArrayLike) -> Floats:  # noqa: N803
        """The share of the learners that vote for each class, one line for each row.

        They depend on the rows more than the labels do: two laboratories do not get the same shares.

        Args:
            X: The rows, one column for each feature.
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
            return DummyClassifier().fit(table, labels)
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
