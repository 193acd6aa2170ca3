"""A scikit-learn search over candidate models that names the same winner on fresh data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from holdfast import checks
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.replicable._choose import choose, choose_rows
from holdfast.replicable._tape import Floats, Tape, as_tape
from holdfast.typing import Predictor

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
    from sklearn.model_selection import ParameterGrid
    from sklearn.utils import _safe_indexing, get_tags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted, indexable
except ImportError as missing:
    raise MissingExtra("sklearn", what="ReplicableSearchCV") from missing

__all__ = ["ReplicableSearchCV"]


def _winner_has(name: str) -> Callable[[Any], bool]:
    def check(search: Any) -> bool:
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return check


class ReplicableSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of finitely many candidate models, the same one on fresh data.

    ``param_grid`` spans the candidates as in ``GridSearchCV``. What is fresh on the other side decides what
    can be promised, so it is stated:

    ``fresh="holdout"``: the candidates are trained once, on ``X_train`` and ``y_train`` given to ``fit``, or
    on a ``train_share`` of the rows that the tape picks. Every other row is a comparison. Another laboratory
    with the same training rows (``train_rows_`` says which) and fresh rows to compare on gets the same
    candidate, and so literally the same fitted model.

    ``fresh="everything"``: the rows are cut into blocks of ``block_rows``; each block trains every candidate
    on its ``train_share`` and compares on the rest, and counts as one observation. Another laboratory with
    nothing in common but the tape gets the same candidate; it is then fitted to all rows, so the fitted
    models differ.

    ``loss(y_true, y_predicted)`` gives a loss in [0, 1] for each row; "zero-one" counts errors. ``tape`` is a
    :class:`Tape` or its seed. After ``fit``: ``best_index_``, ``best_params_``, ``best_estimator_``,
    ``result_`` and ``guarantee_``. With ``best_effort=True``, the default, small samples are fitted with the
    weaker promise they allow, 1 at worst; ``best_effort=False`` raises ``NotEnoughRows``.

    Guarantee: ``guarantee_.rho`` bounds the probability that the two winners differ; the winner's expected
    loss exceeds the least by more than ``accuracy`` with probability at most ``result_.beta``.
    Assumes: rows drawn independently (not checkable); candidates whose training is deterministic, or random
    in the same way on both sides.
    Reference: SIS Algorithm 10 and Theorem 5.13, as :func:`choose`.

    Args:
        estimator: The classifier or regressor whose parameters are searched.
        rho: The largest probability that two samples give different results.
        beta: The largest probability that the result is farther from the truth than the accuracy.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> x = np.random.default_rng(0).uniform(-1, 1, size=(40_000, 2))
    >>> trees = DecisionTreeClassifier(random_state=0)
    >>> search = ReplicableSearchCV(trees, {"max_depth": [1, 3]}, accuracy=0.2, rho=0.1, beta=0.1)
    >>> search.fit(x, x[:, 0] * x[:, 1] > 0).best_params_, search.guarantee_
    ({'max_depth': 3}, Replicability(rho=0.1))
    """

    def __init__(
        self,
        estimator: Predictor,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        loss: Callable[[Any, Any], npt.ArrayLike] | Literal["zero-one"] = "zero-one",
        fresh: str = "holdout",
        train_share: float = 0.5,
        block_rows: int = 100,
        accuracy: float = 0.05,
        rho: float = 0.1,
        beta: float = 0.05,
        tape: Tape | str = "holdfast",
        best_effort: bool = True,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.loss = loss
        self.fresh = fresh
        self.train_share = train_share
        self.block_rows = block_rows
        self.accuracy = accuracy
        self.rho = rho
        self.beta = beta
        self.tape = tape
        self.best_effort = best_effort

    def fit(
        self,
        X: npt.ArrayLike,  # noqa: N803
        y: npt.ArrayLike,
        *,
        X_train: npt.ArrayLike | None = None,  # noqa: N803
        y_train: npt.ArrayLike | None = None,
    ) -> ReplicableSearchCV:
        """Train the candidates, compare them, and keep the winner.

        Args:
            X: The rows, one column for each feature.
            y: The label of each row.
        """
        of = "ReplicableSearchCV"
        X, y = indexable(X, y)  # noqa: N806
        if y is None:
            raise ValueError(f"{of} requires y to be passed, but the target y is None")
        checks.choice(self.fresh, "fresh", ("holdout", "everything"), of=of)
        tape = as_tape(self.tape, of=of)
        self.candidates_ = list(ParameterGrid(self.param_grid))
        if self.fresh == "everything":
            losses = self._by_blocks(X, y, tape)
            models = None
        elif X_train is not None:
            self.train_rows_ = None
            models = self._trained(X_train, y_train)
            losses = self._losses(models, X, y)
        else:
            self.train_rows_, held_out = self._halves(y, tape)
            models = self._trained(_safe_indexing(X, self.train_rows_), _safe_indexing(y, self.train_rows_))
            losses = self._losses(models, _safe_indexing(X, held_out), _safe_indexing(y, held_out))
        self.result_ = choose(
            losses,
            accuracy=self.accuracy,
            rho=self.rho,
            beta=self.beta,
            tape=tape.branch("choice"),
            best_effort=self.best_effort,
        )
        self.guarantee_ = self.result_.guarantee
        self.best_index_ = int(self.result_)
        self.best_params_ = self.candidates_[self.best_index_]
        self.mean_losses_ = losses.mean(axis=0)
        self.best_estimator_ = (
            models[self.best_index_] if models else self._candidate(self.best_params_).fit(X, y)
        )
        return self

    def _candidate(self, parameters: dict[str, Any]) -> Any:
        return clone(self.estimator).set_params(**clone(parameters, safe=False))

    def _trained(self, X: Any, y: Any) -> list[Any]:  # noqa: N803
        return [self._candidate(parameters).fit(X, y) for parameters in self.candidates_]

    def _losses(self, models: list[Any], X: Any, y: Any) -> Floats:  # noqa: N803
        return np.stack([self._row_losses(np.asarray(y), np.asarray(m.predict(X))) for m in models], axis=1)

    def _row_losses(self, truth: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> Floats:
        if callable(self.loss):
            return np.asarray(self.loss(truth, predicted), dtype=np.float64)
        checks.choice(self.loss, "loss", ("zero-one",), of="ReplicableSearchCV")
        # A column of labels and a flat array of predictions would otherwise be compared all with all.
        wrong = truth.reshape(predicted.shape) != predicted
        losses: Floats = wrong.reshape(len(truth), -1).any(axis=1).astype(np.float64)
        return losses

    def _halves(self, y: Any, tape: Tape) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows to train on and rows to compare on, in an order that does not look at them."""
        rows = len(y)
        if rows < 2:
            raise ValueError(
                f"ReplicableSearchCV needs rows to train and rows to compare: n_samples = {rows}"
            )
        order = tape.branch("split").permutation(rows)
        share = checks.real(self.train_share, "train_share", "(0, 1)", of="ReplicableSearchCV")
        cut = min(rows - 1, max(1, round(share * rows)))
        return np.sort(order[:cut]), np.sort(order[cut:])

    def _by_blocks(self, X: Any, y: Any, tape: Tape) -> Floats:  # noqa: N803
        size = checks.whole(self.block_rows, "block_rows", at_least=2, of="ReplicableSearchCV")
        needed = choose_rows(
            models=len(self.candidates_), accuracy=self.accuracy, rho=self.rho, beta=self.beta
        )
        blocks = min(needed, len(y) // size)
        if not blocks:
            raise InvalidArgument("block_rows", f"at most the {len(y)} rows", size, of="ReplicableSearchCV")
        train, held_out = self._halves(range(size), tape)
        losses = []
        for start in range(0, blocks * size, size):
            models = self._trained(_safe_indexing(X, start + train), _safe_indexing(y, start + train))
            rest = start + held_out
            losses.append(self._losses(models, _safe_indexing(X, rest), _safe_indexing(y, rest)).mean(axis=0))
        return np.stack(losses)

    @available_if(_winner_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: npt.ArrayLike) -> Any:  # noqa: N803
        """The winner's predictions."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    @available_if(_winner_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """The winner's probabilities."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X)

    @available_if(_winner_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """The winner's decision values."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.decision_function(X)

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:  # noqa: N803
        """The winner's own score.

        Args:
            X: The rows, one column for each feature.
            y: The label of each row.
        """
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels the winner knows."""
        check_is_fitted(self, "best_estimator_")
        labels: npt.NDArray[Any] = self.best_estimator_.classes_
        return labels

    @property
    def n_features_in_(self) -> int:
        """The columns the winner was trained on."""
        check_is_fitted(self, "best_estimator_")
        return int(self.best_estimator_.n_features_in_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.input_tags = inner.input_tags
        tags.target_tags = inner.target_tags
        return tags
