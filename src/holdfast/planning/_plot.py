"""A picture of a plan: error (or rows) against the number of questions, on log scales."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from holdfast.errors import MissingExtra
from holdfast.planning._agreed import AgreedCode, GridCode
from holdfast.planning._guarded import Code
from holdfast.planning._method import MOST_QUERIES, Method
from holdfast.planning._noise import TypicalGaussian, TypicalLaplace
from holdfast.planning._plain import Naive, Split
from holdfast.planning._plan import Plan
from holdfast.planning._reuse import ReusableHoldout
from holdfast.planning._transfer import TransferGaussian

_POINTS = 17
_COLOURS: dict[type[Method], str] = {
    Split: "#7a5195",
    Code: "#1f5fa8",
    AgreedCode: "#0e7490",
    GridCode: "#4d7c0f",
    TypicalLaplace: "#d97706",
    TypicalGaussian: "#b91c1c",
    TransferGaussian: "#15803d",
    ReusableHoldout: "#be185d",
    Naive: "#9a9a9a",
}


def plot_plan(plan: Plan) -> Any:
    """A matplotlib figure: each method's error against the number of questions at the plan's rows, or, where
    only an error was given, the rows it needs.

    Solid: may be recommended. Dashed: not valid here, or it needs something that was not stated.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plots", what="A picture of a plan") from None
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    last = min(MOST_QUERIES, max(100, 10 * plan.queries))
    asked = np.unique(np.round(np.geomspace(1, last, _POINTS)).astype(int))
    labels: list[tuple[float, str, str]] = []
    for kind, colour in _COLOURS.items():
        heights = np.array([_height(kind(plan.setting), plan, int(k)) for k in asked])
        shown = np.isfinite(heights)
        if not shown.any():
            continue
        entry = plan.method(kind.name)
        style = "-" if entry.recommendable else "--"
        axes.plot(asked[shown], heights[shown], style, color=colour, lw=2.2 if entry is plan.best else 1.4)
        labels.append((float(heights[shown][-1]), kind.name, colour))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, last)
    _frame(axes, plan)
    _name_lines(axes, labels, last)
    return figure


def _height(method: Method, plan: Plan, queries: int) -> float:
    if plan.rows is not None:
        return min(method.at(plan.rows, queries).error, method.setting.limit)
    assert plan.error is not None
    rows = method.rows_for(plan.error, queries)
    return math.inf if rows is None else float(rows)


def _frame(axes: Any, plan: Plan) -> None:
    axes.text(
        0.99,
        0.015,
        "dashed: not valid here, or needs something that was not stated",
        transform=axes.transAxes,
        ha="right",
        fontsize=8,
        color="#777777",
    )
    axes.axvline(plan.queries, color="#444444", lw=0.8, ls=":")
    axes.set_xlabel("adaptive questions")
    axes.grid(True, which="major", color="#e5e5e5", lw=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    confidence = f"all answers at once with confidence {plan.confidence:g}"
    if plan.rows is None:
        axes.set_ylabel("rows needed")
        axes.set_title(f"Answers within ±{plan.error:g}, {confidence}", loc="left", fontsize=11)
        return
    axes.set_ylabel("error")
    axes.set_title(f"{plan.rows:,} rows, {confidence}", loc="left", fontsize=11)
    if plan.error is not None:
        axes.axhline(plan.error, color="#444444", lw=0.8, ls=":")


def _name_lines(axes: Any, labels: list[tuple[float, str, str]], last: float) -> None:
    """Names at the right end of the lines, moved apart where they would cover each other."""
    low, high = (math.log(end) for end in axes.get_ylim())
    step = (high - low) / 24.0
    places: list[float] = []
    for height, _, _ in sorted(labels):
        places.append(max(math.log(height), places[-1] + step if places else low))
    ceiling = high
    for i in reversed(range(len(places))):
        ceiling = places[i] = min(places[i], ceiling - step / 2.0 if i == len(places) - 1 else ceiling - step)
    for place, (_, name, colour) in zip(places, sorted(labels), strict=True):
        axes.annotate(
            name,
            (last, math.exp(place)),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
            annotation_clip=False,
        )
