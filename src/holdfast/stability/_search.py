"""Following a route of arrows, the parameters left open chosen for the tightest end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.stability._arrows import Arrow, Window
from holdfast.stability._notion import Notion
from holdfast.stability._path import Step
from holdfast.stability._tightness import strain

Route = tuple[Arrow, ...]
# Whether the end is vacuous, the strain at the end (or before it, if it is), and the factor in rows.
Key = tuple[bool, float, int]
Found = tuple[Key, tuple[float, ...]]

# How near to the two ends of its window a parameter is tried, as a share of the window.
_SHARES = {"beta": (1e-20, 0.99), "d": (1e-20, 0.999), "nu": (1e-9, 0.999), "slack": (1e-20, 0.99)}
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
        steps, at = _walk(here, route[:length], at, chosen)
        here, factor = steps[-1].result, factor * math.prod(step.rows for step in steps)
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
            key, rest = onward(
                applied.notion, strain(here), position + 1, applied.context_after(at), factor * applied.rows
            )
            return key, (*chosen.values(), *rest)

        name = _left_open(arrow, at)
        if name is None:
            return attempt({})
        # A window without room is tried as well: the arrow then says what is wrong, or that it is vacuous.
        windows = arrow.windows(here, at)
        open_windows = [window for window in windows if window[0] < window[1]] or [(0.0, 1.0)]
        return _best_value(name, open_windows, attempt, fine=fine)

    return onward(notion, strain(notion), 0, at, factor)


def _best_value(
    name: str, windows: list[Window], attempt: Callable[[Mapping[str, float]], Found], *, fine: bool
) -> Found:
    """The best value of one parameter over all of its windows."""
    refused: list[InvalidArgument] = []
    best: list[Found] = []
    for window in windows:
        try:
            best.append(_best_in_window(name, window, attempt, fine=fine))
        except InvalidArgument as refusal:
            refused.append(refusal)
    if not best:
        raise refused[-1]
    return min(best, key=lambda candidate: candidate[0])


def _best_in_window(
    name: str, window: Window, attempt: Callable[[Mapping[str, float]], Found], *, fine: bool
) -> Found:
    """A coarse scan of one parameter, a finer one around its best, then golden sections.

    The scan is even on the scale of the log odds of the value's place in the window, so it has points inside
    however narrow the window is, and near both of its ends. The rows of a compiler are whole seeds times
    whole parts: a saw-tooth in ν, on which golden sections alone would stop at any tooth.
    """
    found: list[Found] = []
    refused: list[InvalidArgument] = []
    lowest, highest = window

    def key(position: float) -> Key:
        value = lowest + (highest - lowest) / (1.0 + math.exp(-position))
        try:
            found.append(attempt({name: value}))
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
    low, high = (math.log(share) - math.log1p(-share) for share in _SHARES[name])
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
    return _walk(notion, route, at, values)[0]


def _walk(
    notion: Notion, route: Route, at: Mapping[str, Any], values: tuple[float, ...]
) -> tuple[tuple[Step, ...], dict[str, Any]]:
    """The steps of the route, and the context after them."""
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
        here, context = applied.notion, applied.context_after(context)
    return tuple(steps), context
