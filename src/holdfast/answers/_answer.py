"""What a person gets: an answer, the certificate that states its promise, a preview, and what is left."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast import checks, queries
from holdfast.errors import HoldfastError
from holdfast.ledger import Receipt
from holdfast.records import Record, amount, framed_html, interval_words, plain, show

# Fields of a preview that may be infinite. JSON has null for that.
_PRICES = ("cell", "if_confirmed", "if_surprised", "at_most")
# An interval that covers a larger part of the range than this says nothing useful.
_NOTHING = 0.8


@dataclass(frozen=True, repr=False)
class Answer(Record):
    """One answer: ``value`` with an interval that holds together with all other answers of the account.

    The interval goes from ``low`` to ``high``. ``query`` is the question, and ``certificate`` the statement
    that is certified.

    Guarantee: with probability ``confidence`` every interval ever released from this account contains its
    true value, however the questions were chosen. ``cost`` is what this answer took from the account, counted
    in ``unit``: nats, or answers if their number is agreed on. ``guess`` is what was expected (NaN if the
    strategy has no guess). ``confirmed`` says whether the rows agreed with it. ``notes`` say in words what
    else to know. ``receipt`` shows that the account's book has this answer, if the book is signed.
    """

    value: float
    low: float
    high: float
    confidence: float
    cost: float
    query: queries.Query | str
    certificate: Certificate = field(repr=False)
    guess: float
    confirmed: bool
    notes: tuple[str, ...] = field(default=(), repr=False)
    receipt: Receipt | None = field(default=None, repr=False)
    unit: str = "nats"

    def __float__(self) -> float:
        return self.value

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def __repr__(self) -> str:
        value, interval = interval_words(self.value, self.low, self.high)
        return f"{self.query} = {value} in {interval} ({self._how}; {self._promise})"

    @property
    def _shown_guess(self) -> str:
        return interval_words(self.guess, self.low, self.high)[0]

    @property
    def _promise(self) -> str:
        if self.certificate.statement.startswith("Each"):
            return f"each answer holds with probability {self.confidence:.6g}"
        return f"all answers hold together with probability {self.confidence:.6g}"

    @property
    def _how(self) -> str:
        """Whether the answer was a surprise or as guessed, and what it cost."""
        if math.isnan(self.guess):
            noisy = self.certificate.interval.lower().endswith("noise")
            how = "with noise" if noisy else "without a guess, no noise added"
        elif self.confirmed:
            how = "as guessed" if self.value == self.guess else f"near the guess {self._shown_guess}"
        elif self.value == self.guess:
            how = "a surprise: as guessed, but wider than expected"
        else:
            how = f"a surprise: the protected rows disagree with the guess {self._shown_guess}"
        return f"{how}; cost {amount(self.cost, self.unit)}"

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values, the question as text."""
        fields = self._visible() | {"query": str(self.query)}
        return {
            **{name: plain(value) for name, value in fields.items()},
            "certificate": self.certificate.to_dict(),
            "notes": list(self.notes),
            "receipt": None if self.receipt is None else self.receipt.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Answer:
        """The answer that :meth:`to_dict` or :meth:`to_brief_dict` wrote, from ``values``. Entries that this
        version does not know are ignored, so that a newer service may say more."""
        receipt = values.get("receipt")
        return cls._from_plain(
            values,
            **_expected_from(values),
            certificate=Certificate.from_dict(values["certificate"]),
            receipt=None if receipt is None else Receipt.from_dict(receipt),
        )

    def to_brief_dict(self) -> dict[str, Any]:
        """The answer as plain values, without the sentences that all answers share: of the certificate only
        the answer's numbers."""
        own = {"interval": self.certificate.interval, "numbers": plain(self.certificate.numbers)}
        return {**self.to_dict(), "certificate": own}

    def _repr_html_(self) -> str:
        notes = "".join(f"<br><small>{html.escape(note)}</small>" for note in self.notes)
        value, interval = interval_words(self.value, self.low, self.high)
        return framed_html(
            f"<code>{html.escape(str(self.query))}</code><br><b>{value}</b> in {interval}<br>"
            f"<small>{html.escape(self._how)}; {self._promise}</small>{notes}"
        )


def _expected_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that answers and previews share, with the numbers that JSON cannot write."""
    missing = {"guess": math.nan, "low": -math.inf, "high": math.inf}
    numbers = {name: value if values[name] is None else values[name] for name, value in missing.items()}
    return {**numbers, "query": question_from(values["query"])}


def question_from(text: str) -> Any:
    """The question that a text stands for; the text itself if this version cannot read it."""
    try:
        return queries.read(text)
    except HoldfastError:
        return text


def tells_nothing(low: float, high: float, least: float, most: float) -> str:
    """The warning of a preview if the interval would cover nearly the whole range of the statistic."""
    if not math.isfinite(most - least) or high - low <= _NOTHING * (most - least):
        return ""
    return (
        f"This would tell you nothing: the interval would cover {(high - low) / (most - least):.0%} of the "
        f"range from {least:g} to {most:g}. Ask about more rows, about a narrower range, or with nats=3."
    )


def perhaps_too_wide(error: float) -> str:
    """The warning of a preview if only the rows decide whether a promised error can be kept."""
    return (
        f"If the rows are not as expected, the interval could be wider than the promised ±{error:g}. Then no "
        "answer is released, and the attempt is charged as an answer."
    )


@dataclass(frozen=True, repr=False)
class Preview(Record):
    """What a question would cost and show, from public facts alone.

    ``low`` and ``high`` are the interval if the guess is confirmed; ``cell`` is the step of the grid. If the
    strategy has no guess, ``guess`` is NaN and the interval is shown around the middle of the range: only its
    width counts. ``query`` is the question. The three prices are counted in ``unit``: ``if_confirmed``,
    ``if_surprised`` for the nearest surprise, and ``at_most`` for the most expensive output. ``known`` says
    whether the answer is recorded already and costs nothing.

    Guarantee: ``allowed`` is False if and only if asking now would be refused before any protected row is
    read, by the same rule and the same account; ``why`` states the reason. An allowed question can still turn
    out too wide for a promised error: that depends on the rows and is charged as an answer. If it can happen,
    ``why`` says so. ``why`` also says what the training part shows about the question.

    ``failure_closes`` warns that the account ends, for everyone, if the question cannot be computed on the
    protected rows.
    """

    query: queries.Query | str
    guess: float
    low: float
    high: float
    cell: float = 0.0
    if_confirmed: float = 0.0
    if_surprised: float = 0.0
    at_most: float = 0.0
    allowed: bool = True
    known: bool = False
    failure_closes: bool = False
    unit: str = "nats"
    why: str = ""

    @property
    def half_width(self) -> float:
        """Half the width of the interval if the guess is confirmed."""
        return (self.high - self.low) / 2

    @property
    def expected_half_width(self) -> float:
        """The half-width to expect, the cell included; infinite if nothing is known beforehand."""
        return self.half_width

    def to_dict(self) -> dict[str, Any]:
        """The preview as plain values, the question as text."""
        return {**super().to_dict(), "query": str(self.query)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preview:
        """The preview that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        prices = {name: math.inf for name in _PRICES if name in values and values[name] is None}
        return cls._from_plain(values, **_expected_from(values), **prices)

    def __repr__(self) -> str:
        if self.known:
            return f"{self.query}: answered before, costs nothing"
        if not self.allowed:
            return f"{self.query}: would be refused. {self.why}".rstrip()
        guess, interval = interval_words(self.guess, self.low, self.high)
        if self.width_alone:
            expected = f"{self.width_alone} for"
        else:
            expected = f"guess {guess}; if confirmed, {interval};"
        words = f"{self.query}: {expected} {self.prices}{self._warning}"
        return f"{words}. {self.why}" if self.why else words

    def _repr_html_(self) -> str:
        question = f"<p><code>{html.escape(str(self.query))}</code></p>"
        why = f"<p>{html.escape(self.why)}</p>" if self.why else ""
        if self.known:
            return framed_html(question, "<p>Answered before: costs nothing.</p>")
        if not self.allowed:
            return framed_html(question, "<p><b>Would be refused, and nothing charged.</b></p>", why)
        guess, interval = interval_words(self.guess, self.low, self.high)
        expected = self.width_alone or f"guess {guess}; if confirmed, {interval}"
        rows = [("expected", expected), ("price", self.prices)]
        if self.failure_closes:
            rows.append(("if it fails", "the account is closed"))
        body = "".join(f"<tr><th>{name}</th><td>{html.escape(words)}</td></tr>" for name, words in rows)
        return framed_html(question, f"<table>{body}</table>", why)

    @property
    def width_alone(self) -> str:
        """The width in words, if the strategy has no guess; empty if there is a guess."""
        if not math.isnan(self.guess):
            return ""
        return f"about ±{self.half_width:.3g}" if math.isfinite(self.half_width) else "unknown width"

    @property
    def prices(self) -> str:
        """The prices in words."""
        if self.if_confirmed == self.at_most:
            return amount(self.at_most, self.unit)
        return (
            f"{amount(self.if_confirmed, self.unit)} if confirmed, {self.if_surprised:.3g} for the nearest "
            f"surprise, at most {self.at_most:.3g}"
        )

    @property
    def _warning(self) -> str:
        return "; if it fails on the protected rows, the account is closed" if self.failure_closes else ""


class Left(float):
    """What is left of the account: a number of nats or answers, and the same in words.

    Infinite if no error was promised: nothing is ever refused then, the intervals only widen. ``total`` is
    what there was before the first question. ``share_half_width`` is the half-width that a share near one
    half gets if it is asked now and its guess is confirmed (NaN if that is not known). No share is wider.
    """

    words: str
    confirmed: int
    surprises: int
    unit: str
    total: float
    share_half_width: float
    _after: Callable[[int], float] | None

    def __new__(
        cls,
        number: float,
        *,
        words: str,
        confirmed: int,
        surprises: int,
        unit: str = "nats",
        total: float = math.inf,
        share_half_width: float = math.nan,
        after: Callable[[int], float] | None = None,
    ) -> Left:
        """A number of nats or answers, how many confirmed guesses or surprises it buys, and the sentence that
        says so."""
        left = super().__new__(cls, number)
        left.words, left.confirmed, left.surprises, left.unit = words, confirmed, surprises, unit
        left.total, left.share_half_width, left._after = total, share_half_width, after
        return left

    def share_half_width_after(self, questions: int) -> float:
        """The half-width that a share near one half would get after that many more ``questions`` whose
        guesses are as good as expected; NaN if that is not known."""
        if self._after is None:
            return math.nan
        return self._after(checks.whole(questions, "questions", at_least=0, of="Left.share_half_width_after"))

    @property
    def fraction(self) -> float:
        """How much of the total is left, in [0, 1]; 1 if nothing is ever refused."""
        if math.isinf(self):
            return 1.0
        return min(1.0, float(self) / self.total) if self.total > 0 else 0.0

    def __repr__(self) -> str:
        if self.unit != "nats" or math.isinf(self):
            return self.words
        return f"{float(self):.4g} nats: {self.words}"

    __str__ = __repr__

    def to_dict(self) -> dict[str, Any]:
        """What is left as plain values; ``left`` is None if nothing is ever refused."""
        return {
            "left": None if math.isinf(self) else float(self),
            "unit": self.unit,
            "words": self.words,
            "confirmed": self.confirmed,
            "surprises": self.surprises,
            "total": plain(float(self.total)),
            "share_half_width": plain(float(self.share_half_width)),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, after: Callable[[int], float] | None = None) -> Left:
        """What :meth:`to_dict` wrote, from ``values``. Entries that this version does not know are ignored.
        ``after`` returns the half-width after that many more questions; without it, that is not known."""
        total, half_width = values.get("total"), values.get("share_half_width")
        return cls(
            math.inf if values["left"] is None else values["left"],
            words=values["words"],
            confirmed=values["confirmed"],
            surprises=values["surprises"],
            unit=values.get("unit", "nats"),
            total=math.inf if total is None else total,
            share_half_width=math.nan if half_width is None else half_width,
            after=after,
        )

    def _repr_html_(self) -> str:
        return framed_html(self._as_html())

    def _as_html(self) -> str:
        """The sentence, with a bar if the budget is limited."""
        bar = ""
        if math.isfinite(self):
            bar = f"<meter min='0' max='1' value='{self.fraction:.4f}'></meter> {self.fraction:.0%} left<br>"
        return f"<p>{bar}{html.escape(repr(self))}</p>"


@dataclass(frozen=True, repr=False)
class Certificate(Record):
    """The statement that is certified, with its theorem, its numbers and its assumptions.

    ``statement`` is the promise in words, ``theorem`` the theorem that proves it, and ``numbers`` the numbers
    in it. ``interval`` names the method that read the interval. ``checked`` are conditions that the software
    enforces; ``assumed`` are conditions that no software can check from the data.
    """

    statement: str
    theorem: str
    numbers: dict[str, Any] = field(hash=False)
    checked: tuple[str, ...]
    assumed: tuple[str, ...]
    interval: str = field(default="")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Certificate:
        """The certificate that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored, and sentences that a brief form leaves out are empty."""
        defaults = {"statement": "", "theorem": "", "numbers": {}, "checked": (), "assumed": ()}
        return cls._from_plain({**defaults, **values})

    def __str__(self) -> str:
        lines = [self.statement, f"Theorem: {self.theorem}."]
        if self.interval:
            lines.append(f"Interval for a query fixed in advance: {self.interval}.")
        lines += [f"  {name}: {show(value)}" for name, value in self.numbers.items()]
        lines += ["Checked by the software:", *(f"  - {sentence}" for sentence in self.checked)]
        lines += [
            "Assumed, and not checkable from the data:",
            *(f"  - {sentence}" for sentence in self.assumed),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return framed_html(f"<pre>{html.escape(str(self))}</pre>")
