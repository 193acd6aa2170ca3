"""The prompt of ``holdfast ask``: history, completion, and a meter of what is left."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.history import InMemoryHistory
from rich.console import Console

from holdfast.cli import _show
from holdfast.cli._suggest import COMMANDS, FORMS, OPTIONS, Suggestions
from holdfast.errors import HoldfastError
from holdfast.records import amount

if TYPE_CHECKING:
    from holdfast.guard import Guard

PROMPT = "holdfast> "


def converse(guard: Guard, *, data: str, ledger: Path | None, console: Console | None = None) -> None:
    """Read questions and commands from the terminal until the person leaves."""
    shown = Console(highlight=False) if console is None else console
    conversation = Conversation(guard, shown)
    _greet(shown, guard, data, ledger)
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
    kept = f"The account is kept in {ledger}." if ledger else "The account was kept in memory and is gone."
    shown.print(kept, style="dim", markup=False)


def _greet(console: Console, guard: Guard, data: str, ledger: Path | None) -> None:
    training = guard.certificate.numbers["training rows"]
    console.print(
        f"{data}: {guard.rows:,} protected rows, {training:,} for training", style="bold", markup=False
    )
    if guard.history:
        console.print(f"Going on with the account in {ledger}.", markup=False)
    _show.show_left(console, guard)
    console.print("Ask, for example share(x > 1), or type help; Tab completes, Ctrl-D leaves.")


class Conversation:
    """One sitting at the prompt: does what a line says, and goes on whatever happens."""

    def __init__(self, guard: Guard, console: Console) -> None:
        self._guard = guard
        self._console = console
        self.meter = _meter(guard)

    def handle(self, line: str) -> bool:
        """Do what one line says; False when it says to leave."""
        word, _, rest = line.strip().partition(" ")
        if word.lower() in ("quit", "exit"):
            return False
        try:
            if word.lower() in COMMANDS:
                self._obey(word.lower(), rest.strip())
            elif word:
                _show.ask_and_show(self._console, self._guard, line)
        except (HoldfastError, OSError) as error:
            self._console.print(str(error), style="red", markup=False)
        self.meter = _meter(self._guard)
        return True

    def _obey(self, command: str, rest: str) -> None:
        console, guard = self._console, self._guard
        match command:
            case "help":
                _help(console)
            case "columns":
                _show.show_columns(console, guard)
            case "left":
                _show.show_left(console, guard)
            case "history":
                _show.show_history(console, guard.history)
            case "certificate":
                console.print(str(guard.certificate), markup=False)
            case "train":
                _show.show_train(console, guard)
            case "preview" if rest:
                _show.show_preview(console, guard.cost_preview(rest))
            case "plot" if rest:
                _plot(console, guard, Path(rest))
            case _:
                console.print(COMMANDS[command], markup=False)


def _meter(guard: Guard) -> str:
    """The line under the prompt."""
    questions, left = guard.certificate.numbers["questions"], guard.left
    words = left.words.partition(". ")[0] if math.isinf(left) else _show.left_words(left)
    return f" {questions} asked · {amount(guard.spent, guard.unit)} used · {words}"


def _help(console: Console) -> None:
    console.print("Ask", style="bold")
    for words in (*FORMS.values(), *OPTIONS.values()):
        console.print(f"  {words}", markup=False)
    console.print("or say", style="bold")
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
