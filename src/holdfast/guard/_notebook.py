"""How an account looks in a notebook: a heading, what is left, and a table of the latest answers."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.guard._answer import Answer
from holdfast.records import amount, framed_html, html_table, interval_words

if TYPE_CHECKING:
    from holdfast.guard._guard import Guard

# A long history is shown from its end; guard.history has the rest.
_LATEST = 20


class History(tuple[Answer, ...]):
    """Answers in order: a tuple that a notebook shows as a table.

    >>> History()
    ()
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        return framed_html(answers_html(self))


def answers_html(answers: Iterable[Answer], first: int = 1) -> str:
    """A table: number, question, value, interval, how it came about, cost."""
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


def guard_html(guard: Guard) -> str:
    """The account of a guard: how many rows, what is left, the latest answers. Reads no rows."""
    answers = guard.history
    training = guard.certificate.numbers.get("training rows", 0)
    earlier = max(0, len(answers) - _LATEST)
    more = f"<p>{earlier:,} earlier answers are in <code>guard.history</code>.</p>" if earlier else ""
    table = (
        answers_html(answers[earlier:], first=earlier + 1) if answers else "<p>No question was asked yet.</p>"
    )
    return framed_html(
        f"<p><b>Guard</b>: {guard.rows:,} protected rows, {training:,} training rows, "
        f"{amount(guard.spent, guard.unit)} spent.</p>",
        guard.left._as_html(),
        more,
        table,
    )
