"""Answers, previews and the account, for a person at a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holdfast.cli._figures import interval_words, meter, picture, span_of

if TYPE_CHECKING:
    from holdfast.guard import Answer, Guard, Preview

_LONGEST = 100


def short(question: object) -> str:
    """A question in no more characters than a line has."""
    text = str(question)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def ask_and_show(console: Console, guard: Guard, question: str) -> None:
    """Ask one question and show what came of it."""
    known = len(guard.history)
    answer = guard.ask(question)
    cost = "asked before, free" if len(guard.history) == known else f"cost {answer.cost:.3g} nats"
    left = "" if math.isinf(guard.left) else f" · {float(guard.left):.3g} left"
    _show_answer(console, answer, cost + left)


def _show_answer(console: Console, answer: Answer, cost: str) -> None:
    """One answer: value, interval, its picture, whether it was as guessed, what it cost."""
    value, interval = interval_words(answer.value, answer.low, answer.high)
    console.print(Text(short(answer.query)), style="bold")
    console.print(Text.assemble("  ", (value, "bold green"), "  in  ", (interval, "cyan")))
    guess = None if answer.confirmed else answer.guess
    _draw(console, answer.query, answer.value, answer.low, answer.high, guess)
    found = "as guessed" if answer.confirmed else f"a surprise: the guess was {answer.guess:.4g}"
    style = "" if answer.confirmed else "yellow"
    console.print(Text.assemble("  ", (found, style), f" · {cost}"))
    for note in answer.notes:
        console.print(Text(f"  {note}", style="dim"))


def show_preview(console: Console, preview: Preview) -> None:
    """What a question would cost and show, without asking it."""
    console.print(Text(short(preview.query)), style="bold")
    if preview.known:
        console.print("  answered before: asking again is free")
    elif not preview.allowed:
        console.print("  would be refused: the promised error leaves no room for it", style="yellow")
    else:
        value, interval = interval_words(preview.guess, preview.low, preview.high)
        console.print(Text.assemble("  guess ", (value, "bold"), "; if confirmed, ", (interval, "cyan")))
        _draw(console, preview.query, preview.guess, preview.low, preview.high, None)
        console.print(
            f"  cost {preview.if_confirmed:.3g} nats if confirmed, {preview.if_surprised:.3g} for the "
            f"nearest surprise, at most {preview.at_most:.3g}",
            highlight=False,
        )


def _draw(console: Console, query: Any, value: float, low: float, high: float, guess: float | None) -> None:
    places = (value, low, high) if guess is None else (value, low, high, guess)
    span = span_of(getattr(query, "kind", ""), getattr(query, "bounds", None), *places)
    if span is not None:
        line = picture(value, low, high, span=span, mark=guess)
        console.print(Text.assemble(f"  {span[0]:.5g} ", line, f" {span[1]:.5g}"))


def show_left(console: Console, guard: Guard) -> None:
    """What was spent and what is left."""
    console.print(
        Text.assemble((f"spent {guard.spent:.3g} nats", "bold"), f" · {left_words(guard)}"), style="dim"
    )


def left_words(guard: Guard) -> str:
    """What is left: a bar where an error was promised, and the words of the account."""
    left = guard.left
    if math.isinf(left):
        return left.words
    share = float(left) / (float(left) + guard.spent) if left > 0 else 0.0
    return f"left {meter(share, 12)} {float(left):.3g} nats, {left.words}"


def show_history(console: Console, answers: Sequence[Answer]) -> None:
    """Every answer of the account, one a line."""
    if not answers:
        console.print("Nothing has been asked yet.")
        return
    table = Table("", "question", "answer", "interval", "found", "nats", box=None, pad_edge=False)
    for number, answer in enumerate(answers, start=1):
        value, interval = interval_words(answer.value, answer.low, answer.high)
        found = "as guessed" if answer.confirmed else "surprise"
        table.add_row(
            str(number), escape(short(answer.query)), value, escape(interval), found, f"{answer.cost:.3g}"
        )
    console.print(table, highlight=False)


def show_columns(console: Console, guard: Guard) -> None:
    """The columns, and what the training part shows of them, which is free to look at."""
    frame = guard.train
    table = Table("column", "kind", box=None, pad_edge=False)
    if frame is not None:
        table.add_column("in the training part", overflow="fold")
    for name, column in guard.schema.items():
        seen = [] if frame is None else [escape(_seen(frame[name], column.kind))]
        table.add_row(escape(name), column.kind, *seen)
    console.print(table, highlight=False)


def show_train(console: Console, guard: Guard, rows: int = 8) -> None:
    """The first rows of the training part, as many columns as fit."""
    frame = guard.train
    if frame is None:
        console.print("There is no training part; bring guesses with the questions, as in guess = 0.5.")
        return
    console.print(
        f"{len(frame):,} training rows, free to look at; the first {min(rows, len(frame))}:", style="dim"
    )
    text = frame.head(rows).to_string(index=False, line_width=max(20, console.width - 1))
    console.print(Text(text, no_wrap=True, overflow="crop"))


def _seen(values: Any, kind: str) -> str:
    missing = float(values.isna().mean())
    known = values.dropna()
    if len(known) == 0:
        said = "no values"
    elif kind == "number":
        said = f"{known.min():.5g} to {known.max():.5g}, median {known.median():.5g}"
    else:
        counts = known.astype(str).value_counts().head(5)
        said = ", ".join(f"{value} {count / len(values):.0%}" for value, count in counts.items())
    return said + (f"; {missing:.0%} missing" if missing else "")
