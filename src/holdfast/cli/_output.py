"""Printing: text for any terminal, JSON for programs, HTML pages, and answers."""

from __future__ import annotations

import codecs
import io
import json
import math
import sys
import unicodedata
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any, TypedDict

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holdfast.errors import BudgetSpent, HoldfastError, NotEnoughRows, ServiceRefused
from holdfast.records import amount, interval_words

if TYPE_CHECKING:
    from holdfast.guard import Answer, Curve, Guard, Left, Preview
    from holdfast.guard import Table as GroupTable

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")

_SPELLED = "holdfast-spelled"

# What to write in place of a character that the encoding of the terminal lacks.
_ASCII = {
    **{"─": "-", "━": "=", "●": "O", "○": "o", "│": "|", "█": "#", "░": "."},
    **{"…": "...", "·": "-", "–": "-", "—": "-", "−": "-", "“": '"', "”": '"', "‘": "'", "’": "'"},
    **{"→": "->", "⇒": "=>", "≤": "<=", "≥": ">=", "±": "+/-", "×": "x", "√": "sqrt ", "∞": "inf"},
}


def status_of(error: HoldfastError) -> int:
    """The exit status for an error: 1 if rows or budget do not suffice, the account is closed or a service
    says no; 2 for bad input."""
    from holdfast.ledger import Closed

    return 1 if isinstance(error, (BudgetSpent, NotEnoughRows, ServiceRefused, Closed)) else 2


def write_on_any_terminal() -> None:
    """Replace characters that the terminal cannot show. Answers were paid for: printing must not fail."""
    codecs.register_error(_SPELLED, _spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_SPELLED)


