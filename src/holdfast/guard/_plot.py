"""A picture of an account: answers with their intervals, the guesses in grey, the nats spent under them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.errors import MissingExtra
from holdfast.guard._answer import Answer

_ANSWER, _GUESS, _SURPRISE = "#1f5fa8", "#9a9a9a", "#c2410c"


def plot_answers(answers: Sequence[Answer]) -> Any:
    """Draw what was released, a panel for each order of magnitude; nothing is computed from rows."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingExtra("plots", what="guard.plot()") from None
    panels = _panels(answers)
    figure = Figure(figsize=(9, 2.4 + 2.2 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels) + 1, 1, sharex=True, squeeze=False)[:, 0]
    for axis, members in zip(axes, panels, strict=False):
        _draw(axis, answers, members)
    axes[-1].step(
        np.arange(1, len(answers) + 1),
        np.cumsum([answer.cost for answer in answers]),
        where="mid",
        color=_ANSWER,
    )
    axes[-1].set_ylabel(f"{answers[0].unit} spent" if answers else "spent")
    axes[-1].set_xlabel("question")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    if answers:
        axes[0].set_title(f"All intervals hold together with probability {answers[0].confidence:.6g}")
    return figure


def _panels(answers: Sequence[Answer]) -> list[list[int]]:
    """The places of answers that can share an axis: those of one order of magnitude; shares keep to
    themselves."""
    found: dict[float, list[int]] = {}
    for place, answer in enumerate(answers):
        size = max(abs(answer.value), answer.half_width)
        scale = 0.0 if size <= 1 or not math.isfinite(size) else math.ceil(math.log10(size))
        found.setdefault(scale, []).append(place)
    return [found[scale] for scale in sorted(found)] or [[]]


def _draw(axis: Any, answers: Sequence[Answer], members: Sequence[int]) -> None:
    places = np.array(members, dtype=int)
    shown = [answers[place] for place in members]
    values = np.array([answer.value for answer in shown])
    reach = np.array([[a.value - a.low, a.high - a.value] for a in shown]).reshape(-1, 2).T
    surprised = np.array([not answer.confirmed for answer in shown], dtype=bool)
    guesses = [answer.guess for answer in shown]
    if np.isfinite(guesses).any():
        axis.scatter(places + 1, guesses, marker="_", color=_GUESS, label="guess", zorder=2)
    calm = "as guessed" if np.isfinite(guesses).any() else "answer"
    for chosen, colour, label in ((~surprised, _ANSWER, calm), (surprised, _SURPRISE, "a surprise")):
        if chosen.any():
            axis.errorbar(
                places[chosen] + 1,
                values[chosen],
                yerr=reach[:, chosen],
                fmt="o",
                ms=3,
                lw=1,
                color=colour,
                label=label,
            )
    axis.set_ylabel("answer")
    if shown:
        axis.legend(loc="best", frameon=False)
