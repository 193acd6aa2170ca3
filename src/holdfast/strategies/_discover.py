"""Discoveries: claims such as "mean(x, 0, 1) > 0.5". Of those that are found to hold, few are false.

A claim is tested at a level that the account fixes before the rows are read: the rate, times the weight of
this question, times one more than the discoveries so far, times exp(−nats spent). One bit leaves, found or
not, and is priced like any output. So the expected share of false discoveries is at most the rate at every
time, however the claims were chosen (``docs/theory/statistics.md``, "Discoveries").
"""

from __future__ import annotations

import hashlib
import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from holdfast import checks
from holdfast.answers import Preview
from holdfast.coding import Account, Learned, Weights
from holdfast.errors import InvalidArgument, QueryRejected
from holdfast.readings import Part, Question, Reading, TableQuestion
from holdfast.records import Record, amount
from holdfast.strategies._strategy import Outcome

_CLAIM = re.compile(r"\s*(.*\S)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*\Z", re.DOTALL)
# The assumed share of claims that fail on the rows: one in a thousand.
_FAILS = 1e-3
CLAIM = "claim"
"""Key in what is released about a claim. Other answers do not have it."""


def split_claim(claim: str) -> tuple[str, str, float]:
    """The question, the sign and the number of a claim."""
    match = _CLAIM.match(claim) if isinstance(claim, str) else None
    try:
        if match is None:
            raise ValueError
        return match.group(1), match.group(2)[0], float(match.group(3))
    except ValueError:
        raise QueryRejected(
            f"Cannot read the claim {claim!r}; write a question, < or >, and a number, as in "
            "mean(income, 0, 1e5) > 3e4."
        ) from None


@dataclass(frozen=True, kw_only=True)
class ClaimQuestion(Question):
    """A claim about another question: that its value is above or below a number."""

    about: TableQuestion
    sign: str
    number: float
    rate: float

    @classmethod
    def of(cls, about: TableQuestion, sign: str, number: float, rate: float) -> ClaimQuestion:
        """The claim that a question's value is on one side of a number."""
        if about.kind == "cdf":
            raise QueryRejected(
                f"{about.text} is a whole distribution, and a claim is about one number: write a share or a "
                "quantile, as in share(income <= 3e4) > 0.5."
            )
        if not about.low <= number <= about.high:
            raise QueryRejected(
                f"{about.text} lies between {about.low:g} and {about.high:g}, so the claim {sign} {number:g} "
                "needs no test."
            )
        text = f"{about.text} {sign} {number!r}"
        return cls(
            key=hashlib.sha256(f"claim {about.key} {sign} {number!r}".encode()).hexdigest(),
            text=text,
            low=0.0,
            high=1.0,
            guess=None,
            kind="claim",
            about=about,
            sign=sign,
            number=number,
            rate=rate,
        )

    @property
    def in_process(self) -> bool:
        return False

    @property
    def wishes(self) -> dict[str, Any]:
        return {"guess": self.about.guess, "rate": self.rate}

    def with_wishes(self, wishes: dict[str, Any]) -> Self:
        return replace(self, rate=wishes["rate"], about=replace(self.about, guess=wishes["guess"]))

    @property
    def in_order(self) -> bool:
        return True  # Its level depends on how many claims were found.

    @property
    def record(self) -> Any:
        return self.text


