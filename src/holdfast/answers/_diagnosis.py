"""What a diagnosis says: how alike neighbours and rows of one group are, and sentences about what to do."""

from __future__ import annotations

import html
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.answers._plot import GREY, RED, notebook_figure
from holdfast.errors import MissingExtra
from holdfast.records import Record, framed_html, html_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# A correlation below this can be real, but changes an interval little.
MATTERS = 0.1
# A column that a series is sorted by.
TIMES = re.compile(r"year|date|day|time|month|week|quarter|hour|minute|second|period|epoch", re.IGNORECASE)
_NAMED = 3
# At most so many columns, and so many groups, are drawn: those that stand out most.
_LINES, _BARS = 6, 10

NOTHING = "Nothing speaks against independent rows."
_SAY = "say so: Guard(data, dependence=Mixing(rate=…)), or a chain fitted with dependence.fit(…)"
_SERIES = f"If the rows are a series in this order, {_SAY}."
_GROUPS = "If rows belong together in groups, name their column: Guard(data, dependence=Clusters(column=…))."


SHUFFLED = (
    "The rows do not seem to stand cluster by cluster, as Clusters(sizes) expects. Rows with the same "
    "{0!r} resemble each other and lie in different clusters. Sort the table by {0!r}, or name the column: "
    "Guard(data, dependence=Clusters(column={0!r}))."
)
"""The warning if clusters are stated to stand in order and rows look shuffled."""


@dataclass(frozen=True, repr=False)
class Neighbours(Record):
    """How alike rows that follow each other are, in one column or in the values of a question.

    ``rows`` training rows were measured; ``different`` is the number of their different values. ``name`` is
    the column or the question. ``correlation`` is the rank correlation of neighbouring rows; of texts, how
    much more often they are equal than by chance, as a part of what is possible. ``z`` compares it with all
    orders of the same values, and independent rows stay within ``limit``. ``nearby`` and ``nearby_z`` compare
    neighbours with rows a few places away, so that a table that is only sorted does not count. ``trend`` is
    the rank correlation with the place in the table, and ``trend_z`` compares it with all orders.
    ``is_sorted`` says that the table is sorted by this column, at least in long pieces. ``is_time`` says that
    the column holds dates or times, or is named like them. ``autocorrelation`` has the correlation at each of
    ``lags``. Lags count training rows, which are about ``gap`` rows of the data apart.
    """

    name: str
    rows: int
    different: int
    correlation: float
    z: float
    limit: float
    nearby: float
    nearby_z: float
    trend: float
    trend_z: float
    is_sorted: bool
    is_time: bool = False
    gap: float = 1.0
    lags: tuple[int, ...] = field(default=(), repr=False)
    autocorrelation: tuple[float, ...] = field(default=(), repr=False)

    @property
    def sorted_by_property(self) -> bool:
        """Whether the table is sorted by this, many rows share a value, and it is not a time. Then the order
        of the rows may say nothing."""
        return self.is_sorted and self.different < 0.9 * self.rows and not self.is_time

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            **super().to_dict(),
            "lags": list(self.lags),
            "autocorrelation": list(self.autocorrelation),
        }


@dataclass(frozen=True, repr=False)
class Likeness(Record):
    """How alike rows with the same value of ``column`` are in the values ``name``. ``groups`` is the number
    of such groups.

    ``correlation`` is the intraclass correlation of their ranks (of texts, the excess of equal pairs). ``z``
    compares it with all permutations of the values. ``rows_each`` is the size of the group of an average row,
    in rows of the data. ``design_effect`` is 1 + (rows_each − 1)·correlation: the variance of a mean over
    what it would be for independent rows.
    """

    column: str
    name: str
    groups: int
    rows_each: float
    correlation: float
    z: float
    design_effect: float

    @property
    def too_narrow(self) -> float:
        """About how many times too narrow intervals for independent rows would be."""
        return math.sqrt(max(1.0, self.design_effect))


