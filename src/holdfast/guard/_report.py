"""The report: a short list of questions, read exactly, that closes the account.

Every earlier answer was rounded to cells, because later questions could depend on it. Nobody asks after a
report, so its values are exact. They share all the error probability that is left. The order makes it valid:
the account is closed, and the questions are in the book, before a row is read. Proof:
``docs/theory/code-guard.md``, "The report".
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from holdfast.answers import Answer, Certificate
from holdfast.asking import Asker, Failed, Released, Session, read_protected, with_sums
from holdfast.coding import Account
from holdfast.errors import MissingExtra, QueryRejected
from holdfast.guard._opening import Opened
from holdfast.intervals import Interval
from holdfast.ledger import Closed, Receipt
from holdfast.readings import Measured, Part, Question, clipping_of, require_values_inside
from holdfast.records import Record, amount, framed_html, html_table, interval_words
from holdfast.strategies import CodeStrategy

if TYPE_CHECKING:
    import pandas


FIXED, REPORTED = "report", "report answers"
_OTHER = (
    "The report of this account was fixed before, with other questions: {}. A report is given once. Call "
    "guard.report with these questions to get it again."
)
_CLOSED = "The account is closed, so it cannot give a report any more."


def _answer_from(values: Mapping[str, Any] | None) -> Answer | None:
    return None if values is None else Answer.from_dict(values)


@dataclass(frozen=True, repr=False)
class Report(Record):
    """The report that closes an account: exact values, valid together with all earlier answers.

    ``answers`` are in the order of the ``questions``; a question that could not be computed on the protected
    rows has None. ``text`` says in words what was done and can be cited. ``certificate`` says what the
    intervals rest on. ``receipt`` shows that the account's book has this report, where the book is signed.

    >>> from holdfast import Guard
    >>> table = {"x": [n % 2 for n in range(4_000)]}
    >>> report = Guard(table, training_share=0).report(["share(x = 1)"])
    >>> report.answers[0].value, round(report.answers[0].half_width, 3)
    (0.5, 0.016)
    """

    answers: tuple[Answer | None, ...] = field(repr=False)
    questions: tuple[str, ...]
    text: str
    certificate: Certificate = field(repr=False)
    receipt: Receipt | None = field(default=None, repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """The table: a question, its value and its interval in each row."""
        return [
            {
                "question": question,
                "value": None if answer is None else answer.value,
                "low": None if answer is None else answer.low,
                "high": None if answer is None else answer.high,
                "half_width": None if answer is None else answer.half_width,
            }
            for question, answer in zip(self.questions, self.answers, strict=True)
        ]

    def to_frame(self) -> pandas.DataFrame:
        """The table as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", what="report.to_frame()") from None
        return pandas.DataFrame(self.rows())

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "text": self.text,
            "questions": list(self.questions),
            "answers": [None if answer is None else answer.to_dict() for answer in self.answers],
            "certificate": self.certificate.to_dict(),
            "receipt": None if self.receipt is None else self.receipt.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Report:
        """The report that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        receipt = values.get("receipt")
        return cls._from_plain(
            values,
            answers=tuple(map(_answer_from, values["answers"])),
            certificate=Certificate.from_dict(values["certificate"]),
            receipt=None if receipt is None else Receipt.from_dict(receipt),
        )

    def to_markdown(self) -> str:
        """The table and the text, for a paper or a pull request."""
        lines = ["| question | value | interval |", "|---|---|---|"]
        lines += [f"| `{question}` | {value} | {interval} |" for question, value, interval in self._shown()]
        return "\n".join([*lines, "", self.text])

    def __str__(self) -> str:
        shown = self._shown()
        widths = [max(len(cells[column]) for cells in shown) for column in range(3)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
            for cells in shown
        ]
        return "\n".join([*lines, "", self.text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = (
            (f"<code>{html.escape(question)}</code>", f"<b>{value}</b>", interval)
            for question, value, interval in self._shown()
        )
        table = html_table(("question", "value", "interval"), rows)
        return framed_html(table, f"<p>{html.escape(self.text)}</p>")

    def _shown(self) -> list[tuple[str, str, str]]:
        return [
            (question, "could not be computed", "")
            if answer is None
            else (question, *interval_words(answer.value, answer.low, answer.high))
            for question, answer in zip(self.questions, self.answers, strict=True)
        ]


def fix_report(
    session: Session, strategy: CodeStrategy, questions: Sequence[Question], asker: Asker
) -> dict[str, Any]:
    """Close the account and write down the questions of its report, in one step. Returns what was written
    before, if it is the same report."""
    texts = [question.text for question in questions]
    strategy.look(questions)

    def body(account: Account) -> dict[str, Any]:
        nats = account.last_nats(len(questions))
        for question in questions:  # A question that cannot be asked is refused before the account is closed.
            strategy.exact(question, nats)
            require_values_inside(question, strategy.training)
        return {
            "questions": texts,
            "nats": nats,
            "asked": account.steps,
            "micro_nats": account.micro_nats,
            **({"by": asker.name} if asker.name else {}),
        }

    fixed = session.close_for_report(FIXED, body, permit=asker.permit)
    if fixed is None:
        raise Closed(_CLOSED)
    if fixed["questions"] != texts:
        raise QueryRejected(_OTHER.format("; ".join(fixed["questions"])))
    return fixed


def read_report(
    session: Session,
    strategy: CodeStrategy,
    questions: Sequence[Question],
    part: Part,
    fixed: dict[str, Any],
) -> None:
    """Read the rows for the questions of a fixed report, and write all answers into one line of the book. A
    later call returns that line."""
    part = with_sums(part, questions)
    answers = [
        _exact_answer(strategy, question, part, fixed, place) for place, question in enumerate(questions, 1)
    ]
    session.record("act", {"answers": answers}, REPORTED)


def _exact_answer(
    strategy: CodeStrategy, question: Question, part: Part, fixed: dict[str, Any], place: int
) -> dict[str, Any] | None:
    reading = strategy.exact(question, fixed["nats"])
    measured = read_protected(
        lambda: reading.measured(part) or Measured(math.nan, Interval(question.low, question.high)),
        Measured,
        silent=question.in_process,
    )
    if isinstance(measured, Failed) or not math.isfinite(measured.estimate):
        return None
    inside = measured.interval
    low, high = inside.low - question.resolution, inside.high + question.resolution
    return replace(question, guess=None).released(
        value=min(max(measured.estimate, question.low), question.high),
        interval=Interval(max(question.low, low), min(question.high, high)),
        guess=None,
        confirmed=True,
        theorem=reading.theorem,
        more=_clipped(strategy, question, part),
        numbers={
            "place in the report": place,
            "questions in the report": len(fixed["questions"]),
            "questions asked before": fixed["asked"],
            "nats spent before": fixed["micro_nats"] / 1e6,
            "nats of this interval": fixed["nats"],
        },
    )


def _clipped(strategy: CodeStrategy, question: Question, part: Part) -> tuple[str, ...]:
    """The note if more values were clipped than the training part predicts. Nobody asks after it, so it is
    free."""
    clipping = clipping_of(question, strategy.training)
    if clipping is None:
        return ()
    beyond = read_protected(lambda: clipping.beyond(part), bool)
    return (clipping.note(part.rows.count),) if beyond is True else ()


def give_report(account: Opened, strategy: CodeStrategy, questions: Sequence[Question], asker: Asker) -> bool:
    """Close an account with a report on these questions, each once. Returns False if the same report was
    given before. Another report is refused."""
    different = list({question.key: question for question in questions}.values())
    session, protected = account.session, account.setup.protected
    with session.turn():
        protected.rows.require_unchanged()
        session.read()
        fixed = fix_report(session, strategy, different, asker)
        new = session.act_about(REPORTED) is None
        if new:
            read_report(session, strategy, different, protected, fixed)
    return new


def recorded_report(account: Opened) -> Report | None:
    """The report that an account's book has; None if it has none."""
    session, records, setup = account.session, account.records, account.setup
    session.read()
    fixed, reported = session.act_about(FIXED), session.act_about(REPORTED)
    if fixed is None or reported is None:
        return None
    line, body, receipt = reported
    texts = tuple(fixed[1]["questions"])
    return Report(
        answers=tuple(
            None if answer is None else records.answer(Released("", text, 0, answer, receipt))
            for text, answer in zip(texts, body["answers"], strict=True)
        ),
        questions=texts,
        text=citable(
            questions=len(texts),
            rows=setup.protected.rows.count,
            training=setup.facts["training_rows"],
            fixed=fixed[1],
            confidence=account.terms.confidence,
            promise=account.terms.promise,
            book=account.book.identity,
            line=line,
        ),
        certificate=records.certificate({"nats of each interval": fixed[1]["nats"]}),
        receipt=receipt,
    )


def citable(
    *,
    questions: int,
    rows: int,
    training: int,
    fixed: dict[str, Any],
    confidence: float,
    promise: str,
    book: str,
    line: int,
) -> str:
    """What was done, in words that can be cited."""
    explored = f" ({training:,} more were explored freely)" if training else ""
    earlier = "Nothing had been asked before"
    if fixed["asked"]:
        spent = f"{fixed['micro_nats'] / 1e6:.3g} nats"
        earlier = f"{amount(fixed['asked'], 'questions')} had been answered before, at {spent}"
    promised = (
        f"With probability {confidence:.6g} all of these intervals hold, together with those of all earlier "
        "answers."
        if promise == "all"
        else f"Each of these intervals holds with probability {confidence:.6g}."
    )
    return (
        f"{amount(questions, 'questions')} on {rows:,} protected rows{explored}, fixed before the rows were "
        f"read. {earlier}. {promised} The account was closed by this report: Holdfast account book "
        f"{book[:16]}, line {line}."
    )