def print_data(document: Any) -> None:
    """Print one JSON document, in ASCII where the output is not UTF-8. JSON has no infinity: it is null."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    click.echo(json.dumps(_finite(document), ensure_ascii=not unicode, allow_nan=False, default=str))


def _spell(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_spelled, error.object[error.start : error.end])), error.end


def _spelled(character: str) -> str:
    if character in _ASCII:
        return _ASCII[character]
    name = unicodedata.name(character, "")
    if name.startswith("GREEK"):
        return name.rpartition(" ")[2].lower()
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain or "?"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def filled(template: str, **values: object) -> str:
    """The template with these values, which are HTML already."""
    folder = resources.files("holdfast.cli")
    style = folder.joinpath("page.css").read_text(encoding="utf-8").rstrip()
    template_text = folder.joinpath(template).read_text(encoding="utf-8")
    return Template(template_text).substitute(values, style=style)


_WIDTH = 40


def picture(
    value: float,
    low: float,
    high: float,
    *,
    span: tuple[float, float],
    mark: float | None = None,
    sign: str = "○",
    style: str = "cyan",
    width: int = _WIDTH,
) -> Text:
    """An interval as a bar on a line that stands for ``span``, with a ``sign`` at ``mark`` if it is given."""

    def place(number: float) -> int:
        inside = (min(max(number, span[0]), span[1]) - span[0]) / (span[1] - span[0])
        return min(width - 1, math.floor(inside * width))

    first_cell, last_cell = place(low), place(high)
    cells = [("─", "dim")] * width
    cells[first_cell : last_cell + 1] = [("━", style)] * (last_cell - first_cell + 1)
    if mark is not None:
        cells[place(mark)] = (sign, "yellow")
    cells[place(value)] = ("●", f"bold {style}")
    return Text.assemble(*cells)


def span_of(kind: str, bounds: tuple[float, float] | None, *places: float) -> tuple[float, float] | None:
    """The line to draw an interval on: all that a share or a mean can be, else a bit more than is drawn."""
    if kind == "share":
        return 0.0, 1.0
    if bounds is not None and kind == "mean":
        return bounds
    finite = [place for place in places if math.isfinite(place)]
    room = 0.1 * (max(finite) - min(finite)) if finite else 0.0
    return (min(finite) - room, max(finite) + room) if room > 0 else None


def meter(share: float, width: int = 20) -> str:
    """A bar for what is left of something.

    >>> meter(0.5, width=8)
    '████░░░░'
    """
    full = round(min(max(share, 0.0), 1.0) * width)
    return "█" * full + "░" * (width - full)


_LONGEST = 100
_POINTS_SHOWN = 10


def short(question: object) -> str:
    """A question in no more characters than a line has."""
    text = str(question)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class Finer(TypedDict):
    """How much a question may cost: options that the verbs of a guard take."""

    precise: bool
    nats: float | None


def ask_and_show(console: Console, guard: Guard, question: str, finer: Finer | None = None) -> None:
    """Ask one question and show the answer."""
    from holdfast import queries

    query = queries.read(question)
    if query.is_table:
        table = guard.table(question, **finer) if finer else guard.table(question)
        show_table(console, table)
        return
    answers_before = len(guard.history)
    answer = guard.ask(question, **finer) if finer else guard.ask(question)
    left = "" if math.isinf(guard.left) else f" · {amount(guard.left, guard.unit)} left"
    _show_answer(console, answer, _cost(answer, free=len(guard.history) == answers_before) + left)
    if query.kind == "cdf":
        show_curve(console, guard.curve(question))


def show_table(console: Console, answers: GroupTable) -> None:
    """Show the answer for each group of rows, with its picture."""
    console.print(Text(short(answers.query)), style="bold")
    group_answers = answers.answers
    places = [place for answer in group_answers for place in (answer.low, answer.high)]
    query = group_answers[0].query if group_answers else answers.query
    span = span_of(getattr(query, "kind", ""), getattr(query, "bounds", None), *places) if places else None
    table = Table(*answers.by, "value", "interval", "", box=None, pad_edge=False)
    for row in answers.rows:
        group = [*row.group, *[""] * (len(answers.by) - len(row.group))]
        if row.answer is None:
            table.add_row(*map(escape, group), "-", Text(row.note, style="dim"), "")
            continue
        value, interval = interval_words(row.answer.value, row.answer.low, row.answer.high)
        drawn = "" if span is None else picture(row.answer.value, row.answer.low, row.answer.high, span=span)
        table.add_row(*map(escape, group), value, escape(interval), drawn)
    console.print(table, highlight=False)


def show_curve(console: Console, curve: Curve) -> None:
    """Show a distribution at about ten of its points."""
    table = Table("at most", "share of rows", "interval", "", box=None, pad_edge=False)
    step = max(1, len(curve.points) // _POINTS_SHOWN)
    for place in range(step // 2, len(curve.points), step):
        low, value, high = curve.low[place], curve.value[place], curve.high[place]
        value_text, interval = interval_words(value, low, high)
        drawn = picture(value, low, high, span=(0.0, 1.0))
        table.add_row(f"{curve.points[place]:.5g}", value_text, escape(interval), drawn)
    console.print(table, highlight=False)


def show_together(
    console: Console, guard: Guard, answers: Sequence[Answer], answered_before: Sequence[bool]
) -> None:
    """Show answers to questions that were asked together; ``answered_before`` says which were free."""
    for place, (answer, before) in enumerate(zip(answers, answered_before, strict=False)):
        repeated = any(answer is earlier for earlier in answers[:place])
        _show_answer(console, answer, _cost(answer, free=before or repeated))
        if getattr(answer.query, "kind", "") == "cdf":
            show_curve(console, guard.curve(answer.query))


def _cost(answer: Answer, *, free: bool) -> str:
    return "asked before, free" if free else f"cost {amount(answer.cost, answer.unit)}"


def _show_answer(console: Console, answer: Answer, cost: str) -> None:
    """Show one answer: value, interval, picture, whether it was as guessed, and its cost."""
    value, interval = interval_words(answer.value, answer.low, answer.high)
    console.print(Text(short(answer.query)), style="bold")
    console.print(Text.assemble("  ", (value, "bold green"), "  in  ", (interval, "cyan")))
    guess = None if answer.confirmed else answer.guess
    _draw(console, answer.query, answer.value, answer.low, answer.high, guess)
    style = "" if answer.confirmed else "yellow"
    console.print(Text.assemble("  ", (_outcome(answer), style), f" · {cost}"))
    for note in answer.notes:
        console.print(Text(f"  {note}", style="dim"))


def _outcome(answer: Answer) -> str:
    if math.isnan(answer.guess):
        return "no guess"
    if answer.confirmed:
        return "as guessed" if answer.value == answer.guess else f"near the guess {answer.guess:.4g}"
    if answer.value == answer.guess:
        return "a surprise: as guessed, but wider than expected"
    return f"a surprise: the protected rows disagree with the guess {answer.guess:.4g}"


def show_preview(console: Console, preview: Preview) -> None:
    """Show what a question would cost, and its interval if the guess is confirmed."""
    console.print(Text(short(preview.query)), style="bold")
    if preview.known:
        console.print("  answered before: asking again is free")
    elif not preview.allowed:
        console.print(f"  would be refused: {preview.why}", style="yellow", markup=False)
    elif math.isnan(preview.guess):
        console.print(f"  {preview.width_alone}, cost {preview.prices}", highlight=False)
    else:
        value, interval = interval_words(preview.guess, preview.low, preview.high)
        console.print(Text.assemble("  guess ", (value, "bold"), "; if confirmed, ", (interval, "cyan")))
        _draw(console, preview.query, preview.guess, preview.low, preview.high, None)
        console.print(f"  cost {preview.prices}", highlight=False)
    if preview.allowed and preview.why:
        console.print(f"  {preview.why}", style="dim", markup=False)
    if preview.failure_closes:
        console.print("  If it fails on the protected rows, the account is closed.", style="yellow")


def _draw(console: Console, query: Any, value: float, low: float, high: float, guess: float | None) -> None:
    places = (value, low, high) if guess is None else (value, low, high, guess)
    span = span_of(getattr(query, "kind", ""), getattr(query, "bounds", None), *places)
    if span is not None:
        line = picture(value, low, high, span=span, mark=guess)
        console.print(Text.assemble(f"  {span[0]:.5g} ", line, f" {span[1]:.5g}"))


def show_left(console: Console, guard: Guard) -> None:
    """Show what was spent and what is left."""
    used = f"{amount(guard.spent, guard.unit)} used."
    console.print(Text.assemble((used, "bold"), f" {left_words(guard.left)}"), style="dim")


def left_words(left: Left) -> str:
    """What is left: a bar where there is a limit, and the words of the account."""
    if math.isinf(left):
        return left.words
    number = f"{amount(left, left.unit)}, " if left.unit == "nats" else ""
    return f"Left: {meter(left.fraction, 12)} {number}{left.words}"


def show_history(console: Console, answers: Sequence[Answer]) -> None:
    """Show every answer of the account, one on each line."""
    if not answers:
        console.print("Nothing has been asked yet.")
        return
    unit = answers[0].unit
    table = Table("", "question", "answer", "interval", "outcome", unit, box=None, pad_edge=False)
    for number, answer in enumerate(answers, start=1):
        value, interval = interval_words(answer.value, answer.low, answer.high)
        outcome = _outcome(answer).partition(": ")[0].removeprefix("a ")
        table.add_row(
            str(number), escape(short(answer.query)), value, escape(interval), outcome, f"{answer.cost:.3g}"
        )
    console.print(table, highlight=False)


def show_columns(console: Console, guard: Guard) -> None:
    """Show the columns, and what the training rows have in them."""
    frame = guard.train
    table = Table("column", "kind", box=None, pad_edge=False)
    if frame is not None:
        table.add_column("in the training rows", overflow="fold")
    for name, column in guard.schema.items():
        training_cell = [] if frame is None else [escape(_column_words(frame[name], column.kind))]
        table.add_row(escape(name), column.kind, *training_cell)
    console.print(table, highlight=False)


def show_train(console: Console, guard: Guard) -> None:
    """Show the first training rows, with as many columns as fit."""
    frame = guard.train
    if frame is None:
        console.print("There are no training rows. Give a guess with each question, as in guess = 0.5.")
        return
    first_rows = frame.head(8)
    console.print(f"{len(frame):,} training rows, free to look at. The first {len(first_rows)}:", style="dim")
    text = first_rows.to_string(index=False, line_width=max(20, console.width - 1))
    console.print(Text(text, no_wrap=True, overflow="crop"))


def _column_words(values: Any, kind: str) -> str:
    missing = float(values.isna().mean())
    present = values.dropna()
    if len(present) == 0:
        words = "no values"
    elif kind == "number":
        words = f"{present.min():.5g} to {present.max():.5g}, median {present.median():.5g}"
    else:
        counts = present.astype(str).value_counts().head(5)
        words = ", ".join(f"{value} {count / len(values):.0%}" for value, count in counts.items())
    return words + (f"; {missing:.0%} missing" if missing else "")
