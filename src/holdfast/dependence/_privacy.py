"""What a private mechanism says about one row when rows depend: Bayesian differential privacy.

A model lists its proofs as :class:`Route` records, and the best one counts. On small tables the leakage of
one mechanism is computed exactly, by enumeration (BDP (3) and (4)).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from holdfast import checks, rounding
from holdfast.dependence._quilts import Array, log_sum, refuse_large, with_unknown
from holdfast.errors import InvalidArgument
from holdfast.records import Record

if TYPE_CHECKING:
    from holdfast.stability import DP, BayesianDP

_MOST_DATASETS = 1 << 20
_MOST_WORK = 1 << 28
_CHUNK = 1 << 21
Statistic = Callable[[tuple[int, ...]], Any]
_OF = "leakage"


@dataclass(frozen=True)
class Route:
    """One proof: the Bayesian DP of a DP parameter, and the DP that suffices for a Bayesian one.

    ``refusal`` says what the model would have to be, where the proof does not apply.
    """

    bayesian_dp: Callable[[float], float]
    required_dp: Callable[[float], float]
    reference: str
    refusal: str = ""


Routes = Mapping[str, Callable[[], Route]]

_GROUPS = "docs/theory/differential-privacy.md, Groups"

# A blanket is one of the quilts, 2b is less than 4b, and pairs of values are never worse than the worst pair.
_DOMINATED = ("blanket", "blanket-paper", "quilt-paper", "coupling")


def best_bayesian_dp(model: object, routes: Routes, dp: DP, method: Any) -> BayesianDP:
    """The smallest Bayesian DP parameter that the method proves."""
    from holdfast.stability import DP, BayesianDP

    of = f"{type(model).__name__}.bayesian_dp"
    method = checks.choice(method, "method", ("sharp", *routes), of=of)
    if not isinstance(dp, DP) or not dp.delta == 0.0:
        raise InvalidArgument(
            "dp",
            "a pure DP(epsilon)",
            dp,
            of=of,
            reference="docs/theory/networks.md, Bayesian differential privacy",
        )
    if dp.epsilon == 0.0:
        return BayesianDP(0.0)
    return BayesianDP(best_epsilon(model, routes, dp.epsilon, method))


def best_epsilon(model: object, routes: Routes, epsilon: float, method: str = "sharp") -> float:
    """The smallest Bayesian DP parameter of an ``epsilon``-DP mechanism that the method proves."""
    return min(route.bayesian_dp(epsilon) for route in _applying(model, routes, method))


def best_required_dp(model: object, routes: Routes, bdp: BayesianDP, method: Any) -> DP:
    """The largest DP parameter that the method proves to be enough."""
    from holdfast.stability import DP, BayesianDP

    of = f"{type(model).__name__}.required_dp"
    method = checks.choice(method, "method", ("sharp", *routes), of=of)
    if not isinstance(bdp, BayesianDP):
        raise InvalidArgument("bdp", "a BayesianDP(epsilon)", bdp, of=of)
    if bdp.epsilon == 0.0:
        return DP(0.0)
    return DP(max(route.required_dp(bdp.epsilon) for route in _applying(model, routes, method)))


def _applying(model: object, routes: Routes, method: str) -> list[Route]:
    """The routes that a method stands for; "sharp" leaves out those that are refused."""
    if method == "sharp":
        candidates = (make() for name, make in routes.items() if name not in _DOMINATED)
        return [route for route in candidates if not route.refusal]
    route = routes[method]()
    if route.refusal:
        raise InvalidArgument(
            "method", f"another one: {method!r} needs {route.refusal}", repr(model), reference=route.reference
        )
    return [route]


def group_route(rows: int) -> Route:
    """Group privacy: at most ``rows`` rows follow any one."""
    if rows == 1:
        return Route(float, float, _GROUPS)
    return Route(
        lambda epsilon: rounding.up(rows * epsilon),
        lambda epsilon: rounding.down(epsilon / rows),
        _GROUPS,
    )


def group_routes(rows: int) -> Routes:
    """Where a row's component may depend in any way: its empty quilt, which is group privacy."""
    route = partial(group_route, rows)
    return {"group": route, "quilt": route}


def blanket_route(influence: float, weight: float) -> Route:
    """BDP Lemma 3 with ``weight``·a_i: printed 4, proved 2."""
    return Route(
        lambda epsilon: rounding.up(epsilon + weight * influence),
        lambda epsilon: max(0.0, rounding.down(epsilon - weight * influence)),
        "BDP Lemma 3",
        "" if influence < math.inf else "a model in which no value of a blanket rules out a row's value",
    )


