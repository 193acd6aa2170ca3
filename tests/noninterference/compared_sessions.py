"""What is done with a table: each session looks at everything that one surface shows.

Tables are made inside the session, because some libraries keep a register of all values that are alive in the
process (polars its categories).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from observe import Look
from pairs import SEED

from holdfast import Guard, ledger

Session = Callable[[Look], None]
BOOK = "account.holdfast"
_SHOWN = ("spent", "left", "closed", "history", "certificate", "rows", "schema", "best", "standing", "ids")

# Calls that are mistakes, whatever the rows are.
BAD_CALLS: dict[str, Callable[[Guard], Any]] = {
    "no such column": lambda guard: guard.share("height > 3"),
    "no such function": lambda guard: guard.share("secret(x) > 3"),
    "not a condition": lambda guard: guard.ask("share(x +)"),
    "bounds the wrong way": lambda guard: guard.mean("x", bounds=(9, 0)),
    "no level": lambda guard: guard.quantile("x", 2.0),
    "no such target": lambda guard: guard.score([0, 1], target="z"),
    "too few predictions": lambda guard: guard.score([0, 1], target="y"),
    "no function": lambda guard: guard.custom(3, tail=None),
    "no question": lambda guard: guard.ask(3),
    "other kinds": lambda guard: guard.share("x = 'a'"),
}


def table_session(make: Callable[[], Any], questions: tuple[str, ...] = (), **options: Any) -> Session:
    """Open a table, look at its training part and ask some questions in one batch."""

    def session(look: Look) -> None:
        data = make()
        look.callers.append(data)
        guard = look.must("guard", Guard, data, split_seed=SEED, ledger=BOOK, **options)
        look("train", getattr, guard, "train")
        look("training rows", guard.training_rows)
        look("schema", lambda: [dict(guard.schema), repr(guard.schema), guard.rows])
        look.must("answers", guard.ask_all, questions)
        guard.close()

    return session


def account_session(make: Callable[[], Any], questions: tuple[str, ...], **options: Any) -> Session:
    """Ask one question after another, and look at the account."""

    def session(look: Look) -> None:
        data = make()
        look.callers.append(data)
        guard = look.must("guard", Guard, data, split_seed=SEED, ledger=BOOK, **options)
        for question in questions:
            look(f"preview {question}", guard.cost_preview, question)
            look(question, guard.ask, question)
        show(look, guard)
        guard.close()

    return session


def guard_session(make: Callable[[], Any], questions: tuple[str, ...], **options: Any) -> Session:
    """A session of an analyst with a guard: everything that a guard shows, before, between and after its
    answers, and what an auditor gets."""

    def session(look: Look) -> None:
        data = make()
        look.callers.append(data)
        guard = look.must("guard", Guard, data, split_seed=SEED, ledger=BOOK, **options)
        look("train", getattr, guard, "train")
        for question in questions:
            look(f"preview {question}", guard.cost_preview, question)
            look(question, guard.ask, question)
            look(f"preview after {question}", guard.cost_preview, question)
        for name, call in BAD_CALLS.items():
            look(name, call, guard)
        show(look, guard)
        look("history page", guard.history_page, 0, 3)
        look("plot", lambda: drawn(guard.plot()))
        guard.close()
        look("export", _exported, BOOK)
        again = look.must("opened again", Guard, data, split_seed=SEED, ledger=BOOK, **options)
        look("history again", getattr, again, "history")
        look("on other terms", Guard, data, split_seed=SEED, ledger=BOOK, confidence=0.9)
        look("closed for good", again.close_account)
        look("asked after that", again.share, "x > 8")
        again.close()

    return session


def show(look: Look, guard: Any) -> None:
    """What a guard or a holdout shows of its account."""
    for name in _SHOWN:
        if hasattr(type(guard), name):
            look(name, getattr, guard, name)
    look("repr", repr, guard)


def drawn(figure: Any) -> list[Any]:
    """The data and the words of a figure."""
    parts: list[Any] = []
    for axis in figure.axes:
        parts.append([axis.get_title(), axis.get_xlabel(), axis.get_ylabel()])
        parts += [line.get_xydata() for line in axis.lines]
        parts += [collection.get_offsets().data for collection in axis.collections]
    return parts


def _exported(path: str) -> str:
    """The export of a book, as an auditor gets it; it is left behind as a file."""
    book = ledger.Book(path)
    try:
        ledger.export(book, "export.jsonl")
        return str(ledger.verify("export.jsonl"))
    finally:
        book.close()
