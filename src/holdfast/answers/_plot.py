"""How an account looks in a notebook: a heading, what is left, and a table of the latest answers.

As a picture it has a line for each answer, and the nats spent under them."""

from __future__ import annotations

import html
import io
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.answers._answer import Answer, Left
from holdfast.errors import MissingExtra
from holdfast.records import amount, framed_html, html_table, interval_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A long history is shown from its end; guard.history has the rest.
_LATEST = 20

_ANSWER, GREY, RED = "#1f5fa8", "#9a9a9a", "#c2410c"


class History(tuple[Answer, ...]):
    """Answers in order: a tuple that a notebook shows as a table.

    >>> History()
    ()
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return framed_html(answers_html(self))


def answers_html(answers: Iterable[Answer], first: int = 1) -> str:
    """A table: number, question, value, interval, surprise or as guessed, cost."""
    heads = ("", "question", "value", "interval", "guess", "cost")
    return html_table(heads, (_cells(number, answer) for number, answer in enumerate(answers, start=first)))


def _cells(number: int, answer: Answer) -> tuple[str, ...]:
    value, interval = interval_words(answer.value, answer.low, answer.high)
    if answer.guess != answer.guess:
        guess = "none"
    else:
        shown = interval_words(answer.guess, answer.low, answer.high)[0]
        guess = f"{shown}, confirmed" if answer.confirmed else f"<b>{shown}, a surprise</b>"
    question = f"<code>{html.escape(str(answer.query))}</code>"
    cost = amount(answer.cost, answer.unit)
    interval, cost = (text.replace(" ", "&nbsp;") for text in (interval, cost))
    return str(number), question, f"<b>{value}</b>", interval, guess, cost


def account_html(answers: Sequence[Answer], left: Left, *, spent: str, rows: int, training: int) -> str:
    """An account in a notebook: how many rows, what was spent and is left, the latest answers."""
    earlier = max(0, len(answers) - _LATEST)
    more = f"<p>{earlier:,} earlier answers are in <code>guard.history</code>.</p>" if earlier else ""
    table = (
        answers_html(answers[earlier:], first=earlier + 1) if answers else "<p>No question was asked yet.</p>"
    )
    return framed_html(
        f"<p><b>Guard</b>: {rows:,} protected rows, {training:,} training rows, {spent} spent.</p>",
        left._as_html(),
        more,
        table,
    )


def plot_answers(answers: Sequence[Answer], left: str = "") -> Figure:
    """Draw what was released as a forest plot: a line for each answer, with its question and its numbers.

    Answers of one order of magnitude share a panel. Below the panels are what was spent and, in words,
    what is ``left``. Nothing is computed from rows. The figure shows itself in a notebook.
    """
    try:
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise MissingExtra("plots", what="guard.plot()") from None
    panels = _panels(answers)
    line = _line_height(len(answers))
    heights = [max(0.8, line * len(members) + 0.4) for members in panels]
    words = textwrap.wrap(left, 110)
    tall = sum(heights) + 1.9 + 0.2 * len(words)
    figure: Figure = notebook_figure()(figsize=(9, tall), layout="constrained")
    axes = figure.subplots(len(panels) + 1, 1, squeeze=False, height_ratios=[*heights, 1.1])[:, 0]
    for axis, members in zip(axes, panels, strict=False):
        _draw(axis, answers, members, font=min(9.0, 60 * line))
        axis.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    _add_legend(axes[0], answers)
    _draw_spent(axes[-1], answers)
    axes[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True))
    figure.supxlabel("\n".join(words), x=0.01, ha="left", fontsize=9)
    if answers:
        each = answers[0].certificate.statement.startswith("Each")
        promise = "Each interval holds" if each else "All intervals hold together"
        title = f"{promise} with probability {answers[0].confidence:.6g}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure


def _draw_spent(axis: Any, answers: Sequence[Answer]) -> None:
    """What was spent after each question."""
    spent = np.cumsum([0.0, *(answer.cost for answer in answers)])
    # Half a question more on the right, so that the last level is visible.
    axis.step(
        [*range(len(answers) + 1), len(answers) + 0.5], [*spent, spent[-1]], where="post", color=_ANSWER
    )
    axis.set_xlim(0, len(answers) + 0.5)
    axis.set_ylim(bottom=0.0)
    axis.set_ylabel(f"{answers[0].unit} spent" if answers else "spent", fontsize=9)
    axis.set_xlabel("question", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _add_legend(axis: Any, answers: Sequence[Answer]) -> None:
    """The legend, once for all panels: only marks that are drawn."""
    from matplotlib.lines import Line2D

    guessed = any(math.isfinite(answer.guess) for answer in answers)
    kinds = {answer.confirmed for answer in answers}
    marks = [Line2D([], [], marker="|", ls="", ms=8, color=GREY, label="guess")] if guessed else []
    for confirmed, colour, label in (
        (True, _ANSWER, "as guessed" if guessed else "answer"),
        (False, RED, "a surprise"),
    ):
        if confirmed in kinds:
            marks.append(Line2D([], [], marker="o", ms=4, lw=1.5, color=colour, label=label))
    if marks:
        axis.legend(
            handles=marks, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False, fontsize=8
        )


def notebook_figure() -> type[Figure]:
    """A figure that a notebook shows without pyplot and without ``%matplotlib``."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            picture = io.BytesIO()
            self.savefig(picture, format="png", dpi=110)
            return picture.getvalue()

    figure_type: type[Figure] = NotebookFigure
    return figure_type