@dataclass(frozen=True, repr=False)
class Diagnosis(Record):
    """What ``rows`` training rows say about independence: ``neighbours`` by column, ``clusters`` by columns
    that look like an id, and ``sentences`` that say what to do. ``not_looked_at`` are columns that were left
    out.

    Guarantee: for independent rows with one law, whatever it is, and ids that say nothing about the values,
    the only sentence is that nothing speaks against independent rows, with probability about 0.999. Every
    score is compared with ``threshold``, the normal quantile for all looks together.
    Assumes: nothing else. A property of independent rows that explains their values (a job explains an
    income) looks like an id of groups: the sentence says under which condition it matters.
    Reference: moments over all permutations (Mantel 1967; Moran 1950), exact; normal, χ² or Poisson tails,
    approximate.
    """

    rows: int
    threshold: float
    neighbours: tuple[Neighbours, ...]
    clusters: tuple[Likeness, ...]
    sentences: tuple[str, ...]
    not_looked_at: tuple[str, ...] = ()

    @property
    def speaks_against(self) -> bool:
        """Whether something speaks against independent rows. A sorted table alone does not."""
        return not self.sentences[-1].startswith(NOTHING)

    def __repr__(self) -> str:
        more = _unseen(self.not_looked_at)
        listed = "".join(f"\n- {sentence}" for sentence in (*self.sentences, *more))
        return f"Diagnosis of {self.rows:,} training rows, free:{listed}"

    def _repr_html_(self) -> str:
        cells: list[tuple[str, ...]] = [("column", "neighbours", "z", "trend")]
        cells += [
            (column.name, f"{column.correlation:.2f}", f"{column.z:.1f}", f"{column.trend:.2f}")
            for column in self.neighbours
        ]
        tables = [cells] if self.neighbours else []
        groups: list[tuple[str, ...]] = [("same", "in", "correlation", "z", "too narrow by")]
        groups += [
            (
                likeness.column,
                likeness.name,
                f"{likeness.correlation:.2f}",
                f"{likeness.z:.1f}",
                f"{likeness.too_narrow:.2g}×",
            )
            for likeness in self.clusters
        ]
        tables += [groups] if self.clusters else []
        sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.sentences)
        drawn = (
            html_table(heads, ([html.escape(c) for c in row] for row in rows)) for heads, *rows in tables
        )
        return framed_html(sentences, *drawn)

    def plot(self) -> Figure:
        """Draw the autocorrelation of the columns that stand out, and the groups that resemble each other;
        returns the figure. Needs the extra ``plots``."""
        return _plot(self)


def sentences_of(
    neighbours: Sequence[Neighbours],
    clusters: Sequence[Likeness],
    threshold: float,
    model: str | None,
    *,
    ordered: bool,
) -> tuple[str, ...]:
    """What the user needs to know and to do, the most important first."""
    ordinary = [column for column in neighbours if not column.is_sorted]
    close = [column for column in ordinary if column.z > threshold and column.nearby_z > threshold]
    drifting = [
        column
        for column in ordinary
        if column not in close and max(column.z, abs(column.trend_z)) > threshold
    ]
    apart = [column for column in ordinary if column.z < -threshold and column not in drifting]
    advice = None if model is None else f"This guard assumes {model}."
    shared = [column.name for column in neighbours if column.sorted_by_property]
    why = f" The table is sorted by {_listed(shared)}, which may be why." if shared else ""
    sentences = [close_sentence(close, advice, why)] if close else []
    by_column: dict[str, list[Likeness]] = {}
    for likeness in clusters:
        if likeness.z > threshold:
            by_column.setdefault(likeness.column, []).append(likeness)
    sentences += [group_sentence(alike, advice) for alike in by_column.values()]
    if drifting:
        sentences.append(
            f"{_named(drifting)} {_verb(drifting, 'change')} along the table. Independent draws from one "
            "distribution do not change. If the table was only sorted or put together "
            f"from parts, that does no harm. {advice or f'If it is in the order of time, {_SAY}.'}"
        )
    if apart:
        sentences.append(
            f"Neighbouring rows of {_named(apart)} differ more than independent rows "
            f"would (correlation {_correlations(apart)}). Intervals for "
            "independent rows are then too wide rather than too narrow, unless rows farther apart agree."
        )
    alone = not sentences
    by_order = [column.name for column in neighbours if column.is_sorted]
    if by_order:
        sentences.append(
            f"The table is sorted by {_listed(by_order)}. That alone does no harm. It matters if rows that "
            "are near each other in this order depend on each other."
        )
    if alone:
        sentences.append(
            NOTHING if ordered else f"{NOTHING} These rows have no order, so none was looked at."
        )
    return tuple(sentences)


def close_sentence(close: Sequence[Neighbours], advice: str | None = None, why: str = "") -> str:
    """The sentence for values whose neighbours agree."""
    strongest = max(abs(column.correlation) for column in close)
    much = "far more" if strongest > MATTERS else "slightly more"
    return (
        f"Neighbouring rows of {_named(close)} agree {much} than independent rows "
        f"would (correlation {_correlations(close)}; independent rows give within "
        f"±{max(column.limit for column in close):.2g}).{why} {advice or f'{_SERIES} {_GROUPS}'}"
    )


