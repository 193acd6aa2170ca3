"""The notions by name: ``"dp(0.01, 1e-9)"`` is read as ``DP(0.01, 1e-9)``."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, cast

from holdfast.errors import InvalidArgument
from holdfast.stability._bayesian import BayesianDP
from holdfast.stability._dp import DP
from holdfast.stability._generalization import PerfectGeneralization
from holdfast.stability._information import MaxInformation
from holdfast.stability._notion import Notion
from holdfast.stability._replicability import GoodCoins, Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability


@dataclass(frozen=True)
class Node:
    """One notion of the graph: its name, class, leading number and, for perfect generalisation, kind."""

    name: str
    type: type[Notion]
    leading: str
    kind: str = ""
    also: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of its numbers, in order."""
        named = fields(cast(Any, self.type))
        return tuple(field.name for field in named if field.name != "kind")


NODES = {
    node.name: node
    for node in (
        Node("dp", DP, "epsilon", also=("differential-privacy",)),
        Node("bayesian-dp", BayesianDP, "epsilon", also=("bdp",)),
        Node("typical", TypicalStability, "eta", also=("typical-stability", "oracle")),
        Node("two-sample", TwoSampleStability, "eta", also=("two-sample-stability",)),
        Node("max-information", MaxInformation, "bits", also=("information", "maxinfo")),
        Node(
            "perfect-generalization",
            PerfectGeneralization,
            "epsilon",
            "two-way",
            also=("pg", "two-way", "perfect-generalisation"),
        ),
        Node(
            "one-way", PerfectGeneralization, "epsilon", "one-way", also=("one-way-perfect-generalization",)
        ),
        Node("sample", PerfectGeneralization, "epsilon", "sample", also=("sample-perfect-generalization",)),
        Node("replicable", Replicability, "rho", also=("replicability",)),
        Node("good-coins", GoodCoins, "eta", also=("goodcoins",)),
    )
}
_BY_ALIAS = {alias: node for node in NODES.values() for alias in (node.name, *node.also)}
_BY_ALIAS |= {node.type.__name__.lower(): node for node in NODES.values() if node.kind in ("", "two-way")}
_WRITTEN = re.compile(r"\s*([A-Za-z][A-Za-z _-]*?)\s*\((.*)\)\s*", re.DOTALL)


def node_named(name: Any, *, argument: str, of: str) -> Node:
    """The node meant by a name or by a class."""
    if isinstance(name, type):
        for node in NODES.values():
            if node.type is name:
                return node
    if isinstance(name, str):
        alias = re.sub(r"[ _]+", "-", name.strip().lower())
        if alias in _BY_ALIAS:
            return _BY_ALIAS[alias]
    raise InvalidArgument(argument, "one of " + ", ".join(NODES), name, of=of)


def node_of(notion: Any, *, argument: str, of: str) -> Node:
    """The node a notion belongs to."""
    for node in NODES.values():
        if type(notion) is node.type and getattr(notion, "kind", "") == node.kind:
            return node
    raise InvalidArgument(argument, "a notion of stability, such as DP(0.1)", notion, of=of)


def parse_notion(text: Any) -> Any:
    """Read a notion as it is written on the command line: a name and its numbers, by position or by name.

    >>> parse_notion("dp(0.01, 1e-9)")
    DP(epsilon=0.01, delta=1e-09)
    >>> parse_notion("one-way(beta=0.01, epsilon=0.1, delta=0)")
    PerfectGeneralization(beta=0.01, epsilon=0.1, delta=0, kind='one-way')
    """
    of = "parse_notion"
    written = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if written is None:
        raise InvalidArgument("notion", "a name and its numbers, such as 'dp(0.01, 1e-9)'", text, of=of)
    node = node_named(written.group(1), argument="notion", of=of)
    expected = f"{node.name}({', '.join(node.numbers)}) with plain numbers"
    values: dict[str, float] = {}
    given = [part.strip() for part in written.group(2).split(",")] if written.group(2).strip() else []
    for position, part in enumerate(given):
        name, equals, number = part.rpartition("=")
        if not equals:
            if position >= len(node.numbers) or (values and list(values) != list(node.numbers[:position])):
                raise InvalidArgument("notion", expected, text, of=of)
            name = node.numbers[position]
        try:
            value = float(number)
        except ValueError:
            raise InvalidArgument("notion", expected, text, of=of) from None
        if name.strip() not in node.numbers or name.strip() in values:
            raise InvalidArgument("notion", expected, text, of=of)
        values[name.strip()] = value
    try:
        return node.type(**values, **({"kind": node.kind} if node.kind else {}))
    except TypeError:
        raise InvalidArgument("notion", expected, text, of=of) from None
