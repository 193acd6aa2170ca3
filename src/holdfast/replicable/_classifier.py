"""A scikit-learn classifier that finds the same simple rule again on fresh data."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.replicable._choose import choose_rows, promise_of
from holdfast.replicable._rules import Stumps, threshold_grid
from holdfast.replicable._seeded import as_tape
from holdfast.replicable._tape import Tape
from holdfast.replicable._ways import Problem

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise MissingExtra("sklearn", what="ReplicableClassifier") from missing

__all__ = ["ReplicableClassifier"]


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
        features: Any = None,
        thresholds: Any = 15,
        bounds: Any = None,
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

    def fit(self, X: Any, y: Any) -> ReplicableClassifier:  # noqa: N803
        """Choose the rule."""
        table, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("ReplicableClassifier needs at least 2 classes; the labels hold one class.")
        stumps = self._stumps(table.shape[1], len(self.classes_))
        problem = Problem(
            len(stumps),
            checks.real(self.accuracy, "accuracy", "(0, 1)", of="ReplicableClassifier"),
            checks.real(self.beta, "beta", "(0, 1)", of="ReplicableClassifier"),
            realizable=False,
        )
        rho = checks.real(self.rho, "rho", "(0, 1)", of="ReplicableClassifier")
        promise = promise_of(problem, rho)
        used = slice(promise.needed)
        self.result_ = promise.choose(
            stumps.errors(table[used], codes[used]),
            len(table),
            as_tape(self.tape, of="ReplicableClassifier"),
            best_effort=self.best_effort,
        )
        self.guarantee_ = self.result_.guarantee
        self.rule_ = stumps.rule(int(self.result_), self.classes_)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """The rule's label for each row."""
        check_is_fitted(self, "rule_")
        return self.rule_.labels(validate_data(self, X, dtype=np.float64, reset=False))

    def rows_needed(self, n_features: int, n_classes: int = 2) -> int:
        """The rows for which ``rho`` holds in full, with so many columns and labels."""
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