def group_sentence(alike: Sequence[Likeness], advice: str | None = None) -> str:
    """The sentence for one column that groups rows which resemble each other."""
    column, worst = alike[0].column, max(alike, key=lambda likeness: likeness.design_effect)
    use = f"Use Guard(data, dependence=Clusters(column={column!r}))."
    return (
        f"Rows with the same {column!r} resemble each other in {_named(alike)} "
        f"(intraclass correlation {_correlations(alike)}, about "
        f"{worst.rows_each:.2g} rows each). If {column!r} names the units that were drawn, such as "
        "persons or sites, intervals for independent rows would be about "
        f"{worst.too_narrow:.2g} times too narrow. {advice or use}"
    )


def _listed(names: Sequence[str]) -> str:
    """Some names in words: a column in quotes, a question as its text."""
    shown = [name if "(" in name else repr(name) for name in names[:_NAMED]]
    if len(names) > _NAMED:
        return f"{', '.join(shown)} and {len(names) - _NAMED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _named(records: Sequence[Neighbours | Likeness]) -> str:
    return _listed([record.name for record in records])


def _correlations(records: Sequence[Neighbours | Likeness]) -> str:
    return ", ".join(f"{record.correlation:.2f}" for record in records[:_NAMED])


def _verb(things: Sequence[object], verb: str) -> str:
    return verb if len(things) > 1 else f"{verb}s"


def _unseen(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    which = "column was" if len(names) == 1 else "columns were"
    return (f"{len(names):,} {which} not looked at: {_listed(names)}. Ask about one: diagnose(question).",)


def _plot(diagnosis: Diagnosis) -> Figure:
    """Draw how alike rows are by their distance in the table and, if there are groups, inside groups."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtra("plots", what="diagnosis.plot()") from None
    panels = [draw for draw, drawn in _DIAGNOSED if getattr(diagnosis, drawn)]
    figure: Figure = notebook_figure()(figsize=(9, 1.0 + 3.2 * max(1, len(panels))), layout="constrained")
    axes = figure.subplots(max(1, len(panels)), 1, squeeze=False)[:, 0]
    for draw, axis in zip(panels, axes, strict=False):
        draw(axis, diagnosis)
    title = diagnosis.sentences[0].partition(". ")[0].rstrip(".") + "."
    figure.suptitle("\n".join(textwrap.wrap(title, 85)), fontsize=11)
    return figure


def _draw_lags(axis: Any, diagnosis: Diagnosis) -> None:
    """The autocorrelation of the columns that stand out; independent rows stay in the grey band."""
    ordinary = [column for column in diagnosis.neighbours if not column.is_sorted] or diagnosis.neighbours
    shown = sorted(ordinary, key=lambda column: -abs(column.z))[:_LINES]
    limit = max(column.limit for column in shown)
    axis.axhspan(-limit, limit, color=GREY, alpha=0.35, lw=0, label="independent rows")
    for column in shown:
        places = [lag * column.gap for lag in column.lags]
        axis.plot(places, column.autocorrelation, "o-", ms=3, lw=1, label=textwrap.shorten(column.name, 40))
    axis.axhline(0, color=GREY, lw=0.8)
    highest = max(number for column in shown for number in column.autocorrelation)
    axis.set_ylim(top=max(0.25, 1.08 * highest))
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(lambda place, _: f"{place:,.0f}")
    axis.set_xlabel("rows apart in the table, about")
    axis.set_ylabel("correlation")
    axis.legend(loc="best", frameon=False, fontsize=8)


def _draw_groups(axis: Any, diagnosis: Diagnosis) -> None:
    """The correlation of rows with the same id; the ids that would widen intervals most come first."""
    shown = sorted(diagnosis.clusters, key=lambda likeness: -likeness.design_effect)[:_BARS][::-1]
    names = [f"{textwrap.shorten(likeness.name, 30)}, same {likeness.column!r}" for likeness in shown]
    alarming = [likeness.z > diagnosis.threshold for likeness in shown]
    colours = [RED if alarm else GREY for alarm in alarming]
    axis.barh(names, [likeness.correlation for likeness in shown], color=colours)
    for place, (likeness, alarm) in enumerate(zip(shown, alarming, strict=True)):
        if alarm:
            words = f" intervals {likeness.too_narrow:.2g}× too narrow"
            axis.text(likeness.correlation, place, words, va="center", fontsize=8)
    axis.set_xlim(min(0.0, *(likeness.correlation for likeness in shown)), 1.0)
    axis.set_xlabel("correlation of rows with the same id")


_DIAGNOSED = ((_draw_lags, "neighbours"), (_draw_groups, "clusters"))
