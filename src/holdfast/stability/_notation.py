"""The notions by name: ``"dp(0.01, 1e-9)"`` is read as ``DP(0.01, 1e-9)``. Also advice on what would make a
vacuous conversion useful."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from holdfast import search
from holdfast.errors import InvalidArgument
from holdfast.stability._dp import DP, BayesianDP
from holdfast.stability._generalization import MaxInformation, PerfectGeneralization
from holdfast.stability._notion import Notion
from holdfast.stability._replicability import GoodCoins, Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability

# The level at which a conversion counts as useful: a replicability of 0.1, or something similar.
USEFUL = 0.1
_TINY = 1e-12
_MOST_ROWS = 10**15

Reach = Callable[[Any, "int | None"], float]


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
        named = fields(self.type)
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


def parse_notion(text: str) -> Notion:
    """Read a notion as it is written on the command line: a name and its numbers, by position or by name.

    Args:
        text: A name and its numbers, such as "dp(0.1, 1e-9)".

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


def _down(value: float) -> str:
    """Two significant digits, rounded down: what is printed still suffices."""
    if value == 0.0:
        return "0"
    scale = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.floor(value / scale * (1.0 + 1e-12)) * scale:.2g}"


def _largest(low: float, high: float, works: Callable[[float], bool]) -> float | None:
    """The largest number that works, to two per cent, on a log scale; None if not even ``low`` does."""
    if not works(low):
        return None
    ends = math.log(low), math.log(high)
    return math.exp(
        search.edge(lambda log: works(math.exp(log)), *ends, relative=0.0, absolute=math.log(1.02))
    )


def advice(notion: Any, start: Node, target: Node, n: int | None, reach: Reach) -> tuple[str, ...]:
    """Sentences that say by how much the start would have to be stronger, and what subsampling would cost.

    ``reach`` evaluates the same path from another start, on another number of rows, and returns its
    looseness.
    """

    def works(other: Any, rows: int | None = None) -> bool:
        return reach(other, rows) <= USEFUL

    if notion.vacuous:
        return (f"the start itself says nothing: {notion!r}",)
    main = start.leading
    goal = f"{'rho' if target.name == 'replicable' else 'looseness'} ≤ {USEFUL:g}"
    here = f" at n = {n:,}" if n is not None else ""
    current = getattr(notion, main)
    if current == 0.0:
        return (f"{goal} needs smaller numbers than these besides {main}",)
    sufficient = _largest(current * _TINY, current, lambda value: works(replace(notion, **{main: value})))
    if sufficient is not None:
        sentences = [f"{goal}{here} would need {main} ≤ {_down(sufficient)} (the rest unchanged)"]
    elif isinstance(notion, DP) and notion.delta > 0.0:
        sentences = _smaller_delta(notion, goal, here, works)
    else:
        return (f"no {main} is small enough for {goal}{here}: the other numbers are too large",)
    if isinstance(notion, DP) and n is not None:
        sentences.append(_subsampling(notion, n, goal, works))
    return tuple(sentences)


def _smaller_delta(dp: DP, goal: str, here: str, works: Callable[..., bool]) -> list[str]:
    ideal = _largest(dp.epsilon * _TINY, dp.epsilon, lambda value: works(DP(value, 1e-300)))
    if ideal is None:
        return [f"no epsilon is small enough for {goal}{here}"]
    epsilon = ideal / 2.0
    delta = _largest(1e-300, dp.delta, lambda value: works(DP(epsilon, value)))
    lead = f"no epsilon is small enough for {goal}{here} with delta = {dp.delta:g}"
    if delta is None:
        return [lead]
    return [f"{lead}; epsilon ≤ {_down(epsilon)} with delta ≤ {_down(delta)} is"]


def _subsampling(dp: DP, n: int, goal: str, works: Callable[..., bool]) -> str:
    """SIS Corollary 3.13: run the same algorithm on n rows drawn at random from m, and convert that."""
    route = f"run on {n:,} rows drawn at random from m (SIS Corollary 3.13)"

    def enough(delta: float) -> int | None:
        def suffices(share: float) -> bool:
            rows = math.ceil(n / share)
            return works(DP(dp.epsilon, delta).subsample(n, rows), rows)

        share = _largest(n / _MOST_ROWS, 1.0, suffices) if n < _MOST_ROWS else None
        return None if share is None else math.ceil(n / share)

    rows = enough(dp.delta)
    if rows is not None:
        return f"{goal} is reached when {route} with m ≥ {_rows(rows)}"
    rows = enough(1e-300) if dp.delta > 0.0 else None
    if rows is None:
        return f"subsampling does not reach {goal}: {route} takes more than {_MOST_ROWS:.0e} rows"
    rows *= 4
    delta = _largest(1e-300, dp.delta, lambda value: works(DP(dp.epsilon, value).subsample(n, rows), rows))
    if delta is None:
        return f"subsampling does not reach {goal} at delta = {dp.delta:g}"
    return f"{goal} is reached when {route} with m ≥ {_rows(rows)}, if delta ≤ {_down(delta)}"


def _rows(count: int) -> str:
    """Two significant digits, rounded up."""
    scale = 10 ** max(0, len(str(count)) - 2)
    return f"{math.ceil(count / scale) * scale:,}"