@dataclass(frozen=True)
class PreparedClaim:
    """A claim at one step: everything here is public. ``level`` is ln(1/α′)."""

    question: ClaimQuestion
    reading: Reading
    level: float
    learned: Learned

    @property
    def worst_price(self) -> float:
        """The higher price of the two bits and of a failure."""
        return max(self._price(True), self._price(False), -math.log(_FAILS))

    def _price(self, holds: bool) -> float:
        probability = self.learned.claims.probability(holds)
        return -math.log((1 - _FAILS) * probability)

    @property
    def plan(self) -> dict[str, Any]:
        """The numbers by which the book distinguishes this plan from others."""
        return {"level": self.level}

    def preview(self) -> Preview:
        """What the claim would cost."""
        return Preview(
            query=self.question.text,
            guess=math.nan,
            low=0.0,
            high=1.0,
            if_confirmed=self._price(False),
            if_surprised=self._price(True),
            at_most=self.worst_price,
        )

    def read(self, part: Part) -> Outcome:
        """Read the rows once; one bit leaves."""
        measured = self.reading.measured(part)
        holds = measured is not None and (
            measured.interval.low > self.question.number
            if self.question.sign == ">"
            else measured.interval.high < self.question.number
        )
        return Outcome(
            price=self._price(holds),
            surprise=holds,
            released={
                CLAIM: True,
                "found": holds,
                "rate": self.question.rate,
                "level": self.level,
                "theorem": self.reading.theorem,
            },
            learned=self.learned.after_claim(found=holds, rate=self.question.rate),
        )

    def failed(self) -> Outcome:
        """The outcome if the rows could not be read: nothing is found."""
        return Outcome(
            price=-math.log(_FAILS),
            surprise=True,
            released=None,
            learned=self.learned.after_claim(found=False, rate=self.question.rate),
        )


def claim_level(account: Account, rate: float) -> float:
    """ln(1/α′) for the next claim of an account."""
    weights = Weights(expect=account.weights.expect)
    found_so_far = account.learned.claims.found
    return -math.log(rate) + weights.nats(account.steps + 1) + account.spent - math.log1p(found_so_far)


def whole_rate(rate: object) -> float:
    """A rate in whole millionths, rounded down: the book keeps and compares rates in this form."""
    return math.floor(checks.real(rate, "rate", "[1e-6, 1)", of="Guard.discover") * 1e6 + 1e-6) / 1e6


def require_one_rate(learned: Learned, rate: float) -> None:
    """Refuse a second rate: the promise covers all discoveries of an account together."""
    agreed = learned.claims.rate
    if agreed and agreed != rate:
        raise InvalidArgument(
            "rate", f"{agreed:g}, as in this account's other claims: the promise is about all of them", rate
        )


@dataclass(frozen=True, repr=False)
class Discovery(Record):
    """Whether a ``claim`` was ``found`` to hold, for a ``cost`` in ``unit``.

    Guarantee: of all claims that an account finds, at most the share ``rate`` is false, in expectation and at
    every time, however the claims were chosen. Nothing is promised about a claim that was not found.

    ``e_value`` is the evidence that counts in that promise: 1/α′ if the claim was found, else 0. ``level`` is
    α′, at which the claim was tested. ``theorem`` names the theorem behind the test.
    """

    claim: str
    found: bool
    e_value: float
    level: float
    rate: float
    cost: float
    theorem: str = field(default="", repr=False)
    unit: str = "nats"

    def to_dict(self) -> dict[str, Any]:
        """The discovery as plain values."""
        return {**super().to_dict(), "theorem": self.theorem}

    @classmethod
    def of(cls, claim: str, recorded: Mapping[str, Any], cost: float, unit: str) -> Discovery:
        """What the account book ``recorded`` about a ``claim``; ``cost`` is in ``unit``."""
        return cls(
            claim=claim,
            found=recorded["found"],
            e_value=math.exp(min(recorded["level"], 700.0)) if recorded["found"] else 0.0,
            level=math.exp(-recorded["level"]),
            rate=recorded["rate"],
            cost=cost,
            theorem=recorded["theorem"],
            unit=unit,
        )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Discovery:
        """The discovery that :meth:`to_dict` wrote, from ``values``. Entries that this version does not
        know are ignored."""
        return cls._from_plain(values)

    def __bool__(self) -> bool:
        return self.found

    def __repr__(self) -> str:
        result = "found" if self.found else "not found"
        return (
            f"{self.claim}: {result} (e-value {self.e_value:.3g}, tested at {self.level:.2g}; cost "
            f"{amount(self.cost, self.unit)}; at most {self.rate:g} of all that is found is false, in "
            "expectation)"
        )

    def _repr_html_(self) -> str:
        return f"<div>{html.escape(repr(self))}</div>"
