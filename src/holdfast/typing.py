"""Types of what people give and choose: tables, arrays, expressions, models, and words from a fixed list.

They are for type checkers and editors, and name what the functions accept; the functions themselves check
every argument at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ArrayLike",
    "BoundsLike",
    "ExpressionLike",
    "Frame",
    "HasEdges",
    "IbisExpression",
    "Label",
    "MetricName",
    "NullValue",
    "Predictions",
    "Predictor",
    "PromiseKind",
    "ScoreAllOptions",
    "ScoreOptions",
    "ScorerOptions",
    "Seed",
    "StrategyName",
    "TableLike",
]


class Frame(Protocol):
    """A table with named columns: a frame of pandas or polars, a table of pyarrow or ibis."""

    @property
    def columns(self) -> Any: ...


class HasEdges(Protocol):
    """A graph as networkx and pgmpy have them: an object with ``nodes`` and ``edges``."""

    @property
    def nodes(self) -> Any: ...

    @property
    def edges(self) -> Any: ...


class IbisExpression(Protocol):
    """An ibis expression over the columns of one row."""

    def op(self) -> Any: ...


class Predictor(Protocol):
    """A fitted model: anything with a method ``predict``."""

    # Any: every library has a type of its own for the rows that its models take.
    def predict(self, X: Any, /) -> Any:  # noqa: N803
        """One prediction for each row of ``X``."""
        ...


class _HasArray(Protocol):
    """A column of pandas or polars: anything that numpy makes an array of."""

    def __array__(self, *args: Any, **options: Any) -> NDArray[Any]: ...


# A table, a dict with one array for each column, or the path or address of one.
TableLike: TypeAlias = Union[Frame, Mapping[str, Any], str, Path]  # noqa: UP007
# An expression over the columns of one row: SQL text or ibis. A number is the same for every row.
ExpressionLike: TypeAlias = Union[str, int, float, IbisExpression]  # noqa: UP007
# A range for one expression, one for each of several, or "train": what the training part shows.
BoundsLike: TypeAlias = Union[Sequence[Any], Mapping[str, Sequence[float]], Literal["train"], None]  # noqa: UP007
# What a row without a value counts as; "skip" leaves it out.
NullValue: TypeAlias = Union[float, bool, Literal["skip"], None]  # noqa: UP007
# A class or value of a target column.
Label: TypeAlias = Union[str, int, float, bool, None]  # noqa: UP007
# One prediction for each row, an expression over the columns, or a fitted model.
Predictions: TypeAlias = Union[Predictor, _HasArray, Sequence[Any], ExpressionLike]  # noqa: UP007
# A seed for simulations.
Seed: TypeAlias = Union[int, Sequence[int], np.random.Generator, None]  # noqa: UP007

StrategyName: TypeAlias = Literal[
    "code", "agreed-code", "grid-code", "typical-laplace", "typical-gaussian", "transfer-gaussian", "split"
]
PromiseKind: TypeAlias = Literal["all", "each"]
MetricName: TypeAlias = Literal[
    "accuracy",
    "error",
    "balanced_accuracy",
    "precision",
    "recall",
    "f1",
    "auc",
    "log_loss",
    "brier",
    "mae",
    "mse",
    "rmse",
    "r2",
]


class ScoreAllOptions(TypedDict, total=False):
    """Options of :meth:`holdfast.Guard.score_all` beside predictions, target, metric and names."""

    cv: int | None
    bounds: BoundsLike
    positive: Label
    precise: bool
    nats: float | None


class ScorerOptions(ScoreAllOptions, total=False):
    """Options of :meth:`holdfast.Guard.score` where the guess is given already."""

    name: str | None


class ScoreOptions(ScorerOptions, total=False):
    """Options of :meth:`holdfast.Guard.score` beside predictions, target and metric."""

    guess: float | None