def _line_height(answers: int) -> float:
    """Inches for one answer: 200 of them make a page of about three feet, with labels that can be read."""
    return max(0.16, 0.3 - 0.003 * max(0, answers - 10))


def _panels(answers: Sequence[Answer]) -> list[list[int]]:
    """The places of answers that can share an axis: those of one order of magnitude. Shares have panels of
    their own."""
    places_by_scale: dict[float, list[int]] = {}
    for place, answer in enumerate(answers):
        size = max(abs(answer.value), answer.half_width)
        scale = 0.0 if size <= 1 or not math.isfinite(size) else math.ceil(math.log10(size))
        places_by_scale.setdefault(scale, []).append(place)
    return [places_by_scale[scale] for scale in sorted(places_by_scale)] or [[]]


def _draw(axis: Any, answers: Sequence[Answer], members: Sequence[int], *, font: float) -> None:
    """One panel: questions on the left, intervals in the middle, numbers on the right, the first on top."""
    shown = [answers[place] for place in members]
    lines = np.arange(len(shown))
    values = np.array([answer.value for answer in shown])
    reach = np.array([[a.value - a.low, a.high - a.value] for a in shown]).reshape(-1, 2).T
    surprised = np.array([not answer.confirmed for answer in shown], dtype=bool)
    guesses = [answer.guess for answer in shown]
    if np.isfinite(guesses).any():
        axis.scatter(guesses, lines, marker="|", s=60, color=GREY, zorder=3)
    for chosen, colour in ((~surprised, _ANSWER), (surprised, RED)):
        if chosen.any():
            axis.errorbar(
                values[chosen],
                lines[chosen],
                xerr=reach[:, chosen],
                fmt="o",
                ms=3,
                lw=1.5,
                color=colour,
            )
    labels = [
        f"{place + 1}  {textwrap.shorten(str(answers[place].query), 60, placeholder=' …')}"
        for place in members
    ]
    axis.set_yticks(lines, labels, fontsize=font)
    axis.set_ylim(len(shown) - 0.4, -0.6)
    axis.grid(axis="x", color=GREY, alpha=0.3, lw=0.6)
    numbers = axis.secondary_yaxis("right")
    numbers.set_yticks(
        lines, [" ".join(interval_words(a.value, a.low, a.high)) for a in shown], fontsize=font
    )
    for side in (axis, numbers):
        side.tick_params(axis="y", length=0)
    for side in ("top", "left", "right"):
        axis.spines[side].set_visible(False)
        numbers.spines[side].set_visible(False)
    axis.tick_params(axis="x", labelsize=8)