class Quilts(Protocol):
    """The quilts of all rows of a model, as BDP Lemma 2 uses them with ``weight``·b."""

    def bayesian_dp(self, epsilon: float, weight: float) -> float: ...

    def required_dp(self, epsilon: float, weight: float) -> float: ...


def quilt_route(quilts: Quilts, weight: float) -> Route:
    """BDP Lemma 2 with ``weight``·b_i: printed 4, proved 2."""
    return Route(
        lambda epsilon: quilts.bayesian_dp(epsilon, weight),
        lambda epsilon: quilts.required_dp(epsilon, weight),
        "BDP Lemma 2",
    )


def refused(what: str, reference: str) -> Route:
    """A proof that does not apply: it needs ``what``."""
    return Route(_nothing, _nothing, reference, what)


def _nothing(epsilon: float) -> float:
    return math.inf


def refuse_domain(cards: Sequence[int], *, of: str) -> None:
    """Refuse to enumerate too many datasets, before it starts."""
    refuse_large(
        math.prod(card + 1 for card in cards),
        "a model with few enough partly known datasets",
        of=of,
        most=_MOST_DATASETS,
    )


def exact_leakage(law: Array, mechanism: Any, *, of: str) -> float:
    """sup ln P[y | x_i, x_K]/P[y | x_i', x_K] over rows i, known rows K, their values and outputs y.

    ``law`` is the ln of the probability of each dataset. A set of outputs is no better than its best single
    one. Every set of known rows is in one table, with a last state "unknown" on each axis.
    """
    likelihoods = read_mechanism(mechanism, law.shape)
    rows = range(law.ndim)
    given = with_unknown(law, rows)
    refuse_large(
        given.size * likelihoods.shape[-1],
        "a mechanism with few enough outputs for this model",
        of=of,
        argument="mechanism",
        most=_MOST_WORK,
    )
    step = max(1, _CHUNK // given.size)
    most = max(
        _spread(given, with_unknown(law[..., None] + likelihoods[..., first : first + step], rows))
        for first in range(0, likelihoods.shape[-1], step)
    )
    # A sum of logarithms is off by a few units in the last place of the largest.
    largest = max(float(np.abs(logs[np.isfinite(logs)]).max(initial=1.0)) for logs in (law, likelihoods))
    return rounding.up(most + 8.0 * law.ndim * float(np.finfo(float).eps) * largest)


def _spread(marginal: Array, joint: Array) -> float:
    with np.errstate(invalid="ignore"):
        given = joint - marginal[..., None]
    high = np.where(marginal[..., None] > -np.inf, given, -np.inf)
    low = np.where(marginal[..., None] > -np.inf, given, np.inf)
    most = 0.0
    for row in range(marginal.ndim):
        states = slice(0, marginal.shape[row] - 1)
        place = (slice(None),) * row + (states,)
        top, bottom = high[place].max(axis=row), low[place].min(axis=row)
        seen = top > -np.inf
        most = max(most, float((top[seen] - bottom[seen]).max(initial=0.0)))
    return most


def worst_leakage(mechanism: Any, clusters: Sequence[int]) -> float:
    """The largest leakage over all laws with independent clusters of rows, of the given sizes.

    Inside a cluster any two values may be what x_i and x_i' stand for, and the other clusters may be known:
    the largest ln ratio between datasets that differ inside one cluster.
    """
    cards = table_shape(mechanism)
    if len(cards) != sum(clusters):
        raise InvalidArgument(
            "mechanism", f"a mechanism on {sum(clusters)} rows, not {len(cards)}", mechanism, of="leakage"
        )
    likelihoods = read_mechanism(mechanism, cards)
    most = 0.0
    first = 0
    for size in clusters:
        axes = tuple(range(first, first + size))
        top, bottom = likelihoods.max(axis=axes), likelihoods.min(axis=axes)
        seen = top > -np.inf
        most = max(most, float((top[seen] - bottom[seen]).max(initial=0.0)))
        first += size
    return rounding.up(most)


def chain_law(start: Array, transition: Array, n: int) -> Array:
    """ln of the probability of each path of a chain."""
    with np.errstate(divide="ignore"):
        law, step = np.log(start), np.log(transition)
    for _ in range(n - 1):
        law = law[..., None] + step
    normalised: Array = law - log_sum(law, axis=tuple(range(n)))
    return normalised


# A function of the rows' states, or its values with an axis for each row.
StateFunction: TypeAlias = Callable[[tuple[int, ...]], Any] | ArrayLike


@dataclass(frozen=True, repr=False, eq=False)
class LaplaceAnswer(Record):
    """``statistic`` of the rows, with Laplace noise of the given ``scale`` on it.

    ``statistic`` takes the rows' states as a tuple of whole numbers, or is an array with an axis for each
    row.
    """

    statistic: StateFunction = field(repr=False)
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.real(self.scale, "scale", "(0, inf)", of="LaplaceAnswer"))

    def log_likelihoods(self, cards: tuple[int, ...]) -> Array:
        """ln of the density, up to a constant, at each value of the statistic.

        Between two neighbouring values of the statistic every mixture of densities is Ae^{−y/b} + Be^{y/b},
        so the ratio of two is monotone there, and constant beyond the last: the values see the supremum.

        Args:
            cards: How many states each row has.
        """
        values = _evaluate(self.statistic, cards, 0, of="LaplaceAnswer")
        logs: Array = -np.abs(values[..., None] - np.unique(values)) / self.scale
        return logs

    def _shape(self) -> tuple[int, ...] | None:
        """How many states each row has; None where the statistic is a function and does not say."""
        values = _numbers(self.statistic)
        return None if values is None else values.shape


