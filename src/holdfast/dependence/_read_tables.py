"""Reading the tables of a network, however they are given."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NoReturn

import numpy as np

from holdfast.dependence._factors import Array
from holdfast.errors import InvalidArgument


def refuse_model(expected: str, got: object, *, of: str) -> NoReturn:
    """The model is not what the network needs."""
    raise InvalidArgument("model", expected, got, of=of)


def read_nodes(nodes: Any, what: str, model: object, *, of: str) -> tuple[Any, ...]:
    """A list of nodes; a text is not one, however many letters it has."""
    listed = None if isinstance(nodes, (str, bytes)) or not np.iterable(nodes) else tuple(nodes)
    if listed is None or not all(isinstance(node, Hashable) for node in listed):
        refuse_model(f"{what} as a list of nodes", model, of=of)
    return listed


def read_table(table: Any, what: str, *, of: str) -> Array:
    """A table of finite numbers, none negative, at least one state on each axis."""
    try:
        array = np.array(table, dtype=float)
    except (TypeError, ValueError):
        array = np.empty(0)
    if not array.ndim or not array.size or not np.isfinite(array).all() or not (array >= 0.0).all():
        raise InvalidArgument("model", f"one where {what} holds finite numbers, none negative", table, of=of)
    array.setflags(write=False)
    return array


def pgmpy_values(table: Any, *, of: str) -> tuple[list[Any], Array]:
    """The variables and the values of a discrete factor or conditional table of pgmpy."""
    variables, values = getattr(table, "variables", None), getattr(table, "values", None)
    if variables is None or values is None:
        refuse_model("a discrete network: every table has variables and values", table, of=of)
    return list(variables), read_table(values, f"the table over {list(variables)!r}", of=of)
