"""From one notion of stability to another, along the published arrows.

A route is followed with the parameters that it leaves open chosen for the tightest end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar, Unpack, overload

from holdfast import checks, search
from holdfast.errors import InvalidArgument
from holdfast.stability._arrows import ARROWS, COMPOSITIONS, Arrow, Window, looseness, strain
from holdfast.stability._dp import DP, BayesianDP
from holdfast.stability._generalization import MaxInformation, PerfectGeneralization
from holdfast.stability._notation import NODES, advice, node_named, node_of
from holdfast.stability._notion import Notion, Path, Step
from holdfast.stability._replicability import GoodCoins, Replicability
from holdfast.stability._typical import TwoSampleStability, TypicalStability
from holdfast.typing import ConversionContext, NotionName

AnyNotion = TypeVar("AnyNotion", bound=Notion)

# The largest number of open parameters on a path with a composition.
_MOST_OPEN = 2
Route = tuple[Arrow, ...]
# A key orders paths: whether the end is vacuous, the strain at the end (or before it, if it is), the factor
# in rows.
Key = tuple[bool, float, int]
# A key, and the values of the open parameters that reach it.
Optimum = tuple[Key, tuple[float, ...]]

# How near to the two ends of its window a parameter is tried, as a share of the window.
_SHARES = {"beta": (1e-20, 0.99), "d": (1e-20, 0.999), "nu": (1e-9, 0.999), "slack": (1e-20, 0.99)}


def _real(domain: str) -> Callable[[Any, str], Any]:
    return lambda value, name: checks.real(value, name, domain, of="explain")


def _whole(value: Any, name: str) -> int:
    return checks.whole(value, name, of="explain")


_CONTEXT: dict[str, Callable[[Any, str], Any]] = {
    "n": _whole,
    "outcomes": _whole,
    "analyses": _whole,
    "slack": _real("(0, 1)"),
    "beta": _real("(0, 1)"),
    "epsilon": _real("(0, inf)"),
    "delta": _real("(0, 1)"),
    "d": _real("(0, 1]"),
    "nu": _real("(0, 1]"),
    "failure": _real("(0, 1)"),
    "algorithm_failure": _real("[0, 1)"),
    "c": _real("(0, inf)"),
    "C": _real("(0, inf)"),
    "method": lambda value, name: checks.choice(value, name, ("paper", "sharp"), of="explain"),
}


@overload
def convert(notion: Notion, to: type[AnyNotion], **context: Unpack[ConversionContext]) -> AnyNotion: ...
@overload
def convert(notion: Notion, to: Literal["dp"], **context: Unpack[ConversionContext]) -> DP: ...
@overload
def convert(
    notion: Notion,
    to: Literal["bayesian-dp"],
    **context: Unpack[ConversionContext],
) -> BayesianDP: ...
@overload
def convert(
    notion: Notion,
    to: Literal["typical"],
    **context: Unpack[ConversionContext],
) -> TypicalStability: ...
@overload
def convert(
    notion: Notion,
    to: Literal["two-sample"],
    **context: Unpack[ConversionContext],
) -> TwoSampleStability: ...
@overload
def convert(
    notion: Notion,
    to: Literal["max-information"],
    **context: Unpack[ConversionContext],
) -> MaxInformation: ...
@overload
def convert(
    notion: Notion,
    to: Literal["perfect-generalization", "one-way", "sample"],
    **context: Unpack[ConversionContext],
) -> PerfectGeneralization: ...
@overload
def convert(
    notion: Notion,
    to: Literal["replicable"],
    **context: Unpack[ConversionContext],
) -> Replicability: ...
@overload
def convert(notion: Notion, to: Literal["good-coins"], **context: Unpack[ConversionContext]) -> GoodCoins: ...
def convert(notion: Notion, to: NotionName | type[Notion], **context: Unpack[ConversionContext]) -> Notion:
    """The notion ``to`` that ``notion`` implies, by the path that :func:`explain` shows.

    Guarantee: the tightest result over all paths of published arrows that apply, optimised over what the
    context leaves open.
    Assumes: the conditions of every arrow on the path; ``explain`` lists them.
    Reference: SIS figure 1 and the lemmas around it.

    Args:
        context: Numbers that steps need: ``n``, ``beta``, ``outcomes``, …

    >>> from holdfast.stability import DP
    >>> convert(DP(1e-4), "max-information", n=1000, beta=0.01)
    MaxInformation(bits=0.00692461, beta=0.01)
    """
    return explain(notion, to, **context).result


def explain(notion: Notion, to: NotionName | type[Notion], **context: Unpack[ConversionContext]) -> Path:
    """The path by which ``notion`` implies ``to``: each step's theorem, conditions, price and numbers.

    ``to`` is a name ("dp", "bayesian-dp", "typical", "two-sample", "max-information",
    "perfect-generalization", "one-way", "sample", "replicable", "good-coins") or a class. The context gives
    the numbers that steps need; numbers that you leave out are optimised and shown:

    * ``n`` is the number of rows, and ``method`` is "sharp" or "paper";
    * ``outcomes`` counts those of the algorithm at the start (SIS Algorithm 1 adds one, "none");
    * ``beta`` is that of the max-information, ``nu`` that of good coins;
    * ``epsilon`` and ``delta`` are wanted from a transformation, which may have the ``failure`` (0.05) where
      the algorithm itself has ``algorithm_failure`` (0);
    * ``d`` is that of SIS Lemmas 3.14 and 3.6, ``c`` and ``C`` are those of SIS Lemma 3.11;
    * ``analyses`` = k makes the result one about k analyses of the same rows, each chosen after seeing the
      outputs before it. They are composed where it costs least, with ``slack`` to spend.

    Guarantee: the tightest result over all simple paths whose conditions hold, and that use ``beta``, ``d``
    and ``nu`` where they are given; of equally tight ones, the shortest. With ``analyses``: over those with
    at most two parameters to search.
    Assumes: the conditions listed on the path.
    Reference: SIS figure 1 and the lemmas around it.

    Args:
        context: Numbers that steps need: ``n``, ``beta``, ``outcomes``, …

    >>> from holdfast.stability import DP
    >>> print(explain(DP(1e-5), "replicable", n=1000).summary)
    DP(epsilon=1e-05, delta=0) ⇒ Replicability(rho=0.000223582)
    """
    start = node_of(notion, argument="notion", of="explain")
    target = node_named(to, argument="to", of="explain")
    at = _checked(context)
    several = at.get("analyses", 1) > 1
    if start.name == target.name and not several:
        return Path(notion, target.name, (), notion, 1, at.get("n"))
    direct = list(_routes(start.name, target.name, (start.name,)))
    if several:
        direct = [
            route for plain in ((), *direct) for route in _with_composition(start.name, target.name, plain)
        ]
    routes = [route for route in direct if at["method"] == "sharp" or all(arrow.printed for arrow in route)]
    if several:
        # Each open parameter multiplies the search: paths with many of them are not worth the wait.
        routes = [route for route in routes if _open(route, at) <= _MOST_OPEN]
    # A path that needs a number which the caller did not give can only report that.
    routes = [route for route in routes if _has_all(route, at)] or routes
    # A path that does not use a parameter which the caller gave answers another question.
    most = max((_given(route, at) for route in routes), default=0)
    routes = [route for route in routes if _given(route, at) == most]
    if not routes:
        expected = f"a notion that {start.name} leads to: " + ", ".join(sorted(_reachable(start.name)))
        raise InvalidArgument("to", expected, to, of="explain")
    route, values, vacuous = _choose(notion, routes, at)
    steps = trace(notion, route, at, values)

    def reach(other: Notion, rows: int | None) -> float:
        try:
            key, _ = tightest(other, route, {**at, "n": rows} if rows else at, fine=False)
        except InvalidArgument:
            return 1.0
        return 1.0 if key[0] else looseness(key[1])

    factor = math.prod(step.rows for step in steps)
    return Path(
        start=notion,
        to=target.name,
        steps=steps,
        result=steps[-1].result,
        factor=factor,
        rows=at["n"] * factor if "n" in at else None,
        advice=advice(notion, start, target, at.get("n"), reach) if vacuous else (),
    )


def _has_all(route: Route, at: Mapping[str, Any]) -> bool:
    """Whether the context has every number that the steps of a route need."""
    return all(name in at for arrow in route for name in arrow.needs)


def _given(route: Route, at: Mapping[str, Any]) -> int:
    """How many of the parameters that a route leaves open the context gives."""
    return len({name for arrow in route for name in arrow.open(at["method"]) if name in at})


def _open(route: Route, at: Mapping[str, Any]) -> int:
    """How many parameters of a route are left to be searched."""
    return sum(name not in at for arrow in route for name in arrow.open(at["method"]))


def _checked(context: Mapping[str, object]) -> dict[str, Any]:
    for name in context:
        if name not in _CONTEXT:
            raise InvalidArgument("context", "among " + ", ".join(_CONTEXT), name, of="explain")
    given = {name: _CONTEXT[name](value, name) for name, value in context.items() if value is not None}
    return {"method": "sharp", **given}


def _routes(here: str, target: str, seen: tuple[str, ...]) -> Iterator[Route]:
    """Every path of arrows that visits no notion twice, except that it may end where it began."""
    for arrow in ARROWS:
        if arrow.source != here:
            continue
        if arrow.target == target:
            yield (arrow,)
        elif arrow.target not in seen:
            for rest in _routes(arrow.target, target, (*seen, arrow.target)):
                yield (arrow, *rest)


def _with_composition(start: str, target: str, route: Route) -> Iterator[Route]:
    """The route with a composition at each of the notions that it passes."""
    notions = (start, *(arrow.target for arrow in route))
    if notions[-1] != target:
        return
    for place, name in enumerate(notions):
        for arrow in COMPOSITIONS:
            if arrow.source == name:
                yield (*route[:place], arrow, *route[place:])


def _reachable(here: str) -> set[str]:
    return {name for name in NODES if name != here and next(_routes(here, name, (here,)), None) is not None}


def _choose(
    notion: Notion, routes: list[Route], at: Mapping[str, Any]
) -> tuple[Route, tuple[float, ...], bool]:
    """The route with the tightest end, the values of its open parameters, and whether the end is vacuous.

    All routes are searched coarsely; those that come near the best are searched again, finely.
    """
    coarse: list[tuple[float, Route]] = []
    refusals: list[tuple[int, int, InvalidArgument]] = []
    for route in routes:
        missing = {name: arrow for arrow in reversed(route) for name in arrow.needs if name not in at}
        if missing:
            refusals.append((len(missing), len(route), _missing(missing)))
            continue
        try:
            key, _ = tightest(notion, route, at, fine=False)
        except InvalidArgument as refusal:
            refusals.append((0, len(route), refusal))
        else:
            coarse.append((math.inf if key[0] else key[1], route))
    if not coarse:
        raise min(refusals, key=lambda refusal: refusal[:2])[2]
    best = min(end for end, _ in coarse)
    near = [route for end, route in coarse if end <= 1.5 * best + 1e-12]
    fine = [(*tightest(notion, route, at, fine=True), route) for route in near]
    key, values, route = min(
        fine,
        key=lambda candidate: (
            candidate[0][0],
            _rounded(candidate[0][1]),
            len(candidate[2]),
            candidate[0][2],
        ),
    )
    return route, values, key[0]


def _rounded(value: float) -> float:
    """Numbers that agree to nine digits count as equally tight."""
    return float(f"{value:.9g}")


def _missing(missing: Mapping[str, Arrow]) -> InvalidArgument:
    names = sorted(missing, key=list(_CONTEXT).index)
    arrow = missing[names[0]]
    wanted = f"given: the step {arrow.source} → {arrow.target} needs {' and '.join(arrow.needs)}"
    return InvalidArgument(names[0], wanted, None, of="explain", reference=arrow.theorem)


def _left_open(arrow: Arrow, at: Mapping[str, Any]) -> str | None:
    return next((name for name in arrow.open(at["method"]) if name not in at), None)


def tightest(notion: Notion, route: Route, at: Mapping[str, Any], *, fine: bool) -> Optimum:
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
) -> Optimum:

    def onward(here: Notion, before: float, position: int, at: Mapping[str, Any], factor: int) -> Optimum:
        if position == len(route):
            end = strain(here)
            return ((False, end, factor) if math.isfinite(end) else (True, before, factor)), ()
        arrow = route[position]

        def attempt(chosen: Mapping[str, float]) -> Optimum:
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
    name: str, windows: list[Window], attempt: Callable[[Mapping[str, float]], Optimum], *, fine: bool
) -> Optimum:
    """The best value of one parameter over all of its windows."""
    refused: list[InvalidArgument] = []
    best: list[Optimum] = []
    for window in windows:
        try:
            best.append(_best_in_window(name, window, attempt, fine=fine))
        except InvalidArgument as refusal:
            refused.append(refusal)
    if not best:
        raise refused[-1]
    return min(best, key=lambda candidate: candidate[0])


def _best_in_window(
    name: str, window: Window, attempt: Callable[[Mapping[str, float]], Optimum], *, fine: bool
) -> Optimum:
    """A coarse scan of one parameter, a finer one around its best, then golden sections.

    The scan is even on the scale of the log odds of the value's place in the window, so it has points inside
    however narrow the window is, and near both of its ends. The rows of a compiler are whole seeds times
    whole parts: a saw-tooth in ν, on which golden sections alone would stop at any tooth.
    """
    attempts: list[Optimum] = []
    refused: list[InvalidArgument] = []
    lowest, highest = window

    def key(position: float) -> Key:
        value = lowest + (highest - lowest) / (1.0 + math.exp(-position))
        try:
            attempts.append(attempt({name: value}))
        except InvalidArgument as refusal:
            refused.append(refusal)
            return True, math.inf, 0
        return attempts[-1][0]

    def around_best(a: float, b: float, points: int) -> tuple[float, float]:
        """The neighbours of the best of ``points`` points from ``a`` to ``b``."""
        grid = [a + (b - a) * i / (points - 1) for i in range(points)]
        keys = [key(position) for position in grid]
        middle = min(range(points), key=keys.__getitem__)
        return grid[max(0, middle - 1)], grid[min(points - 1, middle + 1)]

    scan, sections = (17, 24) if fine else (11, 6)
    low, high = (math.log(share) - math.log1p(-share) for share in _SHARES[name])
    a, b = around_best(low, high, 2 * scan if name == "nu" else scan)
    if not attempts:
        raise refused[-1]
    if fine and name == "nu":
        a, b = around_best(a, b, 4 * scan)
    search.least_of_valley(key, a, b, sections=sections)
    return min(attempts, key=lambda candidate: candidate[0])


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
