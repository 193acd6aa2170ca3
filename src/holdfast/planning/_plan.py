"""``plan``: every method side by side for one promise, and its picture: error (or rows) against the number of
questions, on log scales.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast import checks
from holdfast.dependence import Dependence
from holdfast.errors import InvalidArgument, MissingExtra
from holdfast.planning._guarded import AgreedCodeMethod, Code, GridCode
from holdfast.planning._method import (
    CUSTOM,
    FILTERED,
    KINDS,
    MEANS,
    MOST_QUERIES,
    MOST_ROWS,
    QUANTILES,
    CertifiedError,
    Method,
    QuestionKind,
    Setting,
)
from holdfast.planning._noise import Naive, SplitMethod, TypicalGaussian, TypicalLaplace
from holdfast.planning._reuse import ReusableHoldoutMethod, TransferGaussian
from holdfast.records import Record, framed_html, html_table, plain
from holdfast.typing import MethodName, PromiseKind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METHODS: tuple[type[Method], ...] = (
    SplitMethod,
    Code,
    AgreedCodeMethod,
    GridCode,
    TypicalLaplace,
    TypicalGaussian,
    TransferGaussian,
    ReusableHoldoutMethod,
    Naive,
)
_NOISY = {method.name for method in METHODS if method.noisy}
_CALIBRATED = (TypicalLaplace.name, TypicalGaussian.name)
_NOTE = "For filtered questions and statistics of your own; grid-code is narrower for the rest."
_IN_WORDS: dict[str, str] = {
    MEANS: "means and shares of all rows",
    FILTERED: "filtered questions",
    QUANTILES: "quantiles",
    CUSTOM: "statistics of your own (with a tail)",
}
_POINTS = 17
_COLOURS: dict[type[Method], str] = {
    SplitMethod: "#7a5195",
    Code: "#1f5fa8",
    AgreedCodeMethod: "#0e7490",
    GridCode: "#4d7c0f",
    TypicalLaplace: "#d97706",
    TypicalGaussian: "#b91c1c",
    TransferGaussian: "#15803d",
    ReusableHoldoutMethod: "#be185d",
    Naive: "#9a9a9a",
}


@dataclass(frozen=True, repr=False)
class PlanEntry(Record):
    """What one method promises: ``error`` for ``queries`` answers on ``rows`` rows.

    Two of the three were given and the third was computed; ``rows`` is None if no number of rows is known
    to be enough. ``valid`` says whether the method holds for the stated dependence, ``reason`` why not;
    ``unstated`` names what the promise needs and the caller did not say. ``answers`` are the kinds of
    questions that the method answers ("means", "filtered", "quantiles", "custom"); the error is certified
    for means and shares of all rows. ``note`` says where another method is the better choice.
    ``parameters`` are all numbers needed to compute the promise again. ``paper`` is the printed route and
    ``variants`` other ways to the same promise, both entries of their own.

    Args:
        name: The name of the method, for example "code" or "split".
        assumptions: What the method assumes, in sentences.
    """

    name: str
    error: float
    rows: int | None
    queries: int
    valid: bool
    assumptions: tuple[str, ...]
    parameters: dict[str, Any] = field(hash=False)
    reason: str = ""
    unstated: str = ""
    answers: tuple[str, ...] = ()
    note: str = ""
    paper: PlanEntry | None = None
    variants: dict[str, PlanEntry] = field(default_factory=dict, hash=False)

    @property
    def recommendable(self) -> bool:
        """Whether the method is valid and everything it needs was stated."""
        return self.valid and not self.unstated

    def __repr__(self) -> str:
        rows = "none known" if self.rows is None else f"{self.rows:,}"
        mark = "" if self.recommendable else ", not recommended"
        return f"PlanEntry({self.name}: ±{self.error:.4g}, rows {rows}, queries {self.queries:,}{mark})"

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain values; what is infinite is None."""
        return {name: _finite(value) for name, value in super().to_dict().items()}


