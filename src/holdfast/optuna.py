"""Optuna searches that score every trial on the protected rows of a guard, with an interval that holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from holdfast import checks
from holdfast.errors import BudgetSpent, InvalidArgument, MissingExtra
from holdfast.guard import Guard
from holdfast.ledger import Closed
from holdfast.scoring import METRICS

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

    from holdfast.typing import MetricName, ScoreOptions

__all__ = ["GuardedObjective", "stop_when_spent"]

_REFUSED = "refused"


class GuardedObjective:
    """An objective for Optuna: ``build(trial)`` returns a fitted model, and its score on the protected rows
    is the value of the trial.

    The score is returned as it is, so give the study this objective's ``direction``. A trial has the user
    attributes ``low`` and ``high``, the ends of its interval, and ``cost``, what the answer took from the
    account when it was first given. ``options`` are those of :meth:`holdfast.Guard.score`.

    When the account refuses, because its budget is spent or it is closed, the trial is pruned and its user
    attribute ``refused`` says why. Give ``callbacks=[stop_when_spent]`` to ``study.optimize`` to stop there.

    Guarantee: as for :meth:`holdfast.Guard.score`; with the promise "all", the intervals of all trials hold
    together, that of the best included.
    Assumes: ``build`` does not use the protected rows. Fit on ``guard.train``.

    Args:
        target: The column to predict.
        metric: The score by its name, for example "accuracy"; see :meth:`holdfast.Guard.score`.

    >>> import numpy as np, optuna, pandas as pd
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"x": rng.normal(size=3_000)})
    >>> table["y"] = (table.x + rng.normal(size=3_000) > 0).astype(int)
    >>> guard = Guard(table)
    >>> def build(trial):
    ...     tree = DecisionTreeClassifier(max_depth=trial.suggest_int("depth", 1, 3), random_state=0)
    ...     return tree.fit(guard.train[["x"]], guard.train["y"])
    >>> objective = GuardedObjective(guard, build, target="y")
    >>> bool(0.6 < objective(optuna.trial.FixedTrial({"depth": 1})) < 0.9)
    True
    """

    def __init__(
        self,
        guard: Guard,
        build: Callable[[Any], Any],
        *,
        target: str,
        metric: MetricName = "accuracy",
        **options: Unpack[ScoreOptions],
    ) -> None:
        try:
            import optuna
        except ImportError:
            raise MissingExtra("optuna", what="GuardedObjective") from None
        self._pruned: Any = optuna.TrialPruned
        self.guard = guard
        self.build = build
        self.target = target
        checks.choice(metric, "metric", tuple(METRICS), of="GuardedObjective")
        self.metric: MetricName = metric
        self.options = options

    @property
    def direction(self) -> str:
        """For ``optuna.create_study``: "minimize" for losses, else "maximize"."""
        return "minimize" if METRICS[self.metric].loss else "maximize"

    def __call__(self, trial: Any) -> float:
        """The score of the trial's model on the protected rows."""
        self._require_direction(trial)
        model = self.build(trial)
        try:
            answer = self.guard.score(model, target=self.target, metric=self.metric, **self.options)
        except (BudgetSpent, Closed) as refusal:
            trial.set_user_attr(_REFUSED, str(refusal))
            raise self._pruned(str(refusal)) from refusal
        for name in ("low", "high", "cost"):
            trial.set_user_attr(name, getattr(answer, name))
        return answer.value

    def _require_direction(self, trial: Any) -> None:
        """Refuse a study that looks for the worst model, before anything is charged."""
        study = getattr(trial, "study", None)  # A fixed trial has none.
        directions = [] if study is None else [direction.name.lower() for direction in study.directions]
        if len(directions) == 1 and directions != [self.direction]:
            expected = f"{self.direction!r} for {self.metric}, as objective.direction says"
            raise InvalidArgument("direction", expected, directions[0], of="optuna.create_study")


def stop_when_spent(study: Study, trial: FrozenTrial) -> None:
    """A callback of ``study.optimize`` that stops the study once the guard's account refused a trial of a
    :class:`GuardedObjective`.

    Args:
        trial: The trial that has ended.
    """
    if _REFUSED in trial.user_attrs:
        study.stop()
