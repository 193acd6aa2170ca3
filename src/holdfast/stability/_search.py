"""Following a route of arrows, the parameters left open chosen for the tightest end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.stability._arrows import Arrow
from holdfast.stability._notion import Notion
from holdfast.stability._path import Step
from holdfast.stability._tightness import strain

Route = tuple[Arrow, ...]
# Whether the end is vacuous, the strain at the end (or before it, if it is), and the factor in rows.
Key = tuple[bool, float, int]
Found = tuple[Key, tuple[float, ...]]

_RANGES = {"beta": (1e-20, 0.99), "d": (1e-15, 1.0), "nu": (1e-9, 0.999)}
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


def _left_open(arrow: Arrow, at: Mapping[str, Any]) -> str | None:
    return next((name for name in arrow.open(at["method"]) if name not in at), None)


def tightest(notion: Notion, route: Route, at: Mapping[str, Any], *, fine: bool) -> Found:
    """The key at the end of the route, and the values of its open parameters in order.

    Everything after a milestone is monotone in what is reached there, so each stretch is optimised by itself.
    Raises the :class:`InvalidArgument` of the arrow that does not apply, whatever the open parameters.
    """
    here, at, factor = notion, dict(at), 1
    values: tuple[float, ...] = ()
    while True:
        length = next((i for i, arrow in enumerate(route, 1) if arrow.milestone), len(route))
        key, chosen = _tightest_stretch(here, route[:length], at, factor, fine=fine)
        values += chosen
        if length == len(route):
            return key, values
        for step in trace(here, route[:length], at, chosen):
            here, factor = step.result, factor * step.rows
            if "n" in at:
                at["n"] *= step.rows
        route = route[length:]


def _tightest_stretch(
    notion: Notion, route: Route, at: Mapping[str, Any], factor: int, *, fine: bool
) -> Found:

    def onward(here: Notion, before: float, position: int, at: Mapping[str, Any], factor: int) -> Found:
        if position == len(route):
            end = strain(here)
            return ((False, end, factor) if math.isfinite(end) else (True, before, factor)), ()
        arrow = route[position]

        def attempt(chosen: Mapping[str, float]) -> Found:
            applied = arrow.apply(here, {**at, **chosen})
            rows = {"n": at["n"] * applied.rows} if "n" in at else {}
            key, rest = onward(
                applied.notion, strain(here), position + 1, {**at, **rows}, factor * applied.rows
            )
            return key, (*chosen.values(), *rest)

        name = _left_open(arrow, at)
        return attempt({}) if name is None else _best_value(name, attempt, fine=fine)

    return onward(notion, strain(notion), 0, at, factor)


def _position(name: str, value: float) -> float:
    """Where the scan finds a value: on a log scale, and ν, of which only a window (2ρ, 1) makes coins that a
    compiler can use, on the scale of its log odds."""
    return math.log(value) - math.log1p(-value) if name == "nu" else math.log(value)


def _value(name: str, position: float) -> float:
    low, high = _RANGES[name]
    value = 1.0 / (1.0 + math.exp(-position)) if name == "nu" else math.exp(position)
    return min(max(value, low), high)


def _best_value(name: str, attempt: Callable[[Mapping[str, float]], Found], *, fine: bool) -> Found:
    """A coarse scan of one parameter, a finer one around its best, then golden sections.

    The rows of a compiler are whole seeds times whole parts: a saw-tooth in ν, on which golden sections alone
    would stop at any tooth.
    """
    found: list[Found] = []
    refused: list[InvalidArgument] = []

    def key(position: float) -> Key:
        try:
            found.append(attempt({name: _value(name, position)}))
        except InvalidArgument as refusal:
            refused.append(refusal)
            return True, math.inf, 0
        return found[-1][0]

    def around_best(a: float, b: float, points: int) -> tuple[float, float]:
        """The neighbours of the best of so many points from ``a`` to ``b``."""
        grid = [a + (b - a) * i / (points - 1) for i in range(points)]
        keys = [key(position) for position in grid]
        middle = min(range(points), key=keys.__getitem__)
        return grid[max(0, middle - 1)], grid[min(points - 1, middle + 1)]

    scan, sections = (17, 24) if fine else (11, 6)
    low, high = (_position(name, end) for end in _RANGES[name])
    a, b = around_best(low, high, 2 * scan if name == "nu" else scan)
    if not found:
        raise refused[-1]
    if fine and name == "nu":
        a, b = around_best(a, b, 4 * scan)
    left, right = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    at_left, at_right = key(left), key(right)
    for _ in range(sections):
        if at_left <= at_right:
            b, right, at_right = right, left, at_left
            left = b - _GOLDEN * (b - a)
            at_left = key(left)
        else:
            a, left, at_left = left, right, at_right
            right = a + _GOLDEN * (b - a)
            at_right = key(right)
    return min(found, key=lambda one: one[0])


def trace(notion: Notion, route: Route, at: Mapping[str, Any], values: tuple[float, ...]) -> tuple[Step, ...]:
    """The steps of the route at the chosen values of its open parameters."""
    steps: list[Step] = []
    left = list(values)
    here, context = notion, dict(at)
    for arrow in route:
        name = _left_open(arrow, context)
        chosen = {} if name is None else {name: left.pop(0)}
        applied = arrow.apply(here, {**context, **chosen})
        used = {key: context[key] for key in (*arrow.needs, *arrow.open(context["method"])) if key in context}
        steps.append(
            Step(
                source=arrow.source,
                target=arrow.target,
                theorem=applied.theorem or arrow.source_of(context["method"]),
                kind=arrow.kind,
                conditions=arrow.conditions,
                rows=applied.rows,
                parameters={**used, **chosen, **applied.shown},
                result=applied.notion,
            )
        )
        here = applied.notion
        if "n" in context:
            context["n"] *= applied.rows
    return tuple(steps)