def _count(number: int | None, thing: str) -> str:
    """A number of things in words."""
    if number is None:
        return f"no number of {thing}s is known to be enough"
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass(frozen=True, repr=False)
class Plan(Record):
    """Every method for one promise: k adaptive answers, all within the error with the stated confidence.

    ``solved_for`` is what was computed: "error" from rows, "rows" from an error, "queries" from both.
    ``table`` has the methods that may be recommended first, the best at the top. ``queries``,
    ``confidence``, ``error``, ``rows`` and ``surprises`` are those of :func:`plan`, and ``setting`` is what
    every method was computed from.
    """

    queries: int
    confidence: float
    error: float | None
    rows: int | None
    surprises: int | None
    solved_for: str
    table: tuple[PlanEntry, ...]
    setting: Setting = field(repr=False, compare=False)

    @property
    def best(self) -> PlanEntry:
        """The smallest error, the fewest rows or the most queries, among the methods that are valid and need
        nothing that was not stated."""
        return self.table[0]

    def method(self, name: MethodName) -> PlanEntry:
        """The entry of a method by its name.

        Args:
            name: The name of the method, for example "code" or "split".
        """
        return self._named(name)

    def _named(self, name: str) -> PlanEntry:
        names = tuple(entry.name for entry in self.table)
        checks.choice(name, "name", names, of="Plan.method")
        return self.table[names.index(name)]

    def best_for(self, kind: QuestionKind) -> PlanEntry | None:
        """The best method that answers a kind of questions: "means" (and shares, of all rows), "filtered",
        "quantiles", or "custom" (a statistic of your own with a declared tail); None if no valid one does.

        Of those that may be recommended, it is the one with the best promise about means and shares. A
        filtered question counts as two answers where noise is added, and its width depends on how many rows
        pass; a statistic of your own is as wide as its tail makes it.

        Args:
            kind: "means", "filtered", "quantiles" or "custom".
        """
        checks.choice(kind, "kind", KINDS, of="Plan.best_for")
        return next((entry for entry in self.table if entry.valid and kind in entry.answers), None)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values, with the name of the best method."""
        return {**super().to_dict(), "best": self.best.name, "table": [plain(entry) for entry in self.table]}

    def cells(self, entry: PlanEntry) -> tuple[str, str, str, str, str]:
        """An entry as a line of a table: name, error, rows, queries, remark.

        Args:
            entry: One of the entries of :attr:`table`.
        """
        rows = "—" if entry.rows is None else f"{entry.rows:,}"
        queries = f"{entry.queries:,}" if entry.queries else "none"
        if entry.queries == MOST_QUERIES:
            queries = f"{queries} or more"
        remark = entry.reason or entry.unstated or entry.note
        return entry.name, f"±{entry.error:.4g}", rows, queries, remark

    def __str__(self) -> str:
        lines = [self.cells(entry) for entry in self.table]
        widths = [max(map(len, column)) for column in list(zip(*lines, strict=True))[:4]]
        text = [self.headline()]
        for line in lines:
            numbers = (cell.rjust(width) for cell, width in zip(line[1:4], widths[1:], strict=True))
            text.append("  ".join((line[0].ljust(widths[0]), *numbers, line[4])).rstrip())
        return "\n".join([*text, *filter(None, [self.other_questions()])])

    def other_questions(self) -> str:
        """A sentence about the kinds of questions that the best method does not answer; empty if there is
        nothing to say."""
        best_by_kind = {kind: self.best_for(kind) for kind in KINDS if kind not in self.best.answers}
        advice = [f"{entry.name} for {_IN_WORDS[kind]}" for kind, entry in best_by_kind.items() if entry]
        if not advice:
            return ""
        kinds = " and ".join(_IN_WORDS[kind] for kind in self.best.answers)
        code = self._named(Code.name)
        any_number = "; code answers every kind, for any number of questions" if code.valid else ""
        return f"{self.best.name} answers {kinds}. Take {', '.join(advice)}{any_number}."

    def __repr__(self) -> str:
        return str(self)

    def headline(self) -> str:
        """What was asked and what was found, in a sentence."""
        best, promise = self.best, f"with confidence {self.confidence:g}"
        asked, rows = _count(self.queries, "adaptive question"), _count(self.rows, "row")
        if self.solved_for == "error":
            return f"{asked} on {rows}, {promise}: ±{best.error:.4g} ({best.name})"
        if self.solved_for == "rows":
            return f"{asked} within ±{self.error:g}, {promise}: {_count(best.rows, 'row')} ({best.name})"
        fit = _count(best.queries, "adaptive question")
        return f"{rows}, answers within ±{self.error:g}, {promise}: {fit} ({best.name})"

    def _repr_html_(self) -> str:
        heads = ("method", "error", "rows", "questions", "remark")
        rows = []
        for entry in self.table:
            name, *cells = map(html.escape, self.cells(entry))
            rows.append([f"<b>{name}</b>" if entry is self.best else name, *cells])
        other_questions = f"<p>{html.escape(self.other_questions())}</p>" if self.other_questions() else ""
        return framed_html(html_table(heads, rows, caption=self.headline()), other_questions)


def plan(
    *,
    queries: float,
    confidence: float,
    error: float | None = None,
    rows: float | None = None,
    dependence: Dependence | None = None,
    surprises: float | None = None,
    promise: PromiseKind = "all",
) -> Plan:
    """Every method for the same promise: k adaptive answers, all within ``error``, with ``confidence``.

    ``queries`` is k, the number of questions.
    With ``rows`` each method's certified error is computed, with ``error`` the rows it needs, with both how
    many queries fit. ``dependence`` is a model of the rows (None: they are independent); without ``rows`` and
    ``error`` its own number of rows is used. ``surprises`` states how many questions may have an answer that
    differs from what the training part suggests; without it the code guard's width is a forecast, and it is
    not recommended. With ``promise="each"`` the code guard promises each answer by itself, as
    ``Guard(promise="each")`` does; the other methods promise all together in any case.

    Guarantee: each entry that is valid keeps its promise under its ``assumptions``; ``Plan.best`` is valid
    and needs nothing that was not stated. Rows and queries found by search keep the promise and are within a
    thousandth of the best.
    Assumes: what each entry lists in words.
    Reference: ``docs/theory/planning.md``.

    >>> plan(queries=1000, confidence=0.95, error=0.1, surprises=10).best.name
    'agreed-code'
    """
    queries = checks.whole(queries, "queries", at_most=MOST_QUERIES, of="plan")
    confidence = checks.real(confidence, "confidence", "(0, 1)", of="plan")
    if dependence is not None and not isinstance(dependence, Dependence):
        raise InvalidArgument(
            "dependence", "a model from holdfast.dependence, or None", dependence, of="plan"
        )
    if surprises is not None:
        surprises = checks.whole(surprises, "surprises", at_least=0, at_most=queries, of="plan")
    if error is not None:
        unbounded = dependence is not None and not dependence.bounded
        error = checks.real(error, "error", "(0, inf)" if unbounded else "(0, 1)", of="plan")
    rows = None if rows is None else checks.whole(rows, "rows", at_most=MOST_ROWS, of="plan")
    if dependence is not None and dependence.n is None and rows is not None:
        dependence = dependence.scaled_to(rows, of="plan")  # It was made before its table.
    rows = _rows(rows, error, dependence)
    checks.choice(promise, "promise", ("all", "each"), of="plan")
    setting = Setting(dependence, 1.0 - confidence, surprises, promise)
    solved_for = "error" if error is None else "rows" if rows is None else "queries"
    entries = _noted([_entry(method(setting), queries, error, rows) for method in METHODS])
    table = tuple(sorted(entries, key=lambda entry: _rank(entry, solved_for)))
    return Plan(queries, confidence, error, rows, surprises, solved_for, table, setting)


def _rows(rows: int | None, error: float | None, dependence: Dependence | None) -> int | None:
    if rows is not None:
        if dependence is not None and dependence.n != rows:
            raise InvalidArgument("rows", f"{dependence.n:,}, as in the model of dependence", rows, of="plan")
        return rows
    if error is not None:
        if dependence is not None:
            if dependence.n is None:
                expected = "given: the model was made before its table and does not say how many rows it has"
                raise InvalidArgument("rows", expected, rows, of="plan")
            try:
                dependence.scaled_to(2 * dependence.n, of="plan")
            except InvalidArgument:
                expected = f"given (rows={dependence.n}): the model describes one table and has no other size"
                raise InvalidArgument("rows", expected, rows, of="plan") from None
        return None
    if dependence is None or dependence.n is None:
        raise InvalidArgument("rows", "given, or error, or both", rows, of="plan")
    return dependence.n


def _entry(method: Method, queries: int, error: float | None, rows: int | None) -> PlanEntry:
    needed: int | None
    if error is None:
        assert rows is not None
        needed, fitting = rows, queries
    elif rows is None:
        needed, fitting = method.rows_for(error, queries), queries
    else:
        needed, fitting = rows, method.queries_for(error, rows)
    if needed is None or not fitting:
        promise = CertifiedError(math.inf, {})
    elif error is None:
        promise = method.at(needed, fitting)
    else:
        promise = method.keeping(error, needed, fitting)
    shown = min(promise.error, method.setting.limit) if error is None else error
    printed = method.printed()
    return PlanEntry(
        name=method.name,
        error=shown,
        rows=needed,
        queries=fitting,
        valid=not method.reason(),
        assumptions=method.assumptions(needed or 0, fitting),
        parameters=dict(promise.parameters),
        reason=method.reason(),
        unstated=method.unstated(),
        answers=method.answers
        if method.setting.bounded
        else tuple(kind for kind in method.answers if kind == CUSTOM),
        paper=None if printed is None else _entry(printed, queries, error, rows),
        variants={variant.name: _entry(variant, queries, error, rows) for variant in method.variants()},
    )


def _noted(entries: list[PlanEntry]) -> list[PlanEntry]:
    """Say beside noise calibrated to concentration what cells promise under the same assumption."""
    (cells,) = (entry for entry in entries if entry.name == GridCode.name)
    if not cells.valid:
        return entries
    return [
        replace(entry, note=_NOTE) if entry.name in _CALIBRATED and _wider(entry, cells) else entry
        for entry in entries
    ]


def _wider(entry: PlanEntry, cells_entry: PlanEntry) -> bool:
    """Whether an entry promises less than another: a larger error, more rows, or fewer questions."""
    rows, cells_rows = (math.inf if option.rows is None else option.rows for option in (entry, cells_entry))
    return (entry.error, rows, -entry.queries) > (cells_entry.error, cells_rows, -cells_entry.queries)


def _rank(entry: PlanEntry, solved_for: str) -> tuple[bool, bool, bool, float, bool, float]:
    worth = {
        "error": entry.error,
        "rows": math.inf if entry.rows is None else float(entry.rows),
        "queries": -float(entry.queries),
    }[solved_for]
    # Where promises are alike to four digits, the method without noise goes first.
    alike = float(f"{worth:.4g}")
    naive = entry.name == Naive.name
    return not entry.recommendable, not entry.valid, naive, alike, entry.name in _NOISY, worth


def plot_plan(plan: Plan) -> Figure:
    """A matplotlib figure: each method's error against the number of questions at the plan's rows, or, where
    only an error was given, the rows it needs.

    Solid: may be recommended. Dashed: not valid here, or it needs something that was not stated.

    Args:
        plan: What :func:`plan` returned.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plots", what="A picture of a plan") from None
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    axes = figure.subplots()
    last_count = min(MOST_QUERIES, max(100, 10 * plan.queries))
    question_counts = np.unique(np.round(np.geomspace(1, last_count, _POINTS)).astype(int))
    labels: list[tuple[float, str, str]] = []
    for kind, colour in _COLOURS.items():
        heights = np.array([_height(kind(plan.setting), plan, int(count)) for count in question_counts])
        shown = np.isfinite(heights)
        if not shown.any():
            continue
        entry = plan._named(kind.name)
        style = "-" if entry.recommendable else "--"
        axes.plot(
            question_counts[shown], heights[shown], style, color=colour, lw=2.2 if entry is plan.best else 1.4
        )
        labels.append((float(heights[shown][-1]), kind.name, colour))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1, last_count)
    _frame(axes, plan)
    _name_lines(axes, labels, last_count)
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


def _name_lines(axes: Any, labels: list[tuple[float, str, str]], right_end: float) -> None:
    """Names at the right end of the lines, moved apart where they would cover each other."""
    low, high = (math.log(end) for end in axes.get_ylim())
    step = (high - low) / 24.0
    places: list[float] = []
    for height, _, _ in sorted(labels):
        places.append(max(math.log(height), places[-1] + step if places else low))
    ceiling = high
    for line in reversed(range(len(places))):
        ceiling = places[line] = min(
            places[line], ceiling - step / 2.0 if line == len(places) - 1 else ceiling - step
        )
    for place, (_, name, colour) in zip(places, sorted(labels), strict=True):
        axes.annotate(
            name,
            (right_end, math.exp(place)),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=9,
            annotation_clip=False,
        )
