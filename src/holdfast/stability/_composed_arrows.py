"""Composition as an arrow: from one analysis to several of the same rows, within one notion.

``explain(notion, to, analyses=k)`` puts one of these on every path, at the place where it costs least.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.stability._arrows import Applied, Arrow, Setting
from holdfast.stability._notion import Notion
from holdfast.stability._path import SAME

__all__ = ["COMPOSITIONS"]

_HISTORY = "each analysis keeps its promise with the outputs before it held fixed"


def _composed(compose: Callable[[Any, int, Setting], Notion]) -> Callable[..., Applied]:
    def apply(notion: Any, at: Setting) -> Applied:
        k = at["analyses"]
        # A transcript of k analyses has as many outcomes as there are k-tuples.
        more = at["outcomes"] ** k - at["outcomes"] if "outcomes" in at else 0
        return Applied(compose(notion, k, at), new_outcomes=more)

    return apply


def _arrow(
    name: str,
    theorem: str,
    compose: Callable[[Any, int, Setting], Notion],
    *,
    slack: bool = False,
    conditions: tuple[str, ...] = (_HISTORY,),
    printed: bool = True,
) -> Arrow:
    return Arrow(
        name,
        name,
        theorem,
        SAME,
        _composed(compose),
        conditions=conditions,
        needs=("analyses",),
        free=("slack",) if slack else (),
        printed=printed,
    )


def _with_slack(notion: Any, k: int, at: Setting) -> Notion:
    composed: Notion = notion.compose(k, slack=at["slack"])
    return composed


COMPOSITIONS = (
    _arrow("dp", "basic composition", lambda notion, k, at: notion.compose(k, method="basic")),
    _arrow("dp", "Kairouz, Oh and Viswanath 2015", _with_slack, slack=True),
    _arrow(
        "typical",
        "TS Theorems 4.2 and 4.8",
        lambda notion, k, at: notion.compose(k, slack=at["slack"], method=at["method"]),
        slack=True,
    ),
    _arrow("two-sample", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow("perfect-generalization", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow("one-way", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow("sample", "Holdfast, sharp composition", _with_slack, slack=True, printed=False),
    _arrow(
        "max-information",
        "Holdfast, composition of max-information",
        lambda notion, k, at: notion.compose(k, at["slack"]),
        slack=True,
        printed=False,
    ),
    _arrow(
        "replicable",
        "SIS 1.4.3; constant: Holdfast",
        lambda notion, k, at: notion.compose(k),
        conditions=(
            "coins of its own for each analysis, chosen from earlier results and shared coins alone",
        ),
    ),
)
