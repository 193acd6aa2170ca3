"""A picture of an account: answers with their intervals, the guesses in grey, the nats spent under them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from holdfast.errors import MissingExtra
from holdfast.guard._answer import Answer

_ANSWER, _GUESS, _SURPRISE = "#1f5fa8", "#9a9a9a", "#c2410c"


def plot_answers(answers: Sequence[Answer], axes: Any = None) -> Any:
    """Draw what was released; nothing is computed from rows. ``axes`` is a pair of matplotlib axes, or None
    for new ones."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plots", what="guard.plot()") from None
    if axes is None:
        figure = Figure(figsize=(9, 5), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    upper, lower = axes
    places = np.arange(1, len(answers) + 1)
    values = np.array([answer.value for answer in answers])
    reach = (
        np.array([[answer.value - answer.low, answer.high - answer.value] for answer in answers])
        .reshape(-1, 2)
        .T
    )
    surprised = np.array([not answer.confirmed for answer in answers], dtype=bool)
    upper.scatter(
        places,
        [answer.guess for answer in answers],
        marker="_",
        color=_GUESS,
        label="guess",
        zorder=2,
    )
    for chosen, colour, label in ((~surprised, _ANSWER, "as guessed"), (surprised, _SURPRISE, "a surprise")):
        if chosen.any():
            upper.errorbar(
                places[chosen],
                values[chosen],
                yerr=reach[:, chosen],
                fmt="o",
                ms=3,
                lw=1,
                color=colour,
                label=label,
            )
    upper.set_ylabel("answer")
    if answers:
        upper.legend(loc="best", frameon=False)
        upper.set_title(f"All intervals hold together with probability {answers[0].confidence:.6g}")
    lower.step(places, np.cumsum([answer.cost for answer in answers]), where="mid", color=_ANSWER)
    lower.set_ylabel("nats spent")
    lower.set_xlabel("question")
    return upper.figure