@dataclass(frozen=True, repr=False, eq=False)
class ExponentialChoice(Record):
    """One of several outputs, chosen with weight exp(epsilon·score/(2·sensitivity)).

    ``scores`` takes the rows' states as a tuple of whole numbers and returns one score for each output, or is
    an array with an axis for each row and a last one for the outputs.

    Args:
        epsilon: The privacy parameter of the choice.
        sensitivity: How far one row can move a score.
    """

    scores: StateFunction = field(repr=False)
    epsilon: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        of = "ExponentialChoice"
        object.__setattr__(self, "epsilon", checks.real(self.epsilon, "epsilon", "[0, inf)", of=of))
        object.__setattr__(
            self, "sensitivity", checks.real(self.sensitivity, "sensitivity", "(0, inf)", of=of)
        )

    def log_likelihoods(self, cards: tuple[int, ...]) -> Array:
        """ln of the probability of each output.

        Args:
            cards: How many states each row has.
        """
        scores = _evaluate(self.scores, cards, 1, of="ExponentialChoice")
        logs = self.epsilon * scores / (2.0 * self.sensitivity)
        logs -= logs.max(axis=-1, keepdims=True)
        normalised: Array = logs - np.log(np.exp(logs).sum(axis=-1, keepdims=True))
        return normalised

    def _shape(self) -> tuple[int, ...] | None:
        """How many states each row has; None where the scores are a function and do not say."""
        return _all_but_outputs(self.scores)


# A mechanism on few rows: one of the two above, or the probability of each output on each dataset.
MechanismLike: TypeAlias = LaplaceAnswer | ExponentialChoice | Mapping[tuple[int, ...], Any] | ArrayLike


def read_mechanism(mechanism: MechanismLike, cards: tuple[int, ...]) -> Array:
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


def table_shape(mechanism: MechanismLike) -> tuple[int, ...]:
    """How many states each row has, read off a mechanism, for models that do not say."""
    shape: tuple[int, ...] | None = None
    if isinstance(mechanism, (LaplaceAnswer, ExponentialChoice)):
        shape = mechanism._shape()
    elif isinstance(mechanism, Mapping):
        keys = [key for key in mechanism if isinstance(key, tuple) and all(isinstance(x, int) for x in key)]
        if keys and len({len(key) for key in keys}) == 1:
            shape = tuple(1 + max(states) for states in zip(*keys, strict=True))
    else:
        shape = _all_but_outputs(mechanism)
    if shape is None:
        raise InvalidArgument(
            "mechanism",
            "given as a table, or its statistic as an array: this model does not say which states a row has",
            mechanism,
            of=_OF,
        )
    return shape


def _all_but_outputs(values: Any) -> tuple[int, ...] | None:
    """The axes of a table that stand for rows: all but the last, which stands for outputs."""
    array = _numbers(values)
    return None if array is None or array.ndim == 1 else array.shape[:-1]


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
