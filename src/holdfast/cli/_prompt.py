"""The prompt of ``holdfast ask``: its commands, history, completion, and a meter of what is left."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from rich.console import Console

from holdfast import queries
from holdfast.cli import _output
from holdfast.errors import HoldfastError
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.guard import Guard


_ABOUT = {
    "share": "share(condition)                 the share of rows for which it is true",
    "mean": "mean(expression, lo, hi)         the mean, values outside [lo, hi] clipped",
    "quantile": "quantile(expression, q)          the value below which a share q lies",
    "median": "median(expression)               the value below which half lies",
    "ratio": "ratio(u, v, lo, hi, lo, hi)      the mean of u divided by the mean of v",
    "difference": "difference(x, a, b, lo, hi)      the mean where a holds minus the mean where b holds",
    "lift": "lift(x, a, b, lo, hi)            the difference divided by the mean where b holds",
    "variance": "variance(x, lo, hi)              how far values spread, squared",
    "std": "std(x, lo, hi)                   how far values spread",
    "covariance": "covariance(x, y, lo, hi, lo, hi) how two values vary together",
    "correlation": "correlation(x, y, lo, hi, lo, hi) the same, from -1 to 1",
    "slope": "slope(y, x, lo, hi, lo, hi)      how much y grows with one unit of x",
    "cdf": "cdf(x)                           the whole distribution",
    "histogram": "histogram(x, 10)                 the share in each of 10 bins; or give edges: 0, 10, 20",
}
FORMS = {f"{name}(": _ABOUT[name] for name in queries.FORMS}
OPTIONS = {
    "where = ": "where = condition                only the rows for which it is true",
    "nulls = ": "nulls = skip, true, false, 0 …   what a missing value counts as",
    "by = ": "by = column                      one answer for each of its values",
    "bounds = ": "bounds = train                   bounds from the training rows",
    "weights = ": "weights = expression             the weights of a mean",
    "guess = ": "guess = number                   your own guess; else the training rows give it",
}
COMMANDS = {
    "help": "this list",
    "columns": "the columns, with what the training rows have in them",
    "left": "what was spent and what is left",
    "history": "every answer of the account",
    "certificate": "the promise, and what it assumes",
    "preview": "preview QUESTION: what it would cost, without asking",
    "train": "the first training rows",
    "plot": "plot FILE.png: a picture of the account",
    "quit": "leave; the account is kept (Ctrl-D does the same)",
}
_WITHIN = (
    *("and", "or", "not", "between", "in (", "is null", "is not null", "like '", "case when"),
    *("abs(", "coalesce(", "exp(", "floor(", "greatest(", "least(", "length(", "ln(", "lower("),
    *("power(", "round(", "sqrt(", "upper(", "year(", "month(", "day(", "hour(", "isodow("),
)
_WORD = re.compile(r'"[^"]*\Z|\w*\Z')


class Suggestions(Completer):
    """Commands and kinds of question at the start of a line; columns, options and functions within one."""

    def __init__(self, columns: Iterable[str]) -> None:
        quoted_names = ('"' + name.replace('"', '""') + '"' for name in columns)
        self._columns = tuple(queries.Expression.read(name).text for name in quoted_names)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Everything that continues the word before the cursor."""
        line = document.text_before_cursor
        match = _WORD.search(line)
        word = match.group() if match else ""
        for suggestion in self._suggestions(line[: len(line) - len(word)].strip()):
            if suggestion.lower().lstrip('"').startswith(word.lower().lstrip('"')):
                yield Completion(suggestion, start_position=-len(word))

    def _suggestions(self, before: str) -> tuple[str, ...]:
        if not before:
            return (*FORMS, *COMMANDS)
        if before.lower() == "preview":
            return tuple(FORMS)
        if "(" not in before:
            return ()
        return (*self._columns, *(OPTIONS if before.endswith(",") else ()), *_WITHIN)


PROMPT = "holdfast> "


def converse(guard: Guard, *, data: str, ledger: Path | None) -> None:
    """Read questions and commands from the terminal until the user leaves."""
    console = Console(highlight=False)
    conversation = Conversation(guard, console)
    _greet(console, guard, data, ledger)
    session: PromptSession[str] = PromptSession(
        history=InMemoryHistory([str(answer.query) for answer in guard.history]),
        completer=Suggestions(guard.schema),
        complete_while_typing=False,
        bottom_toolbar=lambda: conversation.meter,
    )
    while True:
        try:
            if not conversation.handle(session.prompt(PROMPT)):
                break
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
    farewell = (
        f"The account is kept in {ledger}." if ledger else "The account was kept in memory and is gone."
    )
    console.print(farewell, style="dim", markup=False)


def _greet(console: Console, guard: Guard, data: str, ledger: Path | None) -> None:
    training = guard.certificate.numbers["training rows"]
    console.print(
        f"{data}: {guard.rows:,} protected rows, {training:,} for training", style="bold", markup=False
    )
    if guard.history:
        console.print(f"Continuing the account in {ledger}.", markup=False)
    _output.show_left(console, guard)
    console.print("Ask, for example share(x > 1), or type help; Tab completes, Ctrl-D leaves.")


class Conversation:
    """A session at the prompt. It executes each line, and continues after errors."""

    def __init__(self, guard: Guard, console: Console) -> None:
        self._guard = guard
        self._console = console
        self.meter = _meter(guard)

    def handle(self, line: str) -> bool:
        """Execute one line. Returns False if it ends the session."""
        word, _, argument = line.strip().partition(" ")
        if word.lower() in ("quit", "exit"):
            return False
        try:
            if word.lower() in COMMANDS:
                self._execute(word.lower(), argument.strip())
            elif word:
                _output.ask_and_show(self._console, self._guard, line)
        except (HoldfastError, OSError) as error:
            self._console.print(str(error), style="red", markup=False)
        self.meter = _meter(self._guard)
        return True

    def _execute(self, command: str, argument: str) -> None:
        console, guard = self._console, self._guard
        match command:
            case "help":
                _help(console)
            case "columns":
                _output.show_columns(console, guard)
            case "left":
                _output.show_left(console, guard)
            case "history":
                _output.show_history(console, guard.history)
            case "certificate":
                console.print(str(guard.certificate), markup=False)
            case "train":
                _output.show_train(console, guard)
            case "preview" if argument:
                _output.show_preview(console, guard.cost_preview(argument))
            case "plot" if argument:
                _plot(console, guard, Path(argument))
            case _:
                console.print(COMMANDS[command], markup=False)


def _meter(guard: Guard) -> str:
    """The line under the prompt."""
    questions, left = guard.certificate.numbers["questions"], guard.left
    words = left.words.partition(". ")[0] if math.isinf(left) else _output.left_words(left)
    return f" {questions} asked · {amount(guard.spent, guard.unit)} used · {words}"


def _help(console: Console) -> None:
    console.print("Ask", style="bold")
    for words in (*FORMS.values(), *OPTIONS.values()):
        console.print(f"  {words}", markup=False)
    console.print("Commands", style="bold")
    for name, words in COMMANDS.items():
        console.print(f"  {name:<12} {words}", markup=False)


def _plot(console: Console, guard: Guard, path: Path) -> None:
    figure: Any = guard.plot()
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        console.print(str(error), style="red", markup=False)
    else:
        console.print(f"The picture is in {path}.", markup=False)
