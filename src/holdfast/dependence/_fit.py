"""Fitting a model of dependence to training rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from holdfast import checks
from holdfast.dependence._fitted import MOST_STATES, FittedChain, FittedNetwork
from holdfast.dependence._model import column_names
from holdfast.errors import InvalidArgument, NotEnoughRows
from holdfast.typing import Frame, HasEdges

Codes = NDArray[np.int64]

_OF = "dependence.fit"
_HIGHEST_ORDER = 3
_MOST_CELLS = 2_000


@overload
def fit(
    train: Frame | Mapping[str, Any],
    *,
    kind: Literal["chain"] = "chain",
    columns: str | Sequence[str] | None = None,
    confidence: float = 0.998,
    order: int | Literal["bic"] = 1,
    states: Sequence[Any] | None = None,
    network: None = None,
) -> FittedChain: ...
@overload
def fit(
    train: Frame | Mapping[str, Any],
    *,
    kind: Literal["network"],
    columns: str | Sequence[str] | None = None,
    confidence: float = 0.998,
    network: HasEdges | Iterable[tuple[str, str]],
) -> FittedNetwork: ...
def fit(
    train: Frame | Mapping[str, Any],
    *,
    kind: Literal["chain", "network"] = "chain",
    columns: str | Sequence[str] | None = None,
    confidence: float = 0.998,
    order: int | Literal["bic"] = 1,
    states: Sequence[Any] | None = None,
    network: HasEdges | Iterable[tuple[str, str]] | None = None,
) -> FittedChain | FittedNetwork:
    """A model of dependence fitted to training rows, with the error of the fit in every bound: a Markov chain
    on named columns, or a Bayesian network of given structure.

    ``train`` holds the training rows in order: a pandas or polars frame, a pyarrow table, or a dictionary of
    columns. Take rows that no question is asked about. They must come before the other rows.

    ``kind="chain"``: ``columns`` names the columns that make up a state, one or several. With several, a
    state is the tuple of their values. ``order`` says how many last states the next one depends on; that is
    an assumption, which "bic" only proposes (of 1, 2 and 3). ``states`` declares the states; without it they
    are those that the training rows show, and no other is assumed to occur.

    ``kind="network"``: each training row is a family, independent of the others, with a column for each
    member. ``network`` is the structure: a DAG or network of pgmpy, or a list of arrows (parent, child).
    ``columns`` lists the members; without it, all columns.

    ``confidence`` is the probability with which the fit holds; 1 − ``confidence`` is charged to everything
    that is said with the model (``FittedChain.failure``).

    Guarantee: with probability ≥ ``confidence`` over the training rows, from any start, every bound of the
    model holds for the true chain or network.
    Assumes: the sentences in ``assumptions`` (not checkable from the data).
    Reference: ``docs/theory/dependence.md``, "A fitted chain" and "A fitted network".

    >>> rng = np.random.default_rng(0)
    >>> level = np.cumsum(rng.random(20_000) < 0.05) % 2
    >>> model = fit({"level": level}, columns="level")
    >>> model.failure < 0.0021, round(float(np.exp(model.log_remembered(1))), 3)
    (True, 0.92)
    """
    if checks.choice(kind, "kind", ("chain", "network"), of=_OF) == "network":
        if states is not None or order != 1:
            raise InvalidArgument("kind", "'chain' where states or an order are declared", kind, of=_OF)
        return _fit_network(train, columns, network, confidence)
    if network is not None:
        raise InvalidArgument("network", "left out where a chain is fitted", network, of=_OF)
    if columns is None:
        raise InvalidArgument("columns", "the columns that make up a state", columns, of=_OF)
    names = column_names(columns, of=_OF)
    codes, values = _read_states(train, names, states)
    depth = _order(codes, len(values), order)
    counts, runs = _count(codes, values, depth, declared=states is not None)
    return FittedChain(
        counts,
        states=tuple(values),
        order=depth,
        runs=runs,
        confidence=confidence,
        columns=frozenset(names),
        by_bic=order == "bic",
        declared=states is not None,
    )


def _read_states(train: Any, names: Sequence[str], declared: Any) -> tuple[Codes, list[Any]]:
    """The state of each row as a number, and what the numbers stand for."""
    columns = _read_columns(train, names)
    rows = len(columns[0][0])
    combined = np.zeros(rows, dtype=np.int64)
    for codes, listed in columns:
        # Numbered again after each column, so that the numbers stay small.
        combined = np.unique(combined * len(listed) + codes, return_inverse=True)[1].astype(np.int64)
    _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    seen = [tuple(listed[column[row]] for column, listed in columns) for row in first.tolist()]
    values = seen if len(names) > 1 else [state[0] for state in seen]
    if declared is None:
        _refuse_many(len(values), names)
        return codes.astype(np.int64), values
    return _as_declared(codes.astype(np.int64), values, declared, names)


def _read_columns(train: Any, names: Sequence[str]) -> list[tuple[Codes, list[Any]]]:
    columns = [_read_column(train, name) for name in names]
    rows = len(columns[0][0])
    for name, (codes, _) in zip(names, columns, strict=True):
        if len(codes) != rows:
            raise InvalidArgument(
                "train",
                f"columns of one length ({names[0]!r} has {rows:,} rows and {name!r} {len(codes):,})",
                train,
                of=_OF,
            )
    return columns


def _refuse_many(count: int, names: Sequence[str]) -> None:
    if not 2 <= count <= MOST_STATES:
        raise InvalidArgument(
            "columns",
            f"columns with 2 to {MOST_STATES} states in all. Bin columns with many values into few, or "
            "declare Mixing(rate)",
            f"{', '.join(map(repr, names))} with {count:,} states",
            of=_OF,
        )


def _as_declared(
    codes: Codes, values: list[Any], declared: Any, names: Sequence[str]
) -> tuple[Codes, list[Any]]:
    """The numbers of the states in the declared list, each of which the training rows must show."""
    form = "a list of different states" + (", as tuples of the columns' values" if len(names) > 1 else "")
    if isinstance(declared, (str, bytes)) or not np.iterable(declared):
        raise InvalidArgument("states", form, declared, of=_OF)
    wanted = [
        tuple(map(_plain, state)) if isinstance(state, (tuple, list)) else _plain(state) for state in declared
    ]
    try:
        places = {state: place for place, state in enumerate(wanted)}
    except TypeError:
        places = {}
    if len(places) != len(wanted) or not wanted:
        raise InvalidArgument("states", form, declared, of=_OF)
    for value in values:
        if value not in places:
            raise InvalidArgument(
                "states",
                f"{form}, all that the training rows show (they show {value!r} too)",
                declared,
                of=_OF,
            )
    for state in wanted:
        if state not in values:
            raise InvalidArgument(
                "states",
                f"states that the training rows show. They never show {state!r} and say nothing about what "
                "follows it: leave it out if it cannot occur, or join it with another",
                declared,
                of=_OF,
            )
    _refuse_many(len(wanted), names)
    return np.array([places[value] for value in values], dtype=np.int64)[codes], wanted


def _names(train: Any) -> list[Any]:
    """The columns of a table."""
    names = list(train) if isinstance(train, Mapping) else list(getattr(train, "column_names", ()))
    if not names and np.iterable(getattr(train, "columns", None)):
        names = list(train.columns)
    if not names:
        form = "a pandas or polars frame, a pyarrow table, or a dictionary of columns, rows in order"
        raise InvalidArgument("train", form, train, of=_OF)
    return names


def _read_column(train: Any, name: str) -> tuple[Codes, list[Any]]:
    """A column as numbers 0, 1, … and the values that they stand for, sorted; missing values are refused."""
    present = _names(train)
    if name not in present:
        raise InvalidArgument("columns", f"columns of the training rows ({present})", name, of=_OF)
    column = train[name]
    array = np.array(column, dtype=object) if isinstance(column, (list, tuple)) else np.asarray(column)
    if array.ndim != 1:
        raise InvalidArgument("train", f"one value in each row of {name!r}", column, of=_OF)
    if array.dtype.kind == "O":
        codes, values, gaps = _number(array.tolist(), name)
    else:
        distinct, inverse = np.unique(array, return_inverse=True)
        codes, values = inverse.astype(np.int64), [_plain(value) for value in distinct]
        gaps = int((array != array).sum())
    if gaps:
        raise InvalidArgument(
            "train",
            f"rows without missing values in {name!r}: give missing values a value of their own, or fit on "
            "a stretch of rows without them",
            f"{gaps:,} of {len(array):,} missing",
            of=_OF,
        )
    return codes, values


def _number(cells: list[Any], name: str) -> tuple[Codes, list[Any], int]:
    """Number the values of a column of objects, and count those that are missing."""
    gaps = sum(_missing(cell) for cell in cells)
    try:
        distinct = {} if gaps else {_plain(cell): 0 for cell in cells}
    except TypeError:
        raise InvalidArgument("train", f"plain values in {name!r}", cells[:3], of=_OF) from None
    try:
        values = sorted(distinct)
    except TypeError:
        values = sorted(distinct, key=lambda value: (type(value).__name__, repr(value)))
    place = {value: i for i, value in enumerate(values)}
    codes = [] if gaps else [place[_plain(cell)] for cell in cells]
    return np.array(codes, dtype=np.int64), values, gaps


def _missing(cell: Any) -> bool:
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, (float, np.floating)) and math.isnan(cell)


def _plain(value: Any) -> Any:
    """A Python value for a numpy one."""
    return value.item() if isinstance(value, np.generic) else value


def _order(codes: Codes, size: int, order: Any) -> int:
    """The declared order, or the one of 1, 2 and 3 with the least BIC, all on the same rows."""
    if order != "bic":
        if isinstance(order, str):
            raise InvalidArgument("order", 'a whole number of at least 1, or "bic"', order, of=_OF)
        return checks.whole(order, "order", at_most=8, of=_OF)
    rows = len(codes) - _HIGHEST_ORDER
    if rows < 2:
        raise NotEnoughRows(_HIGHEST_ORDER + 2, len(codes), what="Proposing an order by BIC")
    scores = {}
    for depth in range(1, _HIGHEST_ORDER + 1):
        begin = _HIGHEST_ORDER - depth
        places = np.unique(_windows(codes[begin:], depth)[:-1], axis=0, return_inverse=True)[1].ravel()
        counts = np.zeros((int(places.max()) + 1, size))
        np.add.at(counts, (places, codes[_HIGHEST_ORDER:]), 1.0)
        if depth > 1 and len(counts) > MOST_STATES:
            break
        shares = counts / counts.sum(axis=1, keepdims=True)
        fitted = float((counts[counts > 0.0] * np.log(shares[counts > 0.0])).sum())
        scores[depth] = len(counts) * (size - 1) * math.log(rows) - 2.0 * fitted
    return min(scores, key=lambda depth: scores[depth])


def _windows(codes: Codes, depth: int) -> Codes:
    return np.lib.stride_tricks.sliding_window_view(codes, depth)


def _count(
    codes: Codes, values: list[Any], depth: int, *, declared: bool
) -> tuple[Codes, tuple[tuple[int, ...], ...]]:
    """How often each state followed each run of ``depth`` states, and the runs."""
    if len(codes) <= depth:
        raise NotEnoughRows(depth + 1, len(codes), what=f"Fitting a chain of order {depth}")
    listed, places = np.unique(_windows(codes, depth), axis=0, return_inverse=True)
    runs = tuple(tuple(run) for run in listed.tolist())
    if len(runs) > MOST_STATES:
        raise InvalidArgument(
            "order",
            f"an order with at most {MOST_STATES} runs of states. Join states (fewer values in the columns), "
            "take a lower order, or declare Mixing(rate)",
            f"{depth}, with {len(runs):,} runs",
            of=_OF,
        )
    counts = np.zeros((len(runs), len(values)), dtype=np.int64)
    np.add.at(counts, (places.ravel()[:-1], codes[depth:]), 1)
    stuck = np.flatnonzero(~counts.any(axis=1))
    if len(stuck):
        _refuse_run(runs[int(stuck[0])], values, "show only at their end")
    if declared and len(runs) < len(values) ** depth:
        every = product(range(len(values)), repeat=depth)
        _refuse_run(next(run for run in every if run not in set(runs)), values, "never show")
    return counts, runs


def _refuse_run(run: tuple[int, ...], values: list[Any], what: str) -> None:
    named = ", ".join(repr(values[state]) for state in run)
    word = "state" if len(run) == 1 else "run of states"
    lower = "" if len(run) == 1 else ", take a lower order"
    raise InvalidArgument(
        "train",
        f"rows that leave every {word} at least once. These {what} the {word} {named}: give more rows, join "
        f"states{lower}, or declare Mixing(rate)",
        f"rows that never leave {named}",
        of=_OF,
    )


def _fit_network(train: Any, columns: Any, network: Any, confidence: Any) -> FittedNetwork:
    members = column_names(_names(train) if columns is None else columns, of=_OF)
    parents = _read_structure(network, members)
    read = dict(zip(members, _read_columns(train, members), strict=True))
    if not len(read[members[0]][0]):
        raise NotEnoughRows(1, 0, what="Fitting a network", unit="families")
    tables = {}
    for member, above in parents.items():
        scope = (*above, member)
        shape = [len(read[name][1]) for name in scope]
        if math.prod(shape) > _MOST_CELLS:
            raise InvalidArgument(
                "network",
                f"a network whose tables have at most {_MOST_CELLS:,} cells: bin the columns into few values",
                f"a table of {math.prod(shape):,} cells for {member!r}",
                of=_OF,
            )
        places = np.ravel_multi_index([read[name][0] for name in scope], shape)
        tables[member] = (above, np.bincount(places, minlength=math.prod(shape)).reshape(shape))
    return FittedNetwork(tables, confidence=confidence)


def _read_structure(network: Any, members: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The parents of each member, in an order with parents before their children."""
    arrows = network
    if hasattr(network, "edges"):
        arrows = network.edges() if callable(network.edges) else network.edges
    try:
        pairs = [(parent, child) for parent, child in arrows]
    except (TypeError, ValueError):
        form = "a DAG of pgmpy, or a list of arrows (parent, child)"
        raise InvalidArgument("network", form, network, of=_OF) from None
    waiting = {member: {parent for parent, child in pairs if child == member} for member in members}
    for parent, child in pairs:
        if parent not in waiting or child not in waiting:
            raise InvalidArgument(
                "network", f"a structure over the columns {list(members)}", (parent, child), of=_OF
            )
    placed: dict[str, tuple[str, ...]] = {}
    while waiting:
        ready = [member for member, above in waiting.items() if above <= placed.keys()]
        if not ready:
            raise InvalidArgument("network", "a structure without a cycle", sorted(waiting), of=_OF)
        for member in ready:
            placed[member] = tuple(sorted(waiting.pop(member)))
    return placed
