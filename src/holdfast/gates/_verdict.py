"""What a gate says: a verdict about each candidate, the line of promotions, and the report at the end."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.asking import Released
from holdfast.coding import MICRO
from holdfast.errors import MissingExtra
from holdfast.gates._tasks import Candidate, Floats, GateDefinition, stored_content
from holdfast.ledger import Book, BookError, Receipt
from holdfast.records import Record, amount, framed_html, html_table, interval_words
from holdfast.typing import VersionScore

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Version(Record):
    """One step on the line of promotions.

    Guarantee: that of the gate. ``margin`` is how much better than the version before it is shown to be.
    Under "family" margins add, and ``total`` is how much better than the first incumbent it is shown to be.
    Under "fdr" some margins may be wrong, and ``total`` is only their sum.

    Args:
        name: what the candidate was called; for the first version, what the incumbent was called.
        margin: the certified gain over the version before it; 0 for the first.
        total: the sum of the margins up to this version.
        place: which submission it was, from 1; 0 for the first incumbent.
    """

    name: str
    margin: float
    total: float
    place: int


@dataclass(frozen=True, repr=False)
class Verdict(Record):
    """What a gate says about one candidate. Nothing else about its scores leaves the gate.

    Guarantee: that of the gate, which ``text`` repeats; ``assumed`` is what must be true for it.

    Args:
        promoted: whether the candidate is shown to be better, and is the incumbent from now on.
        margin: by how much at least, compared with ``incumbent``; 0 where it is not promoted.
        low: the certified lower bound on the gain: the margin, or −1 where nothing is shown.
        cost: nats that this verdict took from the account.
        name: what the candidate is called.
        incumbent: what it was compared with.
        place: which submission it was, from 1.
        level: the error probability of the test, as ln(1/δ).
        repeated: whether this verdict was given before and is only repeated; that costs nothing.
        refused: whether the candidate was turned away free of charge, because its outputs differ from the
            incumbent's on too few tasks. Its scores were not looked at.
        text: the verdict in words.
        assumed: what must be true and cannot be checked.
        receipt: shows that the book has this verdict, where the book is signed.
    """

    promoted: bool
    margin: float
    low: float
    cost: float
    name: str
    incumbent: str
    place: int
    level: float
    repeated: bool = False
    refused: bool = False
    text: str = ""
    assumed: tuple[str, ...] = field(default=(), repr=False)
    receipt: Receipt | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        return self.promoted

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values, with its assumptions and its receipt."""
        receipt = None if self.receipt is None else self.receipt.to_dict()
        return {**super().to_dict(), "assumed": list(self.assumed), "receipt": receipt}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verdict:
        """The verdict that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        receipt = values.get("receipt")
        return cls._from_plain(values, receipt=None if receipt is None else Receipt.from_dict(receipt))

    def to_markdown(self) -> str:
        """The verdict as a summary for a pull request."""
        head = "Promoted" if self.promoted else "Refused" if self.refused else "Not shown to be better"
        rows = [
            ("candidate", _code_span(self.name)),
            ("incumbent", _code_span(self.incumbent)),
            ("better by at least", f"{self.margin:.6g}" if self.promoted else "not shown"),
            ("cost", amount(self.cost, "nats")),
        ]
        table = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
        assumed = ["What must be true:", *(f"- {sentence}" for sentence in self.assumed)]
        return "\n".join([f"### {head}", "", *table, "", _plain_markdown(self.text), "", *assumed, ""])

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.assumed)
        assumed = f"<details><summary>Assumed</summary><ul>{items}</ul></details>"
        return framed_html(f"<p>{html.escape(self.text)}</p>", assumed)


@dataclass(frozen=True, repr=False)
class GateReport(Record):
    """The end of a gate: the exact score of every version, and its exact gain over the first incumbent.

    Guarantee: with the stated probability all intervals hold, together with all promotions where the gate
    promises "family". Nothing can be submitted after a report.

    Args:
        versions: one row for each version: name, score with its interval, gain with its interval.
        text: what was done, in words that can be cited.
        assumed: what must be true and cannot be checked.
        receipt: shows that the book has this report, where the book is signed.
    """

    versions: tuple[VersionScore, ...] = field(repr=False)
    text: str
    assumed: tuple[str, ...] = field(default=(), repr=False)
    receipt: Receipt | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values."""
        return {
            "text": self.text,
            "versions": [dict(version) for version in self.versions],
            "assumed": list(self.assumed),
            "receipt": None if self.receipt is None else self.receipt.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GateReport:
        """The report that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        receipt = values.get("receipt")
        return cls._from_plain(values, receipt=None if receipt is None else Receipt.from_dict(receipt))

    def to_frame(self) -> pandas.DataFrame:
        """The versions as a pandas data frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas", what="report.to_frame()") from None
        return pandas.DataFrame(list(self.versions))

    def to_markdown(self) -> str:
        """The table and the text, for a paper or a pull request."""
        lines = ["| version | score | interval | gain over the first | interval |", "|---|---|---|---|---|"]
        lines += [f"| {_code_span(name)} | {' | '.join(cells)} |" for name, *cells in self._shown()]
        return "\n".join([*lines, "", self.text])

    def __str__(self) -> str:
        table = [("version", "score", "interval", "gain", "interval"), *self._shown()]
        widths = [max(len(row[column]) for row in table) for column in range(5)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        return "\n".join([*lines, "", self.text])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("version", "score", "interval", "gain", "interval")
        rows = ([html.escape(cell) for cell in row] for row in self._shown())
        return framed_html(html_table(heads, rows), f"<p>{html.escape(self.text)}</p>")

    def _shown(self) -> list[tuple[str, str, str, str, str]]:
        return [
            (
                version["name"],
                *interval_words(version["score"], version["score_low"], version["score_high"]),
                *_gain_words(version),
            )
            for version in self.versions
        ]


class Promotions:
    """The promotions of one gate, as its book has them.

    Args:
        book: The account book of the gate.
        definition: What the gate is about.
        incumbent: The digest under which the scores of the first incumbent are kept.
    """

    def __init__(self, book: Book, definition: GateDefinition, incumbent: str) -> None:
        self._book, self._definition = book, definition
        self.versions = [Version(definition.name, 0.0, 0.0, 0)]
        self.declared = 0  # how many times scores were declared as seen
        self._digests = [incumbent]  # under which the scores of each version are kept

    def follow(self) -> None:
        """Apply the promotions and declarations that were written since the last call."""
        while self._book.about(declaration_subject(self.declared), "release") is not None:
            self.declared += 1
        while (event := self._book.about(promotion_subject(len(self.versions)), "act")) is not None:
            margin = self._definition.margin(event.body["steps"])
            total = self.newest.total + margin
            self.versions.append(Version(event.body["name"], margin, total, event.body["place"]))
            self._digests.append(event.body["scores"])

    @property
    def newest(self) -> Version:
        """The version that a candidate has to beat now."""
        return self.versions[-1]

    def newest_scores(self) -> Candidate:
        """The scores of the newest version."""
        return self.scores_of(len(self.versions) - 1)

    def promoted_since(self, versions: int) -> bool:
        """Whether the book has a promotion beyond so many versions."""
        return self._book.about(promotion_subject(versions), "act") is not None

    def scores_of(self, version: int) -> Candidate:
        """The scores of a version, by its place among all of them."""
        return Candidate.from_bytes(stored_content(self._book, self._digests[version]))


def _gain_words(version: VersionScore) -> tuple[str, str]:
    """The gain of a version and its interval in words; empty for the first version, which has none."""
    gain, low, high = version["gain"], version["gain_low"], version["gain_high"]
    return ("", "") if gain is None or low is None or high is None else interval_words(gain, low, high)


def promotion_subject(number: int) -> str:
    """The subject of the book's line about the promotion with this ``number``."""
    return f"promotion {number}"


def declaration_subject(number: int) -> str:
    """The subject of the book's line about scores that were declared as seen, with its ``number`` from 0."""
    return f"seen {number}"


def _code_span(name: str) -> str:
    """A name in a Markdown table. It may come from anyone, so it must not end the span or the cell."""
    return f"`{name.replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _plain_markdown(text: str) -> str:
    """A text that Markdown shows as it is, whatever names are in it."""
    return re.sub(r"([\\`*_\[\]<>|~&#!$@])", r"\\\1", text)


def recorded_verdict(definition: GateDefinition, released: Released) -> Verdict:
    """The verdict that was ``released``, as a line of the book has it, in the words of a gate's
    ``definition``."""
    answer = released.answer
    if answer is None or "promoted" not in answer:
        raise BookError("A line of the account book should contain a verdict, and does not.")
    name, incumbent, promoted = answer["name"], answer["incumbent"], answer["promoted"]
    margin = definition.margin(answer["steps"]) if promoted else 0.0
    return Verdict(
        promoted=promoted,
        margin=margin,
        low=margin if promoted else -1.0,
        cost=released.micro_nats / MICRO,
        name=name,
        incumbent=incumbent,
        place=answer["place"],
        level=answer["nats"],
        text=_verdict_words(definition, name, incumbent, promoted=promoted, margin=margin),
        assumed=assumed(definition, sealed=answer["sealed"]),
        receipt=released.receipt,
    )


def refused_verdict(
    definition: GateDefinition, name: str, incumbent: str, *, differing: int, level: float
) -> Verdict:
    """The refusal of a candidate whose outputs differ on too few tasks; nothing about it is in the book.

    Args:
        definition: What the gate is about.
        name: What the candidate is called.
        incumbent: What it would have been compared with.
        differing: On how many tasks the outputs differ.
        level: The error probability of the test, as ln(1/δ).
    """
    return Verdict(
        promoted=False,
        margin=0.0,
        low=-1.0,
        cost=0.0,
        name=name,
        incumbent=incumbent,
        place=0,
        level=level,
        refused=True,
        text=(
            f"Refused: the outputs of {name!r} differ from those of {incumbent!r} on {differing:,} of "
            f"{len(definition.ids):,} tasks. That is too few to show a gain, whatever the scores are. The "
            "scores were not looked at, and nothing was charged."
        ),
        assumed=assumed(definition, sealed=None),
    )


def report_rows(
    definition: GateDefinition, versions: Sequence[Version], scores: Iterable[Floats], nats: float
) -> list[dict[str, Any]]:
    """The rows of the report: the exact score of each version, and its gain over the first one.

    Args:
        definition: What the gate is about.
        versions: The versions, in the order of their promotions.
        scores: The scores of each of them on all tasks.
        nats: ln(1/δ) of each interval.
    """
    rows: list[dict[str, Any]] = []
    first_scores: Floats | None = None
    for version, values in zip(versions, scores, strict=True):
        score, score_interval = definition.mean(values, nats)
        row: dict[str, Any] = {
            "name": version.name,
            "score": score,
            "score_low": score_interval.low,
            "score_high": score_interval.high,
            "gain": None,
            "gain_low": None,
            "gain_high": None,
        }
        if first_scores is None:
            first_scores = values
        else:
            gain, interval = definition.mean(values - first_scores, nats, lowest=-1.0)
            # Under "family" the margins hold together with these intervals, and so does the better end.
            low = max(interval.low, version.total) if definition.promise == "family" else interval.low
            row |= {"gain": gain, "gain_low": low, "gain_high": interval.high}
        rows.append(row)
    return rows


def _verdict_words(
    definition: GateDefinition, name: str, incumbent: str, *, promoted: bool, margin: float
) -> str:
    """A verdict in words."""
    if promoted:
        better = f"{name!r} is better than {incumbent!r} by more than {margin:.6g}"
        return f"Promoted: {better}. {_promised(definition)}"
    by_more = f" by more than {definition.minimum:g}" if definition.minimum else ""
    return (
        f"Not shown: {name!r} is not shown to be better than {incumbent!r}{by_more}. It may be better; these "
        "tasks cannot tell."
    )


def _promised(definition: GateDefinition) -> str:
    if definition.promise == "family":
        return f"With probability {definition.confidence:.12g} no promotion of this gate is wrong."
    wrong = f"{1 - definition.confidence:.6g}"
    return f"In expectation, at most {wrong} of this gate's promotions are wrong, at every time."


def assumed(definition: GateDefinition, *, sealed: bool | None) -> tuple[str, ...]:
    """What must be true. ``sealed`` is None where nothing was compared."""
    sentences = ["Tasks are independent draws from the population that the verdict is about."]
    if definition.groups is not None:
        whose = "task" if definition.weight == "tasks" else "cluster"
        sentences = [
            "Clusters of tasks are independent of each other. Their sizes are taken as given. The gain is "
            f"that of the average {whose}."
        ]
    sentences.append(
        "The people or programs that make candidates know nothing about the scores on these tasks except "
        "the gate's verdicts."
    )
    if sealed is False:
        sentences.append(
            "The scores passed through the submitter's hands. The promise holds only if nobody used them to "
            "choose: submit every candidate that was scored, not the best of them."
        )
    if definition.inputs == "public":
        sentences.append(
            "The tasks' inputs are public. So the verdict is about these tasks, given their inputs, and not "
            "about new ones."
        )
    else:
        sentences.append("The people or programs that make candidates do not know the tasks' inputs.")
    if definition.binary:
        sentences.append("No score other than 0 and 1 is possible.")
    return tuple(sentences)


def status_words(
    versions: Sequence[Version], submissions: int, needed: float, *, promise: str, closed: bool
) -> str:
    """Where a gate stands, in words."""
    counts = f"{amount(submissions, 'submissions')}, {amount(len(versions) - 1, 'promotions')}."
    holder = f"The incumbent is {versions[-1].name!r}"
    if len(versions) > 1 and promise == "family":
        holder += f", better than {versions[0].name!r} by more than {versions[-1].total:.6g}"
    elif len(versions) > 1:
        holder += f"; the margins since {versions[0].name!r} sum to {versions[-1].total:.6g}"
    if closed:
        next_step = "The gate is closed."
    elif math.isfinite(needed):
        next_step = (
            "A candidate that fixes four tasks for each one that it breaks is promoted if its observed gain "
            f"is at least {needed:.3g}."
        )
    else:
        next_step = (
            "Only a candidate that breaks almost nothing can still be promoted. Consider a new gate on fresh "
            "tasks."
        )
    return f"{counts} {holder}. {next_step}"


def report_words(
    definition: GateDefinition, *, submissions: int, promotions: int, book: str, line: int
) -> str:
    """What was done, in words that can be cited."""
    hold = "all of these intervals hold"
    if definition.promise == "family":
        hold += ", together with all promotions"
    return (
        f"{amount(submissions, 'submissions')} on {len(definition.ids):,} tasks, "
        f"{amount(promotions, 'promotions')}. With probability {definition.confidence:.12g} {hold}. The gate "
        f"was closed before the scores were shown: Holdfast account book {book[:16]}, line {line}."
    )
