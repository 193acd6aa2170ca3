"""What a mechanism publishes about a small table: how likely each output is on each dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast import checks
from holdfast.dependence._factors import Array
from holdfast.errors import InvalidArgument
from holdfast.records import Record

Statistic = Callable[[tuple[int, ...]], Any]
_OF = "leakage"


@dataclass(frozen=True, repr=False, eq=False)
class LaplaceAnswer(Record):
    """``statistic`` of the rows, with Laplace noise of the given ``scale`` on it.

    ``statistic`` takes the rows' states as a tuple of whole numbers, or is an array with an axis for each
    row.
    """

    statistic: Any = field(repr=False)
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.real(self.scale, "scale", "(0, inf)", of="LaplaceAnswer"))

    def log_likelihoods(self, cards: tuple[int, ...]) -> Array:
        """ln of the density, up to a constant, at each value of the statistic.

        Between two neighbouring values of the statistic every mixture of densities is Ae^{−y/b} + Be^{y/b},
        so the ratio of two is monotone there, and constant beyond the last: the values see the supremum.
        """
        values = _evaluate(self.statistic, cards, 0, of="LaplaceAnswer")
        logs: Array = -np.abs(values[..., None] - np.unique(values)) / self.scale
        return logs


@dataclass(frozen=True, repr=False, eq=False)
class ExponentialChoice(Record):
    """One of several outputs, chosen with weight exp(epsilon·score/(2·sensitivity)).

    ``scores`` takes the rows' states as a tuple of whole numbers and returns one score for each output, or is
    an array with an axis for each row and a last one for the outputs.
    """

    scores: Any = field(repr=False)
    epsilon: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        of = "ExponentialChoice"
        object.__setattr__(self, "epsilon", checks.real(self.epsilon, "epsilon", "[0, inf)", of=of))
        object.__setattr__(
            self, "sensitivity", checks.real(self.sensitivity, "sensitivity", "(0, inf)", of=of)
        )

    def log_likelihoods(self, cards: tuple[int, ...]) -> Array:
        """ln of the probability of each output."""
        scores = _evaluate(self.scores, cards, 1, of="ExponentialChoice")
        logs = self.epsilon * scores / (2.0 * self.sensitivity)
        logs -= logs.max(axis=-1, keepdims=True)
        normalised: Array = logs - np.log(np.exp(logs).sum(axis=-1, keepdims=True))
        return normalised


def read_mechanism(mechanism: Any, cards: tuple[int, ...]) -> Array:
    """ln of how likely each output (last axis) is on each dataset (one axis a row), up to a constant for
    each output."""
    if isinstance(mechanism, (LaplaceAnswer, ExponentialChoice)):
        return mechanism.log_likelihoods(cards)
    table = _from_mapping(mechanism, cards) if isinstance(mechanism, Mapping) else _numbers(mechanism)
    if table is None or table.shape[:-1] != cards or not table.shape[-1]:
        raise InvalidArgument(
            "mechanism",
            f"probabilities with the axes {(*cards, 'outputs')}, a dictionary {{dataset: probabilities}}, "
            "a LaplaceAnswer or an ExponentialChoice",
            mechanism,
            of=_OF,
        )
    sums = table.sum(axis=-1)
    if not (table >= 0.0).all() or not (np.abs(sums - 1.0) <= 1e-9).all():
        raise InvalidArgument(
            "mechanism",
            "probabilities, none negative, that sum to one for every dataset",
            mechanism,
            of=_OF,
        )
    with np.errstate(divide="ignore"):
        logs: Array = np.log(table / sums[..., None])
    return logs


def table_shape(mechanism: Any) -> tuple[int, ...]:
    """How many states each row has, read off a mechanism, for models that do not say."""
    if isinstance(mechanism, Mapping):
        keys = [key for key in mechanism if isinstance(key, tuple) and all(isinstance(x, int) for x in key)]
        if keys and len({len(key) for key in keys}) == 1:
            return tuple(1 + max(states) for states in zip(*keys, strict=True))
    array = _numbers(getattr(mechanism, "statistic", getattr(mechanism, "scores", mechanism)))
    if array is None or (array.ndim == 1 and not isinstance(mechanism, LaplaceAnswer)):
        raise InvalidArgument(
            "mechanism",
            "given as a table, or its statistic as an array: this model does not say which states a row has",
            mechanism,
            of=_OF,
        )
    return array.shape if isinstance(mechanism, LaplaceAnswer) else array.shape[:-1]


def _numbers(values: Any) -> Array | None:
    """The values as an array of finite numbers, or None."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        return None
    return array if array.ndim and np.isfinite(array).all() else None


def _from_mapping(mechanism: Mapping[Any, Any], cards: tuple[int, ...]) -> Array | None:
    datasets = list(itertools.product(*map(range, cards)))
    missing = next((dataset for dataset in datasets if dataset not in mechanism), None)
    if missing is not None or len(mechanism) != len(datasets):
        raise InvalidArgument(
            "mechanism",
            f"a table with a line for each of the {len(datasets):,} datasets"
            + (f", {missing} among them" if missing is not None else ", and no others"),
            mechanism,
            of=_OF,
        )
    lines = [mechanism[dataset] for dataset in datasets]
    if all(isinstance(line, Mapping) for line in lines):
        outputs = list(dict.fromkeys(output for line in lines for output in line))
        lines = [[line.get(output, 0.0) for output in outputs] for line in lines]
    table = _numbers(lines)
    return table.reshape(*cards, -1) if table is not None and table.ndim == 2 else None


def _evaluate(statistic: Any, cards: tuple[int, ...], extra: int, *, of: str) -> Array:
    name = "scores" if extra else "statistic"
    if callable(statistic):
        values = _numbers([statistic(dataset) for dataset in itertools.product(*map(range, cards))])
        if values is not None and values.ndim == 1 + extra and len(values) == math.prod(cards):
            return values.reshape(*cards, *values.shape[1:])
    else:
        values = _numbers(statistic)
        if values is not None and values.ndim == len(cards) + extra and values.shape[: len(cards)] == cards:
            return values
    what = "a list of finite scores, one for each output" if extra else "a finite number"
    raise InvalidArgument(
        name, f"a function from a dataset to {what}, or an array with the axes {cards}", statistic, of=of
    )
